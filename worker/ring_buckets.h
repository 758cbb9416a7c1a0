#ifndef COHORT_WORKER_RING_BUCKETS_H_
#define COHORT_WORKER_RING_BUCKETS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/collective/element_span.h"
#include "common/exchange/variable_access.h"
#include "common/graph/program.h"
#include "common/tensor/buffer.h"

namespace cohort {

namespace v1 {
class Routes;
}  // namespace v1

// The dense gradients of a program, in buffers that the ranks of a group sum. The parts of a buffer
// are those of the servers: part r has the rows that the r-th server owns, shard after shard. So
// the reduce-scatter gives each server's rank the sum of its own shards.
//
// Buckets follow the pushes of the program from the last one to the first, because the backward
// pass finishes the gradients of the last layers first. They depend only on the program and the
// routes, so all ranks have the same ones. Not thread-safe.
class RingBuckets {
 public:
  // `servers`: by rank the number of its server (PsRoute.ps). `bucket_bytes`: the most of a bucket,
  // unless one gradient has more. Errors: InvalidArgument if the program does not fit the routes.
  static absl::StatusOr<std::unique_ptr<RingBuckets>> Make(const Program& program,
                                                           const v1::Routes& routes,
                                                           std::span<const uint32_t> servers,
                                                           int rank, uint64_t bucket_bytes);

  size_t size() const { return buckets_.size(); }
  ElementSpan buffer(size_t bucket);
  std::span<const uint64_t> part_ends(size_t bucket) const { return buckets_[bucket].part_ends; }
  // The pushes of the program that lie in the bucket.
  std::span<const size_t> pushes(size_t bucket) const { return buckets_[bucket].pushes; }
  // The bucket of a push; -1: none, because it is no dense gradient.
  int bucket_of(size_t push) const { return bucket_of_[push]; }

  // Writes the gradients of the first place into a bucket, or adds those of another place.
  void Add(size_t bucket, std::span<const PushItem> pushes, bool first);
  // The shards of the own part of all buckets, ascending. They refer to the buffers.
  std::span<const ShardSum> own_sums() const { return own_sums_; }

 private:
  // Consecutive elements of a gradient that belong to one shard.
  struct Run {
    size_t push = 0;
    uint64_t from = 0;  // element of the gradient
    uint64_t to = 0;    // element of the buffer
    uint64_t elements = 0;
    uint32_t shard = 0;
    int rank = 0;
  };
  struct Bucket {
    DType dtype = DType::kFloat32;
    std::vector<size_t> pushes;
    std::vector<Run> runs;
    std::vector<uint64_t> part_ends;
    BufferRef memory;
  };

  // Gives each run its place in the buffer.
  static void Arrange(Bucket* bucket, size_t ranks);

  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_;
  std::vector<ShardSum> own_sums_;
};

}  // namespace cohort

#endif  // COHORT_WORKER_RING_BUCKETS_H_

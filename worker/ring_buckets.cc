#include "worker/ring_buckets.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "common/base/status.h"
#include "common/collective/add_elements.h"
#include "common/exchange/exchange_routes.h"

namespace cohort {
namespace {

bool IsDenseGradient(const Push& push) {
  return push.kind == PushKind::kGradient && push.keys == kNoValue;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RingBuckets>> RingBuckets::Make(const Program& program,
                                                               const v1::Routes& routes,
                                                               std::span<const uint32_t> servers,
                                                               int rank, uint64_t bucket_bytes) {
  COHORT_ASSIGN_OR_RETURN(const auto routed, ProgramRoutes::Make(routes, program.variables));
  std::map<uint32_t, int> ranks;
  for (size_t i = 0; i < servers.size(); ++i) ranks[servers[i]] = static_cast<int>(i);
  auto made = std::make_unique<RingBuckets>();
  made->bucket_of_.assign(program.pushes.size(), -1);
  uint64_t bytes = 0;  // in the newest bucket
  for (size_t p = program.pushes.size(); p-- > 0;) {
    const Push& push = program.pushes[p];
    if (!IsDenseGradient(push)) continue;
    const DType dtype = program.type(push.value).dtype;
    const VariableRoute& variable = routed->variables[static_cast<size_t>(push.variable)];
    const uint64_t added = variable.rows * variable.row_bytes();
    if (made->buckets_.empty() || made->buckets_.back().dtype != dtype ||
        (bytes > 0 && bytes + added > bucket_bytes)) {
      made->buckets_.push_back({.dtype = dtype});
      bytes = 0;
    }
    bytes += added;
    Bucket& bucket = made->buckets_.back();
    bucket.pushes.push_back(p);
    made->bucket_of_[p] = static_cast<int>(made->buckets_.size()) - 1;
    if (variable.hashed.has_value()) {
      return Unimplemented(
          "variable '{}' has a dense gradient, and its rows are partitioned by hash, which rings "
          "do "
          "not sum: remove `rows: hash` of strategy.partitioner, or write `communication: direct`",
          variable.name);
    }
    for (const ShardRoute& shard : variable.shards) {
      const TabletRoute& tablet = routed->tablets[static_cast<size_t>(shard.tablet)];
      const uint32_t ps = routed->servers[static_cast<size_t>(tablet.server)].ps;
      const auto owner = ranks.find(ps);
      if (owner == ranks.end()) {
        return InvalidArgument("variable '{}' has a shard on ps:{}, which no replica owns",
                               variable.name, ps);
      }
      const Run run{.push = p,
                    .from = shard.row_begin * variable.row_elements,
                    .elements = shard.rows * variable.row_elements,
                    .shard = shard.shard,
                    .rank = owner->second};
      bucket.runs.push_back(run);
    }
  }
  for (Bucket& bucket : made->buckets_) {
    Arrange(&bucket, servers.size());
    for (const Run& run : bucket.runs) {
      if (run.rank != rank) continue;
      made->own_sums_.push_back({run.shard, bucket.memory->data() + run.to * SizeOf(bucket.dtype)});
    }
  }
  std::sort(made->own_sums_.begin(), made->own_sums_.end(),
            [](const ShardSum& a, const ShardSum& b) { return a.shard < b.shard; });
  return made;
}

void RingBuckets::Arrange(Bucket* bucket, size_t ranks) {
  std::stable_sort(bucket->runs.begin(), bucket->runs.end(),
                   [](const Run& a, const Run& b) { return a.rank < b.rank; });
  bucket->part_ends.assign(ranks, 0);
  uint64_t end = 0;
  size_t next = 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (; next < bucket->runs.size() && bucket->runs[next].rank == static_cast<int>(rank);
         ++next) {
      bucket->runs[next].to = end;
      end += bucket->runs[next].elements;
    }
    bucket->part_ends[rank] = end;
  }
  bucket->memory = BufferRef::Allocate(end * SizeOf(bucket->dtype));
}

ElementSpan RingBuckets::buffer(size_t bucket) {
  Bucket& of = buckets_[bucket];
  return {of.dtype, of.memory->data(), of.part_ends.back()};
}

void RingBuckets::Add(size_t bucket, std::span<const PushItem> pushes, bool first) {
  const ElementSpan to = buffer(bucket);
  const uint64_t item = SizeOf(to.dtype());
  for (const Run& run : buckets_[bucket].runs) {
    const uint8_t* const from =
        static_cast<const uint8_t*>(pushes[run.push].value) + run.from * item;
    if (first) {
      std::memcpy(to.at(run.to), from, run.elements * item);
    } else {
      AddElements(to.dtype(), to.at(run.to), from, run.elements);
    }
  }
}

}  // namespace cohort

#ifndef COHORT_WORKER_RESOURCES_H_
#define COHORT_WORKER_RESOURCES_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/data/dataset.h"
#include "common/data/stream_reader.h"
#include "worker/read_position.h"

namespace cohort {

namespace v1 {
class CreateResource;
class Lease;
}  // namespace v1

// The per-worker resources of the step thread, by name: datasets of which each worker has its own
// copy.
class Resources {
 public:
  explicit Resources(const DataOptions& options) : options_(options) {}

  // Opens the dataset and a reader, which begins at the position of the spec. Replaces a resource
  // of the same name and reuses its dataset if that is the same. Errors: those of Dataset::Open
  // and BatchReader, annotated with the name; InvalidArgument if the data differ from the data
  // that the chief has read. A stream opens its files when leases name them.
  absl::Status Create(const v1::CreateResource& spec);
  void Clear() { resources_.clear(); }

  // Steps that may be bound ahead of the one that runs: a batch stays valid for one call more.
  void SetPullAhead(uint32_t limit) { pull_ahead_ = limit; }

  // Returns the batch of a lease or, if `lease` is null (visitation independent), the next batch.
  // The batch stays valid for 1 + SetPullAhead more calls for the same resource. Sets timeline and
  // batches of `read` to the position of an independent reader. Errors: NotFound (no such
  // resource), OutOfRange (the end of an independent dataset), InvalidArgument (a lease for an
  // independent reader, or no lease for a leased one).
  absl::StatusOr<const BatchReader::Batch*> Next(const std::string& name, const v1::Lease* lease,
                                                 ReadPosition* read);

  // Announces a lease that will be read after those announced before. Ignores unknown names.
  void Announce(const std::string& name, const v1::Lease& lease);

 private:
  void CreateStream(const v1::CreateResource& spec);

  struct Resource {
    std::pair<size_t, uint64_t> opened;  // size and hash of the dataset's spec, which may be large
    std::shared_ptr<const Dataset> dataset;
    std::unique_ptr<BatchReader> reader;
    std::unique_ptr<StreamReader> stream;  // visitation stream: instead of both
    uint64_t timeline = 0;
    uint64_t read = 0;  // batches that an independent reader has returned
    bool leased = false;
    // The reader writes one batch while a program still refers to the others.
    std::vector<BatchReader::Batch> batches;
    size_t turn = 0;
  };
  const DataOptions options_;
  uint32_t pull_ahead_ = 0;
  std::map<std::string, Resource, std::less<>> resources_;
};

}  // namespace cohort

#endif  // COHORT_WORKER_RESOURCES_H_

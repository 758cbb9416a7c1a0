#ifndef COHORT_WORKER_RESOURCES_H_
#define COHORT_WORKER_RESOURCES_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "common/data/dataset.h"
#include "worker/read_to.h"

namespace cohort {

namespace v1 {
class CreateResource;
class Lease;
}  // namespace v1

// The per-worker resources of the step thread: datasets that this worker has its own copy of, by
// name.
class Resources {
 public:
  explicit Resources(const DataOptions& options) : options_(options) {}

  // Opens the dataset and a reader of it, which begins where the spec says; replaces one of the
  // same name, whose dataset it uses again where that is the same. Errors: those of Dataset::Open
  // and BatchReader, annotated with the name; InvalidArgument where its data are not those of the
  // spec.
  absl::Status Create(const v1::CreateResource& spec);
  void Clear() { resources_.clear(); }

  // The next batch (`lease` null: visitation independent) or that of a lease. It stays as it is
  // until the next but one of the same resource. Errors: NotFound (no such resource), OutOfRange
  // (the end of an independent dataset), InvalidArgument (a lease where none is used, or the other
  // way round). `read`: where an independent reader is then; its resource is the caller's.
  absl::StatusOr<const BatchReader::Batch*> Next(const std::string& name, const v1::Lease* lease,
                                                 ReadTo* read);

  // A lease that will be read, after those announced before. Unknown names are ignored.
  void Announce(const std::string& name, const v1::Lease& lease);

 private:
  struct Resource {
    std::string opened;  // the spec of the dataset, as bytes
    std::shared_ptr<const Dataset> dataset;
    std::unique_ptr<BatchReader> reader;
    uint64_t timeline = 0;
    uint64_t read = 0;  // batches: how far an independent reader has come
    bool leased = false;
    // Two, so that the reader may write one while a program still refers to the other.
    BatchReader::Batch batches[2];
    int turn = 0;
  };
  const DataOptions options_;
  std::map<std::string, Resource, std::less<>> resources_;
};

}  // namespace cohort

#endif  // COHORT_WORKER_RESOURCES_H_

#ifndef COHORT_CHIEF_API_CLOSURE_RESULTS_H_
#define COHORT_CHIEF_API_CLOSURE_RESULTS_H_

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "chief/api/remote_value.h"

namespace cohort::v1 {
class ClosureResult;
}

namespace cohort {

// The RemoteValues that wait for their closures, by the core's token. One thread at a time may use
// it.
class ClosureResults {
 public:
  // `listener`: of the calls of Fetch that wait; may be null.
  explicit ClosureResults(std::shared_ptr<FetchListener> listener = nullptr)
      : listener_(std::move(listener)) {}

  std::pair<uint64_t, RemoteValue> New();
  // Drops a value whose closure was not accepted.
  void Forget(uint64_t token) { waiting_.erase(token); }
  // Sets the value. Reads `result` only if the status is OK. Ignores unknown tokens.
  void Finish(uint64_t token, const absl::Status& status, const v1::ClosureResult* result);
  // Finishes all values with `status`.
  void FinishAll(const absl::Status& status);

 private:
  static void Set(RemoteValue::State* state, const absl::Status& status,
                  const v1::ClosureResult* result);
  const std::shared_ptr<FetchListener> listener_;
  uint64_t next_ = 1;
  absl::flat_hash_map<uint64_t, std::shared_ptr<RemoteValue::State>> waiting_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_CLOSURE_RESULTS_H_

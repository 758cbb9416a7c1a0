#ifndef COHORT_DEPLOY_TOP_JOB_STATUS_SOURCE_H_
#define COHORT_DEPLOY_TOP_JOB_STATUS_SOURCE_H_

#include <absl/status/statusor.h>

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace cohort {

// Asks the chief of a job for its status.
class JobStatusSource {
 public:
  // `target`: the address of the chief's admin port ("host:port"), or a path for FindControlSocket.
  explicit JobStatusSource(std::string target) : target_(std::move(target)) {}

  // Returns the object that docs/cluster.md describes under `cohort ctl RUN status --json`. Waits a
  // few seconds at most. Errors: NotFound if there is no such run or no chief at this address;
  // Unavailable if the chief does not answer; DataLoss if the answer is something else.
  absl::StatusOr<nlohmann::json> Read() const;

 private:
  absl::StatusOr<std::string> ReadText() const;

  const std::string target_;
};

}  // namespace cohort

#endif  // COHORT_DEPLOY_TOP_JOB_STATUS_SOURCE_H_

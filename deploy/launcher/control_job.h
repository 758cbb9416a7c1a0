#ifndef COHORT_DEPLOY_LAUNCHER_CONTROL_JOB_H_
#define COHORT_DEPLOY_LAUNCHER_CONTROL_JOB_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

namespace cohort {

// The flags of `cohort ctl`. A number below 0, or an empty text, is not given.
struct ControlOptions {
  std::string run;      // a path for FindControlSocket
  std::string command;  // status, checkpoint, stop, set-mode, ...
  std::string mode;     // set-mode; set: what, "learning_rate"; a server or a task
  std::string value;    // set
  int64_t epochs = -1;  // extend
  int64_t closures_per_step = -1;
  int64_t staleness = -1;
  std::string backup_work;
  int64_t replicas_to_aggregate = -1;
  bool json = false;  // print the answer as it came
};

// Runs `cohort ctl`: sends the command to the chief of a running job, and returns the text to
// print. Errors: InvalidArgument (exit 64) for a wrong command line; those of FindControlSocket and
// CallControl.
absl::StatusOr<std::string> ControlJob(const ControlOptions& options);

// Returns the answer to `command`, a JSON object, as text for people.
std::string ControlText(const std::string& command, const std::string& answer);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_CONTROL_JOB_H_

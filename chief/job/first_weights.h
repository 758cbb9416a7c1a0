#ifndef COHORT_CHIEF_JOB_FIRST_WEIGHTS_H_
#define COHORT_CHIEF_JOB_FIRST_WEIGHTS_H_

#include <absl/status/statusor.h>

#include <string>

#include "chief/job/job_console.h"
#include "chief/job/job_controls.h"
#include "chief/job/job_directory.h"
#include "chief/job/job_plan.h"
#include "common/base/log.h"
#include "common/weights/initial_weights.h"

namespace cohort {

// Logs a key of the job that differs from that of a checkpoint.
void LogChange(const KeyChange& change, const JobLines& lines, Logger* log);

// The values that the variables of a job begin with, if they are not those of initializers: from
// the file that `initial_weights` names, or from the checkpoints of a former job in the directory.
// They lie in the checkpoint directory (kInitialValuesName) until servers have read them.
class FirstWeights {
 public:
  // All outlive the object. The directory is locked.
  FirstWeights(const JobPlan* plan, JobDirectory* directory, JobConsole* console, Logger* log)
      : plan_(plan), directory_(directory), console_(console), log_(log) {}

  // Reads all values that `initial_weights` names, which the job has. Errors: as of Write; those of
  // JobDirectory::CheckKeeps.
  absl::Status Check();
  // The job takes only the weights of the newest checkpoint. Writes them, and moves the checkpoints
  // of the former job away. Errors: FailedPrecondition (exit code 78) if no variable fits; nothing
  // has moved then.
  absl::Status TakeFromFormerJob(const NewTraining& training, JobControls* controls);
  // There is no checkpoint of this job yet: writes the values, if there are any. Keeps the file of
  // an earlier start: servers may hold its values.
  absl::Status Write();

 private:
  // The weights of the newest checkpoint of a directory that fit the model.
  absl::StatusOr<InitialWeights> OfCheckpoints(const std::string& directory) const;
  // Those that `initial_weights` names.
  absl::StatusOr<InitialWeights> OfJobFile();
  absl::Status WriteOfJobFile();
  // Prints what differs between the job of a checkpoint and this one. Does nothing for a file of
  // another kind.
  void ReportDifferences(const std::string& checkpoint);

  const JobPlan* const plan_;
  JobDirectory* const directory_;
  JobConsole* const console_;
  Logger* const log_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_FIRST_WEIGHTS_H_

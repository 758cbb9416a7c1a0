#ifndef COHORT_CHIEF_JOB_CONTROL_NOTE_H_
#define COHORT_CHIEF_JOB_CONTROL_NOTE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

namespace cohort {

// What `cohort ctl` has changed of a job, in a file of its checkpoint directory, for the chief that
// is restarted. Learning rates and modes are in the journal.
struct ControlNote {
  bool paused = false;
  uint64_t epochs = 0;          // `extend`; 0: those of the job file
  uint64_t epochs_of_file = 0;  // when it was extended: another value in the file replaces `epochs`
};

// Returns an empty note if the file does not exist. Errors: DataLoss if it cannot be read.
absl::StatusOr<ControlNote> ReadControlNote(const std::string& directory);
absl::Status WriteControlNote(const std::string& directory, const ControlNote& note);

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_CONTROL_NOTE_H_

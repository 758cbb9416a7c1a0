#ifndef COHORT_CHIEF_JOB_CONTROL_NOTE_H_
#define COHORT_CHIEF_JOB_CONTROL_NOTE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <set>
#include <string>

namespace cohort {

// What a user has changed of a job, in a file of its checkpoint directory, for the chief that is
// restarted. Learning rates and modes are in the journal.
struct ControlNote {
  bool paused = false;
  uint64_t epochs = 0;          // `extend`; 0: those of the job file
  uint64_t epochs_of_file = 0;  // when it was extended: another value in the file replaces `epochs`
  // The learning rate of the job file that has replaced those set before, while the newest
  // checkpoint has another one; "": none.
  std::string edited_rate;

  std::set<int> fenced_workers;

  bool operator==(const ControlNote&) const = default;
};

// Returns an empty note if the file does not exist. Errors: DataLoss if it cannot be read.
absl::StatusOr<ControlNote> ReadControlNote(const std::string& directory);
absl::Status WriteControlNote(const std::string& directory, const ControlNote& note);
// Does nothing if there is no note.
absl::Status DeleteControlNote(const std::string& directory);

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_CONTROL_NOTE_H_

#ifndef COHORT_CHIEF_JOB_FORMER_JOB_H_
#define COHORT_CHIEF_JOB_FORMER_JOB_H_

#include <absl/status/statusor.h>

#include <optional>
#include <string>

#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/manifest.h"

namespace cohort {

// A job that starts from the weights of another one, in the same checkpoint directory. The
// checkpoints of the former job move into a directory `former-1`, `former-2`, ... below it, and no
// retention deletes them. A note, the file `former_job`, is written first. So a chief that is
// killed in between finishes the move and does not begin a second one:
//
//   1. The chief writes the values that its variables begin with (WriteInitialValues). The former
//      job still has all of its checkpoints.
//   2. The chief writes the note. From here on nothing is decided again.
//   3. The checkpoints move, oldest first, and the records of the journal are deleted.
//   4. The note says that they have moved.
struct FormerJob {
  std::string directory;    // "former-1"
  CheckpointId checkpoint;  // whose weights the job starts from
  bool moved = false;

  // "former-1/ckpt-1-1-4"
  std::string CheckpointName() const;
};

// Reads the note; nullopt: the directory has had one job. Errors: DataLoss if something else wrote
// the file; those of ReadFile.
absl::StatusOr<std::optional<FormerJob>> ReadFormerJob(const std::string& checkpoint_dir);

// Does steps 2 to 4. `may_write` is called before each change and ends it with its error.
absl::StatusOr<FormerJob> SetJobAside(const std::string& checkpoint_dir,
                                      const CheckpointId& checkpoint, const MayWrite& may_write);
// Does steps 3 and 4 of a chief that was killed.
absl::Status FinishSettingAside(const std::string& checkpoint_dir, const MayWrite& may_write,
                                FormerJob* job);

// For --fresh: removes the note. The checkpoints of former jobs stay.
absl::Status RemoveFormerNote(const std::string& checkpoint_dir, const MayWrite& may_write);

// Deletes the records of the journal in `directory`. The files that number the generations stay:
// tasks may know them.
absl::Status DeleteJournals(const std::string& directory, const MayWrite& may_write);

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_FORMER_JOB_H_

#include "chief/api/owned_directory.h"

#include <utility>

#include "chief/api/coordinator.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/directory_lock.h"
#include "common/checkpoint/file.h"

namespace cohort {

OwnedDirectory::OwnedDirectory(std::string path, std::shared_ptr<DirectoryLock> lock,
                               std::string token)
    : path_(std::move(path)), lock_(std::move(lock)), token_(std::move(token)) {}

absl::StatusOr<std::unique_ptr<OwnedDirectory>> OwnedDirectory::Take(
    const CoordinatorOptions& options) {
  std::shared_ptr<DirectoryLock> lock = options.lock;
  if (lock == nullptr) {
    COHORT_RETURN_IF_ERROR(MakeDirectories(options.checkpoint_dir));
    COHORT_ASSIGN_OR_RETURN(lock, DirectoryLock::Take({.directory = options.checkpoint_dir,
                                                       .job = options.job,
                                                       .incarnation = options.chief_incarnation,
                                                       .takeover = options.takeover}));
  }
  COHORT_ASSIGN_OR_RETURN(std::string token,
                          CreateDirectoryToken(options.checkpoint_dir, options.chief_incarnation,
                                               [&lock] { return lock->Check(); }));
  // The former chief of a takeover may be writing into one.
  if (!options.takeover) RemoveEmptyCheckpoints(options.checkpoint_dir);
  std::unique_ptr<OwnedDirectory> owned(
      new OwnedDirectory(options.checkpoint_dir, std::move(lock), std::move(token)));
  COHORT_RETURN_IF_ERROR(MakeDirectories(owned->journal_path()));
  return owned;
}

absl::StatusOr<JournalContents> OwnedDirectory::ReadJournal(Logger* log) const {
  COHORT_ASSIGN_OR_RETURN(JournalContents journal, ReadJournalOf(path_, journal_path()));
  if (!journal.records.empty()) return journal;
  COHORT_ASSIGN_OR_RETURN(const auto checkpoints, ListCheckpoints(path_));
  // The checkpoints were copied here, or the whole journal was moved away.
  if (!checkpoints.empty()) {
    log->Warning("journal_missing",
                 {{"directory", journal_path()}, {"continues_from", checkpoints.back().directory}});
  }
  return journal;
}

absl::Status OwnedDirectory::Check() const { return lock_->Check(); }

}  // namespace cohort

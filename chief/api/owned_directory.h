#ifndef COHORT_CHIEF_API_OWNED_DIRECTORY_H_
#define COHORT_CHIEF_API_OWNED_DIRECTORY_H_

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "chief/api/journal_thread.h"

namespace cohort {

class DirectoryLock;
class Logger;
struct CoordinatorOptions;

// The checkpoint directory of a chief that runs: the lock that the chief holds, the token that
// servers look for, and the journal's directory. The lock is released with this object. All
// functions are const, and any thread may call them.
class OwnedDirectory {
 public:
  // Takes the lock, unless the caller has taken it. Creates the token and the journal's directory,
  // and removes the empty directories of failed checkpoints, except in a takeover.
  // Errors: those of DirectoryLock::Take and CreateDirectoryToken; of the disk.
  static absl::StatusOr<std::unique_ptr<OwnedDirectory>> Take(const CoordinatorOptions& options);

  // Reads the journal before the chief starts. Logs a warning if there are checkpoints but no
  // journal: the chief continues from the newest one. Errors: those of ReadJournalOf.
  absl::StatusOr<JournalContents> ReadJournal(Logger* log) const;
  // Returns OK while the directory belongs to this chief. Errors: those of DirectoryLock::Check.
  absl::Status Check() const;

  const std::string& path() const { return path_; }
  std::string journal_path() const { return path_ + "/journal"; }
  // The token's name.
  const std::string& token() const { return token_; }

 private:
  OwnedDirectory(std::string path, std::shared_ptr<DirectoryLock> lock, std::string token);

  const std::string path_;
  const std::shared_ptr<DirectoryLock> lock_;
  const std::string token_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_OWNED_DIRECTORY_H_

#ifndef COHORT_COMMON_CHECKPOINT_CHECKPOINT_DIRECTORY_H_
#define COHORT_COMMON_CHECKPOINT_CHECKPOINT_DIRECTORY_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/checkpoint/manifest.h"

namespace cohort {

// One committed checkpoint: a directory that has a manifest. Whether it is whole is another matter.
struct CheckpointEntry {
  CheckpointId id;
  std::string directory;
  std::string manifest;  // path of manifest.json
};

// The committed checkpoints in `directory`, oldest first; empty where there is no such directory.
absl::StatusOr<std::vector<CheckpointEntry>> ListCheckpoints(const std::string& directory);

// Is told of each checkpoint that was refused, with its path and the reason.
using RefusedCallback = std::function<void(const std::string& manifest, const absl::Status& why)>;

// The newest checkpoint that is whole: manifest and all files agree with their checksums. Newer
// ones that are not are reported to `refused`. Nullopt where there is none.
absl::StatusOr<std::optional<CheckpointEntry>> NewestValid(const std::string& directory,
                                                           const RefusedCallback& refused);

// The newest checkpoint whose manifest can be read, with that in `*manifest`: what it says counts,
// whether or not its files are whole, and they are not looked at. Newer ones whose manifest cannot
// be read are passed over in silence; NewestValid tells of them. Nullopt where there is none.
absl::StatusOr<std::optional<CheckpointEntry>> NewestReadable(const std::string& directory,
                                                              v1::Manifest* manifest);

// The checkpoint that lies in this directory, whatever its name. Errors: DataLoss where it is not
// whole; NotFound where there is no manifest.
absl::StatusOr<CheckpointEntry> CheckpointAt(const std::string& checkpoint_dir);

// Whether the directory is still the caller's to write to. May be empty: it is.
using MayWrite = std::function<absl::Status()>;

struct RetentionOptions {
  uint32_t max_to_keep = 5;  // 0: all
  // The caller's word that this one is whole (it has just been committed): saves reading it again.
  std::optional<CheckpointId> known_valid;
  // Kept too, beside the newest ones.
  std::optional<CheckpointId> best;
  // Asked before each is deleted: an error ends the deletion with it.
  MayWrite may_delete;
};

// Deletes committed checkpoints beyond the newest `max_to_keep`, never the newest valid one nor
// `best`, and what cuts that were never committed left behind before it. Of each the manifest goes
// first, durably, so that a crash half way leaves no checkpoint that looks whole. Returns the names
// of what was deleted.
absl::StatusOr<std::vector<std::string>> DeleteOldCheckpoints(const std::string& directory,
                                                              const RetentionOptions& options);

// Deletes one checkpoint directory, committed or not, manifest first. One that is not there is no
// error.
absl::Status DeleteCheckpoint(const std::string& checkpoint_dir);

// The token: a file that the chief makes in the checkpoint directory at its start and that every
// parameter server must see there, which proves that they share the directory. `nonce` differs from
// start to start (the chief's incarnation). Makes the directory where there is none; tokens of
// earlier starts are removed. `may_write` is asked before each of these steps: an error ends them
// with it. Returns the token's name.
absl::StatusOr<std::string> CreateDirectoryToken(const std::string& directory, uint64_t nonce,
                                                 const MayWrite& may_write = nullptr);

// Errors: FailedPrecondition that says which directory this task does not share with the chief.
absl::Status CheckDirectoryToken(const std::string& directory, std::string_view token);

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_CHECKPOINT_DIRECTORY_H_

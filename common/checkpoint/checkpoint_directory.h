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

// One committed checkpoint: a directory that has a manifest. Its files may still be damaged.
struct CheckpointEntry {
  CheckpointId id;
  std::string directory;
  std::string manifest;  // path of manifest.json
};

// The committed checkpoints in `directory`, oldest first; empty if there is no such directory.
absl::StatusOr<std::vector<CheckpointEntry>> ListCheckpoints(const std::string& directory);

// Called for each checkpoint that was refused, with its path and the reason.
using RefusedCallback = std::function<void(const std::string& manifest, const absl::Status& why)>;

// The newest complete checkpoint: its manifest and all files agree with their checksums. Calls
// `refused` for newer ones that are not complete. Nullopt if there is none. Error: that of
// CheckFormat (format_version.h) if a newer Cohort has written a newer one. `after_step`: as for
// VerifyFiles.
absl::StatusOr<std::optional<CheckpointEntry>> NewestValid(
    const std::string& directory, const RefusedCallback& refused,
    std::optional<uint64_t> after_step = std::nullopt);

// The newest checkpoint whose manifest can be read; `*manifest` receives it. Its files are not
// read. Skips newer ones whose manifest cannot be read; NewestValid reports them. Nullopt if there
// is none. Error: as for NewestValid.
absl::StatusOr<std::optional<CheckpointEntry>> NewestReadable(const std::string& directory,
                                                              v1::Manifest* manifest);

// The checkpoint in this directory, whatever its name is. Errors: DataLoss if it is not complete;
// NotFound if there is no manifest.
absl::StatusOr<CheckpointEntry> CheckpointAt(const std::string& checkpoint_dir);

// Returns an error if the directory does not belong to the caller any more. May be empty.
using MayWrite = std::function<absl::Status()>;

struct RetentionOptions {
  uint32_t max_to_keep = 5;  // 0: all
  // A checkpoint that the caller knows to be complete (it has just been committed), so that it is
  // not read again.
  std::optional<CheckpointId> known_valid;
  // Kept in addition to the newest ones.
  std::optional<CheckpointId> best;
  // Called before each deletion; an error ends all of it.
  MayWrite may_delete;
};

// Deletes committed checkpoints beyond the newest `max_to_keep`, but never the newest valid one nor
// one after it, nor `best`, nor one that a kept one is an increment of. Also deletes the remains of
// older cuts that were never committed. Deletes each manifest first, durably, so that a crash
// leaves no checkpoint that looks complete. Returns the names of the deleted checkpoints. Deletes
// nothing, and returns the error, if the manifest of a kept one cannot be read.
absl::StatusOr<std::vector<std::string>> DeleteOldCheckpoints(const std::string& directory,
                                                              const RetentionOptions& options);

// Deletes one checkpoint directory, committed or not, manifest first. OK if it does not exist.
absl::Status DeleteCheckpoint(const std::string& checkpoint_dir);

// Deletes what cuts up to this one have left without a manifest. A cut that may still be committed
// must not be among them. `may_delete`: as in RetentionOptions.
absl::Status DeleteUncommitted(const std::string& directory, const CheckpointId& newest,
                               const MayWrite& may_delete);

// Removes the directories of checkpoints that have nothing in them: servers remove the files that
// they could not write.
void RemoveEmptyCheckpoints(const std::string& directory);

// Creates the token: a file that the chief creates in the checkpoint directory when it starts.
// Every parameter server must see it there, which proves that they share the directory. `nonce` is
// the chief's incarnation, which differs from start to start. Creates the directory if needed, and
// removes the tokens of earlier starts. Calls `may_write` before each of these steps; an error ends
// them. Returns the token's name.
absl::StatusOr<std::string> CreateDirectoryToken(const std::string& directory, uint64_t nonce,
                                                 const MayWrite& may_write = nullptr);

// Errors: FailedPrecondition that names the directory if this task does not share it with the
// chief.
absl::Status CheckDirectoryToken(const std::string& directory, std::string_view token);

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_CHECKPOINT_DIRECTORY_H_

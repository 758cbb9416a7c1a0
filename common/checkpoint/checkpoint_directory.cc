#include "common/checkpoint/checkpoint_directory.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/format_version.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

constexpr std::string_view kTokenPrefix = ".cohort-token-";

bool Exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// The directories with the name of a checkpoint, committed or not, oldest first.
absl::StatusOr<std::vector<CheckpointEntry>> ListAll(const std::string& directory) {
  COHORT_ASSIGN_OR_RETURN(const auto names, ListDirectory(directory));
  std::vector<CheckpointEntry> entries;
  for (const std::string& name : names) {
    const auto id = CheckpointId::Parse(name);
    if (!id.has_value()) continue;
    const std::string path = JoinPath(directory, name);
    entries.push_back({*id, path, JoinPath(path, kManifestName)});
  }
  std::sort(entries.begin(), entries.end(),
            [](const CheckpointEntry& a, const CheckpointEntry& b) { return a.id < b.id; });
  return entries;
}

// Checks that a committed checkpoint matches its name and is complete.
absl::Status Verify(const CheckpointEntry& entry, std::optional<uint64_t> after_step) {
  COHORT_ASSIGN_OR_RETURN(const v1::Manifest manifest, ReadManifest(entry.manifest));
  if (IdOf(manifest) != entry.id) {
    return DataLoss("{}: is the manifest of {}", entry.manifest, IdOf(manifest).ToString());
  }
  return VerifyFiles(entry.directory, manifest, /*checksums=*/true, after_step);
}

// Adds the bases of the kept checkpoints, and theirs. `entries`: oldest first. Error: a manifest
// cannot be read, so its base is unknown.
absl::Status KeepBases(const std::vector<CheckpointEntry>& entries, std::set<CheckpointId>* kept) {
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (!kept->contains(entry->id)) continue;
    const auto base = BaseNamedBy(entry->manifest);
    if (absl::IsNotFound(base.status())) continue;
    if (!base.ok()) {
      return Annotate(base.status(),
                      "old checkpoints stay, because one that is kept may need them");
    }
    if (base->has_value()) kept->insert(**base);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<CheckpointEntry>> ListCheckpoints(const std::string& directory) {
  COHORT_ASSIGN_OR_RETURN(auto entries, ListAll(directory));
  std::erase_if(entries, [](const CheckpointEntry& entry) { return !Exists(entry.manifest); });
  return entries;
}

absl::StatusOr<std::optional<CheckpointEntry>> NewestValid(const std::string& directory,
                                                           const RefusedCallback& refused,
                                                           std::optional<uint64_t> after_step) {
  COHORT_ASSIGN_OR_RETURN(const auto entries, ListCheckpoints(directory));
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const absl::Status verified = Verify(*entry, after_step);
    if (verified.ok()) return std::optional<CheckpointEntry>(*entry);
    if (IsNewerFormat(verified)) return verified;
    if (refused) refused(entry->manifest, verified);
  }
  return std::optional<CheckpointEntry>();
}

absl::StatusOr<std::optional<CheckpointEntry>> NewestReadable(const std::string& directory,
                                                              v1::Manifest* manifest) {
  COHORT_ASSIGN_OR_RETURN(const auto entries, ListCheckpoints(directory));
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    auto read = ReadManifest(entry->manifest);
    if (IsNewerFormat(read.status())) return read.status();
    if (!read.ok()) continue;
    *manifest = *std::move(read);
    return std::optional<CheckpointEntry>(*entry);
  }
  return std::optional<CheckpointEntry>();
}

absl::StatusOr<CheckpointEntry> CheckpointAt(const std::string& checkpoint_dir) {
  const std::string path = JoinPath(checkpoint_dir, kManifestName);
  COHORT_ASSIGN_OR_RETURN(const v1::Manifest manifest, ReadManifest(path));
  COHORT_RETURN_IF_ERROR(VerifyFiles(checkpoint_dir, manifest, /*checksums=*/true));
  return CheckpointEntry{IdOf(manifest), checkpoint_dir, path};
}

absl::StatusOr<std::vector<std::string>> DeleteOldCheckpoints(const std::string& directory,
                                                              const RetentionOptions& options) {
  std::vector<std::string> deleted;
  if (options.max_to_keep == 0) return deleted;
  std::optional<CheckpointId> newest_valid = options.known_valid;
  if (!newest_valid.has_value()) {
    COHORT_ASSIGN_OR_RETURN(const auto newest, NewestValid(directory, nullptr));
    if (newest.has_value()) newest_valid = newest->id;
  }
  // If none is known to be complete, nothing is deleted: a damaged checkpoint is better than none.
  if (!newest_valid.has_value()) return deleted;
  COHORT_ASSIGN_OR_RETURN(const auto entries, ListAll(directory));
  std::set<CheckpointId> kept;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (kept.size() < options.max_to_keep && Exists(entry->manifest)) kept.insert(entry->id);
  }
  kept.insert(*newest_valid);
  if (options.best.has_value()) kept.insert(*options.best);
  COHORT_RETURN_IF_ERROR(KeepBases(entries, &kept));
  // The newest first: an increment before its base.
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    // One after the newest may be a cut under way, whose manifest may come at any moment.
    if (kept.contains(entry->id) || entry->id > *newest_valid) continue;
    if (options.may_delete) COHORT_RETURN_IF_ERROR(options.may_delete());
    COHORT_RETURN_IF_ERROR(DeleteCheckpoint(entry->directory));
    deleted.push_back(entry->id.ToString());
  }
  return deleted;
}

absl::Status DeleteCheckpoint(const std::string& checkpoint_dir) {
  if (!Exists(checkpoint_dir)) return absl::OkStatus();
  const std::string manifest = JoinPath(checkpoint_dir, kManifestName);
  if (Exists(manifest)) {
    COHORT_RETURN_IF_ERROR(RemoveFile(manifest));
    COHORT_RETURN_IF_ERROR(SyncDirectory(checkpoint_dir));
  }
  COHORT_ASSIGN_OR_RETURN(const auto names, ListDirectory(checkpoint_dir));
  for (const std::string& name : names) {
    COHORT_RETURN_IF_ERROR(RemoveFile(JoinPath(checkpoint_dir, name)));
  }
  if (::rmdir(checkpoint_dir.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus("cannot remove", checkpoint_dir, errno);
  }
  return absl::OkStatus();
}

absl::Status DeleteUncommitted(const std::string& directory, const CheckpointId& newest,
                               const MayWrite& may_delete) {
  COHORT_ASSIGN_OR_RETURN(const auto entries, ListAll(directory));
  for (const CheckpointEntry& entry : entries) {
    if (entry.id > newest || Exists(entry.manifest)) continue;
    COHORT_RETURN_IF_ERROR(may_delete());
    COHORT_RETURN_IF_ERROR(DeleteCheckpoint(entry.directory));
  }
  return absl::OkStatus();
}

void RemoveEmptyCheckpoints(const std::string& directory) {
  const auto entries = ListAll(directory);
  if (!entries.ok()) return;
  for (const CheckpointEntry& entry : *entries) ::rmdir(entry.directory.c_str());
}

absl::StatusOr<std::string> CreateDirectoryToken(const std::string& directory, uint64_t nonce,
                                                 const MayWrite& may_write) {
  if (may_write) COHORT_RETURN_IF_ERROR(may_write());
  COHORT_RETURN_IF_ERROR(MakeDirectories(directory));
  const std::string token = fmt::format("{}{:016x}", kTokenPrefix, nonce);
  COHORT_RETURN_IF_ERROR(
      WriteFileAtomically(JoinPath(directory, token),
                          "The chief wrote this file; every parameter server must see it here.\n"));
  COHORT_ASSIGN_OR_RETURN(const auto names, ListDirectory(directory));
  for (const std::string& name : names) {
    if (name != token && name.compare(0, kTokenPrefix.size(), kTokenPrefix) == 0) {
      if (may_write) COHORT_RETURN_IF_ERROR(may_write());
      COHORT_RETURN_IF_ERROR(RemoveFile(JoinPath(directory, name)));
    }
  }
  return token;
}

absl::Status CheckDirectoryToken(const std::string& directory, std::string_view token) {
  const bool well_formed = token.substr(0, kTokenPrefix.size()) == kTokenPrefix &&
                           token.find('/') == std::string_view::npos;
  if (!well_formed) return InvalidArgument("\"{}\" is not the name of a directory token", token);
  if (!Exists(directory)) {
    return FailedPrecondition(
        "the checkpoint directory {} does not exist here; it must be on storage that the chief and "
        "all parameter servers share, at the same path",
        directory);
  }
  if (!Exists(JoinPath(directory, token))) {
    return FailedPrecondition(
        "the checkpoint directory {} here is not the chief's (its file {} is not in it); it must "
        "be on "
        "storage that the chief and all parameter servers share",
        directory, token);
  }
  return absl::OkStatus();
}

}  // namespace cohort

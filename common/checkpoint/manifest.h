#ifndef COHORT_COMMON_CHECKPOINT_MANIFEST_H_
#define COHORT_COMMON_CHECKPOINT_MANIFEST_H_

#include <absl/status/statusor.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cohort::v1 {
class Manifest;
}

namespace cohort {

// A checkpoint on disk:
//
//   <checkpoint directory>/
//     ckpt-<timeline>-<generation>-<cut>/
//       *.safetensors         the shard files, one or more of each parameter server
//       words-*.txt           long lists of words of the job (word_files.h)
//       manifest.json.crc     "<crc32 of manifest.json, 8 hex digits> <its bytes>\n"
//       manifest.json         v1.Manifest as JSON, field names as in proto/checkpoint.proto
//
// manifest.json is written last, by rename. A directory without it is not a checkpoint. An
// increment (Manifest.base) needs its base beside it, and the base of that.
struct CheckpointId {
  uint64_t timeline = 0;
  uint64_t generation = 0;
  uint64_t cut = 0;

  // Later checkpoints are greater.
  auto operator<=>(const CheckpointId&) const = default;
  // "ckpt-0-1-12", the name of its directory.
  std::string ToString() const;
  static std::optional<CheckpointId> Parse(std::string_view name);
};

inline constexpr char kManifestName[] = "manifest.json";

CheckpointId IdOf(const v1::Manifest& manifest);

// Commits a checkpoint: it exists, durably, when this returns OK, and not before. The shard files
// must already be durable in `checkpoint_dir`. Errors: those of DurableFile; InvalidArgument if the
// manifest cannot be written as JSON (a text that is not UTF-8).
absl::Status CommitManifest(const std::string& checkpoint_dir, const v1::Manifest& manifest);

// Reads a manifest, checks it against its checksum, and reads its words. `path` is the manifest
// file or its directory. Errors: NotFound; DataLoss that names the file and the reason; that of
// CheckFormat (format_version.h) for a newer format.
absl::StatusOr<v1::Manifest> ReadManifest(const std::string& path);

// The directory of the base of an increment, beside its own; "": the checkpoint has all rows.
std::string BaseDirectory(const std::string& checkpoint_dir, const v1::Manifest& manifest);
// Reads the manifest of the base. Errors: DataLoss that names both if it is missing or damaged.
absl::StatusOr<v1::Manifest> ReadBase(const std::string& checkpoint_dir,
                                      const v1::Manifest& manifest);
// The base that a manifest file names; nullopt: the checkpoint has all rows. Reads nothing else.
// Errors: NotFound; those of reading the file; DataLoss if it is damaged.
absl::StatusOr<std::optional<CheckpointId>> BaseNamedBy(const std::string& manifest_file);

// Checks the shard files against the manifest's sizes and checksums (`checksums`: read all bytes),
// and those of all bases. `after_step`: reads only files of checkpoints after this step; nullopt:
// all. Errors: DataLoss, also if a file is missing.
absl::Status VerifyFiles(const std::string& checkpoint_dir, const v1::Manifest& manifest,
                         bool checksums, std::optional<uint64_t> after_step = std::nullopt);

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_MANIFEST_H_

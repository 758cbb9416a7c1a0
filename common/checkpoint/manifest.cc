#include "common/checkpoint/manifest.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/base/json_text.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/format_version.h"
#include "common/checkpoint/safetensors.h"
#include "common/checkpoint/word_files.h"
#include "common/metrics/metric_proto.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

constexpr char kChecksumName[] = "manifest.json.crc";
constexpr std::string_view kPrefix = "ckpt-";
// Applied sets and job files are small; more than this is not a manifest.
constexpr uint64_t kMaxManifestBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxChecksumBytes = 64;
// More closures than a chief lets run ahead of its watermark (CoreOptions::max_ids_ahead).
constexpr uint64_t kMaxFinished = uint64_t{1} << 24;

std::string ChecksumLine(std::string_view json) {
  return fmt::format("{:08x} {}\n", Crc32(0, json.data(), json.size()), json.size());
}

// The JSON form: field names as in the .proto, indented, for people and for jq.
absl::StatusOr<std::string> ToJson(const v1::Manifest& manifest) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(manifest, &json, options);
  if (!status.ok())
    return InvalidArgument("cannot write the manifest as JSON: {}", status.ToString());
  // The printer accepts texts that are not UTF-8, but no reader does.
  v1::Manifest back;
  const auto read = google::protobuf::util::JsonStringToMessage(json, &back);
  if (!read.ok()) {
    return InvalidArgument("the manifest has a text that JSON cannot hold: {}", read.ToString());
  }
  return json;
}

// The name of a file must not lead out of the checkpoint's directory.
absl::Status CheckFileName(const std::string& name) {
  if (name.empty() || name == "." || name == ".." ||
      name.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
    return DataLoss("it names the file \"{}\", which cannot lie in its directory", name);
  }
  return absl::OkStatus();
}

absl::Status CheckFileNames(const v1::Manifest& manifest) {
  for (const v1::SnapshotFile& file : manifest.files()) {
    COHORT_RETURN_IF_ERROR(CheckFileName(file.name()));
  }
  for (const v1::WordsFile& file : manifest.words()) {
    COHORT_RETURN_IF_ERROR(CheckFileName(file.name()));
  }
  return absl::OkStatus();
}

absl::Status CheckFinished(const v1::ChiefCut& chief) {
  uint64_t ids = 0;
  for (const v1::ClosureRange& range : chief.finished_ranges()) {
    if (range.begin() >= range.end() || range.end() - range.begin() > kMaxFinished - ids) {
      return DataLoss("the finished closures [{}, {}) are no range, or too many", range.begin(),
                      range.end());
    }
    ids += range.end() - range.begin();
  }
  return absl::OkStatus();
}

// An increment comes after its base, so a chain of bases ends.
absl::Status CheckBase(const v1::Manifest& manifest) {
  if (manifest.base().empty()) return absl::OkStatus();
  const auto base = CheckpointId::Parse(manifest.base());
  if (base.has_value() && *base < IdOf(manifest)) return absl::OkStatus();
  return DataLoss("its base \"{}\" is no checkpoint before it", manifest.base());
}

// The oldest format that a reader of this manifest must know.
uint32_t FormatOf(const v1::Manifest& manifest) {
  if (!manifest.base().empty()) return 5;
  const auto& variables = manifest.layout().variables();
  if (std::any_of(variables.begin(), variables.end(),
                  [](const v1::VariableSpec& variable) { return variable.hashed_rows(); })) {
    return 5;
  }
  if (!manifest.words().empty() || !manifest.chief().finished_ranges().empty()) return 4;
  const auto& metrics = manifest.chief().metrics();
  const bool accumulators = std::any_of(metrics.begin(), metrics.end(), [](const auto& metric) {
    return !metric.accumulators().empty();
  });
  if (accumulators) return 3;
  return manifest.epochs().first_place() > 0 ? 2 : 1;
}

// Refuses a newer format, in which any other field may have another meaning or type.
absl::Status CheckManifestFormat(const std::string& json, const std::string& file) {
  const auto parsed = ParseJsonText(json);
  if (!parsed.ok()) return DataLoss("{}: {}", file, std::string(parsed.status().message()));
  const auto* const format = FindMember(*parsed, "format_version");
  if (format == nullptr || !format->is_number_unsigned()) return absl::OkStatus();
  return CheckFormat(file, format->get<uint32_t>(), kManifestFormat,
                     StringMember(*parsed, "cohort_version"));
}

absl::StatusOr<v1::Manifest> ParseManifest(const std::string& json) {
  v1::Manifest manifest;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // a later version may have added some
  const auto status = google::protobuf::util::JsonStringToMessage(json, &manifest, options);
  if (!status.ok()) return DataLoss("not a manifest: {}", status.ToString());
  if (manifest.format_version() == 0) return DataLoss("has no format version");
  COHORT_RETURN_IF_ERROR(CheckFileNames(manifest));
  COHORT_RETURN_IF_ERROR(CheckBase(manifest));
  COHORT_RETURN_IF_ERROR(CheckFinished(manifest.chief()));
  if (const absl::Status metrics = CheckMetricValues(manifest.chief().metrics()); !metrics.ok()) {
    return DataLoss("{}", std::string(metrics.message()));
  }
  return manifest;
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

std::string CheckpointId::ToString() const {
  return fmt::format("{}{}-{}-{}", kPrefix, timeline, generation, cut);
}

std::optional<CheckpointId> CheckpointId::Parse(std::string_view name) {
  if (name.substr(0, kPrefix.size()) != kPrefix) return std::nullopt;
  std::array<uint64_t, 3> numbers = {};
  const char* at = name.data() + kPrefix.size();
  const char* const end = name.data() + name.size();
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0 && (at == end || *at++ != '-')) return std::nullopt;
    const auto result = std::from_chars(at, end, numbers[i]);
    if (result.ec != std::errc()) return std::nullopt;
    at = result.ptr;
  }
  const CheckpointId id{numbers[0], numbers[1], numbers[2]};
  // One checkpoint has one name: no leading zeros, nothing behind.
  if (at != end || id.ToString() != name) return std::nullopt;
  return id;
}

CheckpointId IdOf(const v1::Manifest& manifest) {
  return {manifest.timeline(), manifest.generation(), manifest.cut()};
}

absl::Status CommitManifest(const std::string& checkpoint_dir, const v1::Manifest& manifest) {
  if (const absl::Status names = CheckFileNames(manifest); !names.ok()) {
    return InvalidArgument("the manifest of {}: {}", checkpoint_dir, std::string(names.message()));
  }
  v1::Manifest stamped = manifest;
  COHORT_RETURN_IF_ERROR(StoreWords(checkpoint_dir, &stamped));
  stamped.set_format_version(FormatOf(stamped));
  COHORT_ASSIGN_OR_RETURN(const std::string json, ToJson(stamped));
  // The names of the other files must be durable before the manifest refers to them, and the
  // checkpoint's directory before the checkpoint exists.
  COHORT_RETURN_IF_ERROR(SyncDirectory(checkpoint_dir));
  COHORT_RETURN_IF_ERROR(SyncDirectory(JoinPath(checkpoint_dir, "..")));
  COHORT_RETURN_IF_ERROR(
      WriteFileAtomically(JoinPath(checkpoint_dir, kChecksumName), ChecksumLine(json)));
  return WriteFileAtomically(JoinPath(checkpoint_dir, kManifestName), json);
}

absl::StatusOr<v1::Manifest> ReadManifest(const std::string& path) {
  const std::string file = EndsWith(path, kManifestName) ? path : JoinPath(path, kManifestName);
  COHORT_ASSIGN_OR_RETURN(const std::string json, ReadFile(file, kMaxManifestBytes));
  const std::string checksum_file = file + ".crc";
  auto checksum = ReadFile(checksum_file, kMaxChecksumBytes);
  if (!checksum.ok()) {
    return DataLoss("{}: its checksum cannot be read: {}", file,
                    std::string(checksum.status().message()));
  }
  const std::string actual = ChecksumLine(json);
  if (*checksum != actual) {
    return DataLoss("{}: has checksum and size \"{}\", {} says \"{}\"", file,
                    actual.substr(0, actual.size() - 1), checksum_file,
                    checksum->substr(0, checksum->find('\n')));
  }
  COHORT_RETURN_IF_ERROR(CheckManifestFormat(json, file));
  auto manifest = ParseManifest(json);
  if (!manifest.ok()) return Annotate(manifest.status(), file);
  const size_t name = file.size() - std::string_view(kManifestName).size();
  const std::string directory = file.substr(0, std::max<size_t>(name, 1) - 1);
  COHORT_RETURN_IF_ERROR(LoadWords(directory, &*manifest));
  return manifest;
}

std::string BaseDirectory(const std::string& checkpoint_dir, const v1::Manifest& manifest) {
  if (manifest.base().empty()) return "";
  std::filesystem::path path = std::filesystem::path(checkpoint_dir).lexically_normal();
  std::error_code unknown;
  if (path.is_relative()) path = std::filesystem::absolute(path, unknown).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return (path.parent_path() / manifest.base()).string();
}

absl::StatusOr<v1::Manifest> ReadBase(const std::string& checkpoint_dir,
                                      const v1::Manifest& manifest) {
  const std::string directory = BaseDirectory(checkpoint_dir, manifest);
  auto base = ReadManifest(directory);
  if (IsNewerFormat(base.status())) return base;
  if (base.ok() && IdOf(*base).ToString() != manifest.base()) {
    base = DataLoss("{}: is the manifest of {}", directory, IdOf(*base).ToString());
  }
  if (base.ok()) return base;
  return DataLoss("{} is an increment of {}, which is missing or damaged: {}", checkpoint_dir,
                  manifest.base(), std::string(base.status().message()));
}

absl::StatusOr<std::optional<CheckpointId>> BaseNamedBy(const std::string& manifest_file) {
  COHORT_ASSIGN_OR_RETURN(const std::string json, ReadFile(manifest_file, kMaxManifestBytes));
  const auto parsed = ParseJsonText(json);
  if (!parsed.ok()) {
    return DataLoss("{}: {}", manifest_file, std::string(parsed.status().message()));
  }
  const std::string name(StringMember(*parsed, "base"));
  const auto base = CheckpointId::Parse(name);
  if (!name.empty() && !base.has_value()) {
    return DataLoss("{}: its base \"{}\" is not the name of a checkpoint", manifest_file, name);
  }
  return base;
}

absl::Status VerifyFiles(const std::string& checkpoint_dir, const v1::Manifest& manifest,
                         bool checksums, std::optional<uint64_t> after_step) {
  const bool reads = checksums && (!after_step.has_value() || manifest.step() > *after_step);
  COHORT_RETURN_IF_ERROR(CheckFileNames(manifest));
  for (const v1::SnapshotFile& file : manifest.files()) {
    const std::string path = JoinPath(checkpoint_dir, file.name());
    const auto opened = RandomFile::Open(path);
    if (absl::IsNotFound(opened.status()))
      return DataLoss("{}", std::string(opened.status().message()));
    COHORT_RETURN_IF_ERROR(opened.status());
    if (reads) {
      COHORT_RETURN_IF_ERROR(VerifyFile(path, file.bytes(), file.crc32()));
      continue;
    }
    if ((*opened)->size() != file.bytes()) {
      return DataLoss("{}: has {} bytes, the manifest says {}", path, (*opened)->size(),
                      file.bytes());
    }
  }
  if (manifest.base().empty()) return absl::OkStatus();
  COHORT_ASSIGN_OR_RETURN(const v1::Manifest base, ReadBase(checkpoint_dir, manifest));
  const absl::Status verified =
      VerifyFiles(BaseDirectory(checkpoint_dir, manifest), base, checksums, after_step);
  if (verified.ok() || IsNewerFormat(verified)) return verified;
  return DataLoss("{} is an increment of {}: {}", checkpoint_dir, manifest.base(),
                  std::string(verified.message()));
}

}  // namespace cohort

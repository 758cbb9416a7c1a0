#include "common/checkpoint/run_note.h"

#include <sstream>

#include "common/base/status.h"
#include "common/checkpoint/file.h"

namespace cohort {
namespace {

constexpr char kName[] = "run";
constexpr uint64_t kMostBytes = 4096;

}  // namespace

// Two lines: "launch ID" and "after ckpt-0-1-12".
absl::Status WriteRunNote(const std::string& checkpoint_dir, const RunNote& note) {
  return WriteFileAtomically(
      JoinPath(checkpoint_dir, kName),
      fmt::format("launch {}\nafter {}\n", note.launch, note.begins_after.ToString()));
}

absl::StatusOr<std::optional<RunNote>> ReadRunNote(const std::string& checkpoint_dir) {
  const std::string path = JoinPath(checkpoint_dir, kName);
  const absl::StatusOr<std::string> text = ReadFile(path, kMostBytes);
  if (absl::IsNotFound(text.status())) return std::optional<RunNote>();
  COHORT_RETURN_IF_ERROR(text.status());
  std::istringstream lines(*text);
  std::string first, second;
  std::getline(lines, first);
  std::getline(lines, second);
  const auto after = second.starts_with("after ") ? CheckpointId::Parse(second.substr(6))
                                                  : std::optional<CheckpointId>();
  if (!first.starts_with("launch ") || !after.has_value()) {
    return DataLoss("{} is not the note of a chief: remove it", path);
  }
  return std::optional<RunNote>(RunNote{.launch = first.substr(7), .begins_after = *after});
}

}  // namespace cohort

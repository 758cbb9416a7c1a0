#include "chief/job/control_note.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "common/base/json_text.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"

namespace cohort {
namespace {

constexpr char kName[] = "control_note.json";

}  // namespace

absl::StatusOr<ControlNote> ReadControlNote(const std::string& directory) {
  const std::string path = JoinPath(directory, kName);
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown)) return ControlNote();
  COHORT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, /*max_bytes=*/1 << 16));
  const auto parsed = ParseJsonText(text);
  const auto refused = [&] {
    return DataLoss("{} is damaged: it has what `cohort ctl` has changed of the job; move it away",
                    path);
  };
  if (!parsed.ok() || !parsed->is_object()) return refused();
  const nlohmann::json& note = *parsed;
  for (const char* key : {"epochs", "epochs_of_file"}) {
    if (!note.contains(key) || !note[key].is_number_unsigned()) return refused();
  }
  if (!note.contains("paused") || !note["paused"].is_boolean()) return refused();
  return ControlNote{.paused = note["paused"].get<bool>(),
                     .epochs = note["epochs"].get<uint64_t>(),
                     .epochs_of_file = note["epochs_of_file"].get<uint64_t>()};
}

absl::Status WriteControlNote(const std::string& directory, const ControlNote& note) {
  const nlohmann::json json = {
      {"paused", note.paused}, {"epochs", note.epochs}, {"epochs_of_file", note.epochs_of_file}};
  return WriteFileAtomically(JoinPath(directory, kName), json.dump() + "\n");
}

}  // namespace cohort

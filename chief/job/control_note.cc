#include "chief/job/control_note.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "common/base/json_text.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"

namespace cohort {
namespace {

constexpr char kName[] = "control_note.json";
constexpr char kEditedRate[] = "edited_learning_rate";
constexpr char kFencedWorkers[] = "fenced_workers";

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
  const auto rate = note.find(kEditedRate);
  if (rate != note.end() && !rate->is_string()) return refused();
  std::set<int> fenced;
  for (const nlohmann::json& worker : note.value(kFencedWorkers, nlohmann::json::array())) {
    if (!worker.is_number_unsigned() || worker > 1'000'000) return refused();
    fenced.insert(worker.get<int>());
  }
  return ControlNote{.paused = note["paused"].get<bool>(),
                     .epochs = note["epochs"].get<uint64_t>(),
                     .epochs_of_file = note["epochs_of_file"].get<uint64_t>(),
                     .edited_rate = rate != note.end() ? rate->get<std::string>() : "",
                     .fenced_workers = std::move(fenced)};
}

absl::Status WriteControlNote(const std::string& directory, const ControlNote& note) {
  nlohmann::json json = {
      {"paused", note.paused}, {"epochs", note.epochs}, {"epochs_of_file", note.epochs_of_file}};
  if (!note.edited_rate.empty()) json[kEditedRate] = note.edited_rate;
  if (!note.fenced_workers.empty()) json[kFencedWorkers] = note.fenced_workers;
  return WriteFileAtomically(JoinPath(directory, kName), json.dump() + "\n");
}

absl::Status DeleteControlNote(const std::string& directory) {
  return RemoveFile(JoinPath(directory, kName));
}

}  // namespace cohort

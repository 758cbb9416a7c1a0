#include "deploy/launcher/report_run.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "chief/job/job_keys.h"
#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/file.h"
#include "common/run_report/comparison.h"
#include "common/run_report/run_page.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The first of the directories that has a file of this name; "": none.
std::string FirstWith(const std::vector<std::string>& directories, const char* name) {
  for (const std::string& directory : directories) {
    if (Exists(JoinPath(directory, name))) return directory;
  }
  return "";
}

// The manifest of the newest checkpoint in one of the directories.
absl::StatusOr<std::optional<v1::Manifest>> NewestManifest(
    const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    v1::Manifest manifest;
    COHORT_ASSIGN_OR_RETURN(const auto newest, NewestReadable(directory, &manifest));
    if (newest.has_value()) return manifest;
  }
  return std::nullopt;
}

// The history of a checkpoint as records. Those of the validation have the prefix "val_".
std::vector<LoggedRecord> RecordsOf(const v1::Manifest& manifest) {
  constexpr std::string_view kValidation = "val_";
  std::vector<LoggedRecord> records;
  const v1::EpochPlan& plan = manifest.epochs();
  for (const v1::EpochRecord& epoch : manifest.history()) {
    LoggedRecord train{.set = "train", .kind = "epoch", .epoch = epoch.epoch()};
    // Epochs before a change of the batch size had other steps, which the checkpoint does not tell.
    const uint64_t since = epoch.epoch() - std::min(epoch.epoch(), plan.first_epoch());
    train.step = since > 0 ? plan.first_place() + since * plan.steps_per_epoch() : epoch.epoch();
    LoggedRecord validation = train;
    validation.set = "validation";
    for (const auto& [name, value] : epoch.values()) {
      const bool validated = name.starts_with(kValidation);
      LoggedRecord& record = validated ? validation : train;
      record.values[validated ? name.substr(kValidation.size()) : name] = value;
    }
    if (!train.values.empty()) records.push_back(std::move(train));
    if (!validation.values.empty()) records.push_back(std::move(validation));
  }
  return records;
}

// Adds what the run lacks. `manifest` is that of its newest checkpoint.
void Complete(const v1::Manifest& manifest, RunRecord* run) {
  if (run->records.empty()) run->records = RecordsOf(manifest);
  if (run->job.empty()) run->job = manifest.job_spec().name();
  if (run->job_file.empty()) run->job_file = manifest.job_yaml();
  if (run->keys.empty() && manifest.has_job_spec()) {
    run->keys = KeysOfSpec(SpecOfManifest(manifest));
  }
}

std::string ParentOf(const std::string& path) {
  std::error_code ignored;
  const fs::path clean = fs::absolute(path, ignored).lexically_normal();
  return (clean.has_filename() ? clean : clean.parent_path()).parent_path().string();
}

absl::Status WritePage(const std::string& path, const std::string& page) {
  return WithExitCode(Annotate(WriteFileAtomically(path, page), "the page"), ExitCode::kCantCreate);
}

// Names that tell the runs apart: their paths, with a number if one occurs twice.
void NameApart(std::vector<RunRecord>* runs) {
  std::set<std::string> names;
  for (RunRecord& run : *runs) {
    const std::string path = run.name;
    for (int i = 2; !names.insert(run.name).second; ++i) run.name = fmt::format("{} ({})", path, i);
  }
}

}  // namespace

absl::StatusOr<RunRecord> ReadRun(const std::string& path) {
  if (path.empty()) return UsageError("\"\" names no run");
  if (!Exists(path)) return NotFound("{} does not exist", path);
  std::vector<std::string> checkpoints = {JoinPath(path, "checkpoints"), path};
  // The checkpoints are beside the log directory.
  if (Exists(JoinPath(path, kMetricsName))) {
    checkpoints.push_back(JoinPath(ParentOf(path), "checkpoints"));
  }
  COHORT_ASSIGN_OR_RETURN(const std::optional<v1::Manifest> manifest, NewestManifest(checkpoints));
  std::vector<std::string> logs = {path, JoinPath(path, "logs")};
  const bool is_run = manifest.has_value() && !manifest->job_spec().report().log_dir().empty();
  if (is_run) logs.push_back(manifest->job_spec().report().log_dir());
  const std::string log_dir = FirstWith(logs, kMetricsName);
  RunRecord run;
  if (!log_dir.empty()) {
    COHORT_ASSIGN_OR_RETURN(run, ReadRunRecord(log_dir));
  } else if (manifest.has_value()) {
    run.no_summary = fmt::format("the run has no log directory with {} and {} (`--log_dir`)",
                                 kMetricsName, kSummaryName);
  } else {
    return NotFound(
        "{} holds neither {} nor a checkpoint: name the --run_dir of cohort local or cohort train, "
        "a log directory, or a checkpoint directory",
        path, kMetricsName);
  }
  run.name = path;
  if (manifest.has_value()) Complete(*manifest, &run);
  return run;
}

absl::StatusOr<std::string> ReportRun(const ReportOptions& options) {
  COHORT_ASSIGN_OR_RETURN(const RunRecord run, ReadRun(options.run));
  if (options.html.empty()) return RunText(run);
  COHORT_RETURN_IF_ERROR(WritePage(options.html, RunPage(run)));
  return fmt::format("{}\n", options.html);
}

absl::StatusOr<std::string> CompareRuns(const CompareOptions& options) {
  if (options.runs.size() < 2) return UsageError("compare: name at least two runs");
  std::vector<RunRecord> runs;
  for (const std::string& path : options.runs) {
    COHORT_ASSIGN_OR_RETURN(RunRecord run, ReadRun(path));
    runs.push_back(std::move(run));
  }
  NameApart(&runs);
  if (options.html.empty()) return ComparisonText(runs);
  COHORT_RETURN_IF_ERROR(WritePage(options.html, ComparisonPage(runs)));
  return fmt::format("{}{}\n", ComparisonText(runs), options.html);
}

}  // namespace cohort

#include "common/report/reporter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/status.h"

namespace cohort {

bool IsReportKey(std::string_view name) {
  // With the figures of the job and of the cluster (chief/job/job_progress.cc).
  constexpr std::array<std::string_view, 8> kKeys = {
      "time", "set", "kind", "epoch", "step", "seconds", "steps_per_second", "learning_rate"};
  if (name.starts_with("staleness/") || name.starts_with("sync/")) return true;
  return std::find(kKeys.begin(), kKeys.end(), name) != kKeys.end();
}

std::string ToJsonLine(const MetricsRecord& record, int64_t unix_micros) {
  nlohmann::ordered_json line = {{"time", static_cast<double>(unix_micros) / 1e6},
                                 {"set", record.set},
                                 {"kind", record.kind},
                                 {"epoch", record.epoch},
                                 {"step", record.step}};
  for (const auto& [name, value] : record.metrics) {
    line[name] = std::isfinite(value) ? nlohmann::ordered_json(value) : nullptr;
  }
  for (const auto& [name, value] : record.figures) line[name] = value;
  if (record.seconds > 0) line["seconds"] = record.seconds;
  if (record.steps_per_second > 0) line["steps_per_second"] = record.steps_per_second;
  // Names come from job files. A name that is not UTF-8 must not end the job here.
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Reporter::Reporter(std::string log_dir, const Clock* clock, std::unique_ptr<AppendFile> lines)
    : log_dir_(std::move(log_dir)), clock_(clock), lines_(std::move(lines)) {}

absl::StatusOr<std::unique_ptr<Reporter>> Reporter::Open(const std::string& log_dir,
                                                         const Clock* clock) {
  COHORT_RETURN_IF_ERROR(MakeDirectories(log_dir));
  COHORT_ASSIGN_OR_RETURN(auto lines, AppendFile::Open(log_dir + "/metrics.jsonl"));
  return std::unique_ptr<Reporter>(new Reporter(log_dir, clock, std::move(lines)));
}

absl::Status Reporter::AppendLine(const MetricsRecord& record) {
  std::string line = ToJsonLine(record, clock_->UnixMicros()) + "\n";
  // Another process may write to the file and may have left a torn line.
  if (!lines_->ends_with_newline()) line.insert(line.begin(), '\n');
  return lines_->Append(line);
}

absl::Status Reporter::Report(const MetricsRecord& record) {
  const absl::Status line = AppendLine(record);
  Scalars tagged;
  for (const auto& [name, value] : record.metrics) {
    tagged.emplace_back(fmt::format("{}_{}", record.kind, name), value);
  }
  tagged.insert(tagged.end(), record.figures.begin(), record.figures.end());
  if (record.steps_per_second > 0) tagged.emplace_back("steps_per_second", record.steps_per_second);
  auto events = events_.find(record.set);
  if (events == events_.end()) {
    events =
        events_.try_emplace(record.set, fmt::format("{}/{}", log_dir_, record.set), clock_).first;
  }
  const absl::Status event = events->second.Add(static_cast<int64_t>(record.step), tagged);
  return line.ok() ? event : line;
}

}  // namespace cohort

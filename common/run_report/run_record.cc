#include "common/run_report/run_record.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "common/base/json_text.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/report/reporter.h"

namespace cohort {
namespace {

using nlohmann::json;

constexpr uint64_t kMostSummaryBytes = uint64_t{64} << 20;

std::optional<LoggedRecord> ReadLine(std::string_view line) {
  const auto parsed = ParseJsonText(line);
  if (!parsed.ok() || !parsed->is_object()) return std::nullopt;
  LoggedRecord record;
  for (const auto& [name, value] : parsed->items()) {
    if (name == "set" || name == "kind") {
      if (!value.is_string()) return std::nullopt;
      (name == "set" ? record.set : record.kind) = value.get<std::string>();
    } else if (name == "epoch" || name == "step") {
      if (!value.is_number_unsigned()) return std::nullopt;
      (name == "epoch" ? record.epoch : record.step) = value.get<uint64_t>();
    } else if (name == "time") {
      if (value.is_number()) record.unix_seconds = value.get<double>();
    } else if (value.is_number()) {
      record.values[name] = value.get<double>();
    } else if (value.is_null()) {
      record.values[name] = std::numeric_limits<double>::quiet_NaN();
    }
  }
  if (record.set.empty() || record.kind.empty()) return std::nullopt;
  return record;
}

// Adds the lines of a file, one after another, to a run.
class RecordReader {
 public:
  explicit RecordReader(RunRecord* run) : run_(run) {}

  void Add(std::string_view line) {
    if (line.empty()) return;
    // A job of a month may have millions of these, so only every n-th is parsed.
    const bool is_step = line.find(kStepKind) != line.npos;
    if (is_step && seen_++ % stride_ != 0) return;
    std::optional<LoggedRecord> record = ReadLine(line);
    if (!record.has_value()) {
      ++run_->unreadable_lines;
      return;
    }
    if (record->set == "train") {
      if (record->step < trained_) Forget(record->step);
      trained_ = record->step;
    }
    run_->records.push_back(*std::move(record));
    if (is_step && ++kept_ >= kMostStepRecords) Thin();
  }

 private:
  static constexpr std::string_view kStepKind = "\"kind\":\"step\"";
  static constexpr uint64_t kMostStepRecords = 20'000;

  // Removes what a later record contradicts.
  void Forget(uint64_t from_step) {
    std::erase_if(run_->records, [&](const LoggedRecord& r) { return r.step >= from_step; });
    kept_ = static_cast<uint64_t>(std::ranges::count(run_->records, "step", &LoggedRecord::kind));
  }

  // Removes every second record of this kind.
  void Thin() {
    bool odd = false;
    std::erase_if(run_->records, [&](const LoggedRecord& r) {
      if (r.kind != "step") return false;
      odd = !odd;
      return !odd;
    });
    kept_ = (kept_ + 1) / 2;
    stride_ *= 2;
  }

  RunRecord* const run_;
  uint64_t trained_ = 0;  // the step of the last record of the training
  uint64_t seen_ = 0;     // records of steps
  uint64_t kept_ = 0;
  uint64_t stride_ = 1;
};

// Reads metrics.jsonl in pieces: it may be larger than the memory.
absl::Status ReadMetricFile(const std::string& path, RunRecord* run) {
  constexpr uint64_t kPiece = 1 << 20;
  COHORT_ASSIGN_OR_RETURN(const auto file, RandomFile::Open(path));
  RecordReader reader(run);
  std::string text;  // what follows the last complete line
  for (uint64_t at = 0; at < file->size();) {
    const uint64_t bytes = std::min(kPiece, file->size() - at);
    const size_t before = text.size();
    text.resize(before + bytes);
    COHORT_RETURN_IF_ERROR(file->Read(at, text.data() + before, bytes));
    at += bytes;
    size_t begin = 0;
    for (size_t end = text.find('\n', before); end != text.npos; end = text.find('\n', begin)) {
      reader.Add(std::string_view(text).substr(begin, end - begin));
      begin = end + 1;
    }
    text.erase(0, begin);
    // No line of a job is that long.
    if (text.size() > 16 * kPiece) return DataLoss("{} holds no lines", path);
  }
  reader.Add(text);
  return absl::OkStatus();
}

}  // namespace

void ReadMetricLines(std::string_view lines, RunRecord* run) {
  RecordReader reader(run);
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    reader.Add(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

std::vector<ChartPoint> RunRecord::Curve(std::string_view set, std::string_view kind,
                                         std::string_view value) const {
  std::vector<ChartPoint> points;
  for (const LoggedRecord& record : records) {
    if (record.set != set || record.kind != kind) continue;
    const auto found = record.values.find(std::string(value));
    if (found == record.values.end()) continue;
    points.push_back({static_cast<double>(record.step), found->second});
  }
  // An evaluator may find checkpoints late.
  std::ranges::stable_sort(points, {}, &ChartPoint::x);
  return points;
}

std::vector<std::string> RunRecord::MetricNames() const {
  std::set<std::string> names;
  for (const LoggedRecord& record : records) {
    for (const auto& [name, value] : record.values) {
      if (!IsReportKey(name)) names.insert(name);
    }
  }
  std::vector<std::string> sorted;
  if (names.erase("loss") > 0) sorted.emplace_back("loss");
  sorted.insert(sorted.end(), names.begin(), names.end());
  return sorted;
}

bool RunRecord::LowerIsBetter(std::string_view metric) const {
  if (metric == "loss" || metric.ends_with("_loss")) return true;
  if (summary.has_value()) {
    const auto& names = summary->lower_is_better;
    return std::ranges::find(names, metric) != names.end();
  }
  return metric.find("error") != metric.npos;
}

std::vector<MetricOutcome> RunRecord::Outcomes() const {
  std::vector<MetricOutcome> outcomes;
  for (const char* set : {"train", "validation"}) {
    for (const std::string& name : MetricNames()) {
      MetricOutcome outcome{.set = set, .name = name, .best = std::nan("")};
      bool found_one = false;
      for (const LoggedRecord& record : records) {
        if (record.set != set || record.kind == "step") continue;
        const auto found = record.values.find(name);
        if (found == record.values.end()) continue;
        found_one = true;
        outcome.last = found->second;
        const bool better =
            LowerIsBetter(name) ? found->second < outcome.best : found->second > outcome.best;
        if (!better && !std::isnan(outcome.best)) continue;
        outcome.best = found->second;
        outcome.best_epoch = record.epoch;
      }
      if (found_one) outcomes.push_back(std::move(outcome));
    }
  }
  return outcomes;
}

uint64_t RunRecord::last_step() const {
  uint64_t last = summary.has_value() ? summary->steps : 0;
  for (const LoggedRecord& record : records) last = std::max(last, record.step);
  return last;
}

uint64_t RunRecord::last_epoch() const {
  uint64_t last = 0;
  for (const LoggedRecord& record : records) last = std::max(last, record.epoch);
  return last;
}

double RunRecord::logged_seconds() const {
  double first = std::numeric_limits<double>::infinity(), last = 0;
  for (const LoggedRecord& record : records) {
    if (record.unix_seconds <= 0) continue;
    first = std::min(first, record.unix_seconds);
    last = std::max(last, record.unix_seconds);
  }
  return std::max(0.0, last - first);
}

double RunRecord::steps_per_second() const {
  if (summary.has_value() && summary->steps_per_second > 0) return summary->steps_per_second;
  double sum = 0, count = 0;
  for (const ChartPoint& p : Curve("train", "epoch", "steps_per_second")) {
    if (!std::isfinite(p.y)) continue;
    sum += p.y;
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

absl::StatusOr<RunRecord> ReadRunRecord(const std::string& log_dir) {
  RunRecord run;
  run.name = log_dir;
  COHORT_RETURN_IF_ERROR(ReadMetricFile(JoinPath(log_dir, kMetricsName), &run));
  const auto text = ReadFile(JoinPath(log_dir, kSummaryName), kMostSummaryBytes);
  const auto summary =
      text.ok() ? RunSummary::FromJson(*text) : absl::StatusOr<RunSummary>(text.status());
  if (!summary.ok()) {
    run.no_summary = absl::IsNotFound(summary.status())
                         ? fmt::format("{} has no {}: a job writes it when it is finished", log_dir,
                                       kSummaryName)
                         : fmt::format("{}: {}", JoinPath(log_dir, kSummaryName),
                                       std::string(summary.status().message()));
    return run;
  }
  run.job = summary->job;
  run.keys = summary->keys;
  run.job_file = summary->job_file;
  run.summary = *summary;
  return run;
}

}  // namespace cohort

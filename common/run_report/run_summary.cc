#include "common/run_report/run_summary.h"

#include <sys/utsname.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/base/flags.h"
#include "common/base/json_text.h"
#include "common/base/status.h"
#include "common/os/identity.h"
#include "proto/config.pb.h"

namespace cohort {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kFormat = 1;
// A matrix of more classes cannot be read in a page.
constexpr size_t kMostClasses = 100;

ordered_json FiniteOrNull(double value) {
  return std::isfinite(value) ? ordered_json(value) : nullptr;
}

ordered_json ObjectOf(const RunSummary::Texts& texts) {
  ordered_json object = ordered_json::object();
  for (const auto& [name, value] : texts) object[name] = value;
  return object;
}

ordered_json MetricJson(const RunSummary::Metric& metric) {
  ordered_json object = {{"name", metric.name}, {"value", FiniteOrNull(metric.value)}};
  if (!metric.true_positives.empty()) object["true_positives"] = metric.true_positives;
  if (!metric.false_positives.empty()) object["false_positives"] = metric.false_positives;
  if (!metric.confusion.empty()) object["confusion"] = metric.confusion;
  return object;
}

ordered_json WorkerJson(const RunSummary::Worker& w) {
  return {{"name", w.name},
          {"steps", w.steps},
          {"mean_staleness", FiniteOrNull(w.mean_staleness)},
          {"sent_bytes", w.sent_bytes},
          {"received_bytes", w.received_bytes}};
}

double NumberOf(const ordered_json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end()) return 0;
  return found->is_number() ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

// Numbers beyond 2^53 do not occur. A number that is none becomes 0.
uint64_t CountOf(const ordered_json& object, const char* key) {
  const double value = NumberOf(object, key);
  return value > 0 && value < 9e15 ? static_cast<uint64_t>(value) : 0;
}

std::string TextOf(const ordered_json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

const ordered_json& MemberOf(const ordered_json& object, const char* key) {
  static const ordered_json& none = *new ordered_json();
  if (!object.is_object()) return none;
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

std::vector<double> NumbersOf(const ordered_json& object, const char* key) {
  std::vector<double> numbers;
  for (const ordered_json& item : MemberOf(object, key)) {
    if (item.is_number()) numbers.push_back(item.get<double>());
  }
  return numbers;
}

RunSummary::Texts TextsOf(const ordered_json& object, const char* key) {
  RunSummary::Texts texts;
  const ordered_json& member = MemberOf(object, key);
  if (!member.is_object()) return texts;
  for (const auto& [name, value] : member.items()) {
    if (value.is_string()) texts.emplace_back(name, value.get<std::string>());
  }
  return texts;
}

std::vector<RunSummary::Metric> MetricsOf(const ordered_json& list) {
  std::vector<RunSummary::Metric> metrics;
  if (!list.is_array()) return metrics;
  for (const ordered_json& item : list) {
    metrics.push_back({.name = TextOf(item, "name"),
                       .value = NumberOf(item, "value"),
                       .true_positives = NumbersOf(item, "true_positives"),
                       .false_positives = NumbersOf(item, "false_positives"),
                       .confusion = NumbersOf(item, "confusion")});
  }
  return metrics;
}

std::vector<RunSummary::Worker> WorkersOf(const ordered_json& list) {
  std::vector<RunSummary::Worker> workers;
  if (!list.is_array()) return workers;
  for (const ordered_json& item : list) {
    workers.push_back({.name = TextOf(item, "name"),
                       .steps = CountOf(item, "steps"),
                       .mean_staleness = NumberOf(item, "mean_staleness"),
                       .sent_bytes = CountOf(item, "sent_bytes"),
                       .received_bytes = CountOf(item, "received_bytes")});
  }
  return workers;
}

// True for AUC of one label. Other metrics have accumulators of the same names, by class.
bool HasOneCurve(const MetricState& metric) {
  if (metric.finalizer == nullptr || metric.finalizer->class_name() != "AUC") return false;
  const auto labels = metric.finalizer->config().find("num_labels");
  return labels == metric.finalizer->config().end() || labels->second.i() == 1;
}

// "model name : ..." of the first processor; "" if the system does not tell it.
std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return "";
}

std::string SystemName() {
  utsname names{};
  if (uname(&names) != 0) return "";
  return fmt::format("{} {} {}", names.sysname, names.release, names.machine);
}

}  // namespace

std::string RunSummary::ToJson() const {
  ordered_json json = {{"format", kFormat},
                       {"job", job},
                       {"outcome", outcome},
                       {"unix_seconds", unix_seconds},
                       {"steps", steps},
                       {"training_seconds", FiniteOrNull(training_seconds)},
                       {"steps_per_second", FiniteOrNull(steps_per_second)},
                       {"facts", ObjectOf(facts)},
                       {"workers", ordered_json::array()},
                       {"metrics", ordered_json::object()},
                       {"lower_is_better", lower_is_better},
                       {"environment", ObjectOf(environment)},
                       {"keys", keys},
                       {"job_file", job_file},
                       {"text", text}};
  for (const Worker& worker : workers) json["workers"].push_back(WorkerJson(worker));
  for (const auto& [set, list] : metrics) {
    json["metrics"][set] = ordered_json::array();
    for (const Metric& metric : list) json["metrics"][set].push_back(MetricJson(metric));
  }
  // Names and paths of users need not be UTF-8.
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

absl::StatusOr<RunSummary> RunSummary::FromJson(std::string_view text) {
  // The depth of the text is checked before the order of its members is read.
  COHORT_RETURN_IF_ERROR(ParseJsonText(text).status());
  const ordered_json json = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || NumberOf(json, "format") != kFormat) {
    return InvalidArgument("the report has no \"format\": {}, so another version wrote it",
                           kFormat);
  }
  RunSummary summary;
  summary.job = TextOf(json, "job");
  summary.outcome = TextOf(json, "outcome");
  summary.unix_seconds = NumberOf(json, "unix_seconds");
  summary.steps = CountOf(json, "steps");
  summary.training_seconds = NumberOf(json, "training_seconds");
  summary.steps_per_second = NumberOf(json, "steps_per_second");
  summary.facts = TextsOf(json, "facts");
  summary.workers = WorkersOf(MemberOf(json, "workers"));
  if (const ordered_json& sets = MemberOf(json, "metrics"); sets.is_object()) {
    for (const auto& [set, list] : sets.items()) summary.metrics[set] = MetricsOf(list);
  }
  for (const ordered_json& name : MemberOf(json, "lower_is_better")) {
    if (name.is_string()) summary.lower_is_better.push_back(name.get<std::string>());
  }
  summary.environment = TextsOf(json, "environment");
  for (auto& [name, value] : TextsOf(json, "keys")) summary.keys[name] = std::move(value);
  summary.job_file = TextOf(json, "job_file");
  summary.text = TextOf(json, "text");
  return summary;
}

RunSummary::Metric SummaryOf(const MetricState& metric) {
  RunSummary::Metric summary{.name = metric.name, .value = metric.Value()};
  const bool by_threshold = HasOneCurve(metric);
  for (const Accumulator& a : metric.accumulators) {
    if (a.values.size() < 2) continue;
    if (by_threshold && a.name == "true_positives") summary.true_positives = a.values;
    if (by_threshold && a.name == "false_positives") summary.false_positives = a.values;
    const auto classes = static_cast<size_t>(std::lround(std::sqrt(a.values.size())));
    const bool square = classes * classes == a.values.size() && classes <= kMostClasses;
    if (a.name == kConfusionMatrix && square) summary.confusion = a.values;
  }
  if (summary.true_positives.size() != summary.false_positives.size()) {
    summary.true_positives.clear();
    summary.false_positives.clear();
  }
  return summary;
}

RunSummary::Texts EnvironmentOfProcess() {
  RunSummary::Texts texts = {{"cohort", std::string(CohortVersion())},
                             {"compiler", __VERSION__},
                             {"host", HostName()},
                             {"system", SystemName()},
                             {"processors of the chief", fmt::format("{}", AvailableCores())},
                             {"processor", ProcessorName()}};
  std::erase_if(texts, [](const auto& text) { return text.second.empty(); });
  return texts;
}

}  // namespace cohort

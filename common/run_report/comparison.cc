#include "common/run_report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "common/report/progress.h"
#include "common/run_report/html_text.h"
#include "common/run_report/line_chart.h"

namespace cohort {
namespace {

constexpr char kUnknown[] = "-";
// Other models differ in each argument of each layer.
constexpr size_t kMostOfModel = 5;

std::string Number(double value) {
  return value == 0 || std::abs(value) >= 1e-3 ? fmt::format("{:.4f}", value)
                                               : fmt::format("{:.4e}", value);
}

// The names of the metrics of all runs, the loss first.
std::vector<std::string> MetricsOfAll(std::span<const RunRecord> runs) {
  std::vector<std::string> names;
  for (const RunRecord& run : runs) {
    for (std::string& name : run.MetricNames()) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    }
  }
  return names;
}

// One row for each figure, one column for each run.
ReportTable FigureTable(std::span<const RunRecord> runs) {
  ReportTable table{.head = {""}, .rows = {{"job"}, {"epochs"}, {"steps"}, {"steps/s"}, {"time"}}};
  // By set, name and kind: the texts of the runs that have it.
  std::map<std::pair<std::string, std::string>, std::map<size_t, MetricOutcome>> outcomes;
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunRecord& run = runs[i];
    table.head.push_back(run.name);
    table.rows[0].push_back(run.job.empty() ? kUnknown : run.job);
    table.rows[1].push_back(fmt::format("{}", run.last_epoch()));
    table.rows[2].push_back(fmt::format("{}", run.last_step()));
    const double rate = run.steps_per_second();
    table.rows[3].push_back(rate > 0 ? fmt::format("{:.4g}", rate) : kUnknown);
    const double seconds =
        run.summary.has_value() ? run.summary->training_seconds : run.logged_seconds();
    table.rows[4].push_back(seconds > 0 ? FormatSeconds(seconds) : kUnknown);
    for (MetricOutcome& o : run.Outcomes()) outcomes[{o.set, o.name}][i] = std::move(o);
  }
  for (const char* set : {"train", "validation"}) {
    for (const std::string& name : MetricsOfAll(runs)) {
      const auto found = outcomes.find({set, name});
      if (found == outcomes.end()) continue;
      const std::string prefix = std::string_view(set) == "train" ? "" : "validation ";
      std::vector<std::string> last = {prefix + name}, best = {prefix + name + ", best"};
      for (size_t i = 0; i < runs.size(); ++i) {
        const auto its = found->second.find(i);
        const bool known = its != found->second.end();
        last.push_back(known ? Number(its->second.last) : kUnknown);
        best.push_back(
            known ? fmt::format("{} (epoch {})", Number(its->second.best), its->second.best_epoch)
                  : kUnknown);
      }
      table.rows.push_back(std::move(last));
      table.rows.push_back(std::move(best));
    }
  }
  return table;
}

// The hyper-parameters that are not equal in all runs.
ReportTable ChangedKeys(std::span<const RunRecord> runs) {
  ReportTable table{.head = {"hyper-parameter"}, .rows = {}};
  std::set<std::string> keys;
  for (const RunRecord& run : runs) {
    table.head.push_back(run.name);
    for (const auto& [key, value] : run.keys) keys.insert(key);
  }
  size_t of_model = 0;
  for (const std::string& key : keys) {
    std::vector<std::string> row = {key};
    for (const RunRecord& run : runs) {
      const auto found = run.keys.find(key);
      row.push_back(found != run.keys.end() ? found->second
                    : run.keys.empty()      ? kUnknown
                                            : "not set");
    }
    const bool equal = std::all_of(row.begin() + 1, row.end(),
                                   [&row](const std::string& cell) { return cell == row[1]; });
    if (equal) continue;
    const bool is_of_model = key.starts_with("model.") || key.starts_with("variables.");
    if (is_of_model && ++of_model > kMostOfModel) continue;
    table.rows.push_back(std::move(row));
  }
  if (of_model > kMostOfModel) {
    table.rows.push_back({fmt::format("the models differ in {} more", of_model - kMostOfModel)});
    table.rows.back().resize(table.head.size());
  }
  return table;
}

std::string Chart(std::span<const RunRecord> runs, const std::string& title, const char* set,
                  const std::string& value) {
  LineChart chart{.title = title, .x_label = "steps", .lines = {}};
  int color = 0;
  for (const RunRecord& run : runs) {
    std::vector<ChartPoint> points = run.Curve(set, "epoch", value);
    if (points.empty()) points = run.Curve(set, "checkpoint", value);
    if (points.empty()) points = run.Curve(set, "step", value);
    chart.lines.push_back({.name = run.name, .points = std::move(points), .color = color++});
  }
  return chart.Html();
}

std::string Charts(std::span<const RunRecord> runs) {
  std::string html;
  for (const std::string& name : MetricsOfAll(runs)) {
    html += Chart(runs, name + ", training", "train", name);
    html += Chart(runs, name + ", validation", "validation", name);
  }
  html += Chart(runs, "learning rate", "train", "learning_rate");
  html += Chart(runs, "throughput, steps/s", "train", "steps_per_second");
  html += Chart(runs, "mean staleness", "train", "staleness/mean");
  return html.empty() ? "" : fmt::format("<div class=\"charts\">{}</div>\n", html);
}

constexpr char kNoChange[] = "The runs have the same hyper-parameters, or these are not known.";

}  // namespace

std::string ComparisonText(std::span<const RunRecord> runs) {
  const std::string changed = ChangedKeys(runs).Text();
  return FigureTable(runs).Text() + "\n" +
         (changed.empty() ? std::string(kNoChange) + "\n" : changed);
}

std::string ComparisonPage(std::span<const RunRecord> runs) {
  const std::string changed = ChangedKeys(runs).Html();
  const std::string title = fmt::format("{} runs", runs.size());
  return HtmlPage(
      title, fmt::format("<h1>{}</h1>\n", title) + HtmlSection("Curves", Charts(runs)) +
                 HtmlSection("Figures", FigureTable(runs).Html()) +
                 HtmlSection("Hyper-parameters that differ",
                             changed.empty() ? fmt::format("<p>{}</p>\n", kNoChange) : changed));
}

}  // namespace cohort

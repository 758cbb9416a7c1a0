#include "common/run_report/run_page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/report/progress.h"
#include "common/run_report/html_text.h"
#include "common/run_report/line_chart.h"

namespace cohort {
namespace {

constexpr char kSteps[] = "steps";
// A page of a large cluster shows the workers with the fewest and the most steps.
constexpr size_t kMostBars = 40;
// A matrix of more classes would hide the rest of the page.
constexpr size_t kMostMatrix = 50;

std::string MetricText(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  return value == 0 || std::abs(value) >= 1e-3 ? fmt::format("{:.4f}", value)
                                               : fmt::format("{:.4e}", value);
}

std::string SetText(const std::string& set) { return set == "train" ? "training" : set; }

std::string TimeText(double unix_seconds) {
  // Years up to 9999, which a wrong clock or a wrong file may exceed.
  if (!(unix_seconds > 0 && unix_seconds < 253402300800.0)) return "";
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC",
                     fmt::gmtime(static_cast<std::time_t>(unix_seconds)));
}

std::string Title(const RunRecord& run) { return run.job.empty() ? run.name : run.job; }

// What the head of the report says, by name.
RunSummary::Texts Facts(const RunRecord& run) {
  RunSummary::Texts facts;
  facts.emplace_back("run", run.name);
  if (!run.job.empty()) facts.emplace_back("job", run.job);
  facts.emplace_back("outcome",
                     run.summary.has_value() ? run.summary->outcome : "not finished, or not known");
  facts.emplace_back(kSteps, fmt::format("{}", run.last_step()));
  facts.emplace_back("epochs", fmt::format("{}", run.last_epoch()));
  if (const double rate = run.steps_per_second(); rate > 0) {
    facts.emplace_back("steps/s", fmt::format("{:.4g}", rate));
  }
  if (run.summary.has_value()) {
    facts.emplace_back("training time", FormatSeconds(run.summary->training_seconds));
    facts.emplace_back("ended", TimeText(run.summary->unix_seconds));
  } else if (run.logged_seconds() > 0) {
    facts.emplace_back("time from the first record to the last",
                       FormatSeconds(run.logged_seconds()));
  }
  return facts;
}

ReportTable OutcomeTable(const RunRecord& run) {
  ReportTable table{.head = {"metric", "data", "last", "best", "in epoch"}, .rows = {}};
  for (const MetricOutcome& o : run.Outcomes()) {
    table.rows.push_back({o.name, SetText(o.set), MetricText(o.last), MetricText(o.best),
                          fmt::format("{}", o.best_epoch)});
  }
  return table;
}

std::string Tiles(const RunRecord& run) {
  std::string html;
  const auto tile = [&html](const std::string& name, const std::string& value) {
    html += fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", HtmlText(value),
                        HtmlText(name));
  };
  for (const auto& [name, value] : Facts(run)) {
    if (name != "run" && name != "job" && name != "ended") tile(name, value);
  }
  for (const MetricOutcome& o : run.Outcomes()) {
    if (o.name == "loss") tile(fmt::format("loss, {}", SetText(o.set)), MetricText(o.last));
  }
  return fmt::format("<div class=\"tiles\">{}</div>\n", html);
}

// ------------------------------------------------------------------ curves

std::string MetricChart(const RunRecord& run, const std::string& name) {
  LineChart chart{.title = name, .x_label = kSteps, .lines = {}};
  const auto line = [&](const char* title, const char* set, const char* kind, int color,
                        bool dashed) {
    chart.lines.push_back({.name = title,
                           .points = run.Curve(set, kind, name),
                           .color = color,
                           .dashed = dashed,
                           .faint = std::string_view(kind) == "step"});
  };
  line("training, in the epoch so far", "train", "step", 0, false);
  line("training", "train", "epoch", 0, false);
  line("validation", "validation", "epoch", 1, false);
  line("evaluator", "validation", "checkpoint", 2, true);
  return chart.Html();
}

// A figure of the training: by step if there are such records, else by epoch.
std::string FigureChart(const RunRecord& run, const std::string& title,
                        const std::vector<std::pair<std::string, std::string>>& figures) {
  LineChart chart{.title = title, .x_label = kSteps, .lines = {}};
  int color = 0;
  for (const auto& [key, name] : figures) {
    std::vector<ChartPoint> points = run.Curve("train", "step", key);
    const std::vector<ChartPoint> epochs = run.Curve("train", "epoch", key);
    points.insert(points.end(), epochs.begin(), epochs.end());
    std::ranges::stable_sort(points, {}, &ChartPoint::x);
    chart.lines.push_back({.name = name, .points = std::move(points), .color = color++});
  }
  return chart.Html();
}

std::string Throughput(const RunRecord& run) {
  return LineChart{.title = "throughput",
                   .x_label = kSteps,
                   .lines = {{.name = "steps/s, since the record before, with pauses",
                              .points = run.Curve("train", "step", "steps_per_second"),
                              .faint = true},
                             {.name = "steps/s in the epoch",
                              .points = run.Curve("train", "epoch", "steps_per_second")}}}
      .Html();
}

std::string Charts(const RunRecord& run) {
  std::string html;
  for (const std::string& name : run.MetricNames()) html += MetricChart(run, name);
  html += FigureChart(run, "learning rate", {{"learning_rate", "learning rate"}});
  html += Throughput(run);
  html += FigureChart(run, "mean staleness: updates between pull and push",
                      {{"staleness/mean", "mean of the epoch so far"}});
  html += FigureChart(run, "largest staleness", {{"staleness/max", "largest of the epoch so far"}});
  html += FigureChart(run, "waiting for the slowest half of a step",
                      {{"sync/wait_seconds_per_step", "seconds per step"}});
  html += FigureChart(run, "gradients dropped", {{"sync/dropped", "since the last record"}});
  return html.empty() ? "" : fmt::format("<div class=\"charts\">{}</div>\n", html);
}

// ------------------------------------------------------------------ workers

std::vector<ChartBar> Fewest(std::vector<ChartBar> bars) {
  if (bars.size() <= kMostBars) return bars;
  std::ranges::stable_sort(bars, {}, &ChartBar::value);
  bars.erase(bars.begin() + kMostBars / 2, bars.end() - kMostBars / 2);
  return bars;
}

std::string Workers(const RunRecord& run) {
  if (!run.summary.has_value()) return "";
  std::vector<ChartBar> steps, staleness, received;
  bool stale = false, sent = false;
  for (const RunSummary::Worker& w : run.summary->workers) {
    steps.push_back({w.name, static_cast<double>(w.steps), fmt::format("{} steps", w.steps)});
    staleness.push_back(
        {w.name, w.mean_staleness, fmt::format("{:.2f} updates", w.mean_staleness)});
    const double megabytes = static_cast<double>(w.sent_bytes + w.received_bytes) / 1e6;
    received.push_back({w.name, megabytes, fmt::format("{:.4g} MB", megabytes)});
    stale |= w.mean_staleness > 0;
    sent |= megabytes > 0;
  }
  std::string html = BarChartHtml("steps of each worker", Fewest(steps));
  if (stale) html += BarChartHtml("mean staleness of each worker", Fewest(staleness));
  if (sent) html += BarChartHtml("bytes sent and received by each worker", Fewest(received));
  if (html.empty()) return "";
  const std::string note =
      steps.size() <= kMostBars
          ? ""
          : fmt::format(
                "<p class=\"note\">Of {} workers the {} with the smallest and the {} with "
                "the largest values.</p>\n",
                steps.size(), kMostBars / 2, kMostBars / 2);
  return fmt::format("{}<div class=\"charts\">{}</div>\n", note, html);
}

// ------------------------------------------------------------------ ROC and confusion

double Share(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string RocChart(const std::string& set, const RunSummary::Metric& metric) {
  ChartLine roc{.name = fmt::format("{} {}", metric.name, MetricText(metric.value)), .points = {}};
  const auto& tp = metric.true_positives;
  const auto& fp = metric.false_positives;
  // From the highest threshold, which no prediction exceeds, to the lowest.
  for (size_t i = std::min(tp.size(), fp.size()); i-- > 0;) {
    roc.points.push_back({Share(fp[i], fp[0]), Share(tp[i], tp[0])});
  }
  return LineChart{.title = fmt::format("ROC, {}: true positives by false positives", SetText(set)),
                   .x_label = "share of the negative labels",
                   .lines = {roc},
                   .unit_square = true}
      .Html();
}

std::string MatrixCard(const std::string& title, const std::vector<std::string>& labels,
                       const std::vector<double>& counts) {
  const size_t n = labels.size();
  std::string html = "<tr><th>label \\ prediction</th>";
  for (const std::string& label : labels) html += fmt::format("<th>{}</th>", HtmlText(label));
  html += "</tr>\n";
  for (size_t row = 0; row < n; ++row) {
    double all = 0;
    for (size_t column = 0; column < n; ++column) all += counts[row * n + column];
    html += fmt::format("<tr><th>{}</th>", HtmlText(labels[row]));
    for (size_t column = 0; column < n; ++column) {
      const double count = counts[row * n + column];
      const double share = std::clamp(Share(count, all), 0.0, 1.0);
      html +=
          fmt::format("<td style=\"background:rgba(47,111,219,{:.2f})\">{:.0f}<br>{:.1f} %</td>",
                      0.55 * share, count, 100 * share);
    }
    html += "</tr>\n";
  }
  return fmt::format(
      "<div class=\"card\"><h3>{}</h3><div class=\"wide\"><table class=\"matrix\">{}</table></div>"
      "</div>\n",
      HtmlText(title), html);
}

// The matrix of the threshold in the middle: 0.5 for thresholds that are evenly distributed.
std::string BinaryMatrix(const std::string& set, const RunSummary::Metric& metric) {
  const size_t half = metric.true_positives.size() / 2;
  const double tp = metric.true_positives[half], fp = metric.false_positives[half];
  return MatrixCard(
      fmt::format("confusion matrix, {}: the middle threshold of {}", SetText(set), metric.name),
      {"negative", "positive"},
      {metric.false_positives[0] - fp, fp, metric.true_positives[0] - tp, tp});
}

std::string ClassMatrix(const std::string& set, const RunSummary::Metric& metric) {
  const auto n = static_cast<size_t>(std::lround(std::sqrt(metric.confusion.size())));
  if (n < 2 || n > kMostMatrix || n * n != metric.confusion.size()) return "";
  std::vector<std::string> labels;
  for (size_t i = 0; i < n; ++i) labels.push_back(fmt::format("{}", i));
  return MatrixCard(fmt::format("confusion matrix, {}: {}", SetText(set), metric.name), labels,
                    metric.confusion);
}

bool HasThresholds(const RunSummary::Metric& metric) {
  return metric.true_positives.size() >= 2 &&
         metric.true_positives.size() == metric.false_positives.size();
}

std::string Classification(const RunRecord& run) {
  if (!run.summary.has_value()) return "";
  std::string html;
  for (const auto& [set, metrics] : run.summary->metrics) {
    for (const RunSummary::Metric& metric : metrics) {
      if (HasThresholds(metric)) html += RocChart(set, metric) + BinaryMatrix(set, metric);
      if (!metric.confusion.empty()) html += ClassMatrix(set, metric);
    }
  }
  return html.empty() ? "" : fmt::format("<div class=\"charts\">{}</div>\n", html);
}

// ------------------------------------------------------------------ settings

RunSummary::Texts KeysOf(const RunRecord& run) { return {run.keys.begin(), run.keys.end()}; }

// A part that the reader can open and close. `html` is its contents.
std::string Folded(std::string_view heading, const std::string& html, bool open) {
  if (html.empty()) return "";
  return fmt::format("<details{}><summary>{}</summary>{}</details>\n", open ? " open" : "",
                     HtmlText(heading), html);
}

std::string Preformatted(const std::string& text) {
  return text.empty() ? "" : fmt::format("<pre>{}</pre>\n", HtmlText(text));
}

std::string Settings(const RunRecord& run) {
  return Folded("job file", Preformatted(run.job_file), /*open=*/true) +
         Folded(fmt::format("all {} values, with the defaults", run.keys.size()),
                HtmlPairs(KeysOf(run)), /*open=*/run.job_file.empty());
}

std::string MissingHtml(const RunRecord& run) {
  std::string html;
  for (const std::string& what : MissingFrom(run)) {
    html += fmt::format("<li>{}</li>\n", HtmlText(what));
  }
  return html.empty() ? "" : fmt::format("<ul class=\"note\">{}</ul>\n", html);
}

}  // namespace

std::vector<std::string> MissingFrom(const RunRecord& run) {
  std::vector<std::string> missing;
  const auto has = [&run](const char* set, const char* value) {
    return std::ranges::any_of(run.records, [&](const LoggedRecord& r) {
      return r.set == set && (value == nullptr || r.values.contains(value));
    });
  };
  if (run.unreadable_lines > 0) {
    missing.push_back(
        fmt::format("{} lines of {} cannot be read", run.unreadable_lines, kMetricsName));
  }
  if (!has("train", nullptr)) {
    missing.push_back("curves of the training: no epoch is finished, and report.every_steps is 0");
  }
  if (!has("validation", nullptr)) {
    missing.push_back(
        "curves of the validation: the job has no data.validation, or has not validated yet");
  }
  if (!has("train", "learning_rate")) {
    missing.push_back("a curve of the learning rate: it is constant (compile.optimizer)");
  }
  if (!has("train", "staleness/mean")) {
    missing.push_back("staleness: only asynchronous training has it");
  }
  if (!run.summary.has_value()) {
    missing.push_back("workers, environment, ROC and confusion matrix: " + run.no_summary);
    return missing;
  }
  bool thresholds = false, classes = false;
  for (const auto& [set, metrics] : run.summary->metrics) {
    for (const RunSummary::Metric& metric : metrics) {
      thresholds |= HasThresholds(metric);
      classes |= !metric.confusion.empty();
    }
  }
  if (!thresholds) {
    missing.push_back(classes ? "ROC: the job has no metric AUC"
                              : "ROC and confusion matrix: the job has neither the metric AUC "
                                "nor ConfusionMatrix");
  }
  return missing;
}

std::string RunPage(const RunRecord& run) {
  std::string body = fmt::format("<h1>{}</h1>\n<p class=\"note\">{}</p>\n", HtmlText(Title(run)),
                                 HtmlText(run.name));
  body += Tiles(run);
  body += HtmlSection("Curves", Charts(run));
  body += HtmlSection("Metrics", OutcomeTable(run).Html());
  body += HtmlSection("Workers", Workers(run));
  body += HtmlSection("Classification", Classification(run));
  if (run.summary.has_value()) {
    body += HtmlSection("Training", HtmlPairs(run.summary->facts));
    body += HtmlSection("Environment", HtmlPairs(run.summary->environment));
  }
  body += HtmlSection("Hyper-parameters", Settings(run));
  if (run.summary.has_value()) {
    body += Folded("report of the chief", Preformatted(run.summary->text), /*open=*/false);
  }
  body += HtmlSection("Not in this page", MissingHtml(run));
  return HtmlPage(Title(run), body);
}

std::string RunText(const RunRecord& run) {
  std::string text;
  RunSummary::Texts facts = Facts(run);
  if (run.summary.has_value()) {
    // The lines of the chief contain these.
    std::erase_if(facts, [](const auto& fact) {
      return fact.first == kSteps || fact.first == "epochs" || fact.first == "steps/s";
    });
    facts.insert(facts.end(), run.summary->facts.begin(), run.summary->facts.end());
  }
  for (const auto& [name, value] : facts) {
    text += fmt::format("{:<14} {}\n", PrintableLine(name), PrintableLine(value));
  }
  const std::string outcomes = OutcomeTable(run).Text();
  if (!outcomes.empty()) text += "\n" + outcomes;
  if (run.summary.has_value() && !run.summary->workers.empty()) {
    ReportTable workers{.head = {"worker", "steps", "mean staleness"}, .rows = {}};
    for (const RunSummary::Worker& w : run.summary->workers) {
      workers.rows.push_back(
          {w.name, fmt::format("{}", w.steps), fmt::format("{:.2f}", w.mean_staleness)});
    }
    text += "\n" + workers.Text();
  }
  const std::vector<std::string> missing = MissingFrom(run);
  if (!missing.empty()) text += "\nmissing:\n";
  for (const std::string& what : missing) text += fmt::format("  {}\n", PrintableLine(what));
  return text;
}

absl::Status WriteRunPage(const std::string& log_dir) {
  COHORT_ASSIGN_OR_RETURN(const RunRecord run, ReadRunRecord(log_dir));
  return WriteFileAtomically(JoinPath(log_dir, kPageName), RunPage(run));
}

}  // namespace cohort

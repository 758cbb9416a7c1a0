#include "common/run_report/run_page.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "common/run_report/comparison.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using Catch::Contains;

constexpr char kRunLines[] =
    R"({"set":"train","kind":"step","epoch":1,"step":5,"loss":0.9,"learning_rate":0.1,"staleness/mean":0.5,"staleness/max":2}
{"set":"train","kind":"epoch","epoch":1,"step":10,"loss":0.8,"<b>evil</b>":0.6,"steps_per_second":20.0}
{"set":"validation","kind":"epoch","epoch":1,"step":10,"loss":0.7}
)";

RunRecord FullRun() {
  RunRecord run;
  run.name = "/tmp/<i>run</i>";
  run.job = "recommender";
  ReadMetricLines(kRunLines, &run);
  RunSummary summary;
  summary.outcome = "finished";
  summary.steps = 10;
  summary.training_seconds = 65;
  summary.steps_per_second = 20;
  summary.unix_seconds = 1767225600;
  summary.workers = {{"worker:0", 6, 0.5, 10, 20}, {"worker:1", 4, 0.25, 0, 0}};
  summary.facts = {{"mode", "async"}};
  summary.metrics["validation"] = {
      {.name = "auc", .value = 0.75, .true_positives = {4, 3, 0}, .false_positives = {6, 1, 0}},
      {.name = "iou", .value = 0.5, .confusion = {5, 0, 1, 2}}};
  summary.environment = {{"cohort", "0.1.0"}};
  run.keys = {{"compile.optimizer.learning_rate", "0.1"}, {"evil", "</pre><script>"}};
  run.job_file = "name: <x>\n";
  summary.text = "the <report>";
  run.summary = summary;
  return run;
}

TEST_CASE("a page shows all that a run has, and lets no text of the user out") {
  const RunRecord run = FullRun();
  const std::string page = RunPage(run);
  for (const char* part :
       {"<h1>recommender</h1>", "<h3>loss</h3>", "<h3>learning rate</h3>", "<h3>throughput</h3>",
        "<h3>mean staleness: updates between pull and push</h3>", "<h3>largest staleness</h3>",
        "steps of each worker", "mean staleness of each worker",
        "bytes sent and received by each worker", "ROC, validation",
        "confusion matrix, validation: the middle threshold of auc",
        "confusion matrix, validation: iou", "compile.optimizer.learning_rate", "0.1.0",
        "1 min 05 s", "&lt;b&gt;evil&lt;/b&gt;", "the &lt;report&gt;", "async", "20"}) {
    INFO(part);
    CHECK_THAT(page, Contains(part));
  }
  CHECK_THAT(page, !Contains("<script") && !Contains("<b>evil") && !Contains("<i>run"));
  CHECK_THAT(page, !Contains("Not in this page"));
  // 1 of 6 negative labels exceeds the middle threshold, and 3 of 4 positive ones.
  CHECK_THAT(page, Contains("5<br>83.3 %") && Contains("1<br>16.7 %") && Contains("3<br>75.0 %"));
  CHECK(MissingFrom(run).empty());
}

TEST_CASE("a report for a terminal has the figures and the workers") {
  const std::string text = RunText(FullRun());
  CHECK_THAT(text, Contains("job            recommender\n") &&
                       Contains("training time  1 min 05 s\n") &&
                       Contains("ended          2026-01-01 00:00:00 UTC\n"));
  CHECK_THAT(text, Contains("loss         training    0.8000  0.8000  1\n") &&
                       Contains("worker:1  4      0.25\n") && !Contains("missing"));
}

TEST_CASE("a page says what the files lack, and why") {
  RunRecord run;
  run.name = "a";
  run.no_summary = "a has no report.json: a job writes it when it is finished";
  run.unreadable_lines = 2;
  const std::string page = RunPage(run);
  for (const char* part :
       {"2 lines of metrics.jsonl cannot be read", "curves of the training",
        "curves of the validation", "a curve of the learning rate: it is constant", "staleness",
        "workers, environment, ROC and confusion matrix: a has no report.json"}) {
    INFO(part);
    CHECK_THAT(page, Contains(part));
    CHECK_THAT(RunText(run), Contains(part));
  }
  run.summary.emplace();
  CHECK_THAT(RunPage(run),
             Contains("ROC and confusion matrix: the job has neither the metric AUC"));
}

TEST_CASE("a large cluster shows the workers at both ends") {
  RunRecord run = FullRun();
  run.summary->workers.clear();
  for (uint64_t i = 0; i < 1000; ++i) {
    run.summary->workers.push_back({fmt::format("worker:{}", i), 1000 + i, 0, 0, 0});
  }
  const std::string page = RunPage(run);
  CHECK_THAT(page, Contains(">worker:0<") && Contains(">worker:999<") &&
                       !Contains(">worker:500<") &&
                       Contains("Of 1000 workers the 20 with the smallest"));
}

TEST_CASE("a comparison has a column for each run, and only the settings that differ") {
  RunRecord a = FullRun(), b = FullRun();
  b.name = "b";
  b.keys["compile.optimizer.learning_rate"] = "0.01";
  b.summary.reset();
  b.keys.erase("evil");
  b.records.pop_back();
  const std::vector<RunRecord> runs = {a, b};
  const std::string text = ComparisonText(runs);
  CHECK_THAT(text, Contains("/tmp/<i>run</i>") && Contains("validation loss") &&
                       Contains("0.7000 (epoch 1)  -\n") &&
                       Contains("compile.optimizer.learning_rate  0.1") && Contains("not set"));
  const std::string page = ComparisonPage(runs);
  CHECK_THAT(page, Contains("<h3>loss, training</h3>") && Contains(">b</span>") &&
                       Contains("Hyper-parameters that differ") && !Contains("<script") &&
                       !Contains("<i>run"));
  for (int layer = 0; layer < 8; ++layer)
    b.keys[fmt::format("model.layers[{}].units", layer)] = "9";
  const std::vector<RunRecord> others = {a, b};
  CHECK_THAT(ComparisonText(others), Contains("model.layers[4].units") &&
                                         !Contains("model.layers[5].units") &&
                                         Contains("the models differ in 3 more"));
  const std::vector<RunRecord> same = {a, a};
  CHECK_THAT(ComparisonText(same), Contains("The runs have the same hyper-parameters"));
}

TEST_CASE("the page of a log directory is written beside its files") {
  testing::TestDirectory dir;
  CHECK_FALSE(WriteRunPage(dir.path()).ok());
  std::ofstream(dir / "metrics.jsonl") << kRunLines;
  REQUIRE(WriteRunPage(dir.path()).ok());
  CHECK_THAT(testing::ReadAllBytes(dir / "report.html"), Contains("<h3>loss</h3>"));
}

}  // namespace
}  // namespace cohort

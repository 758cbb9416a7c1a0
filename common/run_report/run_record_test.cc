#include "common/run_report/run_record.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "common/testing/directory_test_util.h"
#include "proto/config.pb.h"

namespace cohort {
namespace {

using Catch::Contains;

constexpr char kLines[] =
    R"({"time":100.0,"set":"train","kind":"step","epoch":1,"step":5,"loss":0.9,"learning_rate":0.1}
{"time":110.0,"set":"train","kind":"epoch","epoch":1,"step":10,"loss":0.8,"auc":0.6,"steps_per_second":20.0}
{"time":111.0,"set":"validation","kind":"epoch","epoch":1,"step":10,"loss":0.7,"auc":0.7,"seconds":1.0}
{"time":120.0,"set":"train","kind":"epoch","epoch":2,"step":20,"loss":null,"auc":0.5,"steps_per_second":30.0}
{"time":121.0,"set":"validation","kind":"epoch","epoch":2,"step":20,"loss":0.75,"auc":0.8}
)";

TEST_CASE("the lines of metrics.jsonl become curves and outcomes") {
  RunRecord run;
  ReadMetricLines(kLines, &run);
  CHECK(run.records.size() == 5);
  CHECK(run.unreadable_lines == 0);
  CHECK(run.MetricNames() == std::vector<std::string>{"loss", "auc"});
  CHECK(run.last_step() == 20);
  CHECK(run.last_epoch() == 2);
  CHECK(run.logged_seconds() == 21);
  CHECK(run.steps_per_second() == 25);
  const auto curve = run.Curve("train", "epoch", "loss");
  REQUIRE(curve.size() == 2);
  CHECK(curve[0].x == 10);
  CHECK(curve[0].y == 0.8);
  CHECK(std::isnan(curve[1].y));
  const auto outcomes = run.Outcomes();
  REQUIRE(outcomes.size() == 4);
  CHECK(outcomes[0].name == "loss");
  CHECK(std::isnan(outcomes[0].last));
  CHECK(outcomes[0].best == 0.8);
  CHECK(outcomes[2].set == "validation");
  CHECK(outcomes[2].best == 0.7);
  CHECK(outcomes[2].best_epoch == 1);
  CHECK(outcomes[3].best == 0.8);
  CHECK(outcomes[3].best_epoch == 2);
}

TEST_CASE("records after a rollback replace those behind it, and another job replaces all") {
  RunRecord run;
  ReadMetricLines(kLines, &run);
  ReadMetricLines(R"({"set":"train","kind":"step","epoch":2,"step":15,"loss":0.5}
)",
                  &run);
  // The second call does not know the steps of the first: a file is read by one call.
  CHECK(run.records.size() == 6);
  RunRecord again;
  ReadMetricLines(
      std::string(kLines) + R"({"set":"train","kind":"step","epoch":2,"step":15,"loss":0.5})",
      &again);
  CHECK(again.records.size() == 4);
  CHECK(again.last_step() == 15);
  RunRecord fresh;
  ReadMetricLines(
      std::string(kLines) + R"({"set":"train","kind":"step","epoch":1,"step":1,"loss":0.5})",
      &fresh);
  CHECK(fresh.records.size() == 1);
}

TEST_CASE("a line that cannot be read is counted, and the others are used") {
  RunRecord run;
  ReadMetricLines(std::string(kLines) + "{\"time\": 1\n[1, 2]\n{\"set\": 3}\n\n" +
                      R"({"set":"train","kind":"step","epoch":-1,"step":1})" + "\n" +
                      std::string(100'000, '['),
                  &run);
  CHECK(run.records.size() == 5);
  CHECK(run.unreadable_lines == 5);
}

TEST_CASE("a file of very many step records is thinned, and all other records stay") {
  testing::TestDirectory dir;
  std::string lines;
  for (int step = 1; step <= 100'000; ++step) {
    lines += fmt::format(
        "{{\"set\":\"train\",\"kind\":\"step\",\"epoch\":1,\"step\":{},\"loss\":1}}\n", step);
    if (step % 1000 == 0) {
      lines += fmt::format(
          "{{\"set\":\"train\",\"kind\":\"epoch\",\"epoch\":{},\"step\":{},\"loss\":1}}\n",
          step / 1000, step);
    }
  }
  dir.Write("metrics.jsonl", lines);
  const auto run = ReadRunRecord(dir.path());
  REQUIRE(run.ok());
  const auto steps = run->Curve("train", "step", "loss");
  CHECK(steps.size() <= 20'000);
  CHECK(steps.size() >= 5'000);
  CHECK(steps.front().x == 1);
  CHECK(steps.back().x > 99'900);
  CHECK(run->Curve("train", "epoch", "loss").size() == 100);
  CHECK(run->unreadable_lines == 0);
}

TEST_CASE("a summary is the same after a file, and names the metrics that should be small") {
  RunSummary summary;
  summary.job = "caf\xc3\xa9 <b>";
  summary.outcome = "finished";
  summary.unix_seconds = 1.5;
  summary.steps = 7;
  summary.training_seconds = 2;
  summary.steps_per_second = 3.5;
  summary.workers = {{"worker:0", 3, 0.5, 10, 20}, {"worker:1", 4, 0, 0, 0}};
  summary.facts = {{"b", "1"}, {"a", "2"}};
  summary.metrics["train"] = {{.name = "loss", .value = NAN}};
  summary.metrics["validation"] = {
      {.name = "auc", .value = 0.5, .true_positives = {2, 1}, .false_positives = {3, 0}},
      {.name = "iou", .value = 0.5, .confusion = {1, 2, 3, 4}}};
  summary.lower_is_better = {"hinge"};
  summary.environment = {{"cohort", "0.1"}};
  summary.keys = {{"fit.epochs", "3"}};
  summary.job_file = "name: x\n";
  summary.text = "speed\n";
  const auto read = RunSummary::FromJson(summary.ToJson());
  REQUIRE(read.ok());
  CHECK(read->ToJson() == summary.ToJson());
  CHECK(read->facts == summary.facts);
  CHECK(read->workers[0].received_bytes == 20);
  CHECK(std::isnan(read->metrics.at("train")[0].value));
  CHECK(read->metrics.at("validation")[1].confusion.size() == 4);
  RunRecord run;
  run.summary = *read;
  CHECK(run.LowerIsBetter("hinge"));
  CHECK(run.LowerIsBetter("age_loss"));
  CHECK_FALSE(run.LowerIsBetter("mean_squared_error"));
  CHECK(RunRecord().LowerIsBetter("mean_squared_error"));
}

TEST_CASE("a summary of another form is refused, and members of other types are ignored") {
  CHECK_FALSE(RunSummary::FromJson("").ok());
  CHECK_FALSE(RunSummary::FromJson("[]").ok());
  CHECK_FALSE(RunSummary::FromJson("{\"format\": 2}").ok());
  const auto odd = RunSummary::FromJson(
      R"({"format": 1, "job": 3, "steps": -1, "workers": {"a": 1}, "metrics": [1], "facts": "x",
          "keys": [1], "lower_is_better": [1, "a"], "environment": {"a": 1, "b": "c"}})");
  REQUIRE(odd.ok());
  CHECK(odd->steps == 0);
  CHECK(odd->workers.empty());
  CHECK(odd->environment.size() == 1);
  CHECK(odd->lower_is_better == std::vector<std::string>{"a"});
}

TEST_CASE("a metric with thresholds or a matrix keeps its counts") {
  v1::ClassConfig finalizer;
  finalizer.set_class_name("AUC");
  MetricState auc{.name = "auc",
                  .finalizer = std::make_shared<const v1::ClassConfig>(finalizer),
                  .accumulators = {{"true_positives", Reduction::kSum, {2, 1}},
                                   {"false_positives", Reduction::kSum, {3, 1}}}};
  CHECK(SummaryOf(auc).true_positives == std::vector<double>{2, 1});
  (*finalizer.mutable_config())["num_labels"].set_i(2);
  MetricState several = auc;
  several.finalizer = std::make_shared<const v1::ClassConfig>(finalizer);
  CHECK(SummaryOf(several).true_positives.empty());
  auc.accumulators[1].values = {3};
  CHECK(SummaryOf(auc).true_positives.empty());
  const MetricState iou{.name = "iou",
                        .finalizer = nullptr,
                        .accumulators = {{kConfusionMatrix, Reduction::kSum, {1, 2, 3, 4}}}};
  CHECK(SummaryOf(iou).confusion.size() == 4);
}

TEST_CASE("a directory without metrics is no run, and one without a report names it") {
  testing::TestDirectory dir;
  CHECK(absl::IsNotFound(ReadRunRecord(dir.path()).status()));
  std::ofstream(dir / "metrics.jsonl") << kLines;
  const auto run = ReadRunRecord(dir.path());
  REQUIRE(run.ok());
  CHECK_FALSE(run->summary.has_value());
  CHECK_THAT(run->no_summary, Contains("has no report.json"));
  std::ofstream(dir / "report.json") << "{";
  CHECK_THAT(ReadRunRecord(dir.path())->no_summary, Contains("report.json: "));
}

}  // namespace
}  // namespace cohort

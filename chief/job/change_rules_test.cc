#include "chief/job/change_rules.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "chief/job/job_plan.h"

namespace cohort {
namespace {

std::string SourceFile(const std::string& path) {
  const char* source = std::getenv("COHORT_SOURCE_DIR");
  std::ifstream in(std::string(source != nullptr ? source : ".") + "/" + path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST_CASE("the longest key of the rules that is equal or above decides") {
  CHECK(ChangeOf("fit.epochs") == Change::kContinues);
  CHECK(ChangeOf("data.batch_size") == Change::kStepsOfEpoch);
  CHECK(ChangeOf("compile.metrics[0].name") == Change::kAtEpochEnd);
  CHECK(ChangeOf("compile.optimizer.learning_rate") == Change::kContinues);
  CHECK(ChangeOf("compile.optimizer.class_name") == Change::kFromWeights);
  CHECK(ChangeOf("compile.optimizers[1].optimizer.learning_rate") == Change::kContinues);
  CHECK(ChangeOf("compile.optimizers[1].optimizer.class_name") == Change::kFromWeights);
  CHECK(ChangeOf("compile.optimizers[1].variables") == Change::kFromWeights);
  CHECK(ChangeOf("model.layers[1].units") == Change::kFromWeights);
  CHECK(ChangeOf("compile.loss.class_name") == Change::kFromWeights);
  CHECK(ChangeOf("variables.dense/kernel") == Change::kFromWeights);
  CHECK(ChangeOf("name") == Change::kOtherJob);
  CHECK(ChangeOf("seed") == Change::kOtherJob);
  CHECK(ChangeOf("initial_weights.path") == Change::kOtherJob);
  CHECK(ChangeOf("model.name") == Change::kContinues);
  CHECK(ChangeOf("model.names") == Change::kFromWeights);
  CHECK(ChangeOf("data.train.take") == Change::kOtherJob);
  CHECK(ChangeOf("data.train.prefetch") == Change::kContinues);
  CHECK(ChangeOf("data.train.csv.url") == Change::kContinues);
  CHECK(ChangeOf("data.train.csv.path") == Change::kOtherJob);
  CHECK(ChangeOf("data.validation.take") == Change::kContinues);
  CHECK(ChangeOf("strategy.partitioner.num_shards") == Change::kContinues);
  CHECK(ChangeOf("a key to come") == Change::kOtherJob);
}

TEST_CASE("docs/checkpoints.md has the table of the rules") {
  const std::string page = SourceFile("docs/checkpoints.md");
  INFO("docs/checkpoints.md must contain exactly this table:\n" << ChangeTable());
  CHECK(page.find("\n" + ChangeTable() + "\n") != std::string::npos);
}

// A new section of the job file needs a rule.
TEST_CASE("every key of the sample job is below a key of the rules") {
  const auto job = ParseJob(SourceFile("deploy/examples/every_key.yaml"), "every_key.yaml");
  INFO(job.status().ToString());
  REQUIRE(job.ok());
  std::string rules;
  for (const ChangeRule& rule : ChangeRules()) rules += ", " + std::string(rule.keys);
  rules += ",";
  for (const auto& [key, value] : KeysOfSpec(job->spec)) {
    bool found = false;
    for (size_t end = key.size(); !found && end != std::string::npos && end > 0;
         end = key.find_last_of(".[", end - 1)) {
      found = rules.find(", " + key.substr(0, end) + ",") != std::string::npos;
    }
    INFO(key);
    CHECK(found);
  }
}

}  // namespace
}  // namespace cohort

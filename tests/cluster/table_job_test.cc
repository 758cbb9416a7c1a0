// Tables without bounds in other jobs: one whose rules changed continues with its rows, and one
// with another optimizer, or in another directory, begins with their values.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/shard_names.h"
#include "common/tensor/table_rows.h"
#include "common/weights/initial_weights.h"
#include "deploy/launcher/export_checkpoint.h"
#include "proto/checkpoint.pb.h"
#include "tests/cluster/scenario.h"
#include "tests/cluster/trained_weights.h"

namespace cohort {
namespace {

using Body = Scenario::Body;

constexpr int kSteps = 10;  // per epoch of 320 records in batches of 32
constexpr char kTable[] = "dynamic_embedding/embeddings";
// So small that no value changes.
constexpr char kStill[] = "RowwiseAdagrad: {learning_rate: 1.0e-30, epsilon: 1}";

std::string TableJob(int epochs, const std::string& rules = "", const std::string& optimizer = "",
                     const std::string& keys = "") {
  std::string job = RecommenderJob(epochs, 0);
  const auto replace = [&job](const std::string& from, const std::string& to) {
    REQUIRE(job.find(from) != std::string::npos);
    job.replace(job.find(from), from.size(), to);
  };
  replace("Embedding: {input_dim: 8, output_dim: 20}",
          "DynamicEmbedding: {output_dim: 20" + rules + "}");
  if (!optimizer.empty()) replace("RMSprop: {learning_rate: 0.01}", optimizer);
  return job + keys;
}

// The values of the rows by key, of a checkpoint, a directory of them, or a file.
std::map<int64_t, std::vector<float>> TableIn(const std::string& path) {
  const auto source = OpenWeights(path);
  INFO(source.status());
  REQUIRE(source.ok());
  std::map<int64_t, std::vector<float>> rows;
  for (size_t i = 0; i < (*source)->tensors().size(); ++i) {
    if ((*source)->tensors()[i].name != kTable) continue;
    REQUIRE((*source)
                ->ReadTable(i, DType::kFloat32,
                            [&](std::span<const int64_t> keys, std::span<const uint8_t> values) {
                              const size_t width = values.size() / 4 / keys.size();
                              for (size_t k = 0; k < keys.size(); ++k) {
                                std::vector<float>& row = rows[keys[k]];
                                row.resize(width);
                                std::memcpy(row.data(), values.data() + k * width * 4, width * 4);
                              }
                              return absl::OkStatus();
                            })
                .ok());
  }
  REQUIRE(!rows.empty());
  return rows;
}

v1::Manifest Newest(const std::string& directory) {
  v1::Manifest manifest;
  const auto newest = NewestReadable(directory, &manifest);
  REQUIRE(newest.ok());
  REQUIRE(newest->has_value());
  CHECK(manifest.finished());
  return manifest;
}

void TablesInOtherJobs(Body body) {
  const ClusterDirectory directory("tables");
  MiniClusterOptions options{
      .servers = 2, .workers = 2, .job_yaml = TableJob(2), .directory = directory.path()};
  std::string checkpoints;
  const auto run = [&](const std::string& job) {
    options.job_yaml = job;
    for (int ps = 0; ps < options.servers; ++ps) {
      std::filesystem::remove(fmt::format("{}/apply-ps-{}.log", directory.path(), ps));
    }
    Scenario s(body, "tables", options);
    s.Check(s->StartAll());
    s.Finish();
    checkpoints = s->checkpoint_dir();
  };
  run(TableJob(2));
  const auto first = TableIn(checkpoints);
  CHECK(first.size() == 7);  // the words of the job, each with its id

  // Other rules: the job continues.
  run(TableJob(3, ", max_rows: 100, evict_after_steps: 50, min_count: 2"));
  CHECK(!std::filesystem::exists(checkpoints + "/former-1"));
  CHECK(Newest(checkpoints).step() == 3 * kSteps);
  const auto second = TableIn(checkpoints);
  const std::string exported = directory.path() + "/exported.safetensors";
  const auto text = ExportCheckpoint({.checkpoint = checkpoints, .out = exported});
  INFO(text.status());
  REQUIRE(text.ok());
  CHECK_THAT(*text, Catch::Contains("7 rows of a table without bounds"));
  CHECK(TableIn(exported) == second);
  CHECK(second.size() == 7);
  CHECK(second != first);
  CHECK(TrainedWeightsOf(checkpoints).weights.contains({kTable, kUpdatedSlot}));
  CHECK(TrainedWeightsOf(checkpoints).weights.contains({kTable, "velocity"}));

  // Another optimizer: the job starts from the weights. Slots have their first values.
  run(TableJob(1, ", max_rows: 100, evict_after_steps: 50, min_count: 2", kStill));
  CHECK(std::filesystem::exists(checkpoints + "/former-1"));
  CHECK(Newest(checkpoints).step() == kSteps);
  CHECK(TableIn(checkpoints + "/" + kInitialValuesName) == second);
  CHECK(TableIn(checkpoints) == second);
  const Weights weights = TrainedWeightsOf(checkpoints).weights;
  CHECK(weights.contains({kTable, "accumulator"}));
  CHECK(!weights.contains({kTable, "velocity"}));

  // Another job on another number of servers begins with the rows. It trains another optimizer,
  // with slots of bfloat16.
  const ClusterDirectory other("tables-other");
  MiniClusterOptions others{.servers = 3, .workers = 1, .directory = other.path()};
  others.job_yaml = TableJob(1, "", "Adam: {learning_rate: 1.0e-30, slot_dtype: bfloat16}",
                             fmt::format("initial_weights: {{path: {}}}\n", checkpoints));
  Scenario s(body, "tables-other", others);
  s.Check(s->StartAll());
  s.Said(TaskRole::kChief, 0, {"initial_weights", "3 of 3 variables"});
  s.Finish();
  CHECK(TableIn(s->checkpoint_dir()) == second);
}
COHORT_BOTH_BODIES("rows of tables continue, and begin other jobs", TablesInOtherJobs)

// In synchronous steps. Behind proxies tasks reach each other by TCP, with compact requests.
Weights TrainedBy(Body body, int servers, int workers, bool proxied, bool rounded) {
  std::string job = RecommenderJob(2, 0);
  const std::string mark = "strategy:\n";
  job.replace(job.find(mark), mark.size(), mark + "  mode: sync\n  closures_per_step: 2\n");
  if (rounded) job += "gradient_dtype: bfloat16\n";
  Scenario s(body, "rounded",
             MiniClusterOptions{
                 .servers = servers, .workers = workers, .job_yaml = job, .proxied = proxied});
  s.Check(s->StartAll());
  s.Finish();
  return TrainedWeightsOf(s->checkpoint_dir()).weights;
}

void RoundedGradients(Body body) {
  const Weights exact = TrainedBy(body, 1, 1, false, false);
  const Weights rounded = TrainedBy(body, 1, 1, false, true);
  CHECK(rounded != exact);
  for (const auto& [name, bytes] : rounded) {
    std::vector<float> a(bytes.size() / 4), b(a.size());
    std::memcpy(a.data(), bytes.data(), bytes.size());
    std::memcpy(b.data(), exact.at(name).data(), bytes.size());
    for (size_t i = 0; i < a.size(); ++i) REQUIRE(std::abs(a[i] - b[i]) < 0.02f);
  }
  for (const auto& [servers, workers, proxied] :
       std::vector<std::tuple<int, int, bool>>{{1, 2, true}, {2, 2, true}, {3, 1, false}}) {
    CAPTURE(servers, workers, proxied);
    CHECK(TrainedBy(body, servers, workers, proxied, true) == rounded);
  }
  CHECK(TrainedBy(body, 2, 2, true, false) == exact);
}
// A rollback ends the copies of rows in workers, and each update is applied once.
void HotRowsThroughALostServer(Body body) {
  std::string job = RecommenderJob(30, 50);
  const std::string mark = "strategy:\n";
  job.replace(job.find(mark), mark.size(), mark + "  hot_rows: {steps: 5, rows: 64}\n");
  Scenario s(body, "hot-rows", MiniClusterOptions{.job_yaml = job, .proxied = true});
  s.Pace(0);
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(60, std::chrono::seconds(60)));
  s.Bounce(TaskRole::kPs, 1);
  s.Said(TaskRole::kPs, 1, {"serving", "timeline=2"});
  s.Release(0);
  const ApplyReport report = s.Finish();
  CHECK(report.timelines == 2);
  // Each step pushes all rows that it reads.
  std::ifstream in(s->log_dir() + "/report.json");
  const std::string rows = nlohmann::json::parse(in)["facts"]["rows"];
  int pulled = 0, pushed = 0;
  INFO(rows);
  REQUIRE(std::sscanf(rows.c_str(), "%d pulled, %d pushed", &pulled, &pushed) == 2);
  CHECK(pulled > 0);
  CHECK(pulled < pushed / 2);
}
COHORT_BOTH_BODIES("copies of hot rows end with a rollback", HotRowsThroughALostServer)
COHORT_BOTH_BODIES("rounded gradients give the same bits in each cluster", RoundedGradients)

}  // namespace
}  // namespace cohort

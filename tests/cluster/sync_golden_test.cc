// A cluster trains as Keras does on one device with the global batch: synchronous steps of workers
// or replicas, and one worker that pushes alone. tests/golden/make_sync_golden.py has the model and
// the records.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/os/child_process.h"
#include "proto/checkpoint.pb.h"
#include "tests/cluster/scenario.h"
#include "tests/golden/golden_data.h"

namespace cohort {
namespace {

using nlohmann::json;

constexpr char kJob[] = R"(
name: golden
seed: {seed}
model:
  dtype: float64
  functional:
    - Input: {{name: ids, shape: [3], dtype: int64}}
    - Input: {{name: x, shape: [4]}}
    - Embedding: {{inputs: ids, input_dim: 6, output_dim: 3, embeddings_initializer: {random}}}
    - GlobalAveragePooling1D: {{inputs: embedding}}
    - Concatenate: {{inputs: [global_average_pooling1d, x]}}
    - Dense: {{inputs: concatenate, units: 5, activation: tanh, kernel_initializer: {random}, bias_initializer: {random}}}
    - Dense: {{name: answer, inputs: dense, units: 1, kernel_initializer: {random}, bias_initializer: {random}}}
compile:
  loss: mse
  optimizer: {{{optimizer}: {arguments}}}
data:
  batch_size: {batch}
  train:
    csv: {{path: {csv}, no_header: true, columns: [a, b, c, p, q, r, s, y]}}
    shuffle: false
    label: y
    transforms:
      - {{columns: [a, b, c], output: ids, Stack: {{}}, dtype: int64}}
      - {{columns: [p, q, r, s], output: x, Stack: {{}}, dtype: float64}}
      - {{column: y, Cast: {{dtype: float64}}}}
{fit}
strategy:
  {strategy}
  partitioner: {{FixedShards: {{num_shards: 2}}}}
checkpoint: {{directory: checkpoints, every_steps: 0}}
)";
constexpr char kValidation[] = R"(
  validation:
    csv: {{path: {csv}, no_header: true, columns: [a, b, c, p, q, r, s, y]}}
fit: {{epochs: {epochs}, callbacks: {callbacks}}})";

json ReadSyncGolden() {
  const char* source = std::getenv("COHORT_SOURCE_DIR");
  std::ifstream file(std::string(source != nullptr ? source : ".") + "/tests/golden/sync.json");
  const json golden = json::parse(file, nullptr, false);
  REQUIRE(golden.is_object());
  return golden;
}

// Writes the records to a CSV file.
void WriteRecords(const std::string& path, int64_t records) {
  const Tensor ids = golden::IntegerTensor(1, {records, 3}, 6);
  const Tensor x = golden::IntegerTensor(2, {records, 4}, 256);
  const Tensor y = golden::IntegerTensor(3, {records, 1}, 256);
  std::ofstream file(path);
  for (size_t i = 0; i < static_cast<size_t>(records); ++i) {
    for (size_t k = 0; k < 3; ++k) file << ids.values<int64_t>()[i * 3 + k] << ",";
    const auto real = [](int64_t n) { return fmt::format("{}", static_cast<double>(n) / 64 - 2); };
    for (size_t k = 0; k < 4; ++k) file << real(x.values<int64_t>()[i * 4 + k]) << ",";
    file << real(y.values<int64_t>()[i]) << "\n";
  }
}

// The loss of each validation; empty: the job has no callbacks, so nothing records it.
void CheckValidation(const v1::Manifest& newest, const json& losses) {
  for (const v1::EpochRecord& record : newest.history()) {
    INFO("epoch " << record.epoch());
    CHECK(record.values().at("val_loss") ==
          Approx(losses[record.epoch() - 1].get<double>()).epsilon(1e-9));
  }
}

// The largest difference between the weights of the finished job and those of Keras.
double LargestDifference(const std::string& checkpoint_dir, const json& c) {
  v1::Manifest newest;
  const auto entry = NewestReadable(checkpoint_dir, &newest);
  REQUIRE(entry.ok());
  REQUIRE(entry->has_value());
  REQUIRE(newest.finished());
  if (c.contains("val_loss")) CheckValidation(newest, c["val_loss"]);
  const json& variables = c["variables"];
  const auto reader = CheckpointReader::Open((*entry)->directory, {});
  REQUIRE(reader.ok());
  double largest = 0;
  for (const auto& [name, expected] : variables.items()) {
    const auto tensor = (*reader)->Read(name, "");
    INFO(name << ": " << tensor.status());
    REQUIRE(tensor.ok());
    REQUIRE(tensor->values<double>().size() == expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const double difference = std::abs(tensor->values<double>()[i] - expected[i].get<double>());
      largest = std::isnan(difference) ? difference : std::max(largest, difference);
    }
  }
  return largest;
}

// Trains a job in a directory of its own, and returns where its checkpoints are.
using Train =
    std::function<std::string(const std::string& directory, const std::string& job, int workers)>;

std::string TrainOnServers(const std::string& directory, const std::string& job, int workers) {
  Scenario s(Scenario::Body::kInProcess, "sync-golden",
             MiniClusterOptions{
                 .servers = 2, .workers = workers, .job_yaml = job, .directory = directory});
  s.Check(s->StartAll());
  s.Finish();
  return s->checkpoint_dir();
}

// As `cohort train --strategy mirrored` does, one replica per worker.
std::string TrainMirrored(const std::string& directory, const std::string& job, int workers) {
  const char* const build = std::getenv("COHORT_BINARY_DIR");
  REQUIRE(build != nullptr);  // ctest sets it
  const std::string file = directory + "/job.yaml";
  std::ofstream(file) << job;
  std::string devices = "cpu:0";
  for (int i = 1; i < workers; ++i) devices += fmt::format(",cpu:{}", i);
  auto run = ChildProcess::Start(
      {.argv = {fmt::format("{}/bin/cohort", build), "train", file, "--strategy=mirrored",
                "--devices=" + devices, "--run_dir=" + directory}});
  INFO(run.status());
  REQUIRE(run.ok());
  REQUIRE(ExitCodeOfWait((*run)->Wait()) == 0);
  return directory + "/checkpoints";
}

void EqualsKeras(const Train& train, const std::string& strategy, int64_t closures, int workers) {
  const json golden = ReadSyncGolden();
  for (const json& c : golden["cases"]) {
    ClusterDirectory directory("sync-golden");
    const std::string csv = directory.path() + "/records.csv";
    WriteRecords(csv, golden["records"].get<int64_t>());
    const int epochs = golden["epochs"].get<int>();
    const std::string fit =
        c.contains("callbacks")
            ? fmt::format(kValidation, fmt::arg("csv", csv), fmt::arg("epochs", epochs),
                          fmt::arg("callbacks", c["callbacks"].dump()))
            : fmt::format("fit: {{epochs: {}}}", epochs);
    const std::string job =
        fmt::format(kJob, fmt::arg("seed", golden["seed"].get<int>()),
                    fmt::arg("random", "{RandomUniform: {minval: -0.5, maxval: 0.5}}"),
                    fmt::arg("optimizer", c["class_name"].get<std::string>()),
                    fmt::arg("arguments", c["config"].dump()), fmt::arg("csv", csv),
                    fmt::arg("batch", golden["batch"].get<int64_t>() / closures),
                    fmt::arg("fit", fit), fmt::arg("strategy", strategy));
    INFO(c["name"]);
    const std::string checkpoints = train(directory.path(), job, workers);
    CHECK(LargestDifference(checkpoints, c) < 1e-9);
  }
}

TEST_CASE("synchronous steps of three workers equal Keras with the global batch", "[in_process]") {
  EqualsKeras(TrainOnServers, "mode: sync\n  closures_per_step: 3", 3, 3);
}

TEST_CASE("synchronous steps of two replicas equal Keras with the global batch", "[processes]") {
  EqualsKeras(TrainMirrored, "mode: sync\n  closures_per_step: 3", 3, 2);
}

TEST_CASE("one asynchronous worker equals Keras", "[in_process]") {
  EqualsKeras(TrainOnServers, "mode: async", 1, 1);
}

}  // namespace
}  // namespace cohort

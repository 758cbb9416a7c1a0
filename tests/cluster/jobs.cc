#include "tests/cluster/jobs.h"

#include <absl/strings/match.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace cohort {
namespace {

constexpr char kRecommender[] = R"(name: {name}
seed: 7
model:
  sequential:
    - Input: {{name: features, shape: [3], dtype: int64}}
    - Embedding: {{input_dim: 8, output_dim: 20}}
    - GlobalAveragePooling1D: {{}}
    - Dense: {{units: 1, activation: sigmoid}}
compile:
  loss: binary_crossentropy
  metrics: [binary_accuracy]
  optimizer: {{RMSprop: {{learning_rate: 0.01}}}}
data:
  visitation: exactly_once
  batch_size: 32
  train:
    generator: {{name: recommender, records: {records}, seed: 1}}
    shuffle: true
    label: label
    transforms:
      - {{column: features, lookup: string, vocabulary: [avenger, ironman, batman, hulk, spiderman, kingkong, wonder_woman]}}
      - {{column: label, equals: "yes", dtype: float32}}
fit: {{epochs: {epochs}}}
strategy:
  partitioner: {{FixedShards: {{num_shards: 2}}}}
checkpoint: {{directory: checkpoints, every_steps: {checkpoint_steps}}}
)";

std::string Recommender(const std::string& name, int records, int epochs, int checkpoint_steps) {
  return fmt::format(kRecommender, fmt::arg("name", name), fmt::arg("records", records),
                     fmt::arg("epochs", epochs), fmt::arg("checkpoint_steps", checkpoint_steps));
}

}  // namespace

ClusterDirectory::ClusterDirectory(const std::string& name)
    : path_((std::filesystem::temp_directory_path() / fmt::format("cohort-{}-{}", name, getpid()))
                .string()) {
  std::filesystem::remove_all(path_);
  std::filesystem::create_directories(path_);
}

ClusterDirectory::~ClusterDirectory() {
  std::error_code ignored;
  if (std::getenv("COHORT_TEST_KEEP") == nullptr) std::filesystem::remove_all(path_, ignored);
}

std::string ExampleJob(const std::string& file) {
  const char* source = std::getenv("COHORT_SOURCE_DIR");
  std::ifstream in(fmt::format("{}/deploy/examples/{}", source != nullptr ? source : ".", file));
  std::string text;
  for (std::string line; std::getline(in, line);) {
    if (!absl::StrContains(line, "sha256")) text += line + "\n";
  }
  return text;
}

std::string GeneratedDataDir() {
  const char* binary = std::getenv("COHORT_BINARY_DIR");
  return fmt::format("{}/tests/data", binary != nullptr ? binary : "build/release");
}

std::string RecommenderJob(int epochs, int checkpoint_steps, int records) {
  return Recommender("recommender", records, epochs, checkpoint_steps);
}

std::string WithValidation(std::string job) {
  const std::string mark = "\nfit:";
  return job.replace(
      job.find(mark), mark.size(),
      "\n  validation:\n    generator: {name: recommender, records: 100, seed: 2}\nfit:");
}

std::string StormJob(int epochs, int checkpoint_steps) {
  return Recommender("storm", 32 * 1000, epochs, checkpoint_steps);
}

}  // namespace cohort

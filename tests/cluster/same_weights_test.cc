// The promise of the synchronous mode, on examples with real processes: all final
// weights and slots are bit-identical for any number of workers and servers, whatever was killed,
// and equal to those of one worker and one server that nothing disturbed.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "tests/cluster/scenario.h"
#include "tests/cluster/trained_weights.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kMnist[] = "mnist_mlp.yaml";
constexpr char kConvolutions[] = "mnist_cnn.yaml";
constexpr char kCensus[] = "census_csv.yaml";
// The same, with tables without bounds for the embeddings.
constexpr char kTables[] = "census_csv.yaml, tables";
// With a table of some 20,000 rows besides, and increments between the full checkpoints; and the
// same if most of its rows lie on disk.
constexpr char kManyRows[] = "census_csv.yaml, many rows";
constexpr char kRowsOnDisk[] = "census_csv.yaml, rows on disk";

// Both callbacks change the learning rate at the end of each epoch.
constexpr char kCallbacks[] =
    "epochs: 4\n  callbacks: [{LearningRateScheduler: {schedule: {0: 0.002, 2: 0.004}}}, "
    "{ReduceLROnPlateau: {monitor: loss, mode: max, factor: 0.5, patience: 1}}]";

std::string SyncJob(const std::string& example, bool callbacks) {
  const bool many_rows = example == kManyRows || example == kRowsOnDisk;
  std::string job = ExampleJob(example == kTables || many_rows ? kCensus : example);
  const auto replace = [&job](const std::string& from, const std::string& to) {
    REQUIRE(job.find(from) != std::string::npos);
    job.replace(job.find(from), from.size(), to);
  };
  if (example == kTables) {
    replace("- Embedding", "- DynamicEmbedding");
    replace("input_dim: 17, ", "min_count: 2, evict_after_steps: 3, admission_probability: 0.7, ");
    replace("- Embedding", "- DynamicEmbedding");
    replace("input_dim: 15, ", "evict_below_l2: 0.05, ");
  }
  if (many_rows) {
    replace("    - Input: {name: age",
            "    - Input: {name: fnlwgt, shape: [1], dtype: int64}\n    - Input: {name: age");
    replace("    - Flatten: {name: education_vector",
            "    - DynamicEmbedding: {name: many, inputs: fnlwgt, output_dim: 8, "
            "min_count: 2, admission_probability: 0.7, evict_after_steps: 100}\n    - Flatten: "
            "{name: many_vector, inputs: many}\n"
            "    - Flatten: {name: education_vector");
    replace("[education_vector, ", "[many_vector, education_vector, ");
    replace("optimizer: adam", "optimizer: {Adam: {sparse_update: lazy}}");
  }
  replace("epochs: 5", callbacks ? kCallbacks : "epochs: 2");
  replace("every_epochs: 1", callbacks ? "every_steps: 120" : "every_epochs: 1\n  every_steps: 30");
  if (many_rows) replace("  every_steps: 30", "  every_steps: 10\n  full_every: 4");
  const std::string limit = example == kRowsOnDisk ? ", table_memory_bytes: 131072" : "";
  replace("\ncheckpoint:",
          "\nstrategy: {mode: sync, closures_per_step: 3" + limit + "}\n\ncheckpoint:");
  return job;
}

MiniClusterOptions OptionsFor(const std::string& example, int workers, int servers,
                              bool callbacks) {
  return {.servers = servers,
          .workers = workers,
          .job_yaml = SyncJob(example, callbacks),
          .data_dir = GeneratedDataDir(),
          .proxied = true};
}

TrainedWeights Undisturbed(const std::string& example, bool callbacks = false) {
  Scenario s(Scenario::Body::kProcesses, "same-calm", OptionsFor(example, 1, 1, callbacks));
  s.Check(s->StartAll());
  s.Finish();
  return TrainedWeightsOf(s->checkpoint_dir());
}

// Kills tasks of any role, each some updates after the last one.
TrainedWeights Stormed(const std::string& example, int workers, int servers, int kills,
                       uint32_t seed, bool callbacks = false) {
  INFO(example << ": " << workers << " workers, " << servers << " servers, seed " << seed);
  Scenario s(Scenario::Body::kProcesses, "same-storm",
             OptionsFor(example, workers, servers, callbacks));
  for (int i = 0; i < servers; ++i) s.Pace(i, milliseconds(5));
  s.Check(s->StartAll());
  std::mt19937 random(seed);
  for (int i = 0; i < kills; ++i) {
    INFO("kill " << i);
    const std::string log = s->apply_log(0);
    LineFollower lines(log, SizeOf(log));
    uint32_t more = 5 + random() % 30;
    REQUIRE(lines.WaitFor([&](std::string_view) { return --more == 0; }, seconds(90)));
    const int task = static_cast<int>(random() % static_cast<uint32_t>(1 + workers + servers));
    if (task == 0) {
      s.Bounce(TaskRole::kChief, 0);
    } else if (task <= workers) {
      s.Bounce(TaskRole::kWorker, task - 1);
    } else {
      s.Bounce(TaskRole::kPs, task - 1 - workers);
    }
  }
  for (int i = 0; i < servers; ++i) s.Release(i);
  s.Finish(seconds(300));
  return TrainedWeightsOf(s->checkpoint_dir());
}

TEST_CASE("a sample: the census model, 3 workers and 2 servers, 10 kills", "[sample]") {
  CheckSameWeights(Undisturbed(kCensus), Stormed(kCensus, 3, 2, 10, 1));
}

TEST_CASE("tables without bounds with all rules of theirs, 3 workers and 2 servers, 10 kills",
          "[sample]") {
  CheckSameWeights(Undisturbed(kTables), Stormed(kTables, 3, 2, 10, 2));
}

TEST_CASE("a table whose rows lie on disk, 3 workers and 2 servers, 10 kills", "[disk]") {
  CheckSameWeights(Undisturbed(kManyRows), Stormed(kRowsOnDisk, 3, 2, 10, 5));
}

TEST_CASE("learning rates that callbacks set, 3 workers and 2 servers, 12 kills", "[rates]") {
  CheckSameWeights(Undisturbed(kCensus, /*callbacks=*/true),
                   Stormed(kCensus, 3, 2, 12, 3, /*callbacks=*/true));
}

TEST_CASE("convolutions: 3 workers and 2 servers, 10 kills", "[all]") {
  CheckSameWeights(Undisturbed(kConvolutions), Stormed(kConvolutions, 3, 2, 10, 1));
}

TEST_CASE("rows on disk, increments, admission and eviction: 20 storms of 15 kills", "[all]") {
  const TrainedWeights calm = Undisturbed(kManyRows);
  for (uint32_t seed = 100; seed < 120; ++seed) {
    CheckSameWeights(calm, Stormed(kRowsOnDisk, 3, 2, 15, seed));
  }
}

TEST_CASE("1, 3 and 5 workers, 1, 2 and 4 servers, 30 kills each", "[all]") {
  uint32_t seed = 0;
  for (const std::string example : {kMnist, kCensus}) {
    const TrainedWeights calm = Undisturbed(example);
    for (const int workers : {1, 3, 5}) {
      for (const int servers : {1, 2, 4}) {
        CheckSameWeights(calm, Stormed(example, workers, servers, 30, ++seed));
      }
    }
  }
}

}  // namespace
}  // namespace cohort

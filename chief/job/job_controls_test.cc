#include "chief/job/job_controls.h"

#include <catch2/catch.hpp>
#include <thread>

#include "chief/job/fake_cluster_test_util.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using testing::Console;
using testing::FakeCluster;
using testing::TestDirectory;

JobPlan ControlledPlan() {
  auto job = ParseJob(
      "name: t\n"
      "model:\n  sequential:\n"
      "    - Input: {shape: [3], dtype: int64, feature: features}\n"
      "    - Embedding: {input_dim: 8, output_dim: 4}\n"
      "    - GlobalAveragePooling1D\n"
      "    - Dense: {units: 1, activation: sigmoid}\n"
      "compile: {loss: binary_crossentropy, optimizer: SGD}\n"
      "data:\n  batch_size: 10\n"
      "  train:\n"
      "    generator: {name: recommender, records: 20, seed: 1}\n"
      "    transforms:\n"
      "      - {column: features, lookup: string}\n"
      "      - {column: label, equals: \"yes\"}\n"
      "    label: label\n"
      "fit: {epochs: 2}\n",
      "t.yaml");
  REQUIRE(job.ok());
  auto plan = JobPlan::Make(*std::move(job), {});
  INFO(plan.status().ToString());
  REQUIRE(plan.ok());
  return *std::move(plan);
}

// A chief of the job: each start is another one.
struct ControlledChief {
  explicit ControlledChief(const std::string& directory, bool restarted, bool fresh = false) {
    REQUIRE(controls.Read({.directory = directory, .fresh = fresh, .restarted = restarted}).ok());
    REQUIRE(controls.Keep().ok());
    controls.Attach(&cluster);
  }

  FakeCluster cluster;
  Console shown{&cluster.clock};
  JobPlan plan = ControlledPlan();
  JobControls controls{&plan, &shown.console};
};

TEST_CASE("a job that a user has started stays so when its chief is restarted") {
  const TestDirectory directory;
  ControlledChief first(directory.path(), /*restarted=*/false);
  REQUIRE(first.controls.SetPaused(true, &first.cluster).ok());
  CHECK(first.cluster.paused);
  CHECK(ControlledChief(directory.path(), /*restarted=*/true).cluster.paused);
  CHECK(!ControlledChief(directory.path(), /*restarted=*/false).cluster.paused);
  CHECK(!ControlledChief(directory.path(), /*restarted=*/true).cluster.paused);
}

TEST_CASE("fences of workers outlive a restart by a supervisor, and not one by a user") {
  const TestDirectory directory;
  using Calls = std::vector<std::string>;
  ControlledChief first(directory.path(), /*restarted=*/false);
  for (const int worker : {1, 2}) {
    REQUIRE(first.controls.FenceWorker(worker, /*fenced=*/true, &first.cluster).ok());
  }
  REQUIRE(first.controls.FenceWorker(1, /*fenced=*/false, &first.cluster).ok());
  CHECK(first.cluster.calls == Calls{"fence worker:1", "fence worker:2", "unfence worker:1"});
  CHECK(ControlledChief(directory.path(), /*restarted=*/true).cluster.calls ==
        Calls{"fence worker:2 again"});
  CHECK(ControlledChief(directory.path(), /*restarted=*/false).cluster.calls.empty());
  CHECK(ControlledChief(directory.path(), /*restarted=*/true).cluster.calls.empty());
}

TEST_CASE("a job that begins from nothing has the epochs of its file, also after a restart") {
  const TestDirectory directory;
  REQUIRE(ControlledChief(directory.path(), /*restarted=*/false).controls.Extend(20).ok());
  CHECK(ControlledChief(directory.path(), /*restarted=*/true).controls.asked().epochs == 20);
  SECTION("with --fresh, which deletes the note") {
    REQUIRE(DeleteControlNote(directory.path()).ok());
    const ControlledChief fresh(directory.path(), /*restarted=*/false, /*fresh=*/true);
    CHECK(fresh.controls.asked().epochs == 2);
  }
  SECTION("in the directory of another job") {
    ControlledChief other(directory.path(), /*restarted=*/false);
    REQUIRE(other.controls.Forget().ok());
    CHECK(other.controls.asked().epochs == 2);
  }
  CHECK(ControlledChief(directory.path(), /*restarted=*/true).controls.asked().epochs == 2);
}

TEST_CASE("changes at the same time are all kept") {
  const TestDirectory directory;
  ControlledChief chief(directory.path(), /*restarted=*/false);
  bool all_extended = true;
  std::thread extend([&] {
    for (uint64_t epochs = 3; epochs <= 40; ++epochs) {
      all_extended &= chief.controls.Extend(epochs).ok();
    }
  });
  for (int i = 0; i < 39; ++i) CHECK(chief.controls.SetPaused(i % 2 == 0, &chief.cluster).ok());
  extend.join();
  CHECK(all_extended);
  const auto note = ReadControlNote(directory.path());
  REQUIRE(note.ok());
  CHECK(note->paused);
  CHECK(note->epochs == 40);
}

TEST_CASE("a job has the epochs that it has accepted, or refuses them") {
  const TestDirectory directory;
  ControlledChief chief(directory.path(), /*restarted=*/false);
  REQUIRE(chief.controls.Extend(5).ok());
  CHECK(absl::IsInvalidArgument(chief.controls.Extend(5)));
  chief.controls.UpdateEpochs(/*ends=*/true);
  CHECK(chief.plan.schedule().epochs == 5);
  REQUIRE(chief.controls.Extend(6).ok());
  chief.controls.UpdateEpochs(/*ends=*/false);
  chief.controls.UpdateEpochs(/*ends=*/true);
  CHECK(absl::IsFailedPrecondition(chief.controls.Extend(7)));
  CHECK(chief.controls.asked().epochs == 6);
}

TEST_CASE("an edited learning rate counts once") {
  const TestDirectory directory;
  const auto rate_after = [&](const std::vector<KeyChange>& changes, double before) {
    ControlledChief chief(directory.path(), /*restarted=*/true);
    chief.cluster.now.learning_rate = before;
    REQUIRE(chief.controls.ApplyEdits(changes, &chief.cluster).ok());
    return *chief.cluster.now.learning_rate;
  };
  const auto edit = [](const std::string& now) {
    return std::vector<KeyChange>{
        {.key = "compile.optimizer.learning_rate", .then = "1", .now = now}};
  };
  CHECK(rate_after({}, 0.5) == 0.5);
  CHECK(rate_after(edit("2"), 0.5) == -1);
  // A user has set it since, and the chief has died before the next checkpoint.
  CHECK(rate_after(edit("2"), 0.01) == 0.01);
  CHECK(rate_after(edit("3"), 0.01) == -1);
  // A checkpoint with this rate came, and then another edit.
  CHECK(rate_after({}, 0.01) == 0.01);
  CHECK(rate_after(edit("3"), 0.01) == -1);
}

}  // namespace
}  // namespace cohort

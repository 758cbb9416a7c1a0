#include "chief/job/epoch_runner.h"

#include <catch2/catch.hpp>

#include "chief/job/fake_cluster_test_util.h"

namespace cohort {
namespace {

using testing::FakeCluster;
using Calls = std::vector<std::string>;

const JobSchedule kTwoEpochs{
    .epochs = 2, .steps_per_epoch = 5, .steps_per_closure = 2, .batch_size = 1, .train_records = 5};

TEST_CASE("an epoch is scheduled to its end, as many closures at a time as the window holds") {
  FakeCluster cluster;
  EpochRunner epochs(&cluster, &kTwoEpochs, &cluster.clock, {.window = 2});
  int polls = 0;
  REQUIRE(epochs
              .Run(0,
                   [&](const CoordinatorState&) {
                     ++polls;
                     return absl::OkStatus();
                   })
              .ok());
  CHECK(cluster.calls == Calls{"train 0+2", "train 2+2", "train 4+1"});
  CHECK(polls == 2);
  REQUIRE(epochs.Run(1, [](const CoordinatorState&) { return absl::OkStatus(); }).ok());
  CHECK(cluster.calls.back() == "train 9+1");
  CHECK(epochs.figures().steps == 10);
  CHECK(epochs.figures().seconds == Approx(0.2));
  CHECK(epochs.figures().last_rate == Approx(50));
}

TEST_CASE("what a restore left unfinished comes first, and the epoch lasts until it is scheduled") {
  FakeCluster cluster;
  cluster.now.next_place = 5;
  cluster.unfinished = {{.place = 0, .steps = 2}, {.place = 4, .steps = 1}};
  EpochRunner epochs(&cluster, &kTwoEpochs, &cluster.clock, {.window = 1});
  epochs.TakeUnfinished();
  CHECK(!epochs.BetweenEpochs(cluster.now));
  REQUIRE(epochs.Run(0, [](const CoordinatorState&) { return absl::OkStatus(); }).ok());
  CHECK(cluster.calls == Calls{"train 0+2", "train 4+1"});
  epochs.TakeUnfinished();
  cluster.now.epoch = 1;
  CHECK(epochs.BetweenEpochs(cluster.now));
}

TEST_CASE("an error ends the epoch, and its steps so far count") {
  FakeCluster cluster;
  cluster.fail = [](const std::string& call) {
    return call == "train 4+1" ? testing::LostServer() : absl::OkStatus();
  };
  EpochRunner epochs(&cluster, &kTwoEpochs, &cluster.clock, {.window = 2});
  CHECK(
      absl::IsUnavailable(epochs.Run(0, [](const CoordinatorState&) { return absl::OkStatus(); })));
  CHECK(epochs.figures().steps == 4);
}

}  // namespace
}  // namespace cohort

#include "chief/job/best_tracker.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "chief/job/fake_cluster_test_util.h"

namespace cohort {
namespace {

using testing::Console;
using testing::FakeCluster;

struct Tracked {
  Tracked()
      : shown(&cluster.clock),
        best(BestRule{.metric = "val_loss"}, &cluster, &shown.console, shown.log.get()) {
    cluster.keeper = best.keeper();
    cluster.now.timeline = 1;
  }
  // The validation after an epoch finds this loss; a checkpoint follows if it is due.
  bool Validate(uint64_t epoch, double loss) {
    cluster.now.epoch = epoch;
    cluster.now.next_place = epoch * 10;
    best.Judge({MeanState("loss", loss, 1)}, epoch, cluster.now, cluster.newest_checkpoint());
    const bool due = best.TakeDue();
    if (due) REQUIRE(cluster.Checkpoint(/*finished=*/false).ok());
    best.Announce();
    return due;
  }

  FakeCluster cluster;
  Console shown;
  BestTracker best;
};

TEST_CASE("a better validation makes a checkpoint due, which is announced once") {
  Tracked t;
  CHECK(t.Validate(1, 0.5));
  CHECK(!t.best.TakeDue());
  CHECK(!t.Validate(2, 0.6));
  CHECK(t.Validate(3, 0.4));
  CHECK(t.best.best()->epoch() == 3);
  CHECK(t.best.HasCheckpointOf(3, 30));
  CHECK(std::count_if(t.shown.lines.begin(), t.shown.lines.end(), [](const std::string& line) {
          return line.find("best checkpoint so far") != std::string::npos;
        }) == 2);
}

TEST_CASE("after a restore the best is the one that the checkpoint names") {
  Tracked t;
  t.Validate(1, 0.5);
  const std::string first = t.cluster.newest_checkpoint();
  t.Validate(2, 0.4);
  CHECK(t.best.FindAgain(first, 1));
  CHECK(t.best.best()->epoch() == 1);
  CHECK(!t.best.FindAgain("", 2));
  CHECK(!t.best.best().has_value());
}

TEST_CASE("a best checkpoint that somebody deleted does not count any more") {
  Tracked t;
  t.Validate(1, 0.5);
  t.cluster.manifests.clear();
  CHECK(t.Validate(2, 0.9));
  CHECK(t.shown.Has("was the best checkpoint and does not exist any more"));
  CHECK(t.best.best()->epoch() == 2);
}

TEST_CASE("a manifest that cannot be read leaves the best to an older one of its timeline") {
  Tracked t;
  t.Validate(1, 0.5);
  CHECK(t.best.FindAgain("/c/ckpt-1-1-9", 1));
  CHECK(t.best.best()->epoch() == 1);
  CHECK(!t.best.FindAgain("/c/ckpt-1-1-9", 2));
  CHECK(!t.best.best().has_value());
}

}  // namespace
}  // namespace cohort

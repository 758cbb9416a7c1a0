#include "chief/job/checkpoint_news.h"

#include <catch2/catch.hpp>

#include "chief/job/fake_cluster_test_util.h"
#include "common/base/status.h"

namespace cohort {
namespace {

TEST_CASE("failed checkpoints are shown ever less often, with what to do") {
  ManualClock clock;
  testing::Console shown(&clock);
  CheckpointNews news(&shown.console);
  news.Note("/c", absl::OkStatus());
  news.Note("/c", Aborted("the cluster is being rolled back"));
  absl::Status lost = Unavailable("ps:0 is lost");
  SetFailure(&lost, {.role = "ps", .index = 0, .retryable = true});
  news.Note("/c", lost);
  CHECK(shown.lines.empty());
  const absl::Status full = ResourceExhausted("ps:1 (host:2): /c/ckpt-1-1-1: the disk is full");
  for (int i = 0; i < 7; ++i) news.Note("/c", full);
  CHECK(shown.lines.size() == 3);
  CHECK(
      shown.Has("warning: a checkpoint failed: ps:1 (host:2): /c/ckpt-1-1-1: the disk is full; "
                "the next one tries again: make space in /c"));
  CHECK(shown.Has("warning: 4 checkpoints in a row have failed: ps:1"));
  news.Note("/c", absl::OkStatus());
  news.Note("/c", absl::OkStatus());
  CHECK(shown.lines.size() == 4);
  CHECK(shown.Has("checkpoints are written again, after 7 that failed"));
}

}  // namespace
}  // namespace cohort

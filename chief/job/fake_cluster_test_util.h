#ifndef COHORT_CHIEF_JOB_FAKE_CLUSTER_TEST_UTIL_H_
#define COHORT_CHIEF_JOB_FAKE_CLUSTER_TEST_UTIL_H_

#include <fmt/format.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "chief/api/closure_results.h"
#include "chief/api/training_cluster.h"
#include "chief/job/best_keeper.h"
#include "chief/job/checkpoint_catalog.h"
#include "chief/job/epoch_callbacks.h"
#include "chief/job/job_console.h"
#include "chief/job/metrics_log.h"
#include "common/base/clock_test_util.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace cohort::testing {

// A cluster whose closures finish at once, and the catalog of its checkpoints. The test defines the
// errors.
class FakeCluster : public TrainingCluster, public CheckpointCatalog {
 public:
  // The calls, in order: "train 0+2" (place and steps), "validate 0", "end epoch 1",
  // "checkpoint", "last checkpoint", "restore".
  std::vector<std::string> calls;
  CoordinatorState now;
  std::vector<UnfinishedClosure> unfinished;
  bool paused = false;
  std::map<std::string, double> validation = {{"loss", 1.0}};  // result of each validation
  std::function<absl::Status(const std::string& call)> fail;   // runs before the call; may be empty
  BestKeeper* keeper = nullptr;
  EpochCallbacks* callbacks = nullptr;
  std::vector<v1::Manifest> manifests;   // committed, oldest first
  std::vector<v1::EpochRecord> history;  // the journal's

  absl::StatusOr<RemoteValue> Schedule(ClosureSpec spec) override;
  absl::Status Join() override { return TakeError(); }
  absl::StatusOr<bool> JoinFor(double seconds) override;
  absl::Status Checkpoint(bool finished) override;
  absl::Status StartCheckpoint() override { return Checkpoint(/*finished=*/false); }
  absl::Status SetMode(const ModeSettings&) override { return Called("set mode"); }
  absl::Status MoveTablets(const TabletMove&) override { return Called("move tablets"); }
  absl::Status FenceWorker(int worker, bool fenced, bool again) override {
    return Called(
        fmt::format("{}fence worker:{}{}", fenced ? "" : "un", worker, again ? " again" : ""));
  }
  absl::Status AwaitServers() override { return Called("await servers"); }
  absl::Status Restore() override;
  absl::Status RestoreFrom(const std::string& checkpoint) override;
  std::vector<UnfinishedClosure> Unfinished() const override { return unfinished; }
  absl::Status SetLearningRate(double rate, bool by_user) override;
  void SetPaused(bool now_paused) override { paused = now_paused; }
  absl::Status EndEpoch(const v1::EpochRecord* record) override;
  std::vector<v1::EpochRecord> History() const override { return history; }
  absl::Status Shutdown(const std::string&, bool) override { return Called("shutdown"); }
  CoordinatorState state() const override { return now; }
  std::string newest_checkpoint() const override { return newest_; }

  absl::StatusOr<bool> HasCheckpoint() const override { return !manifests.empty(); }
  absl::StatusOr<v1::Manifest> Read(const std::string& checkpoint) const override;
  absl::StatusOr<std::optional<v1::Manifest>> NewestManifest() const override;
  absl::StatusOr<std::optional<v1::BestCheckpoint>> BestUpTo(
      const v1::Manifest& last, const BestRule& rule,
      const RefusedCallback& refused) const override;
  std::string PathOf(const std::string& name) const override { return "/c/" + name; }
  bool IsGone(const std::string& name) const override { return !Read(PathOf(name)).ok(); }

  ManualClock clock;

 private:
  absl::Status Called(const std::string& call);
  absl::Status TakeError();
  void GoTo(const v1::Manifest& from);

  ClosureResults results_;
  absl::Status error_;  // raised by the next Join
  std::string newest_;
  uint64_t next_cut_ = 0;
};

// The error of a lost server, as the core raises it.
absl::Status LostServer();

// A console and a log that keep their lines.
struct Console {
  explicit Console(const Clock* clock);
  bool Has(const std::string& text) const;

  std::vector<std::string> lines;
  std::string log_text;
  std::unique_ptr<Logger> log;
  ProgressLine line;
  JobConsole console;
  MetricsLog metrics;
};

}  // namespace cohort::testing

#endif  // COHORT_CHIEF_JOB_FAKE_CLUSTER_TEST_UTIL_H_

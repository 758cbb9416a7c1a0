#ifndef COHORT_TESTS_SIMULATOR_SIMULATED_CLUSTER_H_
#define COHORT_TESTS_SIMULATOR_SIMULATED_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "chief/api/closure_results.h"
#include "chief/api/training_cluster.h"
#include "chief/core/coordinator_core.h"
#include "chief/job/checkpoint_catalog.h"
#include "tests/simulator/cluster.h"
#include "tests/simulator/fiber.h"

namespace cohort::simulator {

// Blocks a fiber until a condition of the core holds. The inputs of the core call Poll.
class FiberWait {
 public:
  FiberWait(Node* node, Fiber* fiber) : node_(node), fiber_(fiber) {}

  // On the fiber. True when the condition holds, false when the time is over first.
  bool For(const std::function<bool()>& condition, int64_t timeout_us, const char* what);
  // After each input, not on the fiber: resumes it if its condition holds.
  void Poll();
  const std::string& what() const { return what_; }

 private:
  Node* const node_;
  Fiber* const fiber_;
  const std::function<bool()>* condition_ = nullptr;
  std::string what_;
  uint64_t number_ = 0;
};

// The cluster that the real job walk (chief/job/job_walk.h) trains on in a simulation: what
// ClusterCoordinator does with threads, on a fiber.
class SimulatedCluster : public TrainingCluster {
 public:
  // `wait` blocks the job walk, `user_wait` those who change the mode.
  SimulatedCluster(Cluster* cluster, CoordinatorCore* core, FiberWait* wait, FiberWait* user_wait)
      : cluster_(cluster), core_(core), wait_(wait), user_wait_(user_wait) {}

  // Until every task is adopted.
  absl::Status WaitUntilReady();
  // Resumes with what the servers hold, or restores the newest checkpoint.
  absl::Status CreateVariables(v1::Layout layout);

  // Some evaluation closures run beside the training, with this program on batches of this dataset.
  void EvaluateBeside(int program, int resource) {
    eval_program_ = program;
    eval_resource_ = resource;
  }
  // In synchronous modes a closure sees one version of all tablets, and training closures that are
  // scheduled later do not overtake it.
  void CheckResult(const v1::ClosureResult& result);

  // Effects of the core.
  void OnClosureDone(uint64_t token, const absl::Status& status, const v1::ClosureResult* result) {
    results_.Finish(token, status, result);
  }
  void OnCutDone(uint64_t cut, const absl::Status& status);
  void OnRollbackDone(const absl::Status& status) { rollback_done_ = status; }
  void OnCommitted(const std::string& directory) { newest_ = directory; }

  // TrainingCluster
  absl::StatusOr<RemoteValue> Schedule(ClosureSpec spec) override;
  absl::Status Join() override;
  absl::StatusOr<bool> JoinFor(double seconds) override;
  absl::Status Checkpoint(bool finished) override;
  absl::Status StartCheckpoint() override;
  absl::Status SetMode(const ModeSettings& settings) override;
  absl::Status AwaitServers() override;
  absl::Status Restore() override;
  absl::Status RestoreFrom(const std::string&) override {
    return Unimplemented("no simulated job restores its best checkpoint");
  }
  std::vector<UnfinishedClosure> Unfinished() const override;
  absl::Status SetLearningRate(double rate, bool by_user) override;
  absl::Status MoveTablets(const TabletMove& move) override { return core_->MoveTablets(move); }
  absl::Status FenceWorker(int worker, bool fenced, bool again) override {
    return core_->FenceWorker(worker, fenced, again);
  }
  void SetPaused(bool paused) override { core_->SetPaused(paused); }
  absl::Status EndEpoch(const v1::EpochRecord* record) override;
  std::vector<v1::EpochRecord> History() const override { return core_->history(); }
  absl::Status Shutdown(const std::string& reason, bool job_finished) override;
  CoordinatorState state() const override;
  std::string newest_checkpoint() const override { return newest_; }

 private:
  bool Failed() const { return core_->view().phase() == CoordinatorCore::Phase::kFailed; }
  // Until the condition holds or the core has failed, which is the error then.
  absl::Status Await(const std::function<bool()>& condition, int64_t timeout_us, const char* what);
  absl::Status RollBackOnce();
  void CheckEpoch() const;
  void MaybeEvaluate();

  Cluster* const cluster_;
  CoordinatorCore* const core_;
  FiberWait* const wait_;
  FiberWait* const user_wait_;
  ClosureResults results_;
  std::string newest_;
  std::map<uint64_t, uint64_t> evaluations_;  // by id: the last place at which it may end
  int eval_program_ = -1;
  int eval_resource_ = -1;
  std::map<uint64_t, absl::Status> cuts_done_;
  std::optional<absl::Status> rollback_done_;
};

// The checkpoints on the simulation's disk.
class DiskCatalog : public CheckpointCatalog {
 public:
  explicit DiskCatalog(const Disk* disk, std::string directory)
      : disk_(disk), directory_(std::move(directory)) {}

  absl::StatusOr<bool> HasCheckpoint() const override { return !disk_->Newest().empty(); }
  absl::StatusOr<v1::Manifest> Read(const std::string& checkpoint) const override;
  absl::StatusOr<std::optional<v1::Manifest>> NewestManifest() const override;
  absl::StatusOr<std::optional<v1::BestCheckpoint>> BestUpTo(
      const v1::Manifest& last, const BestRule& rule,
      const RefusedCallback& refused) const override;
  std::string PathOf(const std::string& name) const override { return directory_ + "/" + name; }
  bool IsGone(const std::string& name) const override;

 private:
  const Disk* const disk_;
  const std::string directory_;
};

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_SIMULATED_CLUSTER_H_

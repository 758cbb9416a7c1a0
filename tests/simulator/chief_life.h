#ifndef COHORT_TESTS_SIMULATOR_CHIEF_LIFE_H_
#define COHORT_TESTS_SIMULATOR_CHIEF_LIFE_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chief/core/coordinator_core.h"
#include "chief/core/journal_state.h"
#include "common/exchange/exchange.h"
#include "tests/simulator/cluster.h"
#include "tests/simulator/fiber.h"

namespace cohort::simulator {

// A simulated chief: CoordinatorCore; streams and a journal of the simulation in place of those of
// ClusterCoordinator; and on a fiber, the job runner's walk (job_walk.cc), told anew in terms of
// the core because the real one is threads and files from end to end.
class ChiefLife : public Life, public CoreEffects {
 public:
  ChiefLife(Cluster* cluster, Node* node);
  ~ChiefLife() override;

  void Accept(const std::shared_ptr<Stream>&, StreamKind) override {}
  std::string Text() const override;

  // CoreEffects
  void SendToWorker(int worker, v1::ChiefToWorker message) override;
  void SendToPs(int ps, v1::ChiefToPs message) override;
  void Reconnect(Task task, const std::string& why) override;
  void TakeGeneration(uint64_t heard) override;
  void ReadJournal() override;
  void AppendJournal(v1::JournalRecord record) override;
  void WriteManifest(v1::Manifest manifest) override;
  void ClosureDone(uint64_t, const absl::Status&, v1::ClosureResult*) override {}
  void CutDone(uint64_t cut, const absl::Status& status) override;
  void RollbackDone(const absl::Status& status) override { rollback_done_ = status; }
  void Note(const char* event, const std::string& what) override;

 private:
  struct Link {
    std::shared_ptr<Stream> stream;
  };

  // Everything that comes from outside goes to the core here; then the walk goes on where it can.
  void Input(const std::function<void(CoordinatorCore*)>& input);
  void Tick();
  void Dial(Task task);
  void OnClosed(Task task, const std::string& why);
  Link& LinkOf(Task task) { return links_[task.role == Role::kWorker][task.index]; }
  absl::StatusOr<Recovered> RecoverJournal();
  void WriteJournal();
  // The first `count` records of writing_ reach the disk.
  void StoreJournal(size_t count);
  void StartSegment();
  void DeleteOlderSegments();
  void EndWrite();
  // What is published is durable: a chief that starts now would know it.
  void CheckPublished(uint64_t watermark);

  // The walk; all on the fiber.
  void Walk();
  absl::Status RunJob();
  absl::Status WaitFor(const std::function<bool()>& condition, int64_t timeout_us,
                       const char* what);
  bool Failed() const { return core_->phase() == CoordinatorCore::Phase::kFailed; }
  absl::Status StartCluster();
  absl::Status Restore();
  absl::Status RollBackOnce();
  absl::Status Checkpoint(bool finished);
  absl::Status MustCheckpoint(bool finished);
  absl::Status TrainAll();
  absl::Status TrainEpoch(uint64_t epoch);
  absl::Status ScheduleMore(uint64_t end);
  absl::Status ScheduleAt(uint64_t place, uint32_t steps);
  absl::StatusOr<uint64_t> Schedule(ClosureSpec spec);
  absl::Status JoinFor(int64_t us, bool* idle);
  absl::Status CloseEpoch(uint64_t epoch);
  absl::Status Evaluate();
  absl::Status Recover(const absl::Status& error);
  absl::Status End();

  Cluster* const cluster_;
  Node* const node_;
  World* const world_;
  std::map<bool, std::map<int, Link>> links_;  // by "is a worker" and index
  uint64_t generation_ = 0;
  std::vector<v1::JournalRecord> queue_;    // to be written
  std::vector<v1::JournalRecord> writing_;  // by the write under way
  JournalState state_;                      // of the records that are durable
  std::optional<v1::JournalRecord> base_;   // of the segment that is being started
  bool journal_busy_ = false;
  bool journal_begun_ = false;  // this life's first segment is durable
  uint64_t published_ = 0;      // the highest that was checked, of `published_timeline_`
  uint64_t published_timeline_ = 0;

  int train_ = -1;
  int eval_ = -1;
  int data_ = -1;
  std::vector<UnfinishedClosure> unfinished_;  // to be scheduled before anything new
  size_t next_unfinished_ = 0;
  int64_t next_cut_us_ = 0;
  std::map<uint64_t, absl::Status> cuts_done_;
  std::optional<absl::Status> rollback_done_;
  const std::function<bool()>* condition_ = nullptr;  // the walk waits for it
  std::string waits_for_;
  uint64_t waits_ = 0;

  std::unique_ptr<CoordinatorCore> core_;
  std::unique_ptr<Fiber> walk_;
};

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_CHIEF_LIFE_H_

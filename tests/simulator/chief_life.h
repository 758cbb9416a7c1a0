#ifndef COHORT_TESTS_SIMULATOR_CHIEF_LIFE_H_
#define COHORT_TESTS_SIMULATOR_CHIEF_LIFE_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "chief/core/attended_clock.h"
#include "chief/core/coordinator_core.h"
#include "chief/core/journal_state.h"
#include "chief/job/best_tracker.h"
#include "chief/job/job_console.h"
#include "chief/job/job_walk.h"
#include "chief/job/metrics_log.h"
#include "tests/simulator/cluster.h"
#include "tests/simulator/fiber.h"
#include "tests/simulator/simulated_cluster.h"

namespace cohort::simulator {

// A simulated chief: the real CoordinatorCore and the real job walk (chief/job/job_walk.h), which
// runs on a fiber. Streams, journal and disk are the simulation's.
class ChiefLife : public Life, public CoreEffects {
 public:
  ChiefLife(Cluster* cluster, Node* node);
  ~ChiefLife() override;

  void Accept(const std::shared_ptr<Stream>&, StreamKind) override {}
  std::string Text() const override;

  // A task that serves at `address` asks to join. Errors: those of the core; Unavailable if the
  // journal does not have it yet, so it asks again.
  absl::StatusOr<Task> Join(Role role, const std::string& address);

  // CoreEffects
  void SendToWorker(int worker, v1::ChiefToWorker message) override;
  void SendToPs(int ps, v1::ChiefToPs message) override;
  void Reconnect(Task task, const std::string& why) override;
  void DialJoined(Task task, const std::string& address) override;
  void HangUp(Task task) override;
  void TakeGeneration(uint64_t heard) override;
  void ReadJournal() override;
  void AppendJournal(v1::JournalRecord record) override;
  void WriteManifest(v1::Manifest manifest) override;
  void ClosureDone(uint64_t token, const absl::Status& status, v1::ClosureResult* result) override {
    if (status.ok()) training_.CheckResult(*result);
    training_.OnClosureDone(token, status, result);
  }
  void CutDone(uint64_t cut, const absl::Status& status) override {
    training_.OnCutDone(cut, status);
  }
  void RollbackDone(const absl::Status& status) override { training_.OnRollbackDone(status); }
  void Note(const char* event, const std::string& what) override;

 private:
  struct Link {
    std::string address;  // "": it is not dialed
    std::shared_ptr<Stream> stream;
  };

  // Passes every input from outside to the core. Then the walk resumes if it can.
  void Input(const std::function<void(CoordinatorCore*)>& input);
  void Tick();
  void Dial(Task task);
  void OnClosed(Task task, const std::string& why);
  Link& LinkOf(Task task) { return links_[task.role == Role::kWorker][task.index]; }
  absl::StatusOr<Recovered> RecoverJournal();
  void WriteJournal();
  // Makes the first `count` records of writing_ durable.
  void StoreJournal(size_t count);
  void StartSegment();
  void DeleteOlderSegments();
  void EndWrite();
  // Checks that the published watermark is durable: a chief that starts now would know it.
  void CheckPublished(uint64_t watermark);

  void CommitManifest(v1::Manifest manifest);
  void CheckValidated(const v1::Manifest& manifest);

  // A user who changes the mode now and then. Runs on a fiber of its own.
  void ChangeModes();
  // A user who has servers drained, fenced, returned, and tablets rebalanced, and workers fenced.
  void MoveTablets();
  void AddServer();
  void Move(const TabletMove& move);
  void FenceWorker(int worker, bool fenced);
  void CountChange(const ModeSettings& settings, const absl::Status& status);

  // These run on the fiber of the walk.
  void Run();
  absl::Status RunJob();
  absl::StatusOr<JobWalk::Options> StartCluster();

  Cluster* const cluster_;
  Node* const node_;
  World* const world_;
  const JobSchedule schedule_;
  std::map<bool, std::map<int, Link>> links_;  // by "is a worker" and index
  uint64_t generation_ = 0;
  std::vector<v1::JournalRecord> queue_;    // to be written
  std::vector<v1::JournalRecord> writing_;  // the running write's records
  JournalState state_;                      // what the durable records say
  std::optional<v1::JournalRecord> base_;   // base record of the segment that is being started
  bool journal_busy_ = false;
  bool journal_begun_ = false;  // the first segment of this incarnation is durable
  uint64_t published_ = 0;      // the highest that was checked, in `published_timeline_`
  uint64_t published_timeline_ = 0;

  AttendedClock clock_;       // the core's
  int64_t ticked_us_ = 0;     // when the last tick was
  bool was_stopped_ = false;  // during the first tick after a pause
  std::unique_ptr<CoordinatorCore> core_;
  std::unique_ptr<Fiber> walk_;
  FiberWait wait_;
  std::unique_ptr<Fiber> user_;
  FiberWait user_wait_;
  SimulatedCluster training_;
  std::unique_ptr<Logger> log_;
  ProgressLine line_;
  JobConsole console_;
  MetricsLog metrics_;
  DiskCatalog catalog_;
  std::unique_ptr<BestTracker> best_;  // null: without keep_best
};

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_CHIEF_LIFE_H_

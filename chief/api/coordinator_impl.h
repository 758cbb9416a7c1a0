#ifndef COHORT_CHIEF_API_COORDINATOR_IMPL_H_
#define COHORT_CHIEF_API_COORDINATOR_IMPL_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chief/api/closure_results.h"
#include "chief/api/coordinator.h"
#include "chief/api/journal_thread.h"
#include "chief/api/task_links.h"
#include "chief/core/coordinator_core.h"
#include "common/base/mutex.h"
#include "common/base/serial_thread.h"
#include "common/checkpoint/directory_lock.h"
#include "common/checkpoint/manifest.h"

namespace cohort {

// The core, and the parts that feed it: streams, a clock, the journal's thread, the disk's thread.
// Every input holds the one lock, and so does every effect.
class ClusterCoordinator::Impl : public CoreEffects {
 public:
  explicit Impl(const CoordinatorOptions& options);
  ~Impl() override;

  // coordinator_start.cc
  absl::Status Start();
  absl::Status CreateVariables(std::span<const v1::VariableSpec> variables,
                               const v1::OptimizerSpec& optimizer,
                               const v1::PartitionerSpec& partitioner, std::string_view placement);
  absl::Status Restore();
  absl::Status Shutdown(const std::string& reason, bool job_finished);

  absl::StatusOr<StepFunction> RegisterStep(const Program& program);
  absl::StatusOr<PerWorkerDataset> CreatePerWorkerDataset(const v1::DatasetSpec& spec,
                                                          const DatasetOptions& options);
  absl::StatusOr<RemoteValue> Schedule(ClosureRequest request);
  absl::StatusOr<bool> JoinUntil(TimePoint deadline);
  absl::StatusOr<bool> Done();
  absl::StatusOr<std::string> Checkpoint(bool finished);
  absl::Status StartCheckpoint();
  void Flush();
  void Interrupt();
  CoordinatorState state();
  v1::Layout layout();
  std::string newest_checkpoint();
  std::vector<UnfinishedPlace> Unfinished();
  absl::Status EndEpoch();
  void Close();

  // CoreEffects. The core calls these while mu_ is held.
  void SendToWorker(int worker, v1::ChiefToWorker message) override;
  void SendToPs(int ps, v1::ChiefToPs message) override;
  void Reconnect(Task task, const std::string& why) override;
  void TakeGeneration(uint64_t heard) override { journal_->TakeGeneration(heard); }
  void ReadJournal() override { journal_->Read(); }
  void AppendJournal(v1::JournalRecord record) override { journal_->Append(std::move(record)); }
  void WriteManifest(v1::Manifest manifest) override;
  void ClosureDone(uint64_t token, const absl::Status& status, v1::ClosureResult* result) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CutDone(uint64_t cut, const absl::Status& status) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RollbackDone(const absl::Status& status) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    rollback_done_ = status;
  }
  void Note(const char* event, const std::string& what) override;
  void Warn(const char* event, const std::string& what) override;

 private:
  using Condition = std::function<bool()>;

  absl::Status CheckOptions() const;
  absl::Status TakeLock();
  // Takes the lock and creates the token and the journal's directory. Returns the token's name.
  absl::StatusOr<std::string> TakeDirectory();
  // Waits until the core is ready.
  absl::Status WaitUntilReady();
  // The directory no longer belongs to this chief: fails the core.
  void LoseDirectory(const absl::Status& why);
  CoreOptions MakeCoreOptions(const std::string& token, bool continued) const;
  JournalThread::Callbacks JournalCallbacks();
  TaskLinks::Callbacks LinkCallbacks();
  int64_t Now() const;
  TimePoint Deadline(double seconds) const { return options_.clock->Now() + FromSeconds(seconds); }
  void Tick();
  // What a call waits for, in the text for on_wait.
  std::string WaitingFor() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Waits until `ended_by` returns true: a thread has ended. Meanwhile reports that the call waits
  // for the storage under `what`.
  void AwaitEnd(const char* what, const std::function<bool(TimePoint)>& ended_by);
  // Runs an input of the core under the lock, and wakes the calls whose condition has become true.
  void Input(const std::function<void(CoordinatorCore*)>& input);
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Waits. Returns true if `condition` holds, false at the deadline. Errors: Cancelled (Interrupt).
  absl::StatusOr<bool> Wait(const Condition& condition, TimePoint deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Failed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return core_->phase() == CoordinatorCore::Phase::kFailed;
  }
  absl::Status RollBackOnce(TimePoint deadline);
  absl::Status WaitForServers(TimePoint deadline);
  // Returns DeadlineExceeded that names what the call waited for.
  absl::Status GaveUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::string> WaitForCut(uint64_t cut) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CommitCheckpoint(v1::Manifest manifest);
  void DeleteOld(const CheckpointId& newest, const std::optional<CheckpointId>& best);
  // Returns the newest checkpoint of this timeline, from which live servers have continued. The
  // timeline began from `manifest`; "" = the beginning.
  absl::StatusOr<std::string> NewestOf(uint64_t timeline, const std::string& manifest) const;
  std::string JournalDirectory() const { return options_.checkpoint_dir + "/journal"; }

  const CoordinatorOptions options_;
  std::shared_ptr<DirectoryLock> lock_;  // self-synchronised; set by Start
  Logger* const log_;
  const TimePoint start_;

  Mutex mu_;
  CondVar changed_;
  std::unique_ptr<CoordinatorCore> core_ ABSL_GUARDED_BY(mu_) ABSL_PT_GUARDED_BY(mu_);
  ClosureResults results_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, int> datasets_ ABSL_GUARDED_BY(mu_);     // how many exist per spec
  std::list<const Condition*> conditions_ ABSL_GUARDED_BY(mu_);  // one per waiting call
  bool interrupted_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> rollback_done_ ABSL_GUARDED_BY(mu_);
  struct CutResult {
    absl::Status status;
    std::string path;
  };
  std::map<uint64_t, CutResult> cuts_done_ ABSL_GUARDED_BY(mu_);  // the last ones
  std::string newest_ ABSL_GUARDED_BY(mu_);
  v1::Layout layout_ ABSL_GUARDED_BY(mu_);              // empty until CreateVariables
  std::vector<Program> programs_ ABSL_GUARDED_BY(mu_);  // registered
  int open_links_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<TimePoint> first_closure_ ABSL_GUARDED_BY(mu_);
  int cut_waits_ ABSL_GUARDED_BY(mu_) = 0;    // calls that wait for a cut
  std::string closing_ ABSL_GUARDED_BY(mu_);  // what Close waits for; "": nothing
  bool closed_ = false;                       // only the thread of Close uses it
  TimePoint next_report_ ABSL_GUARDED_BY(mu_);

  // Start creates these, and each has its own locks. They stand in the order of dependency: the
  // links run on the loop, both use the core, and a committed manifest leads to a record of the
  // journal.
  std::unique_ptr<SerialThread> retention_;  // deletes old checkpoints, which may take long
  std::unique_ptr<JournalThread> journal_;
  std::unique_ptr<SerialThread> disk_;
  CompletionLoop loop_;
  std::unique_ptr<TaskLinks> links_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_COORDINATOR_IMPL_H_

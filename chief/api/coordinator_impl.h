#ifndef COHORT_CHIEF_API_COORDINATOR_IMPL_H_
#define COHORT_CHIEF_API_COORDINATOR_IMPL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chief/api/chief_checkpoints.h"
#include "chief/api/closure_results.h"
#include "chief/api/control_streams.h"
#include "chief/api/coordinator.h"
#include "chief/api/job_definition.h"
#include "chief/api/journal_thread.h"
#include "chief/api/locked_core.h"
#include "chief/api/owned_directory.h"
#include "chief/api/restoration.h"

namespace cohort {

// The core of a running chief, its effects, and the client's calls. The walk:
//
//   1. Start takes the checkpoint directory, and starts threads and streams. The core probes and
//      adopts the tasks.
//   2. CreateVariables (definition, restoration) sets the layout, and resumes or restores.
//   3. Schedule, Join and so on; Checkpoint (checkpoints); Restore (restoration) after a lost ps.
//   4. Shutdown calls the core's Stop. The tasks close their streams.
//   5. Close makes finished closures durable, and ends threads and streams.
//
// Every input of the core holds the core's one lock, and so does every effect.
class ClusterCoordinator::Impl : public CoreEffects {
 public:
  explicit Impl(const CoordinatorOptions& options);
  // Calls Close.
  ~Impl() override;

  // The functions of ClusterCoordinator; see there. JoinUntil is Join and JoinFor.
  absl::Status Start();
  absl::StatusOr<RemoteValue> Schedule(ClosureSpec spec);
  absl::StatusOr<bool> JoinUntil(TimePoint deadline);
  absl::StatusOr<bool> Done();
  std::vector<UnfinishedClosure> Unfinished();
  absl::Status EndEpoch();
  absl::Status SetMode(const ModeSettings& settings);
  void Flush();
  void Interrupt() { core_.Interrupt(); }
  CoordinatorState state();
  absl::Status Shutdown(const std::string& reason, bool job_finished);
  void Close();

  // The parts that have the other calls; the last two are null before Start.
  JobDefinition* definition() { return &definition_; }
  ChiefCheckpoints* checkpoints() { return checkpoints_.get(); }
  Restoration* restoration() { return restoration_.get(); }

 private:
  // CoreEffects. The core calls these while its lock is held.
  void SendToWorker(int worker, v1::ChiefToWorker message) override {
    streams_->SendToWorker(worker, message);
  }
  void SendToPs(int ps, v1::ChiefToPs message) override { streams_->SendToPs(ps, message); }
  void Reconnect(Task task, const std::string& why) override;
  void TakeGeneration(uint64_t heard) override { journal_->TakeGeneration(heard); }
  void ReadJournal() override { journal_->Read(); }
  void AppendJournal(v1::JournalRecord record) override { journal_->Append(std::move(record)); }
  void WriteManifest(v1::Manifest manifest) override { checkpoints_->Write(std::move(manifest)); }
  void ClosureDone(uint64_t token, const absl::Status& status, v1::ClosureResult* result) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_.mu());
  void CutDone(uint64_t cut, const absl::Status& status) override {
    checkpoints_->OnCutDone(cut, status);
  }
  void RollbackDone(const absl::Status& status) override { restoration_->OnRollbackDone(status); }
  void Note(const char* event, const std::string& what) override;
  void Warn(const char* event, const std::string& what) override;

  absl::Status WaitUntilReady();
  JournalThread::Callbacks JournalCallbacks();
  // The directory no longer belongs to this chief: fails the core.
  void LoseDirectory(const absl::Status& why);
  // The core's clock.
  int64_t NowUs() const;
  void Tick();
  // What the calls wait for, in the text for on_wait.
  std::string WaitingFor() ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_.mu());
  // Waits until `ended_by` returns true: a thread has ended. Meanwhile reports that the call waits
  // for the storage under `what`.
  void AwaitEnd(const char* what, const std::function<bool(TimePoint)>& ended_by);

  // Tells the core that a client waits for a closure: its step may then be short. RemoteValues may
  // outlive the core.
  class Fetches : public FetchListener {
   public:
    explicit Fetches(LockedCore* core) : core_(core) {}
    void AddWaiting(int calls) override;
    void Close();

   private:
    Mutex mu_;                               // acquired before the core's
    LockedCore* core_ ABSL_GUARDED_BY(mu_);  // null after Close
  };

  const CoordinatorOptions options_;
  const TimePoint start_;
  bool closed_ = false;  // only the thread of Close uses it

  LockedCore core_;
  const std::shared_ptr<Fetches> fetches_ = std::make_shared<Fetches>(&core_);
  ClosureResults results_ ABSL_GUARDED_BY(core_.mu()){fetches_};
  std::optional<TimePoint> first_closure_ ABSL_GUARDED_BY(core_.mu());
  uint64_t ticks_ ABSL_GUARDED_BY(core_.mu()) = 0;
  std::string closing_ ABSL_GUARDED_BY(core_.mu());  // what Close waits for; "": nothing
  JobDefinition definition_{&core_, options_.closures_hash};

  // Start creates these before other threads use them, and each has its own locks. They stand in
  // the order of dependency. Close ends their threads.
  std::unique_ptr<OwnedDirectory> directory_;
  std::unique_ptr<ChiefCheckpoints> checkpoints_;
  std::unique_ptr<Restoration> restoration_;
  std::unique_ptr<JournalThread> journal_;
  std::unique_ptr<ControlStreams> streams_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_COORDINATOR_IMPL_H_

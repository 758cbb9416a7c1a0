#ifndef COHORT_CHIEF_CORE_COORDINATOR_CORE_H_
#define COHORT_CHIEF_CORE_COORDINATOR_CORE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "chief/core/closure_scheduler.h"
#include "chief/core/cluster_adoption.h"
#include "chief/core/core_context.h"
#include "chief/core/core_counters.h"
#include "chief/core/cut.h"
#include "chief/core/dispatcher.h"
#include "chief/core/job_end.h"
#include "chief/core/journal_watch.h"
#include "chief/core/membership.h"
#include "chief/core/open_closures.h"
#include "chief/core/outbox.h"
#include "chief/core/recovery.h"
#include "chief/core/rollback.h"
#include "chief/core/served_variables.h"
#include "chief/core/servers.h"
#include "chief/core/settlement.h"
#include "chief/core/worker_setup.h"

namespace cohort {

// The chief's protocol: plain code without network, threads, disk or clock. Inputs are the On...
// calls, Tick, and the calls of the client; outputs are CoreEffects. Calls come one at a time. This
// class routes them to the parts below, each of which has its own state.
//
// The life of a chief:
//
//   kProbing ─(1)─► kTaking ─(2)─► kAdopting ─(3)─► kReading ─(4)─► kStarting ─(5)─► kReady
//                                                                                      │(6)
//   from anywhere ─(7)─► kFailed                                                   kStopped
//
// (1) Every task that is needed was probed and hears no other chief. (2) A generation is taken.
// (3) Every task that is needed is adopted: a former chief can reach no task any more, so its
// journal is complete. (4) The journal is read. (5) The journal has the JournalStart of this life.
// (6) Stop. (7) A newer chief has fenced this one, or a task cannot be adopted; this is permanent.
//
// When the chief is ready, closures run while the variables are served (served_variables.h). A
// closure of the job runner is scheduled (in the queue) or unfinished (unfinished_closures.h). The
// ids of unfinished closures are never settled; Schedule of their places takes them up again.
class CoordinatorCore {
 public:
  using Phase = CorePhase;

  CoordinatorCore(CoreOptions options, CoreEffects* effects);

  // ------------------------------------------------------------- inputs from the world
  void Tick(int64_t now_us);
  void OnConnected(Task task);
  void OnDisconnected(Task task, const std::string& why);
  void OnWorkerMessage(int worker, v1::WorkerToChief message);
  void OnPsMessage(int ps, const v1::PsToChief& message);
  void OnGeneration(const absl::StatusOr<uint64_t>& generation);
  void OnRecovered(absl::StatusOr<Recovered> recovered);
  // All records up to this one are durable.
  void OnJournaled(uint64_t record);
  // The disk does not take records; the journal tries again.
  void OnJournalRefused(const absl::Status& why) { journal_watch_.OnRefused(why); }
  // False if it is not the manifest of the cut that is under way.
  bool OnManifestWritten(uint64_t cut, const absl::Status& status, const std::string& path);
  // Ends the chief permanently, and everything that is scheduled: it cannot write its journal, for
  // example.
  void FailForGood(absl::Status why);

  // ------------------------------------------------------------- inputs from the client
  // Every worker gets these, now and when it returns. `fingerprint` names the program.
  int AddProgram(std::string fingerprint, v1::Program program) {
    return setup_.AddProgram(std::move(fingerprint), std::move(program));
  }
  int AddResource(v1::CreateResource resource) { return setup_.AddResource(std::move(resource)); }

  // The job's variables. Afterwards the client calls Resume, if the servers have exactly these
  // tablets at the journal's timeline, or RollBack.
  void SetLayout(v1::Layout layout, uint64_t layout_hash) {
    variables_.SetLayout(std::move(layout), layout_hash);
  }
  bool CanResume() const { return variables_.CanResume(); }
  void Resume();
  // To the cut of `manifest` (in the file `path`), or to the initial state if it is null;
  // RollbackDone follows. Everything that is scheduled is cancelled. Errors: Unavailable if a ps is
  // away, FailedPrecondition before SetLayout or during another rollback.
  absl::Status RollBack(const v1::Manifest* manifest, const std::string& path);

  // Returns the closure's id. Errors: the job's error if it is ready to be raised (this clears it)
  // or the chief has failed; ResourceExhausted if the queue is full; FailedPrecondition if nothing
  // is served. The caller waits before it calls, if error_pending() or not has_room().
  absl::StatusOr<uint64_t> Schedule(ClosureSpec spec);
  // What a restart, an error or a rollback has left to be scheduled again, by place.
  std::vector<UnfinishedClosure> Unfinished() const { return closures_.unfinished().List(); }
  // The first place that has no id.
  uint64_t next_place() const { return scheduler_.next_place(); }

  // CutDone follows. Errors: FailedPrecondition during another cut or rollback or before Resume.
  absl::StatusOr<uint64_t> StartCut(bool finished);
  // Abandons the cut under way, if any, because a rollback follows.
  void DropCut() { cut_.Abandon(Aborted("the cluster is being rolled back")); }
  // The epoch's figures are complete: journals them, and starts those of the next. Error:
  // FailedPrecondition if a Rollback record is being journaled, or was and came to nothing.
  absl::Status EndEpoch();
  uint64_t epoch() const { return settlement_.epoch(); }
  // Raises a job's error as if a closure had failed with it.
  void Fail(absl::Status error) { dispatcher_.Fail(std::move(error)); }
  // Writes what is settled, now. Returns the record that makes everything durable.
  uint64_t Flush();
  // Ends the job: writes a last settle record (and JobFinished), then sends ShutdownTask to all
  // tasks. If a manifest says already that the job is finished, a journal that the disk refuses is
  // not waited for.
  void Stop(const std::string& reason, bool job_finished);

  // ------------------------------------------------------------- state
  Phase phase() const { return context_.phase; }
  bool served() const { return variables_.served(); }
  // True if nothing is scheduled, and no closure runs on behind an error.
  bool idle() const { return closures_.queue().size() == 0 && !error_pending(); }
  bool error_pending() const { return closures_.error_pending(); }
  bool queue_full() const { return closures_.queue().full(); }
  // True if Schedule takes the closure now. A full queue does not refuse an unfinished place: all
  // closures in it may have to wait for that one.
  bool has_room(const ClosureSpec& spec) const {
    return !queue_full() ||
           (spec.by_job && spec.training && closures_.unfinished().Knows(spec.place));
  }
  // The error to raise now, which clears it, or OK. A chief that has failed always returns the same
  // error.
  absl::Status TakeError();
  bool cut_active() const { return cut_.state() != Cut::State::kIdle; }
  // False if the cut no longer waits for its manifest.
  bool cut_commits(uint64_t cut) const {
    return cut_.state() == Cut::State::kCommitting && cut_.number() == cut;
  }
  // True if the job's last checkpoint exists. It proves the end if the journal does not have it.
  bool finish_committed() const { return cut_.finish_committed(); }
  // All of this life's records up to it are durable.
  uint64_t durable_record() const { return journal_watch_.durable_record(); }
  // kStopped: true if the journal has the end.
  bool stop_journaled() const { return end_.journaled(durable_record()); }
  const JournalWatch& journal_watch() const { return journal_watch_; }
  bool all_ps_there() const { return membership_.all(Role::kPs, Link::kAdopted); }
  // What a caller that waits is waiting for: "waiting for worker:2 (host3:2222), 12 s". "" = only
  // for closures to end.
  std::string WaitingFor() const;
  // What the cut under way is waiting for; "" if it has not waited for long.
  std::string WaitingForCut() const {
    return cut_.Waiting(closures_.queue().training_in_flight(), context_.now_us);
  }

  CoreCounters counters() const;
  const Settlement& settlement() const { return settlement_; }
  const Membership& membership() const { return membership_; }
  uint64_t timeline() const { return context_.timeline; }
  // The manifest that the timeline began from; "" = the initial state, or not known.
  const std::string& began_from() const { return variables_.began_from(); }
  uint64_t generation() const { return outbox_.generation(); }
  size_t queued() const { return closures_.queue().queued(); }
  size_t in_flight() const { return closures_.queue().in_flight(); }
  int ready_workers() const { return dispatcher_.pace().count_available(); }
  std::vector<WorkerFigures> worker_figures() const { return dispatcher_.worker_figures(); }
  const v1::PsHello& ps_hello(int ps) const { return servers_.hello(ps); }

 private:
  bool ended() const { return phase() == Phase::kFailed || phase() == Phase::kStopped; }
  void SetTimeline(uint64_t timeline);
  // Enters the phase, or fails.
  void Enter(absl::StatusOr<Phase> phase);
  template <typename Proto>
  void OnHello(Task task, uint64_t request, Proto hello);
  void OnAdopted(int worker, v1::WorkerHello hello, bool reborn);
  void OnAdopted(int ps, v1::PsHello hello, bool reborn);
  void OnFenced(Task task, const v1::Fenced& fenced);
  void OnResults(int worker, v1::Results* results);
  void OnPsUnreachable(int worker, const v1::PsUnreachable& report);
  void SetUpWorker(int worker);
  void LosePs(int ps, const std::string& why);
  void CheckStranded();
  DispatchGate Gate() const;
  void PublishWatermark();
  void AdvanceCut();
  void RaiseTimeline();
  void AdvanceStop();

  // In the order in which they depend on each other.
  CoreContext context_;             // options, phase, clock, timeline: what all parts read
  Outbox outbox_;                   // what all parts send
  JournalWatch journal_watch_;      // which records are durable
  Membership membership_;           // who is there
  ClusterAdoption adoption_;        // the phases up to kReady
  Settlement settlement_;           // settled ids, metrics, epochs
  Servers servers_;                 // hellos, terms and grace of the servers
  ServedVariables variables_;       // layout, timeline, served or not
  Rollback rollback_;               // the walk to an older state
  Cut cut_;                         // the walk to a checkpoint
  WorkerSetup setup_;               // programs and resources on workers
  OpenClosures closures_;           // queue, unfinished closures, the job's error
  ClosureScheduler scheduler_;      // ids and places of new closures
  Dispatcher dispatcher_;           // closures on workers
  JobEnd end_;                      // Stop
  ClusterCounters counters_;        // lost tasks, rollbacks
  int64_t stranded_since_us_ = -1;  // since when work waits and no worker is available
  absl::Status failure_;            // kFailed: why
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_COORDINATOR_CORE_H_

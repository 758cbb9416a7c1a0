#ifndef COHORT_CHIEF_CORE_COORDINATOR_CORE_H_
#define COHORT_CHIEF_CORE_COORDINATOR_CORE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "chief/core/closure_scheduler.h"
#include "chief/core/cluster_adoption.h"
#include "chief/core/core_context.h"
#include "chief/core/core_counters.h"
#include "chief/core/core_view.h"
#include "chief/core/cut.h"
#include "chief/core/dispatcher.h"
#include "chief/core/homes.h"
#include "chief/core/job_end.h"
#include "chief/core/job_error.h"
#include "chief/core/joined_tasks.h"
#include "chief/core/journal_watch.h"
#include "chief/core/link_watch.h"
#include "chief/core/load_watch.h"
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
// calls, Tick, and the calls of the client; outputs are CoreEffects. Callers make one call at a
// time. This class routes the calls to the parts below, each of which has its own state.
//
// The phases of a chief:
//
//   kProbing ─(1)─► kTaking ─(2)─► kAdopting ─(3)─► kReading ─(4)─► kStarting ─(5)─► kReady
//                                                                                      │(6)
//   from anywhere ─(7)─► kFailed                                                   kStopped
//
// (1) Every task that is needed was probed and hears no other chief. (2) A generation is taken.
// (3) Every task that is needed is adopted. An earlier chief can reach no task anymore, so its
// journal is complete. (4) The journal is read. (5) The journal has the JournalStart of this
// incarnation. (6) Stop is done. (7) A newer chief has fenced this one, or a task cannot be
// adopted; this is permanent.
//
// When the chief is ready, closures run while the variables are served (served_variables.h). A
// closure of the job runner is scheduled (in the queue) or unfinished (unfinished_closures.h). The
// id of an unfinished closure stays unsettled until its place is scheduled again.
class CoordinatorCore {
 public:
  using Phase = CorePhase;

  CoordinatorCore(CoreOptions options, CoreEffects* effects);

  // ------------------------------------------------------------- inputs from the world
  void Tick(int64_t now_us);
  void OnConnected(Task task);
  // `left`: the task has ended in order, and holds no work.
  void OnDisconnected(Task task, const std::string& why, bool left = false);
  void OnWorkerMessage(int worker, v1::WorkerToChief message);
  void OnPsMessage(int ps, const v1::PsToChief& message);
  // One end of the stream to the task cannot read what the other one sends.
  void OnBadMessages(Task task, absl::Status why);
  // A long message to or from the task moves, so the task is not silent.
  void OnMoving(Task task) { membership_.OnHeard(task, context_.now_us); }
  void OnGeneration(const absl::StatusOr<uint64_t>& generation);
  void OnRecovered(absl::StatusOr<Recovered> recovered);
  // All records up to this one are durable. An error: the disk refuses records, and the journal
  // tries again.
  void OnJournaled(const absl::StatusOr<uint64_t>& record);
  // Returns false if it is not the manifest of the active cut.
  bool OnManifestWritten(uint64_t cut, const absl::Status& status, const std::string& path);
  // Ends the chief permanently, and everything that is scheduled: for example, because the chief
  // cannot write its journal.
  void FailForGood(absl::Status why);

  // A task that serves at `address` asks to join the running cluster (JoinedTasks). It is a member
  // when view().joined.settled() is true. Errors: OutOfRange if the job is finished;
  // Unavailable before kReady and at another end; those of JoinedTasks.
  absl::StatusOr<Task> Join(Role role, const std::string& address);

  // ------------------------------------------------------------- inputs from the client
  // Programs and resources are added here: the chief sends them to every worker, now and when a
  // worker returns.
  WorkerSetup* setup() { return &setup_; }

  // Sets the layout of the job's variables. Afterwards the client calls Resume if the servers have
  // exactly these tablets at the journal's timeline, and RollBack otherwise.
  void SetLayout(v1::Layout layout, uint64_t layout_hash) {
    steps_.SetLayout(layout);
    variables_.SetLayout(std::move(layout), layout_hash);
  }
  void Resume();
  // Goes back to the cut of `manifest` (in the file `path`), or to the initial state if it is null.
  // Cancels everything that is scheduled; RollbackDone follows. Errors: Unavailable if a ps is
  // away, FailedPrecondition before SetLayout or during another rollback.
  absl::Status RollBack(const v1::Manifest* manifest, const std::string& path);

  // Returns the closure's id. Errors: the job's error if it is ready to be raised (this clears it)
  // or the chief has failed; ResourceExhausted if the queue is full; FailedPrecondition if nothing
  // is served. The caller waits while error_pending() or while has_room() is false.
  absl::StatusOr<uint64_t> Schedule(ClosureSpec spec);
  // Returns and clears the error that is ready to be raised; OK if there is none. A chief that has
  // failed always returns the same error.
  absl::Status TakeError();

  // Starts a cut; CutDone follows. Errors: FailedPrecondition during another cut or rollback or
  // before Resume.
  absl::StatusOr<uint64_t> StartCut(bool finished);
  // Abandons the active cut, if there is one, because a rollback follows.
  void DropCut();
  // The epoch's figures are complete: journals them, and starts those of the next epoch. `record`:
  // what it gave, for the history; null: there is no history. Errors: FailedPrecondition while a
  // Rollback record is being journaled, and after that rollback has failed.
  absl::Status EndEpoch(const v1::EpochRecord* record);
  // Clients begin (or cease) to wait for closures: see Steps::AddWaiting.
  void AddWaiting(int clients);
  // Changes the mode at the next boundary (Steps::SetMode). Errors: FailedPrecondition if the
  // variables are not served, or another change is under way.
  absl::Status SetMode(const ModeSettings& settings);
  // Tablets begin to move, or copies take over (Homes). Errors: FailedPrecondition if the variables
  // are not served, or no copy of a tablet can be made; those of Homes.
  absl::Status MoveTablets(const TabletMove& move);
  // A fenced worker gets no closures, and others get those that it has, until the fence is lifted.
  // `again`: a user has fenced it before this chief started, so it counts even if no other worker
  // has come yet. Errors: InvalidArgument for a worker that does not exist, or was not fenced;
  // FailedPrecondition if no other worker would be left, or the workers sum gradients in a ring.
  absl::Status FenceWorker(int worker, bool fenced, bool again);
  // Sets the learning rate from the next update on (Steps::SetLearningRate). The change ends when
  // view().steps.rates() is not changing() any more. Errors: FailedPrecondition if the variables
  // are not served, or another change is under way.
  absl::Status SetLearningRate(double rate, bool by_user);
  // While it is paused, no training closure begins, but a synchronous step that is open is
  // completed.
  void SetPaused(bool paused);
  // Writes a settle record now if something has changed. Returns the record that makes everything
  // durable.
  uint64_t Flush();
  // Ends the job: writes a last settle record (and JobFinished), then sends ShutdownTask to all
  // tasks. If a committed manifest already records the end, it does not wait for a full disk.
  void Stop(const std::string& reason, bool job_finished);

  // ------------------------------------------------------------- state
  const CoreView& view() const { return view_; }
  bool paused() const { return paused_; }
  // What the journal had of the epochs that ended since the last rollback, when the chief started.
  const std::vector<v1::EpochRecord>& history() const { return history_; }

 private:
  // Advances the core at the end of an input. An exception, which only the crash points of the
  // simulator throw, ends the chief there and then.
  class Advancing {
   public:
    explicit Advancing(CoordinatorCore* core) : core_(core) {}
    ~Advancing() noexcept(false) {
      if (std::uncaught_exceptions() == exceptions_) core_->Advance();
    }
    Advancing(const Advancing&) = delete;
    Advancing& operator=(const Advancing&) = delete;

   private:
    CoordinatorCore* const core_;
    const int exceptions_ = std::uncaught_exceptions();
  };
  // Runs after each input, which only records facts: does everything that has become possible. The
  // parts stand in an order in which none can give work to an earlier one, so one pass is enough.
  // If nothing is to do, it costs the same with any number of workers.
  void Advance();
  Phase phase() const { return context_.phase; }
  bool served() const { return variables_.served(); }
  bool ended() const { return phase() == Phase::kFailed || phase() == Phase::kStopped; }
  void SetTimeline(uint64_t timeline);
  // Enters the phase, or fails.
  void Enter(absl::StatusOr<Phase> phase);
  template <typename Proto>
  void OnHello(Task task, uint64_t request, Proto hello);
  void OnWorkerAdopted(int worker, v1::WorkerHello hello);
  void OnPsAdopted(int ps, const v1::PsHello& hello, bool reborn);
  void OnFenced(Task task, const v1::Fenced& fenced);
  void OnResults(int worker, v1::Results* results);
  void OnPsUnreachable(int worker, const v1::PsUnreachable& report);
  void SetUpWorker(int worker);
  void LosePs(int ps, const std::string& why);
  // Other servers have copies of the tablets of a lost one.
  void Replace(int ps, const absl::Status& error);
  absl::Status FenceServer(int ps);
  void AdvanceHomes();
  absl::Status AddServer(const std::string& address);
  // This chief cannot use the task. Ends the chief, or the membership of a task that has joined.
  void Refuse(Task task, absl::Status why);
  void OnPong(Task task, const v1::Pong& pong);
  void WatchLinks();
  void WatchLoad();
  void CheckStranded();
  DispatchGate Gate() const;
  void AdvanceCut();
  // A server could not close a step.
  void FailStep(absl::Status error);
  void FillCut(v1::Manifest* manifest) const;
  void RaiseTimeline();
  // All servers have the tablets of the rollback.
  void OnRolledBack();
  void AdvanceStop();
  // Adds one to a counter. The next record journals it.
  void Count(uint64_t ClusterCounters::*counter);
  // Adds what former chiefs have counted.
  void AddCounters(const Recovered& recovered);
  void JournalCounters();

  // The parts stand in the order in which they depend on each other.
  CoreContext context_;            // options, phase, clock, timeline: what all parts read
  Outbox outbox_;                  // what all parts send
  JournalWatch journal_watch_;     // which records are durable
  Membership membership_;          // links to the tasks
  JoinedTasks joined_;             // tasks that TF_CONFIG does not name
  ClusterAdoption adoption_;       // the phases up to kReady
  Settlement settlement_;          // settled ids, metrics, epochs
  Servers servers_;                // hellos, terms and grace of the servers
  Homes homes_;                    // which server has which tablet
  ServedVariables variables_;      // layout, timeline, whether they are served
  Rollback rollback_;              // the walk to an older state
  Cut cut_;                        // the walk to a checkpoint
  LinkWatch links_;                // which servers, links and workers are slow
  LoadWatch load_;                 // which tablet should move
  WorkerSetup setup_;              // programs and resources on workers
  ClosureQueue queue_;             // closures that are scheduled
  UnfinishedClosures unfinished_;  // those that have to be scheduled again
  JobError error_;                 // the job's error
  OpenClosures closures_;          // the ends of closures
  Steps steps_;                    // the mode, and synchronous steps
  ClosureScheduler scheduler_;     // ids and places of new closures
  Dispatcher dispatcher_;          // closures on workers
  JobEnd end_;                     // the walk of Stop
  ClusterCounters counters_;       // lost tasks, rollbacks, restarts
  std::optional<v1::ModeChange> recovered_mode_;  // from the journal
  v1::LearningRates recovered_rates_;             // from the journal
  std::vector<v1::EpochRecord> history_;          // from the journal
  bool paused_ = false;
  bool recall_due_ = false;         // a cut begins, or workers may have received closures since
  int64_t stranded_since_us_ = -1;  // when work began to wait without an available worker
  absl::Status failure_;            // kFailed: why
  const CoreView view_{.context = context_,
                       .outbox = outbox_,
                       .journal = journal_watch_,
                       .membership = membership_,
                       .joined = joined_,
                       .settlement = settlement_,
                       .servers = servers_,
                       .homes = homes_,
                       .variables = variables_,
                       .rollback = rollback_,
                       .cut = cut_,
                       .links = links_,
                       .closures = closures_,
                       .error = error_,
                       .steps = steps_,
                       .scheduler = scheduler_,
                       .dispatcher = dispatcher_,
                       .end = end_,
                       .cluster = counters_};
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_COORDINATOR_CORE_H_

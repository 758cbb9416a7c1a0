#ifndef COHORT_CHIEF_CORE_COORDINATOR_CORE_H_
#define COHORT_CHIEF_CORE_COORDINATOR_CORE_H_

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "chief/core/closure_queue.h"
#include "chief/core/core_types.h"
#include "chief/core/cut.h"
#include "chief/core/id_allocator.h"
#include "chief/core/journal_watch.h"
#include "chief/core/membership.h"
#include "chief/core/outbox.h"
#include "chief/core/recovery.h"
#include "chief/core/rollback.h"
#include "chief/core/settlement.h"
#include "chief/core/unfinished_closures.h"

namespace cohort {

// The chief's protocol: plain code without network, threads, disk or clock. Inputs are the On...
// calls, Tick, and those of the client below; outputs are CoreEffects. Calls come one at a time.
//
// The life of a chief:
//
//   kProbing ─(1)─► kTaking ─(2)─► kAdopting ─(3)─► kReading ─(4)─► kStarting ─(5)─► kReady ─(6)─►
//   kStopped
//       └─────────────┴───────────────┴──────(7)───────┴───────────────┴────────────────┴──►
//       kFailed
//
// (1) everyone needed was probed and hears no other chief. (2) a generation is taken. (3) everyone
// needed is adopted: a former chief can reach nobody any more, so that what its journal says from
// here on is all that counts. (4) the journal is read. (5) it has the JournalStart of this life.
// (6) Stop. (7) a newer chief has fenced this one, or a task cannot be adopted: for good.
//
// When ready, work runs while the variables are *served*:
//
//   not served ─(a) Resume, or RollBack done─► served ─(b) a ps is lost─► not served
//
// (b) raises a typed error by the rules of ClosureQueue; a ps whose stream breaks and comes back
// with the same incarnation within ps_grace is not lost, only waited for.
//
// Where a closure of the job runner is: scheduled (in the queue), or *unfinished*
// (unfinished_closures.h). Ids of unfinished closures are never settled; Schedule of their places
// takes them up again.
class CoordinatorCore {
 public:
  enum class Phase { kProbing, kTaking, kAdopting, kReading, kStarting, kReady, kStopped, kFailed };

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
  // The disk does not take records; it is tried again.
  void OnJournalRefused(const absl::Status& why) { journal_watch_.OnRefused(why); }
  // False: it is not the cut's that is under way, or there is none by now.
  bool OnManifestWritten(uint64_t cut, const absl::Status& status, const std::string& path);
  // Ends for good, and everything that is scheduled with it: the journal cannot be written, say.
  void FailForGood(absl::Status why);

  // ------------------------------------------------------------- inputs from the client
  // Kept and given to every worker, now and when it comes back. `fingerprint` names it.
  int AddProgram(std::string fingerprint, v1::Program program);
  int AddResource(v1::CreateResource resource);

  // The job's variables. Afterwards either Resume, where the servers have exactly these tablets at
  // the journal's timeline, or RollBack.
  void SetLayout(v1::Layout layout, uint64_t layout_hash);
  bool CanResume() const;
  void Resume();
  // To the cut of `manifest` (file `path`), or to the initial state where it is null; RollbackDone
  // follows. Everything that is scheduled is cancelled. Errors: Unavailable where a ps is not
  // there, FailedPrecondition before SetLayout or during another rollback.
  absl::Status RollBack(const v1::Manifest* manifest, const std::string& path);

  // The closure's id. Errors: the job's error where one is ready to be raised (which clears it) or
  // the chief has failed; ResourceExhausted where the queue is full; FailedPrecondition where
  // nothing is served. The caller waits before it calls where error_pending() or not has_room().
  absl::StatusOr<uint64_t> Schedule(ClosureSpec spec);
  // What a restart, an error or a rollback left to be scheduled again, by place.
  std::vector<UnfinishedClosure> Unfinished() const { return unfinished_.List(); }
  // The first place that has no id.
  uint64_t next_place() const { return next_place_; }

  // CutDone follows. Errors: FailedPrecondition during another cut or rollback or before Resume.
  absl::StatusOr<uint64_t> StartCut(bool finished);
  // The cut under way, if any, comes to nothing: a rollback is to follow.
  void DropCut() { cut_.Abandon(Aborted("the cluster is being rolled back")); }
  // The epoch's figures are complete: journals them, and starts those of the next. Error:
  // FailedPrecondition where a rollback is being journaled, or was and came to nothing.
  absl::Status EndEpoch();
  uint64_t epoch() const { return epoch_; }
  // Raises a job's error as if a closure had failed with it.
  void Fail(absl::Status error);
  // Writes what is settled, now; the number of the record after which all is durable.
  uint64_t Flush();
  // Ends: a last settle record (and JobFinished), then ShutdownTask to all tasks. Where a manifest
  // says already that the job is finished, a journal that the disk refuses is not waited for.
  void Stop(const std::string& reason, bool job_finished);

  // ------------------------------------------------------------- state
  Phase phase() const { return phase_; }
  bool served() const { return served_; }
  // Nothing is scheduled, and there is no error that something runs on behind.
  bool resting() const { return queue_.size() == 0 && !error_pending(); }
  bool error_pending() const { return queue_.failed() && !error_ready(); }
  bool queue_full() const { return queue_.full(); }
  // Whether Schedule takes it now. What is unfinished is not held by a full queue: all that stands
  // in it may have to wait for that.
  bool has_room(const ClosureSpec& spec) const {
    return !queue_.full() || (spec.by_job && spec.training && unfinished_.Knows(spec.place));
  }
  // OK, or the error to raise now; clears it. A chief that failed raises the same for ever.
  absl::Status TakeError();
  bool cut_active() const { return cut_.state() != Cut::State::kIdle; }
  // False: the manifest that was asked for is not waited for any more.
  bool cut_commits(uint64_t cut) const {
    return cut_.state() == Cut::State::kCommitting && cut_.number() == cut;
  }
  // kStopped: whether the journal has the end. If not, the manifest of the finished job has it.
  // The job's last checkpoint exists, whatever becomes of its record.
  bool finish_committed() const { return finish_committed_; }
  // All of this life's records up to it are durable.
  uint64_t durable_record() const { return durable_record_; }
  bool stop_journaled() const { return durable_record_ >= stop_record_; }
  const JournalWatch& journal_watch() const { return journal_watch_; }
  bool all_ps_there() const { return membership_.all(Role::kPs, Link::kAdopted); }
  // What a caller that waits is waiting for: "waiting for worker:2 (host3:2222), 12 s"; "" = only
  // for closures to end.
  std::string WaitingFor() const;
  // What the cut under way waits for; "" while that does not take long.
  std::string WaitingForCut() const;

  const CoreCounters& counters() const { return counters_; }
  const Settlement& settlement() const { return settlement_; }
  const Membership& membership() const { return membership_; }
  uint64_t timeline() const { return timeline_; }
  // The manifest that the timeline began from; "" = the beginning, or not known.
  const std::string& began_from() const { return began_from_; }
  uint64_t generation() const { return outbox_.generation(); }
  size_t queued() const { return queue_.queued(); }
  size_t in_flight() const { return queue_.in_flight(); }
  int ready_workers() const;
  // Of each, by index.
  std::vector<WorkerFigures> worker_figures() const;
  const v1::PsHello& ps_hello(int ps) const { return ps_[static_cast<size_t>(ps)].hello; }

 private:
  struct Worker {
    std::deque<uint64_t> in_flight;  // in the order of dispatch
    std::set<std::string> programs;
    std::set<std::string> resources;
    int64_t rests_until_us = 0;  // set aside: it cannot reach a server, or does not get on
    std::string rests_why;
    bool rests_late = false;  // for not getting on
    int64_t progress_us = 0;  // since when it has had work and told no result
    int64_t quick_us = -1;    // when it last told one within the closure timeout
    int stuck = 0;            // times that it was set aside for it since its last success
    uint64_t steps = 0;       // of its results that were taken, in this life
    bool ready = false;       // adopted and set up
    bool dropped = false;     // it did not give up its closures for the error in time
    v1::WorkerHello hello;    // of its adoption, until it is set up
  };
  struct Ps {
    v1::PsHello hello;
    uint64_t term = 0;
    int64_t down_since_us = -1;
  };
  struct Named {
    std::string name;
    v1::ChiefToWorker message;
    bool independent() const { return message.resource().visitation() == v1::INDEPENDENT; }
  };

  // core_adoption.cc
  void Advance();
  bool EnoughWorkers(Link at_least) const;
  void OnWorkerHello(int worker, uint64_t request, v1::WorkerHello* hello);
  void FailBehind(Task task);
  void OnPsHello(int ps, uint64_t request, const v1::PsHello& hello);
  void KeepForSetUp(int worker, v1::Results* results);
  void SetUpWorker(int worker);
  void TakeBack(int worker, const v1::WorkerHello& hello);
  void SendMissing(int worker);
  void RemakeReaders(int worker);
  void MoveReaders(int worker,
                   const google::protobuf::RepeatedPtrField<v1::ReaderPosition>& readers);
  void SendRoutes(int worker);
  void OnFenced(Task task, const v1::Fenced& fenced);
  void Take(Recovered recovered);

  // core_closures.cc
  void OnResult(int worker, v1::ClosureResult* result);
  bool Wanted(const Closure& closure, int worker, const v1::ClosureResult& result, bool ok) const;
  absl::StatusOr<std::optional<UnfinishedClosures::Entry>> TakeUp(const ClosureSpec& spec);
  void OnUnfinishedResult(v1::ClosureResult* result);
  void Finish(uint64_t id, v1::ClosureResult* result);
  absl::Status CheckAttempt(uint64_t id, uint64_t place, uint32_t attempt) const;
  absl::Status CheckLimits(const Closure& closure) const;
  void Requeue(Closure* closure);
  void GiveBack(Closure* closure, const absl::Status& why);
  void CancelFor(std::unique_ptr<Closure> closure, const absl::Status& status);
  void LeaveUnfinished(const Closure& closure);
  void ForgetInFlight(int worker, uint64_t id);
  bool EndAtLimit(int worker);
  void RequeueAll(int worker, bool lost);
  void Rest(int worker, int64_t us, const std::string& why);
  bool MayDispatch(int worker) const;
  void Refill(int worker);
  void RefillAll(bool idle_only);
  void FillDispatch(const Closure& closure, v1::Closure* out) const;
  void CancelOn(int worker, const std::vector<uint64_t>& ids);
  void Settled();
  void TellWatermark(int ps);

  // core_cluster.cc
  void LosePs(int ps, const std::string& why);
  void CheckPs();
  void CheckStranded();
  void CheckStragglers();
  // Of one that is late, where every other one is too, or rests because it was.
  void EndForStraggler(int worker);
  bool HasQuicker(const Worker& late) const;
  void CheckCancel();
  void AdvanceCut();
  void RolledBack();
  void TimelineRaised();

  // coordinator_core.cc
  void TellStop();
  // What is held but not scheduled runs too.
  bool error_ready() const { return queue_.error_ready() && !unfinished_.held(); }
  bool Late(const Worker& worker) const;
  std::string WaitingForWorkers() const;
  std::string WaitingForClosure() const;

  const CoreOptions options_;
  Outbox outbox_;
  Membership membership_;
  ClosureQueue queue_;
  UnfinishedClosures unfinished_;
  IdAllocator ids_;
  Settlement settlement_;
  Cut cut_;
  Rollback rollback_;

  int64_t now_us_ = 0;
  Phase phase_ = Phase::kProbing;
  absl::Status failure_;  // kFailed: why
  int64_t phase_since_us_ = 0;
  uint64_t start_record_ = 0;
  uint64_t stop_record_ = 0;
  uint64_t durable_record_ = 0;  // of this life
  JournalWatch journal_watch_;
  std::string stop_reason_;
  bool job_finished_ = false;

  std::vector<Worker> workers_;
  std::vector<Ps> ps_;
  int next_idle_ = 0;  // idle workers get work in turn
  std::vector<Named> programs_;
  std::vector<Named> resources_;
  std::set<uint64_t> setup_requests_;  // whose failure is the job's error

  uint64_t era_ = 0;  // EraOf
  uint64_t timeline_ = 0;
  std::string began_from_;
  uint64_t last_timeline_ = 0;    // the highest that is known, and the journal was asked for
  uint64_t worker_timeline_ = 0;  // the highest of this job that an adopted worker was told
  uint64_t layout_hash_ = 0;      // of the tablets as the journal knows them
  bool have_layout_ = false;
  v1::Layout layout_;
  uint64_t wanted_hash_ = 0;
  bool served_ = false;
  bool was_served_ = false;    // in this incarnation: an assignment from now on is a rollback
  bool settle_held_ = false;   // a rollback is being journaled: nothing may be written after it
  v1::ChiefCut rollback_cut_;  // of the cut that a rollback goes to
  uint64_t rollback_epoch_ = 0;

  uint64_t next_place_ = 0;
  uint64_t epoch_ = 0;
  uint64_t next_cut_ = 0;
  bool cut_finished_ = false;
  bool finish_committed_ = false;  // the newest cut is the finished job's
  int64_t cancel_since_us_ = -1;
  int64_t stranded_since_us_ = -1;
  CoreCounters counters_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_COORDINATOR_CORE_H_

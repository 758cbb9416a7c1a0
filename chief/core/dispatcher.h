#ifndef COHORT_CHIEF_CORE_DISPATCHER_H_
#define COHORT_CHIEF_CORE_DISPATCHER_H_

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "chief/core/core_context.h"
#include "chief/core/core_counters.h"
#include "chief/core/membership.h"
#include "chief/core/open_closures.h"
#include "chief/core/outbox.h"
#include "chief/core/settlement.h"
#include "chief/core/worker_pace.h"
#include "chief/core/worker_setup.h"

namespace cohort {

// What may be dispatched now. The router derives it from the other parts.
struct DispatchGate {
  bool open = false;      // the chief is ready, all servers are there and serve the variables
  bool training = false;  // no cut holds training closures back
  uint64_t ids_end = 0;   // ids below are durably reserved, and near enough to the watermark
};

// Gives closures to workers and takes them back: refill, results, give-backs, lost and late
// workers, and the cancelling that follows an error. It sends only Dispatch and
// CancelClosures.
class Dispatcher {
 public:
  // The parts that it uses.
  struct Parts {
    const CoreContext* context;
    Outbox* outbox;
    const Membership* membership;
    const Settlement* settlement;
    const WorkerSetup* setup;
    OpenClosures* closures;
    std::function<DispatchGate()> gate;
  };
  explicit Dispatcher(Parts parts);

  // Enforces the deadlines: for giving up closures after an error, and for late workers.
  void Tick();
  // A closure was scheduled. `id` may have ended already.
  void OnScheduled(uint64_t id);
  // Raises the job's error, if it is the first: cancels what waits and what workers have.
  void Fail(absl::Status error);

  // ------------------------------------------------------------- workers
  // A worker returns and is being set up: judges what its hello reports. It keeps what it has in
  // hand unless another worker has that by now.
  void OnReturned(int worker, v1::WorkerHello* hello);
  // A worker that is set up has reported results. True if it gave a closure back: its routes may be
  // stale.
  bool OnResults(int worker, google::protobuf::RepeatedPtrField<v1::ClosureResult>* results);
  // The stream has ended: others run the worker's closures.
  void OnLost(int worker);
  // Others run the worker's closures, and it gets none for `set_aside_us`.
  void SetAside(int worker, const std::string& why);

  // Sends closures when half of what the worker may have in flight is done, so that one message
  // carries several. Near the end of the line each worker gets only its share.
  void Refill(int worker);
  void RefillAll(bool idle_only);
  // Publishes the durable watermark to the workers that get no Dispatch with it.
  void PublishWatermark();
  // The timeline was raised: cancels all that workers have of older ones.
  void CancelOlderTimelines();

  // ------------------------------------------------------------- state
  const WorkerPace& pace() const { return pace_; }
  std::vector<WorkerFigures> worker_figures() const;  // by index
  const DispatchCounters& counters() const { return counters_; }

 private:
  struct Worker {
    uint64_t steps = 0;    // of its results that were taken, in this life of the chief
    bool dropped = false;  // it did not give up its closures after the error in time
  };

  bool OnResult(int worker, v1::ClosureResult* result);
  static bool IsWanted(const Closure& closure, int worker, const v1::ClosureResult& result,
                       bool ok);
  void GiveBack(Closure* closure, const absl::Status& why);
  void ClaimInHand(int worker, const v1::WorkerHello& hello);
  bool FailAtLimit(int worker);
  void TakeFrom(int worker, bool lost);
  void AfterSetAside(int worker, const std::string& why);
  void Cancel(int worker, const std::vector<uint64_t>& ids);
  // All closures that a worker has: those of the queue, and unfinished ones.
  std::vector<uint64_t> ClosuresOn(int worker) const;
  void FillDispatch(const Closure& closure, v1::Closure* out) const;
  void CheckCancel();
  void CheckLate();
  void EndForLate(int worker);
  int count() const { return static_cast<int>(workers_.size()); }

  const Parts parts_;
  const CoreContext* const context_;
  ClosureQueue* const queue_;
  UnfinishedClosures* const unfinished_;
  WorkerPace pace_;
  std::vector<Worker> workers_;
  int next_idle_ = 0;  // idle workers get work in turn
  DispatchCounters counters_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_DISPATCHER_H_

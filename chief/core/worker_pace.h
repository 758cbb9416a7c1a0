#ifndef COHORT_CHIEF_CORE_WORKER_PACE_H_
#define COHORT_CHIEF_CORE_WORKER_PACE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chief/core/closure_queue.h"
#include "chief/core/core_context.h"
#include "chief/core/worker_setup.h"

namespace cohort {

// Decides by the clock which workers may get work, which are late, and which are set aside.
//
//   available ──(1) SetAside──► set aside ──(2) its time is over──► available
//
// (1) The worker cannot reach a server, is about to end, or is late. A worker is late if it has had
// work for the closure deadline and reported no result. A worker that is late again is set aside
// for twice as long. Otherwise several such workers could pass a closure around among them.
class WorkerPace {
 public:
  WorkerPace(const CoreContext* context, const ClosureQueue* queue, const WorkerSetup* setup)
      : context_(context),
        queue_(queue),
        setup_(setup),
        workers_(context->options.workers.size()) {}

  // The worker has been adopted again: it is not set aside, and its deadline counts from now.
  void Restart(int worker);
  // The worker had nothing in flight and has received work.
  void OnFirstWork(int worker) { of(worker).progress_us = context_->now_us - of(worker).idled_us; }
  // The worker has given back all its work, and begun none of it. If a step that it should have
  // given up never ends, each cut takes the work back: the deadline counts on with the next work.
  void OnWorkReturned(int worker) {
    of(worker).idled_us = context_->now_us - of(worker).progress_us;
  }
  // The worker has reported results; OnSuccess: one of them is a success.
  void OnResults(int worker);
  void OnSuccess(int worker) { of(worker).times_late = 0; }

  // Edge (1), for `us`. Returns false if the worker is already set aside.
  bool SetAside(int worker, int64_t us, const std::string& why);
  // Edge (1) for a worker that is late.
  bool SetLateAside(int worker);

  // Returns false if nothing changes. Unlike a worker that is set aside, a fenced one stays fenced
  // when it returns.
  bool SetFenced(int worker, bool fenced);
  bool fenced(int worker) const { return of(worker).fenced; }

  bool is_set_aside(int worker) const { return context_->now_us < of(worker).set_aside_until_us; }
  // True if the worker is set up, and neither set aside nor fenced.
  bool available(int worker) const {
    return setup_->ready(worker) && !setup_->opens_data(worker) && !is_set_aside(worker) &&
           !fenced(worker);
  }
  // Costs nothing until the clock moves or a worker changes.
  int count_available() const;
  bool late(int worker) const;
  // True if another worker can take the work of a late one. It has nothing in flight, or it has
  // reported a result in time since the late one did. Other busy workers may run steps as long.
  bool HasQuicker(int late) const;
  // Returns the names of the other workers that are set up, as a part of a sentence, if none of
  // them makes progress. nullopt: one of them may still take the work.
  std::optional<std::string> OthersWithoutProgress(int late) const;

  // How long the worker has had work and reported no result; 0 if it has no work.
  int64_t silent_us(int worker) const;
  // "no result for 20 s of its 3 closures".
  std::string Silence(int worker) const;
  // The workers that delay the job: those that are set aside or fenced if `none_available`, else
  // those that are late. "worker:0 (host:2222), which has reported ...; ..."; "": none.
  std::string Waiting(bool none_available) const;

 private:
  struct Worker {
    int64_t set_aside_until_us = 0;
    std::string set_aside_why;
    bool set_aside_late = false;  // because it was late
    bool fenced = false;          // until a user lifts the fence
    int64_t progress_us = 0;      // when it received its first work or reported its last result
    int64_t idled_us = 0;         // how long it had work before, none of which it has begun
    int64_t quick_us = -1;        // its last result within the closure deadline
    int times_late = 0;           // how often it was set aside as late since its last success
  };
  Worker& of(int worker) { return workers_[static_cast<size_t>(worker)]; }
  const Worker& of(int worker) const { return workers_[static_cast<size_t>(worker)]; }
  bool idle(int worker) const { return queue_->InFlightOn(worker).empty(); }
  int count() const { return static_cast<int>(workers_.size()); }

  const CoreContext* const context_;
  const ClosureQueue* const queue_;
  const WorkerSetup* const setup_;
  std::vector<Worker> workers_;
  uint64_t changes_ = 0;  // counts those of set_aside_until_us
  // The last count, and when it was made.
  struct Available {
    int64_t now_us = -1;
    uint64_t changes = 0;
    int count = 0;
  };
  mutable Available available_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_WORKER_PACE_H_

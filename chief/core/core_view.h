#ifndef COHORT_CHIEF_CORE_CORE_VIEW_H_
#define COHORT_CHIEF_CORE_CORE_VIEW_H_

#include <string>

#include "chief/core/closure_scheduler.h"
#include "chief/core/core_context.h"
#include "chief/core/core_counters.h"
#include "chief/core/core_state.h"
#include "chief/core/cut.h"
#include "chief/core/dispatcher.h"
#include "chief/core/homes.h"
#include "chief/core/job_end.h"
#include "chief/core/job_error.h"
#include "chief/core/joined_tasks.h"
#include "chief/core/journal_watch.h"
#include "chief/core/link_watch.h"
#include "chief/core/membership.h"
#include "chief/core/open_closures.h"
#include "chief/core/outbox.h"
#include "chief/core/rollback.h"
#include "chief/core/served_variables.h"
#include "chief/core/servers.h"
#include "chief/core/settlement.h"
#include "chief/core/steps.h"

namespace cohort {

// The state of the core, for its owner: its parts, and what follows from several of them. Nothing
// here changes the core.
struct CoreView {
  const CoreContext& context;  // phase, clock, timeline
  const Outbox& outbox;        // generation
  const JournalWatch& journal;
  const Membership& membership;
  const JoinedTasks& joined;
  const Settlement& settlement;  // epoch, steps, metrics
  const Servers& servers;
  const Homes& homes;
  const ServedVariables& variables;
  const Rollback& rollback;
  const Cut& cut;
  const LinkWatch& links;
  const OpenClosures& closures;
  const JobError& error;
  const Steps& steps;
  const ClosureScheduler& scheduler;
  const Dispatcher& dispatcher;
  const JobEnd& end;
  const ClusterCounters& cluster;

  CorePhase phase() const { return context.phase; }
  bool served() const { return variables.served(); }
  uint64_t timeline() const { return context.timeline; }
  bool all_ps_there() const { return homes.all_there() && (!served() || homes.there()); }
  int ready_workers() const { return dispatcher.pace().count_available(); }
  // True if nothing is scheduled, and no closure still runs after an error.
  bool idle() const { return closures.queue().size() == 0 && !error_pending(); }
  bool error_pending() const { return error.cancelling(); }
  // True if Schedule accepts the closure now. A full queue still accepts an unfinished place,
  // because all closures in the queue may have to wait for that one.
  bool has_room(const ClosureSpec& spec) const {
    return !closures.queue().full() || (spec.place.has_value() && spec.training &&
                                        closures.unfinished().Knows(spec.place->place));
  }
  // The closures that must be scheduled again after a restart, an error or a rollback, by place.
  std::vector<UnfinishedClosure> Unfinished() const { return closures.unfinished().List(); }
  // Valid in kStopped: true if the journal has the end.
  bool stop_journaled() const { return end.journaled(journal.durable_record()); }
  // What a blocked call is waiting for: "waiting for worker:2 (host3:2222), 12 s". It is "" if the
  // call waits only for closures to end.
  std::string WaitingFor() const;
  // What the active cut is waiting for; "" if it has not waited for long.
  std::string WaitingForCut() const {
    return cut.Waiting(closures.queue().training_in_flight(), context.now_us);
  }
  CoreCounters counters() const;
  CoreState State() const;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_CORE_VIEW_H_

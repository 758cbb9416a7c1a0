#ifndef COHORT_CHIEF_CORE_RATE_SWITCH_H_
#define COHORT_CHIEF_CORE_RATE_SWITCH_H_

#include <absl/status/status.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "chief/core/core_context.h"
#include "chief/core/outbox.h"

namespace cohort {

// What a rollback to this cut leaves of the rates: those of the cut, and what users have set since.
// A callback decides again.
v1::LearningRates RatesAfterRollback(const v1::LearningRates& cut, const v1::LearningRates& now);

// The learning rates that callbacks and users set while the job runs, and the change to another
// one:
//
//   steady ──(1) Request──► journaling ──(2) OnJournaled──► sending ──(3) all answered──► steady
//      ▲                        └──────────(4) RollBack──────────┘
//      └───────────────────────────────────────┘
//
// (1) A rate gets the iteration from which it counts: no update has that one yet, and none gets it
// before the end of the change. (2) The record is durable: the servers get all rates. (3) Every
// server has them. (4) AssignTablets of a rollback has all rates that are left.
//
// A rate is thus a function of the iteration, whatever was killed: an update that runs again, or
// that another chief repeats, has the rate that it had.
class RateSwitch {
 public:
  RateSwitch(const CoreContext* context, Outbox* outbox) : context_(context), outbox_(outbox) {}

  const v1::LearningRates& rates() const { return rates_; }
  // True outside `steady`.
  bool changing() const { return record_ != 0 || !requests_.empty(); }

  // Edge (1). Does nothing if this is the rate already, or, without `by_user`, if a user has set
  // one from this iteration on. The caller makes no request while the rate is changing.
  void Request(double rate, bool by_user, uint64_t iteration);
  // Edge (2).
  void OnJournaled(uint64_t record);
  // Edge (3). Ignores a message that is no answer. Errors: that of the server.
  absl::Status OnPsMessage(int ps, const v1::PsToChief& message);
  // A server that was away has come back with its tablets: it may have missed the rates.
  void OnPsReturned(int ps);
  // A server is lost, and others have its tablets.
  void OnPsReplaced(int ps) { requests_.erase(ps); }
  // A restarted chief continues with the rates of the journal.
  void TakeOver(const v1::LearningRates& rates) { rates_ = rates; }
  // The former chief may have died before the servers had them.
  void Resume();
  // Edge (4), with the result of RatesAfterRollback.
  void RollBack(const v1::LearningRates& rates);
  // What the change waits for: the servers that have not answered; "": there is no change.
  std::string Waiting() const;

 private:
  void Send();
  void SendTo(int ps);

  const CoreContext* const context_;
  Outbox* const outbox_;
  v1::LearningRates rates_;
  uint64_t record_ = 0;               // journaling: its record
  std::map<int, uint64_t> requests_;  // sending: by the servers that have not answered
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_RATE_SWITCH_H_

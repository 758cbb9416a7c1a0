#ifndef COHORT_CHIEF_CORE_CLOSING_STEP_H_
#define COHORT_CHIEF_CORE_CLOSING_STEP_H_

#include <absl/status/status.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "chief/core/core_context.h"
#include "chief/core/open_step.h"
#include "chief/core/outbox.h"
#include "chief/core/progress_watch.h"
#include "common/base/exact_sum.h"

namespace cohort {

// A synchronous step that the servers close. The object exists only while some server has not
// acknowledged.
//
//   ─(1) Sum─► summing ─(2) all servers have answered─┐
//   ─(3) Send─────────────────────────────────────────┴─► closing ─(4) all servers acknowledged─► gone
//
// (1) An optimizer clips gradients by a norm, which is of all servers: each sums the squares of its
// part. (2) The chief adds them up: CloseStep has the norms. A restarted chief knows nothing of
// them; it begins a new try. (3) CloseStep goes to every server.
class ClosingStep {
 public:
  // Closes the open step, which has this try and begins at `begin`, with these members.
  // `servers`: those that answer for tablets.
  ClosingStep(const CoreContext* context, Outbox* outbox, const OpenStep& open,
              const std::vector<StepMember>& members, std::set<int> servers);
  // Repeats the close of an earlier chief for the servers that have missed it.
  ClosingStep(const CoreContext* context, Outbox* outbox, v1::CloseStep close,
              std::set<int> servers)
      : context_(context),
        outbox_(outbox),
        close_(std::move(close)),
        waits_for_(std::move(servers)) {}

  const v1::CloseStep& close() const { return close_; }
  // The boundary after the step, if this chief began to close it.
  const v1::StepPosition& next() const { return next_; }

  // Edges (1) and (3).
  void Sum();
  void Send();
  // Takes an answer. Errors: the server could not carry out SumStep or CloseStep, or its answer
  // cannot be read.
  absl::Status OnPsMessage(int ps, const v1::PsToChief& message);
  // A server that was away has come back with its tablets: it may have missed a message.
  void OnPsReturned(int ps, const v1::PsHello& hello);
  // Only these servers answer for tablets now, and `promoted` among them for tablets of others:
  // they may not have closed the step.
  void OnHomes(const std::set<int>& servers, const std::set<int>& promoted);
  // True after edge (4).
  bool closed() const { return waits_for_.empty(); }
  // Errors: DeadlineExceeded names a server that has neither answered for long, nor reported that
  // it makes progress.
  absl::Status Tick() const;
  // "waiting for ps:1 (host:2222) to close step 7"; "" if it does not take long.
  std::string Waiting() const;

 private:
  // A gradient that is not finite skips the step: the servers apply nothing. Sets the scale of the
  // next step.
  void ScaleLoss(bool finite);
  void SumOn(int ps);
  void CloseOn(int ps);
  // `ps` has this request now, and all the time that it may take.
  void Asked(int ps, uint64_t request, std::map<int, uint64_t>* requests);
  absl::Status OnSummed(int ps, const v1::PsToChief& answer);
  bool AnswersTo(const std::map<int, uint64_t>& requests, int ps,
                 const v1::PsToChief& message) const;

  const CoreContext* const context_;
  Outbox* const outbox_;
  v1::CloseStep close_;
  v1::StepPosition next_;
  std::set<int> waits_for_;  // the servers that have not acknowledged
  std::set<int> promoted_;   // those that have got tablets of others since Send
  const int64_t since_us_ = context_->now_us;
  std::map<int, uint64_t> close_requests_;  // the newest CloseStep to each server
  std::map<int, uint64_t> sum_requests_;    // SumStep to the servers that have not answered
  std::map<int, ProgressWatch> progress_;   // with the newest request to each server
  // The squares so far, by optimizer and variable.
  std::map<std::pair<uint32_t, std::string>, ExactSum> squares_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_CLOSING_STEP_H_

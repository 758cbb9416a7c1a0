#ifndef COHORT_PS_SERVER_WAITING_REQUEST_H_
#define COHORT_PS_SERVER_WAITING_REQUEST_H_

#include <absl/status/status.h>

#include <memory>

#include "common/tablet/push_pull_views.h"
#include "ps_server/copies/copy_log.h"

namespace cohort {

// A whole request that may have to wait for its execution (ParkedRequests). It belongs to its
// holder, who executes it once, on any thread.
//
//   ─(may be executed)─► Push ─(copies have it)─► Execute
class WaitingRequest {
 public:
  virtual ~WaitingRequest() = default;

  virtual const RequestView& view() const = 0;
  // The stream that it came on. When that has ended, no client waits for the answer.
  virtual std::weak_ptr<const void> stream() const = 0;
  bool stream_ended() const { return stream().expired(); }
  bool SameStream(const WaitingRequest& other) const {
    const auto own = stream();
    const auto others = other.stream();
    return !own.owner_before(others) && !others.owner_before(own);
  }

  // Counts the request's memory among what unanswered requests hold. To be called before a request
  // is kept for later. Error: ResourceExhausted if all requests together would hold too much; then
  // the request is to be answered at once.
  virtual absl::Status Park() = 0;
  // Executes its pushes, unless it has. Returns whether the answer may go, or waits for copies of
  // tablets (docs/design/copies.md). kVoid: other servers answer for them now.
  virtual CopyLog::Answer Push() = 0;
  // Executes what Push has not, and sends the answer.
  virtual void Execute() = 0;
  // Tells the client of a request that waits that the server has it.
  virtual void SendLifeSign() = 0;
  // Answers with an error of the request as a whole.
  virtual void AnswerError(const absl::Status& status) = 0;
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_WAITING_REQUEST_H_

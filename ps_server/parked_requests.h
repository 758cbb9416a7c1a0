#ifndef COHORT_PS_SERVER_PARKED_REQUESTS_H_
#define COHORT_PS_SERVER_PARKED_REQUESTS_H_

#include <atomic>
#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "ps_server/admission.h"
#include "ps_server/waiting_request.h"

namespace cohort {

// Executes requests, and keeps those that must wait (Admission). Those that wait for room for their
// answers are answered in the order of their arrival; others are executed when what they wait for
// has come. A client whose request waits for long gets a sign of life, so that it neither sends the
// request again nor gives the server up. Thread-safe.
class ParkedRequests {
 public:
  struct Options {
    Duration life_sign_every = std::chrono::seconds(2);
    // How long a push is delayed while memory is short.
    Duration delay = std::chrono::milliseconds(50);
    // If the gradient whose turn it is does not come, one that waits for its turn is copied each
    // time that this has passed: its worker may be the one that has to compute the missing one.
    Duration patience = std::chrono::seconds(10);
    // After this, a push no longer waits for the file of a snapshot: rather a copy of what it
    // changes than a job that stands still.
    Duration snapshot_patience = std::chrono::seconds(3);
    const Clock* clock = nullptr;  // null: that of the system
  };

  ParkedRequests(Admission admission, const Options& options)
      : options_(options), admission_(admission) {}
  explicit ParkedRequests(Admission admission) : ParkedRequests(admission, Options()) {}

  // Answers the request and returns it, or keeps it and returns null. A
  // request that would take too much memory is answered with an error. It keeps only the
  // newest request of each stream, and answers the older one with ABORTED.
  std::unique_ptr<WaitingRequest> Execute(std::unique_ptr<WaitingRequest> request);
  // Answers the requests that need not wait any more, and drops those whose stream has ended. To be
  // called when a step was opened, when tablets or the chief have changed, and when memory has
  // become free, and several times a second, because some wait only for a time. It may take the
  // lock of every tablet.
  void Release();
  // To be called several times a second. Waits for nothing.
  void SendLifeSigns();
  bool empty() const { return count_.load() == 0; }
  // True if some request waits for room for its answer.
  bool answers_wait() const { return answers_wait_.load(); }

 private:
  using Wait = Admission::Wait;
  struct Parked {
    std::unique_ptr<WaitingRequest> request;
    Wait wait = Wait::kNone;
    TimePoint since;
    TimePoint life_sign;  // when the last one was sent
    bool pushed = false;  // its pushes are executed
  };

  // What a Release has found so far.
  struct Pass {
    TimePoint now;
    uint64_t promised = 0;      // as in Admission
    bool answers_wait = false;  // as answers_wait_
  };

  // Why the request must wait now.
  Wait WaitOf(const WaitingRequest& request, const Pass& pass) const;
  // Return the request if it need not wait.
  std::unique_ptr<WaitingRequest> Park(std::unique_ptr<WaitingRequest> request);
  std::unique_ptr<WaitingRequest> Keep(std::unique_ptr<WaitingRequest> request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Keeps a request whose pushes are executed, until copies have them. Returns it if they do.
  std::unique_ptr<WaitingRequest> AwaitCopies(std::unique_ptr<WaitingRequest> request);
  // Adds it to those that wait, in place of an older one of its client.
  void Add(std::unique_ptr<WaitingRequest> request, Wait wait, TimePoint now, bool pushed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // True if the request waits no more.
  bool IsReady(Parked* parked, Pass* pass) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sets the counts of parked_.
  void Count() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  TimePoint Now() const {
    return options_.clock == nullptr ? RealClock().Now() : options_.clock->Now();
  }

  const Options options_;
  const Admission admission_;
  // The numbers of parked requests, and of those that wait for their turn. A request counts before
  // it is decided whether it waits: whoever changes what it may wait for, and then finds nobody
  // waiting, need not call Release.
  std::atomic<size_t> count_{0};
  std::atomic<size_t> early_{0};
  std::atomic<bool> answers_wait_{false};  // some request waits for room for its answer
  Mutex mu_;
  std::vector<Parked> parked_ ABSL_GUARDED_BY(mu_);
  TimePoint copied_ ABSL_GUARDED_BY(mu_);  // when an early gradient was last copied for patience
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_PARKED_REQUESTS_H_

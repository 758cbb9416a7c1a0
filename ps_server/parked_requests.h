#ifndef COHORT_PS_SERVER_PARKED_REQUESTS_H_
#define COHORT_PS_SERVER_PARKED_REQUESTS_H_

#include <atomic>
#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "ps_server/admission.h"
#include "ps_server/data_path.h"
#include "ps_server/push_pull_request.h"

namespace cohort {

// Executes requests, and keeps those that must wait (Admission), in the order of their arrival. A
// client whose request waits for long gets a sign of life, so that it neither sends the request
// again nor gives the server up. Thread-safe.
class ParkedRequests {
 public:
  struct Options {
    Duration life_sign_every = std::chrono::seconds(2);
    // How long a push is delayed while memory is short.
    Duration delay = std::chrono::milliseconds(50);
    // If the gradient whose turn it is does not come, one that waits for its turn is copied each
    // time that this has passed: its worker may be the one that has to compute the missing one.
    Duration patience = std::chrono::seconds(10);
  };

  ParkedRequests(DataPath* data_path, Admission admission, const Options& options)
      : options_(options), data_path_(data_path), admission_(admission) {}
  ParkedRequests(DataPath* data_path, Admission admission)
      : ParkedRequests(data_path, admission, Options()) {}

  // RequestContext::execute: answers the request and returns it, or keeps it and returns null. A
  // request that would take too much memory is answered with an error. It keeps only the
  // newest request of each stream, and answers the older one with ABORTED.
  std::unique_ptr<PushPullRequest> Execute(std::unique_ptr<PushPullRequest> request);
  // Answers the requests that need not wait any more, and drops those whose stream has ended. To be
  // called when a step was opened, when tablets or the chief have changed, and when memory has
  // become free.
  void Release();
  // Releases by time, and sends signs of life. To be called several times a second.
  void Tick();
  bool empty() const { return count_.load(std::memory_order_acquire) == 0; }

 private:
  using Wait = Admission::Wait;
  struct Parked {
    std::unique_ptr<PushPullRequest> request;
    Wait wait = Wait::kNone;
    TimePoint since;
    TimePoint life_sign;  // when the last one was sent
  };

  // Why the request must wait now. `promised`: as in Admission.
  Wait WaitOf(const PushPullRequest& request, uint64_t promised) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the request if it need not wait.
  std::unique_ptr<PushPullRequest> Park(std::unique_ptr<PushPullRequest> request);
  // True if the request waits no more.
  bool IsReady(Parked* parked, uint64_t* promised, TimePoint now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Answer(PushPullRequest* request);

  const Options options_;
  DataPath* const data_path_;
  const Admission admission_;
  const RealClock clock_;
  std::atomic<size_t> count_{0};  // number of parked requests
  std::atomic<size_t> early_{0};  // the number that wait for their turn
  Mutex mu_;
  std::vector<Parked> parked_ ABSL_GUARDED_BY(mu_);
  bool answers_wait_ ABSL_GUARDED_BY(mu_) = false;  // some request waits for room for its answer
  TimePoint copied_ ABSL_GUARDED_BY(mu_);  // when an early gradient was last copied for patience
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_PARKED_REQUESTS_H_

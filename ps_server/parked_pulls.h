#ifndef COHORT_PS_SERVER_PARKED_PULLS_H_
#define COHORT_PS_SERVER_PARKED_PULLS_H_

#include <atomic>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "ps_server/data_path.h"
#include "ps_server/push_pull_request.h"

namespace cohort {

// Executes requests, and keeps those whose pull came before the chief's CloseStep until their step
// is open. Thread-safe.
class ParkedPulls {
 public:
  explicit ParkedPulls(DataPath* data_path) : data_path_(data_path) {}

  // RequestContext::execute: answers the request and returns it, or keeps it and returns null. A
  // request that would take too much memory is answered with an error. A request of a client that
  // shares memory ends its older one that is kept: the client has given that one up, and expects the
  // new answer in the same memory.
  std::unique_ptr<PushPullRequest> Execute(std::unique_ptr<PushPullRequest> request);
  // Answers the requests that need not wait any more, and drops those whose stream has ended. To be
  // called when a step was opened, and when tablets or the chief have changed.
  void Release();

 private:
  void EndOlder(const PushPullRequest& request);
  // Returns the request if it need not wait.
  std::unique_ptr<PushPullRequest> Park(std::unique_ptr<PushPullRequest> request);
  void Answer(PushPullRequest* request);

  DataPath* const data_path_;
  Mutex mu_;  // held while kept requests are answered, so that EndOlder waits for that
  std::vector<std::unique_ptr<PushPullRequest>> parked_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> any_ =
      false;  // written under mu_: false only if none is kept or being answered
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_PARKED_PULLS_H_

#ifndef COHORT_PS_SERVER_PARKED_PULLS_H_
#define COHORT_PS_SERVER_PARKED_PULLS_H_

#include <chrono>
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
  // request that would take too much memory is answered with an error. It keeps only the
  // newest request of each stream, and answers the older one with ABORTED.
  std::unique_ptr<PushPullRequest> Execute(std::unique_ptr<PushPullRequest> request);
  // Answers the requests that need not wait any more, and drops those whose stream has ended. To be
  // called when a step was opened, and when tablets or the chief have changed.
  void Release();
  // Promises an answer to all clients whose requests still wait. To be called every kPromiseEvery:
  // a client counts a request without an answer or a promise as lost.
  void Promise();
  static constexpr std::chrono::seconds kPromiseEvery{2};

 private:
  // Returns the request if it need not wait.
  std::unique_ptr<PushPullRequest> Park(std::unique_ptr<PushPullRequest> request);
  void Answer(PushPullRequest* request);

  DataPath* const data_path_;
  Mutex mu_;
  std::vector<std::unique_ptr<PushPullRequest>> parked_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_PARKED_PULLS_H_

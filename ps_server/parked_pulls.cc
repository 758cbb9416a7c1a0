#include "ps_server/parked_pulls.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/status.h"

namespace cohort {

void ParkedPulls::Answer(PushPullRequest* request) {
  data_path_->Handle(request->view(), request->scratch(), request->answer(),
                     request->answer_payload());
  request->Answer();
}

std::unique_ptr<PushPullRequest> ParkedPulls::Execute(std::unique_ptr<PushPullRequest> request) {
  // A push beside the pull cannot wait: the step may need it. Such a pull is answered LATER.
  if (!request->view().has_push && data_path_->MustWait(request->view())) {
    if (const absl::Status status = request->Park(); !status.ok()) {
      request->AnswerError(status);
      return request;
    }
    request = Park(std::move(request));
    if (request == nullptr) return nullptr;
  }
  Answer(request.get());
  return request;
}

std::unique_ptr<PushPullRequest> ParkedPulls::Park(std::unique_ptr<PushPullRequest> request) {
  MutexLock lock(&mu_);
  // The step may have been opened, and Release called, since the last look.
  if (!data_path_->MustWait(request->view())) return request;
  // A client repeats a pull that waits for long, and ignores the answer to the older one.
  std::erase_if(parked_, [&](const auto& older) {
    if (!older->SameStream(*request)) return false;
    older->AnswerError(Aborted("a later pull of the same client waits instead"));
    return true;
  });
  parked_.push_back(std::move(request));
  return nullptr;
}

void ParkedPulls::Promise() {
  MutexLock lock(&mu_);
  for (const auto& request : parked_) request->Promise();
}

void ParkedPulls::Release() {
  std::vector<std::unique_ptr<PushPullRequest>> ready;
  {
    MutexLock lock(&mu_);
    const auto first = std::partition(parked_.begin(), parked_.end(), [&](const auto& request) {
      return data_path_->MustWait(request->view()) && !request->stream_ended();
    });
    std::move(first, parked_.end(), std::back_inserter(ready));
    parked_.erase(first, parked_.end());
  }
  for (const auto& request : ready) {
    if (!request->stream_ended()) Answer(request.get());
  }
}

}  // namespace cohort

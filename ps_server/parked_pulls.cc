#include "ps_server/parked_pulls.h"

#include <utility>

namespace cohort {

void ParkedPulls::Answer(PushPullRequest* request) {
  data_path_->Handle(request->view(), request->scratch(), request->answer(),
                     request->answer_payload());
  request->Answer();
}

std::unique_ptr<PushPullRequest> ParkedPulls::Execute(std::unique_ptr<PushPullRequest> request) {
  EndOlder(*request);
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

void ParkedPulls::EndOlder(const PushPullRequest& request) {
  if (!any_.load(std::memory_order_acquire) || !request.shares_memory()) return;
  MutexLock lock(&mu_);
  std::erase_if(parked_, [&](const auto& older) { return older->SameStream(request); });
}

std::unique_ptr<PushPullRequest> ParkedPulls::Park(std::unique_ptr<PushPullRequest> request) {
  MutexLock lock(&mu_);
  // The step may have been opened, and Release called, since the last look.
  if (!data_path_->MustWait(request->view())) return request;
  // A client repeats a pull that waits for long: the older one has no receiver any more.
  std::erase_if(parked_, [&](const auto& older) { return older->SameStream(*request); });
  parked_.push_back(std::move(request));
  any_.store(true, std::memory_order_release);
  return nullptr;
}

void ParkedPulls::Release() {
  MutexLock lock(&mu_);
  std::erase_if(parked_, [&](const std::unique_ptr<PushPullRequest>& request) {
    if (request->stream_ended()) return true;
    if (data_path_->MustWait(request->view())) return false;
    Answer(request.get());
    return true;
  });
  any_.store(!parked_.empty(), std::memory_order_release);
}

}  // namespace cohort

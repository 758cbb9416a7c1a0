#include "ps_server/parked_requests.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace cohort {

void ParkedRequests::Answer(PushPullRequest* request) {
  data_path_->Handle(request->view(), request->scratch(), request->answer(),
                     request->answer_payload());
  request->Answer();
}

std::unique_ptr<PushPullRequest> ParkedRequests::Execute(std::unique_ptr<PushPullRequest> request) {
  // Who arrives while others wait for room for their answers waits behind them.
  if (!empty() || admission_.Of(request->view()) != Wait::kNone) {
    request = Park(std::move(request));
    if (request == nullptr) return nullptr;
  }
  Answer(request.get());
  // It may have been the turn of this push, and now that of another one.
  if (early_.load(std::memory_order_acquire) > 0) Release();
  return request;
}

ParkedRequests::Wait ParkedRequests::WaitOf(const PushPullRequest& request, uint64_t promised) {
  const Wait wait = admission_.Of(request.view(), promised);
  if (wait != Wait::kNone || !answers_wait_) return wait;
  const bool sync_push = request.view().has_push && request.view().push.step.sync();
  return request.view().pull_sections.empty() || sync_push ? wait : Wait::kAnswers;
}

std::unique_ptr<PushPullRequest> ParkedRequests::Park(std::unique_ptr<PushPullRequest> request) {
  MutexLock lock(&mu_);
  // What it waits for may have happened, and Release been called, since the last look.
  const Wait wait = WaitOf(*request, 0);
  if (wait == Wait::kNone) return request;
  if (const absl::Status status = request->Park(); !status.ok()) {
    // Rather one more copy than a push that is sent again and again: its turn may never come.
    if (wait == Wait::kEarly) return request;
    request->AnswerError(status);
    return nullptr;
  }
  // A client repeats a request that waits for long, and ignores the answer to the older one.
  std::erase_if(parked_, [&](const Parked& older) {
    if (!older.request->SameStream(*request)) return false;
    older.request->AnswerError(Aborted("a later request of the same client waits instead"));
    return true;
  });
  const TimePoint now = clock_.Now();
  parked_.push_back({std::move(request), wait, now, now});
  if (wait == Wait::kAnswers) answers_wait_ = true;
  if (wait == Wait::kEarly) early_.fetch_add(1, std::memory_order_acq_rel);
  count_.store(parked_.size(), std::memory_order_release);
  return nullptr;
}

bool ParkedRequests::IsReady(Parked* parked, uint64_t* promised, TimePoint now) {
  if (parked->request->stream_ended()) return true;
  parked->wait = WaitOf(*parked->request, *promised);
  switch (parked->wait) {
    case Wait::kNone:
      break;
    case Wait::kShort:
      if (now - parked->since < options_.delay) return false;
      break;
    case Wait::kEarly:
      if (now - std::max(parked->since, copied_) < options_.patience) return false;
      copied_ = now;
      break;
    case Wait::kAnswers:
      answers_wait_ = true;
      return false;
    case Wait::kStep:
    case Wait::kSnapshot:
      return false;
  }
  *promised += admission_.AnswerBytes(parked->request->view());
  return true;
}

void ParkedRequests::Release() {
  if (empty()) return;
  std::vector<Parked> ready;
  {
    MutexLock lock(&mu_);
    const TimePoint now = clock_.Now();
    uint64_t promised = 0;
    size_t early = 0;
    answers_wait_ = false;
    std::vector<Parked> waiting;
    for (Parked& parked : parked_) {
      const bool is_ready = IsReady(&parked, &promised, now);
      if (!is_ready && parked.wait == Wait::kEarly) ++early;
      (is_ready ? ready : waiting).push_back(std::move(parked));
    }
    parked_ = std::move(waiting);
    early_.store(early, std::memory_order_release);
    count_.store(parked_.size(), std::memory_order_release);
  }
  for (const Parked& parked : ready) {
    if (!parked.request->stream_ended()) Answer(parked.request.get());
  }
  // One of these may have been a gradient whose turn it was.
  if (!ready.empty() && early_.load(std::memory_order_acquire) > 0) Release();
}

void ParkedRequests::Tick() {
  if (empty()) return;
  Release();
  MutexLock lock(&mu_);
  const TimePoint now = clock_.Now();
  for (Parked& parked : parked_) {
    if (now - parked.life_sign < options_.life_sign_every) continue;
    parked.life_sign = now;
    parked.request->SendLifeSign();
  }
}

}  // namespace cohort

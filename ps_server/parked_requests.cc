#include "ps_server/parked_requests.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace cohort {
namespace {

absl::Status TabletsMoved() {
  return Aborted("another server answers for the tablets of this request now");
}

}  // namespace

std::unique_ptr<WaitingRequest> ParkedRequests::Execute(std::unique_ptr<WaitingRequest> request) {
  // Who arrives while others wait for room for their answers waits behind them.
  if (answers_wait() || admission_.Of(request->view()) != Wait::kNone) {
    request = Park(std::move(request));
    if (request == nullptr) return nullptr;
  }
  if (request->Push() != CopyLog::Answer::kMay) {
    request = AwaitCopies(std::move(request));
    if (request == nullptr) {
      if (early_.load() > 0) Release();
      return nullptr;
    }
  }
  request->Execute();
  // It may have been the turn of this push, and now that of another one.
  if (early_.load() > 0) Release();
  return request;
}

ParkedRequests::Wait ParkedRequests::WaitOf(const WaitingRequest& request, const Pass& pass) const {
  const Wait wait = admission_.Of(request.view(), pass.promised);
  if (!pass.answers_wait || wait == Wait::kStep || request.view().pull_sections.empty()) {
    return wait;
  }
  const bool sync_push = request.view().has_push && request.view().push.step.sync();
  return sync_push ? wait : Wait::kAnswers;
}

void ParkedRequests::Count() {
  const auto waiting = [this](Wait wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return std::ranges::count(parked_, wait, &Parked::wait);
  };
  count_.store(parked_.size());
  early_.store(static_cast<size_t>(waiting(Wait::kEarly)));
  answers_wait_.store(waiting(Wait::kAnswers) > 0);
}

std::unique_ptr<WaitingRequest> ParkedRequests::Park(std::unique_ptr<WaitingRequest> request) {
  MutexLock lock(&mu_);
  count_.fetch_add(1);
  early_.fetch_add(1);
  request = Keep(std::move(request));
  Count();
  return request;
}

std::unique_ptr<WaitingRequest> ParkedRequests::Keep(std::unique_ptr<WaitingRequest> request) {
  const TimePoint now = Now();
  // What it waits for may have happened, and Release been called, since the last look.
  const Wait wait = WaitOf(*request, {.now = now, .answers_wait = answers_wait()});
  if (wait == Wait::kNone) return request;
  if (const absl::Status status = request->Park(); !status.ok()) {
    // Rather one more copy than a push that is sent again and again: its turn may never come. One
    // that only memory delays would be refused as long as memory is short.
    if (wait == Wait::kEarly || wait == Wait::kShort) return request;
    request->AnswerError(status);
    return nullptr;
  }
  Add(std::move(request), wait, now, /*pushed=*/false);
  return nullptr;
}

std::unique_ptr<WaitingRequest> ParkedRequests::AwaitCopies(
    std::unique_ptr<WaitingRequest> request) {
  MutexLock lock(&mu_);
  count_.fetch_add(1);
  // They may have acknowledged it, and Release been called, since the last look.
  const CopyLog::Answer answer = request->Push();
  if (answer != CopyLog::Answer::kWaits) {
    Count();
    if (answer == CopyLog::Answer::kMay) return request;
    request->AnswerError(TabletsMoved());
    return nullptr;
  }
  if (const absl::Status status = request->Park(); !status.ok()) {
    // The pushes count: their client repeats them and hears so.
    request->AnswerError(status);
    Count();
    return nullptr;
  }
  Add(std::move(request), Wait::kCopies, Now(), /*pushed=*/true);
  Count();
  return nullptr;
}

void ParkedRequests::Add(std::unique_ptr<WaitingRequest> request, Wait wait, TimePoint now,
                         bool pushed) {
  // A client repeats a request that waits for long, and ignores the answer to the older one.
  std::erase_if(parked_, [&](const Parked& older) {
    if (!older.request->SameStream(*request)) return false;
    older.request->AnswerError(Aborted("a later request of the same client waits instead"));
    return true;
  });
  parked_.push_back({std::move(request), wait, now, now, pushed});
}

bool ParkedRequests::IsReady(Parked* parked, Pass* pass) {
  if (parked->request->stream_ended()) return true;
  if (!parked->pushed) {
    parked->wait = WaitOf(*parked->request, *pass);
  } else {
    const CopyLog::Answer answer = parked->request->Push();
    if (answer == CopyLog::Answer::kVoid) return true;
    parked->wait = answer == CopyLog::Answer::kMay
                       ? admission_.OfAnswer(parked->request->view(), pass->promised)
                       : Wait::kCopies;
  }
  const auto waited = [&](TimePoint since, Duration patience) {
    return pass->now - since >= patience;
  };
  switch (parked->wait) {
    case Wait::kNone:
      break;
    case Wait::kShort:
      if (!waited(parked->since, options_.delay)) return false;
      break;
    case Wait::kEarly:
      if (!waited(std::max(parked->since, copied_), options_.patience)) return false;
      copied_ = pass->now;
      break;
    case Wait::kSnapshot:
      if (!waited(parked->since, options_.snapshot_patience)) return false;
      break;
    case Wait::kAnswers:
      pass->answers_wait = true;
      return false;
    case Wait::kStep:
    case Wait::kCopies:
      return false;
  }
  pass->promised += admission_.AnswerBytes(parked->request->view());
  return true;
}

void ParkedRequests::Release() {
  std::vector<Parked> ready;
  {
    MutexLock lock(&mu_);
    if (parked_.empty()) return;
    early_.store(parked_.size());  // one that waits for something else may find that it is early
    Pass pass{.now = Now()};
    std::vector<Parked> waiting;
    for (Parked& parked : parked_) {
      (IsReady(&parked, &pass) ? ready : waiting).push_back(std::move(parked));
    }
    parked_ = std::move(waiting);
    Count();
  }
  for (Parked& parked : ready) {
    if (parked.request->stream_ended()) continue;
    if (parked.request->Push() != CopyLog::Answer::kMay) {
      parked.request = AwaitCopies(std::move(parked.request));
    }
    if (parked.request != nullptr) parked.request->Execute();
  }
  // One of these may have been a gradient whose turn it was.
  if (!ready.empty() && early_.load() > 0) Release();
}

void ParkedRequests::SendLifeSigns() {
  if (empty()) return;
  if (!mu_.TryLock()) return;  // Release holds it; the next call is soon
  const TimePoint now = Now();
  for (Parked& parked : parked_) {
    if (now - parked.life_sign < options_.life_sign_every) continue;
    parked.life_sign = now;
    parked.request->SendLifeSign();
  }
  mu_.Unlock();
}

}  // namespace cohort

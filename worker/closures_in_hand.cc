#include "worker/closures_in_hand.h"

#include <absl/status/status.h>

#include <algorithm>
#include <utility>

#include "proto/worker.pb.h"

namespace cohort {
namespace {

v1::ClosureResult CancelledResult(const v1::Closure& closure) {
  v1::ClosureResult result;
  result.set_id(closure.id());
  result.set_attempt(closure.attempt());
  result.mutable_status()->set_code(static_cast<int>(absl::StatusCode::kCancelled));
  result.mutable_status()->set_message("cancelled before it ran");
  return result;
}

}  // namespace

ClosuresInHand::~ClosuresInHand() = default;

bool ClosuresInHand::Dispatch(v1::Dispatch* dispatch, int64_t now_us) {
  bool running = false;
  for (const v1::Closure& closure : dispatch->closures()) {
    if (closure.training()) running |= DropOlder(closure.timeline());
  }
  Settle(dispatch->settled_watermark());
  for (v1::Closure& closure : *dispatch->mutable_closures()) DispatchOne(&closure, now_us);
  return running;
}

void ClosuresInHand::DispatchOne(v1::Closure* closure, int64_t now_us) {
  const uint64_t id = closure->id();
  if (id < watermark_ || (closure->training() && closure->timeline() < timeline_)) return;
  const auto [it, is_new] = entries_.try_emplace(id);
  if (!is_new) return Redispatch(&it->second, closure, now_us);
  auto owned = std::make_unique<v1::Closure>();
  owned->Swap(closure);
  Enqueue(&it->second, std::move(owned));
}

bool ClosuresInHand::CountsFor(const Entry& entry, const v1::ClosureResult& result,
                               const v1::Closure& dispatched) const {
  if (result.status().code() != 0 || result.dropped()) return false;
  const bool same_timeline = entry.timeline == dispatched.timeline();
  const bool same_step = entry.step == StepMembership::Of(dispatched.step());
  return (same_timeline || options_.test_keeps_results_over_rollback) &&
         (same_step || options_.test_keeps_results_over_tries);
}

void ClosuresInHand::Redispatch(Entry* entry, v1::Closure* closure, int64_t now_us) {
  auto owned = std::make_unique<v1::Closure>();
  owned->Swap(closure);
  switch (entry->state) {
    case State::kQueued:
      if (owned->attempt() > entry->closure->attempt()) {
        entry->training = owned->training();
        entry->timeline = owned->timeline();
        entry->step = StepMembership::Of(owned->step());
        entry->closure = std::move(owned);
      }
      return;
    case State::kRunning: {
      const uint32_t in_hand =
          entry->next != nullptr ? entry->next->attempt() : entry->closure->attempt();
      if (owned->attempt() > in_hand) entry->next = std::move(owned);
      return;
    }
    case State::kFinished: {
      v1::ClosureResult* result = entry->result.get();
      if (owned->attempt() < result->attempt()) return;
      const bool done = CountsFor(*entry, *result, *owned);
      if (!done && owned->attempt() > result->attempt()) {
        std::erase(unreported_, owned->id());
        return Enqueue(entry, std::move(owned));
      }
      result->set_attempt(owned->attempt());
      return QueueReport(owned->id(), now_us);
    }
  }
}

void ClosuresInHand::Enqueue(Entry* entry, std::unique_ptr<v1::Closure> closure) {
  queue_.push_back(closure->id());
  entry->state = State::kQueued;
  entry->stop = entry->forget = false;
  entry->training = closure->training();
  entry->timeline = closure->timeline();
  entry->step = StepMembership::Of(closure->step());
  entry->closure = std::move(closure);
  entry->next.reset();
  entry->result.reset();
}

void ClosuresInHand::Settle(uint64_t watermark) {
  if (watermark <= watermark_) return;
  watermark_ = watermark;
  for (auto it = entries_.begin(); it != entries_.end() && it->first < watermark;) {
    // A settled closure that is still in hand was finished by another worker.
    if (it->second.state == State::kRunning) {
      it->second.stop = it->second.forget = true;
      ++it;
      continue;
    }
    if (it->second.state == State::kQueued) Unqueue(it->first);
    it = entries_.erase(it);
  }
  std::erase_if(unreported_, [watermark](uint64_t id) { return id < watermark; });
}

bool ClosuresInHand::Cancel(const std::vector<uint64_t>& ids, int64_t now_us) {
  bool running = false;
  for (const uint64_t id : ids) {
    const auto it = entries_.find(id);
    if (it == entries_.end()) continue;
    Entry& entry = it->second;
    switch (entry.state) {
      case State::kQueued: {
        Unqueue(id);
        Keep(&entry, CancelledResult(*entry.closure), now_us);
        break;
      }
      case State::kRunning:
        entry.stop = running = true;
        entry.next.reset();
        break;
      case State::kFinished:
        QueueReport(id, now_us);
        break;
    }
  }
  return running;
}

void ClosuresInHand::GiveBack(const std::vector<uint64_t>& ids, int64_t now_us) {
  for (const uint64_t id : ids) {
    const auto it = entries_.find(id);
    if (it == entries_.end() || it->second.state != State::kQueued) continue;
    Unqueue(id);
    v1::ClosureResult result = CancelledResult(*it->second.closure);
    result.set_not_started(true);
    Keep(&it->second, std::move(result), now_us);
  }
}

bool ClosuresInHand::DropOlder(uint64_t timeline) {
  if (timeline <= timeline_) return false;
  timeline_ = timeline;
  watermark_ = 0;  // ids that a rollback makes pending again lie below the old one
  bool running = false;
  for (auto it = entries_.begin(); it != entries_.end();) {
    Entry& entry = it->second;
    if (!entry.training || entry.timeline >= timeline) {
      ++it;
      continue;
    }
    if (entry.state == State::kRunning) {
      entry.stop = entry.forget = running = true;
      entry.next.reset();
      ++it;
      continue;
    }
    if (entry.state == State::kFinished && options_.test_keeps_results_over_rollback) {
      ++it;
      continue;
    }
    if (entry.state == State::kQueued) Unqueue(it->first);
    std::erase(unreported_, it->first);
    it = entries_.erase(it);
  }
  return running;
}

void ClosuresInHand::GiveBackQueued(const std::function<void(v1::ClosureResult*)>& make,
                                    int64_t now_us) {
  while (!queue_.empty()) {
    Entry& entry = entries_[queue_.front()];
    queue_.pop_front();
    v1::ClosureResult result;
    result.set_id(entry.closure->id());
    result.set_attempt(entry.closure->attempt());
    make(&result);
    Keep(&entry, std::move(result), now_us);
  }
}

void ClosuresInHand::StopRunning() {
  for (auto& [id, entry] : entries_) entry.stop = entry.stop || entry.state == State::kRunning;
}

void ClosuresInHand::Clear() {
  queue_.clear();
  unreported_.clear();
  watermark_ = timeline_ = 0;
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (it->second.state != State::kRunning) {
      it = entries_.erase(it);
      continue;
    }
    it->second.stop = it->second.forget = true;
    it->second.next.reset();
    ++it;
  }
}

const v1::Closure* ClosuresInHand::Take() {
  if (queue_.empty()) return nullptr;
  Entry& entry = entries_[queue_.front()];
  queue_.pop_front();
  entry.state = State::kRunning;
  ++running_;
  return entry.closure.get();
}

const v1::Closure* ClosuresInHand::Peek() const {
  return queue_.empty() ? nullptr : entries_.at(queue_.front()).closure.get();
}

bool ClosuresInHand::ShouldStop(uint64_t id) const {
  const auto it = entries_.find(id);
  return it == entries_.end() || it->second.stop;
}

void ClosuresInHand::Finish(v1::ClosureResult result, int64_t now_us) {
  const auto it = entries_.find(result.id());
  if (it == entries_.end() || it->second.state != State::kRunning) return;
  --running_;
  Entry& entry = it->second;
  if (entry.next != nullptr && (entry.forget || !CountsFor(entry, result, *entry.next))) {
    return Enqueue(&entry, std::move(entry.next));
  }
  if (entry.forget) {
    entries_.erase(it);
    return;
  }
  if (entry.next != nullptr) result.set_attempt(entry.next->attempt());
  Keep(&entry, std::move(result), now_us);
}

void ClosuresInHand::Keep(Entry* entry, v1::ClosureResult result, int64_t now_us) {
  const uint64_t id = result.id();
  entry->state = State::kFinished;
  entry->closure.reset();
  entry->next.reset();
  entry->result = std::make_unique<v1::ClosureResult>(std::move(result));
  QueueReport(id, now_us);
}

void ClosuresInHand::QueueReport(uint64_t id, int64_t now_us) {
  if (std::find(unreported_.begin(), unreported_.end(), id) != unreported_.end()) return;
  if (unreported_.empty()) unreported_since_us_ = now_us;
  unreported_.push_back(id);
}

bool ClosuresInHand::ShouldReport(int64_t now_us) const {
  return !unreported_.empty() && (unreported_.size() >= queue_.size() + running_ ||
                                  now_us - unreported_since_us_ >= options_.max_result_age_us);
}

bool ClosuresInHand::TakeUnreported(v1::Results* out) {
  for (const uint64_t id : unreported_) {
    *out->add_results() = *entries_[id].result;
  }
  const bool any = !unreported_.empty();
  unreported_.clear();
  return any;
}

void ClosuresInHand::FillHello(v1::WorkerHello* hello) {
  hello->set_timeline(timeline_);
  for (auto& [id, entry] : entries_) {
    if (entry.state == State::kFinished) {
      *hello->add_results() = *entry.result;
      continue;
    }
    if (entry.forget && entry.next == nullptr) continue;
    v1::ClosureAttempt* in_hand = hello->add_in_hand();
    in_hand->set_id(id);
    in_hand->set_attempt(entry.next != nullptr ? entry.next->attempt() : entry.closure->attempt());
  }
  unreported_.clear();
}

size_t ClosuresInHand::kept() const {
  return static_cast<size_t>(std::count_if(entries_.begin(), entries_.end(), [](const auto& e) {
    return e.second.state == State::kFinished;
  }));
}

void ClosuresInHand::Unqueue(uint64_t id) { std::erase(queue_, id); }

}  // namespace cohort

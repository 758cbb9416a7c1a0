#include "chief/core/closure_queue.h"

#include <algorithm>
#include <utility>

namespace cohort {

Closure* ClosureQueue::Add(std::unique_ptr<Closure> closure) {
  Closure* c = closure.get();
  c->state = Closure::State::kQueued;
  c->in_line = c->fresh;
  if (c->fresh) {
    LineOf(*c).first.push_back(c->id);
  } else {
    LineOf(*c).again.insert(c->id);
  }
  closures_[c->id] = std::move(closure);
  return c;
}

Closure* ClosureQueue::AddInFlight(std::unique_ptr<Closure> closure, int worker, uint32_t attempt) {
  Closure* c = closure.get();
  closures_[c->id] = std::move(closure);
  SetInFlight(c, worker, attempt);
  return c;
}

Closure* ClosureQueue::Find(uint64_t id) {
  const auto found = closures_.find(id);
  return found == closures_.end() ? nullptr : found->second.get();
}

const Closure* ClosureQueue::Find(uint64_t id) const {
  const auto found = closures_.find(id);
  return found == closures_.end() ? nullptr : found->second.get();
}

uint64_t ClosureQueue::Front(const Line& line) const {
  if (!line.again.empty()) return *line.again.begin();
  const auto found = std::find_if(line.first.begin(), line.first.end(),
                                  [this](uint64_t id) { return InLine(id); });
  return found == line.first.end() ? 0 : *found;
}

bool ClosureQueue::has_long_closures() const {
  return std::any_of(closures_.begin(), closures_.end(), [](const auto& entry) {
    return entry.second->spec.training && entry.second->spec.steps > 1;
  });
}

const Closure* ClosureQueue::NextTraining() const {
  const uint64_t id = Front(training_);
  return id == 0 ? nullptr : Find(id);
}

uint64_t ClosureQueue::Next(bool training, bool others) const {
  const uint64_t t = training ? Front(training_) : 0;
  const uint64_t o = others ? Front(others_) : 0;
  return t == 0 ? o : (o == 0 ? t : std::min(t, o));
}

bool ClosureQueue::InLine(uint64_t id) const {
  const Closure* const c = Find(id);
  return c != nullptr && c->in_line;
}

void ClosureQueue::DropGone(Line* line) {
  while (!line->first.empty() && !InLine(line->first.front())) line->first.pop_front();
}

void ClosureQueue::TakeOut(Closure* closure) {
  Line& line = LineOf(*closure);
  if (!closure->in_line) line.again.erase(closure->id);
  // An entry in the middle of `first` is dropped when it comes to the front.
  if (closure->in_line && !line.first.empty() && line.first.front() == closure->id) {
    line.first.pop_front();
  }
  closure->in_line = false;
}

void ClosureQueue::SetInFlight(Closure* closure, int worker, uint32_t attempt) {
  closure->state = Closure::State::kInFlight;
  closure->worker = worker;
  closure->held_attempt = attempt;
  closure->was_fresh = std::exchange(closure->fresh, false);
  closure->recalled = false;
  auto& ids = on_worker_[static_cast<size_t>(worker)];
  if (ids.empty()) --idle_workers_;
  ids.push_back(closure->id);
  ++in_flight_;
  if (closure->spec.training) ++training_in_flight_;
}

void ClosureQueue::EndFlight(Closure* closure) {
  auto& ids = on_worker_[static_cast<size_t>(closure->worker)];
  ids.erase(std::find(ids.begin(), ids.end(), closure->id));
  if (ids.empty()) ++idle_workers_;
  --in_flight_;
  if (closure->spec.training) --training_in_flight_;
}

Closure* ClosureQueue::Dispatch(int worker, bool training, uint64_t ids_end, bool others) {
  DropGone(&training_);
  DropGone(&others_);
  const uint64_t id = Next(training, others);
  if (id == 0 || id >= ids_end) return nullptr;
  Closure* c = Find(id);
  TakeOut(c);
  SetInFlight(c, worker, ++c->attempt);
  return c;
}

void ClosureQueue::Claim(Closure* closure, int worker, uint32_t attempt) {
  TakeOut(closure);
  SetInFlight(closure, worker, attempt);
  closure->attempt = std::max(closure->attempt, attempt);
}

void ClosureQueue::Hear(Closure* closure, v1::ClosureResult result) {
  Leave(closure);
  closure->state = Closure::State::kHeard;
  closure->heard = std::make_unique<v1::ClosureResult>(std::move(result));
  ++heard_;
}

void ClosureQueue::Leave(Closure* closure) {
  switch (closure->state) {
    case Closure::State::kQueued:
      TakeOut(closure);
      break;
    case Closure::State::kInFlight:
      EndFlight(closure);
      break;
    case Closure::State::kHeard:
      --heard_;
      break;
  }
}

void ClosureQueue::Requeue(Closure* closure) {
  Leave(closure);
  closure->heard = nullptr;
  closure->state = Closure::State::kQueued;
  closure->worker = -1;
  LineOf(*closure).again.insert(closure->id);
}

void ClosureQueue::TakeBack(Closure* closure) {
  closure->fresh = closure->was_fresh;
  Requeue(closure);
}

std::unique_ptr<Closure> ClosureQueue::Remove(uint64_t id) {
  const auto found = closures_.find(id);
  if (found == closures_.end()) return nullptr;
  std::unique_ptr<Closure> closure = std::move(found->second);
  Leave(closure.get());
  closures_.erase(found);
  if (closure->by_job()) used_end_ = std::max(used_end_, closure->place + closure->spec.steps);
  return closure;
}

std::vector<uint64_t> ClosureQueue::Waiting() const {
  std::vector<uint64_t> ids;
  for (const auto& [id, closure] : closures_) {
    if (closure->state == Closure::State::kQueued) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<std::unique_ptr<Closure>> ClosureQueue::Clear() {
  std::vector<std::unique_ptr<Closure>> out;
  out.reserve(closures_.size());
  for (auto& [id, closure] : closures_) out.push_back(std::move(closure));
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a->id < b->id; });
  closures_.clear();
  training_ = others_ = Line{};
  for (auto& ids : on_worker_) ids.clear();
  idle_workers_ = on_worker_.size();
  in_flight_ = training_in_flight_ = heard_ = 0;
  used_end_ = 0;
  return out;
}

std::vector<const Closure*> ClosureQueue::Pending(uint64_t* first_fresh_place) const {
  uint64_t used_end = used_end_;
  for (const auto& [id, closure] : closures_) {
    if (!closure->by_job() || closure->fresh) continue;
    used_end = std::max(used_end, closure->place + closure->spec.steps);
  }
  std::vector<const Closure*> out;
  for (const auto& [id, closure] : closures_) {
    if (!closure->by_job()) continue;
    if (closure->fresh && closure->place >= used_end) {
      *first_fresh_place = std::min(*first_fresh_place, closure->place);
    } else {
      out.push_back(closure.get());
    }
  }
  std::sort(out.begin(), out.end(), [](const auto* a, const auto* b) { return a->id < b->id; });
  return out;
}

}  // namespace cohort

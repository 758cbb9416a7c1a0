#include "chief/core/unfinished_closures.h"

#include <algorithm>
#include <utility>

namespace cohort {

void UnfinishedClosures::Add(const Entry& entry) {
  by_place_[entry.closure.place] = entry;
  places_[entry.closure.id] = entry.closure.place;
}

void UnfinishedClosures::Clear() {
  by_place_.clear();
  places_.clear();
  early_.clear();
}

std::vector<UnfinishedClosure> UnfinishedClosures::List() const {
  std::vector<UnfinishedClosure> out;
  out.reserve(by_place_.size());
  for (const auto& [place, entry] : by_place_) out.push_back(entry.closure);
  return out;
}

const UnfinishedClosures::Entry* UnfinishedClosures::Find(uint64_t place) const {
  const auto found = by_place_.find(place);
  return found == by_place_.end() ? nullptr : &found->second;
}

std::optional<uint64_t> UnfinishedClosures::PlaceOf(uint64_t id) const {
  const auto found = places_.find(id);
  if (found == places_.end()) return std::nullopt;
  return found->second;
}

void UnfinishedClosures::RefuseResultsFrom(uint64_t end) {
  for (auto it = by_place_.lower_bound(end); it != by_place_.end(); ++it) {
    it->second.min_attempt = it->second.attempt + 1;
  }
}

void UnfinishedClosures::NoteNotBegunFrom(uint64_t begin) {
  for (auto it = by_place_.lower_bound(begin); it != by_place_.end(); ++it) {
    it->second.begun = false;
  }
}

bool UnfinishedClosures::any_begun() const {
  return std::ranges::any_of(by_place_, [](const auto& entry) { return entry.second.begun; });
}

std::optional<UnfinishedClosures::Entry> UnfinishedClosures::Take(uint64_t place) {
  const auto found = by_place_.find(place);
  if (found == by_place_.end()) return std::nullopt;
  const Entry entry = found->second;
  places_.erase(entry.closure.id);
  by_place_.erase(found);
  return entry;
}

UnfinishedClosures::Entry* UnfinishedClosures::FindWanted(uint64_t id, uint32_t attempt) {
  const auto place = places_.find(id);
  if (place == places_.end()) return nullptr;
  Entry& entry = by_place_.at(place->second);
  return attempt >= entry.min_attempt && attempt <= entry.attempt ? &entry : nullptr;
}

bool UnfinishedClosures::Hold(uint64_t id, int worker, uint32_t attempt) {
  Entry* const entry = FindWanted(id, attempt);
  if (entry == nullptr) return false;
  entry->holder = worker;
  entry->held_attempt = attempt;
  return true;
}

void UnfinishedClosures::Release(int worker) {
  for (auto& [place, entry] : by_place_) {
    if (entry.holder == worker) entry.holder = -1;
  }
}

std::vector<uint64_t> UnfinishedClosures::HeldBy(int worker) const {
  std::vector<uint64_t> ids;
  for (const auto& [place, entry] : by_place_) {
    if (entry.holder == worker) ids.push_back(entry.closure.id);
  }
  return ids;
}

bool UnfinishedClosures::held() const {
  return std::any_of(by_place_.begin(), by_place_.end(),
                     [](const auto& entry) { return entry.second.holder >= 0; });
}

UnfinishedClosures::Outcome UnfinishedClosures::OnResult(const v1::ClosureResult& result) {
  Entry* const entry = FindWanted(result.id(), result.attempt());
  if (entry == nullptr) return Outcome::kUnknown;
  if (result.status().code() != 0) {
    // A later attempt may be running: this result does not affect it.
    if (entry->held_attempt == result.attempt()) entry->holder = -1;
    return Outcome::kFailed;
  }
  const uint64_t place = entry->closure.place;
  Take(place);
  early_[place] = result;
  return Outcome::kFinished;
}

std::optional<v1::ClosureResult> UnfinishedClosures::TakeEarly(uint64_t place) {
  const auto found = early_.find(place);
  if (found == early_.end()) return std::nullopt;
  v1::ClosureResult result = std::move(found->second);
  early_.erase(found);
  return result;
}

}  // namespace cohort

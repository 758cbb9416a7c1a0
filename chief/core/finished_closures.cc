#include "chief/core/finished_closures.h"

#include <algorithm>

namespace cohort {

constexpr size_t kMostListed = 64;

void SetFinished(const std::vector<uint64_t>& ids, v1::ChiefCut* cut) {
  cut->clear_finished();
  cut->clear_finished_ranges();
  if (ids.size() <= kMostListed) {
    cut->mutable_finished()->Add(ids.begin(), ids.end());
    return;
  }
  v1::ClosureRange* range = nullptr;
  for (const uint64_t id : ids) {
    if (range == nullptr || id != range->end()) {
      range = cut->add_finished_ranges();
      range->set_begin(id);
    }
    range->set_end(id + 1);
  }
}

std::vector<uint64_t> FinishedOf(const v1::ChiefCut& cut) {
  std::vector<uint64_t> ids(cut.finished().begin(), cut.finished().end());
  for (const v1::ClosureRange& range : cut.finished_ranges()) {
    for (uint64_t id = range.begin(); id < range.end(); ++id) ids.push_back(id);
  }
  return ids;
}

bool IsFinished(const v1::ChiefCut& cut, uint64_t id) {
  if (id < cut.settled_watermark()) return true;
  if (std::binary_search(cut.finished().begin(), cut.finished().end(), id)) return true;
  const auto& ranges = cut.finished_ranges();
  const auto range =
      std::upper_bound(ranges.begin(), ranges.end(), id,
                       [](uint64_t value, const auto& other) { return value < other.end(); });
  return range != ranges.end() && range->begin() <= id;
}

void DropFinished(const v1::ChiefCut& cut, v1::AppliedSetProto* applied) {
  auto* const ids = applied->mutable_applied();
  ids->erase(std::remove_if(ids->begin(), ids->end(),
                            [&](const v1::UpdateId& id) { return IsFinished(cut, id.closure()); }),
             ids->end());
}

}  // namespace cohort

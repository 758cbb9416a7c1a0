#include "common/data/parquet/group_cache.h"

#include "common/base/status.h"

namespace cohort {

absl::StatusOr<GroupCache::Group> GroupCache::Get(
    const Key& key, absl::FunctionRef<absl::StatusOr<Group>()> decode) {
  const std::shared_ptr<Slot> slot = SlotOf(key);
  Group group;
  {
    MutexLock lock(&slot->mu);
    if (slot->group != nullptr) return slot->group;
    COHORT_ASSIGN_OR_RETURN(group, decode());
    slot->group = group;
  }
  Keep(key, group->bytes);
  return group;
}

uint64_t GroupCache::bytes() const {
  MutexLock lock(&mu_);
  return bytes_;
}

std::shared_ptr<GroupCache::Slot> GroupCache::SlotOf(const Key& key) {
  MutexLock lock(&mu_);
  Entry& entry = entries_[key];
  if (entry.slot == nullptr) entry.slot = std::make_shared<Slot>();
  if (entry.is_decoded) latest_.splice(latest_.begin(), latest_, entry.use);
  return entry.slot;
}

// Counts a group that was decoded, and drops those that were not used for the longest time.
void GroupCache::Keep(const Key& key, uint64_t bytes) {
  MutexLock lock(&mu_);
  Entry& entry = entries_[key];
  entry.is_decoded = true;
  entry.use = latest_.insert(latest_.begin(), key);
  entry.bytes = bytes;
  bytes_ += bytes;
  while (bytes_ > most_bytes_ && latest_.size() > 1) {
    const auto oldest = entries_.find(latest_.back());
    bytes_ -= oldest->second.bytes;
    latest_.pop_back();
    entries_.erase(oldest);
  }
}

}  // namespace cohort

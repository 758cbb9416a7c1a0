#include "common/tablet/changed_rows.h"

#include <algorithm>
#include <utility>

namespace cohort {
namespace {

constexpr size_t kMostRemoved = size_t{1} << 24;  // 128 MB

// Adds the changes that follow those of `all`.
void Append(const RowChanges& later, RowChanges* all) {
  all->blocks.resize(std::max(all->blocks.size(), later.blocks.size()));
  for (size_t b = 0; b < later.blocks.size(); ++b) {
    const std::vector<uint64_t>& bits = later.blocks[b];
    if (bits.empty()) continue;
    all->blocks[b].resize(bits.size());
    for (size_t i = 0; i < bits.size(); ++i) all->blocks[b][i] |= bits[i];
  }
  all->removed.insert(all->removed.end(), later.removed.begin(), later.removed.end());
  std::ranges::sort(all->removed);
  all->removed.erase(std::unique(all->removed.begin(), all->removed.end()), all->removed.end());
}

}  // namespace

void ChangedRows::Note(size_t block, int64_t size, int64_t first, int64_t places) {
  std::vector<uint64_t>& bits = now_.blocks[block];
  if (bits.empty()) bits.resize(static_cast<size_t>(size + 63) / 64);
  if (first == 0 && places == size) {
    std::ranges::fill(bits, ~uint64_t{0});
    return;
  }
  for (auto at = static_cast<size_t>(first); at < static_cast<size_t>(first + places); ++at) {
    bits[at / 64] |= uint64_t{1} << (at % 64);
  }
}

void ChangedRows::NoteRemoved(int64_t row) {
  now_.removed.push_back(row);
  if (now_.removed.size() < kMostRemoved) return;
  active_ = false;
  Stop();
}

std::shared_ptr<const RowChanges> ChangedRows::Take(const SnapshotRequest& request, size_t blocks,
                                                    uint64_t clock) {
  std::shared_ptr<const RowChanges> changes;
  if (active_ && !request.base.empty() && request.base == last_) {
    base_ = last_;
    before_ = std::exchange(now_, {});
    changes = std::make_shared<const RowChanges>(before_);
  } else if (active_ && !request.base.empty() && request.base == base_) {
    Append(now_, &before_);
    changes = std::make_shared<const RowChanges>(before_);
  } else {
    Stop();
  }
  active_ = request.increments && !request.checkpoint.empty();
  if (!active_) {
    Stop();
    return changes;
  }
  last_ = request.checkpoint;
  now_ = {};
  now_.blocks.resize(blocks);
  now_.clock = clock;
  return changes;
}

void ChangedRows::Stop() {
  base_.clear();
  before_ = {};
  last_.clear();
  now_ = {};
}

}  // namespace cohort

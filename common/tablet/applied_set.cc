#include "common/tablet/applied_set.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "common/base/status.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

constexpr uint64_t kFirstClosures = 1024;
constexpr size_t kRecent = 4096;  // a power of two

}  // namespace

AppliedSet::AppliedSet() : AppliedSet(Limits()) {}

AppliedSet::AppliedSet(const Limits& limits)
    : limits_(limits), closures_(kFirstClosures), words_(kFirstClosures / 64), recent_(kRecent) {}

absl::Status AppliedSet::Check(UpdateKey id) const {
  if (id.ordinal >= limits_.max_ordinals) {
    return ResourceExhausted("ordinal {} of closure {}: a closure has at most {} steps", id.ordinal,
                             id.closure, limits_.max_ordinals);
  }
  if (id.closure < watermark_ || InWindow(id)) return absl::OkStatus();
  const uint64_t most = limits_.max_bits / StrideFor(id);
  // The recorded ids count too: the farthest closure sets the width of the window, and the highest
  // ordinal sets its stride.
  const uint64_t distance = std::max(id.closure, farthest_) - watermark_;
  if (distance >= most || ClosuresFor(id) > most) {
    return ResourceExhausted(
        "closure {} lies {} above the settled watermark {}, or others lie too far above it; with "
        "ordinals up to {} the window holds at most {} closures",
        id.closure, id.closure - watermark_, watermark_, StrideFor(id) - 1, most);
  }
  return absl::OkStatus();
}

uint64_t AppliedSet::StrideFor(UpdateKey id) const {
  return std::max<uint64_t>(stride_, std::bit_ceil(uint64_t{id.ordinal} + 1));
}

uint64_t AppliedSet::ClosuresFor(UpdateKey id) const {
  return std::max(kFirstClosures, std::bit_ceil(std::max(id.closure, farthest_) - watermark_ + 1));
}

bool AppliedSet::InClosedRange(uint64_t closure) const {
  if (closed_.empty()) return false;
  const auto it = std::upper_bound(closed_.begin(), closed_.end(), closure,
                                   [](uint64_t c, const Range& r) { return c < r.end; });
  return it != closed_.end() && it->begin <= closure;
}

AppliedSet::State AppliedSet::Find(UpdateKey id) const {
  if (id.closure < watermark_ || InClosedRange(id.closure)) return State::kSettled;
  return InWindow(id) && Test(BitOf(id)) ? State::kApplied : State::kNew;
}

void AppliedSet::Insert(UpdateKey id, uint32_t attempt) {
  Mark(id);
  recent_[RecentSlot(id)] = {id, attempt, true};
}

size_t AppliedSet::RecentSlot(UpdateKey id) {
  uint64_t h =
      (id.closure * 0x9E3779B97F4A7C15ull) ^ (uint64_t{id.ordinal} * 0xC2B2AE3D27D4EB4Full);
  h ^= h >> 32;
  return static_cast<size_t>(h) & (kRecent - 1);
}

std::optional<uint32_t> AppliedSet::AttemptOf(UpdateKey id) const {
  const Recent& recent = recent_[RecentSlot(id)];
  if (!recent.used || recent.id != id) return std::nullopt;
  return recent.attempt;
}

template <typename Visit>
void AppliedSet::ForEachBit(const std::vector<uint64_t>& words, uint64_t watermark,
                            uint64_t closures, uint64_t stride, const Visit& visit) {
  for (size_t w = 0; w < words.size(); ++w) {
    for (uint64_t rest = words[w]; rest != 0; rest &= rest - 1) {
      const uint64_t bit = w * 64 + static_cast<uint64_t>(std::countr_zero(rest));
      const uint64_t above = (bit / stride - watermark) & (closures - 1);
      visit(UpdateKey{watermark + above, static_cast<uint32_t>(bit % stride)});
    }
  }
}

void AppliedSet::Grow(UpdateKey id) {
  const uint64_t stride = StrideFor(id);
  const uint64_t closures = ClosuresFor(id);
  std::vector<uint64_t> old(closures * stride / 64);
  old.swap(words_);
  const uint64_t old_closures = std::exchange(closures_, closures);
  const uint64_t old_stride = std::exchange(stride_, stride);
  ForEachBit(old, watermark_, old_closures, old_stride, [this](UpdateKey k) { Set(BitOf(k)); });
}

void AppliedSet::Mark(UpdateKey id) {
  if (!InWindow(id)) Grow(id);
  farthest_ = std::max(farthest_, id.closure);
  Set(BitOf(id));
}

void AppliedSet::ClearClosure(uint64_t closure) {
  const uint64_t first = (closure & (closures_ - 1)) * stride_;
  if (stride_ >= 64) {
    std::fill_n(words_.begin() + static_cast<std::ptrdiff_t>(first / 64), stride_ / 64, 0);
    return;
  }
  const uint64_t mask = ((uint64_t{1} << stride_) - 1) << (first % 64);
  words_[first / 64] &= ~mask;
}

void AppliedSet::AdvanceWatermark(uint64_t watermark) {
  if (watermark <= watermark_) return;
  if (watermark - watermark_ >= closures_) {
    std::fill(words_.begin(), words_.end(), 0);
  } else {
    for (uint64_t c = watermark_; c < watermark; ++c) ClearClosure(c);
  }
  watermark_ = watermark;
  if (!closed_.empty()) AbsorbRanges();
}

void AppliedSet::AbsorbRanges() {
  while (!closed_.empty() && closed_.front().begin <= watermark_) {
    const uint64_t end = closed_.front().end;
    closed_.erase(closed_.begin());
    if (end > watermark_) AdvanceWatermark(end);
  }
}

void AppliedSet::Close(uint64_t begin, uint64_t end) {
  if (begin >= end || end <= watermark_) return;
  Range merged{begin, end};
  std::vector<Range> ranges;
  for (const Range& range : closed_) {
    if (range.end < merged.begin || range.begin > merged.end) {
      ranges.push_back(range);
      continue;
    }
    merged = {std::min(range.begin, merged.begin), std::max(range.end, merged.end)};
  }
  ranges.push_back(merged);
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  closed_ = std::move(ranges);
  AbsorbRanges();
}

void AppliedSet::ToProto(v1::AppliedSetProto* out) const {
  out->set_watermark(watermark_);
  for (const Range& range : closed_) {
    v1::ClosureRange* closed = out->add_closed();
    closed->set_begin(range.begin);
    closed->set_end(range.end);
  }
  std::vector<UpdateKey> ids;
  ForEachBit(words_, watermark_, closures_, stride_, [&](UpdateKey id) {
    if (!InClosedRange(id.closure)) ids.push_back(id);
  });
  std::sort(ids.begin(), ids.end(), [](const UpdateKey& a, const UpdateKey& b) {
    return std::tie(a.closure, a.ordinal) < std::tie(b.closure, b.ordinal);
  });
  for (const UpdateKey& id : ids) {
    v1::UpdateId* applied = out->add_applied();
    applied->set_closure(id.closure);
    applied->set_ordinal(id.ordinal);
  }
}

absl::Status AppliedSet::Merge(const v1::AppliedSetProto& proto) {
  AdvanceWatermark(proto.watermark());
  for (const v1::ClosureRange& range : proto.closed()) {
    if (range.end() < range.begin()) {
      return InvalidArgument("closed range [{}, {}) ends before it begins", range.begin(),
                             range.end());
    }
    Close(range.begin(), range.end());
  }
  for (const v1::UpdateId& applied : proto.applied()) {
    const UpdateKey id{applied.closure(), applied.ordinal()};
    COHORT_RETURN_IF_ERROR(Check(id));
    if (Find(id) == State::kNew) Mark(id);
  }
  return absl::OkStatus();
}

}  // namespace cohort

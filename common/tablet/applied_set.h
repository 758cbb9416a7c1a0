#ifndef COHORT_COMMON_TABLET_APPLIED_SET_H_
#define COHORT_COMMON_TABLET_APPLIED_SET_H_

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace cohort::v1 {
class AppliedSetProto;
}

namespace cohort {

// The name of one update (v1.UpdateId).
struct UpdateKey {
  uint64_t closure = 0;
  uint32_t ordinal = 0;
  bool operator==(const UpdateKey&) const = default;
};

// Records which updates a tablet has applied (design: "Exactly once"). Every closure below the
// settled watermark or in a closed range is settled: the tablet applies none of its updates any
// more. Above the watermark there is one bit per update:
//
//        settled          |  window: closures [watermark, watermark + capacity)
//   ----------------------+------------------------------------------------------
//                         |  stride bits each, bit o = ordinal o is applied
//
// The bits lie in a ring, so that the watermark moves in O(closures passed). The capacity and the
// stride (powers of two) grow when an id needs it; the window never exceeds Limits. Find and Insert
// are O(1) and allocate only when the window grows. Not thread-safe: the set belongs to its tablet,
// which uses it under its lock.
class AppliedSet {
 public:
  struct Limits {
    // The most bits of the window (16 MiB): an id far above the watermark costs no more.
    uint64_t max_bits = uint64_t{1} << 27;
    // The most steps of one closure.
    uint32_t max_ordinals = 1u << 16;
  };
  enum class State { kNew, kApplied, kSettled };

  AppliedSet();
  explicit AppliedSet(const Limits& limits);

  // Returns OK if the id may be looked up and inserted. Errors: ResourceExhausted if the id lies so
  // far above the watermark, or has so high an ordinal, that the window would exceed Limits.
  absl::Status Check(UpdateKey id) const;

  State Find(UpdateKey id) const;

  // Records an id that is kNew and passed Check; grows the window if necessary.
  void Insert(UpdateKey id, uint32_t attempt);

  // The applied attempt of an id that was inserted recently (one of the last few thousand).
  std::optional<uint32_t> AttemptOf(UpdateKey id) const;

  // Settles every closure below `watermark`. Ignores a value that is lower than the current one.
  void AdvanceWatermark(uint64_t watermark);
  // Settles closures [begin, end), which were reserved before a rollback.
  void Close(uint64_t begin, uint64_t end);

  // Every closure below it is settled. It is at least the value of AdvanceWatermark, and higher if
  // a closed range follows that value.
  uint64_t watermark() const { return watermark_; }
  // Bytes of the window.
  uint64_t window_bytes() const { return words_.size() * sizeof(uint64_t); }

  void ToProto(v1::AppliedSetProto* out) const;
  // Adds what the message says to this set. Errors: InvalidArgument (a range that ends before it
  // begins), ResourceExhausted (an id that fails Check).
  absl::Status Merge(const v1::AppliedSetProto& proto);

 private:
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  struct Recent {
    UpdateKey id;
    uint32_t attempt = 0;
    bool used = false;
  };

  bool InClosedRange(uint64_t closure) const;
  uint64_t BitOf(UpdateKey id) const {
    return (id.closure & (closures_ - 1)) * stride_ + id.ordinal;
  }
  bool InWindow(UpdateKey id) const {
    return id.closure - watermark_ < closures_ && id.ordinal < stride_;
  }
  bool Test(uint64_t bit) const { return (words_[bit / 64] >> (bit % 64) & 1) != 0; }
  void Set(uint64_t bit) { words_[bit / 64] |= uint64_t{1} << (bit % 64); }
  // Calls visit(id) for every bit that is set, in no particular order.
  template <typename Visit>
  static void ForEachBit(const std::vector<uint64_t>& words, uint64_t watermark, uint64_t closures,
                         uint64_t stride, const Visit& visit);
  void Mark(UpdateKey id);
  void ClearClosure(uint64_t closure);
  // The stride and the capacity with which the window holds this id besides its present ones.
  // ClosuresFor requires an id whose distance is within the bound of Check.
  uint64_t StrideFor(UpdateKey id) const;
  uint64_t ClosuresFor(UpdateKey id) const;
  void Grow(UpdateKey id);
  void AbsorbRanges();
  static size_t RecentSlot(UpdateKey id);

  Limits limits_;
  uint64_t watermark_ = 0;
  uint64_t farthest_ = 0;        // the highest closure that was inserted
  std::vector<Range> closed_;    // sorted, disjoint, above the watermark; nearly always empty
  uint64_t closures_;            // capacity of the window, a power of two
  uint64_t stride_ = 1;          // bits of a closure, a power of two
  std::vector<uint64_t> words_;  // closures_ * stride_ bits
  std::vector<Recent> recent_;   // by hash; a newer id takes the place of an older one
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_APPLIED_SET_H_

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

// Which updates a tablet has applied (design: "Exactly once"). Everything below the settled
// watermark and everything in a closed range is settled: nothing of it may be applied any more.
// Above, one bit per update:
//
//        settled          |  window: closures [watermark, watermark + capacity)
//   ----------------------+------------------------------------------------------
//                         |  stride bits each, bit o = ordinal o is applied
//
// The bits lie in a ring, so that the watermark moves in O(closures passed); the capacity and the
// stride (powers of two) grow when an id needs it, each only so far that both together stay within
// Limits. Find and Insert are O(1) and allocate only when the window grows. Not thread-safe: it
// belongs to its tablet and is used under the tablet's lock.
class AppliedSet {
 public:
  struct Limits {
    // Bits of the window at most (16 MiB): what an id far above the watermark may cost.
    uint64_t max_bits = uint64_t{1} << 27;
    // Steps of one closure at most.
    uint32_t max_ordinals = 1u << 16;
  };
  enum class State { kNew, kApplied, kSettled };

  AppliedSet();
  explicit AppliedSet(const Limits& limits);

  // OK where the id may be looked up and inserted. Errors: ResourceExhausted for one that lies so
  // far above the watermark, or has so high an ordinal, that remembering it would cost more than
  // Limits.
  absl::Status Check(UpdateKey id) const;

  State Find(UpdateKey id) const;

  // Records an id that is kNew and passed Check; grows the window where it has to.
  void Insert(UpdateKey id, uint32_t attempt);

  // The attempt that was applied, of an id that was inserted not too long ago (the last few
  // thousand).
  std::optional<uint32_t> AttemptOf(UpdateKey id) const;

  // Every closure below is settled from now on. A lower one than before is ignored.
  void AdvanceWatermark(uint64_t watermark);
  // Closures [begin, end) are settled: they were reserved before a rollback.
  void Close(uint64_t begin, uint64_t end);

  // Below it everything is settled; at least what AdvanceWatermark said, more where a closed range
  // follows.
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
  // What the window must have to hold this id beside those that it holds. ClosuresFor: of one that
  // passed the bound of Check on its distance.
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

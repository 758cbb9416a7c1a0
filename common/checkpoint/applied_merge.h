#ifndef COHORT_COMMON_CHECKPOINT_APPLIED_MERGE_H_
#define COHORT_COMMON_CHECKPOINT_APPLIED_MERGE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace cohort::v1 {
class AppliedSetProto;
class ChiefCut;
class Layout;
class Manifest;
}  // namespace cohort::v1

namespace cohort {

// What a tablet of a new layout starts with when a cut is restored.
struct RestoredTablet {
  RestoredTablet();
  RestoredTablet(RestoredTablet&&) noexcept;
  RestoredTablet& operator=(RestoredTablet&&) noexcept;
  ~RestoredTablet();

  std::unique_ptr<v1::AppliedSetProto> applied;
  uint64_t version = 0;                  // the highest of the sources
  std::vector<uint32_t> source_tablets;  // tablets of the cut that its rows come from
  // Updates that some sources have and others lack; they count as applied (see below).
  uint64_t partially_applied = 0;
};

// Merges applied sets of the tablets that a new tablet's rows come from. The rule:
//
// 1. Watermark and closed ranges are statements about closures: the highest watermark (the chief's
//    among them) and the union of the ranges. A closure that the chief counted as finished when it
//    began the cut is closed: all tablets had acknowledged it. One that was pending then may have
//    been settled while the servers took their snapshots, one after the other: a source that has
//    heard of it has closed it, and one whose snapshot is older may lack its updates. Closed by
//    one, it is closed here; what a source lacks of it is lost to that source's rows, and counted
//    as in 4.
// 2. What remains are single ids above the watermark: pushes of closures that were under way at the
//    cut's deadline (the pending ones). In a drained cut there are none, and sources cannot differ
//    but in how much of the watermark they have heard.
// 3. With one source (the same layout, or a finer one) its ids are kept as they are: the retry of a
//    pending closure completes exactly what is missing.
// 4. With several sources, an id that all have is applied and one that none has is not. An id that
//    only some have cannot be told per row by one set. Leaving it out would apply it twice to the
//    rows that have it; so it counts as applied, at most once per row holds, and the rows that
//    lacked it lose this one gradient, as with a cancelled closure. Counted in `partially_applied`:
//    the caller reports it, or refuses where its mode allows no such thing. (A sync cut names a
//    version, so its sets are equal; this is of async cuts with pending closures alone.)
RestoredTablet MergeApplied(std::span<const v1::AppliedSetProto* const> sources,
                            const v1::ChiefCut& chief);

// The start of tablet `tablet` of `target`, from the cut's tablets that hold any of its rows.
// Errors: DataLoss where the manifest contradicts itself.
absl::StatusOr<RestoredTablet> RestoreTablet(const v1::Manifest& manifest, const v1::Layout& target,
                                             uint32_t tablet);

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_APPLIED_MERGE_H_

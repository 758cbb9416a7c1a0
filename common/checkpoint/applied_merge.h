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

// Merges the applied sets of the tablets that a new tablet's rows come from. The rule:
//
// 1. The watermark and the closed ranges describe closures. The result has the highest watermark
//    (including the chief's) and the union of the ranges. If the chief counted a closure as
//    finished when it began the cut, all tablets had acknowledged it, so it is closed. A closure
//    that was pending then may have been settled while the servers took their snapshots, one after
//    the other. A source that heard of it has closed it; an older snapshot may lack its updates. If
//    one source has closed it, it is closed here. The updates that a source lacks are lost for that
//    source's rows, and counted as in 4.
// 2. Single ids above the watermark remain: pushes of closures that were under way at the cut's
//    deadline (the pending ones). A drained cut has none, and its sources differ only in the
//    watermark that they have heard.
// 3. If there is one source (the same layout, or a finer one), its ids are kept as they are: the
//    retry of a pending closure completes exactly what is missing.
// 4. If there are several sources, an id that all have is applied, and an id that none has is not.
//    One set cannot say per row that only some have an id. Without the id, the rows that have it
//    would apply it twice. So it counts as applied: each row applies it at most once, and the rows
//    that lacked it lose this gradient, as with a cancelled closure. `partially_applied` counts
//    these ids; the caller reports them, or refuses them if its mode does not allow them. (A sync
//    cut names a version, so its sets are equal. Only async cuts have pending closures.)
RestoredTablet MergeApplied(std::span<const v1::AppliedSetProto* const> sources,
                            const v1::ChiefCut& chief);

// The initial state of tablet `tablet` of `target`, from the cut's tablets that hold its rows.
// Errors: DataLoss if the manifest contradicts itself.
absl::StatusOr<RestoredTablet> RestoreTablet(const v1::Manifest& manifest, const v1::Layout& target,
                                             uint32_t tablet);

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_APPLIED_MERGE_H_

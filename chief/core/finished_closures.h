#ifndef COHORT_CHIEF_CORE_FINISHED_CLOSURES_H_
#define COHORT_CHIEF_CORE_FINISHED_CLOSURES_H_

#include <cstdint>
#include <vector>

#include "proto/checkpoint.pb.h"

namespace cohort {

// The closures above the watermark that a cut counts as finished. A straggler lets 262,144 of them
// gather (CoreOptions::max_ids_ahead), with a gap for each closure that is still under way. So a
// long list is written as ranges. A short one stays a list, which older versions read.

// `ids`: ascending.
void SetFinished(const std::vector<uint64_t>& ids, v1::ChiefCut* cut);
std::vector<uint64_t> FinishedOf(const v1::ChiefCut& cut);
// Also true below the cut's watermark.
bool IsFinished(const v1::ChiefCut& cut, uint64_t id);

// Removes the ids of finished closures from the applied set of a tablet: a restore takes them for
// closed anyway (common/checkpoint/applied_merge.h). What remains belongs to closures under way.
void DropFinished(const v1::ChiefCut& cut, v1::AppliedSetProto* applied);

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_FINISHED_CLOSURES_H_

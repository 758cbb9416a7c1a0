#ifndef COHORT_COMMON_CHECKPOINT_FORMAT_VERSION_H_
#define COHORT_COMMON_CHECKPOINT_FORMAT_VERSION_H_

#include <absl/status/status.h>

#include <cstdint>
#include <string_view>

namespace cohort {

// The versions of the files in a checkpoint directory. A file carries the oldest version that its
// reader must know, so an older Cohort reads what it would understand. Raise a version for a change
// that an older reader would misunderstand; a new field that it can ignore needs none.
//
//   manifest.json   1
//                   2: the epochs do not begin at place 0 (EpochPlan.first_place), because the
//                      batch size has changed
//                   3: metrics with accumulators (MetricValue.accumulators)
//                   4: lists of words in files (Manifest.words), or many finished closures as
//                      ranges (ChiefCut.finished_ranges)
//                   5: an increment (Manifest.base), or rows that are partitioned by hash
//                      (VariableSpec.hashed_rows)
//   journal         1
//                   2: metrics may have accumulators. Every journal carries 2, because its first
//                      record is older than its metrics
//   JobIdentity     1: keys and values as chief/job/job_keys.h makes them. Another version is not
//                      compared; the manifest's job_spec is
//                   2: sources, transforms and lists have other keys
inline constexpr uint32_t kManifestFormat = 5;
inline constexpr uint32_t kJournalFormat = 2;
inline constexpr uint32_t kIdentityFormat = 2;

// Error: FailedPrecondition (exit code 65) if the file has a newer version than this program reads.
// It names the file, both versions and the Cohort that reads it: `written_by`, if that is known.
absl::Status CheckFormat(std::string_view file, uint32_t format, uint32_t newest_known,
                         std::string_view written_by);
// True for the error of CheckFormat. Such a file is not damaged: nobody may fall back to an older
// one without the user's consent.
bool IsNewerFormat(const absl::Status& status);

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_FORMAT_VERSION_H_

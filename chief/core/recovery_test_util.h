#ifndef COHORT_CHIEF_CORE_RECOVERY_TEST_UTIL_H_
#define COHORT_CHIEF_CORE_RECOVERY_TEST_UTIL_H_

#include <absl/status/statusor.h>

#include <span>
#include <string>

#include "chief/core/journal_state.h"
#include "chief/core/recovery.h"
#include "common/base/status.h"

namespace cohort {

// Replays a whole journal. `newest` and errors: see JournalState.
inline absl::StatusOr<Recovered> Recover(std::span<const v1::JournalRecord> records,
                                         const ManifestReader& read_manifest,
                                         const std::string& newest = "") {
  JournalState state(read_manifest);
  for (const v1::JournalRecord& record : records) COHORT_RETURN_IF_ERROR(state.Apply(record));
  return state.Recover(newest);
}

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_RECOVERY_TEST_UTIL_H_

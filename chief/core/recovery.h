#ifndef COHORT_CHIEF_CORE_RECOVERY_H_
#define COHORT_CHIEF_CORE_RECOVERY_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "chief/core/core_types.h"
#include "chief/core/settlement.h"

namespace cohort {

// The state of a job that the journal and the newest checkpoint describe.
struct Recovered {
  bool from_manifest = false;  // from a checkpoint: there is no journal
  uint64_t timeline = 0;       // 0: no tablet was ever assigned
  std::string began_from;      // the manifest that the timeline began from; "": the beginning
  uint64_t next_record = 1;
  uint64_t reserved_end = 1;  // the first id that was never reserved
  // Every id below it is settled, and so is every reserved id above it except `unfinished`.
  uint64_t watermark = 1;
  std::vector<UnfinishedClosure> unfinished;  // closures of the job runner, by id
  // Results of unfinished closures count only from this attempt: older attempts are from before the
  // last rollback.
  uint32_t min_attempt = 1;
  uint64_t rolled_back_end = 1;  // ids below it were reserved before that. Older chiefs need it
  uint64_t next_place = 0;       // the first place that has no id
  uint64_t epoch = 0;            // finished epochs
  uint64_t next_cut = 0;
  uint64_t layout_hash = 0;     // hash of the tablets' last assignment; 0: never assigned
  bool finished = false;        // the job is done
  Settlement::Metrics metrics;  // metrics of the current epoch
  uint64_t steps = 0;           // training steps finished
  ReaderPositions readers;
  v1::JobCounters counters;
  std::optional<v1::ModeChange> mode;  // the last change of the mode by a user
  v1::LearningRates rates;
  std::optional<v1::TabletHomes> homes;  // nullopt: as the last rollback has assigned the tablets
  v1::JoinedTasks joined;                // JoinedIn reads them before the chief dials
  std::vector<v1::EpochRecord> history;  // the epochs that ended since the last rollback
};

// Reads a manifest by the path that a journal record names.
using ManifestReader = std::function<absl::StatusOr<v1::Manifest>(const std::string& path)>;

// Returns the state of a checkpoint without a journal, for example of a copied one. It suffices for
// a rollback to that checkpoint.
Recovered RecoverFromManifest(const v1::Manifest& manifest);

// The era rises with each incarnation of the chief and each rollback, even if the journal is
// replaced: tasks report the highest generation and timeline that they know.
inline uint64_t EraOf(uint64_t generation, uint64_t timeline) { return generation + timeline; }

// The attempts of era e have numbers from (e - 2) * 256 + 1. Nothing runs before era 2, which is
// the first generation and the first timeline. So no two executions of a closure have the same
// number, and the attempt identifies a result of an older timeline. An era may dispatch a closure
// at most kAttemptsPerEra times.
inline constexpr uint32_t kAttemptsPerEra = 256;
inline uint32_t AttemptBase(uint64_t era) {
  return era < 2 ? 0 : static_cast<uint32_t>((era - 2) * kAttemptsPerEra);
}
// OK if the closure, whose last attempt this is, may be dispatched again.
absl::Status CheckAttempt(uint64_t era, uint64_t id, uint64_t place, uint32_t attempt);

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_RECOVERY_H_

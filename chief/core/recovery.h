#ifndef COHORT_CHIEF_CORE_RECOVERY_H_
#define COHORT_CHIEF_CORE_RECOVERY_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "chief/core/core_types.h"
#include "chief/core/settlement.h"

namespace cohort {

// The state of a job, as far as the journal and the newest checkpoint know it.
struct Recovered {
  bool from_manifest = false;  // there is no journal; a checkpoint says this
  uint64_t timeline = 0;       // 0: no tablet was ever assigned
  std::string began_from;      // the manifest that the timeline began from; "": the beginning
  uint64_t next_record = 1;
  uint64_t reserved_end = 1;  // the first id that was never reserved
  // Every id below the watermark is settled; above it all reserved ids are but `unfinished`.
  uint64_t watermark = 1;
  std::vector<UnfinishedClosure> unfinished;  // of the job runner, by id
  // Results of unfinished closures below rolled_back_end count only from this attempt on: older
  // ones were made before the last rollback.
  uint32_t min_attempt = 1;
  uint64_t rolled_back_end = 1;  // ids below it were reserved before the last rollback
  uint64_t next_place = 0;       // the first place that has no id
  uint64_t epoch = 0;            // finished epochs
  uint64_t next_cut = 0;
  uint64_t layout_hash = 0;     // of the tablets, as they were last assigned; 0: never
  bool finished = false;        // the job is done
  Settlement::Metrics metrics;  // of the current epoch
  uint64_t steps = 0;           // training steps finished
  ReaderPositions readers;
};

// Reads a manifest by the path that a journal record names.
using ManifestReader = std::function<absl::StatusOr<v1::Manifest>(const std::string& path)>;

// Replays the journal (journal_state.h). Ids of blocks that the job runner did not make are given
// up, because their meaning is unknown. The manifest that a rollback went to may be gone (NotFound)
// if there is a later cut of the same timeline: in a record, or as `newest`, the path of the newest
// checkpoint on disk ("": none), whose record a dying chief may not have written. Errors: those of
// the reader; DataLoss if the records make no sense.
absl::StatusOr<Recovered> Recover(std::span<const v1::JournalRecord> records,
                                  const ManifestReader& read_manifest,
                                  const std::string& newest = "");

// The state that a checkpoint without a journal gives (it was copied here, say): enough to roll back
// to it.
Recovered RecoverFromManifest(const v1::Manifest& manifest);

// Rises with each incarnation of the chief and each rollback, even if the journal is replaced: tasks
// report the highest generation and timeline that they have heard of.
inline uint64_t EraOf(uint64_t generation, uint64_t timeline) { return generation + timeline; }

// Attempts of era e are numbered from (e - 2) * 256 + 1 on (nothing runs before era 2: the first
// generation and the first timeline). So no two executions of a closure have the same number, and a
// result of an older timeline is recognized by its attempt. An era may dispatch a closure
// kAttemptsPerEra times at most.
inline constexpr uint32_t kAttemptsPerEra = 256;
inline uint32_t AttemptBase(uint64_t era) {
  return era < 2 ? 0 : static_cast<uint32_t>((era - 2) * kAttemptsPerEra);
}

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_RECOVERY_H_

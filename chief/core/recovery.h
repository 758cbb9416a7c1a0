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

// Where a job stands, as far as the journal and the newest checkpoint know.
struct Recovered {
  bool from_manifest = false;  // a checkpoint's: there is no journal
  uint64_t timeline = 0;       // 0: no tablet was ever assigned
  std::string began_from;      // the manifest that it began from; "": the beginning
  uint64_t next_record = 1;
  uint64_t reserved_end = 1;  // the first id that was never reserved
  uint64_t watermark = 1;  // every id below it is settled; of those above, all but `unfinished` are
  std::vector<UnfinishedClosure> unfinished;  // of the job runner, by id
  uint32_t min_attempt =
      1;  // of the results of unfinished closures that were made before the rollback
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

// Replays the journal. Ids of blocks that were not made by the job runner are given up: nobody can
// say what they meant. The manifest that a rollback went to may be gone (NotFound), where a later
// cut of the same timeline is there: in a record, or as `newest`, the path of the newest checkpoint
// on disk ("": none), whose record a dying chief may not have written. Errors: those of the reader;
// DataLoss where the records make no sense.
absl::StatusOr<Recovered> Recover(std::span<const v1::JournalRecord> records,
                                  const ManifestReader& read_manifest,
                                  const std::string& newest = "");

// Of a checkpoint without a journal (it was copied here): enough to roll back to it.
Recovered RecoverFromManifest(const v1::Manifest& manifest);

// Rises with each life of a chief and each rollback, over journals too, as both its parts do: tasks
// tell a chief with a new journal what they have heard of.
inline uint64_t EraOf(uint64_t generation, uint64_t timeline) { return generation + timeline; }

// Attempts of era e are numbered from (e - 2) * 256 + 1 on (nothing runs before the second: the
// first generation and the first timeline), so that no two executions of a closure ever have the
// same number, and that a result of an older timeline can be told by its attempt. So an era may
// give a closure out kAttemptsPerEra times at most.
inline constexpr uint32_t kAttemptsPerEra = 256;
inline uint32_t AttemptBase(uint64_t era) {
  return era < 2 ? 0 : static_cast<uint32_t>((era - 2) * kAttemptsPerEra);
}

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_RECOVERY_H_

#include "chief/core/recovery.h"

#include <algorithm>

#include "chief/core/journal_state.h"
#include "common/base/status.h"

namespace cohort {

absl::StatusOr<Recovered> Recover(std::span<const v1::JournalRecord> records,
                                  const ManifestReader& read_manifest, const std::string& newest) {
  JournalState state(read_manifest);
  for (const v1::JournalRecord& record : records) COHORT_RETURN_IF_ERROR(state.Apply(record));
  return state.Recover(newest);
}

Recovered RecoverFromManifest(const v1::Manifest& manifest) {
  Recovered state;
  state.from_manifest = true;
  state.timeline = manifest.timeline();
  state.next_record = manifest.chief().journal_record() + 1;
  state.reserved_end = std::max<uint64_t>(1, manifest.chief().next_closure());
  state.watermark = state.rolled_back_end = state.reserved_end;
  state.next_place = state.steps = manifest.step();
  state.epoch = manifest.epoch();
  state.next_cut = manifest.cut() + 1;
  state.finished = manifest.finished();
  state.readers.Add(manifest.chief().readers());
  return state;
}

}  // namespace cohort

#include "chief/core/recovery.h"

#include <algorithm>

#include "common/base/status.h"

namespace cohort {

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
  if (manifest.chief().has_mode()) state.mode = manifest.chief().mode();
  state.rates = manifest.chief().learning_rates();
  return state;
}

absl::Status CheckAttempt(uint64_t era, uint64_t id, uint64_t place, uint32_t attempt) {
  if (attempt < AttemptBase(era) + kAttemptsPerEra) return absl::OkStatus();
  return Unavailable(
      "closure {} (place {}) was dispatched {} times, and no worker has finished it; restart the "
      "chief to try it again",
      id, place, kAttemptsPerEra);
}

}  // namespace cohort

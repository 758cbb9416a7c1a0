#include "chief/core/recovery.h"

#include <algorithm>

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
  return state;
}

}  // namespace cohort

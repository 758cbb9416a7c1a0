#ifndef COHORT_COMMON_CHECKPOINT_RUN_NOTE_H_
#define COHORT_COMMON_CHECKPOINT_RUN_NOTE_H_

#include <absl/status/statusor.h>

#include <optional>
#include <string>

#include "common/checkpoint/manifest.h"

namespace cohort {

// What the chief notes in the file `run` of its checkpoint directory when it has made the directory
// ready: whose checkpoints lie there from now on. An evaluator reads it before it reads a
// checkpoint, so that it takes none of a former run for one of this run.
struct RunNote {
  // The launch that started the chief (--launch); "": unknown.
  std::string launch;
  // The newest checkpoint at that time, from which the run continues; all zero: there was none.
  CheckpointId begins_after;
};

absl::Status WriteRunNote(const std::string& checkpoint_dir, const RunNote& note);
// nullopt: no chief has noted anything. Errors: DataLoss if something else wrote the file; those
// of ReadFile.
absl::StatusOr<std::optional<RunNote>> ReadRunNote(const std::string& checkpoint_dir);

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_RUN_NOTE_H_

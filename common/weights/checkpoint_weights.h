#ifndef COHORT_COMMON_WEIGHTS_CHECKPOINT_WEIGHTS_H_
#define COHORT_COMMON_WEIGHTS_CHECKPOINT_WEIGHTS_H_

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "common/weights/weight_source.h"

namespace cohort {

// The values of a checkpoint's variables, without slots. `path`: the checkpoint's directory or its
// manifest, or a directory of checkpoints, of which the newest valid one counts. Verifies
// checksums. Errors: NotFound if there is no checkpoint; those of CheckpointReader::Open.
absl::StatusOr<std::unique_ptr<WeightSource>> OpenCheckpointWeights(const std::string& path);

}  // namespace cohort

#endif  // COHORT_COMMON_WEIGHTS_CHECKPOINT_WEIGHTS_H_

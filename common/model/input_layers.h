#ifndef COHORT_COMMON_MODEL_INPUT_LAYERS_H_
#define COHORT_COMMON_MODEL_INPUT_LAYERS_H_

#include <absl/status/status.h>

#include "common/model/job_lines.h"

namespace cohort {

namespace v1 {
class JobSpec;
}

// Makes transforms of the data of the layers that run there (LayerClass::on_data): StringLookup at
// an Input becomes a transform of the Input's column, and an Input of the result in its place. An
// Input that only such layers read goes. Layers between that have a transform of the same name, as
// Rescaling, move with them. So does Normalization without moments at an Input that names its
// column, in a job without initial weights: it learns them. `lines` follow the layers. Errors:
// InvalidArgument for such a layer behind other layers, and for one that its input does not suit.
absl::Status MoveInputLayers(v1::JobSpec* job, JobLines* lines);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_INPUT_LAYERS_H_

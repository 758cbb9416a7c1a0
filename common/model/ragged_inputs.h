#ifndef COHORT_COMMON_MODEL_RAGGED_INPUTS_H_
#define COHORT_COMMON_MODEL_RAGGED_INPUTS_H_

#include <absl/status/status.h>

#include <cstddef>

#include "common/model/job_lines.h"

namespace cohort {

namespace v1 {
class ClassConfig;
class JobSpec;
}  // namespace v1

struct LayerGraph;

// Lists of different lengths: an Input with `ragged: true` and `max_length`. Batches have them at
// this length, with padding behind (common/data/list_padding.h), which the op `unique` drops. So
// ids and weights are ordinary columns for all layers of the step but EmbeddingBag.

// Makes the sources of the data pad the columns of ragged Inputs: in their `lists` (CSV, Parquet),
// or `columns` or `features` (JSON lines, TFRecord). Errors: InvalidArgument with the line of the
// layer, for a source that has no lists, and for arguments that do not fit together.
absl::Status PadRaggedColumns(v1::JobSpec* job, const JobLines& lines);

// Makes another source than those of the job pad the columns, as that of records to predict.
absl::Status PadRaggedColumnsOf(const v1::JobSpec& job, v1::ClassConfig* source);

// Errors: InvalidArgument if the layer reads a ragged Input and is no EmbeddingBag, and if its ids
// are ragged and its weights are not, or the other way round.
absl::Status CheckRaggedInputs(const LayerGraph& graph, size_t layer);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_RAGGED_INPUTS_H_

#ifndef COHORT_COMMON_MODEL_LAYERS_TABLE_ROWS_H_
#define COHORT_COMMON_MODEL_LAYERS_TABLE_ROWS_H_

#include <absl/status/statusor.h>

#include <vector>

#include "common/model/layers/layer.h"

namespace cohort {

// The arguments of a layer with a table `embeddings` [input_dim, output_dim].
std::vector<Argument> TableArguments();

// Returns the rows of the table that LayerContext::keys name, and declares the table. Only these
// rows are pulled, and only they get a gradient. A regularizer depends on all rows, so with one the
// whole table is pulled, and all of it gets a gradient, as in Keras.
absl::StatusOr<Expr> TableRows(LayerContext* context);

// The same for a table without bounds (LayerClass::unbounded).
std::vector<Argument> DynamicTableArguments();
absl::StatusOr<Expr> DynamicTableRows(LayerContext* context);

// The arguments of a layer that makes one vector of each list of ids, beside those of its table.
std::vector<Argument> BagArguments();
// Returns that vector, of the `rows` that LayerContext::keys name; not valid: nothing is built.
// Errors: InvalidArgument for ids that are no lists, or weights of another shape.
absl::StatusOr<LayerOutput> BagOfRows(LayerContext* context, Expr rows);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYERS_TABLE_ROWS_H_

#ifndef COHORT_COMMON_MODEL_LAYERS_RECURRENCE_H_
#define COHORT_COMMON_MODEL_LAYERS_RECURRENCE_H_

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/model/layers/cells.h"
#include "common/model/layers/layer.h"

namespace cohort {

// A layer that runs a cell through the steps of [batch, steps, features]: LSTM, GRU, SimpleRNN and
// RNN (keras/src/layers/rnn/rnn.py).
struct RecurrentClass {
  ClassSchema schema;  // made by NestedSchema: the class is an argument of Bidirectional, too
  CellMaker make_cell;
};

ClassRegistry<RecurrentClass>& RecurrentLayers();
const SchemaSet& RecurrentLayerSchemas();

// The classes, each in the file of its cell.
RecurrentClass LstmClass();
RecurrentClass GruClass();
RecurrentClass SimpleRnnClass();
RecurrentClass RnnClass();

// The class as a layer of a model.
LayerClass RecurrentLayer(RecurrentClass recurrent);

// Adds the arguments that all of these layers have after those of the cell.
std::vector<Argument> WithRecurrentArguments(std::vector<Argument> own);

// How a layer runs its cell.
struct RecurrentRun {
  bool backwards = false;
  bool all_steps = false;          // the outputs of all steps, not only the last one
  bool zero_where_masked = false;  // an output where the mask is false is 0, not the one before
};
// Errors: InvalidArgument or Unimplemented for arguments that are not supported.
absl::StatusOr<RecurrentRun> RunOf(const Config& config);

// Runs the cell over input 0 of the context. An output of a step stays at the place of its input,
// also of a backward run. Errors: InvalidArgument for another shape.
absl::StatusOr<Expr> RunCell(const LayerContext& context, const CellMaker& make_cell,
                             const RecurrentRun& run);

// The steps of x [batch, steps, features] in the opposite order.
Expr FlipSteps(Expr x);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYERS_RECURRENCE_H_

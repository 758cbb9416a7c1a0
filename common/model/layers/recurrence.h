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
  size_t axes = 3;  // the number of those of the input; ConvLSTM has more
};

ClassRegistry<RecurrentClass>& RecurrentLayers();
const SchemaSet& RecurrentLayerSchemas();

// The classes, each in the file of its cell.
RecurrentClass LstmClass();
RecurrentClass GruClass();
RecurrentClass SimpleRnnClass();
RecurrentClass RnnClass();
RecurrentClass ConvLstmClass(size_t rank);

// The class as a layer of a model.
LayerClass RecurrentLayer(RecurrentClass recurrent);

// Adds the arguments that all of these layers have after those of the cell.
std::vector<Argument> WithRecurrentArguments(std::vector<Argument> own);

// How a layer runs its cell.
struct RecurrentRun {
  bool backwards = false;
  bool all_steps = false;          // the outputs of all steps, not only the last one
  bool zero_where_masked = false;  // an output where the mask is false is 0, not the one before
  bool returns_states = false;
  bool has_mask = true;  // the mask of input 0 counts
};
// Errors: InvalidArgument or Unimplemented for arguments that are not supported.
absl::StatusOr<RecurrentRun> RunOf(const Config& config);

// What a run returns: outputs, and the last states if they are wanted.
struct RecurrentResult {
  Expr y;
  std::vector<Expr> states;
};
// Runs the cell of a layer over input 0 of the context. Its other inputs, all or none, are the
// states before the first step. An output of a step stays at the place of its input, also of a
// backward run. Errors: InvalidArgument for another shape or number of inputs.
absl::StatusOr<RecurrentResult> RunCell(const LayerContext& context,
                                        const RecurrentClass& recurrent, const RecurrentRun& run);

// The arguments of the call of a recurrent layer, and what else they share.
LayerClass RecurrentCall(ClassSchema schema);
// True if the mask of input 0 counts: as in Keras 3, one that comes with the sequence does not if
// there is an initial_state. With the argument `keep_mask` it does, as in Keras 2.
bool HasMask(const LayerContext& context);

// The steps of x [batch, steps, ...] in the opposite order.
Expr FlipSteps(Expr x);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYERS_RECURRENCE_H_

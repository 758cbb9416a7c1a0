#ifndef COHORT_COMMON_MODEL_MODE_GRAPH_H_
#define COHORT_COMMON_MODEL_MODE_GRAPH_H_

#include "common/model/layer_graph.h"

namespace cohort {

// The layers of a model that a program of one mode has: each ops.in_training is replaced by one of
// its inputs, and layers that lead to no output then are left out. Inputs stay, so that all
// programs read the same columns. If the first call of a layer is left out, the next call has the
// variables.
LayerGraph GraphOfMode(const LayerGraph& graph, bool training);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_MODE_GRAPH_H_

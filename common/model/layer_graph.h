#ifndef COHORT_COMMON_MODEL_LAYER_GRAPH_H_
#define COHORT_COMMON_MODEL_LAYER_GRAPH_H_

#include <absl/status/statusor.h>

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/data/dataset.h"
#include "common/model/job_file.h"
#include "common/model/layers/layer.h"

namespace cohort {

// "GlobalAveragePooling1D" -> "global_average_pooling1d" (to_snake_case of
// keras/src/utils/naming.py).
std::string SnakeCase(std::string_view name);

// One layer of a model, with everything that its spec leaves open.
struct GraphLayer {
  v1::LayerSpec spec;
  const LayerClass* layer_class = nullptr;
  std::string name;
  std::vector<int> inputs;  // earlier layers
  int feature = -1;         // Input: position among the features
  std::string where;        // "job.yaml:12: layer "dense" (Dense)", for errors
};

// The layers of a model, each after its inputs.
struct LayerGraph {
  std::string model_name;
  bool sequential = true;
  std::vector<GraphLayer> layers;
  int output = -1;
  int label = -1;  // position among the features
};

// Names layers as Keras does (dense, dense_1, ...), connects them, and finds the feature of each
// Input: the one with its name, or the only one. A sequential model without an Input gets one for
// the only feature. `lines` may be null. Errors: InvalidArgument (an unknown input or feature, a
// repeated name, a layer that leads to no output), Unimplemented (several outputs).
absl::StatusOr<LayerGraph> MakeLayerGraph(const v1::JobSpec& job,
                                          std::span<const FeatureType> features,
                                          const JobLines* lines);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYER_GRAPH_H_

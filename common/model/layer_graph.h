#ifndef COHORT_COMMON_MODEL_LAYER_GRAPH_H_
#define COHORT_COMMON_MODEL_LAYER_GRAPH_H_

#include <absl/status/statusor.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/data/dataset.h"
#include "common/model/job_lines.h"
#include "common/model/layers/layer.h"

namespace cohort {

namespace v1 {
class JobSpec;
}

// One layer of a model, with everything that its spec leaves open.
struct GraphLayer {
  const LayerClass* layer_class = nullptr;
  v1::ClassConfig config;  // complete
  std::string name;
  std::vector<int> inputs;  // earlier layers; after the inputs proper, those that are masks
  // By input: the position in `inputs` of the layer whose value is its mask; -1: its own mask.
  std::vector<int> masks;
  size_t num_inputs = 0;  // without masks
  int shares = -1;        // the earlier layer whose config and variables it has; -1: its own
  int feature = -1;       // Input: position among the features
  std::string device;     // where it runs (DeviceName::ToString); "": the worker's own device
  std::string where;      // "job.yaml:12: layer "dense" (Dense)", for errors
};

struct GraphOutput {
  std::string name;  // as Keras has it
  int layer = -1;
  int label = -1;   // position among the features
  int weight = -1;  // position of the column of sample weights; -1: none
};

// The layers of a model, each after its inputs.
struct LayerGraph {
  std::string model_name;
  bool sequential = true;
  std::vector<GraphLayer> layers;
  std::vector<GraphOutput> outputs;  // at least one

  // Returns the layer itself, or the one whose variables it uses.
  size_t FirstCall(size_t layer) const {
    const int shares = layers[layer].shares;
    return shares < 0 ? layer : static_cast<size_t>(shares);
  }
};

// Names layers as Keras does (dense, dense_1, ...), connects them, and finds the feature of each
// Input: the one with its name, or the only one. A sequential model without an Input gets one for
// the only feature. `lines` may be null. Errors: InvalidArgument (an unknown input or feature, a
// repeated name, a layer that leads to no output, outputs without labels, a name of a device or a
// pattern of layers that is wrong), and those of CompleteConfig.
absl::StatusOr<LayerGraph> MakeLayerGraph(const v1::JobSpec& job,
                                          std::span<const FeatureType> features,
                                          const JobLines* lines);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYER_GRAPH_H_

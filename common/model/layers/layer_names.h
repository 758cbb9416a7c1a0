#ifndef COHORT_COMMON_MODEL_LAYERS_LAYER_NAMES_H_
#define COHORT_COMMON_MODEL_LAYERS_LAYER_NAMES_H_

#include <map>
#include <string>
#include <string_view>

namespace cohort {

// Names layers without a name as Keras does: "dense", "dense_1", ... (uniquify of
// keras/src/utils/naming.py).
class LayerNames {
 public:
  std::string Next(std::string_view class_name);

 private:
  std::map<std::string, int> counts_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYERS_LAYER_NAMES_H_

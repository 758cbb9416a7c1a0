#ifndef COHORT_COMMON_SCHEMA_MODEL_LAYER_H_
#define COHORT_COMMON_SCHEMA_MODEL_LAYER_H_

#include <string>

namespace cohort {

// A layer as Keras has it in `model.layers`. The layers of a nested model follow it.
struct ModelLayer {
  std::string name;        // with the models around it: "inner/dense"
  std::string class_name;  // "Dense"; of a nested model "Sequential" or "Functional"
  int depth = 0;           // the number of models around it, without the outermost one
};

}  // namespace cohort

#endif  // COHORT_COMMON_SCHEMA_MODEL_LAYER_H_

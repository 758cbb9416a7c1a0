#ifndef COHORT_COMMON_WEIGHTS_KERAS_WEIGHTS_H_
#define COHORT_COMMON_WEIGHTS_KERAS_WEIGHTS_H_

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "common/weights/weight_source.h"

namespace cohort {

// A file that model.save_weights() of Keras wrote, or a whole model in the old format. Both are
// HDF5 files without names of variables, so tensors are named by their layer and their number in
// it, "inner/dense/0".
//
//   Keras 3, "x.weights.h5":
//     /layers/sequential/layers/dense/vars/0       the groups are named after classes;
//     /layers/sequential/layers/dense/vars         has the attribute `name` with the layer's name.
//                                                  In files of older versions, which lack it, the
//                                                  group's name counts
//   tf_keras, and Keras 3 with another name, "x.h5" (the weights may lie below /model_weights):
//     /dense                                       the group of a layer has the attribute
//                                                  `weight_names`, a list of the paths below it
//
// A nested model of the old format has one group. Its tensors are named "inner/dense/kernel".
//
// Errors: DataLoss that names the file; InvalidArgument if it holds no weights; Unimplemented in a
// build without HDF5, with what to install.
absl::StatusOr<std::unique_ptr<WeightSource>> OpenKerasWeights(const std::string& path);

}  // namespace cohort

#endif  // COHORT_COMMON_WEIGHTS_KERAS_WEIGHTS_H_

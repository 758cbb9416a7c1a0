// Stands in for keras_weights.cc in a build that has found no HDF5.
#include "common/base/status.h"
#include "common/weights/weight_source.h"

namespace cohort {

absl::StatusOr<std::unique_ptr<WeightSource>> OpenKerasWeights(const std::string& path) {
  return Unimplemented(
      "{}: this build of Cohort reads no HDF5 files: install libhdf5-dev "
      "(deploy/install_dependencies.sh does), configure and build it again",
      path);
}

}  // namespace cohort

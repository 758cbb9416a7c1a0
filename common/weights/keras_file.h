#ifndef COHORT_COMMON_WEIGHTS_KERAS_FILE_H_
#define COHORT_COMMON_WEIGHTS_KERAS_FILE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/weights/weight_source.h"

namespace cohort {

// An HDF5 file of weights that Keras wrote (OpenKerasWeights describes the formats). The HDF5
// library has errors that damaged files reach, so only cohort-read-hdf5 uses this class.
class KerasFile {
 public:
  struct Dataset {
    SourceTensor tensor;
    std::string path;  // in the file
  };

  // Errors: DataLoss or InvalidArgument that names the file.
  static absl::StatusOr<std::unique_ptr<KerasFile>> Open(const std::string& path);
  virtual ~KerasFile() = default;

  bool names_layers() const { return names_layers_; }  // as WeightSource
  const std::vector<Dataset>& datasets() const { return datasets_; }
  // Reads all values in the type of the tensor. Errors: DataLoss.
  virtual absl::Status Read(const Dataset& dataset, std::span<uint8_t> out) = 0;

 protected:
  bool names_layers_ = true;
  std::vector<Dataset> datasets_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_WEIGHTS_KERAS_FILE_H_

#ifndef COHORT_COMMON_WEIGHTS_KERAS_FILE_OUTPUT_H_
#define COHORT_COMMON_WEIGHTS_KERAS_FILE_OUTPUT_H_

#include <string>

// How cohort-read-hdf5 hands a SourceTensor over in a safetensors file.
namespace cohort {

// Stands in a name for the '/' at the end of SourceTensor::model_bytes.
inline constexpr char kModelEnd = '\n';
// Keys of the metadata: names_layers() is false; tensors whose dtype is kInvalid.
inline const std::string kByClassKey = "layers by class";
inline const std::string kOtherTypeKey = "other type: ";
// The exit code for InvalidArgument. ExitCode::kData stands for DataLoss.
inline constexpr int kInvalidArgumentCode = 2;

}  // namespace cohort

#endif  // COHORT_COMMON_WEIGHTS_KERAS_FILE_OUTPUT_H_

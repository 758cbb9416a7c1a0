#ifndef COHORT_DEPLOY_PREDICT_PREDICTION_FILE_H_
#define COHORT_DEPLOY_PREDICT_PREDICTION_FILE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/tensor/tensor.h"

namespace cohort {

// An output of a model in a file of predictions.
struct PredictionColumn {
  std::string name;
  DType dtype = DType::kFloat32;
  Dims dims;  // the shape for one record
};

// Writes predictions in the order of the records. The file exists whole after Finish, and not at
// all before.
class PredictionFile {
 public:
  // For `records` in all. The format follows the name: .csv, .jsonl, .npz. Errors: exit 64 for
  // another one; those of opening the file.
  //
  //   .csv    a line of names; an output with several numbers has columns out_0, out_1, ...
  //   .jsonl  a line of JSON for each record: {"out": [0.1, 0.9]}
  //   .npz    an array [records, dims...] for each output, as numpy.savez writes it
  static absl::StatusOr<std::unique_ptr<PredictionFile>> Create(
      const std::string& path, std::vector<PredictionColumn> columns, uint64_t records);
  virtual ~PredictionFile() = default;

  // `batch`: a tensor [records, dims...] for each column.
  virtual absl::Status Append(std::span<const Tensor> batch) = 0;
  virtual absl::Status Finish() = 0;
};

}  // namespace cohort

#endif  // COHORT_DEPLOY_PREDICT_PREDICTION_FILE_H_

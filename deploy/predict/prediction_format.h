#ifndef COHORT_DEPLOY_PREDICT_PREDICTION_FORMAT_H_
#define COHORT_DEPLOY_PREDICT_PREDICTION_FORMAT_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/tensor/tensor.h"

namespace cohort {

// An output of a model in a file of predictions.
struct PredictionColumn {
  std::string name;
  DType dtype = DType::kFloat32;
  Dims dims;  // the shape for one record

  size_t elements() const { return static_cast<size_t>(NumElements(dims)); }
};

// How records of predictions become the bytes of a file: streams to which each record adds bytes,
// whatever comes before and after it, and a last step that makes the file of whole streams. So
// processes that predict parts of the records make the same file as one that predicts all.
//
//   .csv      a line of names; an output with several numbers has columns out_0, out_1, ...
//   .jsonl    a line of JSON for each record: {"out": [0.1, 0.9]}
//   .npz      an array [records, dims...] for each output, as numpy.savez writes it
//   .parquet  a column for each output: of numbers, or of lists of a fixed size in its shape
class PredictionFormat {
 public:
  // Errors: exit 64 for a name with another ending; Unimplemented for .parquet in a build without
  // Arrow (cmake -DCOHORT_ARROW_ROOT).
  static absl::Status CheckName(std::string_view path);
  // For `records` in all. Errors: those of CheckName.
  static absl::StatusOr<std::unique_ptr<PredictionFormat>> Create(
      std::string_view path, std::vector<PredictionColumn> columns, uint64_t records);
  virtual ~PredictionFormat() = default;

  virtual size_t streams() const = 0;
  // The bytes before the first record.
  virtual std::string Header(size_t stream) const = 0;
  // Appends a batch: a tensor [records, dims...] for each column.
  virtual void Append(size_t stream, std::span<const Tensor> batch, std::string* bytes) const = 0;
  // Makes `path` of the files of the streams, in one step, and replaces what has that name.
  // `files` may be changed or gone afterwards.
  virtual absl::Status Complete(const std::vector<std::string>& files,
                                const std::string& path) const = 0;
};

// The format .parquet (parquet_predictions.cc, no_parquet_predictions.cc).
absl::Status CheckParquetPredictions();
std::unique_ptr<PredictionFormat> ParquetPredictions(std::vector<PredictionColumn> columns,
                                                     uint64_t records);

// Makes a whole file durable, and gives it its name.
absl::Status PublishPredictions(const std::string& file, const std::string& path);

}  // namespace cohort

#endif  // COHORT_DEPLOY_PREDICT_PREDICTION_FORMAT_H_

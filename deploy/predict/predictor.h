#ifndef COHORT_DEPLOY_PREDICT_PREDICTOR_H_
#define COHORT_DEPLOY_PREDICT_PREDICTOR_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "deploy/predict/predict_options.h"
#include "deploy/predict/prediction_part.h"

namespace cohort {

class BatchReader;
class Dataset;
class RestoredModel;

// The model of a checkpoint, and the records that it predicts in batches of the job's size. One
// thread.
class Predictor {
 public:
  // Errors: NotFound and DataLoss of the checkpoint or of the data; InvalidArgument if the data
  // lacks a column that the model reads.
  static absl::StatusOr<std::unique_ptr<Predictor>> Open(const std::string& checkpoint,
                                                         const PredictOptions& options);
  ~Predictor();

  // Describes a part of the records: whole batches, the same number in each part, or one more.
  PartDescription Describe(PartNumber number) const;
  // Predicts the records of a part.
  absl::Status Predict(const PartDescription& part, PartWriter* writer);

 private:
  Predictor();

  std::shared_ptr<const Dataset> dataset_;
  uint64_t batch_size_ = 0;
  std::unique_ptr<BatchReader> batches_;
  std::unique_ptr<RestoredModel> model_;
  PartDescription whole_;  // as if it were one part
};

}  // namespace cohort

#endif  // COHORT_DEPLOY_PREDICT_PREDICTOR_H_

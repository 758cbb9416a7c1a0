#ifndef COHORT_EVALUATOR_CHECKPOINT_EVALUATION_H_
#define COHORT_EVALUATOR_CHECKPOINT_EVALUATION_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/data/dataset.h"
#include "common/exec/executable.h"
#include "common/variables/local_access.h"

namespace cohort {

namespace v1 {
class JobSpec;
class Manifest;
}  // namespace v1
class CheckpointReader;

// What an evaluation of one checkpoint came to.
struct EvaluationResult {
  uint64_t step = 0;                                    // training steps in the checkpoint
  uint64_t epoch = 0;                                   // epochs finished in it
  std::vector<std::pair<std::string, double>> metrics;  // means: "loss" first
  uint64_t examples = 0;
  double seconds = 0;
};

// Evaluates checkpoints of one job in this process: the job, and with it the model and the
// validation set, come out of a manifest; each example is used once.
class CheckpointEvaluation {
 public:
  struct Options {
    std::string data_dir;  // relative paths of the job's data start here
    int threads = 1;
    std::function<bool()> should_stop;  // asked between batches
  };

  // Errors: FailedPrecondition (the job has no validation set); those of Dataset::Open, BuildModel
  // and Executable::Compile.
  static absl::StatusOr<std::unique_ptr<CheckpointEvaluation>> Create(const v1::Manifest& manifest,
                                                                      const Options& options);

  // Loads the weights and runs the validation set through the eval program. Errors: those of the
  // reader (DataLoss, NotFound: the checkpoint went away), Cancelled after should_stop.
  absl::StatusOr<EvaluationResult> Evaluate(const CheckpointReader& checkpoint);

  // The manifest's job, to tell checkpoints of another one.
  const std::string& job() const { return job_; }

 private:
  CheckpointEvaluation() = default;
  absl::Status Load(const CheckpointReader& checkpoint);
  absl::Status RunBatch(uint64_t begin, uint64_t end);

  std::string job_;
  Options options_;
  uint64_t batch_size_ = 0;
  std::shared_ptr<const Dataset> dataset_;
  std::vector<int> features_;  // of the program's arguments, in the dataset
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<LocalVariables> variables_;
  std::unique_ptr<LocalAccess> access_;

  std::vector<uint64_t> indices_;  // of one batch
  std::vector<Tensor> batch_;
  std::vector<double> totals_;
  std::vector<double> counts_;
};

}  // namespace cohort

#endif  // COHORT_EVALUATOR_CHECKPOINT_EVALUATION_H_

#ifndef COHORT_EVALUATOR_CHECKPOINT_EVALUATOR_H_
#define COHORT_EVALUATOR_CHECKPOINT_EVALUATOR_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/data/dataset.h"
#include "common/exec/metric_fold.h"
#include "common/report/reporter.h"
#include "evaluator/restored_model.h"

namespace cohort {

namespace v1 {
class JobSpec;
class Manifest;
}  // namespace v1

// Evaluates checkpoints in this process. It reads the job from the manifest, rebuilds the model,
// restores the weights from any layout, and reads every example of the validation set once. It
// keeps the parts that checkpoints of one job share (the data, the compiled program). One thread.
class CheckpointEvaluator {
 public:
  struct Options {
    DataOptions data;
    int threads = 1;
    std::function<void()> on_progress;  // called after each variable and batch; may be empty
  };
  struct Evaluation {
    MetricsRecord record;  // set "validation", kind "checkpoint"
    uint64_t examples = 0;
    bool finished = false;  // this is the last checkpoint of the job
  };

  explicit CheckpointEvaluator(const Options& options);
  ~CheckpointEvaluator();

  // `manifest`: path of manifest.json or its directory. Errors: NotFound and DataLoss only if the
  // checkpoint itself is missing or torn; those of Dataset and BuildModel; FailedPrecondition if a
  // data file is missing or torn (with its exit code), or if the job has no validation set;
  // InvalidArgument if the records differ from those that the chief has read.
  absl::StatusOr<Evaluation> Evaluate(const std::string& manifest);

 private:
  // The parts that depend only on the job.
  struct Job {
    std::string key;  // equal for equal jobs
    std::shared_ptr<const Dataset> dataset;
    std::unique_ptr<BatchReader> reader;
    uint32_t batch_size = 0;
    bool averages = false;  // are used instead of values (SwapEMAWeights)
    std::unique_ptr<RestoredModel> model;
  };

  absl::Status OpenJob(const v1::Manifest& manifest);
  absl::Status RunBatch(uint64_t begin, uint64_t end);

  const Options options_;
  std::unique_ptr<Job> job_;
  BatchReader::Batch batch_;
  MetricFold metrics_;
};

}  // namespace cohort

#endif  // COHORT_EVALUATOR_CHECKPOINT_EVALUATOR_H_

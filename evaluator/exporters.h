#ifndef COHORT_EVALUATOR_EXPORTERS_H_
#define COHORT_EVALUATOR_EXPORTERS_H_

#include <absl/status/statusor.h>

#include <string>
#include <utility>
#include <vector>

#include "common/checkpoint/checkpoint_directory.h"
#include "common/report/reporter.h"

namespace cohort {

class CheckpointReader;
namespace v1 {
class JobSpec;
}

// The exporters of TensorFlow's Estimator (`--exporters`): after an evaluation they write the
// weights of the checkpoint, without the state of the optimizer:
//
//   DIRECTORY/latest/ckpt-1-1-7/model.safetensors    each variable by its name, whole
//                               job.yaml             the job that trained it
//                               metrics.json         of the evaluation, as a line of metrics.jsonl
//
// `latest` exports every evaluated checkpoint, `best` one that is better than those before
// (by `checkpoint.keep_best` of the job, else by the loss), `final` the last one of the job. An
// export appears at once, by renaming its directory.
class Exporters {
 public:
  struct Options {
    std::string directory;
    std::vector<std::string> names;  // "latest", "best", "final"
    size_t keep = 5;                 // the newest exports of each
  };
  explicit Exporters(Options options) : options_(std::move(options)) {}

  // Returns the directories that were written. Errors: NotFound and DataLoss if the checkpoint is
  // missing or torn; those of SafetensorsWriter (a full disk: ResourceExhausted).
  absl::StatusOr<std::vector<std::string>> Export(const CheckpointEntry& checkpoint,
                                                  const MetricsRecord& evaluation) const;

 private:
  // True if a checkpoint is better than the newest export of `best`.
  bool IsBest(const v1::JobSpec& job, const MetricsRecord& evaluation) const;
  absl::StatusOr<std::string> Write(const std::string& exporter, const std::string& name,
                                    const CheckpointReader& reader,
                                    const MetricsRecord& evaluation) const;
  // Deletes all but the newest exports.
  void DeleteOld(const std::string& exporter) const;

  const Options options_;
};

}  // namespace cohort

#endif  // COHORT_EVALUATOR_EXPORTERS_H_

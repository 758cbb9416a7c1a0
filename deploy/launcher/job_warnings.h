#ifndef COHORT_DEPLOY_LAUNCHER_JOB_WARNINGS_H_
#define COHORT_DEPLOY_LAUNCHER_JOB_WARNINGS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/data/dataset.h"
#include "deploy/launcher/data_sample.h"

namespace cohort {

struct JobLines;
struct Program;

namespace v1 {
class JobSpec;
}

// What a rule sees of a job that would run, but may waste the run.

// An output of the model, its loss and its label.
struct OutputFacts {
  std::string where;       // 'job.yaml:12: layer "dense" (Dense)'
  std::string activation;  // what gives the prediction, in lower case; "": unknown
  int64_t units = 0;       // the last axis; 0: unknown
  std::string loss;        // Keras' class
  bool from_logits = false;
  std::string label;                      // column
  const ColumnSample* data = nullptr;     // the numbers of that column; null: unknown
  std::vector<std::string> metrics = {};  // Keras' classes
  // Those of them that read probabilities.
  std::vector<std::string> metrics_of_probabilities = {};
};

// An Input of the model.
struct InputFacts {
  std::string where;
  std::string column;
  bool integers = false;  // its dtype
  // The layers that compute with its numbers, behind those that only move them.
  std::vector<std::string> readers;    // classes
  const ColumnSample* data = nullptr;  // null: unknown
  std::string scaled_by;  // the line of a transform that multiplies the column; "": there is none
};

// An optimizer.
struct OptimizerFacts {
  std::string where;
  std::string name;          // Keras' class
  double learning_rate = 0;  // a schedule has its initial one here; 0: unknown
};

struct JobFacts {
  std::vector<OutputFacts> outputs;
  std::vector<InputFacts> inputs;
  std::vector<OptimizerFacts> optimizers;
  // The layers Normalization whose mean is 0 and variance 1, because nothing sets them.
  std::vector<std::string> plain_normalizations;
};

// A rule: a pure function that adds one sentence for each thing that it finds.
struct JobRule {
  std::string_view name;
  void (*find)(const JobFacts& job, std::vector<std::string>* warnings);
};
std::span<const JobRule> JobRules();

// Returns the facts of a job. `predict` is the program of its model that gives the predictions, and
// `sample` may be null. Errors: those of MakeLayerGraph.
absl::StatusOr<JobFacts> FactsOf(const v1::JobSpec& job, const JobLines& lines,
                                 const Program& predict, std::span<const FeatureType> features,
                                 const DataSample* sample);

// Returns what all rules find.
std::vector<std::string> WarningsOf(const JobFacts& job);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_JOB_WARNINGS_H_

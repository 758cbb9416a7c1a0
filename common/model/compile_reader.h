#ifndef COHORT_COMMON_MODEL_COMPILE_READER_H_
#define COHORT_COMMON_MODEL_COMPILE_READER_H_

#include <string>
#include <string_view>
#include <vector>

#include "common/model/class_reader.h"

namespace cohort::v1 {
class CompileSpec;
class OptimizerChoice;
}  // namespace cohort::v1

namespace cohort {

class KerasJsonFile;

// Reads `compile`: losses, metrics and optimizers.
class CompileReader : public ClassReader {
 public:
  // `outputs`: of the model. `keras_json` (may be null) has the values of keys that are not given.
  // Both outlive the reader.
  CompileReader(JobLines* lines, const std::vector<std::string>& outputs,
                const KerasJsonFile* keras_json)
      : ClassReader(lines), outputs_(outputs), keras_json_(keras_json) {}

  absl::Status Read(const YAML::Node& node, const std::string& path, v1::CompileSpec* compile);
  absl::Status ReadMessage(const YAML::Node& node, const std::string& path,
                           Message* message) override;

 private:
  // True if `entries` have a value for `key`.
  static bool Gives(const std::vector<Entry>& entries, std::string_view key);
  // Sets the keys that the job does not give from the JSON of the model.
  absl::Status ReadCompileOfKeras(const std::vector<Entry>& entries, v1::CompileSpec* compile);
  absl::Status ReadLoss(const Entry& entry, const std::string& path, v1::CompileSpec* compile);
  absl::Status ReadLossWeights(const Entry& entry, const std::string& path,
                               v1::CompileSpec* compile);
  absl::Status ReadMetrics(const Entry& entry, const std::string& path, bool weighted,
                           v1::CompileSpec* compile);
  absl::Status ReadMetric(const YAML::Node& node, const std::string& output, bool weighted,
                          v1::CompileSpec* compile);
  // `sparse_update` keeps its value if the file gives none.
  absl::Status ReadOptimizer(const YAML::Node& node, const std::string& path,
                             v1::ClassConfig* config, std::string* sparse_update);
  absl::Status ReadOptimizerChoice(const YAML::Node& node, const std::string& path,
                                   v1::OptimizerChoice* choice);

  const std::vector<std::string>& outputs_;
  const KerasJsonFile* const keras_json_;
};

// True if the string of a metric is "accuracy" in any case: as in Keras, "Accuracy" is not the
// class Accuracy then.
bool IsChosenAccuracy(const std::string& text);

// Adds a metric of the output `output` ("": the only one). It is reported as Keras does: under the
// string `given` that names it ("": under its argument `name`), with several outputs as
// "<output>_<name>"; a weighted metric whose name another one has as "weighted_<name>". `config` is
// complete.
void AddOutputMetric(v1::ClassConfig config, const std::string& given, const std::string& output,
                     bool weighted, v1::CompileSpec* compile);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_COMPILE_READER_H_

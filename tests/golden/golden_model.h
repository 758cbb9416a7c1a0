#ifndef COHORT_TESTS_GOLDEN_GOLDEN_MODEL_H_
#define COHORT_TESTS_GOLDEN_GOLDEN_MODEL_H_

#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/executable.h"
#include "common/exec/local_variables.h"
#include "common/model/model_builder.h"

namespace cohort::golden {

// One case of models.json, random_models.json or keras_json_models.json: the model that a job file
// describes, trained in this process on the numbers of golden_data.h.
class GoldenModel {
 public:
  // A column that golden_data.h makes.
  struct Column {
    std::string name;
    std::string kind;   // "real", "unit", "ids", "bits", "one_hot"
    Dims dims;          // the shape of one record
    int64_t bound = 0;  // ids are below it
    int position = 0;   // for InputSeed
  };

  // `floatx`: "float64" or "float32".
  static absl::StatusOr<std::unique_ptr<GoldenModel>> Create(const nlohmann::json& test_case,
                                                             const std::string& floatx);
  // A case of keras_json_models.json. `directory` receives the JSON of the model.
  static absl::StatusOr<std::unique_ptr<GoldenModel>> CreateFromKeras(
      const nlohmann::json& test_case, const std::string& directory);

  // Sets every variable to what keras_models.set_weights(seed) does.
  void SetWeights(uint64_t seed);
  // Forward and backward of step `step` on its batch, without an update.
  absl::Status ForwardAndBackward(int step);
  // Applies the gradients of the last ForwardAndBackward.
  absl::Status Apply(int step);

  double metric(size_t i) const;                          // 0 = loss; means of the last step
  std::pair<double, double> metric_sums(size_t i) const;  // total and count
  std::vector<std::string> metric_names() const;
  // `name` is Keras' path, as in "dense/kernel".
  std::vector<double> Variable(const std::string& name) const;
  // The gradient of the *mean* loss, dense.
  std::vector<double> Gradient(const std::string& name) const;
  const std::vector<std::string>& variables() const { return names_; }

 private:
  GoldenModel() = default;
  static absl::StatusOr<std::unique_ptr<GoldenModel>> Create(const nlohmann::json& test_case,
                                                             const JobFile& job,
                                                             std::vector<Column> columns,
                                                             std::vector<std::string> names);
  Tensor InputOf(int step, size_t argument, int64_t size) const;
  Tensor MaskOf(int step, size_t argument, int64_t size) const;

  nlohmann::json case_;
  DType dtype_ = DType::kInvalid;
  uint64_t seed_ = 0;
  std::vector<std::string> names_;        // in Keras' order
  std::vector<std::string> state_names_;  // variables that no optimizer changes
  std::vector<Column> columns_;
  std::vector<int> arguments_;  // the column of each, or -1 - n for mask n
  std::unique_ptr<LocalVariables> local_;
  std::unique_ptr<VariableAccess> access_;
  std::unique_ptr<Executable> executable_;
  std::vector<Tensor> batch_;
};

// The cases of a golden file beside this one (or of a file with an absolute path), and which Keras
// made it. The file may be compressed by gzip. Null if it cannot be read.
nlohmann::json ReadGolden(const std::string& name);

}  // namespace cohort::golden

#endif  // COHORT_TESTS_GOLDEN_GOLDEN_MODEL_H_

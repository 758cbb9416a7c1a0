#ifndef COHORT_TESTS_GOLDEN_GOLDEN_MODEL_H_
#define COHORT_TESTS_GOLDEN_GOLDEN_MODEL_H_

#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/exchange/local_access.h"
#include "common/exec/executable.h"
#include "common/model/model_builder.h"

namespace cohort::golden {

// One case of models.json or random_models.json: the model that a job file describes, trained in
// this process on the numbers of golden_data.h.
class GoldenModel {
 public:
  // `floatx`: "float64" or "float32".
  static absl::StatusOr<std::unique_ptr<GoldenModel>> Create(const nlohmann::json& test_case,
                                                             const std::string& floatx);

  // Sets every variable to what keras_models.set_weights(seed) does.
  void SetWeights(uint64_t seed);
  // Forward and backward of step `step` on its batch, without an update.
  absl::Status ForwardAndBackward(int step);
  // Applies the gradients of the last ForwardAndBackward.
  absl::Status Apply(int step);

  double metric(size_t i) const;  // 0 = loss; means of the last step
  // `name` is Keras' path, as in "dense/kernel".
  std::vector<double> Variable(const std::string& name) const;
  // The gradient of the *mean* loss, dense.
  std::vector<double> Gradient(const std::string& name) const;
  const std::vector<std::string>& variables() const { return names_; }

 private:
  GoldenModel() = default;
  Tensor InputOf(int step, size_t argument, int64_t size) const;

  nlohmann::json case_;
  DType dtype_ = DType::kInvalid;
  uint64_t seed_ = 0;
  std::vector<std::string> names_;  // in Keras' order
  // For each argument: the index of its Input layer, kLabelPosition, or -1 - n for mask n.
  std::vector<int> input_positions_;
  std::unique_ptr<LocalVariables> local_;
  std::unique_ptr<LocalAccess> access_;
  std::unique_ptr<Executable> executable_;
  std::vector<Tensor> batch_;
};

// The cases of a golden file beside this one, and which Keras made it.
nlohmann::json ReadGolden(const std::string& name);

}  // namespace cohort::golden

#endif  // COHORT_TESTS_GOLDEN_GOLDEN_MODEL_H_

#ifndef COHORT_CHIEF_API_STEP_TRACE_H_
#define COHORT_CHIEF_API_STEP_TRACE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "chief/api/variable_set.h"
#include "common/graph/expr.h"
#include "common/graph/program_builder.h"
#include "common/model/layers/layer.h"

namespace cohort {

// A step for training trains variables and drops out. The same function traced for evaluation
// computes the same loss and metrics, and changes nothing.
enum class StepMode { kTrain, kEvaluate };

// A step function while it is traced: what TensorFlow's GradientTape is to a training loop. Values
// are Exprs (common/graph/expr.h has their operators). The first error is kept for TraceStep.
class StepTrace {
 public:
  StepTrace(std::string_view name, int64_t batch_size, StepMode mode = StepMode::kTrain);

  // The next argument of the step: a batch of values of this shape. A batch may be shorter than the
  // batch size. A dataset feeds arguments by position.
  Expr Input(std::string_view name, DType dtype, const std::vector<int64_t>& shape = {});
  // The whole variable.
  Expr Read(const Variable& variable);
  // The rows of a table with these ids: [ids..., row...]. Only these rows are read, and only they
  // get a gradient.
  Expr Lookup(const Variable& table, Expr ids);

  // Keras' loss of each example, for Minimize, multiplied by `sample_weight`: [batch], or also the
  // other axes of the losses; none: 1. As in Keras, a cross entropy starts from the logits of a
  // prediction that a layer made by sigmoid or softmax. Losses that are no mean of such values
  // (with another `reduction`, with `ignore_class`, of masked steps) are for the second Minimize:
  // here they are errors.
  Expr Loss(const KerasClass& loss, Expr prediction, Expr label, Expr sample_weight = {});
  // Trains every trainable variable that was read so far on the mean of `losses`, which has one
  // value for each example, or several, plus the penalties of the regularizers of layers that were
  // called so far. Adds this loss as the metric "loss" and returns it. Called at most once. In a
  // step for evaluation it trains nothing.
  Expr Minimize(Expr losses);
  // The same for the loss of Keras' compile and fit: `reduction` decides how the losses and
  // weights of a batch become one number, and masked steps do not count.
  Expr Minimize(const KerasClass& loss, Expr prediction, Expr label, Expr sample_weight = {});
  // Adds a metric of Keras under its name, such as "binary_accuracy", or its argument `name`. With
  // weights it is one of Keras' `weighted_metrics`.
  void Metric(const KerasClass& metric, Expr prediction, Expr label, Expr sample_weight = {});
  // Adds `value` to StepResult::outputs.
  void Output(std::string_view name, Expr value);

  // For everything else: moving averages, metrics, an argument of another type.
  ProgramBuilder* builder() { return &builder_; }

 private:
  friend class Layer;
  friend absl::StatusOr<Program> TraceStep(std::string_view name, int64_t batch_size,
                                           const std::function<void(StepTrace*)>& step,
                                           StepMode mode);

  LayerOutput OutputOf(Expr value) const;
  absl::StatusOr<Expr> LossOf(const KerasClass& loss, Expr prediction, Expr label,
                              Expr sample_weight) const;
  absl::StatusOr<Expr> MinimizeLoss(const KerasClass& loss, Expr prediction, Expr label,
                                    Expr sample_weight);
  // Adds the penalties and the metric, and pushes the gradients. `per_record`: as in LossSums.
  // Axis 0 of `batch` are the records.
  Expr MinimizeSums(Expr total, Expr weight, double per_record, Expr batch);

  const int64_t batch_size_;
  const StepMode mode_;
  ProgramBuilder builder_;
  const int batch_;  // the symbol of the batch's axis
  // By its value: what a layer returned, with logits and mask.
  std::map<ValueId, LayerOutput> outputs_;
  std::set<std::string, std::less<>> frozen_;  // variables of layers that are not trainable
  std::map<std::string, Expr> penalties_;      // regularizers' summands of the loss, by variable
};

// Traces a step function:
//
//   COHORT_ASSIGN_OR_RETURN(const Program program, TraceStep("train", 32, [&](StepTrace* step) {
//     const Expr x = step->Input("x", DType::kFloat32, {784});
//     const Expr y = step->Input("y", DType::kFloat32, {1});
//     step->Minimize(Square(MatMul(x, step->Read(kernel)) - y));
//   }));
//
// Errors: the first one of tracing, or what ValidateProgram finds.
absl::StatusOr<Program> TraceStep(std::string_view name, int64_t batch_size,
                                  const std::function<void(StepTrace*)>& step,
                                  StepMode mode = StepMode::kTrain);

}  // namespace cohort

#endif  // COHORT_CHIEF_API_STEP_TRACE_H_

#ifndef COHORT_CHIEF_API_MODEL_H_
#define COHORT_CHIEF_API_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "chief/api/keras_class.h"
#include "chief/api/step_trace.h"
#include "chief/api/variable_set.h"

namespace cohort {

// A layer of Keras: a function of the values of a step. The first call declares its variables; all
// calls share them, in one step and in several. (In one step an Embedding may be called once.)
// Copies are the same layer.
//
//   const Layer hidden(&variables, {"Dense", {{"units", 64}, {"activation", "relu"}}});
//   const Layer out(&variables, {"Dense", {{"units", 1}, {"name", "out"}}});
//   ... TraceStep("train", 32, [&](StepTrace* step) {
//     const Expr x = step->Input("x", DType::kFloat32, {784});
//     const Expr y = step->Input("y", DType::kFloat32);
//     step->Minimize(step->Loss("MeanSquaredError", out(step, hidden(step, x)), y));
//   });
class Layer {
 public:
  // `variables` outlives the layer. A layer without the argument `name` gets Keras' name ("dense",
  // "dense_1"), the prefix of its variables' names. Errors of the class and its arguments are kept
  // for VariableSet::Specs and for TraceStep.
  Layer(VariableSet* variables, const KerasClass& layer);

  // Calls the layer. Dropout is active in a step for training. The result is no value after an
  // error, which TraceStep returns.
  Expr operator()(StepTrace* step, Expr input) const;
  Expr operator()(StepTrace* step, const std::vector<Expr>& inputs) const;

  const std::string& name() const;

 private:
  struct State;

  absl::StatusOr<LayerOutput> Call(StepTrace* step, const std::vector<Expr>& inputs) const;
  // Keeps the variables of the first call. Errors: InvalidArgument if a later call needs others.
  absl::Status Declare(std::vector<v1::VariableSpec> specs) const;

  std::shared_ptr<State> state_;
};

// Layers, each of which takes the value of the one before.
class Model {
 public:
  // The value of the last layer. A batch must fit the model's Input, if it has one.
  Expr operator()(StepTrace* step, Expr input) const;

  const std::vector<Layer>& layers() const { return layers_; }

 private:
  friend Model BuildModel(VariableSet* variables, const std::vector<KerasClass>& layers);

  std::shared_ptr<const v1::ClassConfig> input_;  // the complete Input; null: there is none
  DType floatx_ = DType::kFloat32;
  std::vector<Layer> layers_;
};

// Makes a sequential model, as keras.Sequential:
//
//   const Model model = BuildModel(&variables, {{"Input", {{"shape", {784}}}},
//                                               {"Dense", {{"units", 64}, {"activation", "relu"}}},
//                                               {"Dropout", {{"rate", 0.2}}},
//                                               {"Dense", {{"units", 10}}}});
//   ... const Expr prediction = model(step, x);
//
// With an Input, which must be the first, the variables are declared at once, for a batch of its
// shape. Without one the first call declares them. Errors are kept as those of Layer.
Model BuildModel(VariableSet* variables, const std::vector<KerasClass>& layers);

}  // namespace cohort

#endif  // COHORT_CHIEF_API_MODEL_H_

#ifndef COHORT_COMMON_OPTIMIZERS_OPTIMIZER_RULES_LOOPS_H_
#define COHORT_COMMON_OPTIMIZERS_OPTIMIZER_RULES_LOOPS_H_

#include <cstddef>
#include <cstdint>

#include "common/optimizers/optimizer_rules.h"

namespace cohort {

// The inner loops of the optimizer rules, with the widest vectors that the processor has. One
// rounding per operation in the order in which Keras 3 writes them
// (keras/src/optimizers/{sgd,adam,rmsprop}.py); an element's result never depends on where in a
// range it lies.

// Elements of a variable with their slots. In place or disjoint, as UpdateTarget says.
template <typename T>
struct UpdateRange {
  const T* variable_in = nullptr;
  T* variable_out = nullptr;
  const T* slots_in[kMaxSlots] = {};
  T* slots_out[kMaxSlots] = {};
  const T* gradient = nullptr;  // null: zeros; aligned to nothing: only for vector loads and memcpy
  T gradient_scale = 1;         // 1 / weight
  int64_t elements = 0;
};

// Every step begins with variable -= variable * weight_decay * learning_rate.
template <typename T>
struct SgdStep {
  T learning_rate, weight_decay, momentum;
  bool nesterov;
};

template <typename T>
struct AdamStep {
  T learning_rate, weight_decay;
  T alpha;  // learning_rate * sqrt(1 - beta_2^t) / (1 - beta_1^t)
  T one_minus_beta_1, one_minus_beta_2, epsilon;
  bool amsgrad;
};

template <typename T>
struct RmspropStep {
  T learning_rate, weight_decay, rho, one_minus_rho, momentum, epsilon;
  bool centered;
};

// Slots: momentum, if there is any.
void ApplyRange(const SgdStep<float>& step, const UpdateRange<float>& range);
void ApplyRange(const SgdStep<double>& step, const UpdateRange<double>& range);
// Slots: momentum, velocity, velocity_hat if amsgrad.
void ApplyRange(const AdamStep<float>& step, const UpdateRange<float>& range);
void ApplyRange(const AdamStep<double>& step, const UpdateRange<double>& range);
// Slots: velocity, momentum if there is any, average_gradient if centered.
void ApplyRange(const RmspropStep<float>& step, const UpdateRange<float>& range);
void ApplyRange(const RmspropStep<double>& step, const UpdateRange<double>& range);

// Whether any of `count` values is NaN or infinite. `values` is aligned to nothing.
bool AnyNonFinite(const float* values, size_t count);
bool AnyNonFinite(const double* values, size_t count);

// What the loops above run with on this processor, by Highway's name ("AVX2"): part of the numeric
// fingerprint of a parameter server.
const char* OptimizerInstructionSet();
// The library that they are written with, and its version: "highway 1.0.3".
const char* OptimizerLibraries();

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_OPTIMIZER_RULES_LOOPS_H_

#ifndef COHORT_COMMON_OPTIMIZERS_OPTIMIZER_RULES_LOOPS_H_
#define COHORT_COMMON_OPTIMIZERS_OPTIMIZER_RULES_LOOPS_H_

#include <cstddef>
#include <cstdint>

#include "common/optimizers/optimizer_rules.h"

namespace cohort {

// The inner loops of the optimizer rules, with the widest vectors that the processor has. They
// round once per operation, in the order of Keras 3
// (keras/src/optimizers/{sgd,adam,rmsprop}.py). The result of an element never depends on its
// position in a range.

// Elements of a variable with their slots, in place or disjoint (see UpdateTarget).
template <typename T>
struct UpdateRange {
  const T* variable_in = nullptr;
  T* variable_out = nullptr;
  const T* slots_in[kMaxSlots] = {};
  T* slots_out[kMaxSlots] = {};
  const T* gradient = nullptr;  // null: zeros. Not aligned: only for vector loads and memcpy
  T gradient_scale = 1;         // 1 / weight
  int64_t elements = 0;
};

// Every step starts with variable -= variable * weight_decay * learning_rate.
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

// Returns true if any of `count` values is NaN or infinite. `values` need not be aligned.
bool AnyNonFinite(const float* values, size_t count);
bool AnyNonFinite(const double* values, size_t count);

// Returns Highway's name of the instruction set that the loops use on this processor ("AVX2"). It
// is part of the numeric fingerprint of a parameter server.
const char* OptimizerInstructionSet();
// Returns the library of the loops and its version: "highway 1.0.3".
const char* OptimizerLibraries();

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_OPTIMIZER_RULES_LOOPS_H_

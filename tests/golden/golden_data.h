#ifndef COHORT_TESTS_GOLDEN_GOLDEN_DATA_H_
#define COHORT_TESTS_GOLDEN_GOLDEN_DATA_H_

#include <cmath>
#include <cstdint>

#include "common/tensor/tensor.h"

namespace cohort::golden {

// The numbers of golden_data.py: inputs, initial weights and dropout masks of the golden files.

// SplitMix64 (Steele, Lea, Flood 2014) at position i, in [0, 1).
inline double Uniform(uint64_t seed, uint64_t i) {
  uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z = z ^ (z >> 31);
  return static_cast<double>(z >> 11) * 0x1p-53;
}

inline uint64_t WeightSeed(uint64_t model_seed, int variable) {
  return model_seed * 1000 + static_cast<uint64_t>(variable);
}
inline uint64_t InputSeed(uint64_t model_seed, int step, int position) {
  return model_seed * 1000 + 100 + static_cast<uint64_t>(step * 10 + position);
}
inline constexpr int kLabelPosition = 9;
inline uint64_t MaskSeed(uint64_t model_seed, int step, int number) {
  return model_seed * 1000 + 500'000'000 + static_cast<uint64_t>(step * 10 + number);
}

// Uniform in [low, high), as float32 or float64.
inline Tensor UniformTensor(uint64_t seed, DType dtype, Dims dims, double low, double high) {
  Tensor t(dtype, std::move(dims));
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const double v = low + (high - low) * Uniform(seed, static_cast<uint64_t>(i));
    if (dtype == DType::kFloat64) {
      t.mutable_values<double>()[static_cast<size_t>(i)] = v;
    } else {
      t.mutable_values<float>()[static_cast<size_t>(i)] = static_cast<float>(v);
    }
  }
  return t;
}

// Integers in [0, bound), int64.
inline Tensor IntegerTensor(uint64_t seed, Dims dims, int64_t bound) {
  Tensor t(DType::kInt64, std::move(dims));
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    t.mutable_values<int64_t>()[static_cast<size_t>(i)] = static_cast<int64_t>(
        std::floor(Uniform(seed, static_cast<uint64_t>(i)) * static_cast<double>(bound)));
  }
  return t;
}

}  // namespace cohort::golden

#endif  // COHORT_TESTS_GOLDEN_GOLDEN_DATA_H_

#ifndef COHORT_COMMON_PLACEMENT_INITIALIZERS_H_
#define COHORT_COMMON_PLACEMENT_INITIALIZERS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "common/tensor/dtype.h"

namespace cohort {

namespace v1 {
class InitializerSpec;
}

// Computes the first values of a variable as a pure function of (seed, variable name, element
// index), so that they depend on no shard, server or thread. The distributions are those of Keras;
// the random numbers come from Philox (common/tensor/philox.h). A float32 value is the rounded
// float64 value.
//
// Element i of the logical variable (row-major; in a hash table key * row_elements + column, modulo
// 2^64) takes 64 bits: words 2 (i % 2) and 2 (i % 2) + 1 of the Philox block whose counter is
// {i / 2, 0, 0} and whose key is derived from seed and name. TruncatedNormal takes the counter
// {i / 2, t, 0} of the first try t that lies within two standard deviations. Orthogonal computes
// the whole matrix once, from normal numbers: each shard of the variable does. A plain value type.
class Initializer {
 public:
  // GlorotUniform, RandomUniform, RandomNormal, TruncatedNormal, Zeros, Ones, Constant, Identity,
  // Orthogonal, and OnesWithin: 1 from element fan_in up to fan_out, `value` elsewhere, as a bias
  // that begins with open forget gates. (Others are special cases of these.) Errors:
  // InvalidArgument that names the field; Unimplemented for a class that this build lacks.
  static absl::StatusOr<Initializer> Create(const v1::InitializerSpec& spec,
                                            std::string_view variable);

  // Writes elements [begin, end) of the logical variable to out[0 .. end - begin). Float dtypes
  // take any class, integer dtypes only Zeros, Ones and Constant (others are written as zeros).
  void Fill(DType dtype, uint64_t begin, uint64_t end, void* out) const;

 private:
  enum class Kind : uint8_t {
    kConstant,
    kUniform,
    kNormal,
    kTruncated,
    kIdentity,
    kOnesWithin,
    kMatrix
  };
  Initializer() = default;

  template <typename T>
  void FillFloating(uint64_t begin, uint64_t end, T* out) const;

  Kind kind_ = Kind::kConstant;
  uint64_t key_ = 0;
  double a_ = 0;          // the constant, the lower bound, the mean, the value of the diagonal
  double b_ = 0;          // the upper bound, the standard deviation
  uint64_t columns_ = 1;  // identity
  uint64_t begin_ = 0, end_ = 0;                       // the elements that are 1; all others are a_
  std::shared_ptr<const std::vector<double>> matrix_;  // orthogonal
};

}  // namespace cohort

#endif  // COHORT_COMMON_PLACEMENT_INITIALIZERS_H_

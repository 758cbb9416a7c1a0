#ifndef COHORT_COMMON_KERNELS_SCALAR_OPS_H_
#define COHORT_COMMON_KERNELS_SCALAR_OPS_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "common/device/host_device.h"
#include "common/tensor/precision.h"

// What elementwise ops compute of one element: the bodies of their kernels on all devices.
namespace cohort::scalar {

struct Add {
  template <typename T>
  static COHORT_HD T Of(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Sub {
  template <typename T>
  static COHORT_HD T Of(T a, T b) {
    return static_cast<T>(a - b);
  }
};
struct Mul {
  template <typename T>
  static COHORT_HD T Of(T a, T b) {
    return static_cast<T>(a * b);
  }
};
struct Div {
  template <typename T>
  static COHORT_HD T Of(T a, T b) {
    return static_cast<T>(a / b);
  }
};
// NaN if either is.
struct Maximum {
  template <typename T>
  static COHORT_HD T Of(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
// NaN if either is.
struct Minimum {
  template <typename T>
  static COHORT_HD T Of(T a, T b) {
    return a < b || a != a ? a : b;
  }
};
struct Pow {
  template <typename T>
  static COHORT_HD T Of(T a, T b) {
    return std::pow(a, b);
  }
};
struct Greater {
  template <typename T>
  static COHORT_HD bool Of(T a, T b) {
    return a > b;
  }
};
struct Equal {
  template <typename T>
  static COHORT_HD bool Of(T a, T b) {
    return a == b;
  }
};
struct GreaterEqual {
  template <typename T>
  static COHORT_HD bool Of(T a, T b) {
    return a >= b;
  }
};
struct LogicalAnd {
  static COHORT_HD bool Of(bool a, bool b) { return a && b; }
};
struct LogicalOr {
  static COHORT_HD bool Of(bool a, bool b) { return a || b; }
};
struct LogicalNot {
  static COHORT_HD bool Of(bool x) { return !x; }
};

struct Neg {
  template <typename T>
  static COHORT_HD T Of(T x) {
    return static_cast<T>(-x);
  }
};
struct Square {
  template <typename T>
  static COHORT_HD T Of(T x) {
    return static_cast<T>(x * x);
  }
};
struct Abs {
  template <typename T>
  static COHORT_HD T Of(T x) {
    return std::abs(x);
  }
};
struct Floor {
  template <typename T>
  static COHORT_HD T Of(T x) {
    return std::floor(x);
  }
};
// To the nearest integer; halfway: to the even one.
struct Round {
  template <typename T>
  static COHORT_HD T Of(T x) {
    return std::rint(x);
  }
};
struct RoundToBfloat16 {
  template <typename T>
  static COHORT_HD T Of(T x) {
    return static_cast<T>(RoundTo(Precision::kBfloat16, static_cast<float>(x)));
  }
};
// NaN stays NaN.
struct Sign {
  template <typename T>
  static COHORT_HD T Of(T x) {
    return x > T{0} ? T{1} : x < T{0} ? T{-1} : x;
  }
};
struct Identity {
  template <typename T>
  static COHORT_HD T Of(T x) {
    return x;
  }
};
struct Sqrt {
  template <typename T>
  static COHORT_HD T Of(T x) {
    return std::sqrt(x);
  }
};
struct Rsqrt {
  template <typename T>
  static COHORT_HD T Of(T x) {
    return T{1} / std::sqrt(x);
  }
};
// NaN stays NaN.
struct Relu {
  template <typename T>
  static COHORT_HD T Of(T x) {
    return x < T{0} ? T{0} : x;
  }
};

struct Exp {
  template <typename T>
  static COHORT_HD T Of(T x) {
    return std::exp(x);
  }
};
struct Log {
  template <typename T>
  static COHORT_HD T Of(T x) {
    return std::log(x);
  }
};
struct Log1p {
  template <typename T>
  static COHORT_HD T Of(T x) {
    return std::log1p(x);
  }
};
struct Expm1 {
  template <typename T>
  static COHORT_HD T Of(T x) {
    return std::expm1(x);
  }
};
struct Sin {
  template <typename T>
  static COHORT_HD T Of(T x) {
    return std::sin(x);
  }
};
struct Cos {
  template <typename T>
  static COHORT_HD T Of(T x) {
    return std::cos(x);
  }
};
struct Atan {
  template <typename T>
  static COHORT_HD T Of(T x) {
    return std::atan(x);
  }
};
struct Tanh {
  template <typename T>
  static COHORT_HD T Of(T x) {
    return std::tanh(x);
  }
};
struct Erf {
  template <typename T>
  static COHORT_HD T Of(T x) {
    return std::erf(x);
  }
};
struct Sigmoid {
  template <typename T>
  static COHORT_HD T Of(T x) {
    const T e = std::exp(-std::abs(x));
    return x >= T{0} ? T{1} / (T{1} + e) : e / (T{1} + e);
  }
};
struct Softplus {
  template <typename T>
  static COHORT_HD T Of(T x) {
    return std::fmax(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
  }
};
// max(x, 0) - x z + log(1 + exp(-|x|)) of a label z and a logit x.
struct SigmoidCrossEntropy {
  template <typename T>
  static COHORT_HD T Of(T z, T x) {
    return (x > T{0} ? x : T{0}) - x * z + std::log1p(std::exp(-std::abs(x)));
  }
};

// To bool: true unless it is zero. To an integer: rounded towards zero; a value out of range
// becomes the nearest one in range, NaN 0.
template <typename From, typename To>
COHORT_HD To Convert(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // Both bounds are powers of two, so that they are exact in From.
    constexpr From kTop =
        From{2} * static_cast<From>(To{1} << (std::numeric_limits<To>::digits - 1));
    constexpr From kBottom = static_cast<From>(std::numeric_limits<To>::min());
    if (x != x) return To{0};
    if (x >= kTop) return std::numeric_limits<To>::max();
    return x < kBottom ? std::numeric_limits<To>::min() : static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace cohort::scalar

#endif  // COHORT_COMMON_KERNELS_SCALAR_OPS_H_

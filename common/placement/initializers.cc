#include "common/placement/initializers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

#include "common/base/fnv1a.h"
#include "common/base/status.h"
#include "common/placement/orthogonal.h"
#include "common/tensor/philox.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

// Returns the two numbers in [0, 1) that one block gives.
std::pair<double, double> UniformPair(uint64_t block, uint64_t key, uint64_t attempt = 0) {
  const PhiloxBlock w = Philox(block, attempt, key);
  return {UniformFromBits(w[0] | static_cast<uint64_t>(w[1]) << 32),
          UniformFromBits(w[2] | static_cast<uint64_t>(w[3]) << 32)};
}

// Returns two independent numbers of the standard normal distribution (Box and Muller).
std::pair<double, double> NormalPair(uint64_t block, uint64_t key, uint64_t attempt = 0) {
  const auto [u, v] = UniformPair(block, key, attempt);
  const double radius = std::sqrt(-2 * std::log1p(-u));
  const double angle = 2 * std::numbers::pi * v;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// Returns the first normal numbers of a block's tries that lie in [-2, 2], each by itself.
std::pair<double, double> TruncatedPair(uint64_t block, uint64_t key) {
  std::pair<double, double> result = NormalPair(block, key);
  for (uint64_t attempt = 1; std::abs(result.first) > 2 || std::abs(result.second) > 2; ++attempt) {
    const auto [first, second] = NormalPair(block, key, attempt);
    if (std::abs(result.first) > 2) result.first = first;
    if (std::abs(result.second) > 2) result.second = second;
  }
  return result;
}

}  // namespace

absl::StatusOr<Initializer> Initializer::Create(const v1::InitializerSpec& spec,
                                                std::string_view variable) {
  Initializer init;
  init.key_ = PhiloxMix(spec.seed(), Fnv1a(variable));
  const std::string& name = spec.class_name();
  if (name == "Zeros" || name == "Ones" || name == "Constant") {
    init.a_ = name == "Constant" ? spec.value() : name == "Ones" ? 1 : 0;
  } else if (name == "RandomUniform") {
    init.kind_ = Kind::kUniform;
    init.a_ = spec.minval();
    init.b_ = spec.maxval();
    if (!(init.a_ <= init.b_)) {
      return InvalidArgument("variable \"{}\": RandomUniform with minval {} above maxval {}",
                             variable, init.a_, init.b_);
    }
  } else if (name == "RandomNormal" || name == "TruncatedNormal") {
    init.kind_ = name == "RandomNormal" ? Kind::kNormal : Kind::kTruncated;
    init.a_ = spec.mean();
    init.b_ = spec.stddev();
    if (!(init.b_ >= 0)) {
      return InvalidArgument("variable \"{}\": {} with a negative stddev, {}", variable, name,
                             init.b_);
    }
  } else if (name == "GlorotUniform") {
    // VarianceScaling(1, "fan_avg", "uniform"): keras/src/initializers/random_initializers.py.
    init.kind_ = Kind::kUniform;
    const double fans = static_cast<double>(spec.fan_in()) + static_cast<double>(spec.fan_out());
    init.b_ = std::sqrt(3.0 / std::max(1.0, fans / 2));
    init.a_ = -init.b_;
  } else if (name == "Identity") {
    init.kind_ = Kind::kIdentity;
    init.a_ = spec.value();
    init.columns_ = std::max<uint64_t>(1, spec.fan_out());
  } else if (name == "OnesWithin") {
    init.kind_ = Kind::kOnesWithin;
    init.a_ = spec.value();
    init.begin_ = spec.fan_in();
    init.end_ = spec.fan_out();
  } else if (name == "Orthogonal") {
    init.kind_ = Kind::kMatrix;
    auto matrix = OrthogonalMatrix(spec.fan_in(), spec.fan_out(), spec.value(), [&](uint64_t i) {
      const auto [first, second] = NormalPair(i / 2, init.key_);
      return i % 2 == 0 ? first : second;
    });
    if (!matrix.ok()) return Annotate(matrix.status(), fmt::format("variable \"{}\"", variable));
    init.matrix_ = std::make_shared<const std::vector<double>>(*std::move(matrix));
  } else {
    return Unimplemented(
        "variable \"{}\": initializer \"{}\" is not one of GlorotUniform, RandomUniform, "
        "RandomNormal, TruncatedNormal, Zeros, Ones, Constant, Identity, OnesWithin, Orthogonal",
        variable, name);
  }
  return init;
}

template <typename T>
void Initializer::FillFloating(uint64_t begin, uint64_t end, T* out) const {
  if (kind_ == Kind::kConstant) {
    std::fill_n(out, end - begin, static_cast<T>(a_));
    return;
  }
  if (kind_ == Kind::kOnesWithin) {
    for (uint64_t i = begin; i != end; ++i) {
      *out++ = static_cast<T>(i >= begin_ && i < end_ ? 1 : a_);
    }
    return;
  }
  if (kind_ == Kind::kIdentity || kind_ == Kind::kMatrix) {
    for (uint64_t i = begin; i != end; ++i) {
      const double value = kind_ == Kind::kMatrix ? (i < matrix_->size() ? (*matrix_)[i] : 0)
                           : i / columns_ == i % columns_ ? a_
                                                          : 0;
      *out++ = static_cast<T>(value);
    }
    return;
  }
  for (uint64_t i = begin; i != end;) {
    const auto [first, second] = kind_ == Kind::kUniform  ? UniformPair(i / 2, key_)
                                 : kind_ == Kind::kNormal ? NormalPair(i / 2, key_)
                                                          : TruncatedPair(i / 2, key_);
    const double width = kind_ == Kind::kUniform ? b_ - a_ : b_;
    if (i % 2 == 0) {
      *out++ = static_cast<T>(a_ + width * first);
      ++i;
    }
    if (i != end) {
      *out++ = static_cast<T>(a_ + width * second);
      ++i;
    }
  }
}

void Initializer::Fill(DType dtype, uint64_t begin, uint64_t end, void* out) const {
  const uint64_t n = end - begin;
  const double constant = kind_ == Kind::kConstant ? a_ : 0;
  switch (dtype) {
    case DType::kFloat32:
      return FillFloating(begin, end, static_cast<float*>(out));
    case DType::kFloat64:
      return FillFloating(begin, end, static_cast<double*>(out));
    case DType::kInt32:
      std::fill_n(static_cast<int32_t*>(out), n, static_cast<int32_t>(constant));
      return;
    case DType::kInt64:
      std::fill_n(static_cast<int64_t*>(out), n, static_cast<int64_t>(constant));
      return;
    case DType::kUint8:
      std::fill_n(static_cast<uint8_t*>(out), n, static_cast<uint8_t>(constant));
      return;
    case DType::kBool:
      std::fill_n(static_cast<bool*>(out), n, constant != 0);
      return;
    case DType::kInvalid:
      return;
  }
}

}  // namespace cohort

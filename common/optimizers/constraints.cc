#include "common/optimizers/constraints.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "common/base/status.h"

namespace cohort {
namespace {

constexpr double kNormEpsilon = 1e-7;  // keras.config.epsilon()

Argument AxisArgument() {
  return Ints("axis", "Axes along which the norm of a vector is taken.")
      .Default(std::vector<int64_t>{0});
}

std::vector<ConstraintClass> ConstraintClasses() {
  return {
      {{"MaxNorm",
        {},
        "Shortens vectors to a norm.",
        {Float("max_value", "Most norm.").Default(2).AtLeast(0), AxisArgument()}},
       [](const Config& config, double norm) {
         return std::clamp(norm, 0.0, config.Float("max_value"));
       }},
      {{"MinMaxNorm",
        {},
        "Scales vectors to a norm between two.",
        {Float("min_value", "Least norm.").Default(0).AtLeast(0),
         Float("max_value", "Most norm.").Default(1).AtLeast(0),
         Float("rate", "How much of the way a step goes.").Default(1).Between(0, 1),
         AxisArgument()}},
       [](const Config& config, double norm) {
         const double rate = config.Float("rate");
         const double least = config.Float("min_value"), most = config.Float("max_value");
         return rate * std::min(std::max(norm, least), most) + (1 - rate) * norm;
       }},
      {{"NonNeg", {}, "Elements below 0 become 0.", {}}},
      {{"UnitNorm", {}, "Scales vectors to the norm 1.", {AxisArgument()}},
       [](const Config&, double) { return 1.0; }},
  };
}

}  // namespace

const ClassRegistry<ConstraintClass>& Constraints() {
  static const auto& constraints = *new ClassRegistry<ConstraintClass>(
      "constraint", SchemaSet::Spelling::kKeras, "", ConstraintClasses());
  return constraints;
}

const SchemaSet& ConstraintSchemas() { return Constraints(); }

Argument ConstraintArgument(std::string_view name) {
  const std::string_view weight = name.substr(0, name.rfind('_'));
  return Object(name, ConstraintSchemas, fmt::format("What the {} is after each update.", weight))
      .Optional();
}

absl::StatusOr<Constraint> Constraint::Create(const v1::ClassConfig& config,
                                              std::span<const int64_t> dims) {
  Constraint made;
  COHORT_ASSIGN_OR_RETURN(made.class_, Constraints().Find(config.class_name()));
  COHORT_ASSIGN_OR_RETURN(made.config_, CompleteConfig(made.class_->schema, config));
  if (made.class_->norm == nullptr) return made;
  const auto rank = static_cast<int64_t>(dims.size());
  std::vector<bool> along(dims.size());
  for (const int64_t given : Config(made.config_).Ints("axis")) {
    const int64_t axis = given < 0 ? given + rank : given;
    if (axis < 0 || axis >= rank) {
      return InvalidArgument("{}: axis {} is not one of the shape [{}]", config.class_name(), given,
                             fmt::join(dims, ", "));
    }
    along[static_cast<size_t>(axis)] = true;
  }
  if (Config(made.config_).Ints("axis").empty()) {
    return InvalidArgument("{}: `axis` names no axis: a norm needs one", config.class_name());
  }
  const bool whole = along[0];
  made.scope_ = whole ? UpdateScope::kVariable : UpdateScope::kRow;
  for (size_t axis = whole ? 0 : 1; axis < dims.size(); ++axis) {
    made.dims_.push_back(dims[axis]);
    made.strides_.push_back(along[axis] ? 0 : 1);
  }
  for (size_t i = made.dims_.size(); i-- > 0;) {
    if (made.strides_[i] == 0) continue;
    made.strides_[i] = made.vectors_;
    made.vectors_ *= made.dims_[i];
  }
  return made;
}

void Constraint::Apply(float* values, int64_t elements) const { Scale(values, elements); }
void Constraint::Apply(double* values, int64_t elements) const { Scale(values, elements); }

template <typename T>
void Constraint::Scale(T* values, int64_t elements) const {
  if (class_->norm == nullptr) {
    for (int64_t i = 0; i < elements; ++i) values[i] = values[i] > 0 ? values[i] : T(0);
    return;
  }
  const int64_t part = std::accumulate(dims_.begin(), dims_.end(), int64_t{1}, std::multiplies<>());
  if (part == 0) return;
  // Visits the elements of a row or of the variable with the number of their vector.
  const auto for_each = [this, part](const auto& visit) {
    std::vector<int64_t> at(dims_.size());
    const int64_t last = dims_.back(), stride = strides_.back();
    for (int64_t begin = 0, vector = 0; begin < part; begin += last) {
      for (int64_t i = 0; i < last; ++i) visit(begin + i, vector + i * stride);
      for (size_t axis = dims_.size() - 1; axis-- > 0;) {
        vector += strides_[axis];
        if (++at[axis] < dims_[axis]) break;
        vector -= strides_[axis] * dims_[axis];
        at[axis] = 0;
      }
    }
  };
  const Config config(config_);
  const T epsilon = static_cast<T>(kNormEpsilon);
  std::vector<double> squares(static_cast<size_t>(vectors_));
  std::vector<T> factors(squares.size());
  for (int64_t begin = 0; begin < elements; begin += part) {
    T* const row = values + begin;
    std::fill(squares.begin(), squares.end(), 0);
    for_each([&](int64_t i, int64_t vector) {
      squares[static_cast<size_t>(vector)] += static_cast<double>(row[i]) * row[i];
    });
    for (size_t v = 0; v < squares.size(); ++v) {
      const T norm = static_cast<T>(std::sqrt(squares[v]));
      factors[v] = static_cast<T>(class_->norm(config, norm)) / (epsilon + norm);
    }
    for_each([&](int64_t i, int64_t vector) { row[i] *= factors[static_cast<size_t>(vector)]; });
  }
}

}  // namespace cohort

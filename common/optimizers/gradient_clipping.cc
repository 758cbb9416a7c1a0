#include "common/optimizers/gradient_clipping.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/optimizers/optimizers.h"
#include "common/optimizers/rules/rule.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

using Kind = GradientClipping::Kind;

constexpr std::pair<std::string_view, Kind> kArguments[] = {
    {"clipnorm", Kind::kNorm}, {"clipvalue", Kind::kValue}, {"global_clipnorm", Kind::kGlobalNorm}};

}  // namespace

absl::StatusOr<GradientClipping> GradientClipping::Of(const v1::OptimizerSpec& given) {
  COHORT_ASSIGN_OR_RETURN(const v1::OptimizerSpec spec, CompleteOptimizer(given));
  const Config config(spec.rule());
  for (const auto& [name, kind] : kArguments) {
    if (!config.IsNone(name) && config.Float(name) > 0) {
      return GradientClipping{kind, config.Float(name)};
    }
  }
  return GradientClipping();
}

double GradientClipping::ScaleOf(double norm) const {
  if (!by_norm()) return 1;
  const double scale = limit / std::max(norm, limit);
  // Keras makes all gradients NaN if the common norm is not finite.
  return kind == Kind::kGlobalNorm ? scale + (norm - norm) : scale;
}

std::vector<Argument> ClippingArguments() {
  const auto argument = [](std::string_view name, std::string_view doc) {
    return Float(name, doc).Optional().Between(0, kMostHyperparameter);
  };
  return {
      argument("clipnorm", "Most norm of the gradient of each variable."),
      argument("clipvalue", "Most absolute value of each element of a gradient."),
      argument("global_clipnorm", "Most norm of the gradients of all variables of the optimizer.")};
}

absl::Status CheckClipping(const v1::ClassConfig& complete, std::string* argument) {
  const Config config(complete);
  std::string_view first;
  for (const auto& [name, kind] : kArguments) {
    if (config.IsNone(name)) continue;
    if (!first.empty()) {
      if (argument != nullptr) *argument = std::string(name);
      return InvalidArgument(
          "{}: only one of clipnorm, clipvalue and global_clipnorm can be set, not both {} and {}",
          complete.class_name(), first, name);
    }
    first = name;
  }
  return absl::OkStatus();
}

}  // namespace cohort

#include "common/model/class_config.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <cmath>

#include "common/base/suggest.h"
#include "common/model/planned_names.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

// keras/src/optimizers: sgd.py, adam.py, rmsprop.py. weight_decay: Keras' None is 0 here.
std::span<const ConfigClass> Optimizers() {
  static const std::vector<std::string_view> missing = {"clipnorm",
                                                        "clipvalue",
                                                        "global_clipnorm",
                                                        "use_ema",
                                                        "ema_momentum",
                                                        "ema_overwrite_frequency",
                                                        "loss_scale_factor",
                                                        "gradient_accumulation_steps",
                                                        "name"};
  static const std::vector<ConfigClass>& classes = *new std::vector<ConfigClass>{
      {"SGD",
       {},
       {{"learning_rate", 0.01}, {"momentum", 0}, {"nesterov", 0}, {"weight_decay", 0}},
       missing},
      {"Adam",
       {},
       {{"learning_rate", 0.001},
        {"beta_1", 0.9},
        {"beta_2", 0.999},
        {"epsilon", 1e-7},
        {"amsgrad", 0},
        {"weight_decay", 0}},
       missing},
      {"RMSprop",
       {},
       {{"learning_rate", 0.001},
        {"rho", 0.9},
        {"momentum", 0},
        {"epsilon", 1e-7},
        {"centered", 0},
        {"weight_decay", 0}},
       missing},
  };
  return classes;
}

// keras/src/initializers: constant_initializers.py, random_initializers.py.
std::span<const ConfigClass> Initializers() {
  static const std::vector<ConfigClass>& classes = *new std::vector<ConfigClass>{
      {"GlorotUniform", {"glorot_uniform"}, {{"seed", 0}}, {}},
      {"RandomUniform",
       {"random_uniform", "uniform"},
       {{"minval", -0.05}, {"maxval", 0.05}, {"seed", 0}},
       {}},
      {"RandomNormal",
       {"random_normal", "normal"},
       {{"mean", 0}, {"stddev", 0.05}, {"seed", 0}},
       {}},
      {"Zeros", {"zeros", "zero"}, {}, {}},
      {"Ones", {"ones", "one"}, {}, {}},
      {"Constant", {"constant"}, {{"value", 0}}, {}},
  };
  return classes;
}

absl::Status NoSuchClass(std::string_view kind, std::string_view name,
                         std::span<const ConfigClass> classes) {
  std::vector<std::string_view> names;
  for (const ConfigClass& c : classes) names.push_back(c.name);
  return NoSuchName(kind, name, names);
}

template <typename Map>
absl::StatusOr<std::map<std::string_view, double>> Values(const ConfigClass& c, const Map& config) {
  std::map<std::string_view, double> values;
  for (const ConfigArgument& argument : c.arguments) values[argument.name] = argument.default_value;
  for (const auto& [name, value] : config) {
    COHORT_RETURN_IF_ERROR(c.CheckArgument(name));
    if (!std::isfinite(value)) return InvalidArgument("{} of {} is not finite", name, c.name);
    values.find(name)->second = value;
  }
  return values;
}

absl::Status CheckOptimizer(const v1::OptimizerSpec& spec) {
  const auto in_unit = [&](std::string_view name, double value) {
    if (value >= 0 && value <= 1) return absl::OkStatus();
    return InvalidArgument("{} of {} must lie in [0, 1], and is {}", name, spec.class_name(),
                           value);
  };
  // The limits are those of the servers (common/optimizers/optimizer_rules.cc).
  const auto below_one = [&](std::string_view name, double value) {
    if (value >= 0 && value <= 1 - 1e-15) return absl::OkStatus();
    return InvalidArgument("{} of {} must lie in [0, 1), and is {}", name, spec.class_name(),
                           value);
  };
  const auto bounded = [&](std::string_view name, double value) {
    if (value >= 0 && value <= 1e30) return absl::OkStatus();
    return InvalidArgument("{} of {} must lie in [0, 1e30], and is {}", name, spec.class_name(),
                           value);
  };
  COHORT_RETURN_IF_ERROR(bounded("learning_rate", spec.learning_rate()));
  COHORT_RETURN_IF_ERROR(bounded("epsilon", spec.epsilon()));
  COHORT_RETURN_IF_ERROR(bounded("weight_decay", spec.weight_decay()));
  COHORT_RETURN_IF_ERROR(in_unit("momentum", spec.momentum()));
  COHORT_RETURN_IF_ERROR(in_unit("rho", spec.rho()));
  COHORT_RETURN_IF_ERROR(below_one("beta_1", spec.beta_1()));
  COHORT_RETURN_IF_ERROR(below_one("beta_2", spec.beta_2()));
  const std::string& sparse = spec.sparse_update();
  if (sparse != "keras" && sparse != "lazy") {
    return InvalidArgument("sparse_update must be keras or lazy, not \"{}\"", sparse);
  }
  return absl::OkStatus();
}

// compute_fans of keras/src/initializers/random_initializers.py.
std::pair<uint64_t, uint64_t> Fans(std::span<const int64_t> dims) {
  if (dims.empty()) return {1, 1};
  if (dims.size() == 1) return {dims[0], dims[0]};
  uint64_t receptive = 1;
  for (size_t i = 0; i + 2 < dims.size(); ++i) receptive *= static_cast<uint64_t>(dims[i]);
  return {static_cast<uint64_t>(dims[dims.size() - 2]) * receptive,
          static_cast<uint64_t>(dims.back()) * receptive};
}

}  // namespace

absl::Status ConfigClass::CheckArgument(std::string_view argument) const {
  std::vector<std::string> names;
  for (const ConfigArgument& a : arguments) {
    if (a.name == argument) return absl::OkStatus();
    names.emplace_back(a.name);
  }
  if (std::find(missing.begin(), missing.end(), argument) != missing.end()) {
    return Unimplemented("argument \"{}\" of {} is not supported yet; supported: {}", argument,
                         name, fmt::join(names, ", "));
  }
  if (names.empty()) return InvalidArgument("{} has no arguments, and no \"{}\"", name, argument);
  return InvalidArgument("{} has no argument \"{}\"; it has {}{}", name, argument.substr(0, 60),
                         fmt::join(names, ", "),
                         DidYouMean(argument, std::span<const std::string>(names)));
}

absl::StatusOr<const ConfigClass*> FindOptimizer(std::string_view name) {
  const std::string lower = absl::AsciiStrToLower(std::string(name));
  for (const ConfigClass& c : Optimizers()) {
    if (absl::AsciiStrToLower(std::string(c.name)) == lower) return &c;
  }
  return NoSuchClass("optimizer", name, Optimizers());
}

absl::StatusOr<const ConfigClass*> FindInitializer(std::string_view name) {
  for (const ConfigClass& c : Initializers()) {
    if (c.name == name) return &c;
    if (std::find(c.aliases.begin(), c.aliases.end(), name) != c.aliases.end()) return &c;
  }
  return NoSuchClass("initializer", name, Initializers());
}

absl::StatusOr<v1::OptimizerSpec> MakeOptimizer(const v1::OptimizerConfig& config) {
  COHORT_ASSIGN_OR_RETURN(const ConfigClass* c, FindOptimizer(config.class_name()));
  COHORT_ASSIGN_OR_RETURN(auto values, Values(*c, config.config()));
  v1::OptimizerSpec spec;
  spec.set_class_name(std::string(c->name));
  spec.set_learning_rate(values["learning_rate"]);
  spec.set_momentum(values["momentum"]);
  spec.set_nesterov(values["nesterov"] != 0);
  spec.set_rho(values["rho"]);
  spec.set_epsilon(values["epsilon"]);
  spec.set_centered(values["centered"] != 0);
  spec.set_beta_1(values["beta_1"]);
  spec.set_beta_2(values["beta_2"]);
  spec.set_amsgrad(values["amsgrad"] != 0);
  spec.set_weight_decay(values["weight_decay"]);
  spec.set_sparse_update(config.sparse_update().empty() ? "keras" : config.sparse_update());
  COHORT_RETURN_IF_ERROR(CheckOptimizer(spec));
  return spec;
}

absl::StatusOr<v1::InitializerSpec> MakeInitializer(const v1::InitializerConfig& config,
                                                    std::string_view fallback, uint64_t job_seed,
                                                    std::span<const int64_t> dims) {
  const std::string_view name = config.class_name().empty() ? fallback : config.class_name();
  COHORT_ASSIGN_OR_RETURN(const ConfigClass* c, FindInitializer(name));
  COHORT_ASSIGN_OR_RETURN(auto values, Values(*c, config.config()));
  v1::InitializerSpec spec;
  spec.set_class_name(std::string(c->name));
  spec.set_minval(values["minval"]);
  spec.set_maxval(values["maxval"]);
  spec.set_mean(values["mean"]);
  spec.set_stddev(values["stddev"]);
  spec.set_value(c->name == "Ones" ? 1 : values["value"]);
  const auto seed = config.config().find("seed");
  spec.set_seed(seed == config.config().end()
                    ? job_seed
                    : static_cast<uint64_t>(static_cast<int64_t>(seed->second)));
  if (c->name == "GlorotUniform") {
    const auto [fan_in, fan_out] = Fans(dims);
    spec.set_fan_in(fan_in);
    spec.set_fan_out(fan_out);
  }
  if (spec.maxval() < spec.minval()) {
    return InvalidArgument("minval {} of {} exceeds maxval {}", spec.minval(), c->name,
                           spec.maxval());
  }
  if (spec.stddev() < 0) return InvalidArgument("stddev of {} is {}", c->name, spec.stddev());
  return spec;
}

}  // namespace cohort

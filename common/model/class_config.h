#ifndef COHORT_COMMON_MODEL_CLASS_CONFIG_H_
#define COHORT_COMMON_MODEL_CLASS_CONFIG_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace cohort::v1 {
class InitializerConfig;
class InitializerSpec;
class OptimizerConfig;
class OptimizerSpec;
}  // namespace cohort::v1

namespace cohort {

// Keras objects that are named by class and configured by numbers: optimizers and initializers.

struct ConfigArgument {
  std::string_view name;  // as in Keras
  double default_value = 0;
};

struct ConfigClass {
  std::string_view name;                  // "RandomUniform"
  std::vector<std::string_view> aliases;  // "random_uniform", "uniform"
  std::vector<ConfigArgument> arguments;
  // Keras has these and this version has not.
  std::vector<std::string_view> missing;

  // Errors: InvalidArgument or Unimplemented, with the nearest or all known arguments.
  absl::Status CheckArgument(std::string_view argument) const;
};

// By Keras' names: optimizers ignoring case, initializers exactly or in snake case. Errors:
// InvalidArgument that lists what there is.
absl::StatusOr<const ConfigClass*> FindOptimizer(std::string_view name);
absl::StatusOr<const ConfigClass*> FindInitializer(std::string_view name);

// With Keras' defaults for what the config leaves out. Errors: as above, and InvalidArgument naming
// a value that is out of its range.
absl::StatusOr<v1::OptimizerSpec> MakeOptimizer(const v1::OptimizerConfig& config);

// For a variable of these dims: fans as Keras counts them. Without a `seed` of its own it has the
// job's (each variable's numbers differ all the same: its name is part of the key). `fallback` is
// the class where the config names none.
absl::StatusOr<v1::InitializerSpec> MakeInitializer(const v1::InitializerConfig& config,
                                                    std::string_view fallback, uint64_t job_seed,
                                                    std::span<const int64_t> dims);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_CLASS_CONFIG_H_

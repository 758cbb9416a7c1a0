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
  // Keras has these arguments and this version does not.
  std::vector<std::string_view> missing;

  // Errors: InvalidArgument or Unimplemented, with the nearest or all known arguments.
  absl::Status CheckArgument(std::string_view argument) const;
};

// Finds a class by Keras' name: an optimizer ignoring case, an initializer exactly or in snake
// case. Errors: InvalidArgument that lists the known names.
absl::StatusOr<const ConfigClass*> FindOptimizer(std::string_view name);
absl::StatusOr<const ConfigClass*> FindInitializer(std::string_view name);

// Fills in Keras' defaults for arguments that the config leaves out. Errors: as above, and
// InvalidArgument that names a value out of its range.
absl::StatusOr<v1::OptimizerSpec> MakeOptimizer(const v1::OptimizerConfig& config);

// Makes the initializer of a variable with these dims; fans are counted as in Keras. Without a
// `seed` of its own the initializer has the seed of the job. (The numbers of two variables differ
// nevertheless, because the name is part of the key.) `fallback` is the class if the config names
// none.
absl::StatusOr<v1::InitializerSpec> MakeInitializer(const v1::InitializerConfig& config,
                                                    std::string_view fallback, uint64_t job_seed,
                                                    std::span<const int64_t> dims);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_CLASS_CONFIG_H_

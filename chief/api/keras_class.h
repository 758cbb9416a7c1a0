#ifndef COHORT_CHIEF_API_KERAS_CLASS_H_
#define COHORT_CHIEF_API_KERAS_CLASS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace cohort::v1 {
class InitializerSpec;
class OptimizerSpec;
}  // namespace cohort::v1

namespace cohort {

// A class by Keras' name, with the arguments that differ from Keras' defaults:
//
//   "zeros"
//   {"RMSprop", {{"learning_rate", 0.1}, {"centered", true}}}
struct KerasClass {
  using Argument = std::variant<bool, int64_t, double, std::string>;

  KerasClass(const char* class_name) : name(class_name) {}
  KerasClass(std::string_view class_name, std::map<std::string, Argument> config = {})
      : name(class_name), arguments(std::move(config)) {}

  std::string name;
  std::map<std::string, Argument> arguments;
};

// The spec of an optimizer or initializer, completed with Keras' defaults. `sparse_update` ("keras"
// or "lazy") is an argument of every optimizer. `dims` are those of the variable. An initializer
// without the argument `seed` has this one. Errors: InvalidArgument for an unknown class or
// argument, with the nearest or all known names; Unimplemented for one that is planned.
absl::StatusOr<v1::OptimizerSpec> MakeOptimizerSpec(const KerasClass& optimizer);
absl::StatusOr<v1::InitializerSpec> MakeInitializerSpec(const KerasClass& initializer,
                                                        uint64_t seed,
                                                        std::span<const int64_t> dims);

}  // namespace cohort

#endif  // COHORT_CHIEF_API_KERAS_CLASS_H_

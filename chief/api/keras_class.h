#ifndef COHORT_CHIEF_API_KERAS_CLASS_H_
#define COHORT_CHIEF_API_KERAS_CLASS_H_

#include <absl/status/statusor.h>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/schema/class_schema.h"
#include "proto/config.pb.h"

namespace cohort::v1 {
class InitializerSpec;
class OptimizerSpec;
}  // namespace cohort::v1

namespace cohort {

struct KerasClass;

// One argument of a class: a bool, a number, a string, a list of integers or strings, or a class.
// In braces, {2, 2} is a list of integers, and {"RandomNormal", {{"stddev", 0.1}}} is a class.
class KerasArgument {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T> KerasArgument(T value) : value_(ConfigOf(Widest<T>(value))) {}
  KerasArgument(const char* text) : value_(ConfigOf(std::string_view(text))) {}
  KerasArgument(std::string_view text) : value_(ConfigOf(text)) {}
  KerasArgument(const std::string& text) : value_(ConfigOf(std::string_view(text))) {}
  KerasArgument(std::initializer_list<int64_t> values)
      : value_(ConfigOf(std::vector<int64_t>(values))) {}
  KerasArgument(const std::vector<int64_t>& values) : value_(ConfigOf(values)) {}
  KerasArgument(const std::vector<std::string>& texts) : value_(ConfigOf(texts)) {}
  KerasArgument(const KerasClass& object);
  KerasArgument(const char* class_name, const std::map<std::string, KerasArgument>& arguments);

  const v1::ConfigValue& value() const { return value_; }

 private:
  template <typename T>
  using Widest =
      std::conditional_t<std::is_same_v<T, bool>, bool,
                         std::conditional_t<std::is_floating_point_v<T>, double, int64_t>>;

  v1::ConfigValue value_;
};

// A class by Keras' name, with the arguments that differ from Keras' defaults:
//
//   "zeros"
//   {"RMSprop", {{"learning_rate", 0.1}, {"centered", true}}}
//   {"Dense", {{"units", 10}, {"kernel_initializer", {"RandomNormal", {{"stddev", 0.1}}}}}}
struct KerasClass {
  KerasClass(const char* class_name) : name(class_name) {}
  KerasClass(std::string_view class_name, std::map<std::string, KerasArgument> config = {})
      : name(class_name), arguments(std::move(config)) {}

  v1::ClassConfig config() const;

  std::string name;
  std::map<std::string, KerasArgument> arguments;
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

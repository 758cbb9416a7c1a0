#include "common/model/keras_json/keras_calls.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/json_text.h"
#include "common/base/printable.h"
#include "common/base/status.h"

namespace cohort {
namespace {

using Json = nlohmann::json;
using References = std::vector<KerasReference>;

bool IsReference(const Json& value) {
  return value.is_array() && value.size() >= 3 && value[0].is_string() &&
         value[1].is_number_integer() && value[2].is_number_integer();
}

KerasReference ToReference(const Json& value) {
  return {value[0].get<std::string>(), value[1].get<int64_t>(), value[2].get<int64_t>(), ""};
}

// None, or a list of them: the mask of a nested model with several inputs.
bool IsNone(const Json& value) {
  return value.is_null() || (value.is_array() && std::all_of(value.begin(), value.end(), IsNone));
}

// Checks the arguments of a call beside its tensors: only those that change nothing are accepted.
absl::Status CheckArguments(const Json& arguments, bool is_keras_3) {
  if (!arguments.is_object()) return absl::OkStatus();
  for (const auto& [key, value] : arguments.items()) {
    if (IsNone(value)) continue;
    // In Keras 3, fit and evaluate replace it (operation_fn of keras/src/models/functional.py).
    if (is_keras_3 && key == "training" && value.is_boolean()) continue;
    return Unimplemented("the argument `{}` of a call is not supported yet", PrintableLine(key));
  }
  return absl::OkStatus();
}

absl::Status NoTensor(const Json& value) {
  return Unimplemented(
      "{} as the argument of a call is not supported yet; a layer is called on "
      "one tensor or a list of them",
      ShortText(value));
}

absl::Status AddOfKeras3(const Json& value, References* references) {
  const std::string class_name = StringMember(value, "class_name");
  if (class_name == "__keras_tensor__") {
    const Json* const config = FindMember(value, "config");
    const Json* const history = config == nullptr ? nullptr : FindMember(*config, "keras_history");
    if (history == nullptr || !IsReference(*history)) {
      return InvalidArgument("{} has no keras_history", ShortText(value));
    }
    references->push_back(ToReference(*history));
    return absl::OkStatus();
  }
  const Json* const items = class_name == "__tuple__" ? FindMember(value, "items") : &value;
  if (items == nullptr || !items->is_array()) return NoTensor(value);
  for (const Json& item : *items) COHORT_RETURN_IF_ERROR(AddOfKeras3(item, references));
  return absl::OkStatus();
}

absl::Status AddOfKeras2(const Json& value, References* references) {
  if (IsReference(value)) {
    if (value[0] == "_CONSTANT_VALUE") return NoTensor(value[2]);
    references->push_back(ToReference(value));
    return value.size() > 3 ? CheckArguments(value[3], false) : absl::OkStatus();
  }
  if (!value.is_array()) return NoTensor(value);
  for (const Json& item : value) COHORT_RETURN_IF_ERROR(AddOfKeras2(item, references));
  return absl::OkStatus();
}

absl::Status AddEnds(const Json& value, const std::string& key, References* references) {
  if (IsReference(value)) {
    references->push_back(ToReference(value));
    references->back().key = key;
    return absl::OkStatus();
  }
  if (!value.is_array() && !value.is_object()) {
    return InvalidArgument("{} is no reference to a layer, such as [\"dense\", 0, 0]",
                           ShortText(value));
  }
  for (const auto& [name, item] : value.items()) {
    COHORT_RETURN_IF_ERROR(AddEnds(item, value.is_object() ? name : key, references));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<References> ReadKerasCall(const Json& node) {
  References references;
  if (!node.is_object()) {
    COHORT_RETURN_IF_ERROR(AddOfKeras2(node, &references));
    return references;
  }
  const Json* const args = FindMember(node, "args");
  if (args == nullptr || !args->is_array()) return NoTensor(node);
  for (const Json& arg : *args) {
    if (!references.empty()) return NoTensor(arg);
    COHORT_RETURN_IF_ERROR(AddOfKeras3(arg, &references));
  }
  const Json* const kwargs = FindMember(node, "kwargs");
  if (kwargs != nullptr) COHORT_RETURN_IF_ERROR(CheckArguments(*kwargs, true));
  return references;
}

absl::StatusOr<References> ReadKerasEnds(const Json& ends) {
  References references;
  COHORT_RETURN_IF_ERROR(AddEnds(ends, "", &references));
  return references;
}

}  // namespace cohort

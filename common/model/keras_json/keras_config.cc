#include "common/model/keras_json/keras_config.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/base/json_text.h"
#include "common/base/printable.h"
#include "common/base/status.h"

namespace cohort {
namespace {

using Json = nlohmann::json;

// The name under which Keras serializes tuples and functions.
constexpr std::string_view kTuple = "__tuple__";
constexpr std::string_view kFunction = "function";

absl::StatusOr<v1::ConfigValue> ReadValue(const Json& value);

absl::StatusOr<v1::ConfigValue> ReadList(const Json& items) {
  v1::ConfigValue result;
  result.mutable_list();
  for (const Json& item : items) {
    COHORT_ASSIGN_OR_RETURN(*result.mutable_list()->add_values(), ReadValue(item));
  }
  return result;
}

absl::StatusOr<v1::ConfigValue> ReadObject(const Json& value) {
  const std::string name = StringMember(value, "class_name");
  if (name == kTuple) {
    const Json* const items = FindMember(value, "items");
    return ReadList(items != nullptr && items->is_array() ? *items : Json::array());
  }
  // A policy is an argument of layers, which have no other objects with a name alone.
  if (name.ends_with("Policy")) return ConfigOf(std::string_view(DTypePolicyName(value)));
  COHORT_ASSIGN_OR_RETURN(v1::ClassConfig object, ReadKerasClass(value));
  return ConfigOf(std::move(object));
}

absl::StatusOr<v1::ConfigValue> ReadValue(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return v1::ConfigValue();
    case Json::value_t::boolean:
      return ConfigOf(value.get<bool>());
    case Json::value_t::number_integer:
      return ConfigOf(value.get<int64_t>());
    case Json::value_t::number_unsigned:
      if (value.get<uint64_t>() > std::numeric_limits<int64_t>::max()) {
        return InvalidArgument("{} is out of range", value.get<uint64_t>());
      }
      return ConfigOf(value.get<int64_t>());
    case Json::value_t::number_float:
      return ConfigOf(value.get<double>());
    case Json::value_t::string:
      return ConfigOf(std::string_view(value.get_ref<const std::string&>()));
    case Json::value_t::array:
      return ReadList(value);
    case Json::value_t::object:
      return ReadObject(value);
    case Json::value_t::binary:
    case Json::value_t::discarded:
      break;
  }
  return InvalidArgument("{} is no argument", ShortText(value));
}

bool IsIn(std::string_view module, std::string_view package) {
  return module.starts_with(package) &&
         (module.size() == package.size() || module[package.size()] == '.');
}

bool IsNone(const v1::ConfigValue& value) {
  return value.value_case() == v1::ConfigValue::VALUE_NOT_SET;
}

absl::Status Prepare(const ClassSchema& schema, v1::ClassConfig* given);

// The same for the objects of an argument.
absl::Status PrepareObjects(const Argument& argument, v1::ConfigValue* value) {
  if (value->has_list() && argument.type == ArgumentType::kObjectList) {
    for (v1::ConfigValue& item : *value->mutable_list()->mutable_values()) {
      COHORT_RETURN_IF_ERROR(PrepareObjects(argument, &item));
    }
  }
  if (!value->has_object()) return absl::OkStatus();
  if (!argument.takes_object() && argument.type != ArgumentType::kObjectList) {
    return absl::OkStatus();
  }
  const auto inner = argument.classes().FindSchema(value->object().class_name());
  return inner.ok() ? Prepare(**inner, value->mutable_object()) : absl::OkStatus();
}

// Removes arguments that the schema lacks and that are None, also in nested objects. Refuses values
// that CompleteConfig would call mistyped, and that are only missing in this version.
absl::Status Prepare(const ClassSchema& schema, v1::ClassConfig* given) {
  std::vector<std::string> unused;
  for (auto& [key, value] : *given->mutable_config()) {
    const Argument* const argument = schema.Find(key);
    if (argument == nullptr) {
      if (IsNone(value)) unused.push_back(key);
      continue;
    }
    if (argument->planned && !IsNone(value) &&
        ConfigText(value) != ConfigText(argument->default_value)) {
      return Unimplemented("`{}` of {} is not supported yet", key, schema.name);
    }
    // Keras writes null for a choice that job files call none, if its default is another one.
    if (IsNone(value) && std::ranges::count(argument->choices, "none") > 0) {
      value = ConfigOf("none");
    }
    COHORT_RETURN_IF_ERROR(PrepareObjects(*argument, &value));
  }
  for (const std::string& key : unused) given->mutable_config()->erase(key);
  return absl::OkStatus();
}

}  // namespace

bool IsKerasClass(const Json& value) {
  return value.is_string() || !StringMember(value, "class_name").empty();
}

absl::StatusOr<v1::ClassConfig> ReadKerasClass(const Json& value) {
  v1::ClassConfig result;
  if (value.is_string()) {
    result.set_class_name(value.get<std::string>());
    return result;
  }
  if (!IsKerasClass(value)) {
    return InvalidArgument("{} is no class: it needs a \"class_name\" and a \"config\"",
                           ShortText(value));
  }
  result.set_class_name(StringMember(value, "class_name"));
  const Json* const config = FindMember(value, "config");
  if (config == nullptr) return result;
  if (result.class_name() == kFunction && config->is_string()) {
    result.set_class_name(config->get<std::string>());
    return result;
  }
  COHORT_RETURN_IF_ERROR(CheckKerasModule(value));
  if (!config->is_object()) {
    return InvalidArgument("the config of {} must be a mapping, not {}",
                           PrintableLine(result.class_name()), ShortText(*config));
  }
  for (const auto& [key, argument] : config->items()) {
    auto read = ReadValue(argument);
    if (!read.ok()) return Annotate(read.status(), PrintableLine(key));
    (*result.mutable_config())[key] = *std::move(read);
  }
  return result;
}

absl::StatusOr<v1::ClassConfig> CompleteKerasConfig(const ClassSchema& schema,
                                                    v1::ClassConfig given) {
  COHORT_RETURN_IF_ERROR(Prepare(schema, &given));
  return CompleteConfig(schema, given);
}

absl::StatusOr<v1::ClassConfig> ReadKerasClass(const Json& value, const SchemaSet& classes) {
  COHORT_ASSIGN_OR_RETURN(v1::ClassConfig given, ReadKerasClass(value));
  COHORT_ASSIGN_OR_RETURN(const ClassSchema* schema, classes.FindSchema(given.class_name()));
  return CompleteKerasConfig(*schema, std::move(given));
}

std::string DTypePolicyName(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  const Json* const config = FindMember(value, "config");
  return config == nullptr ? "" : StringMember(*config, "name");
}

absl::StatusOr<v1::ConfigValue> ReadKerasValue(const Json& value) { return ReadValue(value); }

bool IsKerasOperation(const Json& object) {
  const std::string module = StringMember(object, "module");
  return IsIn(module, "keras.src.ops") || IsIn(module, "keras.ops");
}

absl::Status CheckKerasModule(const Json& object) {
  const std::string module = StringMember(object, "module");
  const std::string class_name = PrintableLine(StringMember(object, "class_name"));
  const auto is_in = [&module](std::string_view package) { return IsIn(module, package); };
  if (class_name.ends_with("OpLambda") || class_name == "TensorFlowOpLayer") {
    return Unimplemented(
        "a function of TensorFlow on tensors is not supported here: use a layer, or write the JSON "
        "with TensorFlow 2.4 or later");
  }
  if (class_name == "Lambda") {
    return Unimplemented(
        "a Lambda layer holds Python code, which Cohort does not run; write it with operators and "
        "functions on tensors, and call to_json() again: `x * 2` or keras.ops.mean(x, axis=1), in "
        "Keras 2 tf.reduce_mean(x, axis=1)");
  }
  if (module.empty() || is_in("keras") || is_in("tf_keras") || is_in("tensorflow")) {
    return absl::OkStatus();
  }
  return Unimplemented("custom classes are not supported yet: {} is of the module \"{}\"",
                       class_name, PrintableLine(module));
}

}  // namespace cohort

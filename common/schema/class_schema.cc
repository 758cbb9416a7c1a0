#include "common/schema/class_schema.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "common/base/suggest.h"
#include "common/schema/class_registry.h"

namespace cohort {
namespace {

// Objects inside objects, deeper than any model needs. The limit keeps hostile input from
// exhausting the stack.
constexpr int kMaxDepth = 16;

std::string_view TypeName(ArgumentType type) {
  switch (type) {
    case ArgumentType::kBool:
      return "true or false";
    case ArgumentType::kInt:
      return "an integer";
    case ArgumentType::kFloat:
      return "a number";
    case ArgumentType::kString:
      return "a string";
    case ArgumentType::kInts:
      return "a list of integers";
    case ArgumentType::kFloats:
      return "a list of numbers";
    case ArgumentType::kStrings:
      return "a list of strings";
    case ArgumentType::kObject:
      return "a class";
    case ArgumentType::kObjects:
      return "names with classes";
    case ArgumentType::kObjectList:
      return "a list of classes";
  }
  return "";
}

bool IsNull(const v1::ConfigValue& value) {
  return value.value_case() == v1::ConfigValue::VALUE_NOT_SET;
}

std::string RangeText(const Argument& a) {
  if (std::isinf(a.max)) return fmt::format("at least {}", a.min);
  return fmt::format("in [{}, {}{}", a.min, a.max, a.below_max ? ")" : "]");
}

absl::Status CheckNumber(const Argument& a, double value) {
  if (std::isfinite(value) && value >= a.min && (a.below_max ? value < a.max : value <= a.max)) {
    return absl::OkStatus();
  }
  if (std::isinf(a.min)) return InvalidArgument("{} must be finite, not {}", a.name, value);
  return InvalidArgument("{} must be {}, not {}", a.name, RangeText(a), value);
}

absl::Status CheckString(const Argument& a, const std::string& value) {
  const auto& known = a.choices;
  if (known.empty() || std::find(known.begin(), known.end(), value) != known.end()) {
    return absl::OkStatus();
  }
  return InvalidArgument("{} must be {}, not \"{}\"{}", a.name, fmt::join(known, ", "),
                         value.substr(0, 60),
                         DidYouMean(value, std::span<const std::string>(known)));
}

class Completer {
 public:
  explicit Completer(std::string* argument) : argument_(argument) {}

  absl::StatusOr<v1::ClassConfig> Complete(const ClassSchema& schema, const v1::ClassConfig& given,
                                           int depth) {
    if (depth > kMaxDepth) return InvalidArgument("objects are nested too deeply");
    v1::ClassConfig config;
    config.set_class_name(schema.name);
    for (const auto& [name, value] : given.config()) {
      if (schema.Find(name) == nullptr) return About(name, Unknown(schema, name));
    }
    for (const Argument& a : schema.arguments) {
      const auto it = given.config().find(a.name);
      const bool is_given = it != given.config().end();
      // A null for an argument without None as a value means its default, as an empty YAML value.
      if (!is_given || (IsNull(it->second) && !IsNull(a.default_value) && !a.or_none)) {
        if (a.required) {
          return About(a.name, InvalidArgument("{} needs its argument `{}`", schema.name, a.name));
        }
        auto value = Convert(a, a.default_value, depth);
        if (!value.ok()) return About(a.name, value.status());
        (*config.mutable_config())[a.name] = *std::move(value);
        continue;
      }
      if (IsNull(it->second) && a.required) {
        return About(a.name, InvalidArgument("{} needs its argument `{}`", schema.name, a.name));
      }
      auto value = Convert(a, it->second, depth);
      if (!value.ok()) {
        return About(a.name, Annotate(value.status(), schema.name));
      }
      if (a.planned && ConfigText(*value) != ConfigText(a.default_value)) {
        return About(a.name, Unimplemented("`{}` of {} is not supported{}; leave it out", a.name,
                                           schema.name, a.doc.empty() ? " yet" : ": " + a.doc));
      }
      (*config.mutable_config())[a.name] = *std::move(value);
    }
    return config;
  }

 private:
  absl::Status About(std::string_view name, absl::Status status) {
    if (argument_ != nullptr) *argument_ = std::string(name);
    return status;
  }

  static absl::Status Unknown(const ClassSchema& schema, std::string_view name) {
    std::vector<std::string> known;
    for (const Argument& a : schema.arguments) {
      if (!a.planned) known.push_back(a.name);
    }
    if (known.empty()) {
      return InvalidArgument("{} has no arguments, and no \"{}\"", schema.name, name.substr(0, 60));
    }
    return InvalidArgument("{} has no argument \"{}\"; it has {}{}", schema.name,
                           name.substr(0, 60), fmt::join(known, ", "),
                           DidYouMean(name, std::span<const std::string>(known)));
  }

  absl::StatusOr<v1::ConfigValue> Convert(const Argument& a, const v1::ConfigValue& value,
                                          int depth) {
    if (IsNull(value)) return value;
    v1::ConfigValue result = value;
    switch (a.type) {
      case ArgumentType::kBool:
        if (value.has_b()) return result;
        // As in Python.
        if (!value.has_i() || (value.i() != 0 && value.i() != 1)) break;
        result.set_b(value.i() == 1);
        return result;
      case ArgumentType::kInt:
        if (!value.has_i()) break;
        COHORT_RETURN_IF_ERROR(CheckNumber(a, static_cast<double>(value.i())));
        return result;
      case ArgumentType::kFloat:
        if (a.number_or_object() && value.has_object()) return ConvertObject(a, value, depth);
        if (!value.has_f() && !value.has_i()) break;
        result.set_f(value.has_f() ? value.f() : static_cast<double>(value.i()));
        COHORT_RETURN_IF_ERROR(CheckNumber(a, result.f()));
        return result;
      case ArgumentType::kString:
        if (!value.has_s()) break;
        COHORT_RETURN_IF_ERROR(CheckString(a, value.s()));
        return result;
      case ArgumentType::kInts:
      case ArgumentType::kFloats:
      case ArgumentType::kStrings:
        return ConvertList(a, value);
      case ArgumentType::kObject:
        return ConvertObject(a, value, depth);
      case ArgumentType::kObjects:
        return ConvertObjects(a, value, depth);
      case ArgumentType::kObjectList:
        return ConvertObjectList(a, value, depth);
    }
    return Mistyped(a, value);
  }

  static void AddItems(const Argument& a, const v1::ConfigValue& value, int depth,
                       v1::ConfigList* list) {
    if (!value.has_list() || (depth > 0 && !a.nested) || depth > kMaxDepth) {
      *list->add_values() = value;
      return;
    }
    for (const v1::ConfigValue& item : value.list().values()) AddItems(a, item, depth + 1, list);
  }

  static absl::StatusOr<v1::ConfigValue> ConvertList(const Argument& a,
                                                     const v1::ConfigValue& value) {
    v1::ConfigValue result;
    v1::ConfigList* list = result.mutable_list();
    AddItems(a, value, 0, list);
    for (v1::ConfigValue& item : *list->mutable_values()) {
      if (a.none_items && IsNull(item)) {
        item.set_i(-1);
        continue;
      }
      if (a.type == ArgumentType::kFloats && item.has_i()) {
        item.set_f(static_cast<double>(item.i()));
      }
      const bool suits = a.type == ArgumentType::kInts     ? item.has_i()
                         : a.type == ArgumentType::kFloats ? item.has_f()
                                                           : item.has_s();
      if (!suits) return Mistyped(a, value);
      if (item.has_i()) COHORT_RETURN_IF_ERROR(CheckNumber(a, static_cast<double>(item.i())));
      if (item.has_f()) COHORT_RETURN_IF_ERROR(CheckNumber(a, item.f()));
      if (item.has_s()) COHORT_RETURN_IF_ERROR(CheckString(a, item.s()));
    }
    return result;
  }

  absl::StatusOr<v1::ConfigValue> ConvertObject(const Argument& a, const v1::ConfigValue& value,
                                                int depth) {
    v1::ClassConfig given;
    if (value.has_s()) {
      given.set_class_name(value.s());
    } else if (value.has_object()) {
      given = value.object();
    } else {
      return Mistyped(a, value);
    }
    auto schema = a.classes().FindSchema(given.class_name());
    if (!schema.ok()) return Annotate(schema.status(), a.name);
    COHORT_ASSIGN_OR_RETURN(v1::ClassConfig object, Complete(**schema, given, depth + 1));
    return ConfigOf(std::move(object));
  }

  absl::StatusOr<v1::ConfigValue> ConvertObjects(const Argument& a, const v1::ConfigValue& value,
                                                 int depth) {
    if (!value.has_object() || !value.object().class_name().empty()) return Mistyped(a, value);
    v1::ConfigValue result;
    v1::ClassConfig* const objects = result.mutable_object();
    for (const auto& [name, item] : value.object().config()) {
      auto object = ConvertObject(a, item, depth);
      if (!object.ok()) return Annotate(object.status(), name.substr(0, 60));
      (*objects->mutable_config())[name] = *std::move(object);
    }
    return result;
  }

  absl::StatusOr<v1::ConfigValue> ConvertObjectList(const Argument& a, const v1::ConfigValue& value,
                                                    int depth) {
    v1::ConfigValue given, result;
    if (value.has_list()) {
      given = value;
    } else {
      *given.mutable_list()->add_values() = value;
    }
    result.mutable_list();
    for (const v1::ConfigValue& item : given.list().values()) {
      COHORT_ASSIGN_OR_RETURN(*result.mutable_list()->add_values(), ConvertObject(a, item, depth));
    }
    return result;
  }

  static absl::Status Mistyped(const Argument& a, const v1::ConfigValue& value) {
    const std::string text = ConfigText(value).substr(0, 60);
    const std::string type = a.number_or_object()
                                 ? fmt::format("a number or a {}", a.classes().kind())
                                 : std::string(TypeName(a.type));
    return InvalidArgument("{} must be {}, not {}", a.name, type,
                           value.has_s() ? fmt::format("\"{}\"", text) : text);
  }

  std::string* argument_;
};

Argument Make(std::string_view name, ArgumentType type, std::string_view doc) {
  Argument a;
  a.name = std::string(name);
  a.type = type;
  a.doc = std::string(doc);
  return a;
}

}  // namespace

Argument Bool(std::string_view name, std::string_view doc) {
  return Make(name, ArgumentType::kBool, doc);
}
Argument Int(std::string_view name, std::string_view doc) {
  return Make(name, ArgumentType::kInt, doc);
}
Argument Float(std::string_view name, std::string_view doc) {
  return Make(name, ArgumentType::kFloat, doc);
}
Argument String(std::string_view name, std::string_view doc) {
  return Make(name, ArgumentType::kString, doc);
}
Argument Ints(std::string_view name, std::string_view doc) {
  return Make(name, ArgumentType::kInts, doc);
}
Argument Floats(std::string_view name, std::string_view doc) {
  return Make(name, ArgumentType::kFloats, doc);
}
Argument Strings(std::string_view name, std::string_view doc) {
  return Make(name, ArgumentType::kStrings, doc);
}
Argument Object(std::string_view name, const SchemaSet& (*classes)(), std::string_view doc) {
  Argument a = Make(name, ArgumentType::kObject, doc);
  a.classes = classes;
  return a;
}
Argument Objects(std::string_view name, const SchemaSet& (*classes)(), std::string_view usual_class,
                 std::string_view doc) {
  Argument a = Make(name, ArgumentType::kObjects, doc);
  a.classes = classes;
  a.usual_class = std::string(usual_class);
  return a;
}
Argument ObjectList(std::string_view name, const SchemaSet& (*classes)(), std::string_view doc) {
  Argument a = Make(name, ArgumentType::kObjectList, doc);
  a.classes = classes;
  return a;
}
Argument Planned(Argument argument) {
  argument.planned = true;
  return argument;
}
Argument Planned(std::string_view name) {
  return Planned(Make(name, ArgumentType::kString, "").Optional());
}

Argument Argument::Default(v1::ConfigValue value) && {
  required = false;
  if (type == ArgumentType::kFloat && value.has_i()) {
    value.set_f(static_cast<double>(value.i()));
  }
  default_value = std::move(value);
  return std::move(*this);
}

Argument Argument::Optional() && {
  required = false;
  return std::move(*this);
}
Argument Argument::OrNone() && {
  or_none = true;
  return std::move(*this);
}
Argument Argument::Nested() && {
  nested = true;
  return std::move(*this);
}
Argument Argument::NoneItems() && {
  none_items = true;
  return std::move(*this);
}
Argument Argument::Table() && {
  table = true;
  return std::move(*this);
}
Argument Argument::AtLeast(double least) && {
  min = least;
  return std::move(*this);
}
Argument Argument::Between(double least, double most) && {
  min = least;
  max = most;
  return std::move(*this);
}
Argument Argument::Below(double least, double limit) && {
  min = least;
  max = limit;
  below_max = true;
  return std::move(*this);
}
Argument Argument::OrObject(const SchemaSet& (*set)()) && {
  classes = set;
  return std::move(*this);
}
Argument Argument::OneOf(std::vector<std::string> values) && {
  choices = std::move(values);
  return std::move(*this);
}

const Argument* ClassSchema::Find(std::string_view argument) const {
  for (const Argument& a : arguments) {
    if (a.name == argument) return &a;
  }
  return nullptr;
}

absl::StatusOr<v1::ClassConfig> CompleteConfig(const ClassSchema& schema,
                                               const v1::ClassConfig& given,
                                               std::string* argument) {
  return Completer(argument).Complete(schema, given, 0);
}

const v1::ConfigValue& Config::Value(std::string_view name) const {
  const auto it = config_.config().find(std::string(name));
  assert(it != config_.config().end());
  return it == config_.config().end() ? v1::ConfigValue::default_instance() : it->second;
}

bool Config::IsNone(std::string_view name) const { return IsNull(Value(name)); }
bool Config::Has(std::string_view name) const {
  const auto it = config_.config().find(std::string(name));
  return it != config_.config().end() && !IsNull(it->second);
}
bool Config::Bool(std::string_view name) const { return Value(name).b(); }
int64_t Config::Int(std::string_view name) const { return Value(name).i(); }
double Config::Float(std::string_view name) const { return Value(name).f(); }
const std::string& Config::String(std::string_view name) const { return Value(name).s(); }
std::vector<int64_t> Config::Ints(std::string_view name) const {
  std::vector<int64_t> values;
  for (const v1::ConfigValue& value : Value(name).list().values()) values.push_back(value.i());
  return values;
}
std::vector<double> Config::Floats(std::string_view name) const {
  std::vector<double> values;
  for (const v1::ConfigValue& value : Value(name).list().values()) values.push_back(value.f());
  return values;
}
std::vector<std::string> Config::Strings(std::string_view name) const {
  std::vector<std::string> values;
  for (const v1::ConfigValue& value : Value(name).list().values()) values.push_back(value.s());
  return values;
}
const v1::ClassConfig& Config::Object(std::string_view name) const { return Value(name).object(); }
std::vector<v1::ClassConfig> Config::ObjectList(std::string_view name) const {
  std::vector<v1::ClassConfig> objects;
  for (const v1::ConfigValue& value : Value(name).list().values()) {
    objects.push_back(value.object());
  }
  return objects;
}
std::map<std::string, v1::ClassConfig> Config::Objects(std::string_view name) const {
  std::map<std::string, v1::ClassConfig> objects;
  for (const auto& [key, value] : Value(name).object().config()) objects[key] = value.object();
  return objects;
}

v1::ConfigValue ConfigOf(bool value) {
  v1::ConfigValue result;
  result.set_b(value);
  return result;
}
v1::ConfigValue ConfigOf(int64_t value) {
  v1::ConfigValue result;
  result.set_i(value);
  return result;
}
v1::ConfigValue ConfigOf(double value) {
  v1::ConfigValue result;
  result.set_f(value);
  return result;
}
v1::ConfigValue ConfigOf(std::string_view value) {
  v1::ConfigValue result;
  result.set_s(std::string(value));
  return result;
}
v1::ConfigValue ConfigOf(const std::vector<int64_t>& values) {
  v1::ConfigValue result;
  result.mutable_list();
  for (const int64_t value : values) *result.mutable_list()->add_values() = ConfigOf(value);
  return result;
}
v1::ConfigValue ConfigOf(const std::vector<double>& values) {
  v1::ConfigValue result;
  result.mutable_list();
  for (const double value : values) *result.mutable_list()->add_values() = ConfigOf(value);
  return result;
}
v1::ConfigValue ConfigOf(const std::vector<std::string>& values) {
  v1::ConfigValue result;
  result.mutable_list();
  for (const std::string& value : values) {
    *result.mutable_list()->add_values() = ConfigOf(std::string_view(value));
  }
  return result;
}
v1::ClassConfig ClassOf(
    std::string_view name,
    std::initializer_list<std::pair<std::string_view, v1::ConfigValue>> arguments) {
  v1::ClassConfig config;
  config.set_class_name(std::string(name));
  for (const auto& [key, value] : arguments) (*config.mutable_config())[std::string(key)] = value;
  return config;
}
v1::ConfigValue ConfigOf(v1::ClassConfig object) {
  v1::ConfigValue result;
  *result.mutable_object() = std::move(object);
  return result;
}

std::string ConfigText(const v1::ConfigValue& value) {
  switch (value.value_case()) {
    case v1::ConfigValue::kB:
      return value.b() ? "true" : "false";
    case v1::ConfigValue::kI:
      return fmt::format("{}", value.i());
    case v1::ConfigValue::kF:
      return fmt::format("{}", value.f());
    case v1::ConfigValue::kS:
      return value.s();
    case v1::ConfigValue::kList: {
      std::vector<std::string> items;
      for (const v1::ConfigValue& item : value.list().values()) items.push_back(ConfigText(item));
      return fmt::format("[{}]", fmt::join(items, ", "));
    }
    case v1::ConfigValue::kObject: {
      std::vector<std::string> items;
      for (const auto& [name, item] : value.object().config()) {
        items.push_back(fmt::format("{}: {}", name, ConfigText(item)));
      }
      std::sort(items.begin(), items.end());
      if (value.object().class_name().empty()) return fmt::format("{{{}}}", fmt::join(items, ", "));
      return fmt::format("{{{}: {{{}}}}}", value.object().class_name(), fmt::join(items, ", "));
    }
    case v1::ConfigValue::VALUE_NOT_SET:
      break;
  }
  return "none";
}

std::string ReferenceOf(const ClassSchema& schema) {
  std::string text = fmt::format("### {}\n\n{}\n", schema.name, schema.doc);
  if (!schema.aliases.empty()) {
    text += fmt::format("Also `{}`.\n", fmt::join(schema.aliases, "`, `"));
  }
  bool any = false;
  for (const Argument& a : schema.arguments) {
    if (a.planned) continue;
    if (!any) text += "\n| argument | type | default | meaning |\n|---|---|---|---|\n";
    any = true;
    std::string type(TypeName(a.type));
    if (a.type == ArgumentType::kObject) type = a.classes().kind();
    if (a.type == ArgumentType::kObjectList) {
      type = fmt::format("a list of {}s", a.classes().kind());
    }
    if (a.type == ArgumentType::kObjects) {
      type = fmt::format("{}s by their names", a.classes().kind());
    }
    if (!a.choices.empty()) type = fmt::format("{}", fmt::join(a.choices, ", "));
    if (!std::isinf(a.min)) type += fmt::format(", {}", RangeText(a));
    if (a.number_or_object()) type += fmt::format(", or a {}", a.classes().kind());
    text += fmt::format("| `{}` | {} | {} | {} |\n", a.name, type,
                        a.required ? "required" : ConfigText(a.default_value), a.doc);
  }
  return text;
}

}  // namespace cohort

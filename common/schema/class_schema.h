#ifndef COHORT_COMMON_SCHEMA_CLASS_SCHEMA_H_
#define COHORT_COMMON_SCHEMA_CLASS_SCHEMA_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "proto/config.pb.h"

namespace cohort {

// Values for configs that are made in code.
v1::ConfigValue ConfigOf(bool value);
v1::ConfigValue ConfigOf(int64_t value);
inline v1::ConfigValue ConfigOf(int value) { return ConfigOf(int64_t{value}); }
v1::ConfigValue ConfigOf(double value);
v1::ConfigValue ConfigOf(std::string_view value);
inline v1::ConfigValue ConfigOf(const char* value) { return ConfigOf(std::string_view(value)); }
v1::ConfigValue ConfigOf(const std::vector<int64_t>& values);
v1::ConfigValue ConfigOf(const std::vector<double>& values);
v1::ConfigValue ConfigOf(const std::vector<std::string>& values);
v1::ConfigValue ConfigOf(v1::ClassConfig object);
class SchemaSet;

enum class ArgumentType {
  kBool,
  kInt,
  kFloat,
  kString,
  kInts,
  kFloats,
  kStrings,
  kObject,
  kObjects,
  kObjectList
};

// One argument of a class, under Keras' name. An argument without a default is required. The
// functions below make arguments; the members here narrow them:
//
//   Int("units", "Size of the output.").AtLeast(1)
//   Float("rate", "Share of elements set to 0.").Default(0.5).Between(0, 1)
struct Argument {
  std::string name;
  ArgumentType type = ArgumentType::kInt;
  std::string doc;                // one line for the reference
  bool required = true;           // no default
  v1::ConfigValue default_value;  // null: None
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool below_max = false;            // the range is [min, max)
  std::vector<std::string> choices;  // a string is one of them; empty: any
  // An object has one of these classes. A number may be such an object instead, if this is set.
  const SchemaSet& (*classes)() = nullptr;
  std::string usual_class;  // an object by name has it if only its arguments are given
  // Of a list: its items may be lists, which count as their items, and may be none, which counts as
  // -1.
  bool nested = false;
  bool none_items = false;
  // For Floats: a mapping from numbers to numbers, as `{0: 0.1, 5: 0.01}`. A config keeps it as a
  // list of keys and values in turn. A list of numbers stands for the keys 0, 1, ...
  bool table = false;
  // None is a value of its own, although it is not the default.
  bool or_none = false;
  // Keras has this argument and this version of Cohort does not: only its default is accepted.
  // `doc` says why, if there is a reason.
  bool planned = false;

  // What ConfigOf takes. A string may be the name of an object's class.
  template <typename T>
  Argument Default(const T& value) && {
    return std::move(*this).Default(ConfigOf(value));
  }
  Argument Default(const std::vector<int64_t>& values) && {
    return std::move(*this).Default(ConfigOf(values));
  }
  Argument Default(v1::ConfigValue value) &&;
  // None, which is accepted as a value too.
  Argument Optional() &&;
  // None is accepted, and differs from the default.
  Argument OrNone() &&;
  Argument Nested() &&;
  Argument NoneItems() &&;
  Argument Table() &&;
  Argument AtLeast(double least) &&;
  Argument Between(double least, double most) &&;
  // least <= value < limit
  Argument Below(double least, double limit) &&;
  Argument OneOf(std::vector<std::string> values) &&;
  // An object of one of these classes may stand in place of the number.
  Argument OrObject(const SchemaSet& (*classes)()) &&;

  bool takes_object() const { return type == ArgumentType::kObject || number_or_object(); }
  bool number_or_object() const { return type == ArgumentType::kFloat && classes != nullptr; }
};

Argument Bool(std::string_view name, std::string_view doc);
Argument Int(std::string_view name, std::string_view doc);
Argument Float(std::string_view name, std::string_view doc);
Argument String(std::string_view name, std::string_view doc);
Argument Ints(std::string_view name, std::string_view doc);  // one integer counts as a list of one
Argument Floats(std::string_view name, std::string_view doc);  // as Ints
Argument Strings(std::string_view name, std::string_view doc);
// `classes` returns the set of classes, as Initializers() does.
Argument Object(std::string_view name, const SchemaSet& (*classes)(), std::string_view doc);
// Objects by names that the user chooses, as `{image: {image: {image_size: 160}}, label: {dtype:
// int64}}`. One that names no class has `usual_class`. A config keeps them as an object without a
// class.
Argument Objects(std::string_view name, const SchemaSet& (*classes)(), std::string_view usual_class,
                 std::string_view doc);
// One object of these classes, or a list of them: `[{LSTMCell: {units: 8}}, {GRUCell: {units:
// 4}}]`.
Argument ObjectList(std::string_view name, const SchemaSet& (*classes)(), std::string_view doc);
// An argument of Keras that is planned, or refused for the reason that is its `doc`, with Keras'
// default. The second form: its default is None.
Argument Planned(Argument argument);
Argument Planned(std::string_view name);

// A class as its users see it: one entry of a registry.
struct ClassSchema {
  std::string name;                  // Keras' name: "Dense", "MeanSquaredError"
  std::vector<std::string> aliases;  // further names: "mse"
  std::string doc;                   // one line for the reference
  std::vector<Argument> arguments;
  bool only_exact = false;  // no other spelling of the name stands for it

  const Argument* Find(std::string_view argument) const;
};

// Checks the arguments that a user gave, converts them to their types (an integer to a number, a
// name to an object without arguments) and fills in defaults, also in nested objects. The result
// has every argument of the schema, and the schema's name. Errors: InvalidArgument for an unknown,
// missing or unsuitable argument, with the nearest or all known ones; Unimplemented for a planned
// one. `argument` (may be null) receives the name of the argument that the error is about.
absl::StatusOr<v1::ClassConfig> CompleteConfig(const ClassSchema& schema,
                                               const v1::ClassConfig& given,
                                               std::string* argument = nullptr);

// The arguments of a completed config, by type. Asking for an argument that the schema lacks, or
// for another type, is a mistake in the program: assertions find it.
class Config {
 public:
  explicit Config(const v1::ClassConfig& config) : config_(config) {}

  bool IsNone(std::string_view name) const;
  // True if the schema has this argument, and it is not none.
  bool Has(std::string_view name) const;
  bool Bool(std::string_view name) const;
  int64_t Int(std::string_view name) const;
  double Float(std::string_view name) const;
  const std::string& String(std::string_view name) const;
  std::vector<int64_t> Ints(std::string_view name) const;
  std::vector<double> Floats(std::string_view name) const;
  std::vector<std::string> Strings(std::string_view name) const;
  const v1::ClassConfig& Object(std::string_view name) const;
  std::vector<v1::ClassConfig> ObjectList(std::string_view name) const;
  // In the order of their names.
  std::map<std::string, v1::ClassConfig> Objects(std::string_view name) const;
  // The value, whatever its type is.
  const v1::ConfigValue& Value(std::string_view name) const;

 private:
  const v1::ClassConfig& config_;
};

// A class with some of its arguments.
v1::ClassConfig ClassOf(
    std::string_view name,
    std::initializer_list<std::pair<std::string_view, v1::ConfigValue>> arguments = {});

// A value as YAML writes it on one line: `0.5`, `[2, 2]`, `{Constant: {value: 1}}`, `none`.
std::string ConfigText(const v1::ConfigValue& value);

// The row of the reference in Markdown: the class, its line of documentation, its arguments with
// type, default and range.
std::string ReferenceOf(const ClassSchema& schema);

}  // namespace cohort

#endif  // COHORT_COMMON_SCHEMA_CLASS_SCHEMA_H_

#include "common/model/class_reader.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "common/base/suggest.h"
#include "common/model/job_defaults.h"

namespace cohort {
namespace {

// Keys that Keras writes beside class_name and config, and that say nothing to a reader.
constexpr std::string_view kKerasKeys[] = {"module", "registered_name", "build_config",
                                           "shared_object_id"};

// A value that suits the argument, for an example.
std::string ExampleValue(const Argument& argument) {
  switch (argument.type) {
    case ArgumentType::kBool:
      return "true";
    case ArgumentType::kInt:
      return fmt::format("{}", std::max(argument.min, 2.0));
    case ArgumentType::kFloat:
      return "0.5";
    case ArgumentType::kInts:
      return "[2]";
    case ArgumentType::kFloats:
      return "[0.5]";
    case ArgumentType::kStrings:
      return "[a, b]";
    case ArgumentType::kString:
      return argument.choices.empty() ? "a" : argument.choices.front();
    case ArgumentType::kObject:
      return argument.classes().Schemas().front()->name;
    case ArgumentType::kObjects:
      return fmt::format("{{a: {}}}", argument.classes().Schemas().front()->name);
    case ArgumentType::kObjectList:
      return fmt::format("[{}]", argument.classes().Schemas().front()->name);
  }
  return "";
}

// "keras.losses.Huber" -> "Huber".
std::string_view WithoutModule(std::string_view name) {
  return name.substr(name.find_last_of('.') + 1);  // npos + 1 is 0
}

// Null if `classes` is null or has no such class.
const ClassSchema* Named(std::string_view name, const SchemaSet* classes) {
  if (classes == nullptr) return nullptr;
  return classes->FindSchema(WithoutModule(name)).value_or(nullptr);
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\n") + 1 - begin);
}

// Python's `losses.Name(2, a=True)` as a mapping: `{Name: {units: 2, a: true}}`. `schema` (may be
// null) has the names of arguments that are given by position.
std::string MappingOfCall(std::string_view call, const ClassSchema* schema) {
  const size_t open = call.find('(');
  const std::string_view given = call.substr(open + 1, call.find_last_of(')') - open - 1);
  std::vector<std::string> arguments;
  int depth = 0;
  size_t begin = 0;
  for (size_t at = 0; at <= given.size(); ++at) {
    const char c = at < given.size() ? given[at] : ',';
    depth += c == '(' || c == '[' || c == '{' ? 1 : c == ')' || c == ']' || c == '}' ? -1 : 0;
    if (c != ',' || (depth > 0 && at < given.size())) continue;
    const std::string_view one = Trimmed(given.substr(begin, at - begin));
    begin = at + 1;
    if (one.empty()) continue;
    const size_t equals = one.find('=');
    std::string name, value(one);
    if (equals != std::string_view::npos) {
      name = Trimmed(one.substr(0, equals));
      value = Trimmed(one.substr(equals + 1));
    } else if (schema != nullptr && arguments.size() < schema->arguments.size()) {
      name = schema->arguments[arguments.size()].name;
    }
    if (value == "True") value = "true";
    if (value == "False") value = "false";
    if (value == "None") value = "null";
    arguments.push_back(name.empty() ? value : fmt::format("{}: {}", name, value));
  }
  return fmt::format("{{{}: {{{}}}}}", WithoutModule(call.substr(0, open)),
                     fmt::join(arguments, ", "));
}

}  // namespace

std::optional<YamlReader::Entry> ClassReader::ClassNode::Take(std::string_view key) {
  std::optional<Entry> taken;
  std::vector<Entry> others;  // assigning a YAML::Node would change the node that it had
  for (const Entry& entry : arguments) {
    if (entry.key == key) {
      taken.emplace(entry);
    } else {
      others.push_back(entry);
    }
  }
  arguments.swap(others);
  return taken;
}

std::string ClassReader::ExampleOf(const ClassSchema& schema) {
  std::vector<std::string> arguments;
  for (const Argument& a : schema.arguments) {
    if (a.required) arguments.push_back(fmt::format("{}: {}", a.name, ExampleValue(a)));
  }
  return fmt::format("{{{}: {{{}}}}}", schema.name, fmt::join(arguments, ", "));
}

absl::Status ClassReader::AtLine(int line, const absl::Status& status) const {
  if (status.ok()) return status;
  const auto message = status.message();
  absl::Status located = Error(line, "{}", std::string_view(message.data(), message.size()));
  return absl::Status(status.code(), located.message());
}

absl::Status ClassReader::ReadMessage(const YAML::Node& node, const std::string& path,
                                      Message* message) {
  SetReadingDefaults(path, message);
  return YamlReader::ReadMessage(node, path, message);
}

absl::StatusOr<ClassReader::ClassNode> ClassReader::ReadClassNode(const YAML::Node& node,
                                                                  const std::string& path,
                                                                  const SchemaSet& classes) {
  COHORT_ASSIGN_OR_RETURN(ClassNode read, ReadNode(node, path, &classes));
  // `keras.losses.Huber` is understood, too.
  if (!classes.FindSchema(read.name).ok()) read.name = std::string(WithoutModule(read.name));
  return read;
}

// `{Dense: {units: 3}}` for `Dense: 3`.
std::string ClassReader::ExampleFor(const std::string& name, const YAML::Node& value,
                                    const SchemaSet* classes) {
  const ClassSchema* const schema = Named(name, classes);
  if (schema == nullptr || schema->arguments.empty()) return "";
  const std::string text = ExampleText(value);
  if (text.empty()) return ExampleOf(*schema);
  return fmt::format("{{{}: {{{}: {}}}}}", name, schema->arguments[0].name, text);
}

absl::StatusOr<ClassReader::ClassNode> ClassReader::ReadNode(const YAML::Node& node,
                                                             const std::string& path,
                                                             const SchemaSet* classes) {
  ClassNode result;
  result.line = LineOf(node);
  if (node.IsScalar()) {
    result.name = node.Scalar();
    const size_t open = result.name.find('(');
    if (open == std::string::npos || result.name.back() != ')') return result;
    const ClassSchema* const schema = Named(result.name.substr(0, open), classes);
    return Error(result.line, "`{}`: arguments are written as a mapping: `{}`, not \"{}\"", path,
                 MappingOfCall(result.name, schema).substr(0, 120), result.name.substr(0, 60));
  }
  const std::string what = fmt::format("`{}`", path);
  result.has_arguments = true;
  const bool list_of_one = node.IsSequence() && node.size() == 1;
  COHORT_ASSIGN_OR_RETURN(const auto entries,
                          Entries(node, what, list_of_one ? ExampleText(node[0]) : ""));
  const auto is_class_name = [](const Entry& entry) { return entry.key == "class_name"; };
  if (std::none_of(entries.begin(), entries.end(), is_class_name)) {
    if (entries.size() != 1) {
      return Error(result.line,
                   "{} must be one key, the name of a class, with its arguments indented below "
                   "it: `Name: {{argument: value}}`",
                   what);
    }
    result.name = entries[0].key;
    if (entries[0].value.IsNull()) return result;
    COHORT_ASSIGN_OR_RETURN(result.arguments,
                            Entries(entries[0].value, fmt::format("`{}`", result.name),
                                    ExampleFor(result.name, entries[0].value, classes)));
    return result;
  }
  for (const Entry& entry : entries) {
    if (entry.key == "class_name") {
      COHORT_ASSIGN_OR_RETURN(result.name, Text(entry.value, path + ".class_name"));
    } else if (entry.key == "config") {
      if (entry.value.IsNull()) continue;
      COHORT_ASSIGN_OR_RETURN(auto config, Entries(entry.value, fmt::format("`{}.config`", path)));
      for (Entry& argument : config) result.arguments.push_back(std::move(argument));
    } else if (std::find(std::begin(kKerasKeys), std::end(kKerasKeys), entry.key) ==
               std::end(kKerasKeys)) {
      result.arguments.push_back(entry);
    }
  }
  return result;
}

absl::Status ClassReader::ReadClass(const YAML::Node& node, const std::string& path,
                                    const SchemaSet& classes, v1::ClassConfig* config) {
  COHORT_ASSIGN_OR_RETURN(const ClassNode read, ReadClassNode(node, path, classes));
  const auto schema = classes.FindSchema(read.name);
  if (!schema.ok()) return AtLine(read.line, schema.status());
  return ReadArguments(read, path, **schema, config);
}

absl::Status ClassReader::ReadArguments(const ClassNode& node, const std::string& path,
                                        const ClassSchema& schema, v1::ClassConfig* config) {
  v1::ClassConfig given;
  std::map<std::string, int> lines;
  for (const Entry& entry : node.arguments) {
    Note(JoinKeys(path, entry.key), entry.line);
    if (!lines.emplace(entry.key, entry.line).second) {
      return Error(entry.line, "key \"{}\" is given twice in `{}`", entry.key, schema.name);
    }
    // An unknown argument has no value; CompleteConfig reports it.
    v1::ConfigValue* value = &(*given.mutable_config())[entry.key];
    const Argument* argument = schema.Find(entry.key);
    if (argument == nullptr || entry.value.IsNull()) continue;
    COHORT_RETURN_IF_ERROR(
        ReadArgument(entry, JoinKeys(path, entry.key), schema, *argument, value));
  }
  std::string about;
  auto completed = CompleteConfig(schema, given, &about);
  if (completed.ok()) {
    *config = *std::move(completed);
    return absl::OkStatus();
  }
  const auto line = lines.find(about);
  absl::Status error = AtLine(line == lines.end() ? node.line : line->second, completed.status());
  const Argument* missing = schema.Find(about);
  if (node.has_arguments || missing == nullptr || !missing->required) return error;
  return absl::Status(error.code(), fmt::format("{}; for example `{}`",
                                                std::string(error.message()), ExampleOf(schema)));
}

absl::Status ClassReader::ReadArgument(const Entry& entry, const std::string& path,
                                       const ClassSchema& schema, const Argument& argument,
                                       v1::ConfigValue* value) {
  if (argument.type == ArgumentType::kObject ||
      (argument.number_or_object() && entry.value.IsMap())) {
    return ReadClass(entry.value, path, argument.classes(), value->mutable_object());
  }
  if (argument.type == ArgumentType::kObjects) return ReadObjects(entry, path, argument, value);
  if (argument.type == ArgumentType::kObjectList) {
    COHORT_ASSIGN_OR_RETURN(const std::vector<YAML::Node> items, Items(entry.value, path));
    value->mutable_list();
    for (const YAML::Node& item : items) {
      COHORT_RETURN_IF_ERROR(ReadClass(item, path, argument.classes(),
                                       value->mutable_list()->add_values()->mutable_object()));
    }
    return absl::OkStatus();
  }
  if (argument.table && !entry.value.IsScalar()) {
    return ReadTable(entry, path, schema, argument, value->mutable_list());
  }
  if (entry.value.IsMap()) return ReadMappedArgument(entry, path, schema, argument, value);
  const bool strings =
      argument.type == ArgumentType::kString || argument.type == ArgumentType::kStrings;
  const auto convert = [&](const YAML::Node& node) {
    return strings && node.IsScalar() ? ConfigOf(std::string_view(node.Scalar())) : Scalar(node);
  };
  if (!entry.value.IsSequence()) {
    *value = convert(entry.value);
    return absl::OkStatus();
  }
  COHORT_ASSIGN_OR_RETURN(const std::vector<YAML::Node> items, Items(entry.value, path));
  value->mutable_list();
  for (const YAML::Node& item : items) {
    if (item.IsSequence() && argument.nested) {
      COHORT_RETURN_IF_ERROR(ReadArgument(Entry{entry.key, LineOf(item), item}, path, schema,
                                          argument, value->mutable_list()->add_values()));
      continue;
    }
    if (!item.IsScalar() && !(item.IsNull() && argument.none_items)) {
      return Error(LineOf(item), "{}: the items of {} must be numbers or strings", schema.name,
                   argument.name);
    }
    v1::ConfigValue* const added = value->mutable_list()->add_values();
    if (!item.IsNull()) *added = convert(item);
  }
  return absl::OkStatus();
}

absl::Status ClassReader::ReadTable(const Entry& entry, const std::string& path,
                                    const ClassSchema& schema, const Argument& argument,
                                    v1::ConfigList* pairs) {
  if (entry.value.IsSequence()) {
    COHORT_ASSIGN_OR_RETURN(const std::vector<YAML::Node> items, Items(entry.value, path));
    for (size_t i = 0; i < items.size(); ++i) {
      *pairs->add_values() = ConfigOf(static_cast<double>(i));
      COHORT_ASSIGN_OR_RETURN(const double number, Number(items[i], path));
      *pairs->add_values() = ConfigOf(number);
    }
    return absl::OkStatus();
  }
  COHORT_ASSIGN_OR_RETURN(const auto entries, Entries(entry.value, fmt::format("`{}`", path),
                                                      argument.name + ": {0: 0.1, 5: 0.01}"));
  for (const Entry& item : entries) {
    char* end = nullptr;
    const double key = std::strtod(item.key.c_str(), &end);
    if (item.key.empty() || *end != '\0') {
      return Error(item.line, "{}: the keys of {} must be numbers, not \"{}\"", schema.name,
                   argument.name, item.key.substr(0, 60));
    }
    *pairs->add_values() = ConfigOf(key);
    COHORT_ASSIGN_OR_RETURN(const double number, Number(item.value, JoinKeys(path, item.key)));
    *pairs->add_values() = ConfigOf(number);
  }
  return absl::OkStatus();
}

absl::Status ClassReader::ReadObjects(const Entry& entry, const std::string& path,
                                      const Argument& argument, v1::ConfigValue* value) {
  const SchemaSet& classes = argument.classes();
  COHORT_ASSIGN_OR_RETURN(const auto items, Entries(entry.value, fmt::format("`{}`", path),
                                                    argument.name + ": " + ExampleValue(argument)));
  auto* const objects = value->mutable_object()->mutable_config();
  for (const Entry& item : items) {
    const std::string item_path = JoinKeys(path, item.key);
    Note(item_path, item.line);
    v1::ClassConfig* const object = (*objects)[item.key].mutable_object();
    bool names_class = !item.value.IsMap();
    for (const auto& pair : item.value) {
      if (!item.value.IsMap() || !pair.first.IsScalar()) break;
      names_class = names_class || pair.first.Scalar() == "class_name" ||
                    classes.FindSchema(pair.first.Scalar()).ok();
    }
    if (names_class) {
      COHORT_RETURN_IF_ERROR(ReadClass(item.value, item_path, classes, object));
      continue;
    }
    ClassNode node{.name = argument.usual_class, .line = item.line, .has_arguments = true};
    COHORT_ASSIGN_OR_RETURN(node.arguments, Entries(item.value, fmt::format("`{}`", item_path)));
    COHORT_ASSIGN_OR_RETURN(const ClassSchema* schema, classes.FindSchema(node.name));
    COHORT_RETURN_IF_ERROR(ReadArguments(node, item_path, *schema, object));
  }
  return absl::OkStatus();
}

// A mapping for an argument that takes none: CompleteConfig reports it by its name, unless there is
// more to say.
absl::Status ClassReader::ReadMappedArgument(const Entry& entry, const std::string& path,
                                             const ClassSchema& schema, const Argument& argument,
                                             v1::ConfigValue* value) {
  if (argument.planned) {
    return AtLine(entry.line, Unimplemented("`{}` of {} is not supported yet; leave it out",
                                            argument.name, schema.name));
  }
  COHORT_ASSIGN_OR_RETURN(const ClassNode node, ReadNode(entry.value, path, nullptr));
  value->mutable_object()->set_class_name(node.name);
  return absl::OkStatus();
}

// ------------------------------------------------------------------ by output

bool ClassReader::IsByOutput(const YAML::Node& node, const SchemaSet& classes,
                             std::span<const std::string> outputs) const {
  if (!node.IsMap()) return false;
  bool is_class = false;
  for (const auto& pair : node) {
    if (!pair.first.IsScalar()) return false;
    const std::string& key = pair.first.Scalar();
    if (std::find(outputs.begin(), outputs.end(), key) != outputs.end()) return true;
    is_class = is_class || key == "class_name" || classes.FindSchema(key).ok();
  }
  return !is_class && outputs.size() > 1;
}

absl::StatusOr<std::vector<YAML::Node>> ClassReader::ByOutput(
    const Entry& entry, const std::string& path, std::span<const std::string> outputs) {
  if (entry.value.IsSequence()) {
    COHORT_ASSIGN_OR_RETURN(std::vector<YAML::Node> items, Items(entry.value, path));
    if (items.size() == outputs.size()) return items;
    if (outputs.size() == 1 && outputs[0].empty()) {
      return Error(entry.line, "`{}` has {} items, and the model has one output", path,
                   items.size());
    }
    return Error(entry.line, "`{}` has {} items, and the model has {} outputs: {}", path,
                 items.size(), outputs.size(), fmt::join(outputs, ", "));
  }
  COHORT_ASSIGN_OR_RETURN(const auto entries, Entries(entry.value, fmt::format("`{}`", path),
                                                      fmt::format("{}: {{{}: ...}}", entry.key,
                                                                  fmt::join(outputs, ": ..., "))));
  std::map<std::string, YAML::Node> given;
  for (const Entry& item : entries) {
    if (std::find(outputs.begin(), outputs.end(), item.key) == outputs.end()) {
      return Error(item.line, "the model has no output \"{}\"; its outputs are {}{}",
                   item.key.substr(0, 60), fmt::join(outputs, ", "), DidYouMean(item.key, outputs));
    }
    given.emplace(item.key, item.value);
  }
  std::vector<YAML::Node> values;
  for (const std::string& output : outputs) {
    const auto it = given.find(output);
    values.push_back(it == given.end() ? YAML::Node(YAML::NodeType::Null) : it->second);
  }
  return values;
}

}  // namespace cohort

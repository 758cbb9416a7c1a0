#include "common/model/yaml_reader.h"

#include <absl/strings/ascii.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "common/base/suggest.h"
#include "common/model/planned_names.h"
#include "common/schema/class_schema.h"

namespace cohort {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr int64_t kMaxNodes = 4'000'000;

// Describes a node for an error: `the text "abc"`, `a list`.
std::string Describe(const YAML::Node& node) {
  if (node.IsMap()) return "a mapping";
  if (node.IsSequence()) return "a list";
  if (!node.IsScalar()) return "nothing";
  return fmt::format("\"{}\"", node.Scalar().substr(0, 60));
}

// Quoted scalars have the tag "!".
bool IsPlain(const YAML::Node& node) { return node.IsScalar() && node.Tag() != "!"; }

template <typename T>
bool ParseWhole(const std::string& text, T* value) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  if (begin != end && *begin == '+') ++begin;
  const auto result = std::from_chars(begin, end, *value);
  return begin != end && result.ec == std::errc() && result.ptr == end;
}

// The last key of a path: "train" of "data.train".
std::string_view LastKey(std::string_view path) {
  return path.substr(path.find_last_of('.') + 1);  // npos + 1 is 0
}

// `{path: a.csv}`: the message whose first key has the value `text`.
std::string ExampleMapping(const Descriptor& message, const std::string& text) {
  const FieldDescriptor& field = *message.field(0);
  std::string value = text;
  int64_t number = 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      value = ExampleMapping(*field.message_type(), text);
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      value = "true";
      break;
    default:
      if (!ParseWhole(text, &number)) value = "1";
  }
  return fmt::format("{{{}: {}}}", field.name(), value);
}

// The form of a message for which the file has only a word.
std::string ExampleOf(const std::string& path, const Descriptor& message, const std::string& text) {
  if (text.empty() || path.empty()) return "";
  const std::string mapping = ExampleMapping(message, text);
  return path.back() == ']' ? "- " + mapping : fmt::format("{}: {}", LastKey(path), mapping);
}

}  // namespace

std::string JoinKeys(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

absl::Status YamlReader::UnknownKey(int line, std::string_view key, std::string_view what,
                                    const std::vector<std::string>& known) const {
  const std::string keys = fmt::format("; its keys are {}", fmt::join(known, ", "));
  if (IsPlannedName("key", key)) {
    return Error(line, "\"{}\" in {} is not supported yet{}", key, what, keys);
  }
  const std::string hint = DidYouMean(key, std::span<const std::string>(known));
  return Error(line, "unknown key \"{}\" in {}{}", key.substr(0, 60), what,
               hint.empty() ? keys : hint);
}

absl::StatusOr<std::vector<YamlReader::Entry>> YamlReader::Entries(const YAML::Node& node,
                                                                   std::string_view what,
                                                                   std::string_view example) {
  if (!node.IsMap()) {
    return Error(LineOf(node), "{} must be a mapping of keys, not {}{}", what, Describe(node),
                 example.empty() ? "" : fmt::format("; for example `{}`", example));
  }
  std::vector<Entry> entries;
  std::set<std::string> seen;
  for (const auto& pair : node) {
    const int line = LineOf(pair.first);
    if (!pair.first.IsScalar()) {
      return Error(line, "a key in {} must be text, not {}", what, Describe(pair.first));
    }
    if (++nodes_ > kMaxNodes) return Error(line, "the file has more than {} values", kMaxNodes);
    const std::string key = pair.first.Scalar();
    if (!seen.insert(key).second) return Error(line, "key \"{}\" is given twice in {}", key, what);
    entries.push_back({key, line, pair.second});
  }
  return entries;
}

absl::StatusOr<std::vector<YAML::Node>> YamlReader::Items(const YAML::Node& node,
                                                          std::string_view path) {
  if (!node.IsSequence()) {
    std::string text = ExampleText(node);
    if (node.IsMap() && node.size() > 0) {
      const std::string key = ExampleText(node.begin()->first);
      if (!key.empty()) text = fmt::format("{{{}: ...}}", key);
    }
    return Error(LineOf(node), "`{}` must be a list, not {}{}", path, Describe(node),
                 text.empty() ? "" : fmt::format("; for example `{}: [{}]`", LastKey(path), text));
  }
  std::vector<YAML::Node> items;
  for (const YAML::Node& item : node) {
    if (++nodes_ > kMaxNodes) {
      return Error(LineOf(item), "the file has more than {} values", kMaxNodes);
    }
    items.push_back(item);
  }
  return items;
}

absl::Status YamlReader::ReadMessage(const YAML::Node& node, const std::string& path,
                                     Message* message) {
  const std::string what = path.empty() ? "the job" : fmt::format("`{}`", path);
  COHORT_ASSIGN_OR_RETURN(
      const auto entries,
      Entries(node, what, ExampleOf(path, *message->GetDescriptor(), ExampleText(node))));
  return ReadEntries(entries, path, message);
}

absl::Status YamlReader::ReadEntries(const std::vector<Entry>& entries, const std::string& path,
                                     Message* message) {
  const Descriptor* descriptor = message->GetDescriptor();
  for (const Entry& entry : entries) {
    const FieldDescriptor* field = descriptor->FindFieldByName(entry.key);
    if (field == nullptr) {
      std::vector<std::string> known;
      for (int i = 0; i < descriptor->field_count(); ++i) {
        known.push_back(descriptor->field(i)->name());
      }
      return UnknownKey(entry.line, entry.key, path.empty() ? "the job" : fmt::format("`{}`", path),
                        known);
    }
    Note(JoinKeys(path, entry.key), entry.line);
    COHORT_RETURN_IF_ERROR(ReadField(entry, JoinKeys(path, entry.key), field, message));
  }
  return absl::OkStatus();
}

absl::Status YamlReader::CheckOneof(const Entry& entry, const Field* field,
                                    const Message& message) const {
  const auto* oneof = field->real_containing_oneof();
  if (oneof == nullptr) return absl::OkStatus();
  const auto* set = message.GetReflection()->GetOneofFieldDescriptor(message, oneof);
  if (set == nullptr || set == field) return absl::OkStatus();
  return Error(entry.line, "\"{}\" and \"{}\" exclude each other: there is one {}", set->name(),
               entry.key, oneof->name());
}

absl::Status YamlReader::ReadField(const Entry& entry, const std::string& path, const Field* field,
                                   Message* message) {
  if (entry.value.IsNull()) return absl::OkStatus();  // the default
  COHORT_RETURN_IF_ERROR(CheckOneof(entry, field, *message));
  if (field->is_repeated()) return ReadRepeated(entry, path, field, message);
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    return ReadMessage(entry.value, path, message->GetReflection()->MutableMessage(message, field));
  }
  return ReadScalar(entry.value, path, field, message);
}

absl::Status YamlReader::ReadRepeated(const Entry& entry, const std::string& path,
                                      const Field* field, Message* message) {
  COHORT_ASSIGN_OR_RETURN(const std::vector<YAML::Node> items, Items(entry.value, path));
  size_t i = 0;
  for (const YAML::Node& item : items) {
    const std::string item_path = fmt::format("{}[{}]", path, i++);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Note(item_path, LineOf(item));
      COHORT_RETURN_IF_ERROR(
          ReadMessage(item, item_path, message->GetReflection()->AddMessage(message, field)));
    } else {
      COHORT_RETURN_IF_ERROR(ReadScalar(item, item_path, field, message));
    }
  }
  return absl::OkStatus();
}

absl::Status YamlReader::ReadScalar(const YAML::Node& node, std::string_view what,
                                    const Field* field, Message* message) {
  const auto* reflection = message->GetReflection();
  const auto store = [&](auto set, auto add, auto value) {
    if (field->is_repeated()) {
      (reflection->*add)(message, field, value);
    } else {
      (reflection->*set)(message, field, value);
    }
    return absl::OkStatus();
  };
  using R = google::protobuf::Reflection;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING: {
      COHORT_ASSIGN_OR_RETURN(std::string value, Text(node, what));
      return store(&R::SetString, &R::AddString, std::move(value));
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      COHORT_ASSIGN_OR_RETURN(const bool value, Boolean(node, what));
      return store(&R::SetBool, &R::AddBool, value);
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      COHORT_ASSIGN_OR_RETURN(const double value, Number(node, what));
      return store(&R::SetDouble, &R::AddDouble, value);
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      COHORT_ASSIGN_OR_RETURN(const int64_t value, Integer(node, what));
      return store(&R::SetInt64, &R::AddInt64, value);
    }
    case FieldDescriptor::CPPTYPE_UINT64:
    case FieldDescriptor::CPPTYPE_UINT32: {
      COHORT_ASSIGN_OR_RETURN(const int64_t value, Integer(node, what));
      const bool is_32 = field->cpp_type() == FieldDescriptor::CPPTYPE_UINT32;
      if (value < 0) return Error(LineOf(node), "`{}` must not be negative: {}", what, value);
      if (!is_32) return store(&R::SetUInt64, &R::AddUInt64, static_cast<uint64_t>(value));
      if (value > std::numeric_limits<uint32_t>::max()) {
        return Error(LineOf(node), "`{}` is too large: {}", what, value);
      }
      return store(&R::SetUInt32, &R::AddUInt32, static_cast<uint32_t>(value));
    }
    case FieldDescriptor::CPPTYPE_ENUM:
      return ReadEnum(node, what, field, message);
    default:
      return Internal("field {} has a type that job files cannot have", field->full_name());
  }
}

absl::Status YamlReader::ReadEnum(const YAML::Node& node, std::string_view what, const Field* field,
                                  Message* message) {
  COHORT_ASSIGN_OR_RETURN(const std::string name, Text(node, what));
  std::vector<std::string> known;
  const auto* type = field->enum_type();
  for (int i = 0; i < type->value_count(); ++i) {
    if (type->value(i)->number() == 0) continue;  // unspecified
    known.push_back(absl::AsciiStrToLower(type->value(i)->name()));
    if (known.back() == name) {
      message->GetReflection()->SetEnum(message, field, type->value(i));
      return absl::OkStatus();
    }
  }
  return Error(LineOf(node), "`{}` must be one of {}, not \"{}\"", what, fmt::join(known, ", "),
               name.substr(0, 60));
}

absl::StatusOr<std::string> YamlReader::Text(const YAML::Node& node, std::string_view what) {
  if (node.IsScalar()) return node.Scalar();
  return Error(LineOf(node), "`{}` must be text, not {}", what, Describe(node));
}

absl::StatusOr<double> YamlReader::Number(const YAML::Node& node, std::string_view what) {
  double value = 0;
  if (IsPlain(node) && ParseWhole(node.Scalar(), &value) && std::isfinite(value)) return value;
  return Error(LineOf(node), "`{}` must be a number, not {}", what, Describe(node));
}

absl::StatusOr<int64_t> YamlReader::Integer(const YAML::Node& node, std::string_view what) {
  int64_t value = 0;
  if (IsPlain(node) && ParseWhole(node.Scalar(), &value)) return value;
  return Error(LineOf(node), "`{}` must be an integer, not {}", what, Describe(node));
}

absl::StatusOr<bool> YamlReader::Boolean(const YAML::Node& node, std::string_view what) {
  const std::string text = IsPlain(node) ? absl::AsciiStrToLower(node.Scalar()) : "";
  if (text == "true") return true;
  if (text == "false") return false;
  return Error(LineOf(node), "`{}` must be true or false, not {}", what, Describe(node));
}

std::string YamlReader::ExampleText(const YAML::Node& node) {
  if (!node.IsScalar() || node.Scalar().empty() || node.Scalar().size() > 60) return "";
  for (const char c : node.Scalar()) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '.' && c != '/' &&
        c != '-') {
      return "";
    }
  }
  return node.Scalar();
}

v1::ConfigValue YamlReader::Scalar(const YAML::Node& node) {
  if (!IsPlain(node)) return ConfigOf(std::string_view(node.Scalar()));
  const std::string text = absl::AsciiStrToLower(node.Scalar());
  if (text == "true" || text == "false") return ConfigOf(text == "true");
  int64_t integer = 0;
  if (ParseWhole(node.Scalar(), &integer)) return ConfigOf(integer);
  double number = 0;
  if (ParseWhole(node.Scalar(), &number) && std::isfinite(number)) return ConfigOf(number);
  return ConfigOf(std::string_view(node.Scalar()));
}

}  // namespace cohort

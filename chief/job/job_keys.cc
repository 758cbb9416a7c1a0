#include "chief/job/job_keys.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "common/base/fnv1a.h"
#include "common/base/status.h"
#include "common/checkpoint/format_version.h"
#include "common/data/files/remote_file.h"
#include "common/model/job_file.h"
#include "common/model/metrics/metric.h"
#include "common/optimizers/optimizer_rules.h"
#include "common/optimizers/optimizers.h"
#include "proto/config.pb.h"

namespace cohort {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kLongestValue = 120;
constexpr std::string_view kNotSet = "not set";

void AddMessage(const Message& message, const std::string& path, JobKeys* keys);

std::string Joined(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + value;
  if (text.size() <= kLongestValue) return text;
  const std::string size = values.size() == 1 ? fmt::format("{} bytes", text.size())
                                              : fmt::format("{} values", values.size());
  return fmt::format("{}, hash {:016x}", size, Fnv1a(text));
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string Below(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
}

// The name of a field in a job file: a class and the list of classes have other names there, and
// `sparse_update` is written among the arguments of the optimizer.
std::string NameInFile(const FieldDescriptor& field) {
  const std::string name(field.name());
  constexpr std::string_view kClass = "_class", kClasses = "_classes";
  if (name == "sparse_update") return "optimizer.sparse_update";
  if (name == "losses") return "loss";
  if (name.ends_with(kClass)) return name.substr(0, name.size() - kClass.size());
  if (name.ends_with(kClasses)) return name.substr(0, name.size() - kClasses.size()) + "s";
  return name;
}

// The text of a scalar field; `index` -1: it is not repeated.
std::string ScalarText(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& r = *message.GetReflection();
  const bool one = index < 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return fmt::format(
          "{}", one ? r.GetInt32(message, &field) : r.GetRepeatedInt32(message, &field, index));
    case FieldDescriptor::CPPTYPE_INT64:
      return fmt::format(
          "{}", one ? r.GetInt64(message, &field) : r.GetRepeatedInt64(message, &field, index));
    case FieldDescriptor::CPPTYPE_UINT32:
      return fmt::format(
          "{}", one ? r.GetUInt32(message, &field) : r.GetRepeatedUInt32(message, &field, index));
    case FieldDescriptor::CPPTYPE_UINT64:
      return fmt::format(
          "{}", one ? r.GetUInt64(message, &field) : r.GetRepeatedUInt64(message, &field, index));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return fmt::format(
          "{}", one ? r.GetDouble(message, &field) : r.GetRepeatedDouble(message, &field, index));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return fmt::format(
          "{}", one ? r.GetFloat(message, &field) : r.GetRepeatedFloat(message, &field, index));
    case FieldDescriptor::CPPTYPE_BOOL:
      return (one ? r.GetBool(message, &field) : r.GetRepeatedBool(message, &field, index))
                 ? "true"
                 : "false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return Lower(std::string(
          (one ? r.GetEnum(message, &field) : r.GetRepeatedEnum(message, &field, index))->name()));
    case FieldDescriptor::CPPTYPE_STRING:
      // Keys are shown, and the next signature of an address is no other value.
      return PublicPath(one ? r.GetString(message, &field)
                            : r.GetRepeatedString(message, &field, index));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return "";
}

// The text of a value that is neither a list nor a class.
std::string PlainText(const v1::ConfigValue& value) {
  std::vector<const FieldDescriptor*> fields;
  value.GetReflection()->ListFields(value, &fields);
  return fields.empty() ? "none" : ScalarText(value, *fields.front(), -1);
}

bool IsPlainList(const v1::ConfigValue& value) {
  const auto& items = value.list().values();
  return value.has_list() && std::none_of(items.begin(), items.end(), [](const auto& item) {
           return item.has_list() || item.has_object();
         });
}

void AddConfigValue(const v1::ConfigValue& value, const std::string& path, JobKeys* keys) {
  if (IsPlainList(value)) {
    std::vector<std::string> texts;
    for (const v1::ConfigValue& item : value.list().values()) texts.push_back(PlainText(item));
    (*keys)[path] = Joined(texts);
    return;
  }
  switch (value.value_case()) {
    case v1::ConfigValue::kList:
      for (int i = 0; i < value.list().values_size(); ++i) {
        AddConfigValue(value.list().values(i), fmt::format("{}[{}]", path, i), keys);
      }
      return;
    case v1::ConfigValue::kObject:
      return AddMessage(value.object(), path, keys);
    default:
      (*keys)[path] = Joined({PlainText(value)});
  }
}

void AddValue(const Message& value, const std::string& path, JobKeys* keys) {
  if (value.GetDescriptor()->full_name() == v1::ConfigValue::descriptor()->full_name()) {
    return AddConfigValue(static_cast<const v1::ConfigValue&>(value), path, keys);
  }
  AddMessage(value, path, keys);
}

// Adds the arguments of a class, map<name, value> config. They are keys of the class itself, as in
// a job file.
void AddConfig(const Message& message, const FieldDescriptor& field, const std::string& path,
               JobKeys* keys) {
  const Reflection& reflection = *message.GetReflection();
  const FieldDescriptor* const name = field.message_type()->FindFieldByNumber(1);
  const FieldDescriptor* const value = field.message_type()->FindFieldByNumber(2);
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    const std::string key = Below(path, ScalarText(entry, *name, -1));
    if (value->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      AddValue(entry.GetReflection()->GetMessage(entry, value), key, keys);
    } else {
      (*keys)[key] = ScalarText(entry, *value, -1);
    }
  }
}

// Adds the names of the metrics as one list, and the class of each with its arguments.
void AddMetrics(const v1::CompileSpec& compile, const std::string& path, JobKeys* keys) {
  std::vector<std::string> names;
  for (const v1::MetricSpec& metric : compile.metric_classes()) {
    AddMessage(metric.metric_class(), fmt::format("{}[{}]", path, names.size()), keys);
    names.push_back(metric.name() + (metric.weighted() ? " (weighted)" : ""));
  }
  (*keys)[path] = Joined(names);
}

void AddField(const Message& message, const FieldDescriptor& field, const std::string& path,
              JobKeys* keys) {
  const Reflection& reflection = *message.GetReflection();
  const std::string key = Below(path, NameInFile(field));
  const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (field.message_type() == v1::ColumnRead::descriptor()) return;  // it follows from other keys
  if (field.message_type() == v1::MetricSpec::descriptor()) {
    AddMetrics(static_cast<const v1::CompileSpec&>(message), key, keys);
  } else if (field.is_map()) {
    AddConfig(message, field, field.name() == "config" ? path : key, keys);
  } else if (field.name() == "source_class" || field.name() == "transform_class") {
    // The key in the file is the name of the class.
    const Message& its_class = reflection.GetMessage(message, &field);
    const auto& config = static_cast<const v1::ClassConfig&>(its_class);
    AddMessage(config, Below(path, config.class_name()), keys);
  } else if (!field.is_repeated()) {
    if (is_message) return AddValue(reflection.GetMessage(message, &field), key, keys);
    (*keys)[key] = Joined({ScalarText(message, field, -1)});
  } else if (is_message) {
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      AddValue(reflection.GetRepeatedMessage(message, &field, i), fmt::format("{}[{}]", key, i),
               keys);
    }
  } else {
    std::vector<std::string> values;
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      values.push_back(ScalarText(message, field, i));
    }
    (*keys)[key] = Joined(values);
  }
}

// Adds the fields that are set. A set field of a proto3 message differs from its default.
void AddMessage(const Message& message, const std::string& path, JobKeys* keys) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) AddField(message, *field, path, keys);
}

std::string SlotNames(const v1::OptimizerSpec& optimizer) {
  const auto rule = OptimizerRule::Create(optimizer);
  std::string names;
  if (!rule.ok()) return names;
  for (const SlotInfo& slot : (*rule)->slots()) names += (names.empty() ? "" : ", ") + slot.name;
  return names;
}

}  // namespace

JobKeys KeysOfSpec(const v1::JobSpec& spec) {
  JobKeys keys;
  AddMessage(spec, "", &keys);
  return keys;
}

void AddVariables(const google::protobuf::RepeatedPtrField<v1::VariableSpec>& variables,
                  std::span<const v1::OptimizerSpec> optimizers, JobKeys* keys) {
  for (const v1::VariableSpec& variable : variables) {
    std::string dims;
    for (const int64_t dim : variable.dims()) {
      dims += fmt::format("{}{}", dims.empty() ? "" : ", ", dim);
    }
    (*keys)["variables." + variable.name()] =
        fmt::format("{} [{}]", Lower(v1::DType_Name(variable.dtype())), dims);
  }
  for (size_t i = 0; i < optimizers.size(); ++i) {
    const std::string slots = SlotNames(optimizers[i]);
    if (slots.empty()) continue;
    const std::string key = optimizers.size() == 1 ? "compile.optimizer.slots"
                                                   : fmt::format("compile.optimizers[{}].slots", i);
    (*keys)[key] = slots;
  }
}

void AddServers(uint32_t servers, JobKeys* keys) {
  (*keys)["servers"] = fmt::format("{}", servers);
}

v1::JobIdentity IdentityOf(const JobKeys& keys) {
  v1::JobIdentity identity;
  identity.set_format_version(kIdentityFormat);
  for (const auto& [key, value] : keys) {
    if (ChangeOf(key) < Change::kFromWeights) continue;
    v1::JobKey* const entry = identity.add_keys();
    entry->set_key(key);
    entry->set_value(value);
  }
  return identity;
}

v1::JobSpec SpecOfManifest(const v1::Manifest& manifest) {
  v1::JobSpec spec = manifest.job_spec();
  // A spec that has no YAML to complete it keeps what it has.
  UpgradeJob(manifest.job_yaml(), &spec).IgnoreError();
  return spec;
}

std::optional<JobKeys> KeysOfManifest(const v1::Manifest& manifest) {
  if (!manifest.has_job_spec()) return std::nullopt;
  const v1::JobSpec spec = SpecOfManifest(manifest);
  JobKeys keys = KeysOfSpec(spec);
  const auto& layout = manifest.layout().optimizers();
  std::vector<v1::OptimizerSpec> optimizers(layout.begin(), layout.end());
  if (optimizers.empty()) {
    // An older version wrote the layout, with one optimizer in another form.
    auto optimizer =
        MakeOptimizer(spec.compile().optimizer_class(), spec.compile().sparse_update());
    if (optimizer.ok()) optimizers.push_back(*std::move(optimizer));
  }
  AddVariables(manifest.layout().variables(), optimizers, &keys);
  if (manifest.servers() > 0) AddServers(manifest.servers(), &keys);
  if (manifest.identity().format_version() != kIdentityFormat) return keys;
  // A key that the writer did not store is an argument that its version lacked, at its default.
  for (const v1::JobKey& entry : manifest.identity().keys()) keys[entry.key()] = entry.value();
  return keys;
}

std::vector<std::string> MetricsToMinimize(const v1::JobSpec& spec) {
  std::vector<std::string> names;
  for (const v1::MetricSpec& metric : spec.compile().metric_classes()) {
    const auto known = Metrics().Find(metric.metric_class().class_name());
    if (known.ok() && !(*known)->higher_is_better) names.push_back(metric.name());
  }
  return names;
}

std::vector<KeyChange> ChangesOf(const JobKeys& then, const JobKeys& now) {
  std::vector<KeyChange> changes;
  const auto add = [&](const std::string& key, std::string_view before, std::string_view after) {
    changes.push_back({key, std::string(before), std::string(after), ChangeOf(key)});
  };
  for (const auto& [key, value] : then) {
    const auto found = now.find(key);
    if (found == now.end()) {
      add(key, value, kNotSet);
    } else if (found->second != value) {
      add(key, value, found->second);
    }
  }
  for (const auto& [key, value] : now) {
    if (!then.contains(key)) add(key, kNotSet, value);
  }
  std::sort(changes.begin(), changes.end(),
            [](const KeyChange& a, const KeyChange& b) { return a.key < b.key; });
  return changes;
}

}  // namespace cohort

#include "common/model/keras_json/keras_calls.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "common/base/json_text.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/model/keras_json/keras_config.h"

namespace cohort {
namespace {

using Json = nlohmann::json;
using References = std::vector<KerasReference>;

// Stands for the name of a layer where Keras 2 has a constant: ["_CONSTANT_VALUE", -1, 0.5, {}].
constexpr const char* kConstant = "_CONSTANT_VALUE";

bool IsReference(const Json& value) {
  return value.is_array() && value.size() >= 3 && value[0].is_string() &&
         value[1].is_number_integer() && (value[2].is_number_integer() || value[0] == kConstant);
}

KerasReference ToReference(const Json& value) {
  return {value[0].get<std::string>(), value[1].get<int64_t>(), value[2].get<int64_t>(), ""};
}

// None, or a list of them: the mask of a nested model with several inputs.
bool IsNone(const Json& value) {
  return value.is_null() || (value.is_array() && std::all_of(value.begin(), value.end(), IsNone));
}

absl::Status NoTensor(const Json& value) {
  return Unimplemented(
      "{} as the argument of a call is not supported yet; a layer is called on "
      "one tensor or a list of them",
      ShortText(value));
}

// ------------------------------------------------------------------ tensors

// The items of a list or a tuple; null for another value.
const Json* ItemsOf(const Json& value) {
  if (value.is_array()) return &value;
  if (StringMember(value, "class_name") != "__tuple__") return nullptr;
  const Json* const items = FindMember(value, "items");
  return items != nullptr && items->is_array() ? items : nullptr;
}

// A number or a nested list of numbers, with its shape.
absl::Status AddNumbers(const Json& value, size_t depth, v1::ConfigList* numbers,
                        std::vector<int64_t>* shape) {
  if (!value.is_array()) {
    if (!value.is_number() && !value.is_boolean()) {
      return InvalidArgument("{} is no constant", ShortText(value));
    }
    *numbers->add_values() =
        ConfigOf(value.is_boolean() ? (value.get<bool>() ? 1.0 : 0.0) : value.get<double>());
    return absl::OkStatus();
  }
  if (shape->size() == depth) shape->push_back(static_cast<int64_t>(value.size()));
  for (const Json& item : value) {
    COHORT_RETURN_IF_ERROR(AddNumbers(item, depth + 1, numbers, shape));
  }
  return absl::OkStatus();
}

// Reads the arguments of one call.
class CallReader {
 public:
  CallReader(const LayerClass* layer_class, bool is_keras_3)
      : class_(layer_class), is_keras_3_(is_keras_3) {}

  absl::Status AddPositional(const Json& value) {
    const size_t position = positions_++;
    if (class_ != nullptr && position < class_->call.size()) {
      return Add(class_->call[position], value);
    }
    // Keras 2 has the items of the last argument one by one.
    if (!is_keras_3_ && class_ != nullptr && !class_->call.empty() && TakesList()) {
      return Add(class_->call.back(), value);
    }
    // ops.einsum takes tensors one by one; another class takes one, or a list.
    const bool takes_more = class_ != nullptr && class_->call.empty() && IsOperation();
    if (position > 0 && !takes_more) return NoTensor(value);
    return AddTensors("", value);
  }

  // A tensor of one reference of Keras 2.
  absl::Status AddReference(const Json& value) {
    if (class_ != nullptr && !class_->call.empty()) return AddPositional(value);
    return AddTensors("", value);
  }

  absl::Status AddNamed(const std::string& name, const Json& value) {
    if (IsNone(value)) return absl::OkStatus();
    // In Keras 3, fit and evaluate replace it (operation_fn of keras/src/models/functional.py).
    if (name == "training" && is_keras_3_ && value.is_boolean()) return absl::OkStatus();
    if (!is_keras_3_ && (name == "name" || name == "training")) {
      return name == "name" ? absl::OkStatus() : Unknown(name);
    }
    if (TakesInput(name)) return Add(name, value);
    if (class_ != nullptr && name == "mask") return AddMasks(value);
    const bool is_argument = class_ != nullptr && class_->schema.Find(name) != nullptr;
    if (class_ != nullptr && name.ends_with("_mask") && !is_argument) {
      return AddMask(name.substr(0, name.size() - 5), value);
    }
    if (name == "inputs" && call_.inputs.empty()) return AddTensors("", value);
    return AddArgument(name, value);
  }

  absl::StatusOr<KerasCall> Take() && {
    if (class_ != nullptr && !class_->call.empty()) {
      std::stable_sort(
          call_.inputs.begin(), call_.inputs.end(),
          [this](const auto& a, const auto& b) { return OrderOf(a.name) < OrderOf(b.name); });
    }
    // The mask of a sequence counts beside an initial_state in Keras 2, and does not in Keras 3.
    if (!is_keras_3_ && call_.inputs.size() > 1 && class_ != nullptr &&
        class_->schema.Find("keep_mask") != nullptr) {
      call_.arguments["keep_mask"] = ConfigOf(true);
    }
    call_.masks.resize(call_.inputs.size());
    for (auto& [name, mask] : masks_) {
      bool found = false;
      for (size_t i = 0; i < call_.inputs.size(); ++i) {
        if (call_.inputs[i].name != name) continue;
        call_.masks[i] = mask;
        found = true;
      }
      if (!found) return Unknown(name + "_mask");
    }
    for (size_t i = 0; i < first_masks_.size(); ++i) {
      if (i >= call_.inputs.size()) return Unknown("mask");
      if (first_masks_[i]) call_.masks[i] = first_masks_[i];
    }
    return std::move(call_);
  }

 private:
  bool IsOperation() const { return class_->schema.name.starts_with(kOperationPrefix); }

  // The last argument of `call` is a list.
  bool TakesList() const { return class_->max_inputs > class_->call.size(); }

  bool TakesInput(const std::string& name) const {
    return class_ != nullptr &&
           std::find(class_->call.begin(), class_->call.end(), name) != class_->call.end();
  }

  size_t OrderOf(const std::string& name) const {
    const auto it = std::find(class_->call.begin(), class_->call.end(), name);
    return static_cast<size_t>(it - class_->call.begin());
  }

  static absl::Status Unknown(std::string_view name) {
    return Unimplemented("the argument `{}` of a call is not supported yet", PrintableLine(name));
  }

  // A tensor of the model; null for anything else.
  const Json* ReferenceOf(const Json& value) const {
    if (!is_keras_3_) {
      return IsReference(value) && value[0] != kConstant ? &value : nullptr;
    }
    if (StringMember(value, "class_name") != "__keras_tensor__") return nullptr;
    const Json* const config = FindMember(value, "config");
    const Json* const history = config == nullptr ? nullptr : FindMember(*config, "keras_history");
    return history != nullptr && IsReference(*history) ? history : nullptr;
  }

  bool HasTensor(const Json& value) const {
    if (ReferenceOf(value) != nullptr) return true;
    const Json* const items = ItemsOf(value);
    return items != nullptr && std::any_of(items->begin(), items->end(),
                                           [this](const Json& item) { return HasTensor(item); });
  }

  // The value of a constant tensor; null for anything else.
  static const Json* ConstantOf(const Json& value) {
    const std::string class_name = StringMember(value, "class_name");
    if (class_name != "__tensor__" && class_name != "__numpy__") return nullptr;
    const Json* const config = FindMember(value, "config");
    return config == nullptr ? nullptr : FindMember(*config, "value");
  }

  absl::Status Add(const std::string& name, const Json& value) {
    if (IsNone(value)) return absl::OkStatus();
    const Json* const constant = ConstantOf(value);
    if (constant != nullptr && constant->is_number()) return AddArgument(name, *constant);
    if (constant != nullptr || HasTensor(value)) return AddTensors(name, value);
    if (!is_keras_3_ && value.is_array() && value.size() >= 3 && value[0] == kConstant) {
      return Add(name, value[2]);
    }
    const Json* const items = ItemsOf(value);
    const Argument* const argument = class_->schema.Find(name);
    const bool has_argument =
        argument != nullptr && (items == nullptr || argument->type != ArgumentType::kFloat);
    if (!has_argument && items != nullptr) return AddConstant(name, *items, "");
    return AddArgument(name, value);
  }

  absl::Status AddConstant(const std::string& name, const Json& value, const std::string& dtype) {
    v1::ConfigValue numbers;
    std::vector<int64_t> shape;
    COHORT_RETURN_IF_ERROR(AddNumbers(value, 0, numbers.mutable_list(), &shape));
    v1::ClassConfig config;
    (*config.mutable_config())["value"] = std::move(numbers);
    (*config.mutable_config())["shape"] = ConfigOf(shape);
    if (!dtype.empty()) (*config.mutable_config())["dtype"] = ConfigOf(std::string_view(dtype));
    call_.inputs.push_back({{}, std::make_shared<const v1::ClassConfig>(std::move(config)), name});
    return absl::OkStatus();
  }

  absl::Status AddTensors(const std::string& name, const Json& value) {
    if (const Json* const reference = ReferenceOf(value)) {
      call_.inputs.push_back({ToReference(*reference), nullptr, name});
      return absl::OkStatus();
    }
    if (const Json* const constant = ConstantOf(value)) {
      return AddConstant(name, *constant, StringMember(*FindMember(value, "config"), "dtype"));
    }
    if (StringMember(value, "class_name") == "__keras_tensor__") {
      return InvalidArgument("{} has no keras_history", ShortText(value));
    }
    const Json* const items = ItemsOf(value);
    if (items == nullptr || (!is_keras_3_ && IsReference(value))) {
      return NoTensor(!is_keras_3_ && IsReference(value) ? value[2] : value);
    }
    // A list stands for several arguments: keras.layers.Attention takes one of query and value.
    size_t position = name.empty() ? 0 : OrderOf(name);
    for (const Json& item : *items) {
      const bool is_named = !name.empty() && position < class_->call.size();
      COHORT_RETURN_IF_ERROR(AddTensors(is_named ? class_->call[position++] : name, item));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<KerasReference> MaskOf(const Json& value) const {
    const Json* const reference = ReferenceOf(value);
    if (reference != nullptr) return ToReference(*reference);
    return Unimplemented("a mask that is no tensor of the model is not supported");
  }

  absl::Status AddMasks(const Json& value) {
    const Json* const items = ReferenceOf(value) == nullptr ? ItemsOf(value) : nullptr;
    if (items == nullptr) {
      first_masks_.resize(1);
      COHORT_ASSIGN_OR_RETURN(first_masks_[0], MaskOf(value));
      return absl::OkStatus();
    }
    for (const Json& item : *items) {
      first_masks_.emplace_back();
      if (IsNone(item)) continue;
      COHORT_ASSIGN_OR_RETURN(first_masks_.back(), MaskOf(item));
    }
    return absl::OkStatus();
  }

  absl::Status AddMask(const std::string& name, const Json& value) {
    COHORT_ASSIGN_OR_RETURN(masks_[name], MaskOf(value));
    return absl::OkStatus();
  }

  absl::Status AddArgument(const std::string& name, const Json& value) {
    if (class_ == nullptr || class_->schema.Find(name) == nullptr) return Unknown(name);
    if (name == "key") {
      COHORT_ASSIGN_OR_RETURN(call_.arguments[name], KeyOf(value));
      return absl::OkStatus();
    }
    COHORT_ASSIGN_OR_RETURN(call_.arguments[name], ReadKerasValue(value));
    return absl::OkStatus();
  }

  // The places and slices of x[key], as Python writes them.
  static absl::StatusOr<v1::ConfigValue> KeyOf(const Json& value) {
    const Json* const items = ItemsOf(value);
    std::string text;
    for (const Json& item : items == nullptr ? Json::array({value}) : *items) {
      const std::string class_name = StringMember(item, "class_name");
      if (!text.empty()) text += ", ";
      if (item.is_null()) {
        text += "None";
      } else if (item.is_number_integer()) {
        text += item.dump();
      } else if (class_name == "__ellipsis__") {
        text += "...";
      } else if (class_name == "__slice__" || IsSliceOfKeras2(item)) {
        const Json* const config = class_name.empty() ? &item : FindMember(item, "config");
        if (config == nullptr) return InvalidArgument("{} is no slice", ShortText(item));
        const auto place = [config](const char* key) {
          const Json* const at = FindMember(*config, key);
          return at == nullptr || at->is_null() ? std::string() : at->dump();
        };
        const std::string step = place("step");
        text += place("start") + ":" + place("stop") + (step.empty() ? "" : ":" + step);
      } else {
        return Unimplemented("{} as an index of a tensor is not supported", ShortText(item));
      }
    }
    return ConfigOf(std::string_view(text));
  }

  static bool IsSliceOfKeras2(const Json& item) {
    return item.is_object() && item.contains("start") && item.contains("stop");
  }

  const LayerClass* const class_;
  const bool is_keras_3_;
  size_t positions_ = 0;
  KerasCall call_;
  std::vector<std::optional<KerasReference>> first_masks_;
  std::map<std::string, std::optional<KerasReference>> masks_;  // by the name of the input
};

absl::StatusOr<KerasCall> ReadCallOfKeras2(const Json& node, const LayerClass* layer_class) {
  CallReader reader(layer_class, false);
  if (!node.is_array()) return NoTensor(node);
  const Json one = IsReference(node) ? Json::array({node}) : node;
  for (const Json& value : one) {
    COHORT_RETURN_IF_ERROR(reader.AddReference(value));
  }
  // Each reference has them.
  for (const Json& value : one) {
    if (!IsReference(value) || value.size() < 4 || !value[3].is_object()) continue;
    for (const auto& [name, argument] : value[3].items()) {
      COHORT_RETURN_IF_ERROR(reader.AddNamed(name, argument));
    }
    break;
  }
  return std::move(reader).Take();
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

absl::StatusOr<KerasCall> ReadKerasCall(const Json& node, const LayerClass* layer_class) {
  if (!node.is_object()) return ReadCallOfKeras2(node, layer_class);
  CallReader reader(layer_class, true);
  const Json* const args = FindMember(node, "args");
  if (args == nullptr || !args->is_array()) return NoTensor(node);
  for (const Json& arg : *args) COHORT_RETURN_IF_ERROR(reader.AddPositional(arg));
  const Json* const kwargs = FindMember(node, "kwargs");
  if (kwargs != nullptr && kwargs->is_object()) {
    for (const auto& [name, value] : kwargs->items()) {
      COHORT_RETURN_IF_ERROR(reader.AddNamed(name, value));
    }
  }
  return std::move(reader).Take();
}

absl::StatusOr<References> ReadKerasEnds(const Json& ends) {
  References references;
  COHORT_RETURN_IF_ERROR(AddEnds(ends, "", &references));
  return references;
}

}  // namespace cohort

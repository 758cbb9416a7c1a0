#include "common/model/keras_json/tensorflow_functions.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "common/base/json_text.h"
#include "common/base/printable.h"
#include "common/base/status.h"

namespace cohort {
namespace {

using Json = nlohmann::json;

// Functions of TensorFlow, the function of keras.ops (or the layer) that does the same, and its
// arguments after the first: "y:x2" is `y` there and `x2` here.
struct Function {
  std::string_view names;
  std::string_view operation;
  std::string_view arguments;
};

constexpr Function kFunctions[] = {
    {"__operators__.add math.add nn.bias_add", "add", "y:x2 bias:x2"},
    {"__operators__.eq math.equal", "equal", "y:x2 other:x2"},
    {"__operators__.getitem", "get_item", "slice_spec:key"},
    {"__operators__.ne math.not_equal", "not_equal", "y:x2 other:x2"},
    {"cast", "cast", "dtype"},
    {"clip_by_value", "clip", "clip_value_min:x_min clip_value_max:x_max"},
    {"concat", "concatenate", "axis"},
    {"expand_dims", "expand_dims", "axis"},
    {"floor_div math.floordiv", "floor_divide", "y:x2"},
    {"gather", "take", "indices axis"},
    {"identity", "Identity", ""},
    {"linalg.matmul", "matmul", "b:x2"},
    {"math.abs", "abs", ""},
    {"math.add_n", "Add", ""},
    {"math.argmax", "argmax", "axis"},
    {"math.argmin", "argmin", "axis"},
    {"math.atan", "arctan", ""},
    {"math.ceil", "ceil", ""},
    {"math.cos", "cos", ""},
    {"math.cosh", "cosh", ""},
    {"math.cumsum", "cumsum", "axis"},
    {"math.divide math.truediv realdiv", "divide", "y:x2"},
    {"math.divide_no_nan", "divide_no_nan", "y:x2"},
    {"math.erf", "erf", ""},
    {"math.exp", "exp", ""},
    {"math.expm1", "expm1", ""},
    {"math.floor", "floor", ""},
    {"math.floormod", "mod", "y:x2"},
    {"math.greater", "greater", "y:x2"},
    {"math.greater_equal", "greater_equal", "y:x2"},
    {"math.is_finite", "isfinite", ""},
    {"math.is_nan", "isnan", ""},
    {"math.l2_normalize nn.l2_normalize", "normalize", "axis"},
    {"math.less", "less", "y:x2"},
    {"math.less_equal", "less_equal", "y:x2"},
    {"math.log", "log", ""},
    {"math.log1p", "log1p", ""},
    {"math.log_sigmoid", "log_sigmoid", ""},
    {"math.logical_and", "logical_and", "y:x2"},
    {"math.logical_not", "logical_not", ""},
    {"math.logical_or", "logical_or", "y:x2"},
    {"math.logical_xor", "logical_xor", "y:x2"},
    {"math.maximum", "maximum", "y:x2"},
    {"math.minimum", "minimum", "y:x2"},
    {"math.multiply", "multiply", "y:x2"},
    {"math.negative", "negative", ""},
    {"math.pow", "power", "y:x2"},
    {"math.reciprocal", "reciprocal", ""},
    {"math.reduce_all", "all", "axis keepdims"},
    {"math.reduce_any", "any", "axis keepdims"},
    {"math.reduce_logsumexp", "logsumexp", "axis keepdims"},
    {"math.reduce_max", "max", "axis keepdims"},
    {"math.reduce_mean", "mean", "axis keepdims"},
    {"math.reduce_min", "min", "axis keepdims"},
    {"math.reduce_prod", "prod", "axis keepdims"},
    {"math.reduce_std", "std", "axis keepdims"},
    {"math.reduce_sum", "sum", "axis keepdims"},
    {"math.reduce_variance", "var", "axis keepdims"},
    {"math.round", "round", ""},
    {"math.rsqrt", "rsqrt", ""},
    {"math.sigmoid nn.sigmoid", "sigmoid", ""},
    {"math.sign", "sign", ""},
    {"math.sin", "sin", ""},
    {"math.sinh", "sinh", ""},
    {"math.softplus nn.softplus", "softplus", ""},
    {"math.softsign nn.softsign", "softsign", ""},
    {"math.sqrt", "sqrt", ""},
    {"math.square", "square", ""},
    {"math.subtract", "subtract", "y:x2"},
    {"math.tan", "tan", ""},
    {"math.tanh nn.tanh", "tanh", ""},
    {"nn.elu", "elu", ""},
    {"nn.gelu", "gelu", "approximate"},
    {"nn.leaky_relu", "leaky_relu", "alpha:negative_slope"},
    {"nn.log_softmax math.log_softmax", "log_softmax", "axis"},
    {"nn.relu", "relu", ""},
    {"nn.relu6", "relu6", ""},
    {"nn.selu", "selu", ""},
    {"nn.silu nn.swish", "silu", ""},
    {"nn.softmax math.softmax", "softmax", "axis"},
    {"one_hot", "one_hot", "depth:num_classes axis dtype"},
    {"ones_like", "ones_like", "dtype"},
    {"pad", "pad", "paddings:pad_width mode constant_values"},
    {"repeat", "repeat", "repeats axis"},
    {"reshape", "reshape", "shape:newshape"},
    {"reverse", "flip", "axis"},
    {"roll", "roll", "shift axis"},
    {"slice", "slice", "begin:start_indices size:shape"},
    {"split", "split", "num_or_size_splits:indices_or_sections axis"},
    {"squeeze", "squeeze", "axis"},
    {"stack", "stack", "axis"},
    {"stop_gradient", "stop_gradient", ""},
    {"tensordot", "tensordot", "b:x2 axes"},
    {"tile", "tile", "multiples:repeats"},
    {"transpose", "transpose", "perm:axes"},
    {"unstack", "unstack", "num axis"},
    {"where", "where", "x:x1 y:x2"},
    {"zeros_like", "zeros_like", "dtype"},
};

bool HasWord(std::string_view words, std::string_view word) {
  return fmt::format(" {} ", words).find(fmt::format(" {} ", word)) != std::string::npos;
}

const Function* FindFunction(std::string_view name) {
  constexpr std::string_view kOld = "compat.v1.";
  if (name.starts_with(kOld)) name.remove_prefix(kOld.size());
  for (const Function& function : kFunctions) {
    if (HasWord(function.names, name)) return &function;
  }
  return nullptr;
}

// What to use in place of the function; "" if that is no single one.
std::string_view InPlaceOf(std::string_view name) {
  if (name.ends_with("shape")) return "; write -1 for the batch in tf.reshape";
  if (name == "einsum") return ": Keras 2 does not write its tensors into the JSON";
  if (name == "nn.dropout") return "; use keras.layers.Dropout";
  if (name.find("conv") != name.npos) return "; use a layer such as keras.layers.Conv2D";
  if (name.starts_with("image.")) return "; use a layer such as keras.layers.UpSampling2D";
  return "; use a layer of keras.layers, or Keras 3 with a function of keras.ops";
}

// The name that an argument has in keras.ops; none if the function has no such argument.
std::optional<std::string> ArgumentHere(const Function& function, const std::string& name) {
  std::istringstream words{std::string(function.arguments)};
  for (std::string word; words >> word;) {
    const size_t colon = word.find(':');
    if (word.substr(0, colon) == name) {
      return colon == word.npos ? word : word.substr(colon + 1);
    }
  }
  return std::nullopt;
}

// True for a value that stands for no argument, or for one that changes nothing.
bool IsUnused(const std::string& name, const Json& value) {
  if (value.is_null() || name == "name") return true;
  const bool is_off = value == false || value == 0;
  if (HasWord("adjoint_a adjoint_b batch_dims conjugate exclusive reverse transpose_a transpose_b",
              name)) {
    return is_off;
  }
  if (name == "output_type") return value == "int64";
  if (name == "beta") return value == 1.0;
  return name == "data_format" || name == "num" || name == "use_cudnn_on_gpu";
}

// What differs between the two beyond the names of arguments.
absl::Status AdaptArguments(std::string_view operation, Json* arguments) {
  const auto default_of = [&](const char* key, Json value) {
    if (!arguments->contains(key)) (*arguments)[key] = std::move(value);
  };
  if (operation == "gelu") default_of("approximate", false);
  if (operation == "take" || operation == "argmax" || operation == "argmin" ||
      operation == "cumsum") {
    default_of("axis", 0);
  }
  // A bound of the square there, and of the length here.
  if (operation == "normalize") default_of("epsilon", 1e-6);
  if (operation == "pad") {
    std::string mode = StringMember(*arguments, "mode");
    std::ranges::transform(mode, mode.begin(), [](char c) { return c < 'a' ? c | 0x20 : c; });
    (*arguments)["mode"] = mode.empty() ? "constant" : mode;
    if (mode == "reflect" || mode == "symmetric") arguments->erase("constant_values");
  }
  if (operation != "split") return absl::OkStatus();
  const Json sizes = arguments->value("indices_or_sections", Json());
  if (!sizes.is_array()) return absl::OkStatus();
  // Sizes there, and places here.
  Json places = Json::array();
  int64_t place = 0;
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    if (!sizes[i].is_number_integer() || sizes[i] < 0) {
      return Unimplemented("tf.split needs sizes that are numbers");
    }
    places.push_back(place += sizes[i].get<int64_t>());
  }
  arguments->erase("indices_or_sections");
  (*arguments)["indices"] = places;
  return absl::OkStatus();
}

bool IsTensor(const Json& value) {
  return value.is_array() && value.size() >= 3 && value[0].is_string() &&
         value[1].is_number_integer();
}

// tf.matmul with a transposed side is ops.einsum.
absl::StatusOr<bool> ToEinsum(Json* call) {
  if (!IsTensor(*call) || call->size() < 4) return false;
  const Json arguments = (*call)[3];
  const auto is_set = [&arguments](const char* key) {
    const Json* const value = FindMember(arguments, key);
    return value != nullptr && *value == true;
  };
  const bool first = is_set("transpose_a"), second = is_set("transpose_b");
  if (!first && !second) return false;
  const Json* const b = FindMember(arguments, "b");
  if (b == nullptr || !IsTensor(*b)) {
    return Unimplemented(
        "tf.matmul of a transposed constant is not supported: transpose it before");
  }
  const std::string subscripts =
      fmt::format("...{},...{}->...ik", first ? "ji" : "ij", second ? "kj" : "jk");
  Json left = *call, right = *b;
  left[3] = right[3] = Json{{"subscripts", subscripts}};
  *call = Json::array({left, right});
  return true;
}

absl::Status RewriteArguments(const Function& function, Json* reference) {
  if (!IsTensor(*reference) || reference->size() < 4 || !(*reference)[3].is_object()) {
    return absl::OkStatus();
  }
  Json here = Json::object();
  for (const auto& [name, value] : (*reference)[3].items()) {
    const std::optional<std::string> argument = ArgumentHere(function, name);
    if (argument && !value.is_null()) {
      here[*argument] = value;
    } else if (!IsUnused(name, value)) {
      return Unimplemented("the argument `{}` of its call is not supported", PrintableLine(name));
    }
  }
  COHORT_RETURN_IF_ERROR(AdaptArguments(function.operation, &here));
  (*reference)[3] = std::move(here);
  return absl::OkStatus();
}

}  // namespace

bool IsTensorFlowFunction(const Json& layer) {
  const std::string class_name = StringMember(layer, "class_name");
  return class_name == "TFOpLambda" || class_name == "SlicingOpLambda";
}

absl::Status ToKerasOperation(Json* layer) {
  const Json* const config = FindMember(*layer, "config");
  const std::string name = config == nullptr ? "" : StringMember(*config, "function");
  const Function* const function = FindFunction(name);
  if (function == nullptr) {
    return Unimplemented("the function tf.{} on tensors is not supported{}", PrintableLine(name),
                         InPlaceOf(name));
  }
  std::string operation(function->operation);
  Json calls = layer->value("inbound_nodes", Json::array());
  for (Json& call : calls) {
    if (operation == "matmul") {
      COHORT_ASSIGN_OR_RETURN(const bool is_einsum, ToEinsum(&call));
      if (is_einsum) {
        operation = "einsum";
        continue;
      }
    }
    if (IsTensor(call)) {
      COHORT_RETURN_IF_ERROR(RewriteArguments(*function, &call));
      continue;
    }
    for (Json& reference : call) COHORT_RETURN_IF_ERROR(RewriteArguments(*function, &reference));
  }
  const bool is_layer = operation[0] >= 'A' && operation[0] <= 'Z';
  (*layer)["inbound_nodes"] = std::move(calls);
  (*layer)["module"] = is_layer ? "keras.layers" : "keras.ops";
  (*layer)["class_name"] = std::move(operation);
  (*layer)["config"] = Json::object();
  return absl::OkStatus();
}

}  // namespace cohort

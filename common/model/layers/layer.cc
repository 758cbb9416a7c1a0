#include "common/model/layers/layer.h"

#include "common/graph/expr.h"
#include "common/model/class_config.h"
#include "common/model/planned_names.h"

namespace cohort {

std::span<const LayerClass> AllLayers() {
  static const std::vector<LayerClass>& layers = *new std::vector<LayerClass>{
      {"Activation", {{"activation", "activation", true}}, 1, 1, BuildActivation},
      {"Concatenate", {{"axis", "axis"}}, 1, 1 << 16, BuildConcatenate},
      {"Dense",
       {{"units", "units", true},
        {"activation", "activation"},
        {"use_bias", "no_bias"},
        {"kernel_initializer", "kernel_initializer"},
        {"bias_initializer", "bias_initializer"}},
       1,
       1,
       BuildDense},
      {"Dropout", {{"rate", "rate", true}, {"seed", "seed"}}, 1, 1, BuildDropout},
      {"Embedding",
       {{"input_dim", "input_dim", true},
        {"output_dim", "output_dim", true},
        {"embeddings_initializer", "embeddings_initializer"}},
       1,
       1,
       BuildEmbedding},
      {"Flatten", {}, 1, 1, BuildFlatten},
      {"GlobalAveragePooling1D", {}, 1, 1, BuildGlobalAveragePooling1D},
      {"Input", {{"shape", "shape"}, {"dtype", "dtype"}, {"feature", "feature"}}, 0, 0, nullptr},
      {"Reshape", {{"target_shape", "shape", true}}, 1, 1, BuildReshape},
  };
  return layers;
}

absl::StatusOr<const LayerClass*> FindLayer(std::string_view class_name) {
  std::vector<std::string_view> names;
  for (const LayerClass& layer : AllLayers()) {
    if (layer.name == class_name) return &layer;
    names.push_back(layer.name);
  }
  return NoSuchName("layer", class_name, names);
}

Expr LayerContext::FloatInput(size_t i) const {
  const Expr x = inputs[i].value;
  return x.valid() ? Cast(x, floatx) : x;
}

absl::StatusOr<ValueType> LayerContext::AddVariable(std::string_view suffix,
                                                    std::vector<int64_t> dims,
                                                    const v1::InitializerConfig& initializer,
                                                    std::string_view fallback, bool row_reads) {
  v1::VariableSpec variable;
  variable.set_name(fmt::format("{}/{}", name, suffix));
  variable.set_dtype(static_cast<v1::DType>(floatx));
  ValueType type{floatx, {}};
  for (int64_t size : dims) {
    variable.add_dims(size);
    type.dims.push_back({size, 0});
  }
  COHORT_ASSIGN_OR_RETURN(*variable.mutable_initializer(),
                          MakeInitializer(initializer, fallback, seed, dims));
  variable.set_trainable(true);
  variable.set_row_reads(row_reads);
  variables->push_back(std::move(variable));
  return type;
}

absl::StatusOr<Expr> LayerContext::Weight(std::string_view suffix, std::vector<int64_t> dims,
                                          const v1::InitializerConfig& initializer,
                                          std::string_view fallback) {
  COHORT_ASSIGN_OR_RETURN(const ValueType type,
                          AddVariable(suffix, std::move(dims), initializer, fallback, false));
  return builder->Read(variables->back().name(), type);
}

std::vector<int64_t> ReshapeDims(std::span<const Dim> dims) {
  std::vector<int64_t> sizes;
  for (const Dim& dim : dims) sizes.push_back(dim.bounded() ? -1 : dim.size);
  return sizes;
}

}  // namespace cohort

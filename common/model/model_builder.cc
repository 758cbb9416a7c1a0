#include "common/model/model_builder.h"

#include <algorithm>
#include <map>

#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/program_builder.h"
#include "common/model/class_config.h"
#include "common/model/layer_graph.h"
#include "common/model/losses.h"

namespace cohort {
namespace {

enum class Mode { kTrain, kEval, kPredict };

absl::StatusOr<DType> FloatX(const v1::ModelSpec& model) {
  if (model.dtype().empty()) return DType::kFloat32;
  const auto dtype = DTypeFromName(model.dtype());
  if (dtype.has_value() && IsFloating(*dtype)) return *dtype;
  return InvalidArgument("model.dtype must be float32 or float64, not \"{}\"", model.dtype());
}

// Makes one of the programs of a model.
class ProgramMaker {
 public:
  ProgramMaker(const v1::JobSpec& job, const LayerGraph& graph,
               std::span<const FeatureType> features, const JobLines* lines, DType floatx,
               Mode mode)
      : job_(job),
        graph_(graph),
        features_(features),
        lines_(lines),
        floatx_(floatx),
        mode_(mode),
        builder_(mode == Mode::kTrain  ? "train"
                 : mode == Mode::kEval ? "eval"
                                       : "predict") {}

  absl::StatusOr<Program> Make() {
    batch_ = builder_.AddSymbol("batch", job_.data().batch_size());
    COHORT_RETURN_IF_ERROR(builder_.status());
    COHORT_RETURN_IF_ERROR(MakeArguments());
    for (const GraphLayer& layer : graph_.layers) {
      COHORT_RETURN_IF_ERROR(Annotate(MakeLayer(layer), layer.where));
    }
    const LayerOutput& prediction = outputs_[static_cast<size_t>(graph_.output)];
    if (mode_ == Mode::kPredict) {
      builder_.AddOutput(graph_.layers[static_cast<size_t>(graph_.output)].name, prediction.value);
    } else {
      COHORT_RETURN_IF_ERROR(MakeLoss(prediction));
    }
    return std::move(builder_).Build();
  }

  const std::vector<std::string>& features() const { return argument_names_; }
  std::vector<v1::VariableSpec> TakeVariables() { return std::move(variables_); }
  const std::vector<ModelSummary::Row>& rows() const { return rows_; }

 private:
  void AddArgument(int feature) {
    if (arguments_.contains(feature)) return;
    const FeatureType& column = features_[static_cast<size_t>(feature)];
    ValueType type{column.dtype, {{job_.data().batch_size(), batch_}}};
    for (int64_t size : column.dims) type.dims.push_back({size, 0});
    arguments_[feature] = builder_.Input(column.name, std::move(type));
    argument_names_.push_back(column.name);
  }

  absl::Status MakeArguments() {
    for (const GraphLayer& layer : graph_.layers) {
      if (layer.feature >= 0) AddArgument(layer.feature);
    }
    if (mode_ != Mode::kPredict) AddArgument(graph_.label);
    return builder_.status();
  }

  absl::Status MakeLayer(const GraphLayer& layer) {
    builder_.SetScope(layer.name);
    const size_t first_variable = variables_.size();
    LayerOutput output;
    if (layer.layer_class->build == nullptr) {
      COHORT_ASSIGN_OR_RETURN(output, MakeInput(layer));
    } else {
      LayerContext context{&builder_, &layer.spec, layer.name, {}, mode_ == Mode::kTrain,
                           floatx_,   job_.seed(), &variables_};
      for (int input : layer.inputs) context.inputs.push_back(outputs_[static_cast<size_t>(input)]);
      COHORT_RETURN_IF_ERROR(CheckIds(layer));
      COHORT_ASSIGN_OR_RETURN(output, layer.layer_class->build(&context));
    }
    builder_.SetScope("");
    COHORT_RETURN_IF_ERROR(builder_.status());
    outputs_.push_back(output);
    weighted_.push_back(variables_.size() > first_variable ||
                        std::any_of(layer.inputs.begin(), layer.inputs.end(), [&](int input) {
                          return weighted_[static_cast<size_t>(input)];
                        }));
    AddRow(layer, output.value.type(), first_variable);
    return absl::OkStatus();
  }

  // A step must know which rows of a table to pull before it pulls anything.
  absl::Status CheckIds(const GraphLayer& layer) const {
    if (layer.spec.class_name() != "Embedding") return absl::OkStatus();
    const auto input = static_cast<size_t>(layer.inputs[0]);
    if (!weighted_[input]) return absl::OkStatus();
    return InvalidArgument(
        "its ids come from layer \"{}\", which depends on weights; they must come from the data",
        graph_.layers[input].name);
  }

  // Gives the column the shape and dtype that the layer needs: a column of scalars counts as [1].
  absl::StatusOr<LayerOutput> MakeInput(const GraphLayer& layer) {
    Expr x = arguments_.at(layer.feature);
    const FeatureType& column = features_[static_cast<size_t>(layer.feature)];
    Dims dims(layer.spec.shape().begin(), layer.spec.shape().end());
    if (dims.empty()) dims = column.dims.empty() ? Dims{1} : column.dims;
    const Dims with_one = [&] {
      Dims d = column.dims;
      d.push_back(1);
      return d;
    }();
    if (dims != column.dims) {
      if (dims != with_one) {
        return InvalidArgument("its shape is {}, but column \"{}\" has {} for each record",
                               DimsToString(dims), column.name, DimsToString(column.dims));
      }
      std::vector<int64_t> target = {-1};
      target.insert(target.end(), dims.begin(), dims.end());
      x = Reshape(x, std::move(target));
    }
    COHORT_ASSIGN_OR_RETURN(const DType dtype, InputDType(layer.spec, column));
    return LayerOutput{Cast(x, dtype), {}};
  }

  // Keras' default is floatx. A column of integers (ids) keeps its dtype, but bytes (pixels) do
  // not.
  absl::StatusOr<DType> InputDType(const v1::LayerSpec& spec, const FeatureType& column) const {
    if (spec.dtype().empty()) {
      const bool ids = column.dtype == DType::kInt64 || column.dtype == DType::kInt32;
      return ids ? DType::kInt64 : floatx_;
    }
    const auto dtype = DTypeFromName(spec.dtype());
    if (!dtype.has_value()) return InvalidArgument("there is no dtype \"{}\"", spec.dtype());
    if (IsFloating(*dtype)) return floatx_;
    if (*dtype == DType::kInt32 || *dtype == DType::kInt64) return DType::kInt64;
    return InvalidArgument("dtype must be float32, float64, int32 or int64, not \"{}\"",
                           spec.dtype());
  }

  void AddRow(const GraphLayer& layer, const ValueType& type, size_t first_variable) {
    ModelSummary::Row row;
    row.name = layer.name;
    row.class_name = layer.spec.class_name() == "Input" ? "InputLayer" : layer.spec.class_name();
    for (size_t i = 1; i < type.dims.size(); ++i) row.dims.push_back(type.dims[i].size);
    for (size_t i = first_variable; i < variables_.size(); ++i) {
      int64_t elements = 1;
      for (int64_t size : variables_[i].dims()) elements *= size;
      row.params += elements;
    }
    for (int input : layer.inputs) {
      row.connected_to.push_back(graph_.layers[static_cast<size_t>(input)].name);
    }
    rows_.push_back(std::move(row));
  }

  absl::Status At(absl::Status status, std::string_view path) const {
    return Annotate(std::move(status), lines_ == nullptr ? std::string(path) : lines_->Where(path));
  }

  absl::Status MakeLoss(const LayerOutput& prediction) {
    const Expr label = arguments_.at(graph_.label);
    const v1::CompileSpec& compile = job_.compile();
    builder_.SetScope("loss");
    auto elements = ElementwiseLoss(compile.loss(), compile.from_logits(), prediction, label);
    if (!elements.ok()) return At(elements.status(), "compile.loss");
    const Expr loss = ReduceSum(*elements);
    const Expr weight = NumElements(*elements);
    if (!loss.valid()) return At(builder_.status(), "compile.loss");
    builder_.AddMetric("loss", loss, weight);
    for (int i = 0; i < compile.metrics_size(); ++i) {
      builder_.SetScope(compile.metrics(i));
      auto metric = MakeMetric(compile.metrics(i), prediction, label);
      if (!metric.ok()) return At(metric.status(), "compile.metrics");
      builder_.AddMetric(compile.metrics(i), metric->total, metric->count);
    }
    if (mode_ == Mode::kEval) return absl::OkStatus();
    builder_.SetLoss(weight);
    return PushGradients(&builder_, loss);
  }

  const v1::JobSpec& job_;
  const LayerGraph& graph_;
  std::span<const FeatureType> features_;
  const JobLines* lines_;
  const DType floatx_;
  const Mode mode_;
  ProgramBuilder builder_;
  int batch_ = 0;
  std::map<int, Expr> arguments_;  // by feature
  std::vector<std::string> argument_names_;
  std::vector<LayerOutput> outputs_;  // by layer
  std::vector<bool> weighted_;        // by layer: the output depends on variables
  std::vector<v1::VariableSpec> variables_;
  std::vector<ModelSummary::Row> rows_;
};

ModelSummary Summarize(const LayerGraph& graph, std::vector<ModelSummary::Row> rows, DType floatx) {
  ModelSummary summary{graph.model_name, graph.sequential, std::move(rows), 0, 0};
  for (const ModelSummary::Row& row : summary.rows) summary.params += row.params;
  summary.param_bytes = summary.params * static_cast<int64_t>(SizeOf(floatx));
  return summary;
}

}  // namespace

absl::StatusOr<BuiltModel> BuildModel(const v1::JobSpec& job, std::span<const FeatureType> features,
                                      const JobLines* lines) {
  COHORT_ASSIGN_OR_RETURN(const DType floatx, FloatX(job.model()));
  COHORT_ASSIGN_OR_RETURN(const LayerGraph graph, MakeLayerGraph(job, features, lines));
  BuiltModel model;
  ProgramMaker train(job, graph, features, lines, floatx, Mode::kTrain);
  COHORT_ASSIGN_OR_RETURN(model.train, train.Make());
  ProgramMaker eval(job, graph, features, lines, floatx, Mode::kEval);
  COHORT_ASSIGN_OR_RETURN(model.eval, eval.Make());
  ProgramMaker predict(job, graph, features, lines, floatx, Mode::kPredict);
  COHORT_ASSIGN_OR_RETURN(model.predict, predict.Make());
  model.features = train.features();
  model.summary = Summarize(graph, train.rows(), floatx);
  model.variables = train.TakeVariables();
  auto optimizer = MakeOptimizer(job.compile().optimizer());
  if (!optimizer.ok()) {
    return Annotate(optimizer.status(),
                    lines == nullptr ? "compile.optimizer" : lines->Where("compile.optimizer"));
  }
  model.optimizer = *std::move(optimizer);
  return model;
}

absl::Status CheckInputs(const JobFile& job, const Dataset& data) {
  const auto& layers = job.spec.model().layers();
  for (int i = 0; i < layers.size(); ++i) {
    const v1::LayerSpec& layer = layers[i];
    if (layer.class_name() != "Input") continue;
    const auto why =
        data.no_features().find(layer.feature().empty() ? layer.name() : layer.feature());
    if (why == data.no_features().end()) continue;
    return InvalidArgument("{}: {}", job.lines.Where(fmt::format("model.layers[{}]", i)),
                           why->second);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<FeatureType>> DeclaredFeatures(const v1::JobSpec& job) {
  COHORT_ASSIGN_OR_RETURN(const DType floatx, FloatX(job.model()));
  COHORT_ASSIGN_OR_RETURN(const std::string_view loss, FindLoss(job.compile().loss()));
  std::vector<FeatureType> features;
  for (const v1::LayerSpec& layer : job.model().layers()) {
    if (layer.class_name() != "Input") continue;
    const std::string name = !layer.feature().empty() ? layer.feature()
                             : !layer.name().empty()  ? layer.name()
                                                      : "input_layer";
    if (layer.shape().empty()) {
      return InvalidArgument("the Input \"{}\" has no shape: without the data it needs one", name);
    }
    const auto dtype = DTypeFromName(layer.dtype());
    features.push_back(
        {name, dtype.value_or(floatx), {layer.shape().begin(), layer.shape().end()}});
  }
  if (features.empty()) {
    return InvalidArgument("the model has no Input layer: without the data it needs one");
  }
  const bool classes = loss == "sparse_categorical_crossentropy";
  features.push_back({job.data().train().label(), classes ? DType::kInt64 : floatx, {}});
  return features;
}

}  // namespace cohort

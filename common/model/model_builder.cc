#include "common/model/model_builder.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "common/base/printable.h"
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/hot_rows.h"
#include "common/graph/mixed_precision.h"
#include "common/graph/program_builder.h"
#include "common/model/callbacks/averages.h"
#include "common/model/clipped_pushes.h"
#include "common/model/layer_graph.h"
#include "common/model/layers/masks.h"
#include "common/model/losses/loss.h"
#include "common/model/losses/sample_weight.h"
#include "common/model/metrics/metric.h"
#include "common/model/mode_graph.h"
#include "common/model/ragged_inputs.h"
#include "common/model/row_keys.h"
#include "common/optimizers/optimizers.h"

namespace cohort {
namespace {

enum class Mode { kTrain, kEval, kPredict };

absl::StatusOr<DType> FloatX(const v1::ModelSpec& model) {
  if (model.dtype().empty()) return DType::kFloat32;
  const auto dtype = DTypeFromName(model.dtype());
  if (dtype.has_value() && IsFloating(*dtype)) return *dtype;
  return InvalidArgument("model.dtype must be float32 or float64, not \"{}\"", model.dtype());
}

absl::StatusOr<Precision> JobPrecision(const v1::JobSpec& job, DType floatx) {
  if (!job.has_mixed_precision()) return Precision::kFloat32;
  const auto precision = PrecisionFromName(job.mixed_precision().dtype());
  if (!precision.has_value()) {
    return InvalidArgument("mixed_precision must be float32, bfloat16 or float16, not \"{}\"",
                           job.mixed_precision().dtype());
  }
  if (floatx == DType::kFloat32 || *precision == Precision::kFloat32) return *precision;
  return InvalidArgument("mixed_precision needs `model.dtype: float32`");
}

// Completes what was made in code or comes from a manifest of an older version. (MakeOptimizer
// completes the arguments of optimizers.)
absl::StatusOr<v1::CompileSpec> Complete(const v1::CompileSpec& given) {
  v1::CompileSpec compile = given;
  if (compile.losses().empty()) {
    v1::OutputLoss* const loss = compile.add_losses();
    *loss->mutable_loss_class() = given.loss_class();
    loss->set_weight(1);
  }
  for (v1::OutputLoss& loss : *compile.mutable_losses()) {
    auto config = CompleteConfig(Losses(), loss.loss_class());
    if (!config.ok()) return Annotate(config.status(), "compile.loss");
    *loss.mutable_loss_class() = *std::move(config);
  }
  for (v1::MetricSpec& metric : *compile.mutable_metric_classes()) {
    auto config = CompleteConfig(Metrics(), metric.metric_class());
    if (!config.ok()) return Annotate(config.status(), "compile.metrics");
    *metric.mutable_metric_class() = *std::move(config);
  }
  if (!given.has_optimizer_class()) compile.mutable_optimizer_class()->set_class_name("RMSprop");
  return compile;
}

// Makes one of the programs of a model. `compile` is complete, and null for Mode::kPredict.
class ProgramMaker {
 public:
  ProgramMaker(const v1::JobSpec& job, const v1::CompileSpec* compile, const LayerGraph& graph,
               std::span<const FeatureType> features, const JobLines* lines, DType floatx,
               Mode mode)
      : job_(job),
        compile_(compile),
        graph_(graph),
        features_(features),
        lines_(lines),
        floatx_(floatx),
        mode_(mode),
        outputs_(graph.layers.size()),
        weighted_(graph.layers.size(), false),
        rows_(graph.layers.size()),
        builder_(mode == Mode::kTrain  ? "train"
                 : mode == Mode::kEval ? "eval"
                                       : "predict"),
        row_keys_(&graph),
        id_readers_(ReadersOfIds(graph)) {}

  absl::StatusOr<Program> Make() {
    batch_ = builder_.AddSymbol("batch", job_.data().batch_size());
    COHORT_RETURN_IF_ERROR(builder_.status());
    COHORT_RETURN_IF_ERROR(MakeArguments());
    for (const size_t i : row_keys_.BuildOrder()) {
      COHORT_RETURN_IF_ERROR(Annotate(MakeLayer(i), graph_.layers[i].where));
    }
    if (mode_ == Mode::kPredict) {
      for (const GraphOutput& output : graph_.outputs) {
        builder_.AddOutput(output.name, outputs_[static_cast<size_t>(output.layer)].value);
      }
    } else {
      COHORT_RETURN_IF_ERROR(MakeLosses());
    }
    COHORT_ASSIGN_OR_RETURN(const Precision precision, JobPrecision(job_, floatx_));
    COHORT_ASSIGN_OR_RETURN(Program program, std::move(builder_).Build());
    return WithPrecision(std::move(program), precision, rounded_layers_);
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
    if (mode_ == Mode::kPredict) return builder_.status();
    for (const GraphOutput& output : graph_.outputs) AddArgument(output.label);
    for (const GraphOutput& output : graph_.outputs) {
      if (const int weight = WeightOf(output); weight >= 0) AddArgument(weight);
    }
    return builder_.status();
  }

  absl::Status MakeLayer(size_t index) {
    const GraphLayer& layer = graph_.layers[index];
    builder_.SetScope(layer.name);
    builder_.SetDevice(layer.device);
    COHORT_RETURN_IF_ERROR(CheckRaggedInputs(graph_, index));
    COHORT_RETURN_IF_ERROR(CheckIds(layer));
    if (!HasDType(layer, "float32")) rounded_layers_.insert(layer.name);
    const size_t first_variable = variables_.size();
    LayerOutput output;
    if (layer.layer_class->build == nullptr) {
      COHORT_ASSIGN_OR_RETURN(output, MakeInput(index));
    } else {
      LayerContext context{.builder = &builder_,
                           .config = Config(layer.config),
                           .name = graph_.layers[graph_.FirstCall(index)].name,
                           .inputs = {},
                           .training = mode_ == Mode::kTrain,
                           .floatx = floatx_,
                           .seed = job_.seed(),
                           .variables = &variables_,
                           .penalties = &penalties_,
                           .is_shared = layer.shares >= 0,
                           .keys = {},
                           .places = {}};
      for (size_t i = 0; i < layer.num_inputs; ++i) {
        context.inputs.push_back(outputs_[static_cast<size_t>(layer.inputs[i])]);
        if (layer.masks[i] < 0) continue;
        const auto mask = static_cast<size_t>(layer.inputs[static_cast<size_t>(layer.masks[i])]);
        context.inputs.back().mask = AsMask(outputs_[mask].value);
        context.mask_is_given = context.mask_is_given || i == 0;
      }
      if (layer.layer_class->takes_keys) {
        COHORT_RETURN_IF_ERROR(row_keys_.Set(index, outputs_, weighted_, &context));
      }
      COHORT_ASSIGN_OR_RETURN(output, BuildLayer(*layer.layer_class, &context));
    }
    builder_.SetScope("");
    builder_.SetDevice("");
    COHORT_RETURN_IF_ERROR(builder_.status());
    outputs_[index] = output;
    for (size_t i = 0; layer.layer_class->removes_masks && i < layer.num_inputs; ++i) {
      outputs_[static_cast<size_t>(layer.inputs[i])].mask = {};
    }
    weighted_[index] = layer.shares >= 0 || variables_.size() > first_variable ||
                       std::any_of(layer.inputs.begin(), layer.inputs.end(), [&](int input) {
                         return weighted_[static_cast<size_t>(input)];
                       });
    rows_[index] = Row(layer, output.value.type(), first_variable);
    return absl::OkStatus();
  }

  // A transform may make numbers of the words of a column, as Keras' preprocessing layers do.
  absl::Status CheckIds(const GraphLayer& layer) const {
    if (!layer.layer_class->takes_keys || layer.inputs.empty()) return absl::OkStatus();
    const GraphLayer& ids = graph_.layers[static_cast<size_t>(layer.inputs[0])];
    if (ids.feature < 0 || !HasDType(ids, "string")) return absl::OkStatus();
    const std::string& column = features_[static_cast<size_t>(ids.feature)].name;
    const auto& transforms = job_.data().train().transforms();
    const bool is_made = std::any_of(
        transforms.begin(), transforms.end(), [&](const v1::ColumnTransform& transform) {
          return (transform.output().empty() ? transform.column() : transform.output()) == column;
        });
    if (is_made) return absl::OkStatus();
    return InvalidArgument(
        "its input \"{}\" has the dtype string, and ids are integers: give the column \"{}\" "
        "Hashing "
        "or a lookup in `data.train.transforms`, and the Input the dtype int64",
        PrintableLine(ids.name), PrintableLine(column));
  }

  static bool HasDType(const GraphLayer& layer, std::string_view dtype) {
    const Config config(layer.config);
    return config.Has("dtype") && config.String("dtype") == dtype;
  }

  absl::StatusOr<LayerOutput> MakeInput(size_t index) {
    const GraphLayer& layer = graph_.layers[index];
    const FeatureType& column = features_[static_cast<size_t>(layer.feature)];
    COHORT_ASSIGN_OR_RETURN(const Expr value,
                            InputValue(Config(layer.config), arguments_.at(layer.feature),
                                       fmt::format("column \"{}\"", column.name), floatx_,
                                       id_readers_[index] != nullptr));
    return value;
  }

  // The variables of a layer count at its first call.
  ModelSummary::Row Row(const GraphLayer& layer, const ValueType& type, size_t first_variable) {
    ModelSummary::Row row;
    row.name = layer.name;
    row.device = layer.device;
    const std::string& class_name = layer.layer_class->schema.name;
    row.class_name = class_name == "Input" ? "InputLayer" : class_name;
    for (size_t i = 1; i < type.dims.size(); ++i) row.dims.push_back(type.dims[i].size);
    for (size_t i = first_variable; i < variables_.size(); ++i) {
      int64_t elements = 1;
      if (IsTable(variables_[i].dims())) continue;  // nobody knows its rows
      for (int64_t size : variables_[i].dims()) elements *= size;
      row.params += elements;
      if (!variables_[i].trainable()) row.frozen_params += elements;
    }
    for (int input : layer.inputs) {
      row.connected_to.push_back(graph_.layers[static_cast<size_t>(input)].name);
    }
    return row;
  }

  absl::Status At(absl::Status status, std::string_view path) const {
    return Annotate(std::move(status), lines_ == nullptr ? std::string(path) : lines_->Where(path));
  }

  // Finds the loss of an output by its name, or the only one.
  absl::StatusOr<const v1::OutputLoss*> FindLoss(const GraphOutput& output) const {
    const bool one = graph_.outputs.size() == 1 && compile_->losses_size() == 1;
    for (const v1::OutputLoss& loss : compile_->losses()) {
      if (one || loss.output() == output.name) return &loss;
    }
    return InvalidArgument("the output \"{}\" has no loss", output.name);
  }

  // The column of the weights of an output's records; -1: none.
  int WeightOf(const GraphOutput& output) const {
    return mode_ == Mode::kEval && IsUnweighted(job_.data().validation()) ? -1 : output.weight;
  }

  // The weights of the records of an output: those of its column, in training also those of the
  // labels. None: every record counts as 1.
  absl::StatusOr<Expr> SampleWeight(const GraphOutput& output) const {
    if (const int weight = WeightOf(output); weight >= 0) {
      return Cast(arguments_.at(weight), floatx_);
    }
    const auto& by_class = job_.fit().class_weight();
    if (by_class.empty() || mode_ != Mode::kTrain) return Expr();
    return WeightByClass({by_class.begin(), by_class.end()}, arguments_.at(output.label), floatx_);
  }

  // As in Keras, class weights are for models with one output, and exclude sample weights.
  absl::Status CheckClassWeight() const {
    for (const auto& [label, weight] : job_.fit().class_weight()) {
      if (weight >= 0) continue;
      return InvalidArgument("the weight of class {} is {}, and must not be negative", label,
                             weight);
    }
    if (job_.fit().class_weight().empty()) return absl::OkStatus();
    if (graph_.outputs.size() > 1) {
      return InvalidArgument(
          "class_weight is for a model with one output, and this one has {}: make a column of "
          "weights, and name it in `data.train.sample_weight`",
          graph_.outputs.size());
    }
    if (graph_.outputs[0].weight < 0) return absl::OkStatus();
    return InvalidArgument(
        "class_weight and `data.train.sample_weight` exclude each other: multiply the column by "
        "the "
        "weights of the classes");
  }

  // The loss of one output. Axis 0 of `batch` are the records.
  struct OutputSums {
    LossSums sums;
    Expr batch;
  };

  absl::StatusOr<OutputSums> SumsOf(const GraphOutput& output, const v1::OutputLoss& given) {
    const LayerOutput& prediction = outputs_[static_cast<size_t>(output.layer)];
    COHORT_ASSIGN_OR_RETURN(LossElements elements, ElementwiseLoss(given.loss_class(), prediction,
                                                                   arguments_.at(output.label)));
    if (!elements.values.valid()) return OutputSums{};
    COHORT_RETURN_IF_ERROR(MaskLoss(prediction.mask, &elements));
    COHORT_ASSIGN_OR_RETURN(const Expr weight, SampleWeight(output));
    const Expr batch = elements.values.rank() > 0 ? elements.values : prediction.value;
    COHORT_ASSIGN_OR_RETURN(const LossSums sums,
                            ReduceLoss(given.loss_class(), elements, weight, batch));
    return OutputSums{sums, batch};
  }

  // Reports a loss as Keras: the mean of the losses of batches, weighted by their records.
  void AddLossMetric(std::string name, const OutputSums& loss) {
    const auto& [total, weight, per_record] = loss.sums;
    if (per_record > 0) return builder_.AddMetric(std::move(name), total, weight);
    const Expr records = DimSize(loss.batch, 0);
    builder_.AddMetric(std::move(name), records * (total / weight), records);
  }

  // With several outputs the total is a sum over records, because means over other axes differ:
  // sum(loss weight * sum(elements) / elements per record), divided by the number of records.
  absl::Status MakeLosses() {
    builder_.SetScope("loss");
    COHORT_RETURN_IF_ERROR(At(CheckClassWeight(), "fit.class_weight"));
    OutputSums all;
    LossSums& loss = all.sums;
    std::vector<std::pair<std::string, OutputSums>> parts;
    for (const GraphOutput& output : graph_.outputs) {
      const auto given = FindLoss(output);
      if (!given.ok()) return At(given.status(), "compile.loss");
      const auto made = SumsOf(output, **given);
      if (!made.ok()) return At(InOutput(made.status(), output), "compile.loss");
      const LossSums& part = made->sums;
      if (!part.total.valid()) return At(builder_.status(), "compile.loss");
      parts.emplace_back(output.name + "_loss", *made);
      if (graph_.outputs.size() == 1 && (*given)->weight() == 1) {
        all = *made;
        continue;
      }
      const double factor = (*given)->weight();
      const Expr weighted = part.per_record > 0
                                ? (factor / part.per_record) * part.total
                                : (factor * DimSize(made->batch, 0)) * (part.total / part.weight);
      loss.total = loss.total.valid() ? loss.total + weighted : weighted;
      loss.weight = DimSize(made->batch, 0);
      loss.per_record = 1;
    }
    // Weighted as a record is: the sum of all totals, divided by that of all weights, then has each
    // penalty once, as Keras' loss of the global batch.
    for (const auto& [variable, penalty] : penalties_) {
      loss.total = loss.total + loss.weight * penalty;
    }
    AddLossMetric("loss", all);
    for (const auto& [name, part] : parts) {
      if (parts.size() > 1) AddLossMetric(name, part);
    }
    COHORT_RETURN_IF_ERROR(MakeMetrics());
    if (mode_ == Mode::kEval) return absl::OkStatus();
    builder_.SetLoss(loss.weight);
    const auto trainable = [this](std::string_view name) {
      return std::any_of(variables_.begin(), variables_.end(), [name](const auto& variable) {
        return variable.name() == name && variable.trainable();
      });
    };
    const LossScaling scaling = LossScalingOf(job_);
    return scaling.enabled() ? PushScaledGradients(&builder_, loss.total, scaling, trainable)
                             : PushGradients(&builder_, loss.total, trainable);
  }

  absl::Status MakeMetrics() {
    for (const v1::MetricSpec& spec : compile_->metric_classes()) {
      const auto output = std::find_if(
          graph_.outputs.begin(), graph_.outputs.end(), [&](const GraphOutput& candidate) {
            return graph_.outputs.size() == 1 || candidate.name == spec.output();
          });
      if (output == graph_.outputs.end()) {
        return At(
            InvalidArgument("the metric \"{}\" is for the output \"{}\", and the model has none "
                            "of this name",
                            spec.name(), spec.output()),
            "compile.metrics");
      }
      builder_.SetScope(spec.name());
      MetricInput input{outputs_[static_cast<size_t>(output->layer)],
                        arguments_.at(output->label),
                        {},
                        [this](const std::string& name) { return Column(name); }};
      if (spec.weighted()) {
        COHORT_ASSIGN_OR_RETURN(input.weight, SampleWeight(*output));
      }
      const auto metric = MakeMetric(spec.metric_class(), input);
      if (!metric.ok()) return At(InOutput(metric.status(), *output), "compile.metrics");
      AddMetric(spec.name(), *metric, &builder_);
    }
    return absl::OkStatus();
  }

  // A column that a metric reads beside the label.
  absl::StatusOr<Expr> Column(const std::string& name) {
    for (size_t i = 0; i < features_.size(); ++i) {
      if (features_[i].name != name) continue;
      AddArgument(static_cast<int>(i));
      return arguments_.at(static_cast<int>(i));
    }
    return InvalidArgument("there is no column of numbers \"{}\"", name);
  }

  absl::Status InOutput(absl::Status status, const GraphOutput& output) const {
    if (graph_.outputs.size() == 1) return status;
    return Annotate(std::move(status), fmt::format("output \"{}\"", output.name));
  }

  const v1::JobSpec& job_;
  const v1::CompileSpec* compile_;
  const LayerGraph& graph_;
  std::span<const FeatureType> features_;
  const JobLines* lines_;
  const DType floatx_;
  const Mode mode_;
  // By layer.
  std::vector<LayerOutput> outputs_;
  std::vector<bool> weighted_;  // the output depends on variables
  std::vector<ModelSummary::Row> rows_;

  ProgramBuilder builder_;
  int batch_ = 0;
  std::map<int, Expr> arguments_;  // by feature
  std::vector<std::string> argument_names_;
  std::vector<v1::VariableSpec> variables_;
  std::set<std::string> rounded_layers_;   // whose products have the job's precision
  std::map<std::string, Expr> penalties_;  // regularizers' summands of the loss, by variable
  RowKeys row_keys_;
  const std::vector<const GraphLayer*> id_readers_;  // by layer
};

// The column that an Input names; "": none.
std::string GivenFeature(const v1::LayerSpec& input) {
  const auto it = input.config().find("feature");
  return it == input.config().end() ? "" : it->second.s();
}

// The shapes of the predictions for one record, by output; {} if the model cannot be built, which
// BuildModel will explain.
std::vector<Dims> PredictionDims(const v1::JobSpec& job, std::vector<FeatureType> features,
                                 const std::vector<FeatureType>& labels, DType floatx) {
  features.insert(features.end(), labels.begin(), labels.end());
  const auto graph = MakeLayerGraph(job, features, nullptr);
  if (!graph.ok()) return {};
  const LayerGraph inference = GraphOfMode(*graph, false);
  const auto predict =
      ProgramMaker(job, nullptr, inference, features, nullptr, floatx, Mode::kPredict).Make();
  if (!predict.ok()) return {};
  std::vector<Dims> dims;
  for (const auto& output : predict->outputs) {
    const ValueType type = predict->type(output.value);
    dims.emplace_back();
    for (size_t i = 1; i < type.dims.size(); ++i) dims.back().push_back(type.dims[i].size);
  }
  return dims;
}

// Adds the variables and the rows of a summary that evaluation alone has. Training leaves these
// variables as they are.
void AddThoseOf(std::vector<v1::VariableSpec> variables, const std::vector<ModelSummary::Row>& rows,
                std::vector<v1::VariableSpec>* all, std::vector<ModelSummary::Row>* all_rows) {
  for (v1::VariableSpec& variable : variables) {
    if (std::ranges::count(*all, variable.name(), &v1::VariableSpec::name) > 0) continue;
    variable.set_trainable(false);
    all->push_back(std::move(variable));
  }
  for (const ModelSummary::Row& row : rows) {
    if (std::ranges::count(*all_rows, row.name, &ModelSummary::Row::name) == 0) {
      all_rows->push_back(row);
    }
  }
}

ModelSummary Summarize(const LayerGraph& graph, std::vector<ModelSummary::Row> rows, DType floatx) {
  ModelSummary summary{graph.model_name, graph.sequential, std::move(rows), 0, 0};
  for (const ModelSummary::Row& row : summary.rows) {
    summary.params += row.params;
    summary.frozen_params += row.frozen_params;
  }
  summary.param_bytes = summary.params * static_cast<int64_t>(SizeOf(floatx));
  return summary;
}

// Checks that what a job watches is among the numbers that the validation reports, of which a
// metric may have several.
absl::Status CheckWatched(const v1::JobSpec& job, const Program& eval, const JobLines* lines) {
  std::vector<std::string> reported;
  for (const MetricPartial& metric : eval.metrics) reported.push_back(metric.name);
  const auto check = [&](std::string_view name, const std::string& path) {
    const std::string_view watched = name.starts_with("val_") ? name.substr(4) : name;
    if (name.empty() || std::find(reported.begin(), reported.end(), watched) != reported.end()) {
      return absl::OkStatus();
    }
    return InvalidArgument("{}: the model reports no \"{}\"; it reports {}",
                           lines == nullptr ? path : lines->Where(path), watched,
                           fmt::join(reported, ", "));
  };
  COHORT_RETURN_IF_ERROR(check(job.checkpoint().keep_best(), "checkpoint.keep_best"));
  for (int i = 0; i < job.fit().callbacks_size(); ++i) {
    const auto& arguments = job.fit().callbacks(i).config();
    const auto monitor = arguments.find("monitor");
    if (monitor == arguments.end()) continue;
    COHORT_RETURN_IF_ERROR(check(monitor->second.s(), fmt::format("fit.callbacks[{}]", i)));
  }
  return absl::OkStatus();
}

absl::Status SetOptimizers(const v1::CompileSpec& compile, const JobLines* lines,
                           BuiltModel* model) {
  const auto at = [lines](absl::Status status, const std::string& path) {
    return Annotate(std::move(status), lines == nullptr ? path : lines->Where(path));
  };
  if (compile.optimizers().empty()) {
    auto optimizer = MakeOptimizer(compile.optimizer_class(), compile.sparse_update());
    COHORT_RETURN_IF_ERROR(at(optimizer.status(), "compile.optimizer"));
    model->optimizers.push_back(*std::move(optimizer));
    return at(MarkWholeVariables(model->optimizers, model->variables), "compile.optimizer");
  }
  std::vector<OptimizerChoice> choices;
  for (int i = 0; i < compile.optimizers_size(); ++i) {
    const v1::OptimizerChoice& choice = compile.optimizers(i);
    auto optimizer = MakeOptimizer(choice.optimizer_class(), choice.sparse_update());
    COHORT_RETURN_IF_ERROR(at(optimizer.status(), fmt::format("compile.optimizers[{}]", i)));
    model->optimizers.push_back(*std::move(optimizer));
    choices.push_back({choice.variables(), i});
  }
  COHORT_RETURN_IF_ERROR(at(ChooseOptimizers(choices, model->variables), "compile.optimizers"));
  return at(MarkWholeVariables(model->optimizers, model->variables), "compile.optimizers");
}

// With SwapEMAWeights programs that do not train read averages.
absl::Status ReadAverages(const v1::JobSpec& job, const JobLines* lines, BuiltModel* model) {
  if (!UsesOfAveragesIn(job).evaluation) return absl::OkStatus();
  if (!KeepAverages(model->optimizers)) {
    return InvalidArgument(
        "{}: SwapEMAWeights needs the averages of an optimizer: set `use_ema: true` in its "
        "arguments, or leave the callback out",
        lines == nullptr ? "fit.callbacks" : lines->Where("fit.callbacks"));
  }
  for (Program* const program : {&model->eval, &model->predict}) {
    for (VariableDecl& variable : program->variables) variable.reads_average = true;
  }
  return absl::OkStatus();
}

}  // namespace

LossScaling LossScalingOf(const v1::JobSpec& job) {
  const v1::MixedPrecisionSpec& given = job.mixed_precision();
  if (given.dtype() != PrecisionName(Precision::kFloat16)) return {};
  if (given.loss_scale() > 0) return {.initial = given.loss_scale(), .growth_steps = 0};
  return {.initial = given.initial_scale(), .growth_steps = given.dynamic_growth_steps()};
}

absl::StatusOr<BuiltModel> BuildModel(const v1::JobSpec& job, std::span<const FeatureType> features,
                                      const JobLines* lines) {
  COHORT_ASSIGN_OR_RETURN(const DType floatx, FloatX(job.model()));
  COHORT_ASSIGN_OR_RETURN(const v1::CompileSpec compile, Complete(job.compile()));
  COHORT_ASSIGN_OR_RETURN(const LayerGraph graph, MakeLayerGraph(job, features, lines));
  BuiltModel model;
  const LayerGraph training = GraphOfMode(graph, true), inference = GraphOfMode(graph, false);
  ProgramMaker train(job, &compile, training, features, lines, floatx, Mode::kTrain);
  COHORT_ASSIGN_OR_RETURN(model.train, train.Make());
  ProgramMaker eval(job, &compile, inference, features, lines, floatx, Mode::kEval);
  COHORT_ASSIGN_OR_RETURN(model.eval, eval.Make());
  COHORT_RETURN_IF_ERROR(CheckWatched(job, model.eval, lines));
  ProgramMaker predict(job, nullptr, inference, features, lines, floatx, Mode::kPredict);
  COHORT_ASSIGN_OR_RETURN(model.predict, predict.Make());
  model.features = train.features();
  model.eval_features = eval.features();
  std::vector<ModelSummary::Row> rows = train.rows();
  model.variables = train.TakeVariables();
  AddThoseOf(eval.TakeVariables(), eval.rows(), &model.variables, &rows);
  model.summary = Summarize(graph, std::move(rows), floatx);
  COHORT_RETURN_IF_ERROR(SetOptimizers(compile, lines, &model));
  COHORT_RETURN_IF_ERROR(ReadAverages(job, lines, &model));
  if (job.strategy().mode() != "sync") {
    v1::Layout layout;
    layout.mutable_variables()->Add(model.variables.begin(), model.variables.end());
    layout.mutable_optimizers()->Add(model.optimizers.begin(), model.optimizers.end());
    COHORT_ASSIGN_OR_RETURN(model.train, ClipPushes(model.train, layout));
  }
  if (job.strategy().has_hot_rows()) {
    const v1::HotRowsSpec& hot = job.strategy().hot_rows();
    AllowHotRows(hot.steps(), static_cast<int64_t>(hot.rows()), &model.train);
  }
  if (job.gradient_dtype() == "bfloat16") {
    COHORT_ASSIGN_OR_RETURN(model.train, RoundPushes(model.train));
  }
  return model;
}

absl::Status CheckInputs(const JobFile& job, const Dataset& data) {
  const auto& layers = job.spec.model().layers();
  for (int i = 0; i < layers.size(); ++i) {
    const v1::LayerSpec& layer = layers[i];
    if (layer.class_name() != "Input") continue;
    const std::string feature = GivenFeature(layer);
    const auto why = data.no_features().find(feature.empty() ? layer.name() : feature);
    if (why == data.no_features().end()) continue;
    return InvalidArgument("{}: {}", job.lines.Where(fmt::format("model.layers[{}]", i)),
                           why->second);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<FeatureType>> DeclaredFeatures(const v1::JobSpec& job) {
  COHORT_ASSIGN_OR_RETURN(const DType floatx, FloatX(job.model()));
  COHORT_ASSIGN_OR_RETURN(const v1::CompileSpec compile, Complete(job.compile()));
  COHORT_ASSIGN_OR_RETURN(const LayerClass* input, Layers().Find("Input"));
  std::vector<FeatureType> features;
  for (const v1::LayerSpec& layer : job.model().layers()) {
    if (layer.class_name() != "Input") continue;
    const std::string feature = GivenFeature(layer);
    const std::string name = !feature.empty()        ? feature
                             : !layer.name().empty() ? layer.name()
                                                     : "input_layer";
    v1::ClassConfig given;
    *given.mutable_config() = layer.config();
    COHORT_ASSIGN_OR_RETURN(const v1::ClassConfig complete, CompleteConfig(input->schema, given));
    const Config config(complete);
    Dims dims = config.Ints("shape");
    if (!config.IsNone("max_length")) dims = {config.Int("max_length")};
    if (dims.empty()) {
      return InvalidArgument("the Input \"{}\" has no shape: without the data it needs one", name);
    }
    features.push_back(
        {name, DTypeFromName(config.String("dtype")).value_or(floatx), std::move(dims)});
  }
  if (features.empty()) {
    return InvalidArgument("the model has no Input layer: without the data it needs one");
  }
  std::vector<FeatureType> labels;
  for (const std::string& name : TargetsOf(job.data().train()))
    labels.push_back({name, floatx, {}});
  const std::vector<Dims> dims = PredictionDims(job, features, labels, floatx);
  for (size_t i = 0; i < LabelsOf(job.data().train()).size(); ++i) {
    // Losses are in the order of the outputs, as labels are.
    const auto loss = std::min(i, static_cast<size_t>(compile.losses_size()) - 1);
    COHORT_ASSIGN_OR_RETURN(
        const LossClass* loss_class,
        Losses().Find(compile.losses(static_cast<int>(loss)).loss_class().class_name()));
    if (loss_class->label == LossClass::Label::kClassNumber) {
      labels[i].dtype = DType::kInt64;
      // One for each pixel or step of the prediction, whose last axis has the classes.
      if (i < dims.size() && !dims[i].empty()) {
        labels[i].dims.assign(dims[i].begin(), dims[i].end() - 1);
      }
    } else if (i < dims.size()) {
      labels[i].dims = dims[i];
    }
  }
  features.insert(features.end(), labels.begin(), labels.end());
  for (const v1::MetricSpec& metric : compile.metric_classes()) {
    const auto column = metric.metric_class().config().find("column");
    if (column == metric.metric_class().config().end()) continue;
    const bool known = std::any_of(features.begin(), features.end(), [&](const FeatureType& f) {
      return f.name == column->second.s();
    });
    if (!known) features.push_back({column->second.s(), DType::kInt64, {}});
  }
  return features;
}

absl::StatusOr<ModelSummary> SummarizeModel(const v1::ModelSpec& model) {
  v1::JobSpec job;
  *job.mutable_model() = model;
  job.mutable_data()->set_batch_size(1);
  job.mutable_compile()->mutable_loss_class()->set_class_name("MeanSquaredError");
  const int outputs = std::max(model.outputs_size(), 1);
  for (int i = 0; i < outputs; ++i) {
    job.mutable_data()->mutable_train()->add_labels(fmt::format("label {}", i));
  }
  COHORT_ASSIGN_OR_RETURN(const DType floatx, FloatX(model));
  COHORT_ASSIGN_OR_RETURN(const std::vector<FeatureType> features, DeclaredFeatures(job));
  COHORT_ASSIGN_OR_RETURN(const LayerGraph graph, MakeLayerGraph(job, features, nullptr));
  std::vector<v1::VariableSpec> variables;
  std::vector<ModelSummary::Row> rows;
  for (const bool training : {true, false}) {
    const LayerGraph of_mode = GraphOfMode(graph, training);
    ProgramMaker predict(job, nullptr, of_mode, features, nullptr, floatx, Mode::kPredict);
    COHORT_RETURN_IF_ERROR(predict.Make().status());
    AddThoseOf(predict.TakeVariables(), predict.rows(), &variables, &rows);
  }
  return Summarize(graph, std::move(rows), floatx);
}

}  // namespace cohort

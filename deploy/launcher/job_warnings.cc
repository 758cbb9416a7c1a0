#include "deploy/launcher/job_warnings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>

#include "common/graph/program.h"
#include "common/model/job_lines.h"
#include "common/model/layer_graph.h"
#include "common/model/mode_graph.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

using Warnings = std::vector<std::string>;

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

bool IsSparse(const OutputFacts& o) { return o.loss == "SparseCategoricalCrossentropy"; }
bool IsCategorical(const OutputFacts& o) {
  return IsSparse(o) ||
         IsOneOf(o.loss, {"CategoricalCrossentropy", "CategoricalFocalCrossentropy"});
}
bool IsBinary(const OutputFacts& o) {
  return IsOneOf(o.loss, {"BinaryCrossentropy", "BinaryFocalCrossentropy"});
}

// ------------------------------------------------------------------ rules of outputs

void UnitsForLabels(const JobFacts& job, Warnings* warnings) {
  for (const OutputFacts& o : job.outputs) {
    if (!IsSparse(o) || o.data == nullptr || o.data->empty() || o.units == 0) continue;
    if (o.data->largest >= static_cast<double>(o.units)) {
      warnings->push_back(fmt::format(
          "{}: {} units have the classes 0 to {}, and the label {} has {}: give it {:.0f} units",
          o.where, o.units, o.units - 1, o.label, o.data->largest, o.data->largest + 1));
    } else if (o.data->least < 0) {
      warnings->push_back(fmt::format(
          "{}: the label {} has {}, and classes count from 0: add an offset to the column", o.where,
          o.label, o.data->least));
    }
  }
}

void SoftmaxOfOneUnit(const JobFacts& job, Warnings* warnings) {
  for (const OutputFacts& o : job.outputs) {
    if (o.activation != "softmax" || o.units != 1) continue;
    warnings->push_back(fmt::format(
        "{}: softmax over one unit is always 1: use sigmoid with binary_crossentropy, or one unit "
        "per class",
        o.where));
  }
}

void ActivationWithLogits(const JobFacts& job, Warnings* warnings) {
  for (const OutputFacts& o : job.outputs) {
    const bool probability = IsOneOf(o.activation, {"softmax", "sigmoid"});
    if (!probability || !o.from_logits || !(IsCategorical(o) || IsBinary(o))) continue;
    warnings->push_back(
        fmt::format("{}: {} gives probabilities, and the loss has `from_logits: true`, so it "
                    "applies the function again: remove one of the two",
                    o.where, o.activation));
  }
}

void LogitsWithoutActivation(const JobFacts& job, Warnings* warnings) {
  for (const OutputFacts& o : job.outputs) {
    if (o.from_logits || !(IsCategorical(o) || IsBinary(o))) continue;
    if (!IsOneOf(o.activation, {"linear", "relu", "tanh", "elu", "selu", "gelu", "leaky_relu"})) {
      continue;
    }
    warnings->push_back(fmt::format(
        "{}: {} needs probabilities, and the activation is {}: use {}, or `from_logits: true`",
        o.where, o.loss, o.activation, IsBinary(o) ? "sigmoid" : "softmax"));
  }
}

void SigmoidWithCategorical(const JobFacts& job, Warnings* warnings) {
  for (const OutputFacts& o : job.outputs) {
    if (o.activation != "sigmoid" || !IsCategorical(o)) continue;
    warnings->push_back(fmt::format(
        "{}: {} needs probabilities that sum to 1, and sigmoid gives others: use softmax, or "
        "binary_crossentropy if several classes may be true",
        o.where, o.loss));
  }
}

void BinaryLabels(const JobFacts& job, Warnings* warnings) {
  for (const OutputFacts& o : job.outputs) {
    if (!IsBinary(o) || o.data == nullptr || o.data->empty()) continue;
    if (o.data->least >= 0 && o.data->largest <= 1) continue;
    warnings->push_back(fmt::format("{}: {} needs labels from 0 to 1, and {} has [{:.6g}, {:.6g}]",
                                    o.where, o.loss, o.label, o.data->least, o.data->largest));
  }
}

void OneClass(const JobFacts& job, Warnings* warnings) {
  for (const OutputFacts& o : job.outputs) {
    if (o.data == nullptr || o.data->distinct != 1 || o.data->numbers < 2) continue;
    warnings->push_back(fmt::format(
        "{}: the label {} is {:.6g} in all {} records of the sample: a model learns nothing from "
        "it. Check the column, and its transforms",
        o.where, o.label, o.data->least, o.data->numbers));
  }
}

// Losses of numbers, for which a label may have any size.
bool IsOfNumbers(const OutputFacts& o) {
  return IsOneOf(o.loss, {"MeanSquaredError", "MeanAbsoluteError", "MeanAbsolutePercentageError",
                          "MeanSquaredLogarithmicError", "Huber", "LogCosh", "Poisson"});
}

void LabelsOutOfReach(const JobFacts& job, Warnings* warnings) {
  for (const OutputFacts& o : job.outputs) {
    if (!IsOfNumbers(o) || o.data == nullptr || o.data->empty()) continue;
    const bool is_tanh = o.activation == "tanh";
    if (!is_tanh && !IsOneOf(o.activation, {"sigmoid", "softmax"})) continue;
    const double least = is_tanh ? -1 : 0;
    if (o.data->least >= least && o.data->largest <= 1) continue;
    warnings->push_back(fmt::format(
        "{}: {} gives numbers from {} to 1, and the label {} has [{:.6g}, {:.6g}]: use a linear "
        "activation, or scale the label",
        o.where, o.activation, least, o.label, o.data->least, o.data->largest));
  }
}

void AccuracyOfNumbers(const JobFacts& job, Warnings* warnings) {
  for (const OutputFacts& o : job.outputs) {
    for (const std::string& metric : o.metrics) {
      if (metric == "SparseCategoricalAccuracy" && o.units == 1) {
        warnings->push_back(fmt::format(
            "{}: {} compares the label with the greatest of several units, and there is one: use "
            "binary_accuracy",
            o.where, metric));
      }
      if (!IsOneOf(metric, {"accuracy", "BinaryAccuracy", "Accuracy"}) || IsSparse(o)) continue;
      if (o.data == nullptr || o.data->empty() || o.data->whole) continue;
      warnings->push_back(
          fmt::format("{}: {} counts predictions that equal the label, and {} has fractions: use "
                      "mean_absolute_error or root_mean_squared_error",
                      o.where, metric, o.label));
    }
  }
}

void MetricsOfLogits(const JobFacts& job, Warnings* warnings) {
  for (const OutputFacts& o : job.outputs) {
    if (!o.from_logits) continue;
    for (const std::string& metric : o.metrics_of_probabilities) {
      warnings->push_back(fmt::format(
          "{}: {} reads probabilities, and the loss has `from_logits: true`: give the metric "
          "`from_logits: true`, too",
          o.where, metric));
    }
  }
}

// ------------------------------------------------------------------ rules of inputs

void NumbersNotFinite(const JobFacts& job, Warnings* warnings) {
  const auto find = [&](const std::string& where, const std::string& column,
                        const ColumnSample* data) {
    if (data == nullptr || data->missing + data->infinite == 0) return;
    warnings->push_back(fmt::format(
        "{}: the column {} has {} NaN and {} infinite numbers among {} of the sample: the loss "
        "becomes NaN, too. Fill them (`na_values` and `missing` of a CSV file), or leave them out",
        where, column, data->missing, data->infinite,
        data->numbers + data->missing + data->infinite));
  };
  for (const InputFacts& in : job.inputs) find(in.where, in.column, in.data);
  for (const OutputFacts& o : job.outputs) find(o.where, o.label, o.data);
}

void IntegersOverScaledNumbers(const JobFacts& job, Warnings* warnings) {
  for (const InputFacts& in : job.inputs) {
    if (in.data == nullptr || in.data->empty()) continue;
    const bool integers = in.integers || !(in.data->type.dtype == DType::kFloat32 ||
                                           in.data->type.dtype == DType::kFloat64);
    if (!integers || (in.data->whole && in.scaled_by.empty())) continue;
    warnings->push_back(fmt::format(
        "{}: integers cut off the fractions of {}{}: the sample has [{:.6g}, {:.6g}]. Use dtype "
        "float32, or the numbers before they are scaled",
        in.where, in.column, in.scaled_by.empty() ? "" : ", which " + in.scaled_by + " scales",
        in.data->least, in.data->largest));
  }
}

// Layers that bring numbers of any size to a scale, or read them as ids.
bool TakesAnyRange(std::string_view layer_class) {
  return layer_class.ends_with("Normalization") ||
         IsOneOf(layer_class, {"Rescaling", "Embedding", "EmbeddingBag", "DynamicEmbedding",
                               "DynamicEmbeddingBag", "CategoryEncoding", "Discretization",
                               "Hashing", "HashedCrossing", "IntegerLookup", "StringLookup",
                               "TextVectorization", "ReversibleEmbedding"});
}

void FeaturesNotScaled(const JobFacts& job, Warnings* warnings) {
  constexpr double kLarge = 30;
  std::vector<std::string> columns;
  std::string where;
  for (const InputFacts& in : job.inputs) {
    if (in.data == nullptr || in.data->empty()) continue;
    if (std::max(std::abs(in.data->least), std::abs(in.data->largest)) <= kLarge) continue;
    if (std::ranges::all_of(in.readers, TakesAnyRange)) continue;
    if (where.empty()) where = in.where;
    columns.push_back(
        fmt::format("{} [{:.6g}, {:.6g}]", in.column, in.data->least, in.data->largest));
  }
  if (columns.empty()) return;
  warnings->push_back(fmt::format(
      "{}: features are not scaled: {}. Training is slow or diverges: rescale the columns "
      "(transforms), or begin with a layer Normalization, Rescaling or BatchNormalization",
      where, fmt::join(columns, ", ")));
}

// ------------------------------------------------------------------ rules of optimizers

struct UsualRates {
  double least, largest;
};

UsualRates UsualRatesOf(std::string_view optimizer) {
  static const auto& rates = *new std::map<std::string_view, UsualRates>{
      {"SGD", {1e-5, 2}},         {"Adagrad", {1e-4, 2}},      {"Adadelta", {1e-3, 10}},
      {"Ftrl", {1e-4, 2}},        {"Adam", {1e-7, 0.1}},       {"AdamW", {1e-7, 0.1}},
      {"Adamax", {1e-7, 0.1}},    {"Nadam", {1e-7, 0.1}},      {"RMSprop", {1e-7, 0.1}},
      {"Lion", {1e-8, 0.01}},     {"Lamb", {1e-6, 0.1}},       {"Adafactor", {1e-6, 0.5}},
      {"Muon", {1e-5, 0.5}},      {"TorchSGD", {1e-5, 2}},     {"TorchAdagrad", {1e-4, 2}},
      {"TorchAdam", {1e-7, 0.1}}, {"TorchAdamW", {1e-7, 0.1}}, {"TorchRMSprop", {1e-7, 0.1}}};
  const auto found = rates.find(optimizer);
  return found == rates.end() ? UsualRates{1e-8, 10} : found->second;
}

void LearningRateOutOfRange(const JobFacts& job, Warnings* warnings) {
  for (const OptimizerFacts& o : job.optimizers) {
    const UsualRates usual = UsualRatesOf(o.name);
    if (o.learning_rate <= 0) continue;
    if (o.learning_rate >= usual.least && o.learning_rate <= usual.largest) continue;
    warnings->push_back(fmt::format(
        "{}: the learning rate {:g} of {} is {}: usual are {:g} to {:g}", o.where, o.learning_rate,
        o.name, o.learning_rate < usual.least ? "very small" : "very large", usual.least,
        usual.largest));
  }
}

void NormalizationWithoutMoments(const JobFacts& job, Warnings* warnings) {
  for (const std::string& where : job.plain_normalizations) {
    warnings->push_back(fmt::format(
        "{}: its mean is 0 and its variance 1, so it changes nothing: give it mean and variance, "
        "or "
        "the job `initial_weights` with the weights of a model that adapted it, or use the "
        "transform Normalization of `data`, which learns them",
        where));
  }
}

constexpr std::array kRules = {
    JobRule{"units_for_labels", UnitsForLabels},
    JobRule{"softmax_of_one_unit", SoftmaxOfOneUnit},
    JobRule{"activation_with_logits", ActivationWithLogits},
    JobRule{"logits_without_activation", LogitsWithoutActivation},
    JobRule{"sigmoid_with_categorical", SigmoidWithCategorical},
    JobRule{"binary_labels", BinaryLabels},
    JobRule{"one_class", OneClass},
    JobRule{"labels_out_of_reach", LabelsOutOfReach},
    JobRule{"accuracy_of_numbers", AccuracyOfNumbers},
    JobRule{"metrics_of_logits", MetricsOfLogits},
    JobRule{"numbers_not_finite", NumbersNotFinite},
    JobRule{"integers_over_scaled_numbers", IntegersOverScaledNumbers},
    JobRule{"features_not_scaled", FeaturesNotScaled},
    JobRule{"learning_rate_out_of_range", LearningRateOutOfRange},
    JobRule{"normalization_without_moments", NormalizationWithoutMoments},
};

// ------------------------------------------------------------------ facts

// Layers that move numbers without computing with them.
bool OnlyMoves(std::string_view layer_class) {
  return IsOneOf(layer_class, {"Input", "Flatten", "Reshape", "Permute", "RepeatVector",
                               "Concatenate", "Dropout", "Identity", "Activation"}) ||
         layer_class.starts_with("Cropping") || layer_class.starts_with("ZeroPadding") ||
         layer_class.starts_with("Random");
}

// An argument whose value is a text or the name of a class, in lower case; "": there is none.
std::string TextArgument(const v1::ClassConfig& config, const char* name) {
  const auto found = config.config().find(name);
  if (found == config.config().end()) return "";
  std::string text =
      found->second.has_object() ? found->second.object().class_name() : found->second.s();
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// The activation that gives the value of a layer; "": unknown.
std::string ActivationOf(const LayerGraph& graph, int index) {
  while (true) {
    const GraphLayer& layer = graph.layers[static_cast<size_t>(index)];
    const std::string& name = layer.config.class_name();
    if (name == "Softmax") return "softmax";
    if (name == "ReLU") return "relu";
    const std::string activation = TextArgument(layer.config, "activation");
    const bool linear = activation.empty() || activation == "linear";
    if (name == "Activation" && !linear) return activation;
    const bool moves = OnlyMoves(name) && name != "Input" && layer.inputs.size() == 1;
    if (!moves) return activation;
    index = layer.inputs.front();
  }
}

// Adds the classes of the layers that compute with the value of a layer.
void AddReaders(const LayerGraph& graph, int of, std::vector<std::string>* readers) {
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    const GraphLayer& layer = graph.layers[i];
    if (std::ranges::find(layer.inputs, of) == layer.inputs.end()) continue;
    const std::string& name = layer.config.class_name();
    if (OnlyMoves(name)) {
      AddReaders(graph, static_cast<int>(i), readers);
    } else if (std::ranges::find(*readers, name) == readers->end()) {
      readers->push_back(name);
    }
  }
}

const v1::ClassConfig& LossOf(const v1::CompileSpec& compile, const std::string& output) {
  for (const v1::OutputLoss& loss : compile.losses()) {
    if (loss.output() == output || loss.output().empty()) return loss.loss_class();
  }
  return compile.loss_class();
}

// "job.yaml:14" of the transform that multiplies a column and makes it an integer; "": none.
std::string ScaledBy(const v1::JobSpec& job, const JobLines& lines, const std::string& column) {
  const auto& transforms = job.data().train().transforms();
  for (int i = transforms.size(); i-- > 0;) {
    const v1::ColumnTransform& t = transforms[i];
    if ((t.output().empty() ? t.column() : t.output()) != column) continue;
    const auto& config = t.transform_class().config();
    const auto scale = config.find("scale");
    if (!t.dtype().starts_with("int") || scale == config.end()) return "";
    const double factor =
        scale->second.has_i() ? static_cast<double>(scale->second.i()) : scale->second.f();
    if (factor == 0 || std::abs(factor) >= 1) return "";
    return lines.Where(fmt::format("data.train.transforms[{}]", i));
  }
  return "";
}

double InitialRate(const v1::ClassConfig& optimizer) {
  const auto found = optimizer.config().find("learning_rate");
  if (found == optimizer.config().end()) return 0;
  const v1::ConfigValue* value = &found->second;
  if (value->has_object()) {
    const auto& schedule = value->object().config();
    const auto initial = schedule.find("initial_learning_rate");
    if (initial == schedule.end()) return 0;
    value = &initial->second;
  }
  return value->has_i() ? static_cast<double>(value->i()) : value->f();
}

std::vector<OptimizerFacts> OptimizersOf(const v1::JobSpec& job, const JobLines& lines) {
  const v1::CompileSpec& compile = job.compile();
  std::vector<OptimizerFacts> facts;
  const auto add = [&](const std::string& key, const v1::ClassConfig& optimizer) {
    facts.push_back({lines.Where(key), optimizer.class_name(), InitialRate(optimizer)});
  };
  for (int i = 0; i < compile.optimizers_size(); ++i) {
    add(fmt::format("compile.optimizers[{}]", i), compile.optimizers(i).optimizer_class());
  }
  if (facts.empty()) add("compile.optimizer", compile.optimizer_class());
  return facts;
}

}  // namespace

std::span<const JobRule> JobRules() { return kRules; }

absl::StatusOr<JobFacts> FactsOf(const v1::JobSpec& job, const JobLines& lines,
                                 const Program& predict, std::span<const FeatureType> features,
                                 const DataSample* sample) {
  COHORT_ASSIGN_OR_RETURN(const LayerGraph all, MakeLayerGraph(job, features, &lines));
  const LayerGraph graph = GraphOfMode(all, true);
  const auto find = [&](int feature) -> const ColumnSample* {
    return sample == nullptr ? nullptr : sample->Find(features[static_cast<size_t>(feature)].name);
  };
  JobFacts facts;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const GraphOutput& output = graph.outputs[i];
    OutputFacts& o = facts.outputs.emplace_back();
    o.where = graph.layers[static_cast<size_t>(output.layer)].where;
    o.activation = ActivationOf(graph, output.layer);
    if (i < predict.outputs.size()) {
      const ValueType& type = predict.type(predict.outputs[i].value);
      if (type.dims.size() > 1 && !type.dims.back().bounded()) o.units = type.dims.back().size;
    }
    const v1::ClassConfig& loss = LossOf(job.compile(), output.name);
    o.loss = loss.class_name();
    const auto logits = loss.config().find("from_logits");
    o.from_logits = logits != loss.config().end() && logits->second.b();
    for (const v1::MetricSpec& metric : job.compile().metric_classes()) {
      if (!metric.output().empty() && metric.output() != output.name) continue;
      o.metrics.push_back(metric.metric_class().class_name());
      const auto& config = metric.metric_class().config();
      const auto of_logits = config.find("from_logits");
      if (of_logits != config.end() && !of_logits->second.b()) {
        o.metrics_of_probabilities.push_back(o.metrics.back());
      }
    }
    if (output.label < 0) continue;
    o.label = features[static_cast<size_t>(output.label)].name;
    o.data = find(output.label);
  }
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    const GraphLayer& layer = graph.layers[i];
    if (layer.layer_class->schema.name == "Normalization" && layer.shares < 0 &&
        !job.has_initial_weights() && !Config(layer.config).Has("mean")) {
      facts.plain_normalizations.push_back(layer.where);
    }
    if (layer.feature < 0) continue;
    InputFacts& in = facts.inputs.emplace_back();
    in.where = layer.where;
    in.column = features[static_cast<size_t>(layer.feature)].name;
    const std::string dtype = TextArgument(layer.config, "dtype");
    in.integers = dtype.starts_with("int") || dtype.starts_with("uint");
    AddReaders(graph, static_cast<int>(i), &in.readers);
    in.data = find(layer.feature);
    in.scaled_by = ScaledBy(job, lines, in.column);
  }
  facts.optimizers = OptimizersOf(job, lines);
  return facts;
}

std::vector<std::string> WarningsOf(const JobFacts& job) {
  std::vector<std::string> warnings;
  for (const JobRule& rule : kRules) rule.find(job, &warnings);
  return warnings;
}

}  // namespace cohort

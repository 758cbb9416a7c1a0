#include "common/model/layer_graph.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "common/base/printable.h"
#include "common/base/suggest.h"
#include "common/graph/device_name.h"
#include "common/model/layers/layer_names.h"
#include "common/schema/class_registry.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

// The name of a layer is the prefix of names of variables and of tensors in a checkpoint.
constexpr size_t kMaxNameBytes = 256;

class GraphMaker {
 public:
  GraphMaker(const v1::JobSpec& job, std::span<const FeatureType> features, const JobLines* lines)
      : job_(job), features_(features), lines_(lines) {}

  absl::StatusOr<LayerGraph> Make() {
    const v1::ModelSpec& model = job_.model();
    if (model.layers().empty()) return InvalidArgument("{}the model has no layers", At("model"));
    for (const v1::LayerSpec& layer : model.layers()) {
      graph_.sequential = graph_.sequential && layer.inputs().empty();
      if (layer.class_name() == "Input") ++inputs_;
    }
    graph_.model_name = !model.name().empty() ? model.name()
                        : graph_.sequential   ? "sequential"
                                              : "functional";
    COHORT_RETURN_IF_ERROR(FindTargets());
    COHORT_RETURN_IF_ERROR(AddImplicitInput());
    for (int i = 0; i < model.layers_size(); ++i) {
      COHORT_RETURN_IF_ERROR(AddLayer(model.layers(i), fmt::format("model.layers[{}]", i)));
    }
    COHORT_RETURN_IF_ERROR(FindOutputs());
    COHORT_RETURN_IF_ERROR(CheckAllUsed());
    COHORT_RETURN_IF_ERROR(ChooseDevices());
    return std::move(graph_);
  }

 private:
  std::string At(std::string_view path) const {
    return lines_ == nullptr ? "" : lines_->Where(path) + ": ";
  }

  std::vector<std::string> FeatureNames() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < features_.size(); ++i) {
      if (!IsTarget(static_cast<int>(i))) names.push_back(features_[i].name);
    }
    return names;
  }

  std::string ShownNames() const {
    std::vector<std::string> names = FeatureNames();
    for (std::string& name : names) name = PrintableLine(name);
    return fmt::format("{}", fmt::join(names, ", "));
  }

  int FindFeature(std::string_view name) const {
    for (size_t i = 0; i < features_.size(); ++i) {
      if (features_[i].name == name) return static_cast<int>(i);
    }
    return -1;
  }

  // True for a label or a sample weight.
  bool IsTarget(int feature) const {
    return std::find(labels_.begin(), labels_.end(), feature) != labels_.end() ||
           std::find(weights_.begin(), weights_.end(), feature) != weights_.end();
  }

  absl::Status FindTargets() {
    for (const std::string& label : LabelsOf(job_.data().train())) {
      const int feature = FindFeature(label);
      if (feature < 0) {
        return InvalidArgument("{}the label \"{}\" is not a column of the data; its columns are {}",
                               At("data.train.label"), label, ShownNames());
      }
      labels_.push_back(feature);
    }
    for (const std::string& weight : job_.data().train().sample_weight()) {
      weights_.push_back(weight.empty() ? -1 : FindFeature(weight));
      if (weight.empty() || weights_.back() >= 0) continue;
      return InvalidArgument(
          "{}the sample weight \"{}\" is not a column of the data; its columns are {}",
          At("data.train.sample_weight"), weight, ShownNames());
    }
    return absl::OkStatus();
  }

  absl::Status AddImplicitInput() {
    if (inputs_ > 0) return absl::OkStatus();
    const std::vector<std::string> names = FeatureNames();
    if (!graph_.sequential || names.size() != 1) {
      return InvalidArgument(
          "{}the model has no Input layer, and the data has the columns {}: name "
          "those that it uses by Input layers",
          At("model"), ShownNames());
    }
    v1::LayerSpec input;
    input.set_class_name("Input");
    (*input.mutable_config())["feature"] = ConfigOf(std::string_view(names[0]));
    inputs_ = 1;
    return AddLayer(input, "model");
  }

  absl::Status AddLayer(const v1::LayerSpec& spec, const std::string& path) {
    GraphLayer layer;
    auto found = LayersFor(spec.class_name()).Find(spec.class_name());
    if (!found.ok()) return Annotate(found.status(), At(path) + "model");
    layer.layer_class = *found;
    layer.name = !spec.name().empty()     ? spec.name()
                 : !spec.shares().empty() ? NextCall(spec.shares())
                                          : names_.Next(spec.class_name());
    if (layer.name.size() > kMaxNameBytes) {
      return InvalidArgument("{}the name of a layer has at most {} bytes, this one {}: \"{}...\"",
                             At(path), kMaxNameBytes, layer.name.size(), layer.name.substr(0, 40));
    }
    layer.where = fmt::format("{}layer \"{}\" ({})", At(path), layer.name, spec.class_name());
    const auto index = static_cast<int>(graph_.layers.size());
    if (!by_name_.emplace(layer.name, index).second) {
      return InvalidArgument("{}: there is another layer of this name", layer.where);
    }
    COHORT_RETURN_IF_ERROR(Annotate(SetConfig(spec, &layer), layer.where));
    COHORT_RETURN_IF_ERROR(Annotate(SetDevice(spec.device(), &layer.device), layer.where));
    COHORT_RETURN_IF_ERROR(Annotate(
        spec.class_name() == "Input" ? SetFeature(&layer) : SetInputs(spec, &layer), layer.where));
    graph_.layers.push_back(std::move(layer));
    return absl::OkStatus();
  }

  // Calls of a layer do not count among Keras' automatic names.
  std::string NextCall(const std::string& layer) {
    return fmt::format("{}:{}", layer, ++calls_[layer]);
  }

  absl::Status SetConfig(const v1::LayerSpec& spec, GraphLayer* layer) {
    if (!spec.shares().empty()) return SetShares(spec, layer);
    v1::ClassConfig given;
    *given.mutable_config() = spec.config();
    COHORT_ASSIGN_OR_RETURN(layer->config, CompleteConfig(layer->layer_class->schema, given));
    return absl::OkStatus();
  }

  absl::Status SetShares(const v1::LayerSpec& spec, GraphLayer* layer) {
    const auto it = by_name_.find(spec.shares());
    if (it == by_name_.end() || it->second == static_cast<int>(graph_.layers.size())) {
      return InvalidArgument(
          "it shares the variables of \"{}\", and no layer before it has this name", spec.shares());
    }
    const auto shared = static_cast<size_t>(it->second);
    layer->shares = graph_.layers[shared].shares >= 0 ? graph_.layers[shared].shares : it->second;
    const GraphLayer& first = graph_.layers[static_cast<size_t>(layer->shares)];
    if (first.layer_class != layer->layer_class || layer->layer_class->build == nullptr) {
      return InvalidArgument("it cannot share the variables of \"{}\", which is {}", spec.shares(),
                             first.layer_class->schema.name);
    }
    v1::ClassConfig config = first.config;
    for (const auto& [key, value] : spec.config()) {
      if (std::ranges::count(layer->layer_class->call_arguments, key) == 0) {
        return InvalidArgument("it has the arguments of \"{}\", and none of its own",
                               spec.shares());
      }
      (*config.mutable_config())[key] = value;
    }
    COHORT_ASSIGN_OR_RETURN(layer->config, CompleteConfig(layer->layer_class->schema, config));
    return absl::OkStatus();
  }

  static absl::Status SetDevice(const std::string& given, std::string* device) {
    if (given.empty()) return absl::OkStatus();
    COHORT_ASSIGN_OR_RETURN(const DeviceName place, ParseDeviceName(given));
    *device = place.ToString();
    return absl::OkStatus();
  }

  // The devices of layers that name none themselves. A further call of a layer has its device.
  absl::Status ChooseDevices() {
    const auto& choices = job_.model().devices();
    for (int i = 0; i < choices.size(); ++i) {
      const std::string at = At(fmt::format("model.devices[{}]", i));
      std::string device;
      COHORT_RETURN_IF_ERROR(Annotate(SetDevice(choices[i].device(), &device), at + "devices"));
      if (device.empty() || choices[i].layers().empty()) {
        return InvalidArgument(
            "{}an item of `devices` has `layers`, a pattern of names, and `device`", at);
      }
      bool any = false;
      for (GraphLayer& layer : graph_.layers) {
        if (::fnmatch(choices[i].layers().c_str(), layer.name.c_str(), 0) != 0) continue;
        any = true;
        if (layer.device.empty()) layer.device = device;
      }
      if (!any) {
        std::vector<std::string> names;
        for (const GraphLayer& layer : graph_.layers) names.push_back(layer.name);
        return InvalidArgument("{}no layer matches \"{}\"; there are {}", at, choices[i].layers(),
                               fmt::join(names, ", "));
      }
    }
    for (GraphLayer& layer : graph_.layers) {
      if (!layer.device.empty() || layer.shares < 0) continue;
      layer.device = graph_.layers[static_cast<size_t>(layer.shares)].device;
    }
    return absl::OkStatus();
  }

  absl::Status SetFeature(GraphLayer* layer) {
    const std::vector<std::string> names = FeatureNames();
    std::string wanted = Config(layer->config).String("feature");
    if (wanted.empty()) {
      const bool named = std::find(names.begin(), names.end(), layer->name) != names.end();
      wanted = !named && inputs_ == 1 && names.size() == 1 ? names[0] : layer->name;
    }
    layer->feature = FindFeature(wanted);
    if (layer->feature >= 0 && !IsTarget(layer->feature)) return absl::OkStatus();
    if (layer->feature >= 0) {
      const bool is_label =
          std::find(labels_.begin(), labels_.end(), layer->feature) != labels_.end();
      return InvalidArgument("\"{}\" is the {}", wanted, is_label ? "label" : "sample weight");
    }
    std::string hint = DidYouMean(wanted, std::span<const std::string>(names));
    if (hint.empty() && names.size() > 1) {
      hint = fmt::format(
          ". Name one by `feature` of the Input, or make a column of several by a transform: "
          "{{columns: [{}, {}], output: {}}}",
          PrintableLine(names[0]), PrintableLine(names[1]), wanted);
    }
    return InvalidArgument("the data has no column \"{}\"; its columns are {}{}", wanted,
                           ShownNames(), hint);
  }

  // A layer above, of the name that an input or a mask has.
  absl::StatusOr<int> FindAbove(const std::string& name, const GraphLayer& layer) const {
    const auto it = by_name_.find(name);
    if (it != by_name_.end() && name != layer.name) return it->second;
    std::vector<std::string> known;
    for (const GraphLayer& other : graph_.layers) known.push_back(other.name);
    return InvalidArgument("no layer before it has the name \"{}\"{}", name,
                           DidYouMean(name, std::span<const std::string>(known)));
  }

  absl::Status SetMasks(const v1::LayerSpec& spec, GraphLayer* layer) {
    if (spec.masks_size() > static_cast<int>(layer->num_inputs)) {
      return InvalidArgument("it has {} inputs, and masks for {}", layer->num_inputs,
                             spec.masks_size());
    }
    layer->masks.assign(layer->num_inputs, -1);
    for (int i = 0; i < spec.masks_size(); ++i) {
      if (spec.masks(i).empty()) continue;
      layer->masks[static_cast<size_t>(i)] = static_cast<int>(layer->inputs.size());
      COHORT_ASSIGN_OR_RETURN(layer->inputs.emplace_back(), FindAbove(spec.masks(i), *layer));
    }
    return absl::OkStatus();
  }

  absl::Status SetInputs(const v1::LayerSpec& spec, GraphLayer* layer) {
    if (spec.inputs().empty() && layer->layer_class->max_inputs > 0) {
      if (graph_.layers.empty()) return InvalidArgument("it has no input");
      layer->inputs.push_back(static_cast<int>(graph_.layers.size()) - 1);
    }
    for (const std::string& input : spec.inputs()) {
      COHORT_ASSIGN_OR_RETURN(layer->inputs.emplace_back(), FindAbove(input, *layer));
    }
    const size_t count = layer->num_inputs = layer->inputs.size();
    const LayerClass& c = *layer->layer_class;
    if (count < c.min_inputs) {
      return InvalidArgument("it takes at least {} inputs, not {}", c.min_inputs, count);
    }
    if (count > c.max_inputs) {
      return InvalidArgument("it takes {} input, not {}", c.max_inputs, count);
    }
    return SetMasks(spec, layer);
  }

  absl::Status FindOutputs() {
    const v1::ModelSpec& model = job_.model();
    if (model.outputs().empty()) {
      graph_.outputs.push_back(
          {graph_.layers.back().name, static_cast<int>(graph_.layers.size()) - 1, -1});
    }
    for (const std::string& output : model.outputs()) {
      const auto it = by_name_.find(output);
      if (it == by_name_.end()) {
        return InvalidArgument("{}there is no layer \"{}\"", At("model.outputs"), output);
      }
      for (const GraphOutput& other : graph_.outputs) {
        if (other.layer != it->second) continue;
        return InvalidArgument("{}the layer \"{}\" is an output twice", At("model.outputs"),
                               output);
      }
      graph_.outputs.push_back({output, it->second, -1});
    }
    if (labels_.size() != graph_.outputs.size()) {
      return InvalidArgument(
          "{}the model has {} outputs, and the data has {} labels: name one for "
          "each output",
          At("data.train.label"), graph_.outputs.size(), labels_.size());
    }
    if (weights_.size() > 1 && weights_.size() != labels_.size()) {
      return InvalidArgument("{}the model has {} outputs, and the data {} columns of weights",
                             At("data.train.sample_weight"), labels_.size(), weights_.size());
    }
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      graph_.outputs[i].label = labels_[i];
      if (!weights_.empty()) graph_.outputs[i].weight = weights_[weights_.size() == 1 ? 0 : i];
      if (model.output_names_size() == 0) continue;
      if (model.output_names_size() != static_cast<int>(labels_.size())) {
        return InvalidArgument("{}the model has {} outputs and {} names of outputs", At("model"),
                               labels_.size(), model.output_names_size());
      }
      graph_.outputs[i].name = model.output_names(static_cast<int>(i));
    }
    return absl::OkStatus();
  }

  absl::Status CheckAllUsed() const {
    std::vector<bool> used(graph_.layers.size(), false);
    std::vector<std::string> outputs;
    for (const GraphOutput& output : graph_.outputs) {
      used[static_cast<size_t>(output.layer)] = true;
      outputs.push_back(
          fmt::format("\"{}\"", graph_.layers[static_cast<size_t>(output.layer)].name));
    }
    for (size_t i = graph_.layers.size(); i-- > 0;) {
      const GraphLayer& layer = graph_.layers[i];
      if (!used[i]) {
        return InvalidArgument("{}: it does not lead to the {} {}; remove it or connect it",
                               layer.where, outputs.size() == 1 ? "output" : "outputs",
                               fmt::join(outputs, ", "));
      }
      for (int input : layer.inputs) used[static_cast<size_t>(input)] = true;
    }
    return absl::OkStatus();
  }

  const v1::JobSpec& job_;
  std::span<const FeatureType> features_;
  const JobLines* lines_;
  LayerGraph graph_;
  LayerNames names_;
  std::map<std::string, int, std::less<>> by_name_;
  std::map<std::string, int> calls_;  // by name of the layer
  std::vector<int> labels_;           // features
  std::vector<int> weights_;          // features; -1: none
  int inputs_ = 0;
};

}  // namespace

absl::StatusOr<LayerGraph> MakeLayerGraph(const v1::JobSpec& job,
                                          std::span<const FeatureType> features,
                                          const JobLines* lines) {
  return GraphMaker(job, features, lines).Make();
}

}  // namespace cohort

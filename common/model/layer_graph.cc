#include "common/model/layer_graph.h"

#include <algorithm>
#include <set>

#include "common/base/printable.h"
#include "common/base/suggest.h"

namespace cohort {
namespace {

// The name of a layer is the prefix of names of variables and of tensors in a checkpoint.
constexpr size_t kMaxNameBytes = 256;

bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
bool IsLower(char c) { return c >= 'a' && c <= 'z'; }

// uniquify of keras/src/utils/naming.py: "dense", "dense_1", ...
class AutoNames {
 public:
  std::string Next(std::string_view class_name) {
    // Keras' class is InputLayer; `Input` makes one.
    const std::string base = class_name == "Input" ? "input_layer" : SnakeCase(class_name);
    const int number = counts_[base]++;
    return number == 0 ? base : fmt::format("{}_{}", base, number);
  }

 private:
  std::map<std::string, int> counts_;
};

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
    COHORT_RETURN_IF_ERROR(FindLabel());
    COHORT_RETURN_IF_ERROR(AddImplicitInput());
    for (int i = 0; i < model.layers_size(); ++i) {
      COHORT_RETURN_IF_ERROR(AddLayer(model.layers(i), fmt::format("model.layers[{}]", i)));
    }
    COHORT_RETURN_IF_ERROR(FindOutput());
    COHORT_RETURN_IF_ERROR(CheckAllUsed());
    return std::move(graph_);
  }

 private:
  std::string At(std::string_view path) const {
    return lines_ == nullptr ? "" : lines_->Where(path) + ": ";
  }

  std::vector<std::string> FeatureNames() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < features_.size(); ++i) {
      if (static_cast<int>(i) != graph_.label) names.push_back(features_[i].name);
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

  absl::Status FindLabel() {
    const std::string& label = job_.data().train().label();
    graph_.label = FindFeature(label);
    if (graph_.label >= 0) return absl::OkStatus();
    return InvalidArgument("{}the label \"{}\" is not a column of the data; its columns are {}",
                           At("data.train.label"), label, ShownNames());
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
    input.set_feature(names[0]);
    inputs_ = 1;
    return AddLayer(input, "model");
  }

  absl::Status AddLayer(const v1::LayerSpec& spec, const std::string& path) {
    GraphLayer layer;
    layer.spec = spec;
    auto found = FindLayer(spec.class_name());
    if (!found.ok()) return Annotate(found.status(), At(path) + "model");
    layer.layer_class = *found;
    layer.name = spec.name().empty() ? names_.Next(spec.class_name()) : spec.name();
    if (layer.name.size() > kMaxNameBytes) {
      return InvalidArgument("{}the name of a layer has at most {} bytes, this one {}: \"{}...\"",
                             At(path), kMaxNameBytes, layer.name.size(), layer.name.substr(0, 40));
    }
    layer.where = fmt::format("{}layer \"{}\" ({})", At(path), layer.name, spec.class_name());
    const auto index = static_cast<int>(graph_.layers.size());
    if (!by_name_.emplace(layer.name, index).second) {
      return InvalidArgument("{}: there is another layer of this name", layer.where);
    }
    COHORT_RETURN_IF_ERROR(Annotate(
        spec.class_name() == "Input" ? SetFeature(&layer) : SetInputs(&layer), layer.where));
    graph_.layers.push_back(std::move(layer));
    return absl::OkStatus();
  }

  absl::Status SetFeature(GraphLayer* layer) {
    const std::vector<std::string> names = FeatureNames();
    std::string wanted = layer->spec.feature();
    if (wanted.empty()) {
      const bool named = std::find(names.begin(), names.end(), layer->name) != names.end();
      wanted = !named && inputs_ == 1 && names.size() == 1 ? names[0] : layer->name;
    }
    layer->feature = FindFeature(wanted);
    if (layer->feature >= 0 && layer->feature != graph_.label) return absl::OkStatus();
    if (layer->feature >= 0) return InvalidArgument("\"{}\" is the label", wanted);
    return InvalidArgument("the data has no column \"{}\"; its columns are {}{}", wanted,
                           ShownNames(), DidYouMean(wanted, std::span<const std::string>(names)));
  }

  absl::Status SetInputs(GraphLayer* layer) {
    if (layer->spec.inputs().empty()) {
      if (graph_.layers.empty()) return InvalidArgument("it has no input");
      layer->inputs.push_back(static_cast<int>(graph_.layers.size()) - 1);
    }
    for (const std::string& input : layer->spec.inputs()) {
      const auto it = by_name_.find(input);
      if (it == by_name_.end() || input == layer->name) {
        std::vector<std::string> known;
        for (const GraphLayer& other : graph_.layers) known.push_back(other.name);
        return InvalidArgument("no layer before it has the name \"{}\"{}", input,
                               DidYouMean(input, std::span<const std::string>(known)));
      }
      layer->inputs.push_back(it->second);
    }
    const size_t count = layer->inputs.size();
    if (count < layer->layer_class->min_inputs || count > layer->layer_class->max_inputs) {
      return InvalidArgument("it takes {} input, not {}", layer->layer_class->max_inputs, count);
    }
    return absl::OkStatus();
  }

  absl::Status FindOutput() {
    const auto& outputs = job_.model().outputs();
    if (outputs.size() > 1) {
      return Unimplemented("{}models of several outputs are not supported yet",
                           At("model.outputs"));
    }
    graph_.output = static_cast<int>(graph_.layers.size()) - 1;
    if (outputs.empty()) return absl::OkStatus();
    const auto it = by_name_.find(outputs[0]);
    if (it == by_name_.end()) {
      return InvalidArgument("{}there is no layer \"{}\"", At("model.outputs"), outputs[0]);
    }
    graph_.output = it->second;
    return absl::OkStatus();
  }

  absl::Status CheckAllUsed() const {
    std::vector<bool> used(graph_.layers.size(), false);
    used[static_cast<size_t>(graph_.output)] = true;
    for (size_t i = graph_.layers.size(); i-- > 0;) {
      const GraphLayer& layer = graph_.layers[i];
      if (!used[i]) {
        return InvalidArgument("{}: it does not lead to the output \"{}\"; remove it or connect it",
                               layer.where, graph_.layers[static_cast<size_t>(graph_.output)].name);
      }
      for (int input : layer.inputs) used[static_cast<size_t>(input)] = true;
    }
    return absl::OkStatus();
  }

  const v1::JobSpec& job_;
  std::span<const FeatureType> features_;
  const JobLines* lines_;
  LayerGraph graph_;
  AutoNames names_;
  std::map<std::string, int, std::less<>> by_name_;
  int inputs_ = 0;
};

}  // namespace

std::string SnakeCase(std::string_view name) {
  std::string snake;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool starts_word =
        IsUpper(c) && i > 0 &&
        (IsLower(name[i - 1]) || (i + 1 < name.size() && IsLower(name[i + 1])));
    if (starts_word && name[i - 1] != '_') snake += '_';
    snake += IsUpper(c) ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return snake;
}

absl::StatusOr<LayerGraph> MakeLayerGraph(const v1::JobSpec& job,
                                          std::span<const FeatureType> features,
                                          const JobLines* lines) {
  return GraphMaker(job, features, lines).Make();
}

}  // namespace cohort

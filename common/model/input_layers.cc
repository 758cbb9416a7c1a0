#include "common/model/input_layers.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/data/transform_class.h"
#include "common/model/layers/data_layers.h"
#include "common/model/layers/layer.h"
#include "common/model/layers/layer_names.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

constexpr std::string_view kLayers = "model.layers[";

bool IsGiven(const v1::LayerSpec& layer, const char* argument) {
  const auto found = layer.config().find(argument);
  return found != layer.config().end() &&
         found->second.value_case() != v1::ConfigValue::VALUE_NOT_SET;
}

// Normalization without moments learns them from the data, as `adapt` does, unless the job loads
// weights, which may have them.
bool LearnsMoments(const v1::JobSpec& job, const v1::LayerSpec& layer) {
  return layer.class_name() == "Normalization" && layer.shares().empty() &&
         !job.has_initial_weights() && !IsGiven(layer, "mean") && !IsGiven(layer, "variance");
}

class Mover {
 public:
  Mover(v1::JobSpec* job, JobLines* lines) : job_(job), lines_(lines) {}

  absl::Status Run() {
    NameLayers();
    const std::vector<int> users = Users();
    for (int i = 0; i < model()->layers_size(); ++i) {
      const auto found = Layers().Find(layer(i).class_name());
      if (!found.ok() || !((*found)->on_data || LearnsAtInput(i))) continue;
      COHORT_RETURN_IF_ERROR(Annotate(Move(i), NameWithPlace(i)));
    }
    const std::vector<int> left = Users();
    for (int i = model()->layers_size(); i-- > 0;) {
      if (users[static_cast<size_t>(i)] > 0 && left[static_cast<size_t>(i)] == 0) Remove(i);
    }
    return absl::OkStatus();
  }

 private:
  v1::ModelSpec* model() const { return job_->mutable_model(); }
  const v1::LayerSpec& layer(int i) const { return job_->model().layers(i); }
  const std::string& name(int i) const { return names_[static_cast<size_t>(i)]; }
  std::string Where(int i) const { return lines_->Where(fmt::format("{}{}]", kLayers, i)); }

  void NameLayers() {
    LayerNames names;
    for (const v1::LayerSpec& spec : job_->model().layers()) {
      is_sequential_ = is_sequential_ && spec.inputs().empty();
      std::string name = spec.name();
      if (name.empty() && spec.shares().empty()) name = names.Next(spec.class_name());
      names_.push_back(std::move(name));
    }
  }

  // The layers whose outputs a layer reads.
  std::vector<int> InputsOf(int i) const {
    if (is_sequential_) {
      const bool reads = i > 0 && layer(i).class_name() != "Input";
      return reads ? std::vector{i - 1} : std::vector<int>{};
    }
    std::vector<int> inputs;
    for (const std::string& input : layer(i).inputs()) {
      const auto found = std::ranges::find(names_, input);
      inputs.push_back(found == names_.end() ? -1 : static_cast<int>(found - names_.begin()));
    }
    return inputs;
  }

  // True if an Input has the name of its column: "input_layer" and "input_1" are Keras' own names,
  // and stand for the only column.
  bool NamesColumn(int i) const {
    return layer(i).class_name() == "Input" && (HasFeature(i) || !name(i).starts_with("input_"));
  }

  bool LearnsAtInput(int i) const {
    if (!LearnsMoments(*job_, layer(i))) return false;
    const auto& layers = job_->model().layers();
    const bool is_shared =
        std::ranges::any_of(layers, [&](const auto& other) { return other.shares() == name(i); });
    const std::vector<int> inputs = InputsOf(i);
    return !is_shared && inputs.size() == 1 && inputs[0] >= 0 && NamesColumn(inputs[0]);
  }

  // The number of readers of each layer. An output has one more.
  std::vector<int> Users() const {
    std::vector<int> users(names_.size());
    for (int i = 0; i < static_cast<int>(names_.size()); ++i) {
      for (const int input : InputsOf(i)) {
        if (input >= 0) ++users[static_cast<size_t>(input)];
      }
      const auto& outputs = job_->model().outputs();
      if (std::ranges::find(outputs, name(i)) != outputs.end()) ++users[static_cast<size_t>(i)];
    }
    return users;
  }

  // The column of an Input.
  std::string ColumnOf(int i) const {
    return HasFeature(i) ? layer(i).config().at("feature").s() : name(i);
  }

  // Where an error of a layer is.
  std::string NameWithPlace(int i) const {
    return fmt::format("{}: layer \"{}\" ({})", Where(i), name(i), layer(i).class_name());
  }

  // The steps of moving a layer:
  // 1. The layers before it move first: a Rescaling between an Input and a RandomFlip.
  // 2. Its transforms join those of the data. An Input gives images its shape, and float32.
  // 3. An Input of the result takes its place.
  absl::Status Move(int i) {
    COHORT_RETURN_IF_ERROR(MoveInputsOf(i));
    v1::ClassConfig config;
    config.set_class_name(layer(i).class_name());
    *config.mutable_config() = layer(i).config();
    COHORT_ASSIGN_OR_RETURN(const std::vector<v1::ClassConfig> steps, TransformsOfLayer(config));
    if (steps.empty()) return InvalidArgument("it has no layers");
    const bool is_image = IsOfImages(i, steps[0]);
    COHORT_ASSIGN_OR_RETURN(std::vector<std::string> columns, ColumnsOf(i, is_image));
    std::optional<FeatureType> type;
    bool of_input = false;
    if (const std::vector<int> inputs = InputsOf(i); columns.size() == 1) {
      const int input = inputs.empty() ? -1 : inputs[0];
      of_input = input < 0 || !HasFeature(input);
      if (is_image) type = TypeOf(input);
      if (is_image && (input < 0 || !made_.contains(input))) {
        const std::string given = name(i) + "/input";
        AddTransform(columns, given, InputStep(input), of_input, "float32");
        columns = {given};
        of_input = false;
      }
    }
    for (size_t step = 0; step < steps.size(); ++step) {
      if (type.has_value()) {
        COHORT_ASSIGN_OR_RETURN(type, After(steps[step], *type));
      }
      const bool is_last = step + 1 == steps.size();
      const std::string output = is_last ? name(i) : fmt::format("{}/{}", name(i), step);
      AddTransform(columns, output, steps[step], of_input);
      columns = {output};
      of_input = false;
    }
    ReplaceByInput(i, type);
    return absl::OkStatus();
  }

  absl::Status MoveInputsOf(int i) {
    if (!layer(i).shares().empty()) return InvalidArgument("a second call of it is not supported");
    for (const int input : InputsOf(i)) {
      if (input >= 0 && layer(input).class_name() == "Input") continue;
      if (input < 0 || !Transforms().Find(layer(input).class_name()).ok()) {
        return InvalidArgument(
            "it runs where the data is read, so that it reads an Input, or another layer of this "
            "kind");
      }
      COHORT_RETURN_IF_ERROR(Annotate(Move(input), NameWithPlace(input)));
    }
    for (int k = 0; k < static_cast<int>(names_.size()); ++k) {
      if (layer(k).class_name() == "Input" && ColumnOf(k) == name(i) && !UsedAlone(k, i)) {
        return InvalidArgument("a column has the name of the layer: give the layer another one");
      }
    }
    return absl::OkStatus();
  }

  // True for a layer of images, and for another one that also has a body of its own.
  bool IsOfImages(int i, const v1::ClassConfig& first_step) const {
    const auto layer_class = Layers().Find(layer(i).class_name());
    const auto transform = Transforms().Find(first_step.class_name());
    return (layer_class.ok() && !(*layer_class)->on_data) ||
           (transform.ok() && (*transform)->for_images);
  }

  absl::StatusOr<std::vector<std::string>> ColumnsOf(int i, bool is_image) const {
    std::vector<std::string> columns;
    for (const int input : InputsOf(i)) columns.push_back(ColumnOf(input));
    // A sequential model without an Input reads the only column.
    if (columns.empty() && is_image) columns.push_back("the only column");
    if (!columns.empty()) return columns;
    return InvalidArgument(
        "it needs an Input before it that names its column: {{Input: {{feature: COLUMN}}}}");
  }

  bool HasFeature(int i) const {
    const auto feature = layer(i).config().find("feature");
    return feature != layer(i).config().end() && !feature->second.s().empty();
  }

  const v1::ConfigValue* ShapeOf(int i) const {
    if (i < 0) return nullptr;
    const auto shape = layer(i).config().find("shape");
    const bool given = shape != layer(i).config().end() &&
                       (shape->second.has_i() || shape->second.list().values_size() > 0);
    return given ? &shape->second : nullptr;
  }

  // What the Input `i` gives; nothing if only the data says it.
  std::optional<FeatureType> TypeOf(int i) const {
    const v1::ConfigValue* const shape = ShapeOf(i);
    if (shape == nullptr) return std::nullopt;
    FeatureType type{ColumnOf(i), DType::kFloat32, {}};
    if (shape->has_i()) type.dims.push_back(shape->i());
    for (const v1::ConfigValue& size : shape->list().values()) type.dims.push_back(size.i());
    return type;
  }

  // The transform that an Input stands for.
  v1::ClassConfig InputStep(int i) const {
    const v1::ConfigValue* const shape = ShapeOf(i);
    return shape == nullptr ? ClassOf("Cast") : ClassOf("Reshape", {{"target_shape", *shape}});
  }

  // The type behind a transform; none if only the data says it.
  static absl::StatusOr<std::optional<FeatureType>> After(const v1::ClassConfig& step,
                                                          const FeatureType& type) {
    COHORT_ASSIGN_OR_RETURN(const TransformClass* transform, Transforms().Find(step.class_name()));
    COHORT_ASSIGN_OR_RETURN(const v1::ClassConfig config, CompleteConfig(transform->schema, step));
    if (step.class_name() == "Normalization") return std::optional(type);
    const bool learns = transform->must_adapt && transform->must_adapt(Config(config));
    if (transform->takes_words() || !transform->open || learns) return std::optional<FeatureType>();
    COHORT_ASSIGN_OR_RETURN(const RecordTransform opened,
                            transform->open(Config(config), std::span(&type, 1)));
    return std::optional(FeatureType{type.name, opened.dtype, opened.dims});
  }

  // `dtype`: of the result; "": that of the class.
  void AddTransform(const std::vector<std::string>& columns, const std::string& output,
                    const v1::ClassConfig& config, bool of_input, const char* dtype = "") {
    v1::ColumnTransform transform;
    if (columns.size() == 1) {
      transform.set_column(columns[0]);
      transform.set_of_input(of_input);
    } else {
      transform.mutable_columns()->Assign(columns.begin(), columns.end());
    }
    transform.set_output(output);
    transform.set_dtype(dtype);
    *transform.mutable_transform_class() = config;
    v1::DataSpec* const data = job_->mutable_data();
    if (data->validation().transforms_size() > 0) {
      *data->mutable_validation()->add_transforms() = transform;
    }
    *data->mutable_train()->add_transforms() = std::move(transform);
  }

  void ReplaceByInput(int i, const std::optional<FeatureType>& type) {
    v1::LayerSpec input;
    input.set_class_name("Input");
    input.set_name(name(i));
    (*input.mutable_config())["feature"] = ConfigOf(name(i));
    if (type.has_value() && !type->dims.empty()) {
      (*input.mutable_config())["shape"] = ConfigOf(std::vector<int64_t>(type->dims));
    }
    *model()->mutable_layers(i) = std::move(input);
    made_.insert(i);
  }

  // True if layer `reader` alone reads layer i.
  bool UsedAlone(int i, int reader) const {
    const std::vector<int> inputs = InputsOf(reader);
    return std::ranges::find(inputs, i) != inputs.end() && Users()[static_cast<size_t>(i)] == 1;
  }

  // Removes a layer, and its lines.
  void Remove(int removed) {
    model()->mutable_layers()->DeleteSubrange(removed, 1);
    names_.erase(names_.begin() + removed);
    std::map<std::string, int, std::less<>> keys;
    for (const auto& [key, line] : lines_->keys) {
      if (!key.starts_with(kLayers)) {
        keys[key] = line;
        continue;
      }
      const size_t end = key.find(']');
      const int index = std::stoi(key.substr(kLayers.size(), end - kLayers.size()));
      if (index == removed) continue;
      const int now = index > removed ? index - 1 : index;
      keys[fmt::format("{}{}{}", kLayers, now, key.substr(end))] = line;
    }
    lines_->keys = std::move(keys);
  }

  v1::JobSpec* const job_;
  JobLines* const lines_;
  std::vector<std::string> names_;  // by layer; "": a further call without a name
  std::set<int> made_;              // the layers that have become an Input
  bool is_sequential_ = true;
};

}  // namespace

absl::Status MoveInputLayers(v1::JobSpec* job, JobLines* lines) {
  const auto& layers = job->model().layers();
  const bool any = std::any_of(layers.begin(), layers.end(), [job](const v1::LayerSpec& layer) {
    const auto found = Layers().Find(layer.class_name());
    return (found.ok() && (*found)->on_data) || LearnsMoments(*job, layer);
  });
  return any ? Mover(job, lines).Run() : absl::OkStatus();
}

}  // namespace cohort

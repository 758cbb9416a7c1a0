#include "common/model/input_layers.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/model/layers/layer.h"
#include "common/model/layers/layer_names.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

constexpr std::string_view kLayers = "model.layers[";

class Mover {
 public:
  Mover(v1::JobSpec* job, JobLines* lines) : job_(job), lines_(lines) {}

  absl::Status Run() {
    NameLayers();
    const std::vector<int> users = Users();
    for (int i = 0; i < model()->layers_size(); ++i) {
      const auto found = Layers().Find(layer(i).class_name());
      if (!found.ok() || !(*found)->on_data) continue;
      const std::string where =
          fmt::format("{}: layer \"{}\" ({})", Where(i), name(i), layer(i).class_name());
      COHORT_RETURN_IF_ERROR(Annotate(Move(i, **found), where));
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
    const auto feature = layer(i).config().find("feature");
    const bool given = feature != layer(i).config().end() && !feature->second.s().empty();
    return given ? feature->second.s() : name(i);
  }

  absl::Status Move(int i, const LayerClass& layer_class) {
    v1::ColumnTransform transform;
    std::vector<std::string> columns;
    for (const int input : InputsOf(i)) {
      if (input < 0 || layer(input).class_name() != "Input") {
        return InvalidArgument(
            "it runs where the data is read, so that it reads an Input, or another layer of this "
            "kind");
      }
      columns.push_back(ColumnOf(input));
    }
    if (columns.empty()) {
      return InvalidArgument(
          "it needs an Input before it that names its column: {{Input: {{feature: "
          "COLUMN}}}}");
    }
    if (!layer(i).shares().empty()) return InvalidArgument("a second call of it is not supported");
    for (int k = 0; k < static_cast<int>(names_.size()); ++k) {
      if (layer(k).class_name() == "Input" && ColumnOf(k) == name(i) && !UsedAlone(k, i)) {
        return InvalidArgument("a column has the name of the layer: give the layer another one");
      }
    }
    if (columns.size() == 1) {
      transform.set_column(columns[0]);
    } else {
      transform.mutable_columns()->Assign(columns.begin(), columns.end());
    }
    transform.set_output(name(i));
    v1::ClassConfig* const config = transform.mutable_transform_class();
    config->set_class_name(layer_class.schema.name);
    for (const auto& [argument, value] : layer(i).config()) {
      if (argument == "trainable" || argument == "dtype" || argument == "activity_regularizer") {
        continue;
      }
      (*config->mutable_config())[argument] = value;
    }
    v1::DataSpec* const data = job_->mutable_data();
    *data->mutable_train()->add_transforms() = transform;
    if (data->validation().transforms_size() > 0) {
      *data->mutable_validation()->add_transforms() = transform;
    }
    v1::LayerSpec input;
    input.set_class_name("Input");
    input.set_name(name(i));
    (*input.mutable_config())["feature"] = ConfigOf(name(i));
    *model()->mutable_layers(i) = std::move(input);
    return absl::OkStatus();
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
  bool is_sequential_ = true;
};

}  // namespace

absl::Status MoveInputLayers(v1::JobSpec* job, JobLines* lines) {
  const auto& layers = job->model().layers();
  const bool any = std::any_of(layers.begin(), layers.end(), [](const v1::LayerSpec& layer) {
    const auto found = Layers().Find(layer.class_name());
    return found.ok() && (*found)->on_data;
  });
  return any ? Mover(job, lines).Run() : absl::OkStatus();
}

}  // namespace cohort

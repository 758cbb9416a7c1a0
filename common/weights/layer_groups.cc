#include "common/weights/layer_groups.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "common/schema/class_registry.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

constexpr std::string_view kWayOut =
    "Save the weights with Keras 3.6 or later, which names layers, or name the layers with "
    "`rename`";

// "functional/dense" for "functional/dense_1": the class of a group, with the groups around it.
std::string ClassOf(const std::string& group) {
  const size_t end = group.find_last_not_of("0123456789");
  const bool has_number = end != group.npos && end + 1 < group.size() && group[end] == '_';
  return has_number ? group.substr(0, end) : group;
}

std::string GroupOf(const std::string& tensor) {
  return tensor.substr(0, std::min(tensor.find_last_of('/'), tensor.size()));
}

// The layers of a model by the groups that Keras makes for them. A layer with variables takes
// `numbers` numbers of its class.
class LayerGroups {
 public:
  LayerGroups(std::span<const ModelLayer> layers, std::span<const v1::VariableSpec> variables,
              int numbers) {
    std::vector<Level> levels = {{}};
    for (const ModelLayer& layer : layers) {
      levels.resize(static_cast<size_t>(layer.depth) + 1);
      const bool has_variables = HasVariables(layer, variables);
      Level& level = levels.back();
      const std::string class_group = level.group + SnakeCase(layer.class_name);
      int& number = level.used[class_group];
      const std::string group =
          number == 0 ? class_group : fmt::format("{}_{}", class_group, number);
      number += has_variables ? numbers : 1;
      levels.push_back({.group = group + "/"});
      if (!has_variables) continue;
      layer_of_[group] = layer.name;
      classes_.insert(class_group);
    }
  }

  // Null if the group belongs to no layer with variables.
  const std::string* Find(const std::string& group) const {
    const auto it = layer_of_.find(group);
    return it == layer_of_.end() ? nullptr : &it->second;
  }
  bool HasClassOf(const std::string& group) const { return classes_.contains(ClassOf(group)); }
  const std::map<std::string, std::string>& all() const { return layer_of_; }

 private:
  // A model while its layers are counted.
  struct Level {
    std::string group;
    std::map<std::string, int> used;  // numbers, by class
  };

  static bool HasVariables(const ModelLayer& layer, std::span<const v1::VariableSpec> variables) {
    const std::string begin = layer.name + "/";
    return std::any_of(variables.begin(), variables.end(), [&](const v1::VariableSpec& variable) {
      return variable.name().starts_with(begin);
    });
  }

  std::map<std::string, std::string> layer_of_;
  std::set<std::string> classes_;
};

absl::StatusOr<std::vector<std::string>> Match(const WeightSource& source,
                                               const LayerGroups& groups) {
  std::vector<std::string> names;
  std::set<std::string> in_file, classes_in_file;  // groups, and all that are around them
  for (const SourceTensor& tensor : source.tensors()) {
    const std::string group = GroupOf(tensor.name);
    const std::string* const layer = groups.Find(group);
    names.push_back(layer == nullptr ? "" : *layer + tensor.name.substr(group.size()));
    for (std::string around = group; !around.empty();) {
      if (in_file.insert(around).second && groups.Find(around) == nullptr &&
          groups.HasClassOf(around)) {
        return InvalidArgument(
            "{}: it names layers by their classes and their order, and its \"{}\" is no layer with "
            "variables of this model: it was saved from another model. {}",
            source.path(), around, kWayOut);
      }
      classes_in_file.insert(ClassOf(around));
      const size_t slash = around.find_last_of('/');
      around.resize(slash == around.npos ? 0 : slash);
    }
  }
  for (const auto& [group, layer] : groups.all()) {
    if (in_file.contains(group) || !classes_in_file.contains(ClassOf(group))) continue;
    return InvalidArgument(
        "{}: it names layers by their classes and their order, and has no \"{}\", which would be "
        "the layer \"{}\": it was saved from another model. {}",
        source.path(), group, layer, kWayOut);
  }
  return names;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> NamesByClass(const WeightSource& source,
                                                      std::span<const ModelLayer> layers,
                                                      std::span<const v1::VariableSpec> variables) {
  if (layers.empty()) {
    return InvalidArgument(
        "{}: it names layers by their classes and their order, as tf_keras and Keras before 3.6 "
        "do, and the job file does not tell this order. Take the model from Keras "
        "(`model: {{keras_json: FILE}}`). Or: {}",
        source.path(), kWayOut);
  }
  auto names = Match(source, LayerGroups(layers, variables, 1));
  if (names.ok()) return names;
  // TensorFlow 2.12 and 2.13 count a layer with variables twice. If the groups of the file suit
  // both ways to count, both give the same names.
  auto twice = Match(source, LayerGroups(layers, variables, 2));
  return twice.ok() ? std::move(twice) : std::move(names);
}

}  // namespace cohort

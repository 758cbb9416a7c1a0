#include "common/weights/weight_match.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <map>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/weights/layer_groups.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

constexpr size_t kMostListed = 10;

std::string List(std::span<const std::string> names) {
  const auto first = names.first(std::min(names.size(), kMostListed));
  const size_t more = names.size() - first.size();
  return fmt::format("{}{}", fmt::join(first, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

bool Matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

// True if `name` matches a pattern; marks all that it matches.
bool MatchesAny(std::span<const std::string> patterns, const std::string& name,
                std::vector<bool>* used) {
  bool any = false;
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (!Matches(patterns[i], name)) continue;
    any = true;
    (*used)[i] = true;
  }
  return any;
}

std::vector<std::string> NamesOf(std::span<const v1::VariableSpec> variables) {
  std::vector<std::string> names;
  for (const v1::VariableSpec& variable : variables) names.push_back(variable.name());
  return names;
}

std::vector<std::string> NamesOf(std::span<const SourceTensor> tensors) {
  std::vector<std::string> names;
  for (const SourceTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

absl::Status CheckUsed(std::string_view key, std::span<const std::string> patterns,
                       const std::vector<bool>& used, std::span<const v1::VariableSpec> variables) {
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (used[i]) continue;
    return InvalidArgument("`{}`: no variable matches \"{}\"; there are {}", key, patterns[i],
                           List(NamesOf(variables)));
  }
  return absl::OkStatus();
}

// For each variable whether it may be loaded.
absl::StatusOr<std::vector<bool>> Chosen(const v1::InitialWeightsSpec& spec,
                                         std::span<const v1::VariableSpec> variables) {
  const std::vector<std::string> include(spec.include().begin(), spec.include().end());
  const std::vector<std::string> exclude(spec.exclude().begin(), spec.exclude().end());
  std::vector<bool> include_used(include.size()), exclude_used(exclude.size());
  std::vector<bool> chosen;
  for (const v1::VariableSpec& variable : variables) {
    const bool in = MatchesAny(include, variable.name(), &include_used) || include.empty();
    const bool out = MatchesAny(exclude, variable.name(), &exclude_used);
    chosen.push_back(in && !out);
  }
  COHORT_RETURN_IF_ERROR(CheckUsed("include", include, include_used, variables));
  COHORT_RETURN_IF_ERROR(CheckUsed("exclude", exclude, exclude_used, variables));
  return chosen;
}

// The name of a tensor in the model.
struct ModelName {
  std::string name;        // "": the tensor is for no variable
  size_t model_bytes = 0;  // as SourceTensor::model_bytes
};

ModelName Rename(const v1::RenameRule& rule, const SourceTensor& tensor) {
  const size_t from = rule.from().size();
  return {rule.to() + tensor.name.substr(from),
          from <= tensor.model_bytes ? tensor.model_bytes - from + rule.to().size() : 0};
}

// The names of the tensors after `rename`: the first rule whose `from` a name begins with counts.
// Without a rule, a name counts if the source names layers.
absl::StatusOr<std::vector<ModelName>> Renamed(const v1::InitialWeightsSpec& spec,
                                               const WeightSource& source) {
  std::vector<bool> used(static_cast<size_t>(spec.rename_size()));
  std::vector<ModelName> names;
  for (const SourceTensor& tensor : source.tensors()) {
    ModelName& name = names.emplace_back();
    if (source.names_layers()) name = {tensor.name, tensor.model_bytes};
    for (int i = 0; i < spec.rename_size(); ++i) {
      const v1::RenameRule& rule = spec.rename(i);
      if (!tensor.name.starts_with(rule.from())) continue;
      name = Rename(rule, tensor);
      used[static_cast<size_t>(i)] = true;
      break;
    }
  }
  for (int i = 0; i < spec.rename_size(); ++i) {
    if (used[static_cast<size_t>(i)]) continue;
    return InvalidArgument(
        "`rename`: no name in {} begins with \"{}\" and with no `from` before it; "
        "there are {}",
        source.path(), spec.rename(i).from(), List(NamesOf(source.tensors())));
  }
  return names;
}

// The variables by their names and by "layer/number".
std::map<std::string, size_t> Places(std::span<const v1::VariableSpec> variables) {
  std::map<std::string, size_t> places;
  std::map<std::string, int> in_layer;
  for (size_t i = 0; i < variables.size(); ++i) {
    const std::string& name = variables[i].name();
    places[name] = i;
    const size_t slash = name.find_last_of('/');
    if (slash == std::string::npos) continue;
    const std::string layer = name.substr(0, slash);
    places.emplace(fmt::format("{}/{}", layer, in_layer[layer]++), i);
  }
  return places;
}

// The names of the tensors in the model.
absl::StatusOr<std::vector<ModelName>> NamesInModel(const v1::InitialWeightsSpec& spec,
                                                    std::span<const v1::VariableSpec> variables,
                                                    std::span<const ModelLayer> layers,
                                                    const WeightSource& source) {
  if (source.names_layers() || !spec.rename().empty()) {
    return Renamed(spec, source);
  }
  COHORT_ASSIGN_OR_RETURN(auto by_class, NamesByClass(source, layers, variables));
  std::vector<ModelName> names;
  for (std::string& name : by_class) names.push_back({std::move(name)});
  return names;
}

// True if one text ends with the other, which begins after a '/' in it: "inner/dense/kernel" and
// "dense/kernel".
bool EndAlike(std::string_view a, std::string_view b) {
  if (a.size() < b.size()) std::swap(a, b);
  return a.ends_with(b) && (a.size() == b.size() || a[a.size() - b.size() - 1] == '/');
}

// The variable of a tensor; nullopt if there is none. Errors: InvalidArgument if two variables of a
// nested model are possible.
absl::StatusOr<std::optional<size_t>> FindPlace(const ModelName& tensor,
                                                std::span<const v1::VariableSpec> variables,
                                                const std::map<std::string, size_t>& places) {
  const auto exact = places.find(tensor.name);
  if (exact != places.end()) return exact->second;
  std::optional<size_t> found;
  if (tensor.model_bytes == 0) return found;
  const std::string_view model = std::string_view(tensor.name).substr(0, tensor.model_bytes);
  const std::string_view end = std::string_view(tensor.name).substr(tensor.model_bytes);
  for (size_t v = 0; v < variables.size(); ++v) {
    const std::string_view name = variables[v].name();
    if (!name.starts_with(model) || !EndAlike(name.substr(model.size()), end)) continue;
    if (found.has_value()) {
      return InvalidArgument(
          "\"{}\" may be for {} and for {}: say which with `rename`, or save the weights with "
          "model.save_weights(\"x.weights.h5\") of Keras 3.6 or later",
          tensor.name, variables[*found].name(), name);
    }
    found = v;
  }
  return found;
}

absl::Status NothingMatches(std::span<const v1::VariableSpec> variables,
                            const WeightSource& source) {
  return InvalidArgument(
      "no variable has a tensor in {}. Variables: {}. Tensors: {}. Use `rename` if layers have "
      "other "
      "names there",
      source.path(), List(NamesOf(variables)), List(NamesOf(source.tensors())));
}

}  // namespace

absl::StatusOr<WeightMatch> MatchWeights(const v1::InitialWeightsSpec& spec,
                                         std::span<const v1::VariableSpec> variables,
                                         std::span<const ModelLayer> layers,
                                         const WeightSource& source) {
  COHORT_ASSIGN_OR_RETURN(const std::vector<bool> chosen, Chosen(spec, variables));
  COHORT_ASSIGN_OR_RETURN(const std::vector<ModelName> names,
                          NamesInModel(spec, variables, layers, source));
  const std::map<std::string, size_t> places = Places(variables);
  std::vector<std::optional<size_t>> tensor_of(variables.size());
  WeightMatch match;
  for (size_t t = 0; t < names.size(); ++t) {
    const SourceTensor& tensor = source.tensors()[t];
    const auto place = FindPlace(names[t], variables, places);
    if (!place.ok()) return Annotate(place.status(), source.path());
    if (!place->has_value() || !chosen[**place]) {
      match.unused.push_back(tensor.name);
      continue;
    }
    const v1::VariableSpec& variable = variables[**place];
    std::optional<size_t>& tensor_here = tensor_of[**place];
    if (tensor_here.has_value()) {
      return InvalidArgument("{}: \"{}\" and \"{}\" are both for the variable {}", source.path(),
                             source.tensors()[*tensor_here].name, tensor.name, variable.name());
    }
    const Dims dims(variable.dims().begin(), variable.dims().end());
    if (dims == tensor.dims) {
      tensor_here = t;
    } else if (spec.skip_mismatch()) {
      match.unused.push_back(tensor.name);
    } else {
      return InvalidArgument(
          "{} has the shape {}, and \"{}\" in {} has {}: leave it out (`exclude: [{}]`), or set "
          "`skip_mismatch: true`",
          variable.name(), DimsToString(dims), tensor.name, source.path(),
          DimsToString(tensor.dims), variable.name());
    }
  }
  for (size_t v = 0; v < variables.size(); ++v) {
    if (tensor_of[v].has_value()) {
      match.loaded.push_back({v, *tensor_of[v]});
    } else {
      match.kept.push_back(variables[v].name());
    }
  }
  if (match.loaded.empty()) return NothingMatches(variables, source);
  return match;
}

std::string WeightMatch::Text(const WeightSource& source) const {
  std::string text = fmt::format("{} of {} variables begin with the values of {}", loaded.size(),
                                 loaded.size() + kept.size(), source.path());
  if (!kept.empty()) text += fmt::format("; with their initializers: {}", List(kept));
  if (!unused.empty()) text += fmt::format("; not used: {}", List(unused));
  return text;
}

}  // namespace cohort

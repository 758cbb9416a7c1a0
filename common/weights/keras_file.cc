#include "common/weights/keras_file.h"

#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <hdf5.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/base/status.h"

namespace cohort {
namespace {

// More than any model has: a damaged file may name many.
constexpr uint64_t kMostNames = 1'000'000;

// An open object of the library.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  ~Handle() {
    if (ok()) close_(id_);
  }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  Handle& operator=(Handle&&) = delete;

  bool ok() const { return id_ >= 0; }
  hid_t get() const { return id_; }

 private:
  hid_t id_;
  Close close_;
};

// The texts of an attribute: one, or a list, of fixed or of variable length. Nullopt if the object
// has no such attribute, or it is no text.
std::optional<std::vector<std::string>> Texts(hid_t object, const char* name) {
  if (H5Aexists(object, name) <= 0) return std::nullopt;
  const Handle attribute(H5Aopen(object, name, H5P_DEFAULT), H5Aclose);
  const Handle type(H5Aget_type(attribute.get()), H5Tclose);
  const Handle space(H5Aget_space(attribute.get()), H5Sclose);
  if (!attribute.ok() || !type.ok() || !space.ok()) return std::nullopt;
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  if (count == 0) return std::vector<std::string>();
  const size_t size = H5Tget_size(type.get());
  const bool usable = count > 0 && static_cast<uint64_t>(count) <= kMostNames;
  if (H5Tget_class(type.get()) != H5T_STRING || size == 0 || !usable) return std::nullopt;
  std::vector<std::string> texts;
  if (H5Tis_variable_str(type.get()) > 0) {
    std::vector<char*> values(static_cast<size_t>(count), nullptr);
    if (H5Aread(attribute.get(), type.get(), values.data()) < 0) return std::nullopt;
    for (const char* value : values) texts.emplace_back(value == nullptr ? "" : value);
    H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, values.data());
    return texts;
  }
  std::string bytes(static_cast<size_t>(count) * size, '\0');
  if (H5Aread(attribute.get(), type.get(), bytes.data()) < 0) return std::nullopt;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const std::string text = bytes.substr(i * size, size);
    texts.push_back(text.substr(0, text.find('\0')));
  }
  return texts;
}

// The texts of an attribute. Keras splits a long list: "NAME0", "NAME1" and so on instead of
// "NAME".
std::optional<std::vector<std::string>> TextsInParts(hid_t object, const std::string& name) {
  auto texts = Texts(object, name.c_str());
  if (texts.has_value()) return texts;
  for (size_t i = 0;; ++i) {
    const auto part = Texts(object, fmt::format("{}{}", name, i).c_str());
    if (!part.has_value()) return texts;
    if (!texts.has_value()) texts.emplace();
    texts->insert(texts->end(), part->begin(), part->end());
    if (texts->size() > kMostNames) return std::nullopt;
  }
}

// The links of a file: the paths of its groups and its datasets. Links to other files are left out.
struct Contents {
  hid_t file = -1;
  std::vector<std::string> groups;
  std::vector<std::string> datasets;

  static herr_t Visit(hid_t, const char* name, const H5L_info_t* link, void* data) {
    auto* const contents = static_cast<Contents*>(data);
    if (link->type != H5L_TYPE_HARD) return 0;
    if (contents->groups.size() + contents->datasets.size() > kMostNames) return -1;
    H5O_info_t info;
    if (H5Oget_info_by_name2(contents->file, name, &info, H5O_INFO_BASIC, H5P_DEFAULT) < 0)
      return -1;
    if (info.type == H5O_TYPE_GROUP) contents->groups.emplace_back(name);
    if (info.type == H5O_TYPE_DATASET) contents->datasets.emplace_back(name);
    return 0;
  }
};

// A dataset of the file, and the name that its tensor gets.
struct NamedDataset {
  std::string name;
  std::string path;
  size_t model_bytes = 0;  // as SourceTensor::model_bytes
};

// ------------------------------------------------------------------ Keras 3, .weights.h5

// `cells` are those of StackedRNNCells.
bool IsListOfLayers(std::string_view group) {
  return group == "layers" || group == "_layer_checkpoint_dependencies" || group == "cells";
}

// The datasets in groups "vars". A name is "inner/dense/0" for
// "layers/sequential/layers/dense/vars/0", with the names that the attribute `name` gives the
// groups.
class Keras3Datasets {
 public:
  Keras3Datasets(hid_t file, const Contents& contents) {
    ReadNames(file, contents);
    for (const std::string& path : contents.datasets) {
      const std::vector<std::string> parts = absl::StrSplit(path, '/');
      if (parts.size() < 3 || parts[parts.size() - 2] != "vars") continue;
      paths_.push_back(path);
      CheckNames(parts);
    }
  }

  bool names_layers() const { return names_layers_; }

  std::vector<NamedDataset> Find() const {
    std::vector<NamedDataset> found;
    for (const std::string& path : paths_) found.push_back({NameOf(path), path});
    return found;
  }

 private:
  void ReadNames(hid_t file, const Contents& contents) {
    constexpr std::string_view kVars = "/vars";
    for (const std::string& path : contents.groups) {
      if (!path.ends_with(kVars)) continue;
      const Handle group(H5Gopen2(file, path.c_str(), H5P_DEFAULT), H5Gclose);
      const auto name = group.ok() ? Texts(group.get(), "name") : std::nullopt;
      if (!name.has_value() || name->size() != 1) continue;
      names_[path.substr(0, path.size() - kVars.size())] = name->front();
    }
  }

  // If one layer has no name, the names of the groups count.
  void CheckNames(const std::vector<std::string>& parts) {
    std::string group;
    for (size_t i = 0; i + 2 < parts.size(); ++i) {
      group += (i == 0 ? "" : "/") + parts[i];
      const bool is_layer = i > 0 && IsListOfLayers(parts[i - 1]);
      if (is_layer && !names_.contains(group)) names_layers_ = false;
    }
  }

  std::string NameOf(const std::string& path) const {
    const std::vector<std::string> parts = absl::StrSplit(path, '/');
    std::string group, name;
    for (size_t i = 0; i + 2 < parts.size(); ++i) {
      group += (i == 0 ? "" : "/") + parts[i];
      if (IsListOfLayers(parts[i])) continue;
      const auto it = names_.find(group);
      const bool is_named = names_layers_ && it != names_.end();
      name += (is_named ? it->second : parts[i]) + "/";
    }
    return name + parts.back();
  }

  bool names_layers_ = true;
  std::map<std::string, std::string> names_;  // the layers, by the paths of their groups
  std::vector<std::string> paths_;
};

// ------------------------------------------------------------------ the old format, .h5

// "model/dense" for "model/dense/kernel"; "" for "kernel".
std::string_view DirectoryOf(std::string_view weight) {
  const size_t slash = weight.find_last_of('/');
  return slash == weight.npos ? std::string_view() : weight.substr(0, slash);
}

// True if the weight belongs to a layer within `layer`, which is a nested model then: "d_in/kernel"
// of "bottom".
bool IsOfInnerLayer(std::string_view weight, const std::string& layer) {
  const std::string_view directory = DirectoryOf(weight);
  return !directory.empty() && directory != layer && !directory.ends_with("/" + layer);
}

// The tensors of one layer, or of a nested model, whose weights have these names in the file.
std::vector<NamedDataset> OldLayerDatasets(const std::string& layer, const std::string& group,
                                           const std::vector<std::string>& weights) {
  const bool is_model = std::any_of(weights.begin(), weights.end(), [&](const std::string& weight) {
    return IsOfInnerLayer(weight, layer);
  });
  std::vector<NamedDataset> found;
  for (const std::string& weight : weights) {
    NamedDataset& dataset = found.emplace_back();
    dataset.path = fmt::format("{}/{}", group, weight);
    dataset.name = fmt::format(
        "{}/{}", layer,
        is_model ? weight.substr(0, weight.find(':')) : fmt::format("{}", found.size() - 1));
    dataset.model_bytes = is_model ? layer.size() + 1 : 0;
  }
  return found;
}

// The datasets that the attributes `layer_names` and `weight_names` name. They may lead anywhere:
// Hdf5KerasFile opens only those of its contents. Empty if the file has no such attributes.
// Errors: DataLoss.
absl::StatusOr<std::vector<NamedDataset>> OldDatasets(hid_t file, const Contents& contents) {
  const std::set<std::string> groups(contents.groups.begin(), contents.groups.end());
  std::vector<NamedDataset> found;
  for (const std::string base : {"", "model_weights/"}) {
    if (!base.empty() && !groups.contains("model_weights")) continue;
    const Handle model(H5Gopen2(file, ("/" + base).c_str(), H5P_DEFAULT), H5Gclose);
    const auto layers = model.ok() ? TextsInParts(model.get(), "layer_names") : std::nullopt;
    if (!layers.has_value()) continue;
    for (const std::string& layer : *layers) {
      const std::string path = base + layer;
      if (!groups.contains(path)) return DataLoss("it has no group /{}", path);
      const Handle group(H5Gopen2(file, path.c_str(), H5P_DEFAULT), H5Gclose);
      const auto weights = group.ok() ? TextsInParts(group.get(), "weight_names") : std::nullopt;
      if (!weights.has_value()) return DataLoss("/{} has no list of weights", path);
      for (NamedDataset& dataset : OldLayerDatasets(layer, path, *weights)) {
        found.push_back(std::move(dataset));
      }
    }
    break;
  }
  return found;
}

// ------------------------------------------------------------------ both

DType DTypeOfType(hid_t type) {
  const size_t size = H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_FLOAT:
      return size > 8 ? DType::kInvalid : size > 4 ? DType::kFloat64 : DType::kFloat32;
    case H5T_INTEGER:
      return size > 8 ? DType::kInvalid : DType::kInt64;
    default:
      return DType::kInvalid;
  }
}

hid_t MemoryType(DType dtype) {
  if (dtype == DType::kFloat32) return H5T_NATIVE_FLOAT;
  return dtype == DType::kFloat64 ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT64;
}

class Hdf5KerasFile : public KerasFile {
 public:
  Hdf5KerasFile(std::string path, Handle file) : path_(std::move(path)), file_(std::move(file)) {}

  absl::Status Find() {
    Contents contents{.file = file_.get()};
    if (H5Lvisit(file_.get(), H5_INDEX_NAME, H5_ITER_INC, Contents::Visit, &contents) < 0) {
      return Damaged("its groups cannot be read");
    }
    auto named = OldDatasets(file_.get(), contents);
    if (!named.ok()) return Damaged(std::string(named.status().message()));
    if (named->empty()) {
      const Keras3Datasets keras_3(file_.get(), contents);
      *named = keras_3.Find();
      names_layers_ = keras_3.names_layers();
    }
    if (named->empty()) {
      return InvalidArgument("{}: it holds no weights of a Keras model", path_);
    }
    const std::set<std::string> in_file(contents.datasets.begin(), contents.datasets.end());
    for (const NamedDataset& dataset : *named) {
      if (!in_file.contains(dataset.path)) {
        return Damaged(fmt::format("it has no dataset /{}", dataset.path));
      }
      COHORT_ASSIGN_OR_RETURN(SourceTensor tensor, Describe(dataset));
      datasets_.push_back({std::move(tensor), dataset.path});
    }
    return absl::OkStatus();
  }

  absl::Status Read(const Dataset& wanted, std::span<uint8_t> out) override {
    const Handle dataset(H5Dopen2(file_.get(), wanted.path.c_str(), H5P_DEFAULT), H5Dclose);
    const hid_t type = MemoryType(wanted.tensor.dtype);
    if (dataset.ok() &&
        H5Dread(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out.data()) >= 0) {
      return absl::OkStatus();
    }
    return Damaged(fmt::format("the values of /{} cannot be read", wanted.path));
  }

 private:
  absl::StatusOr<SourceTensor> Describe(const NamedDataset& named) {
    const Handle dataset(H5Dopen2(file_.get(), named.path.c_str(), H5P_DEFAULT), H5Dclose);
    if (!dataset.ok()) return Damaged(fmt::format("it has no /{}", named.path));
    const Handle properties(H5Dget_create_plist(dataset.get()), H5Pclose);
    if (!properties.ok()) return Damaged(fmt::format("/{} cannot be read", named.path));
    if (H5Pget_external_count(properties.get()) != 0 ||
        H5Pget_layout(properties.get()) == H5D_VIRTUAL) {
      return InvalidArgument(
          "{}: the values of /{} are in other files, which are not read: save the weights again "
          "with Keras",
          path_, named.path);
    }
    const Handle type(H5Dget_type(dataset.get()), H5Tclose);
    const Handle space(H5Dget_space(dataset.get()), H5Sclose);
    const int rank = space.ok() ? H5Sget_simple_extent_ndims(space.get()) : -1;
    if (!type.ok() || rank < 0) return Damaged(fmt::format("/{} is no tensor", named.path));
    std::vector<hsize_t> dims(static_cast<size_t>(rank));
    if (rank > 0) H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
    SourceTensor tensor{.name = named.name,
                        .dtype = DTypeOfType(type.get()),
                        .dims = Dims(dims.begin(), dims.end()),
                        .model_bytes = named.model_bytes};
    // Keras stores bfloat16 as numbers of two bytes and names the type in an attribute.
    if (Texts(dataset.get(), "dtype").has_value()) tensor.dtype = DType::kInvalid;
    return tensor;
  }

  absl::Status Damaged(std::string_view why) const {
    return DataLoss("{}: {}: the file is damaged, or no file of Keras", path_, why);
  }

  const std::string path_;
  const Handle file_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<KerasFile>> KerasFile::Open(const std::string& path) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // the library would print its errors
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_file_locking(access.get(), /*use_file_locking=*/0, /*ignore_when_disabled=*/1);
  Handle handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (!handle.ok()) {
    return DataLoss("{}: the file is a damaged or incomplete HDF5 file", path);
  }
  auto file = std::make_unique<Hdf5KerasFile>(path, std::move(handle));
  COHORT_RETURN_IF_ERROR(file->Find());
  return file;
}

}  // namespace cohort

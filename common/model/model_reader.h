#ifndef COHORT_COMMON_MODEL_MODEL_READER_H_
#define COHORT_COMMON_MODEL_MODEL_READER_H_

#include <optional>
#include <string>
#include <vector>

#include "common/model/class_reader.h"
#include "common/model/keras_json/keras_json_file.h"

namespace cohort::v1 {
class LayerSpec;
class ModelSpec;
}  // namespace cohort::v1

namespace cohort {

struct LayerClass;

// Reads `model`: its layers, or the file that has them: Keras' JSON, or a traced model.
class ModelReader : public ClassReader {
 public:
  using ClassReader::ClassReader;

  absl::Status Read(const YAML::Node& node, const std::string& path, v1::ModelSpec* model);

  // The names of the model's outputs; "" for the only one if its layer has no name.
  const std::vector<std::string>& outputs() const { return outputs_; }
  // The JSON that the model was read from; null: the layers are in the job file.
  const KerasJsonFile* keras_json() const { return keras_json_ ? &*keras_json_ : nullptr; }
  // The file of the traced model, as the job names it; "": the model has none.
  const std::string& traced() const { return traced_; }
  // The layers in Keras' JSON; empty if they are in the job file.
  std::vector<ModelLayer> TakeJsonLayers() { return std::move(json_layers_); }

 private:
  absl::Status ReadKerasJson(const Entry& entry, v1::ModelSpec* model);
  absl::Status ReadTraced(const Entry& entry, bool has_dtype, v1::ModelSpec* model);
  absl::Status ReadLayers(const Entry& entry, bool functional, v1::ModelSpec* model);
  absl::Status ReadLayer(const YAML::Node& item, bool functional, v1::ModelSpec* model);
  absl::Status ReadShares(const Entry& entry, const std::string& path, const ClassNode& node,
                          const LayerClass& layer_class, v1::LayerSpec* layer);
  absl::Status AddInput(Entry shape, v1::ModelSpec* model);
  // One name or a list of them.
  absl::Status ReadNames(const Entry& entry, const std::string& path, const std::string& field,
                         v1::LayerSpec* layer);
  absl::Status ReadInputs(const Entry& entry, const std::string& path, bool functional,
                          v1::LayerSpec* layer);

  std::vector<std::string> outputs_ = {""};
  std::optional<KerasJsonFile> keras_json_;
  std::vector<ModelLayer> json_layers_;
  std::string traced_;
};

// Reads a model whose keys are JSON, as a traced model has them; `file` names it in errors. Errors:
// InvalidArgument with the line.
absl::StatusOr<v1::ModelSpec> ReadModelJson(const std::string& json, const std::string& file);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_MODEL_READER_H_

#include "common/model/keras_json/keras_json_file.h"

#include "common/base/json_text.h"
#include "common/base/status.h"
#include "common/model/keras_json/keras_flatten.h"
#include "common/model/keras_json/keras_model.h"
#include "common/model/text_file.h"

namespace cohort {

absl::StatusOr<KerasJsonFile> KerasJsonFile::Read(const std::string& path) {
  if (path.ends_with(".keras") || path.ends_with(".h5")) {
    return InvalidArgument(
        "{}: this is the whole model: write its JSON to a file by `model.to_json()`, and its "
        "weights by `model.save_weights(\"w.weights.h5\")` for `initial_weights`",
        path);
  }
  COHORT_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, "the JSON of a model"));
  auto json = ParseJsonText(text);
  if (!json.ok()) return Annotate(json.status(), path);
  return KerasJsonFile(path, *std::move(json));
}

absl::StatusOr<std::vector<ModelLayer>> KerasJsonFile::SetModel(v1::ModelSpec* model) const {
  KerasModelReader reader(model->dtype());
  const auto read = reader.Read(json_);
  if (!read.ok()) return Annotate(read.status(), path_);
  COHORT_RETURN_IF_ERROR(Annotate(FlattenKerasModel(*read, model), path_));
  if (model->name().empty()) model->set_name(read->name);
  if (model->dtype().empty()) model->set_dtype(reader.dtype().empty() ? "float32" : reader.dtype());
  return LayersOf(*read);
}

}  // namespace cohort

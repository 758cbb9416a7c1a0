#include "common/model/traced_model.h"

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/checkpoint/safetensors.h"
#include "common/model/text_file.h"

namespace cohort {
namespace {

constexpr char kFormat[] = "cohort.model";
constexpr char kVersion[] = "1";

}  // namespace

absl::StatusOr<TracedModel> ReadTracedModel(const std::string& path) {
  COHORT_ASSIGN_OR_RETURN(const auto reader, SafetensorsReader::Open(path));
  const auto text = [&](const char* key) {
    const auto it = reader->metadata().find(key);
    return it == reader->metadata().end() ? std::string() : it->second;
  };
  if (text("format") != kFormat) {
    return InvalidArgument(
        "{}: it is no traced model: such a file is written by cohort.trace of the Python package. "
        "The weights of a trained model are for `initial_weights`",
        path);
  }
  const std::string version = text("format_version");
  if (version != kVersion) {
    return Unimplemented("{}: its format is {}, and this version of Cohort reads {}: update Cohort",
                         path, PrintableLine(version), kVersion);
  }
  TracedModel traced{path, text("model")};
  if (traced.layers.size() > kMaxTextBytes) {
    return InvalidArgument("{}: its layers have {} bytes; a model has at most {}", path,
                           traced.layers.size(), kMaxTextBytes);
  }
  return traced;
}

bool IsTracedModelName(const std::string& path) { return path.ends_with(".cohort"); }

}  // namespace cohort

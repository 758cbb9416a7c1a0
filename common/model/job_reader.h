#ifndef COHORT_COMMON_MODEL_JOB_READER_H_
#define COHORT_COMMON_MODEL_JOB_READER_H_

#include <string>
#include <vector>

#include "common/model/class_config.h"
#include "common/model/layers/layer.h"
#include "common/model/yaml_reader.h"

namespace cohort {

// A YamlReader that accepts the forms in which a job file differs from JobSpec (see job_file.h),
// and sets the defaults of messages that it creates.
class JobReader : public YamlReader {
 public:
  explicit JobReader(JobLines* lines) : YamlReader(lines) {}

  absl::Status ReadMessage(const YAML::Node& node, const std::string& path,
                           Message* message) override;

 private:
  using FindClass = absl::StatusOr<const ConfigClass*> (*)(std::string_view name);

  absl::Status ReadModel(const YAML::Node& node, const std::string& path, v1::ModelSpec* model);
  absl::Status ReadLayers(const Entry& entry, bool functional, v1::ModelSpec* model);
  absl::Status ReadLayer(const YAML::Node& item, const std::string& path, bool functional,
                         v1::LayerSpec* layer);
  absl::Status ReadArguments(const std::vector<Entry>& entries, const std::string& path,
                             const LayerClass& layer_class, bool functional, v1::LayerSpec* layer);
  absl::Status ReadInputs(const Entry& entry, const std::string& path, bool functional,
                          v1::LayerSpec* layer);

  absl::Status ReadCompile(const YAML::Node& node, const std::string& path,
                           v1::CompileSpec* compile);
  absl::Status ReadLoss(const Entry& entry, const std::string& path, v1::CompileSpec* compile);
  absl::Status ReadPartitioner(const YAML::Node& node, const std::string& path,
                               v1::PartitionerSpec* partitioner);

  // A class with its arguments: "name", {Name: {argument: value}} or {class_name: Name, config:
  // {argument: value}}.
  struct Class {
    std::string name;
    std::vector<Entry> config;
    std::string sparse_update;  // for optimizers
  };
  absl::StatusOr<Class> ReadClass(const YAML::Node& node, const std::string& path);
  // Reads a class into a message with `class_name` and `config`. Refuses unknown arguments.
  template <typename Config>
  absl::Status ReadConfig(const YAML::Node& node, const std::string& path, FindClass find,
                          Config* config);

  // Adds "FILE:LINE: " to a status.
  absl::Status AtLine(int line, const absl::Status& status) const;
};

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_JOB_READER_H_

#ifndef COHORT_COMMON_MODEL_JOB_READER_H_
#define COHORT_COMMON_MODEL_JOB_READER_H_

#include <string>

#include "common/model/class_reader.h"
#include "common/model/model_reader.h"

namespace cohort::v1 {
class JobSpec;
class PartitionerSpec;
}  // namespace cohort::v1

namespace cohort {

// Reads a whole job. ModelReader, CompileReader and DatasetReader accept the forms in which these
// parts differ from JobSpec (see job_file.h).
class JobReader : public ClassReader {
 public:
  explicit JobReader(JobLines* lines) : ClassReader(lines), model_(lines) {}

  absl::Status ReadMessage(const YAML::Node& node, const std::string& path,
                           Message* message) override;

  // The layers of the model in Keras' JSON, after the job was read; empty if it has none.
  std::vector<ModelLayer> TakeJsonLayers() { return model_.TakeJsonLayers(); }

 private:
  absl::Status ReadJob(const YAML::Node& node, v1::JobSpec* job);
  absl::Status ReadPartitioner(const YAML::Node& node, const std::string& path,
                               v1::PartitionerSpec* partitioner);
  absl::Status ReadField(const Entry& entry, const std::string& path, const Field* field,
                         Message* message) override;
  absl::Status ReadInitFrom(const Entry& entry, v1::JobSpec* job);
  absl::Status ReadFit(const YAML::Node& node, const std::string& path, v1::FitSpec* fit);
  absl::Status ReadClassWeight(const Entry& entry, const std::string& path, v1::FitSpec* fit);
  absl::Status ReadMixedPrecision(const YAML::Node& node, const std::string& path,
                                  v1::MixedPrecisionSpec* precision);

  ModelReader model_;  // the other parts may name the model's outputs
};

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_JOB_READER_H_

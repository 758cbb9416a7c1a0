#ifndef COHORT_COMMON_MODEL_DATASET_READER_H_
#define COHORT_COMMON_MODEL_DATASET_READER_H_

#include <span>
#include <string>
#include <vector>

#include "common/model/class_reader.h"

namespace cohort::v1 {
class ColumnTransform;
class DatasetSpec;
}  // namespace cohort::v1

namespace cohort {

// Reads one dataset of `data`: its source, transforms and labels.
class DatasetReader : public ClassReader {
 public:
  // `outputs`: of the model.
  DatasetReader(JobLines* lines, std::span<const std::string> outputs)
      : ClassReader(lines), outputs_(outputs) {}

  absl::Status ReadMessage(const YAML::Node& node, const std::string& path,
                           Message* message) override;

 protected:
  absl::Status ReadField(const Entry& entry, const std::string& path, const Field* field,
                         Message* message) override;

 private:
  absl::Status Read(const YAML::Node& node, const std::string& path, v1::DatasetSpec* dataset);
  absl::Status ReadLabels(const Entry& entry, const std::string& path, v1::DatasetSpec* dataset);
  absl::Status ReadSampleWeight(const Entry& entry, const std::string& path,
                                v1::DatasetSpec* dataset);
  // `source: {csv: {...}}`, or the short form `csv: {...}`.
  absl::Status ReadSource(const Entry& entry, const std::string& path, v1::DatasetSpec* dataset);
  absl::Status ReadTransform(const YAML::Node& node, const std::string& path,
                             v1::ColumnTransform* transform);
  // `entries` name the class, `Rescaling: {scale: 2}`, or give its arguments, `scale: 2`.
  absl::Status ReadTransformClass(const std::vector<Entry>& entries, const std::string& path,
                                  v1::ColumnTransform* transform);
  // The class that the key of a transform names.
  absl::StatusOr<std::string> TransformName(const Entry& entry, const std::string& path) const;

  const std::span<const std::string> outputs_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_DATASET_READER_H_

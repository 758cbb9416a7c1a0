#ifndef COHORT_COMMON_DATA_DATA_TEST_SPECS_H_
#define COHORT_COMMON_DATA_DATA_TEST_SPECS_H_

#include <string>
#include <string_view>

#include "common/schema/class_registry.h"
#include "common/testing/directory_test_util.h"
#include "proto/job.pb.h"

// For tests alone.
namespace cohort::testing {

inline v1::DatasetSpec CsvSpec(std::string_view path) {
  v1::DatasetSpec spec;
  *spec.mutable_source_class() = ClassOf("csv", {{"path", ConfigOf(path)}});
  return spec;
}

inline v1::DatasetSpec IdxSpec(std::string_view images, std::string_view labels = "") {
  v1::DatasetSpec spec;
  *spec.mutable_source_class() =
      ClassOf("idx", {{"images", ConfigOf(images)}, {"labels", ConfigOf(labels)}});
  return spec;
}

inline v1::DatasetSpec RecommenderSpec(int64_t records, int64_t seed = 0) {
  v1::DatasetSpec spec;
  *spec.mutable_source_class() =
      ClassOf("generator", {{"name", ConfigOf(std::string_view("recommender"))},
                            {"records", ConfigOf(records)},
                            {"seed", ConfigOf(seed)}});
  return spec;
}

inline v1::ColumnTransform* AddTransform(v1::DatasetSpec* spec, std::string_view column,
                                         v1::ClassConfig transform, std::string_view output = "") {
  v1::ColumnTransform* const added = spec->add_transforms();
  added->set_column(std::string(column));
  added->set_output(std::string(output));
  *added->mutable_transform_class() = std::move(transform);
  return added;
}

// StringLookup; Equals.
inline v1::ClassConfig Lookup(const std::vector<std::string>& vocabulary = {}) {
  return ClassOf("StringLookup", {{"vocabulary", ConfigOf(vocabulary)}});
}
inline v1::ClassConfig IsEqual(std::string_view value) {
  return ClassOf("Equals", {{"value", ConfigOf(value)}});
}
inline v1::ClassConfig Scaled(double scale, double offset = 0) {
  return ClassOf("Rescaling", {{"scale", ConfigOf(scale)}, {"offset", ConfigOf(offset)}});
}

}  // namespace cohort::testing

#endif  // COHORT_COMMON_DATA_DATA_TEST_SPECS_H_

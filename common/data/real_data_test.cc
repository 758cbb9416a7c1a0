// Reads the public data sets of the examples, where COHORT_DATA_DIR names a directory that has
// them; else the test is skipped (exit code 77).
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "common/data/data_test_specs.h"
#include "common/data/dataset.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

DataOptions RealData() {
  const char* dir = std::getenv("COHORT_DATA_DIR");
  if (dir == nullptr || !std::filesystem::exists(dir)) {
    std::puts("skipped: COHORT_DATA_DIR names no directory with the public data sets");
    std::exit(77);
  }
  return {.data_dir = dir};
}

std::shared_ptr<const Dataset> Open(const v1::DatasetSpec& spec) {
  auto dataset = Dataset::Open(spec, RealData());
  INFO(dataset.status());
  REQUIRE(dataset.ok());
  return *dataset;
}

template <typename T>
std::vector<T> All(const Dataset& dataset, const std::string& name) {
  const auto feature = dataset.FindFeatures({&name, 1});
  REQUIRE(feature.ok());
  std::vector<uint64_t> indices(dataset.num_records());
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = i;
  std::vector<Tensor> batch;
  REQUIRE(dataset.Gather(indices, *feature, &batch).ok());
  REQUIRE(batch[0].dtype() == DTypeOf<T>());
  const auto values = batch[0].values<T>();
  return {values.begin(), values.end()};
}

TEST_CASE("MNIST is read from its files") {
  v1::DatasetSpec spec =
      testing::IdxSpec("mnist/t10k-images-idx3-ubyte.gz", "mnist/t10k-labels-idx1-ubyte.gz");
  auto& arguments = *spec.mutable_source_class()->mutable_config();
  arguments["sha256_images"].set_s(
      "167310007f03058885c7e95e6c0b19c20de5c7fd3031f4cbdadc9014a523d80b");
  arguments["sha256_labels"].set_s(
      "fc607395669ec21321ea83e4b82c0544b7e8e63ff5b34337c06bc0a17cc0da3c");
  spec.set_skip(9000);
  spec.set_label("label");
  testing::AddTransform(&spec, "image", testing::Scaled(0.00392156862745098));
  const auto dataset = Open(spec);
  CHECK(dataset->num_records() == 1000);
  CHECK(dataset->features()[0].dims == Dims{28, 28});
  double sum = 0;
  for (const float pixel : All<float>(*dataset, "image")) sum += pixel;
  CHECK(sum / (1000 * 784) == Approx(0.13).margin(0.03));  // the mean of all of MNIST is 0.1307
  std::map<int64_t, int> counts;
  for (const int64_t label : All<int64_t>(*dataset, "label")) ++counts[label];
  CHECK(counts.size() == 10);
}

TEST_CASE("Adult is read from its file") {
  v1::DatasetSpec spec = testing::CsvSpec("adult/adult.data");
  spec.set_take(27000);
  spec.set_label("income");
  testing::AddTransform(&spec, "education", testing::Lookup());
  testing::AddTransform(&spec, "income", testing::IsEqual(">50K"));
  const auto dataset = Open(spec);
  CHECK(dataset->num_records() == 27000);
  double rich = 0;
  for (const float label : All<float>(*dataset, "income")) rich += label;
  CHECK(rich / 27000 == Approx(0.249).margin(0.01));
  std::set<int64_t> ids;
  for (const int64_t id : All<int64_t>(*dataset, "education")) ids.insert(id);
  CHECK(ids.size() == 16);
  CHECK(*ids.begin() == 1);
  CHECK(All<float>(*dataset, "age")[0] == 45);
}

}  // namespace
}  // namespace cohort

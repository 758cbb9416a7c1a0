#include "common/weights/initial_weights.h"

#include <filesystem>

#include "common/testing/directory_test_util.h"
#include "common/weights/weights_test_util.h"
#include "proto/job.pb.h"

namespace cohort::weights_test {
namespace {

using testing::TestDirectory;

TEST_CASE("initial values have the names and types of the variables") {
  const TestDirectory directory;
  WriteTensors(directory / "old.safetensors",
               {{"x/kernel", DType::kFloat64, {2, 2}}, {"x/bias", DType::kFloat32, {2}}});
  const std::vector<v1::VariableSpec> variables = {Variable("y/kernel", {2, 2}),
                                                   Variable("z/kernel", {4}),
                                                   Variable("y/bias", {2}, v1::FLOAT64)};
  v1::InitialWeightsSpec spec;
  spec.set_path("old.safetensors");
  spec.add_rename()->set_from("x");
  spec.mutable_rename(0)->set_to("y");
  const auto weights = FindInitialWeights(spec, directory / "job.yaml", variables, {});
  INFO(weights.status().ToString());
  REQUIRE(weights.ok());
  CHECK(Contains(weights->Text(), "2 of 3 variables"));
  const std::string path = directory / kInitialValuesName;
  directory.Write(kInitialValuesName, "from an earlier start");
  CHECK(!*HoldsInitialValues(path, "job-1"));
  CHECK(CheckInitialValues(*weights, variables).ok());
  REQUIRE(WriteInitialValues(*weights, variables, "job-1", path).ok());
  CHECK(*HoldsInitialValues(path, "job-1"));
  CHECK(!*HoldsInitialValues(path, "job-2"));
  CHECK(!*HoldsInitialValues(directory / "old.safetensors", "job-1"));
  CHECK(!*HoldsInitialValues(directory / "none", "job-1"));
  CHECK(!std::filesystem::exists(path + ".new"));
  const auto written = OpenWeights(path);
  REQUIRE(written.ok());
  REQUIRE((*written)->tensors().size() == 2);
  CHECK((*written)->tensors()[0].name == "y/bias");
  CHECK(ValuesOf<double>(*(*written)->Read(0, DType::kFloat64)) == std::vector<double>{100, 101});
  CHECK(ValuesOf<float>(*(*written)->Read(1, DType::kFloat32)) == std::vector<float>{0, 1, 2, 3});
}

TEST_CASE("an error leaves earlier initial values as they are") {
  const TestDirectory directory;
  WriteTensors(directory / "old.safetensors", {{"x/count", DType::kInt64, {2}}});
  const std::vector<v1::VariableSpec> variables = {Variable("x/count", {2})};
  v1::InitialWeightsSpec spec;
  spec.set_path(directory / "old.safetensors");  // absolute
  const auto weights = FindInitialWeights(spec, "elsewhere/job.yaml", variables, {});
  REQUIRE(weights.ok());
  const std::string path = directory.Write(kInitialValuesName, "from an earlier start");
  CHECK(Contains(CheckInitialValues(*weights, variables), "\"x/count\" has the type int64"));
  CHECK(Contains(WriteInitialValues(*weights, variables, "job-1", path),
                 "\"x/count\" has the type int64"));
  CHECK(std::filesystem::file_size(path) == 21);
  CHECK(!std::filesystem::exists(path + ".new"));
}

}  // namespace
}  // namespace cohort::weights_test

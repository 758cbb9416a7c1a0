#include "common/model/traced_model.h"

#include <catch2/catch.hpp>
#include <string>

#include "common/checkpoint/safetensors.h"
#include "common/model/job_file.h"
#include "common/model/job_test_text.h"
#include "common/model/model_builder.h"
#include "common/model/model_reader.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

constexpr char kLayers[] = R"({"name": "traced", "outputs": ["sum"], "functional": [
  {"Input": {"name": "x", "shape": [3]}},
  {"Variable": {"name": "scale/g", "shape": [3], "trainable": false}},
  {"ops.multiply": {"name": "product", "inputs": ["x", "scale/g"]}},
  {"Dense": {"name": "sum", "inputs": "product", "units": 2}}
]})";

class Files {
 public:
  std::string Write(const std::string& name, const std::string& format, const std::string& version,
                    const std::string& layers) {
    const std::string path = directory_.path() + "/" + name;
    auto writer = SafetensorsWriter::Create(
        path, {{"scale/g", DType::kFloat32, {3}}},
        {{"format", format}, {"format_version", version}, {"model", layers}});
    const float values[] = {1, 2, 3};
    REQUIRE((*writer)->Append(values, sizeof(values)).ok());
    REQUIRE((*writer)->Finish().ok());
    return path;
  }
  absl::StatusOr<JobFile> Job(const std::string& path) {
    std::string job = With("    - Input: {shape: [4]}\n", "");
    const size_t from = job.find("  sequential:");
    job.replace(from, job.find("compile:") - from, "  traced: " + path + "\n");
    return ParseJob(job, "job.yaml");
  }

 private:
  testing::TestDirectory directory_;
};

std::string ErrorOf(const absl::Status& status) { return std::string(status.message()); }

TEST_CASE("a traced model has layers, and first values for them") {
  Files files;
  const std::string path = files.Write("model.cohort", "cohort.model", "1", kLayers);
  CHECK(IsTracedModelName(path));
  const auto job = files.Job(path);
  REQUIRE(ErrorOf(job.status()) == "");
  const v1::ModelSpec& model = job->spec.model();
  REQUIRE(model.layers_size() == 4);
  CHECK(model.name() == "traced");
  CHECK(model.layers(1).class_name() == "Variable");
  CHECK(job->spec.initial_weights().path() == path);
  const auto summary = SummarizeModel(model);
  REQUIRE(ErrorOf(summary.status()) == "");
  CHECK(summary->params == 3 + 3 * 2 + 2);
  CHECK(summary->frozen_params == 3);
}

TEST_CASE("a file that is no traced model is refused with its name and line") {
  Files files;
  const auto error = [&](const std::string& format, const std::string& version,
                         const std::string& layers) {
    return ErrorOf(files.Job(files.Write("model.cohort", format, version, layers)).status());
  };
  CHECK(error("pt", "1", kLayers).find("it is no traced model") != std::string::npos);
  CHECK(error("cohort.model", "9", kLayers).find("its format is 9") != std::string::npos);
  CHECK(error("cohort.model", "1", "{\n\"functional\": [").find("model.cohort:") !=
        std::string::npos);
  CHECK(error("cohort.model", "1", "{\"functional\": [\n{\"Densee\": {}}]}")
            .find("model.cohort:2: ") != std::string::npos);
  CHECK(error("cohort.model", "1", R"({"traced": "model.cohort"})")
            .find("it may not name `traced`") != std::string::npos);
  CHECK(ErrorOf(files.Job("missing.cohort").status()).find("missing.cohort") != std::string::npos);
}

std::string LossError(const std::string& layers) {
  const auto job = ParseJob(
      With("loss: binary_crossentropy", "loss: {Traced: {layers: '" + layers + "'}}"), "job.yaml");
  if (!job.ok()) return ErrorOf(job.status());
  const std::vector<FeatureType> features = {{"x", DType::kFloat32, {4}},
                                             {"y", DType::kFloat32, {}}};
  return ErrorOf(BuildModel(job->spec, features).status());
}

TEST_CASE("a traced loss is computed from label and prediction alone") {
  const std::string inputs =
      R"({"Input": {"name": "y_true", "shape": [1]}}, {"Input": {"name": "y_pred", "shape": [1]}})";
  const auto function = [&](const std::string& layers) {
    return R"({"outputs": ["loss"], "functional": [)" + inputs + ", " + layers + "]}";
  };
  CHECK(LossError(function(R"({"ops.subtract": {"name": "d", "inputs": ["y_true", "y_pred"]}}, )"
                           R"({"ops.mean": {"name": "loss", "inputs": ["d"], "axis": -1}})")) ==
        "");
  CHECK(LossError(function(R"({"Dense": {"name": "loss", "inputs": ["y_pred"], "units": 1}})"))
            .find("a traced function has no variables") != std::string::npos);
  CHECK(LossError(function(R"({"ops.absolute": {"name": "loss", "inputs": ["d"]}})"))
            .find("layer \"loss\" (ops.absolute): no layer before it has the name \"d\"") !=
        std::string::npos);
  CHECK(LossError("[").find("layers:1: not JSON") != std::string::npos);
}

}  // namespace
}  // namespace cohort

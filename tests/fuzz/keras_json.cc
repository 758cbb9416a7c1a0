#include "common/model/keras_json/keras_json_file.h"
#include "tests/fuzz/fuzz_target.h"

namespace cohort::fuzz {
namespace {

absl::Status DecodeKerasJson(std::string_view bytes) {
  const auto json = KerasJsonFile::Read(FileOf(bytes));
  if (!json.ok()) return json.status();
  v1::ModelSpec model;
  v1::CompileSpec compile;
  const std::vector<std::string> outputs = {"a"};
  absl::Status status = json->SetModel(&model).status();
  for (const absl::Status& part :
       {json->SetLoss(outputs, &compile), json->SetLossWeights(outputs, &compile),
        json->SetMetrics(outputs, &compile), json->SetOptimizer(&compile)}) {
    if (!part.ok() && part.message().empty()) return part;
  }
  return status;
}

std::vector<std::string> KerasJsonSeeds() {
  return {RepositoryFile("deploy/examples/keras_json/model.json")};
}

}  // namespace

FuzzTarget KerasJsonTarget() { return {"keras_json", DecodeKerasJson, KerasJsonSeeds}; }

}  // namespace cohort::fuzz

#include "common/model/model_reader.h"
#include "common/model/summary.h"
#include "proto/job.pb.h"
#include "tests/fuzz/fuzz_target.h"

namespace cohort::fuzz {
namespace {

// The layers of a traced model; safetensors has a target of its own.
absl::Status DecodeTracedModel(std::string_view bytes) {
  const auto model = ReadModelJson(std::string(bytes), "model.cohort");
  if (!model.ok()) return model.status();
  return SummarizeModel(*model).status();
}

std::vector<std::string> TracedModelSeeds() {
  return {R"({"name": "m", "dtype": "float64", "outputs": ["sum"], "functional": [
  {"Input": {"name": "x", "shape": [4, 3], "dtype": "float32"}},
  {"Input": {"name": "ids", "shape": [4], "dtype": "int64"}},
  {"Embedding": {"name": "rows", "inputs": ["ids"], "input_dim": 9, "output_dim": 3}},
  {"Variable": {"name": "scale/g", "shape": [3, 3], "trainable": false}},
  {"ops.matmul": {"name": "product", "inputs": ["x", "scale/g"]}},
  {"ops.add": {"name": "both", "inputs": ["product", "rows"]}},
  {"ops.reshape": {"name": "flat", "inputs": ["both"], "newshape": [-1, 12]}},
  {"Dense": {"name": "sum", "inputs": "flat", "units": 2}}]})",
          R"({"outputs": ["step"], "functional": [{"Input": {"name": "x", "shape": [3]}},
  {"Variable": {"name": "w", "shape": [3, 2]}},
  {"External": {"name": "step", "inputs": ["x", "w"], "columns": 1, "results": 2, "names": ["x", "w"]}}]})"};
}

}  // namespace

FuzzTarget TracedModelTarget() { return {"traced_model", DecodeTracedModel, TracedModelSeeds}; }

}  // namespace cohort::fuzz

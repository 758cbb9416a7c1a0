#include "common/data/dataset.h"
#include "common/data/record_source.h"
#include "common/data/source_class.h"
#include "proto/job.pb.h"
#include "tests/fuzz/fuzz_target.h"

namespace cohort::fuzz {
namespace {

// Opens the bytes as a file of the source and reads the first record.
absl::Status ReadFirst(v1::ClassConfig source) {
  v1::DatasetSpec spec;
  *spec.mutable_source_class() = std::move(source);
  const auto dataset = Dataset::Open(spec);
  if (!dataset.ok()) return dataset.status();
  std::vector<int> features((*dataset)->features().size());
  for (size_t i = 0; i < features.size(); ++i) features[i] = static_cast<int>(i);
  std::vector<Tensor> batch;
  const std::vector<uint64_t> first = {0};
  return (*dataset)->Gather(first, features, &batch);
}

absl::Status DecodeJsonLines(std::string_view bytes) {
  return ReadFirst(
      ClassOf("json_lines", {{"files", ConfigOf(std::vector<std::string>{FileOf(bytes)})}}));
}

absl::Status DecodeLibsvm(std::string_view bytes) {
  return ReadFirst(ClassOf("libsvm", {{"files", ConfigOf(std::vector<std::string>{FileOf(bytes)})},
                                      {"num_features", ConfigOf(4)}}));
}

std::vector<std::string> JsonSeeds() {
  return {"{\"a\": {\"b\": 7, \"c\": [1, 2.5]}, \"t\": \"x\\u00e9\", \"n\": null}\n",
          "{\"x\": true}\n\n{\"x\": -1e3}\n"};
}

std::vector<std::string> LibsvmSeeds() { return {"1 1:0.5 3:2 # c\n-1 qid:2 2:7\n"}; }

}  // namespace

FuzzTarget JsonLinesTarget() { return {"json_lines", DecodeJsonLines, JsonSeeds}; }
FuzzTarget LibsvmTarget() { return {"libsvm", DecodeLibsvm, LibsvmSeeds}; }

}  // namespace cohort::fuzz

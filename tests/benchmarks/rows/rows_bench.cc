// Opens a file of records, reads all of them once in batches, and prints rows per second:
//
//   rows_bench csv|parquet FILE
//   rows_bench tfrecord FILE NUMBERS    the features f0, f1, ..., each a float
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/data/dataset.h"
#include "common/schema/class_registry.h"
#include "proto/job.pb.h"

namespace {

constexpr uint64_t kBatch = 1024;

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "rows_bench: %s\n", std::string(status.message()).c_str());
  return 1;
}

cohort::v1::ClassConfig SourceOf(const std::string& kind, const char* file, int numbers) {
  using namespace cohort;
  v1::ClassConfig source =
      ClassOf(kind.c_str(), {{"files", ConfigOf(std::vector<std::string>{file})}});
  if (kind != "tfrecord") return source;
  v1::ClassConfig features;
  for (int i = 0; i < numbers; ++i) {
    (*features.mutable_config())["f" + std::to_string(i)] = ConfigOf(ClassOf("tensor"));
  }
  (*source.mutable_config())["features"] = ConfigOf(std::move(features));
  return source;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace cohort;
  if (argc < 3) {
    std::fprintf(stderr, "usage: rows_bench csv|parquet|tfrecord FILE [NUMBERS]\n");
    return 64;
  }
  const auto start = std::chrono::steady_clock::now();
  v1::DatasetSpec spec;
  *spec.mutable_source_class() = SourceOf(argv[1], argv[2], argc > 3 ? std::atoi(argv[3]) : 0);
  const auto dataset = Dataset::Open(spec);
  if (!dataset.ok()) return Fail(dataset.status());
  const uint64_t records = (*dataset)->num_records();
  std::vector<int> features;
  for (size_t i = 0; i < (*dataset)->features().size(); ++i) {
    features.push_back(static_cast<int>(i));
  }
  std::vector<Tensor> batch;
  for (uint64_t begin = 0; begin < records; begin += kBatch) {
    std::vector<uint64_t> indices;
    for (uint64_t i = begin; i < std::min(begin + kBatch, records); ++i) indices.push_back(i);
    const absl::Status gathered = (*dataset)->Gather(indices, features, &batch);
    if (!gathered.ok()) return Fail(gathered);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%.0f\n", static_cast<double>(records) / seconds.count());
  return 0;
}

// Reads a folder of images in batches of 32 and prints images per second:
//
//   image_bench FOLDER SIZE [THREADS] [ROUNDS]
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "common/base/thread_pool.h"
#include "common/data/dataset.h"
#include "common/schema/class_registry.h"
#include "proto/job.pb.h"

namespace {

constexpr uint64_t kBatch = 32;

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "image_bench: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace cohort;
  if (argc < 3) {
    std::fprintf(stderr, "usage: image_bench FOLDER SIZE [THREADS] [ROUNDS]\n");
    return 64;
  }
  const int threads = argc > 3 ? std::atoi(argv[3]) : 1;
  const int rounds = argc > 4 ? std::atoi(argv[4]) : 1;
  v1::DatasetSpec spec;
  *spec.mutable_source_class() =
      ClassOf("image_folder", {{"directory", ConfigOf(std::string_view(argv[1]))},
                               {"image_size", ConfigOf(int64_t{std::atoi(argv[2])})}});
  const auto dataset = Dataset::Open(spec);
  if (!dataset.ok()) return Fail(dataset.status());
  const uint64_t records = (*dataset)->num_records();
  const std::vector<int> features = {0, 1};
  ThreadPool helpers(threads);
  std::vector<Tensor> batch;
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < rounds; ++round) {
    for (uint64_t begin = 0; begin < records; begin += kBatch) {
      std::vector<uint64_t> indices;
      for (uint64_t i = begin; i < std::min(begin + kBatch, records); ++i) indices.push_back(i);
      const absl::Status gathered =
          (*dataset)->Gather(indices, features, {.helpers = &helpers}, &batch);
      if (!gathered.ok()) return Fail(gathered);
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%.1f\n", static_cast<double>(records) * rounds / seconds.count());
  return 0;
}

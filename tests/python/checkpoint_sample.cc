// Writes a small checkpoint with known values for the Python tests: checkpoint_sample DIRECTORY
//
//   embedding/embeddings        float32 [7, 4]   0, 1, 2, ...; rows 0-2 in one file, 3-6 in another
//   embedding/embeddings@velocity  the same + 1000
//   dense/kernel                float32 [4, 1]   0, 10, 20, 30
//   dense/bias                  float32 [1]      -0.5
//   scale                       float64 []       0.25
#include <cstdio>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/safetensors.h"
#include "common/checkpoint/shard_names.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

struct Piece {
  ShardTensorName name;
  Tensor tensor;
};

Tensor Rows(Dims dims, float first, float step) {
  Tensor tensor(DType::kFloat32, std::move(dims));
  for (float& value : tensor.mutable_values<float>()) {
    value = first;
    first += step;
  }
  return tensor;
}

absl::Status WriteShardFile(const std::string& directory, const std::string& name,
                            const std::vector<Piece>& pieces, v1::Manifest* manifest) {
  std::vector<SafetensorsWriter::Entry> entries;
  for (const Piece& piece : pieces) {
    entries.push_back({piece.name.ToString(), piece.tensor.dtype(), piece.tensor.dims()});
  }
  COHORT_ASSIGN_OR_RETURN(
      auto writer, SafetensorsWriter::Create(JoinPath(directory, name), entries, {{"cut", "12"}}));
  for (const Piece& piece : pieces) {
    COHORT_RETURN_IF_ERROR(writer->Append(piece.tensor.raw(), piece.tensor.num_bytes()));
  }
  COHORT_ASSIGN_OR_RETURN(const auto result, writer->Finish());
  v1::SnapshotFile* file = manifest->add_files();
  file->set_name(name);
  file->set_bytes(result.bytes);
  file->set_crc32(result.crc32);
  return absl::OkStatus();
}

absl::Status Write(const std::string& directory) {
  COHORT_RETURN_IF_ERROR(MakeDirectories(directory));
  v1::Manifest manifest;
  manifest.set_generation(1);
  manifest.set_cut(12);
  manifest.set_step(1200);
  const std::string table = "embedding/embeddings";
  const std::vector<Piece> first = {{{table, "", 0, 3}, Rows({3, 4}, 0, 1)},
                                    {{table, "velocity", 0, 3}, Rows({3, 4}, 1000, 1)},
                                    {{"dense/bias", "", 0, 1}, Rows({1}, -0.5F, 0)}};
  const std::vector<Piece> second = {{{"scale", "", 0, 1}, Tensor::Scalar(0.25)},
                                     {{table, "", 3, 7}, Rows({4, 4}, 12, 1)},
                                     {{table, "velocity", 3, 7}, Rows({4, 4}, 1012, 1)},
                                     {{"dense/kernel", "", 0, 4}, Rows({4, 1}, 0, 10)}};
  for (const char* name : {"embedding/embeddings", "dense/kernel", "dense/bias", "scale"}) {
    manifest.mutable_layout()->add_variables()->set_name(name);
  }
  COHORT_RETURN_IF_ERROR(WriteShardFile(directory, "ps-0.safetensors", first, &manifest));
  COHORT_RETURN_IF_ERROR(WriteShardFile(directory, "ps-1.safetensors", second, &manifest));
  return CommitManifest(directory, manifest);
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: checkpoint_sample DIRECTORY\n");
    return 64;
  }
  const absl::Status status = cohort::Write(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 74;
}

#include "common/weights/weight_source.h"

#include "common/checkpoint/file.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/shard_names.h"
#include "common/testing/directory_test_util.h"
#include "common/weights/weights_test_util.h"
#include "proto/checkpoint.pb.h"

namespace cohort::weights_test {
namespace {

using testing::TestDirectory;

// A checkpoint of "w" [3, 2] in two shards with a slot.
std::string WriteCheckpoint(const TestDirectory& directory, uint64_t cut) {
  v1::Manifest manifest;
  manifest.set_format_version(1);
  manifest.set_timeline(1);
  manifest.set_generation(1);
  manifest.set_cut(cut);
  *manifest.mutable_layout()->add_variables() = Variable("w", {3, 2});
  const std::string path = directory / IdOf(manifest).ToString();
  REQUIRE(MakeDirectories(path).ok());
  const std::vector<SafetensorsWriter::Entry> entries = {
      {ShardTensorName{"w", "", 0, 1}.ToString(), DType::kFloat32, {1, 2}},
      {ShardTensorName{"w", "", 1, 3}.ToString(), DType::kFloat32, {2, 2}},
      {ShardTensorName{"w", "momentum", 0, 3}.ToString(), DType::kFloat32, {3, 2}}};
  WriteTensors(JoinPath(path, "ps-0.safetensors"), entries);
  const auto bytes = ReadFile(JoinPath(path, "ps-0.safetensors"), 1 << 20);
  REQUIRE(bytes.ok());
  v1::SnapshotFile* const file = manifest.add_files();
  file->set_name("ps-0.safetensors");
  file->set_bytes(bytes->size());
  file->set_crc32(Crc32(0, bytes->data(), bytes->size()));
  REQUIRE(CommitManifest(path, manifest).ok());
  return path;
}

TEST_CASE("weights are read from a safetensors file") {
  const TestDirectory directory;
  const std::string path = WriteTensors(
      directory / "a.safetensors",
      {{"b", DType::kFloat64, {2, 2}}, {"a", DType::kFloat32, {3}}, {"count", DType::kInt64, {}}});
  auto source = OpenWeights(path);
  REQUIRE(source.ok());
  CHECK((*source)->path() == path);
  const auto& tensors = (*source)->tensors();
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[0].name == "a");
  CHECK(tensors[1].dims == Dims{2, 2});
  CHECK(ValuesOf<double>(*(*source)->Read(1, DType::kFloat64)) == std::vector<double>{0, 1, 2, 3});
  CHECK(ValuesOf<int64_t>(*(*source)->Read(2, DType::kInt64)) == std::vector<int64_t>{200});
}

TEST_CASE("floating types are converted, others are not") {
  const TestDirectory directory;
  auto source = OpenWeights(WriteTensors(
      directory / "a.safetensors",
      {{"f32", DType::kFloat32, {2}}, {"f64", DType::kFloat64, {2}}, {"i", DType::kInt64, {2}}}));
  REQUIRE(source.ok());
  CHECK(ValuesOf<double>(*(*source)->Read(0, DType::kFloat64)) == std::vector<double>{0, 1});
  CHECK(ValuesOf<float>(*(*source)->Read(1, DType::kFloat32)) == std::vector<float>{100, 101});
  const auto refused = (*source)->Read(2, DType::kFloat32);
  CHECK(refused.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(Contains(refused.status(), "\"i\" has the type int64, and the variable is float32"));
}

TEST_CASE("weights are read from a checkpoint without its slots") {
  const TestDirectory directory;
  WriteCheckpoint(directory, 3);
  const std::string newest = WriteCheckpoint(directory, 12);
  // The directory of all checkpoints, one of them, and its manifest.
  for (const std::string& path : {directory.path(), newest, newest + "/manifest.json"}) {
    INFO(path);
    auto source = OpenWeights(path);
    REQUIRE(source.ok());
    CHECK(Contains((*source)->path(), "ckpt-1-1-12"));
    REQUIRE((*source)->tensors().size() == 1);
    CHECK((*source)->tensors()[0].name == "w");
    CHECK(ValuesOf<float>(*(*source)->Read(0, DType::kFloat32)) ==
          std::vector<float>{0, 1, 100, 101, 102, 103});
  }
}

TEST_CASE("a damaged checkpoint is passed over, or refused if there is no other") {
  const TestDirectory directory;
  const std::string older = WriteCheckpoint(directory, 3);
  const std::string newest = WriteCheckpoint(directory, 12);
  directory.Write("ckpt-1-1-12/ps-0.safetensors", "short");
  const auto source = OpenWeights(directory.path());
  REQUIRE(source.ok());
  CHECK((*source)->path() == older);
  CHECK(absl::IsDataLoss(OpenWeights(newest).status()));
  directory.Write("ckpt-1-1-3/ps-0.safetensors", "short");
  const auto none = OpenWeights(directory.path());
  CHECK(absl::IsDataLoss(none.status()));
  CHECK(Contains(none.status(), "none of its checkpoints is complete"));
}

TEST_CASE("what holds no weights is refused with the reason") {
  const TestDirectory directory;
  const auto missing = OpenWeights(directory / "none.safetensors");
  CHECK(absl::IsNotFound(missing.status()));
  CHECK(Contains(missing.status(), "none.safetensors"));
  const auto empty = OpenWeights(directory.path());
  CHECK(absl::IsNotFound(empty.status()));
  CHECK(Contains(empty.status(), "no checkpoint in this directory"));
  const auto archive = OpenWeights(directory.Write("model.keras", "PK\x03\x04 and more"));
  CHECK(absl::IsInvalidArgument(archive.status()));
  CHECK(Contains(archive.status(), "save_weights"));
  const auto text = OpenWeights(directory.Write("weights.txt", "0.1 0.2 0.3 0.4"));
  CHECK(absl::IsDataLoss(text.status()));
  CHECK(Contains(text.status(), "none of them"));
  const auto hdf5 = OpenWeights(directory.Write("bad.h5", "\x89HDF\r\n\x1a\n and then nothing"));
  CHECK(Contains(hdf5.status(), "HDF5"));
  CHECK(Contains(hdf5.status(), "bad.h5"));
}

}  // namespace
}  // namespace cohort::weights_test

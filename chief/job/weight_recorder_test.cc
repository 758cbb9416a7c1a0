#include "chief/job/weight_recorder.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/clock_test_util.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/safetensors.h"
#include "common/checkpoint/shard_names.h"
#include "common/os/directory.h"
#include "common/testing/directory_test_util.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

using Catch::Contains;
using testing::TestDirectory;

// A checkpoint with the variable "words/embeddings", [3, 2], in two pieces.
std::string WriteCheckpoint(const std::string& directory, uint64_t cut) {
  const std::string path = JoinPath(directory, CheckpointId{0, 1, cut}.ToString());
  REQUIRE(MakeDirectories(path).ok());
  const std::string name = "words/embeddings";
  auto writer = SafetensorsWriter::Create(
      JoinPath(path, "ps-0.safetensors"),
      {{ShardTensorName{name, "", 0, 1}.ToString(), DType::kFloat32, {1, 2}},
       {ShardTensorName{name, "", 1, 3}.ToString(), DType::kFloat32, {2, 2}}},
      {});
  REQUIRE(writer.ok());
  const float values[] = {0, 0.5, 1, 1.5, 2, 3};
  REQUIRE((*writer)->Append(values, sizeof(values)).ok());
  const auto written = (*writer)->Finish();
  REQUIRE(written.ok());
  v1::Manifest manifest;
  manifest.set_format_version(1);
  manifest.set_generation(1);
  manifest.set_cut(cut);
  v1::VariableSpec* const variable = manifest.mutable_layout()->add_variables();
  variable->set_name(name);
  variable->set_dtype(v1::FLOAT32);
  variable->add_dims(3);
  variable->add_dims(2);
  v1::SnapshotFile* const file = manifest.add_files();
  file->set_name("ps-0.safetensors");
  file->set_bytes(written->bytes);
  file->set_crc32(written->crc32);
  REQUIRE(CommitManifest(path, manifest).ok());
  return path;
}

TEST_CASE("histograms and embeddings are written from checkpoints") {
  const TestDirectory directory;
  const std::string logs = directory / "logs";
  REQUIRE(MakeDirectories(logs).ok());
  ManualClock clock;
  const auto log = Logger::Discard();
  const std::string checkpoint = WriteCheckpoint(directory.path(), 1);
  {
    WeightRecorder recorder({.log_dir = logs,
                             .histograms_every = 2,
                             .embeddings_every = 3,
                             .embeddings = {"words/embeddings"},
                             .metadata = "words.tsv",
                             .clock = &clock,
                             .log = log.get()});
    for (const uint64_t epochs : {0, 1, 2, 3, 3}) {
      recorder.Committed(checkpoint, epochs, epochs * 10);
    }
    recorder.Committed(directory / "nothing", 9, 90);  // it was deleted
  }
  CHECK(testing::ReadAllBytes(logs + "/words_embeddings.tsv") == "0\t0.5\n1\t1.5\n2\t3\n");
  const std::string config = testing::ReadAllBytes(logs + "/projector_config.pbtxt");
  CHECK(config ==
        "embeddings {\n  tensor_name: \"words/embeddings\"\n  tensor_path: "
        "\"words_embeddings.tsv\"\n  metadata_path: \"words.tsv\"\n}\n");
  std::string events;
  for (const auto& entry : std::filesystem::directory_iterator(logs + "/train")) {
    events += testing::ReadAllBytes(entry.path().string());
  }
  size_t histograms = 0;
  for (size_t at = 0; (at = events.find("words/embeddings/histogram", at)) != events.npos; ++at) {
    ++histograms;
  }
  CHECK(histograms == 2);  // epochs 1 and 3
}

}  // namespace
}  // namespace cohort

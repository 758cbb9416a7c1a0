#include <signal.h>
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/safetensors.h"
#include "common/checkpoint/shard_names.h"
#include "common/testing/directory_test_util.h"
#include "deploy/launcher/check_job.h"
#include "deploy/launcher/evaluate_checkpoint.h"
#include "deploy/launcher/inspect_checkpoint.h"
#include "deploy/launcher/local_cluster.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

using Catch::Contains;
using Catch::StartsWith;

constexpr char kJob[] = R"(name: recommender
model:
  sequential:
    - Input: {shape: [3], dtype: int64, feature: features}
    - Embedding: {input_dim: 1000, output_dim: 20}
    - GlobalAveragePooling1D
    - Dense: {units: 1, activation: sigmoid}
compile: {loss: binary_crossentropy, optimizer: adam}
data:
  batch_size: 32
  visitation: exactly_once
  train:
    generator: {name: recommender, records: 640, seed: 1}
    transforms:
      - {column: features, lookup: string, vocabulary: [avenger, ironman]}
      - {column: label, equals: "yes"}
    label: label
fit: {epochs: 1}
strategy: {partitioner: {FixedShards: {num_shards: 2}}}
)";

absl::StatusOr<std::string> Check(const std::string& yaml, int ps = 2) {
  testing::TestDirectory dir;
  CheckOptions options;
  options.job = dir.path() + "/job.yaml";
  options.ps = ps;
  std::ofstream(options.job) << yaml;
  COHORT_ASSIGN_OR_RETURN(CheckedJob checked, CheckJob(options));
  return std::move(checked.text);
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  REQUIRE(text.find(from) != std::string::npos);
  return text.replace(text.find(from), from.size(), to);
}

TEST_CASE("check prints the model, the data and the shard plan") {
  const auto text = Check(kJob);
  INFO(std::string(text.status().message()));
  REQUIRE(text.ok());
  REQUIRE_THAT(*text, Contains("embedding (Embedding)") && Contains("20,000"));
  REQUIRE_THAT(*text, Contains("training data: 640 records"));
  REQUIRE_THAT(*text, Contains("each update is of one batch, so the effective batch is "));
  REQUIRE_THAT(*text, Contains("[0, 500)") && Contains("[500, 1000)"));
  REQUIRE_THAT(*text, Contains("ps:0") && Contains("ps:1"));
  REQUIRE_THAT(*text, Contains("on a GPU: all operations"));
}

TEST_CASE("check prints which variables begin with initial weights") {
  testing::TestDirectory weights;
  const std::string path = weights / "w.safetensors";
  const std::vector<float> kernel(20);
  auto writer = SafetensorsWriter::Create(path, {{"dense/kernel", DType::kFloat32, {20, 1}}}, {});
  REQUIRE(writer.ok());
  REQUIRE((*writer)->Append(kernel.data(), kernel.size() * sizeof(float)).ok());
  REQUIRE((*writer)->Finish().ok());
  const std::string job = std::string(kJob) + "initial_weights: {path: " + path + "}\n";
  const auto text = Check(job);
  INFO(std::string(text.status().message()));
  REQUIRE(text.ok());
  REQUIRE_THAT(*text,
               Contains("initial weights: 1 of 3 variables begin with the values of " + path +
                        "; with their initializers: embedding/embeddings, dense/bias\n"));
  REQUIRE_THAT(
      std::string(Check(Replaced(job, "output_dim: 20", "output_dim: 21")).status().message()),
      Contains("job.yaml:20: dense/kernel has the shape [21, 1]"));
  REQUIRE_THAT(std::string(Check(Replaced(job, "w.safetensors", "none.h5")).status().message()),
               Contains("job.yaml:20: ") && Contains("none.h5"));
}

TEST_CASE("check prints what a step exchanges with each server, whatever its size") {
  const auto text = Check(kJob);
  REQUIRE(text.ok());
  REQUIRE_THAT(*text,
               Contains("ps:0 per step: push up to ") && Contains("ps:1 per step: push up to "));
  // A kernel of 30,000 x 30,000 floats has 3.4 GiB.
  const std::string job =
      Replaced(kJob, "    - Dense: {units: 1,",
               "    - Dense: {units: 30000}\n    - Dense: {units: 30000}\n    - Dense: {units: 1,");
  const auto large = Check(Replaced(job, "num_shards: 2", "num_shards: 1"), 1);
  REQUIRE(large.ok());
  REQUIRE_THAT(*large, Contains("ps:0 per step: push up to 3."));
}

TEST_CASE("check names the variables that would benefit from lazy updates, and no others") {
  REQUIRE_THAT(*Check(kJob), Contains("embedding/embeddings: Adam moves all 1,000 rows"));
  REQUIRE_THAT(*Check(Replaced(kJob, "1000", "100")), !Contains("lazy"));
  REQUIRE_THAT(*Check(Replaced(kJob, "optimizer: adam", "optimizer: sgd")), !Contains("lazy"));
}

TEST_CASE("check continues without the data, and reports that") {
  const std::string job = Replaced(kJob, "generator: {name: recommender, records: 640, seed: 1}",
                                   "csv: {path: nowhere.csv}");
  const auto text = Check(job);
  INFO(std::string(text.status().message()));
  REQUIRE(text.ok());
  REQUIRE_THAT(*text, Contains("training data: not checked") && Contains("nowhere.csv"));
  REQUIRE_THAT(*text, Contains("\nwarning: training data: not checked"));
  REQUIRE_THAT(std::string(Check(Replaced(job, "shape: [3], ", "")).status().message()),
               Contains("not here: ") && Contains("has no shape: without the data it needs one"));
}

TEST_CASE("check names what is wrong with a job") {
  const auto typo = Check(Replaced(kJob, "units: 1", "unit: 1"));
  REQUIRE(ExitCodeOf(typo.status()) == ExitCode::kData);
  REQUIRE_THAT(std::string(typo.status().message()), Contains("job.yaml:7") && Contains("units"));
  CheckOptions missing;
  missing.job = "/nonexistent/job.yaml";
  REQUIRE(ExitCodeOf(CheckJob(missing).status()) == ExitCode::kNoInput);
  REQUIRE(ExitCodeOf(Check(kJob, 0).status()) == ExitCode::kUsage);
}

TEST_CASE("check finds what would only fail when the job runs") {
  const std::string dropping = Replaced(
      kJob, "    label: label\n", "    label: label\n    take: 10\n    drop_remainder: true\n");
  const std::string independent = Replaced(Replaced(dropping, "exactly_once", "independent"),
                                           "{epochs: 1}", "{epochs: 1, steps_per_epoch: 5}");
  const std::string own_transforms = Replaced(
      kJob, "fit:",
      "  validation:\n    generator: {name: recommender, records: 64, seed: 2}\n    label: label\n"
      "    transforms:\n      - {column: label, equals: \"yes\"}\nfit:");
  const std::string own_type =
      Replaced(own_transforms, "      - {column: label, equals: \"yes\"}\nfit:",
               "      - {column: features, lookup: string, vocabulary: [avenger, ironman]}\n"
               "      - {column: label, equals: \"yes\", dtype: int64}\nfit:");
  for (const auto& [job, said] :
       {std::pair(Replaced(kJob, "optimizer: adam", "optimizer: {Adam: {beta_1: 1}}"),
                  "job.yaml:8: Adam: beta_1 must be in [0, 1), not 1"),
        std::pair(dropping,
                  "job.yaml:10: the training set has 10 records, fewer than a batch of "
                  "32, and `drop_remainder` leaves out shorter ones"),
        std::pair(independent, "job.yaml:10: the training set has 10 records"),
        std::pair(own_transforms,
                  "job.yaml:21: the validation set lacks a column: column \"features\" holds text: "
                  "give it a lookup or equals"),
        std::pair(own_type,
                  "job.yaml:21: the validation set's column \"label\" is int64 [], the training "
                  "set's float32 []")}) {
    const auto text = Check(job);
    REQUIRE(ExitCodeOf(text.status()) == ExitCode::kData);
    CHECK_THAT(std::string(text.status().message()), Contains(said));
  }
}

// A checkpoint of one variable of 4 rows with a slot, in one file; returns its directory.
// `best`: the cut that it names as the best so far, with its val_loss.
std::string WriteCheckpoint(const std::string& parent, uint64_t cut, uint64_t best = 0,
                            double value = 0) {
  const CheckpointId id{0, 1, cut};
  const std::string directory = parent + "/" + id.ToString();
  std::filesystem::create_directories(directory);
  const float values[] = {1, 2, 3, 4};
  std::vector<SafetensorsWriter::Entry> entries;
  for (const char* slot : {"", "momentum"}) {
    entries.push_back(
        {ShardTensorName{"dense/kernel", slot, 0, 4}.ToString(), DType::kFloat32, {4, 1}});
  }
  auto writer = SafetensorsWriter::Create(directory + "/ps-0.safetensors", entries, {});
  REQUIRE(writer.ok());
  for (int i = 0; i < 2; ++i) REQUIRE((*writer)->Append(values, sizeof(values)).ok());
  const auto written = (*writer)->Finish();
  REQUIRE(written.ok());
  v1::Manifest manifest;
  manifest.set_job("sample");
  manifest.set_generation(1);
  manifest.set_cut(cut);
  manifest.set_step(100 * cut);
  if (best > 0) {
    manifest.mutable_validated()->set_metric("val_loss");
    manifest.mutable_validated()->set_value(best == cut ? value : 2 * value);
    manifest.mutable_best()->set_checkpoint(CheckpointId{0, 1, best}.ToString());
    manifest.mutable_best()->set_metric("val_loss");
    manifest.mutable_best()->set_mode("min");
    manifest.mutable_best()->set_value(value);
    manifest.mutable_best()->set_epoch(best);
  }
  v1::ReaderPositions* readers = manifest.mutable_chief()->add_readers();
  readers->set_resource("train");
  for (uint32_t worker : {0, 2}) {
    readers->add_workers(worker);
    readers->add_batches(10 + worker);
  }
  v1::SnapshotFile* file = manifest.add_files();
  file->set_name("ps-0.safetensors");
  file->set_bytes(written->bytes);
  file->set_crc32(written->crc32);
  v1::VariableSpec* variable = manifest.mutable_layout()->add_variables();
  variable->set_name("dense/kernel");
  variable->set_dtype(v1::FLOAT32);
  variable->add_dims(4);
  variable->add_dims(1);
  manifest.mutable_layout()->add_tablets();
  manifest.mutable_layout()->add_shards()->set_rows(4);
  REQUIRE(CommitManifest(directory, manifest).ok());
  return directory;
}

TEST_CASE("inspect shows the newest whole checkpoint, or the one that is named") {
  testing::TestDirectory dir;
  const std::string older = WriteCheckpoint(dir.path(), 1);
  const std::string newer = WriteCheckpoint(dir.path(), 2);
  const auto newest = InspectCheckpoint(dir.path());
  INFO(std::string(newest.status().message()));
  REQUIRE(newest.ok());
  REQUIRE_THAT(*newest, Contains("step:       200") && Contains("job:        sample"));
  REQUIRE_THAT(*newest, Contains("dense/kernel  float32[4, 1]  slots: momentum"));
  REQUIRE_THAT(*newest, Contains("  train  worker:0 10 worker:2 12\n"));
  REQUIRE_THAT(*newest, Contains("[0, 4)") && Contains("ps-0.safetensors"));
  REQUIRE_THAT(*newest, Contains("beside it:\n  ckpt-0-1-1\n"));
  REQUIRE_THAT(*InspectCheckpoint(older), Contains("step:       100"));
  REQUIRE_THAT(*InspectCheckpoint(older + "/manifest.json"), Contains("step:       100"));
}

TEST_CASE("inspect names the files of words") {
  testing::TestDirectory dir;
  const std::string path = WriteCheckpoint(dir.path(), 1);
  v1::Manifest manifest = *ReadManifest(path);
  v1::ColumnTransform* const lookup =
      manifest.mutable_job_spec()->mutable_data()->mutable_train()->add_transforms();
  v1::ConfigValue& words = (*lookup->mutable_transform_class()->mutable_config())["vocabulary"];
  for (int i = 0; i < 5000; ++i) {
    words.mutable_list()->add_values()->set_s(fmt::format("word {}", i));
  }
  REQUIRE(CommitManifest(path, manifest).ok());
  REQUIRE_THAT(*InspectCheckpoint(path),
               Contains("  words-") && Contains(".txt  5000 words, 47.7 KiB: "
                                                "data.train.transforms[0].vocabulary\n"));
}

TEST_CASE("inspect refuses a corrupt checkpoint by name and takes the one before it") {
  testing::TestDirectory dir;
  WriteCheckpoint(dir.path(), 1);
  const std::string newer = WriteCheckpoint(dir.path(), 2);
  std::fstream file(newer + "/ps-0.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x7f');
  file.close();
  REQUIRE_THAT(*InspectCheckpoint(dir.path()),
               Contains("refused: " + newer) && Contains("step:       100"));
  const auto damaged = InspectCheckpoint(newer);
  REQUIRE(damaged.status().code() == absl::StatusCode::kDataLoss);
  REQUIRE_THAT(std::string(damaged.status().message()), Contains("ps-0.safetensors"));
}

void TearShard(const std::string& checkpoint) {
  std::filesystem::resize_file(checkpoint + "/ps-0.safetensors", 10);
}

TEST_CASE("inspect says which checkpoint is the best, and refuses a torn one by name") {
  testing::TestDirectory dir;
  const std::string best = WriteCheckpoint(dir.path(), 1, 1, 0.25);
  WriteCheckpoint(dir.path(), 2, 1, 0.25);
  const auto newest = InspectCheckpoint(dir.path());
  REQUIRE_THAT(*newest, Contains("step:       200") && Contains("validated:  val_loss 0.5000\n") &&
                            Contains("best:       ckpt-0-1-1 (val_loss 0.2500, epoch 1)\n"));
  for (const std::string& name : {best, dir.path() + "/best", dir.path() + "/best/"}) {
    REQUIRE_THAT(*InspectCheckpoint(name),
                 Contains("step:       100") &&
                     Contains("best:       this one (val_loss 0.2500, epoch 1)\n"));
  }
  TearShard(best);
  REQUIRE_THAT(*InspectCheckpoint(dir.path()),
               Contains("refused: " + best) && Contains("best:       ckpt-0-1-2 (val_loss 0.5000"));
  std::string refused;
  REQUIRE(*FindCheckpoint(dir.path() + "/best", &refused) == dir.path() + "/ckpt-0-1-2");
  REQUIRE_THAT(refused, Contains("refused: " + best));
  std::filesystem::remove_all(best);
  REQUIRE_THAT(
      *InspectCheckpoint(dir.path()),
      !Contains("refused") &&
          Contains("best:       ckpt-0-1-1 (val_loss 0.2500, epoch 1), which no longer exists"));
}

TEST_CASE("a checkpoint that is named by nothing, or from a directory that is gone, is an error") {
  std::string refused;
  CHECK(ExitCodeOf(FindCheckpoint("", &refused).status()) == ExitCode::kUsage);
  const std::filesystem::path here = std::filesystem::current_path();
  {
    testing::TestDirectory dir;
    std::filesystem::current_path(dir.path());
    std::filesystem::remove(dir.path());
  }
  for (const char* path : {"best", ".", "ckpt-1-1-1"}) {
    CHECK(ExitCodeOf(InspectCheckpoint(path).status()) == ExitCode::kNoInput);
  }
  std::filesystem::current_path(here);
}

TEST_CASE("a run below a directory whose name is not UTF-8 is refused by its flag") {
  testing::TestDirectory dir;
  const std::string odd = dir / "caf\xe9";
  std::filesystem::create_directories(odd);
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path(odd);
  LocalOptions relative;
  relative.run_dir = "run";
  LocalOptions logs;
  logs.run_dir = dir / "run";
  logs.log_dir = "logs";
  LocalOptions checkpoints;
  checkpoints.run_dir = dir / "run";
  checkpoints.checkpoint_dir = "checkpoints";
  for (const auto& [options, flag] : {std::pair(&relative, "--run_dir: "),
                                      {&logs, "--log_dir: "},
                                      {&checkpoints, "--checkpoint_dir: "}}) {
    const absl::Status refused = MakeRunDirectories(*options).status();
    CHECK(ExitCodeOf(refused) == ExitCode::kUsage);
    CHECK_THAT(std::string(refused.message()),
               StartsWith(flag) && Contains("caf\xe9") && Contains("is not UTF-8"));
  }
  CHECK(std::filesystem::is_empty(odd));
  std::filesystem::current_path(here);
}

TEST_CASE("inspect and evaluate report that there is no best checkpoint") {
  testing::TestDirectory dir;
  WriteCheckpoint(dir.path(), 1);
  REQUIRE_THAT(*InspectCheckpoint(dir.path()), !Contains("best:"));
  const auto none = InspectCheckpoint(dir.path() + "/best");
  REQUIRE(ExitCodeOf(none.status()) == ExitCode::kNoInput);
  REQUIRE_THAT(std::string(none.status().message()), Contains("has no best checkpoint"));
  EvaluateOptions options;
  options.checkpoint = dir.path() + "/best";
  REQUIRE(ExitCodeOf(EvaluateCheckpoint(options).status()) == ExitCode::kNoInput);
}

TEST_CASE("inspect and evaluate name the directory that has no checkpoint") {
  testing::TestDirectory dir;
  REQUIRE(ExitCodeOf(InspectCheckpoint(dir.path()).status()) == ExitCode::kNoInput);
  REQUIRE(ExitCodeOf(InspectCheckpoint(dir.path() + "/none").status()) == ExitCode::kNoInput);
  EvaluateOptions options;
  options.checkpoint = dir.path();
  REQUIRE(ExitCodeOf(EvaluateCheckpoint(options).status()) == ExitCode::kNoInput);
}

TEST_CASE("evaluate shows the evaluator that checkpoint alone, and returns its exit code") {
  testing::TestDirectory dir;
  WriteCheckpoint(dir.path(), 1);
  WriteCheckpoint(dir.path(), 2);
  const std::string fake = dir.path() + "/cohort-evaluator";
  std::ofstream(fake) << "#!/bin/sh\necho \"$@\" > " << dir.path() << "/seen\nexit 65\n";
  std::filesystem::permissions(fake, std::filesystem::perms::owner_all);
  EvaluateOptions options;
  options.checkpoint = dir.path() + "/ckpt-0-1-1";
  options.bin_dir = dir.path();
  options.threads = 3;
  // It sees the evaluator's end also where whoever has started it ignores its children's.
  const auto before = signal(SIGCHLD, GENERATE(SIG_DFL, SIG_IGN));
  REQUIRE(EvaluateCheckpoint(options).value() == 65);
  signal(SIGCHLD, before);
  std::ifstream seen(dir.path() + "/seen");
  std::string arguments;
  std::getline(seen, arguments);
  REQUIRE(arguments == "--checkpoint_dir=" + options.checkpoint + " --once --threads=3");
}

}  // namespace
}  // namespace cohort

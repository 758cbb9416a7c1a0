#include "chief/job/job_directory.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/exit_code.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/run_note.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using Catch::Contains;

JobPlan Plan(int epochs, int output_dim = 4, const std::string& fit = "",
             const std::string& name = "t") {
  auto job = ParseJob(fmt::format("name: {}\n"
                                  "model:\n  sequential:\n"
                                  "    - Input: {{shape: [3], dtype: int64, feature: features}}\n"
                                  "    - Embedding: {{input_dim: 8, output_dim: {}}}\n"
                                  "    - GlobalAveragePooling1D\n"
                                  "    - Dense: {{units: 1, activation: sigmoid}}\n"
                                  "compile: {{loss: binary_crossentropy, optimizer: SGD}}\n"
                                  "data:\n  batch_size: 10\n"
                                  "  train:\n"
                                  "    generator: {{name: recommender, records: 20, seed: 1}}\n"
                                  "    transforms:\n"
                                  "      - {{column: features, lookup: string}}\n"
                                  "      - {{column: label, equals: \"yes\"}}\n"
                                  "    label: label\n"
                                  "fit: {{epochs: {}{}}}\n"
                                  "checkpoint: {{directory: c}}\n",
                                  name, output_dim, epochs, fit),
                      "t.yaml");
  INFO(job.status().ToString());
  REQUIRE(job.ok());
  auto plan = JobPlan::Make(*std::move(job), {});
  INFO(plan.status().ToString());
  REQUIRE(plan.ok());
  return *std::move(plan);
}

v1::Manifest ManifestOf(const JobPlan& plan, uint64_t epoch, bool finished) {
  v1::Manifest manifest;
  manifest.set_job(plan.identity());
  manifest.set_timeline(1);
  manifest.set_generation(1);
  manifest.set_cut(epoch);
  manifest.set_epoch(epoch);
  manifest.set_step(2 * epoch);
  manifest.set_finished(finished);
  *manifest.mutable_job_spec() = plan.spec();
  *manifest.mutable_train_data() = plan.train_data();
  *manifest.mutable_identity() = *plan.identity_keys();
  return manifest;
}

struct Directory {
  void Commit(const v1::Manifest& manifest) {
    const std::string path = directory / IdOf(manifest).ToString();
    std::filesystem::create_directories(path);
    const absl::Status status = CommitManifest(path, manifest);
    INFO(status.ToString());
    REQUIRE(status.ok());
  }
  absl::StatusOr<std::optional<v1::Manifest>> Prepare(const JobPlan& plan,
                                                      JobDirectory::Options options = {}) {
    options.path = directory.path();
    options.chief_incarnation = 1;
    job = nullptr;
    auto taken = JobDirectory::Take(options, &plan);
    INFO(taken.status().ToString());
    REQUIRE(taken.ok());
    job = *std::move(taken);
    return job->Prepare();
  }

  testing::TestDirectory directory;
  std::unique_ptr<JobDirectory> job;
};

TEST_CASE("a directory that holds nothing, or this job unfinished, is ready") {
  const JobPlan plan = Plan(2);
  Directory d;
  auto prepared = d.Prepare(plan);
  REQUIRE(prepared.ok());
  CHECK(!prepared->has_value());
  CHECK(!*d.job->HasCheckpoint());
  CHECK(d.job->IsGone("ckpt-1-1-1"));

  d.Commit(ManifestOf(plan, 1, false));
  prepared = d.Prepare(plan);
  REQUIRE(prepared.ok());
  CHECK(!prepared->has_value());
  CHECK(*d.job->HasCheckpoint());
  CHECK(!d.job->IsGone("ckpt-1-1-1"));
  CHECK((*d.job->NewestManifest())->epoch() == 1);
  CHECK(d.job->Read(d.job->PathOf("ckpt-1-1-1"))->epoch() == 1);
}

TEST_CASE("a job that is finished is an error, or the result, unless it has more epochs now") {
  const JobPlan plan = Plan(2);
  Directory d;
  d.Commit(ManifestOf(plan, 2, true));
  const auto refused = d.Prepare(plan).status();
  CHECK(ExitCodeOf(refused) == ExitCode::kConfig);
  CHECK_THAT(std::string(refused.message()), Contains("this job is finished"));
  const auto finished = d.Prepare(plan, {.finished_ok = true});
  REQUIRE(finished.ok());
  CHECK((*finished)->step() == 4);
  const auto more = d.Prepare(Plan(3));
  REQUIRE(more.ok());
  CHECK(!more->has_value());
}

TEST_CASE("the error of a finished job names what has finished it") {
  const std::string callbacks = ", callbacks: [{EarlyStopping: {monitor: loss, patience: 1}}]";
  const auto error = [](Directory* d, const JobPlan& plan) {
    return std::string(d->Prepare(plan).status().message());
  };
  const JobPlan plan = Plan(9, 4, callbacks);
  Directory stopped;
  v1::Manifest manifest = ManifestOf(plan, 2, true);
  for (uint64_t epoch : {1, 2}) {
    v1::EpochRecord* const record = manifest.add_history();
    record->set_epoch(epoch);
    (*record->mutable_values())["loss"] = 1;
  }
  stopped.Commit(manifest);
  CHECK_THAT(error(&stopped, plan),
             Contains("a callback has ended it (EarlyStopping: loss was best at epoch 1 (1))"));
  CHECK(stopped.Prepare(Plan(9)).ok());
  // With restored weights the history ends at the best epoch.
  Directory restored;
  manifest.mutable_history()->RemoveLast();
  manifest.set_epoch(1);
  manifest.set_step(2);
  manifest.set_trained_epochs(2);
  manifest.set_trained_steps(4);
  manifest.set_stopped("EarlyStopping: loss was best");
  restored.Commit(manifest);
  CHECK_THAT(error(&restored, plan), Contains("a callback has ended it (EarlyStopping: loss"));
  CHECK_THAT(error(&restored, Plan(2, 4, callbacks)), Contains("give more epochs"));
  CHECK(restored.Prepare(Plan(9)).ok());
  Directory steps;
  steps.Commit(ManifestOf(Plan(9, 4, ", max_steps: 3"), 2, true));
  CHECK_THAT(error(&steps, Plan(9, 4, ", max_steps: 4")), Contains("give more steps"));
  CHECK(steps.Prepare(Plan(9)).ok());
}

TEST_CASE("the chief notes whose checkpoints follow, once per launch") {
  const JobPlan plan = Plan(2);
  Directory d;
  const auto note = [&] { return ReadRunNote(d.directory.path()).value(); };
  CHECK(!note().has_value());
  d.Commit(ManifestOf(plan, 1, false));
  REQUIRE(d.Prepare(plan, {.launch = "a"}).ok());
  CHECK(note()->launch == "a");
  CHECK(note()->begins_after == CheckpointId{1, 1, 1});
  d.Commit(ManifestOf(plan, 2, true));
  // The chief of this launch is started again, and the job is finished.
  REQUIRE(d.Prepare(plan, {.finished_ok = true, .launch = "a"}).ok());
  CHECK(note()->begins_after == CheckpointId{1, 1, 1});
  // Another launch finds it finished: its checkpoint is the last one.
  REQUIRE(d.Prepare(plan, {.finished_ok = true, .launch = "b"}).ok());
  CHECK(note()->begins_after == CheckpointId{});
  REQUIRE(d.Prepare(Plan(3), {.launch = "c"}).ok());
  CHECK(note()->begins_after == CheckpointId{1, 1, 2});
  REQUIRE(d.Prepare(plan, {.fresh = true, .launch = "d"}).ok());
  CHECK(note()->launch == "d");
  CHECK(note()->begins_after == CheckpointId{});
}

TEST_CASE("another job is refused, and --fresh deletes it") {
  Directory d;
  d.Commit(ManifestOf(Plan(2, 4, "", "other"), 1, false));
  const JobPlan plan = Plan(2);
  const absl::Status refused = d.Prepare(plan).status();
  CHECK(ExitCodeOf(refused) == ExitCode::kConfig);
  CHECK_THAT(std::string(refused.message()), Contains("holds checkpoints of another job"));
  CHECK(!d.job->continuation().has_value());
  REQUIRE(d.Prepare(plan, {.fresh = true}).ok());
  CHECK(!*d.job->HasCheckpoint());
}

TEST_CASE("a job with another model waits for its weights before the checkpoints move") {
  Directory d;
  d.Commit(ManifestOf(Plan(2, 5), 1, false));
  d.Commit(ManifestOf(Plan(2, 5), 2, true));
  const JobPlan plan = Plan(2);
  auto prepared = d.Prepare(plan, {.launch = "a"});
  INFO(prepared.status().ToString());
  REQUIRE(prepared.ok());
  CHECK(!prepared->has_value());
  REQUIRE(d.job->new_training().has_value());
  CHECK(d.job->new_training()->from == CheckpointId{1, 1, 2});
  CHECK(!d.job->continuation().has_value());
  CHECK(*d.job->HasCheckpoint());
  CHECK(!ReadRunNote(d.directory.path())->has_value());

  REQUIRE(d.job->SetFormerAside({1, 1, 2}).ok());
  CHECK(d.job->former()->CheckpointName() == "former-1/ckpt-1-1-2");
  CHECK(!*d.job->HasCheckpoint());
  CHECK(ReadRunNote(d.directory.path()).value()->begins_after == CheckpointId{});
  CHECK(d.job->Read(d.job->PathOf("former-1/ckpt-1-1-1"))->epoch() == 1);
  // A chief that is started again finds the job begun, before and after its first checkpoint.
  REQUIRE(d.Prepare(plan, {.launch = "a"}).ok());
  CHECK(d.job->former().has_value());
  CHECK(!d.job->new_training().has_value());
  CHECK(!d.job->continuation().has_value());
  d.Commit(ManifestOf(plan, 1, false));
  REQUIRE(d.Prepare(plan, {.launch = "a"}).ok());
  CHECK(!d.job->new_training().has_value());
  CHECK(d.job->continuation().has_value());
  // --fresh deletes this job and leaves the former one.
  REQUIRE(d.Prepare(plan, {.fresh = true}).ok());
  CHECK(!d.job->former().has_value());
  CHECK(!*d.job->HasCheckpoint());
  CHECK(d.job->Read(d.job->PathOf("former-1/ckpt-1-1-2"))->epoch() == 2);
}

TEST_CASE("--fresh must keep what the job reads") {
  const JobPlan plan = Plan(2);
  Directory d;
  d.Commit(ManifestOf(plan, 1, false));
  const std::string checkpoint = d.directory / "ckpt-1-1-1";
  std::filesystem::create_symlink(checkpoint, d.directory / "link");
  std::filesystem::create_directory(d.directory / "ckpt-1-1-11");
  for (const bool fresh : {false, true}) {
    INFO(fresh);
    d.job = nullptr;
    auto taken = JobDirectory::Take(
        {.path = d.directory.path(), .fresh = fresh, .chief_incarnation = 1}, &plan);
    REQUIRE(taken.ok());
    d.job = *std::move(taken);
    for (const std::string& path :
         {checkpoint, checkpoint + "/manifest.json", d.directory / "./link/w"}) {
      INFO(path);
      const absl::Status status = d.job->CheckKeeps(path);
      CHECK(status.ok() == !fresh);
      if (fresh) CHECK_THAT(std::string(status.message()), Contains("--fresh would delete it"));
    }
    CHECK(d.job->CheckKeeps(d.directory / "base.h5").ok());
    CHECK(d.job->CheckKeeps(d.directory / "ckpt-1-1-11/base.h5").ok());
    CHECK(!*d.job->HasJournal());
  }
  CHECK(std::filesystem::exists(checkpoint + "/manifest.json"));
}

TEST_CASE("this job over other data is refused") {
  const JobPlan plan = Plan(2);
  v1::Manifest manifest = ManifestOf(plan, 1, false);
  manifest.mutable_train_data()->set_records(7);
  Directory d;
  d.Commit(manifest);
  CHECK_THAT(std::string(d.Prepare(plan).status().message()), Contains("over other data"));
}

TEST_CASE("a job without a checkpoint directory is a usage error") {
  const JobPlan plan = Plan(2);
  CHECK(ExitCodeOf(JobDirectory::Take({}, &plan).status()) == ExitCode::kUsage);
}

}  // namespace
}  // namespace cohort

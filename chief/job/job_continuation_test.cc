#include "chief/job/job_continuation.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/exit_code.h"
#include "common/checkpoint/manifest.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using Catch::Contains;

struct JobChoices {
  int seed = 0;
  int output_dim = 4;
  std::string loss = "binary_crossentropy";
  std::string optimizer = "SGD";
  std::string metrics = "[]";
  int batch_size = 10;
  int epochs = 3;
};

// 20 records: 2 steps per epoch in batches of 10.
JobPlan PlanWith(const JobChoices& text) {
  auto job = ParseJob(fmt::format("name: t\n"
                                  "seed: {}\n"
                                  "model:\n"
                                  "  sequential:\n"
                                  "    - Input: {{shape: [3], dtype: int64, feature: features}}\n"
                                  "    - Embedding: {{input_dim: 8, output_dim: {}}}\n"
                                  "    - GlobalAveragePooling1D\n"
                                  "    - Dense: {{units: 1, activation: sigmoid}}\n"
                                  "compile:\n"
                                  "  loss: {}\n"
                                  "  optimizer: {}\n"
                                  "  metrics: {}\n"
                                  "data:\n"
                                  "  batch_size: {}\n"
                                  "  train:\n"
                                  "    generator: {{name: recommender, records: 20, seed: 1}}\n"
                                  "    transforms:\n"
                                  "      - {{column: features, lookup: string}}\n"
                                  "      - {{column: label, equals: \"yes\"}}\n"
                                  "    label: label\n"
                                  "fit: {{epochs: {}}}\n"
                                  "checkpoint: {{directory: c}}\n",
                                  text.seed, text.output_dim, text.loss, text.optimizer,
                                  text.metrics, text.batch_size, text.epochs),
                      "t.yaml");
  INFO(job.status().ToString());
  REQUIRE(job.ok());
  auto plan = JobPlan::Make(*std::move(job), {});
  INFO(plan.status().ToString());
  REQUIRE(plan.ok());
  return *std::move(plan);
}

v1::Manifest ManifestAt(const JobPlan& plan, uint64_t epoch, uint64_t step) {
  v1::Manifest manifest;
  manifest.set_job(plan.identity());
  manifest.set_timeline(1);
  manifest.set_generation(1);
  manifest.set_cut(step);
  manifest.set_epoch(epoch);
  manifest.set_step(step);
  manifest.set_servers(2);
  const auto& variables = plan.model().variables;
  *manifest.mutable_layout()->mutable_variables() = {variables.begin(), variables.end()};
  const auto& optimizers = plan.model().optimizers;
  *manifest.mutable_layout()->mutable_optimizers() = {optimizers.begin(), optimizers.end()};
  *manifest.mutable_job_spec() = plan.spec();
  *manifest.mutable_train_data() = plan.train_data();
  *manifest.mutable_identity() = *plan.identity_keys();
  *manifest.mutable_epochs() = plan.epoch_plan();
  return manifest;
}

std::string ListOf(const std::vector<KeyChange>& changes) {
  std::string keys;
  for (const KeyChange& c : changes) keys += fmt::format("{} {} {};", c.key, c.then, c.now);
  return keys;
}

std::string RefusalOf(const JobPlan& plan, const v1::Manifest& manifest) {
  const auto status = JobContinuation("/c", 2, &plan).From(manifest).status();
  CHECK(ExitCodeOf(status) == ExitCode::kConfig);
  return std::string(status.message());
}

TEST_CASE("numbers of the optimizer, epochs and servers may change, and are reported") {
  const v1::Manifest manifest = ManifestAt(PlanWith({}), 1, 3);
  const JobPlan now = PlanWith({.optimizer = "{SGD: {learning_rate: 0.5}}", .epochs = 9});
  const JobContinuation continuation("/c", 4, &now);
  const auto from = continuation.From(manifest);
  INFO(from.status().ToString());
  REQUIRE(from.ok());
  CHECK_THAT(ListOf(from->changes), Contains("compile.optimizer.learning_rate ") &&
                                        Contains("fit.epochs 3 9;") && Contains("servers 2 4;"));
  CHECK(from->changes.size() == 3);
  CHECK(from->epochs.first_epoch() == 0);
  CHECK(continuation.Check(manifest).ok());
}

TEST_CASE("another job is named by its keys, with the lines of their values") {
  const JobPlan now = PlanWith({.seed = 3, .output_dim = 5});
  const std::string error = RefusalOf(now, ManifestAt(PlanWith({}), 1, 2));
  CHECK_THAT(error, Contains("/c holds checkpoints of another job"));
  CHECK_THAT(error, Contains("seed: not set -> 3 (t.yaml:2)"));
  CHECK(error.find("output_dim") == std::string::npos);
  CHECK_THAT(error, Contains("Restore the former values, or give another checkpoint directory"));
  CHECK_THAT(error, Contains("`init_from: /c/ckpt-1-1-2`"));
  CHECK(error.find("--fresh") == std::string::npos);
}

TEST_CASE("with another model, optimizer or loss the job starts from the weights") {
  const v1::Manifest manifest = ManifestAt(PlanWith({}), 1, 3);
  const std::vector<std::pair<JobChoices, std::string>> cases = {
      {{.output_dim = 5}, "model.layers[1].output_dim 4 5;"},
      {{.output_dim = 5}, "float32 [8, 4] float32 [8, 5];"},
      {{.loss = "mse"}, "compile.loss"},
      {{.optimizer = "Adam"}, "compile.optimizer.class_name SGD Adam;"},
      {{.optimizer = "{SGD: {momentum: 0.9}}"}, "compile.optimizer.slots not set "},
      // Keys that only continue at the end of an epoch do not matter then.
      {{.optimizer = "Adam", .metrics = "[binary_accuracy]", .batch_size = 5}, "SGD Adam;"},
  };
  for (const auto& [choices, change] : cases) {
    INFO(change);
    const JobPlan now = PlanWith(choices);
    const JobContinuation continuation("/c", 2, &now);
    const auto from = continuation.From(manifest);
    INFO(from.status().ToString());
    REQUIRE(from.ok());
    CHECK(from->only_weights);
    CHECK_THAT(ListOf(from->changes), Contains(change));
    // A rollback cannot use such a checkpoint.
    CHECK_THAT(std::string(continuation.Check(manifest).message()),
               Contains("holds checkpoints of another job"));
  }
  const JobPlan same = PlanWith({});
  CHECK(!JobContinuation("/c", 2, &same).From(manifest)->only_weights);
}

TEST_CASE("a manifest of an older version is compared by its spec, or by its name") {
  v1::Manifest manifest = ManifestAt(PlanWith({}), 1, 2);
  manifest.clear_identity();
  manifest.clear_epochs();
  manifest.clear_servers();
  manifest.set_job("t-0123");
  const JobPlan same = PlanWith({});
  const auto from = JobContinuation("/c", 4, &same).From(manifest);
  INFO(from.status().ToString());
  REQUIRE(from.ok());
  CHECK(from->changes.empty());
  CHECK(from->epochs.SerializeAsString() == same.epoch_plan().SerializeAsString());
  CHECK_THAT(RefusalOf(PlanWith({.seed = 3}), manifest), Contains("seed: not set -> 3"));
  manifest.clear_job_spec();
  CHECK_THAT(RefusalOf(same, manifest), Contains("of another job, t-0123; this one is t-"));
  manifest.set_job(same.identity());
  CHECK(JobContinuation("/c", 4, &same).From(manifest).ok());
}

// A manifest as versions before classes wrote it: the spec and the layout lack what they had in
// another form, which is reserved now.
v1::Manifest ManifestBeforeClasses(const JobPlan& plan) {
  v1::Manifest manifest = ManifestAt(plan, 1, 2);
  manifest.clear_identity();
  manifest.set_job_yaml(plan.job().yaml);
  manifest.mutable_layout()->clear_optimizers();
  v1::JobSpec* const spec = manifest.mutable_job_spec();
  spec->clear_compile();
  for (v1::LayerSpec& layer : *spec->mutable_model()->mutable_layers()) layer.clear_config();
  v1::DatasetSpec* const train = spec->mutable_data()->mutable_train();
  train->clear_source_class();
  for (v1::ColumnTransform& transform : *train->mutable_transforms()) {
    const auto& config = transform.transform_class().config();
    if (const auto words = config.find("vocabulary"); words != config.end()) {
      for (const v1::ConfigValue& word : words->second.list().values()) {
        transform.add_vocabulary(word.s());
      }
    }
    transform.clear_transform_class();
  }
  return manifest;
}

TEST_CASE("a job continues from a manifest before classes, with the slots of its optimizer") {
  for (const char* optimizer : {"Adam", "RMSprop", "{SGD: {momentum: 0.9}}"}) {
    INFO(optimizer);
    const JobPlan plan = PlanWith({.optimizer = optimizer});
    const auto from = JobContinuation("/c", 2, &plan).From(ManifestBeforeClasses(plan));
    INFO(from.status().ToString());
    REQUIRE(from.ok());
    CHECK(from->changes.empty());
  }
}

TEST_CASE("replaced data is found in a manifest before classes") {
  const JobPlan plan = PlanWith({});
  v1::Manifest manifest = ManifestBeforeClasses(plan);
  manifest.mutable_train_data()->set_records(21);
  CHECK_THAT(std::string(JobContinuation("/c", 2, &plan).From(manifest).status().message()),
             Contains("/c holds checkpoints of this job over other data"));
}

TEST_CASE("another batch size counts the steps of an epoch from the end of an epoch on") {
  const v1::Manifest at_end = ManifestAt(PlanWith({}), 2, 4);
  JobPlan now = PlanWith({.batch_size = 5});
  const JobContinuation continuation("/c", 2, &now);
  const auto from = continuation.From(at_end);
  INFO(from.status().ToString());
  REQUIRE(from.ok());
  CHECK(ListOf(from->changes) == "data.batch_size 10 5;");
  CHECK(from->epochs.first_epoch() == 2);
  CHECK(from->epochs.first_place() == 4);
  CHECK(from->epochs.steps_per_epoch() == 4);
  CHECK(from->epochs.batch_size() == 5);
  now.SetEpochPlan(from->epochs);
  CHECK(now.schedule().BeginOf(3) == 8);

  // A rollback goes to that checkpoint, or to one with the new places, but not behind.
  CHECK(continuation.Check(at_end).ok());
  const v1::Manifest later = ManifestAt(now, 2, 6);
  CHECK(continuation.Check(later).ok());
  CHECK_THAT(std::string(continuation.Check(ManifestAt(PlanWith({}), 1, 2)).message()),
             Contains("data.batch_size: 10 -> 5 (t.yaml:14) may change only at the end"));
  // A restart continues with the same places.
  const auto again = continuation.From(later);
  REQUIRE(again.ok());
  CHECK(again->epochs.first_place() == 4);
  // The next change counts from another end.
  JobPlan third = PlanWith({.batch_size = 20, .epochs = 9});
  const auto next = JobContinuation("/c", 2, &third).From(ManifestAt(now, 4, 12));
  REQUIRE(next.ok());
  CHECK(next->epochs.first_epoch() == 4);
  CHECK(next->epochs.first_place() == 12);
}

TEST_CASE("inside an epoch the job with another batch size starts from the weights") {
  const JobPlan now = PlanWith({.batch_size = 5});
  v1::Manifest inside = ManifestAt(PlanWith({}), 1, 3);
  const auto from = JobContinuation("/c", 2, &now).From(inside);
  INFO(from.status().ToString());
  REQUIRE(from.ok());
  CHECK(from->only_weights);
  CHECK(ListOf(from->changes) == "data.batch_size 10 5;");
  inside.set_step(4);
  inside.set_epoch(2);
  inside.mutable_chief()->add_pending()->set_id(1);
  CHECK(JobContinuation("/c", 2, &now).From(inside)->only_weights);
}

TEST_CASE("inside an epoch other metrics are refused, with the checkpoint that allows them") {
  const testing::TestDirectory directory;
  const auto commit = [&](const v1::Manifest& manifest) {
    const std::string path = directory / IdOf(manifest).ToString();
    std::filesystem::create_directories(path);
    REQUIRE(CommitManifest(path, manifest).ok());
    return manifest;
  };
  commit(ManifestAt(PlanWith({}), 1, 2));
  v1::Manifest inside = ManifestAt(PlanWith({}), 1, 3);
  const JobPlan now = PlanWith({.metrics = "[binary_accuracy]"});
  for (const bool pending : {false, true}) {
    if (pending) {
      inside.set_step(4);
      inside.set_epoch(2);
      inside.mutable_chief()->add_pending()->set_id(1);
    }
    const auto status = JobContinuation(directory.path(), 2, &now).From(inside).status();
    CHECK(ExitCodeOf(status) == ExitCode::kConfig);
    CHECK_THAT(std::string(status.message()),
               Contains("compile.metrics") && Contains(" may change only at the end of an epoch") &&
                   Contains("or copy " + directory.path() +
                            "/ckpt-1-1-2, which was taken at the end of epoch 1"));
  }
}

TEST_CASE("other metrics begin with an epoch, at the same places") {
  const JobPlan now = PlanWith({.metrics = "[binary_accuracy]"});
  const JobContinuation continuation("/c", 2, &now);
  const auto from = continuation.From(ManifestAt(PlanWith({}), 1, 2));
  INFO(from.status().ToString());
  REQUIRE(from.ok());
  CHECK(from->epochs.first_place() == 0);
  CHECK_THAT(RefusalOf(now, ManifestAt(PlanWith({}), 1, 3)), Contains("compile.metrics"));
  CHECK(continuation.Check(ManifestAt(PlanWith({}), 1, 2)).ok());
  CHECK(!continuation.Check(ManifestAt(PlanWith({}), 1, 3)).ok());
}

TEST_CASE("a job that continues knows how the workers of its checkpoint calculated") {
  const JobPlan plan = PlanWith({});
  const JobContinuation continuation("/c", 2, &plan);
  v1::Manifest manifest = ManifestAt(plan, 1, 2);
  const auto unknown = continuation.From(manifest);
  REQUIRE(unknown.ok());
  CHECK(unknown->fingerprint == nullptr);
  manifest.mutable_fingerprint()->set_instruction_set("avx2");
  const auto known = continuation.From(manifest);
  REQUIRE(known.ok());
  REQUIRE(known->fingerprint != nullptr);
  CHECK(known->fingerprint->instruction_set() == "avx2");
}

}  // namespace
}  // namespace cohort

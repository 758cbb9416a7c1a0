#include "chief/job/job_plan.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <set>

#include "common/base/status.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

std::string Job(const std::string& data, const std::string& fit) {
  return "name: t\n"
         "model:\n  sequential:\n"
         "    - Input: {shape: [3], dtype: int64, feature: features}\n"
         "    - Embedding: {input_dim: 8, output_dim: 4}\n"
         "    - GlobalAveragePooling1D\n"
         "    - Dense: {units: 1, activation: sigmoid}\n"
         "compile: {loss: binary_crossentropy, optimizer: SGD}\n"
         "data:\n  batch_size: 10\n" +
         data +
         "  train:\n    generator: {name: recommender, records: 95, seed: 1}\n"
         "    transforms:\n"
         "      - {column: features, lookup: string}\n"
         "      - {column: label, equals: \"yes\"}\n"
         "    label: label\n"
         "  validation:\n    generator: {name: recommender, records: 25, seed: 2}\n" +
         fit + "checkpoint: {directory: c}\n";
}

JobPlan Plan(const std::string& data, const std::string& fit) {
  auto job = ParseJob(Job(data, fit), "t.yaml");
  INFO(job.status().ToString());
  REQUIRE(job.ok());
  auto plan = JobPlan::Make(*std::move(job), {});
  INFO(plan.status().ToString());
  REQUIRE(plan.ok());
  return *std::move(plan);
}

TEST_CASE("linear scaling multiplies the learning rate by the closures of a step that count") {
  const auto rate = [](const std::string& strategy, uint32_t closures) {
    JobPlan plan = Plan("", "strategy: {mode: sync" + strategy + "}\n");
    plan.SetClosuresPerStep(closures);
    plan.SetClosuresPerStep(closures);  // as an elastic job that has lost a replica
    return plan.model().optimizers.at(0).rule().config().at("learning_rate").f();
  };
  CHECK(rate("", 4) == 0.01);
  CHECK(rate(", scale_learning_rate: linear", 4) == 0.04);
  CHECK(rate(", scale_learning_rate: linear, backup_work: drop, replicas_to_aggregate: 2", 4) ==
        0.02);
}

TEST_CASE("leases cover each record of an epoch once, and never cross it") {
  const JobPlan plan = Plan("", "fit: {epochs: 2, steps_per_execution: 4}\n");
  CHECK(plan.schedule().steps_per_epoch == 10);
  std::set<std::pair<uint64_t, uint64_t>> seen;
  std::vector<uint32_t> steps;
  for (uint64_t place = 0; place < 20;) {
    const uint32_t n = plan.schedule().StepsAt(place);
    steps.push_back(n);
    for (const LeaseRange& lease : plan.schedule().LeasesAt(place, n)) {
      CHECK(lease.epoch == place / 10);
      for (uint64_t r = lease.begin; r < lease.end; ++r) CHECK(seen.emplace(lease.epoch, r).second);
    }
    place += n;
  }
  CHECK(seen.size() == 190);
  CHECK(steps == std::vector<uint32_t>{4, 4, 2, 4, 4, 2});
  CHECK(plan.schedule().LeasesAt(9, 1)[0].end == 95);  // the short batch
  CHECK(plan.schedule().EpochEndOf(9) == 10);
  CHECK(plan.schedule().EpochEndOf(10) == 20);
}

TEST_CASE("evaluation takes each record once") {
  const JobPlan plan = Plan("", "");
  const auto batches = plan.schedule().ValidationBatches();
  REQUIRE(batches.size() == 3);
  CHECK(batches[2].begin == 20);
  CHECK(batches[2].end == 25);
}

TEST_CASE("visitation independent: the job says how long an epoch is, and there are no leases") {
  const JobPlan plan = Plan("  visitation: independent\n", "fit: {steps_per_epoch: 7}\n");
  CHECK(plan.schedule().steps_per_epoch == 7);
  CHECK(plan.schedule().LeasesAt(3, 1).empty());
}

TEST_CASE("the identity is what may not change: more epochs are the same job") {
  const std::string identity = Plan("", "fit: {epochs: 2}\n").identity();
  CHECK(identity == Plan("", "fit: {epochs: 9}\n").identity());
  CHECK(identity == Plan("", "fit: {epochs: 2, steps_per_execution: 2}\n").identity());
  CHECK(identity != Plan("  block_size: 5\n", "fit: {epochs: 2}\n").identity());
  CHECK(identity != Plan("  visitation: independent\n", "fit: {steps_per_epoch: 10}\n").identity());
  CHECK(identity.rfind("t-", 0) == 0);
}

TEST_CASE("closures keep their meaning unless programs, batches or places change") {
  const uint64_t hash = Plan("", "fit: {epochs: 2}\n").closures_hash();
  CHECK(hash == Plan("", "fit: {epochs: 9, steps_per_execution: 2}\n").closures_hash());
  JobPlan plan = Plan("", "fit: {epochs: 2}\n");
  v1::EpochPlan epochs = plan.epoch_plan();
  CHECK(epochs.steps_per_epoch() == 10);
  CHECK(epochs.batch_size() == 10);
  epochs.set_first_epoch(1);
  epochs.set_first_place(7);
  plan.SetEpochPlan(epochs);
  CHECK(plan.schedule().first_epoch == 1);
  CHECK(plan.schedule().first_place == 7);
  CHECK(plan.closures_hash() != hash);
}

std::string IdentityOf(const std::string& yaml) {
  auto job = ParseJob(yaml, "t.yaml");
  INFO(job.status().ToString());
  REQUIRE(job.ok());
  const auto plan = JobPlan::Make(*std::move(job), {});
  INFO(plan.status().ToString());
  REQUIRE(plan.ok());
  return plan->identity();
}

TEST_CASE("how batches are made, and where a person gets the data, make no other job") {
  const testing::TestDirectory directory;
  const std::string path = directory / "a.csv";
  std::ofstream(path) << "x,y\n1,0\n2,1\n3,0\n4,1\n";
  const auto identity = [&](const std::string& csv, const std::string& train) {
    return IdentityOf(
        "name: t\n"
        "model:\n  sequential:\n    - Input: {shape: [1], feature: x}\n    - Dense: {units: 1}\n"
        "compile: {loss: mse, optimizer: SGD}\n"
        "data:\n  batch_size: 2\n  train:\n    csv: {path: " +
        path + csv + "}\n    label: y\n" + train + "checkpoint: {directory: c}\n");
  };
  const std::string plain = identity("", "");
  CHECK(plain == identity("", "    prefetch: 0\n"));
  CHECK(plain == identity(", url: https://example.org/a.csv", ""));
  CHECK(plain ==
        identity(", sha256: f7e2670e0b0d7f9f1b0354baff30bddd4f3d41842b431912a361fb1d296e5c92", ""));
  CHECK(plain != identity("", "    take: 3\n"));
  CHECK(plain != identity("", "    shuffle: false\n"));
}

TEST_CASE("nor do the url and the checksums of IDX files") {
  const testing::TestDirectory directory;
  const auto write = [&](const std::string& name, const std::string& dims, size_t bytes) {
    std::ofstream(directory / name, std::ios::binary) << dims << std::string(bytes, '\0');
  };
  write("images", std::string("\0\0\x08\x03\0\0\0\x03\0\0\0\x02\0\0\0\x02", 16), 12);
  write("labels", std::string("\0\0\x08\x01\0\0\0\x03", 8), 3);
  const auto identity = [&](const std::string& more) {
    return IdentityOf(
        fmt::format("name: t\n"
                    "model:\n  sequential:\n"
                    "    - Input: {{shape: [2, 2], feature: image}}\n"
                    "    - Flatten\n    - Dense: {{units: 2}}\n"
                    "compile: {{loss: sparse_categorical_crossentropy}}\n"
                    "data:\n  train:\n"
                    "    idx: {{images: {0}/images, labels: {0}/labels{1}}}\n"
                    "    label: label\n"
                    "checkpoint: {{directory: c}}\n",
                    directory.path(), more));
  };
  const std::string plain = identity("");
  CHECK(plain == identity(", url: https://example.org/mnist"));
  CHECK(plain ==
        identity(
            ", sha256_images: df1d9803807de6bd3b7aafbcb5041eebcd8328f3aee2f7b016d07e614841a9c0"));
  CHECK(plain ==
        identity(
            ", sha256_labels: c51ace58717b2767213fc2d70a828753f6d0addaa47cb266527ac47fa5d7ccc1"));
}

TEST_CASE("validation records of another shape are found before anything is trained") {
  const testing::TestDirectory directory;
  const auto write = [&](const std::string& name, const std::string& dims, size_t bytes) {
    return directory.Write(name, dims + std::string(bytes, '\0'));
  };
  const std::string of_images("\0\0\x08\x03\0\0\0\x03\0\0\0\x02\0\0\0", 15);
  const std::string two = write("two", of_images + '\x02', 12);
  const std::string three = write("three", of_images + '\x03', 18);
  const std::string labels = write("labels", std::string("\0\0\x08\x01\0\0\0\x03", 8), 3);
  auto job = ParseJob(fmt::format("model:\n  sequential:\n"
                                  "    - Input: {{shape: [2, 2], feature: image}}\n"
                                  "    - Flatten\n    - Dense: {{units: 2}}\n"
                                  "compile: {{loss: sparse_categorical_crossentropy}}\n"
                                  "data:\n  train:\n    idx: {{images: {0}, labels: {2}}}\n"
                                  "    label: label\n"
                                  "  validation:\n    idx: {{images: {1}, labels: {2}}}\n"
                                  "checkpoint: {{directory: c}}\n",
                                  two, three, labels),
                      "t.yaml");
  INFO(job.status().ToString());
  REQUIRE(job.ok());
  CHECK_THAT(
      JobPlan::Make(*std::move(job), {}).status().ToString(),
      Catch::Contains("t.yaml:11: the validation set's column \"image\" is uint8 [2, 3], the "
                      "training set's uint8 [2, 2]"));
}

TEST_CASE("transforms learn nothing from the records of fit.validation_split") {
  const testing::TestDirectory dir;
  dir.Write("a.csv", "word,y\na,0\nb,1\nc,0\nd,1\n");
  auto job = ParseJob(fmt::format("name: t\n"
                                  "model:\n  sequential:\n"
                                  "    - Input: {{shape: [3], feature: word}}\n"
                                  "    - Dense: {{units: 1, activation: sigmoid}}\n"
                                  "compile: {{loss: binary_crossentropy, optimizer: SGD}}\n"
                                  "data:\n  batch_size: 2\n"
                                  "  train:\n    csv: {{path: {}}}\n"
                                  "    transforms: [{{column: word, StringLookup: {{output_mode: "
                                  "one_hot}}}}]\n"
                                  "    label: y\n"
                                  "fit: {{validation_split: 0.5}}\n",
                                  dir / "a.csv"),
                      "t.yaml");
  INFO(job.status().ToString());
  REQUIRE(job.ok());
  const auto plan = JobPlan::Make(*std::move(job), {});
  INFO(plan.status().ToString());
  REQUIRE(plan.ok());
  CHECK(plan->schedule().train_records == 2);
  CHECK(plan->schedule().validation_records == 2);
  for (const v1::DatasetSpec* set :
       {&plan->spec().data().train(), &plan->spec().data().validation()}) {
    std::set<std::string> words;
    const auto& lookup = set->transforms(0).transform_class().config();
    for (const auto& word : lookup.at("vocabulary").list().values()) words.insert(word.s());
    CHECK(words == std::set<std::string>{"a", "b"});
  }
}

TEST_CASE("a validation set that lacks the model's columns is found before anything is trained") {
  std::string job = Job("", "fit: {epochs: 1}\n");
  const std::string set = "generator: {name: recommender, records: 25, seed: 2}\n";
  job.replace(job.find(set), set.size(),
              set + "    transforms: [{column: label, equals: \"yes\"}]\n");
  auto parsed = ParseJob(job, "t.yaml");
  INFO(parsed.status().ToString());
  REQUIRE(parsed.ok());
  const auto plan = JobPlan::Make(*std::move(parsed), {});
  CHECK_THAT(plan.status().ToString(),
             Catch::Contains("the validation set lacks a column: column \"features\""));
}

}  // namespace
}  // namespace cohort

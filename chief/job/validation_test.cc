#include "chief/job/validation.h"

#include <catch2/catch.hpp>

#include "chief/job/fake_cluster_test_util.h"

namespace cohort {
namespace {

using testing::Console;
using testing::FakeCluster;

const JobSchedule kValidated{.epochs = 5,
                             .steps_per_epoch = 1,
                             .batch_size = 4,
                             .train_records = 4,
                             .validation_records = 9,
                             .validation_every_epochs = 2};

TEST_CASE("a validation takes each record once and folds the metrics of its closures") {
  FakeCluster cluster;
  Console shown(&cluster.clock);
  cluster.validation = {{"accuracy", 0.75}, {"loss", 0.5}};
  Validation validation(&cluster, &kValidated, &cluster.clock, {}, &shown.console, &shown.metrics);
  REQUIRE(validation.Run(2).ok());
  CHECK(cluster.calls == std::vector<std::string>{"validate 0", "validate 4", "validate 8"});
  REQUIRE(validation.metrics().size() == 2);
  CHECK(validation.metrics()[0].Scalar(kCount) == 6);
  CHECK(validation.metrics()[0].Value() == 0.75);
  CHECK(shown.Has("epoch 2/5 validation, loss 0.5000, accuracy 0.7500"));
}

TEST_CASE("it knows which epochs are validated") {
  FakeCluster cluster;
  Console shown(&cluster.clock);
  Validation validation(&cluster, &kValidated, &cluster.clock, {}, &shown.console, &shown.metrics);
  CHECK(!validation.IsDone(1));
  validation.MarkDone(4);
  CHECK(validation.IsDone(4));
  CHECK(!validation.IsDone(5));
  validation.ForgetAfter(2);
  CHECK(validation.IsDone(2));
  CHECK(!validation.IsDone(4));
}

TEST_CASE("a validation follows every second epoch and the last") {
  std::vector<uint64_t> after;
  for (uint64_t epochs = 1; epochs <= 5; ++epochs) {
    if (kValidated.ValidatesAfter(epochs)) after.push_back(epochs);
  }
  CHECK(after == std::vector<uint64_t>{2, 4, 5});
  CHECK(!JobSchedule{.epochs = 1, .validation_records = 9}.ValidatesAfter(1));
}

}  // namespace
}  // namespace cohort

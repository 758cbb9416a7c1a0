#include "chief/job/job_schedule.h"

#include <catch2/catch.hpp>

namespace cohort {
namespace {

// Two epochs of ten steps were done; batches are now half as large.
const JobSchedule kHalved{.epochs = 4,
                          .steps_per_epoch = 20,
                          .steps_per_closure = 3,
                          .batch_size = 5,
                          .train_records = 98,
                          .first_epoch = 2,
                          .first_place = 20};

TEST_CASE("after a change of the batch size epochs have other places") {
  CHECK(kHalved.BeginOf(2) == 20);
  CHECK(kHalved.BeginOf(3) == 40);
  CHECK(kHalved.EpochOf(39) == 2);
  CHECK(kHalved.EpochOf(40) == 3);
  CHECK(kHalved.EpochEndOf(20) == 40);
  CHECK(kHalved.steps() == 60);
  CHECK(kHalved.StepsAt(20) == 3);
  CHECK(kHalved.StepsAt(38) == 2);
  const auto leases = kHalved.LeasesAt(38, 2);
  REQUIRE(leases.size() == 2);
  CHECK(leases[0].epoch == 2);
  CHECK(leases[0].begin == 90);
  CHECK(leases[1].end == 98);
  CHECK(kHalved.LeasesAt(40, 1)[0].epoch == 3);
  CHECK(kHalved.LeasesAt(40, 1)[0].begin == 0);
}

TEST_CASE("a job that is asked for fewer epochs than it has done has no steps left") {
  JobSchedule less = kHalved;
  less.epochs = 1;
  CHECK(less.steps() == 20);
}

}  // namespace
}  // namespace cohort

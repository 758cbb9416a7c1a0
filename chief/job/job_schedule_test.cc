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

v1::StreamFile FileAt(uint64_t first_block, uint64_t first_place,
                      const std::vector<uint64_t>& records) {
  v1::StreamFile file;
  file.set_path("a.csv");
  file.set_head(3);
  file.set_first_block(first_block);
  file.set_first_place(first_place);
  for (const uint64_t n : records) {
    file.add_block_records(n);
    file.add_block_bytes(10 * n);
    file.set_places(file.places() + (n + 4) / 5);
  }
  return file;
}

TEST_CASE("the places of a stream are known up to whole closures, or to its end") {
  JobSchedule schedule{.epochs = 1000,
                       .steps_per_epoch = 20,
                       .steps_per_closure = 3,
                       .batch_size = 5,
                       .stream = std::make_shared<StreamPlaces>(5)};
  CHECK(schedule.KnownEnd() == 0);
  schedule.stream->Add(FileAt(0, 0, {10, 7}));
  CHECK(schedule.KnownEnd() == 3);
  schedule.stream->Add(FileAt(2, 4, {50, 48}));
  CHECK(schedule.stream->end() == 24);
  CHECK(schedule.KnownEnd() == 23);  // a window and a closure
  CHECK(schedule.StepsAt(18) == 2);  // the window ends
  CHECK(schedule.EpochEndOf(20) == 23);
  schedule.closures_per_step = 2;
  CHECK(schedule.KnownEnd() == 20);
  schedule.max_steps = 24;  // the stream has ended
  CHECK(schedule.KnownEnd() == 24);
  CHECK(schedule.EndsInside(1));
  CHECK(schedule.StepsAt(23) == 1);

  const auto leases = schedule.LeasesAt(2, 3);
  REQUIRE(leases.size() == 3);
  CHECK(leases[0].epoch == 1);
  CHECK(leases[0].part->begin() == 103);
  CHECK(leases[0].part->end() == 173);
  CHECK(leases[1].begin == 5);
  CHECK(leases[1].end == 7);
  CHECK(leases[2].epoch == 2);
  CHECK(leases[2].begin == 0);
  CHECK(leases[2].part->begin() == 3);
  CHECK(schedule.LeasesAt(23, 1)[0].end == 48);
  // A list whose first files were removed.
  StreamPlaces later(5);
  later.Add(FileAt(7, 30, {5}));
  CHECK(later.LeaseAt(29).part == nullptr);
  CHECK(later.LeaseAt(30).epoch == 7);
  schedule.stream->DropBefore(5);
  CHECK(schedule.LeasesAt(3, 1)[0].part == nullptr);
  CHECK(schedule.LeasesAt(5, 1)[0].begin == 5);
  CHECK(schedule.stream->end() == 24);
}

TEST_CASE("the last step of a job ends its last epoch early") {
  const JobSchedule schedule{.epochs = 4,
                             .steps_per_epoch = 10,
                             .steps_per_closure = 4,
                             .batch_size = 2,
                             .train_records = 20,
                             .max_steps = 25};
  CHECK(schedule.steps() == 25);
  CHECK(schedule.EpochEndOf(19) == 20);
  CHECK(schedule.EpochEndOf(24) == 25);
  CHECK(schedule.StepsAt(24) == 1);
  CHECK(!schedule.EndsInside(1));
  CHECK(schedule.EndsInside(2));
}

TEST_CASE("a validation has as many batches as it may, after the epochs of a list") {
  const JobSchedule schedule{.epochs = 9,
                             .steps_per_epoch = 1,
                             .batch_size = 2,
                             .validation_records = 7,
                             .validation_every_epochs = 1,
                             .validation_epochs = {1, 4},
                             .validation_steps = 3};
  CHECK(schedule.ValidationBatches().size() == 3);
  CHECK(schedule.ValidatesAfter(1));
  CHECK(!schedule.ValidatesAfter(2));
  CHECK(schedule.ValidatesAfter(4));
  CHECK(schedule.ValidatesAfter(9));
}

}  // namespace
}  // namespace cohort

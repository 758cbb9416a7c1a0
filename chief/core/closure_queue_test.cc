#include "chief/core/closure_queue.h"

#include <catch2/catch.hpp>

#include "chief/core/core_parts_test_util.h"

namespace cohort {
namespace {

TEST_CASE("the queue knows what each worker has in flight, in the order of dispatch") {
  ClosureQueue queue(100, 2);
  for (uint64_t id = 1; id <= 4; ++id) queue.Add(CoreParts::NewClosure(id));
  REQUIRE(queue.Dispatch(0, true, 100)->id == 1);
  REQUIRE(queue.Dispatch(1, true, 100)->id == 2);
  REQUIRE(queue.Dispatch(0, true, 100)->id == 3);
  CHECK(queue.InFlightOn(0) == std::deque<uint64_t>{1, 3});
  CHECK(queue.InFlightOn(1) == std::deque<uint64_t>{2});
  CHECK(queue.training_in_flight() == 3);

  queue.Requeue(queue.Find(1));
  CHECK(queue.InFlightOn(0) == std::deque<uint64_t>{3});
  CHECK(queue.Waiting() == std::vector<uint64_t>{1, 4});
  CHECK(queue.Next() == 1);  // what waits again comes first
  queue.Remove(3);
  CHECK(queue.InFlightOn(0).empty());
  queue.Claim(queue.Find(4), 1, 1);
  CHECK(queue.InFlightOn(1) == std::deque<uint64_t>{2, 4});
  CHECK(queue.Clear().size() == 3);
  CHECK(queue.InFlightOn(1).empty());
  CHECK(queue.in_flight() == 0);
}

TEST_CASE("closures that a worker gave back without having begun them count as unused in a cut") {
  ClosureQueue queue(100, 2);
  for (uint64_t id = 1; id <= 6; ++id) {
    auto closure = CoreParts::NewClosure(id);
    queue.Add(std::move(closure));
  }
  for (uint64_t id = 1; id <= 5; ++id)
    REQUIRE(queue.Dispatch(id < 3 ? 0 : 1, true, 100) != nullptr);
  const auto pending = [&queue](uint64_t* place) {
    *place = 100;
    std::vector<uint64_t> ids;
    for (const Closure* c : queue.Pending(place)) ids.push_back(c->id);
    return ids;
  };
  uint64_t place = 0;
  CHECK(pending(&place) == std::vector<uint64_t>{1, 2, 3, 4, 5});
  CHECK(place == 6);
  for (const uint64_t id : {2, 4, 5}) queue.TakeBack(queue.Find(id));
  CHECK(pending(&place) == std::vector<uint64_t>{1, 2, 3});  // place 2 is before a used one
  CHECK(place == 4);
  queue.Remove(3);
  CHECK(pending(&place) == std::vector<uint64_t>{1, 2});
  CHECK(place == 4);
  CHECK(queue.Dispatch(0, true, 100)->id == 2);  // what waits again comes first
  queue.Requeue(queue.Find(2));
  CHECK(queue.Dispatch(0, true, 100)->id == 2);
  queue.TakeBack(queue.Find(2));
  queue.Remove(1);
  CHECK(pending(&place) == std::vector<uint64_t>{2});  // a worker may have begun it before
}

TEST_CASE("the queue holds training closures and late ids back if it is asked to") {
  ClosureQueue queue(100, 1);
  queue.Add(CoreParts::NewClosure(1));
  auto evaluation = CoreParts::NewClosure(2);
  evaluation->spec.training = false;
  queue.Add(std::move(evaluation));
  CHECK(queue.Dispatch(0, true, 1) == nullptr);
  CHECK(queue.Dispatch(0, /*training=*/false, 100)->id == 2);
  CHECK(queue.Dispatch(0, /*training=*/false, 100) == nullptr);
  CHECK(queue.Dispatch(0, true, 100)->id == 1);
}

}  // namespace
}  // namespace cohort

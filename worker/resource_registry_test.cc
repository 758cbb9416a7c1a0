#include "worker/resource_registry.h"

#include <catch2/catch.hpp>

#include "proto/worker.pb.h"

namespace cohort {
namespace {

v1::CreateResource Wanted(uint64_t timeline, uint64_t begin) {
  v1::CreateResource wanted;
  wanted.set_name("train");
  wanted.set_visitation(v1::INDEPENDENT);
  wanted.set_timeline(timeline);
  wanted.set_begin(begin);
  return wanted;
}

TEST_CASE("a resource is made once, and a failed one can be requested again") {
  ResourceRegistry registry;
  CHECK_FALSE(registry.Request(7, Wanted(1, 0)));
  CHECK_FALSE(registry.Request(8, Wanted(1, 4)));  // the same resource: its request is newer
  auto spec = registry.TakeRequested();
  REQUIRE(spec != nullptr);
  CHECK(registry.TakeRequested() == nullptr);
  CHECK(registry.OnMade(*spec, false) == 8u);
  CHECK_FALSE(registry.Request(9, Wanted(1, 0)));
  spec = registry.TakeRequested();
  REQUIRE(spec != nullptr);
  CHECK(registry.OnMade(*spec, true) == 9u);
  CHECK(registry.Request(10, Wanted(1, 4)));
  CHECK(registry.TakeRequested() == nullptr);
}

TEST_CASE("a resource that was replaced answers no request and moves no reader") {
  ResourceRegistry registry;
  registry.Request(1, Wanted(1, 0));
  const auto old = registry.TakeRequested();
  registry.Request(2, Wanted(2, 3));
  CHECK_FALSE(registry.OnMade(*old, true).has_value());
  CHECK(registry.OnMade(*registry.TakeRequested(), true) == 2u);
  registry.MoveReader({.resource = "train", .timeline = 1, .batches = 9});
  v1::Results results;
  registry.ReportReaders(&results);
  CHECK(results.readers_size() == 0);
}

TEST_CASE("readers are reported when they have moved, and in every hello") {
  ResourceRegistry registry;
  registry.Request(1, Wanted(2, 3));
  const auto spec = registry.TakeRequested();
  v1::WorkerHello before;
  registry.FillHello(&before);
  CHECK(before.resources_size() == 0);
  registry.OnMade(*spec, true);
  registry.MoveReader({.resource = "train", .timeline = 2, .batches = 5});
  registry.MoveReader({.resource = "train", .timeline = 2, .batches = 4});  // an older closure
  v1::Results results;
  registry.ReportReaders(&results);
  registry.ReportReaders(&results);
  REQUIRE(results.readers_size() == 1);
  CHECK(results.readers(0).batches() == 5);
  CHECK(results.readers(0).timeline() == 2);
  v1::WorkerHello hello;
  registry.FillHello(&hello);
  REQUIRE(hello.readers_size() == 1);
  CHECK(hello.resources(0) == "train");
  CHECK(hello.readers(0).batches() == 5);
  registry.Clear();
  CHECK(registry.size() == 0);
}

}  // namespace
}  // namespace cohort

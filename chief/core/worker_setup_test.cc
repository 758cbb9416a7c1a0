#include "chief/core/worker_setup.h"

#include <catch2/catch.hpp>

#include "chief/core/core_parts_test_util.h"

namespace cohort {
namespace {

v1::CreateResource Independent(const std::string& name) {
  v1::CreateResource resource;
  resource.set_name(name);
  resource.set_visitation(v1::INDEPENDENT);
  return resource;
}

TEST_CASE("a worker gets what it lacks, once") {
  CoreParts p(2, 1);
  CHECK(p.setup.AddProgram("a", v1::Program()) == 0);
  CHECK(p.setup.AddProgram("b", v1::Program()) == 1);
  CHECK(p.setup.AddProgram("a", v1::Program()) == 0);
  p.Adopt(WorkerTask(0));
  v1::WorkerHello hello;
  hello.add_programs("a");
  p.setup.OnHello(0, hello);
  p.setup.Begin(0);
  p.setup.Finish(0);
  REQUIRE(p.sent(0).size() == 1);
  CHECK(p.sent(0)[0].program().fingerprint() == "b");
  CHECK(p.sent(1).empty());  // it is not set up
  CHECK(p.setup.TakeRequest(0, p.sent(0)[0].request()));
  CHECK(!p.setup.TakeRequest(0, p.sent(0)[0].request()));  // answered
  p.setup.AddProgram("c", v1::Program());
  CHECK(p.sent(0).size() == 2);
  p.setup.OnLost(0);
  p.setup.AddProgram("d", v1::Program());
  CHECK(p.sent(0).size() == 2);
}

// Counts the copies of what many workers get.
struct SharingWorld : TestWorld {
  using TestWorld::TestWorld;
  void SendSharedToWorker(int worker, v1::ChiefToWorker message,
                          std::shared_ptr<const std::string> rest) override {
    CHECK(message.ByteSizeLong() < 64);
    copies.insert(rest.get());
    TestWorld::SendSharedToWorker(worker, std::move(message), rest);
  }
  std::set<const std::string*> copies;
};

TEST_CASE("all workers get one copy of a resource and of a program, with what is their own") {
  CoreParts p(3, 1);
  SharingWorld world(3, 1);
  Outbox outbox(&world);
  outbox.SetGeneration(7);
  WorkerSetup setup(&p.context, &outbox, &p.settlement);
  v1::CreateResource resource = Independent("data");
  resource.mutable_dataset()->set_label(std::string(1000, 'x'));
  setup.AddResource(resource);
  v1::Program program;
  program.set_name(std::string(1000, 'y'));
  setup.AddProgram("a", program);
  for (int i = 0; i < 3; ++i) {
    world.workers[static_cast<size_t>(i)].connected = true;
    setup.Finish(i);
  }
  CHECK(world.copies.size() == 2);
  for (size_t i = 0; i < 3; ++i) {
    const std::deque<v1::ChiefToWorker>& sent = world.workers[i].in;
    REQUIRE(sent.size() == 2);
    CHECK(sent[0].program().program().name() == program.name());
    CHECK(sent[1].resource().dataset().label() == resource.dataset().label());
    CHECK(sent[1].resource().visitation() == v1::INDEPENDENT);
    CHECK(sent[1].resource().worker_index() == i);
    CHECK(sent[1].resource().timeline() == 1);
    CHECK(sent[1].generation() == 7);
    CHECK(sent[1].request() == 2 * i + 2);
  }
}

TEST_CASE("a worker that opens data is not available yet") {
  CoreParts p(1, 1);
  p.setup.AddResource(Independent("data"));
  p.Adopt(WorkerTask(0));
  p.setup.OnHello(0, v1::WorkerHello());
  p.setup.Begin(0);
  p.setup.Finish(0);
  REQUIRE(p.sent(0).size() == 1);
  CHECK(p.setup.ready(0));
  CHECK(p.setup.opens_data(0));
  CHECK(p.setup.TakeRequest(0, p.sent(0)[0].request()));
  CHECK_FALSE(p.setup.opens_data(0));
}

TEST_CASE("a worker that answers only the newest request for a resource becomes available") {
  CoreParts p(1, 1);
  p.setup.AddResource(Independent("data"));
  p.Adopt(WorkerTask(0));
  p.setup.OnHello(0, v1::WorkerHello());
  p.setup.Begin(0);
  p.setup.Finish(0);
  p.context.timeline = 2;
  p.setup.RecreateReaders();  // before the worker has made the reader of timeline 1
  REQUIRE(p.sent(0).size() == 2);
  const uint64_t newest = p.sent(0)[1].request();
  SECTION("it has made the first reader, too") {
    CHECK(p.setup.TakeRequest(0, p.sent(0)[0].request()));
    CHECK(p.setup.opens_data(0));
  }
  CHECK(p.setup.TakeRequest(0, newest));
  CHECK_FALSE(p.setup.opens_data(0));
}

TEST_CASE("results that come before the set-up count as a part of the hello") {
  CoreParts p(1, 1);
  v1::WorkerHello hello;
  hello.add_in_hand()->set_id(1);
  hello.mutable_in_hand(0)->set_attempt(1);
  hello.add_in_hand()->set_id(2);
  p.setup.OnHello(0, hello);
  v1::Results results;
  *results.add_results() = CoreParts::ResultOf(1, 1);
  p.setup.OnResults(0, &results);
  const v1::WorkerHello taken = p.setup.Begin(0);
  REQUIRE(taken.results_size() == 1);
  REQUIRE(taken.in_hand_size() == 1);
  CHECK(taken.in_hand(0).id() == 2);
}

TEST_CASE("a reader starts at the last known position, and is recreated after a rollback") {
  CoreParts p(1, 1);
  p.setup.AddResource(Independent("data"));
  p.settlement.MoveReader("data", 0, 5);
  p.Adopt(WorkerTask(0));
  v1::WorkerHello hello;
  hello.add_resources("data");
  v1::ReaderPosition* const reader = hello.add_readers();
  reader->set_resource("data");
  reader->set_batches(9);
  SECTION("the worker has it at this timeline") {
    reader->set_timeline(1);
    p.setup.OnHello(0, hello);
    p.setup.Begin(0);
    p.setup.Finish(0);
    CHECK(p.sent(0).empty());
    CHECK(p.settlement.readers().Of("data", 0) == 9);
    p.context.timeline = 2;
    p.setup.RecreateReaders();
    REQUIRE(p.sent(0).size() == 1);
    CHECK(p.sent(0)[0].resource().timeline() == 2);
  }
  SECTION("the worker has it at another timeline") {
    reader->set_timeline(7);
    p.setup.OnHello(0, hello);
    p.setup.Begin(0);
    p.setup.Finish(0);
    REQUIRE(p.sent(0).size() == 1);
    CHECK(p.sent(0)[0].resource().begin() == 5);
  }
}

TEST_CASE("a closure must name what was added") {
  CoreParts p(1, 1);
  CHECK(absl::IsInvalidArgument(p.setup.CheckSpec({.step = {.program = 0}})));
  p.setup.AddProgram("a", v1::Program());
  CHECK(p.setup.CheckSpec({.step = {.program = 0}}).ok());
  CHECK(absl::IsInvalidArgument(
      p.setup.CheckSpec({.step = {.program = 0}, .dataset = {.resource = 0}})));
  CHECK(absl::IsInvalidArgument(p.setup.CheckSpec({.step = {.program = 0}, .steps = 0})));
}

}  // namespace
}  // namespace cohort

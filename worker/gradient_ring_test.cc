#include "worker/gradient_ring.h"

#include <catch2/catch.hpp>
#include <thread>

#include "common/collective/collective_test_util.h"
#include "common/exchange/exchange_test_world.h"
#include "proto/worker.pb.h"

namespace cohort {
namespace {

using exchange_test::World;

// Two replicas in this process. The first one owns rows 0..4 of `dense` and `bias`, the second one
// rows 5..6 of `dense`.
class Replicas {
 public:
  Replicas() : ranks_(2, TestPath::kSharedMemory) {
    program_.variables = {world_.decls[0], world_.decls[2]};
    for (int v = 0; v < 2; ++v) {
      program_.values.push_back(program_.variables[static_cast<size_t>(v)].type);
      program_.pushes.push_back({.variable = v, .value = v});
    }
    for (int rank = 0; rank < 2; ++rank) {
      const CollectiveRank& from = ranks_.ranks()[static_cast<size_t>(rank)];
      v1::PsRoute* const to = world_.routes.mutable_servers(rank);
      to->set_address(from.address);
      to->set_unix_socket(from.unix_socket);
      to->set_host_id(from.host_id);
      to->set_incarnation(from.incarnation);
    }
    for (int rank = 0; rank < 2; ++rank) {
      GradientRing::Options options;
      options.incarnation = ranks_.ranks()[static_cast<size_t>(rank)].incarnation;
      options.service = ranks_.service(rank);
      options.deadline = deadline_;
      options.should_stop = [this](uint64_t closure) { return closure == stopped_.load(); };
      options.bucket_bytes = 4;  // each variable has a bucket
      rings_.push_back(std::make_unique<GradientRing>(options));
    }
    SetTimeline(1);
  }

  void SetTimeline(uint64_t timeline) {
    world_.routes.set_timeline(timeline);
    for (const auto& ring : rings_) {
      ring->SetRoutes(std::make_shared<const v1::Routes>(world_.routes));
    }
  }
  static v1::Closure ClosureOf(uint32_t index, uint32_t places, uint64_t step, uint64_t step_try,
                               uint64_t timeline) {
    v1::Closure closure;
    closure.set_id(100 * step + index + 1);
    closure.set_timeline(timeline);
    closure.set_program("program");
    closure.set_ring_places(places);
    closure.mutable_step()->set_step(step);
    closure.mutable_step()->set_step_try(step_try);
    closure.mutable_step()->set_index(index);
    return closure;
  }
  // Runs one closure whose gradients are all `value`. Returns what the ring returns.
  absl::StatusOr<std::vector<ShardSum>> Run(int rank, const v1::Closure& closure, float value) {
    GradientRing* const ring = rings_[static_cast<size_t>(rank)].get();
    const std::vector<float> dense(21, value);
    const PushItem pushes[] = {{0, PushKind::kGradient, false, {}, dense.data(), 0},
                               {1, PushKind::kGradient, false, {}, &value, 0}};
    COHORT_RETURN_IF_ERROR(ring->Begin(closure, program_, pushes));
    ring->OnPushReady(1);
    ring->OnPushReady(0);
    COHORT_ASSIGN_OR_RETURN(const auto sums, ring->Finish());
    return std::vector<ShardSum>(sums.begin(), sums.end());
  }
  // A step of three closures, of which the first replica has two. Returns the sums of both.
  std::vector<std::vector<ShardSum>> Step(uint64_t step, uint64_t step_try, uint64_t timeline) {
    std::vector<std::vector<ShardSum>> sums(2);
    absl::Status failed[2];
    const auto run = [&](int rank, uint32_t index, uint32_t places, float value) {
      auto one = Run(rank, ClosureOf(index, places, step, step_try, timeline), value);
      if (!one.ok()) failed[rank] = one.status();
      if (one.ok()) sums[static_cast<size_t>(rank)] = *one;
    };
    std::thread second([&] { run(1, 2, 1, 100); });
    run(0, 0, 2, 1);
    const bool early = !sums[0].empty();
    run(0, 1, 2, 10);
    second.join();
    CHECK(!early);
    for (const absl::Status& status : failed) CHECK(status == absl::OkStatus());
    return sums;
  }
  static float ValueOf(const ShardSum& sum) { return *static_cast<const float*>(sum.values); }

  GradientRing& ring(int rank) { return *rings_[static_cast<size_t>(rank)]; }
  std::atomic<uint64_t> stopped_{0};
  Duration deadline_ = TestLimit();

 private:
  World world_;
  TestRanks ranks_;
  Program program_;
  std::vector<std::unique_ptr<GradientRing>> rings_;
};

TEST_CASE("each owner gets the sum of all closures of a step, in every try and timeline") {
  Replicas replicas;
  uint64_t step = 1;
  // Another step; a new try; a rollback; a restarted chief.
  for (const auto& [step_try, timeline] :
       std::vector<std::pair<uint64_t, uint64_t>>{{1ull << 32, 1},
                                                  {1ull << 32, 1},
                                                  {(1ull << 32) + 1, 1},
                                                  {(1ull << 32) + 1, 2},
                                                  {2ull << 32, 2}}) {
    replicas.SetTimeline(timeline);
    const auto sums = replicas.Step(step++, step_try, timeline);
    REQUIRE(sums[0].size() == 3);
    REQUIRE(sums[1].size() == 1);
    CHECK(sums[1][0].shard == 2);
    for (const auto& of : sums) {
      for (const ShardSum& sum : of) CHECK(Replicas::ValueOf(sum) == 111);
    }
  }
  const GradientRing::Counters counters = replicas.ring(0).counters();
  CHECK(counters.sums == 10);
  CHECK(counters.early_sums == 5);
  // The second replica owns 6 of the 22 elements.
  CHECK(counters.bytes_sent == 5 * 6 * sizeof(float));
  CHECK(counters.bytes_received == 5 * 16 * sizeof(float));
}

TEST_CASE("a closure that comes twice in one try does not count twice") {
  Replicas replicas;
  const v1::Closure closure = Replicas::ClosureOf(0, 2, 1, 1, 1);
  REQUIRE(replicas.Run(0, closure, 1).ok());
  CHECK(absl::IsAborted(replicas.Run(0, closure, 1).status()));
  CHECK(absl::IsAborted(replicas.Run(0, Replicas::ClosureOf(0, 1, 1, 1, 2), 1).status()));
}

TEST_CASE("a replica that waits for others stops when its closure is unwanted") {
  Replicas replicas;
  replicas.stopped_ = 101;
  const v1::Closure first = Replicas::ClosureOf(0, 1, 1, 1, 1);
  CHECK(absl::IsCancelled(replicas.Run(0, first, 1).status()));  // while it enters the group
  CHECK(replicas.ring(0).turns() > 0);
  replicas.stopped_ = 0;
  replicas.Step(2, 2, 1);
  replicas.stopped_ = 301;
  const v1::Closure second = Replicas::ClosureOf(0, 1, 3, 2, 1);
  CHECK(absl::IsCancelled(replicas.Run(0, second, 1).status()));  // while it waits for the sum
  // The second replica learns that the first has left.
  const auto left = replicas.Run(1, Replicas::ClosureOf(1, 1, 3, 2, 1), 1);
  CHECK(!left.ok());
  CHECK(GetFailure(left.status()).has_value());
  replicas.Step(3, 3, 1);
}

}  // namespace
}  // namespace cohort

// What a closure costs the core: a mirror, and a guard against quadratic surprises.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>

#include "chief/core/core_test_world.h"
#include "common/base/status.h"

namespace cohort {
namespace {

TEST_CASE("messages are amortized over closures") {
  TestWorld world(3, 2);
  world.options.closures_in_flight = 16;
  world.StartServing();
  constexpr uint64_t kClosures = 20'000;
  const auto began = std::chrono::steady_clock::now();
  uint64_t place = 0;
  while (place < kClosures || !world.core().view().idle()) {
    for (int i = 0; i < 512 && place < kClosures; ++i, ++place) {
      REQUIRE(world.ScheduleJob(place, 1, kClosures).ok());
    }
    world.Advance(10'000);
    world.Quiesce();
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::printf("%.2f us per closure, peers included; %.1f closures per dispatch message\n",
              seconds / kClosures * 1e6,
              static_cast<double>(kClosures) /
                  static_cast<double>(world.core().view().counters().dispatch_messages));
  CHECK(world.core().view().counters().dispatch_messages * 4 < kClosures);
  CHECK(world.core().view().settlement.steps() == kClosures);
}

// Tasks that answer at once and cost nothing: what takes time is the core.
class QuickWorld : public TestWorld {
 public:
  QuickWorld(int workers, const ModeSettings& mode) : TestWorld(workers, 1) {
    static_cast<ModeSettings&>(options) = mode;
    options.closures_in_flight = 16;
    StartServing();
    quick_ = true;
  }

  void SendToWorker(int worker, v1::ChiefToWorker message) override {
    if (!quick_) return TestWorld::SendToWorker(worker, std::move(message));
    for (const v1::Closure& closure : message.dispatch().closures()) {
      v1::WorkerToChief& answer = results_.emplace_back(worker, v1::WorkerToChief()).second;
      v1::ClosureResult* const result = answer.mutable_results()->add_results();
      result->set_id(closure.id());
      result->set_attempt(closure.attempt());
      result->set_steps(1);
    }
  }
  void SendToPs(int server, v1::ChiefToPs message) override {
    if (!quick_) return TestWorld::SendToPs(server, std::move(message));
    if (message.has_close_step()) closed_ = message.close_step().step();
  }

  // Returns the seconds for one closure.
  double Run(uint64_t closures) {
    const auto began = std::chrono::steady_clock::now();
    const uint64_t ahead = 4 * workers.size();
    uint64_t place = 0;
    for (uint64_t turn = 0; place < closures || !core().view().idle(); ++turn) {
      while (place < std::min(closures, turn + ahead)) {
        REQUIRE(ScheduleJob(place++, 1, closures).ok());
      }
      if (!results_.empty()) {
        auto [worker, answer] = std::move(results_.front());
        results_.pop_front();
        core().OnWorkerMessage(worker, std::move(answer));
      }
      if (const uint64_t step = std::exchange(closed_, 0); step != 0) {
        v1::PsToChief answer;
        answer.mutable_step_closed()->set_step(step);
        core().OnPsMessage(0, answer);
      }
      if (!writing.empty()) FlushJournal(writing.size());
      durable.clear();
      if (turn % 100 == 0) Advance(10'000);
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    return took.count() / static_cast<double>(closures);
  }

 private:
  bool quick_ = false;
  uint64_t closed_ = 0;
  std::deque<std::pair<int, v1::WorkerToChief>> results_;
};

TEST_CASE("the cost of a closure does not grow with the number of workers") {
  for (const ConsistencyMode mode : {ConsistencyMode::kAsync, ConsistencyMode::kSync}) {
    const auto cost = [mode](int workers) {
      const ModeSettings settings{.mode = mode,
                                  .closures_per_step = static_cast<uint32_t>(workers)};
      return QuickWorld(workers, settings).Run(20'000) * 1e6;
    };
    const double few = cost(16);
    const double many = cost(500);
    std::printf("%s: %.2f us per closure with 16 workers, %.2f with 500: ratio %.1f\n",
                mode == ConsistencyMode::kSync ? "sync" : "async", few, many, many / few);
    CHECK(many < 8 * few);
  }
}

}  // namespace
}  // namespace cohort

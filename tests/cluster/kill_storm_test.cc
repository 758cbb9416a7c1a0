// Kills on real processes, half of them at armed crash points, half at random moments. The run
// counts only if the servers' apply logs show that what it claims to survive has happened.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <random>

#include "common/base/crash_point_list.h"
#include "tests/cluster/scenario.h"

namespace cohort {
namespace {

using std::chrono::seconds;

constexpr int kKilled = 128 + 9;

uint32_t Seed() {
  const char* given = std::getenv("COHORT_TEST_SEED");
  const uint32_t seed = given != nullptr ? static_cast<uint32_t>(std::atoi(given)) : 20260101u;
  WARN("seed " << seed << " (COHORT_TEST_SEED)");
  return seed;
}

// The crash points of one role that this job comes to: its servers have one tablet each, and it is
// not begun anew.
std::vector<std::string> CrashPointsOf(TaskRole role) {
  std::vector<std::string> names;
  for (std::string_view name : kCrashPoints) {
    if (name == "ps.push.partial" || name == "chief.fresh.deleting") continue;
    if (name.starts_with(std::string(TaskRoleName(role)) + ".")) names.emplace_back(name);
  }
  return names;
}

class Storm {
 public:
  Storm(Scenario* scenario, uint32_t seed) : cluster_(*scenario), random_(seed) {}

  // Ends one of a role's tasks `times` times: in turn at an armed point and at a random moment. It
  // is started again each time.
  void Strike(TaskRole role, int tasks, int times) {
    const std::vector<std::string> points = CrashPointsOf(role);
    for (int i = 0; i < times; ++i) {
      const int index = static_cast<int>(random_() % static_cast<uint32_t>(tasks));
      if (i % 2 == 0) {
        AtRandom(role, index);
      } else {
        AtPoint(role, index, fmt::format("{}:{}", points[random_() % points.size()], Nth(3)));
      }
    }
  }

  // Ends a worker between its sends to the first server and to the second: it pushes to them in
  // their order, and its first request only pulls.
  void StrikeBetweenSends(int worker) {
    AtPoint(TaskRole::kWorker, worker, fmt::format("worker.push.sent:{}", 2 * Nth(10) + 1));
  }

  int kills() const { return kills_; }
  int at_points() const { return at_points_; }

 private:
  uint32_t Nth(uint32_t most) { return 1 + random_() % most; }

  // After a random number of further updates.
  void AtRandom(TaskRole role, int index) {
    const std::string log = cluster_->apply_log(0);
    LineFollower updates(log, SizeOf(log));
    for (uint32_t left = Nth(500); left > 0; --left) {
      if (!updates.WaitFor([](std::string_view) { return true; }, seconds(60))) break;
    }
    cluster_.Check(cluster_->Kill(role, index));
    ++kills_;
    cluster_.Check(cluster_->Start(role, index));
  }

  // Starts the task again with a point armed, and waits until it has ended there. A point that the
  // task does not come to in time is given up.
  void AtPoint(TaskRole role, int index, const std::string& armed) {
    INFO("armed " << armed);
    cluster_.Check(cluster_->Kill(role, index));
    cluster_.Check(cluster_->Start(role, index, {"--crash_point", armed}));
    const auto code = cluster_->WaitForExit(role, index, seconds(10));
    if (code.ok()) {
      REQUIRE(*code == kKilled);
      ++at_points_;
    } else {
      cluster_.Check(cluster_->Kill(role, index));
    }
    ++kills_;
    cluster_.Check(cluster_->Start(role, index));
  }

  Scenario& cluster_;
  std::mt19937 random_;
  int kills_ = 0;
  int at_points_ = 0;
};

ApplyReport Finish(Scenario* scenario, const Storm& storm) {
  scenario->Release(0);
  const ApplyReport report = scenario->Finish(seconds(300));
  WARN(storm.kills() << " kills, " << storm.at_points() << " at crash points; applied "
                     << report.applied << ", duplicates refused " << report.duplicates_refused
                     << ", recomputed " << report.recomputed_closures << ", partial pushes "
                     << report.partial_pushes << ", timelines " << report.timelines);
  return report;
}

constexpr int kEpochs = 40;  // of 1,000 steps

// While the storm lasts, one server's answers come late: the job is not to end before it does.
MiniClusterOptions Options() { return {.job_yaml = StormJob(kEpochs), .proxied = true}; }
void SlowDown(Scenario* scenario) {
  scenario->Pace(0, std::chrono::milliseconds(3));
  scenario->Check((*scenario)->StartAll());
  scenario->Check((*scenario)->WaitForSteps(50, seconds(60)));
}

TEST_CASE("a worker killed twenty times", "[worker]") {
  Scenario scenario(Scenario::Body::kProcesses, "storm_worker", Options());
  SlowDown(&scenario);
  Storm storm(&scenario, Seed());
  storm.Strike(TaskRole::kWorker, 3, 10);
  // The other half is for what the run must show: how often a kill finds a push half sent is the
  // machine's affair.
  int more = 10;
  while (more-- > 0 || scenario.Report(/*finished=*/false).partial_pushes < 12) {
    REQUIRE(more > -30);
    storm.StrikeBetweenSends(more & 1);
  }
  const ApplyReport report = Finish(&scenario, storm);
  REQUIRE(storm.kills() >= 20);
  REQUIRE(storm.at_points() >= 10);
  REQUIRE(report.applied == 2u * 1000 * kEpochs);
  REQUIRE(report.timelines == 1);
  REQUIRE(report.partial_pushes >= 5);
  REQUIRE(report.duplicates_refused >= 5);
  REQUIRE(report.recomputed_closures >= 5);
}

TEST_CASE("the chief killed five times", "[chief]") {
  Scenario scenario(Scenario::Body::kProcesses, "storm_chief", Options());
  SlowDown(&scenario);
  Storm storm(&scenario, Seed());
  storm.Strike(TaskRole::kChief, 1, 5);
  const ApplyReport report = Finish(&scenario, storm);
  REQUIRE(storm.kills() == 5);
  REQUIRE(storm.at_points() >= 1);
  REQUIRE(report.applied == 2u * 1000 * kEpochs);
  REQUIRE(report.timelines == 1);
}

TEST_CASE("a parameter server killed five times", "[ps]") {
  Scenario scenario(Scenario::Body::kProcesses, "storm_ps", Options());
  SlowDown(&scenario);
  Storm storm(&scenario, Seed());
  storm.Strike(TaskRole::kPs, 2, 5);
  const ApplyReport report = Finish(&scenario, storm);
  REQUIRE(storm.kills() == 5);
  REQUIRE(storm.at_points() >= 1);
  REQUIRE(report.timelines >= 4);
}

}  // namespace
}  // namespace cohort

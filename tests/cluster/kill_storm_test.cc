// Kills on real processes, half of them at armed crash points, half at random moments. The run
// counts only if the servers' apply logs show that what it claims to survive has happened.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <random>

#include "common/base/crash_point_list.h"
#include "tests/cluster/apply_log.h"
#include "tests/cluster/jobs.h"
#include "tests/cluster/mini_cluster.h"

namespace cohort {
namespace {

using std::chrono::seconds;

uint32_t Seed() {
  const char* given = std::getenv("COHORT_TEST_SEED");
  const uint32_t seed = given != nullptr ? static_cast<uint32_t>(std::atoi(given)) : 20260101u;
  WARN("seed " << seed << " (COHORT_TEST_SEED)");
  return seed;
}

// The crash points of one role, by the prefix of their names.
std::vector<std::string> CrashPointsOf(TaskRole role) {
  std::vector<std::string> names;
  for (std::string_view name : kCrashPoints) {
    if (name.starts_with(std::string(TaskRoleName(role)) + ".")) names.emplace_back(name);
  }
  return names;
}

class Storm {
 public:
  Storm(MiniCluster* cluster, uint32_t seed) : cluster_(*cluster), random_(seed) {}

  // Ends a task `times` times: in turn at an armed point and at a random moment. It is started
  // again each time.
  void Strike(TaskRole role, int tasks, int times) {
    const std::vector<std::string> points = CrashPointsOf(role);
    for (int i = 0; i < times; ++i) {
      const int index = static_cast<int>(random_() % static_cast<uint32_t>(tasks));
      if (!cluster_.Running(TaskRole::kChief, 0) && role != TaskRole::kChief) return;
      if (i % 2 == 0) {
        AtCrashPoint(role, index, points[random_() % points.size()]);
      } else {
        AtRandom(role, index);
      }
    }
  }

  int kills() const { return kills_; }

 private:
  void AtRandom(TaskRole role, int index) {
    const auto pause = std::chrono::milliseconds(50 + random_() % 400);
    const auto until = std::chrono::steady_clock::now() + pause;
    Eventually(seconds(5), [&] { return std::chrono::steady_clock::now() > until; });
    if (!cluster_.Running(role, index)) return;
    REQUIRE(cluster_.Kill(role, index).ok());
    ++kills_;
    REQUIRE(cluster_.Start(role, index).ok());
  }

  // Starts the task again with a point armed, and waits until it has ended there.
  void AtCrashPoint(TaskRole role, int index, const std::string& point) {
    if (!cluster_.Running(role, index)) return;
    REQUIRE(cluster_.Kill(role, index).ok());
    ++kills_;
    const std::string armed = fmt::format("{}:{}", point, 1 + random_() % 20);
    INFO("armed " << armed);
    REQUIRE(cluster_.Start(role, index, armed).ok());
    if (!Eventually(seconds(8), [&] { return !cluster_.Running(role, index); })) return;
    ++kills_;
    if (role == TaskRole::kChief && cluster_.WaitForExit(role, index, seconds(1)).value_or(-1) == 0)
      return;
    REQUIRE(cluster_.Start(role, index).ok());
  }

  MiniCluster& cluster_;
  std::mt19937 random_;
  int kills_ = 0;
};

std::unique_ptr<MiniCluster> Launch(const std::string& name, int epochs) {
  MiniClusterOptions options;
  options.directory = FreshDirectory(name);
  options.job_yaml = StormJob(epochs);
  auto cluster = MiniCluster::Create(MiniCluster::Body::kProcesses, options);
  REQUIRE(cluster.ok());
  REQUIRE((*cluster)->StartAll().ok());
  return *std::move(cluster);
}

ApplyReport Finish(MiniCluster* cluster, seconds limit) {
  auto code = cluster->WaitForExit(TaskRole::kChief, 0, limit);
  INFO(code.status().ToString() << "\n" << cluster->LogTail(TaskRole::kChief, 0, 15));
  REQUIRE(code.ok());
  REQUIRE(*code == 0);
  auto events = ReadApplyLogs(cluster->apply_logs());
  REQUIRE(events.ok());
  ApplyReport report = CheckApplyEvents(*events, /*finished=*/true);
  for (const std::string& v : report.violations) UNSCOPED_INFO(v);
  REQUIRE(report.violations.empty());
  WARN("applied " << report.applied << ", duplicates refused " << report.duplicates_refused
                  << ", recomputed " << report.recomputed_closures << ", partial pushes "
                  << report.partial_pushes << ", timelines " << report.timelines);
  return report;
}

TEST_CASE("a worker killed twenty times", "[worker]") {
  auto cluster = Launch("storm_worker", 40);
  REQUIRE(cluster->WaitForSteps(50, seconds(30)).ok());
  Storm storm(cluster.get(), Seed());
  storm.Strike(TaskRole::kWorker, 3, 20);
  const ApplyReport report = Finish(cluster.get(), seconds(300));
  REQUIRE(storm.kills() >= 20);
  REQUIRE(report.partial_pushes >= 5);
  REQUIRE(report.duplicates_refused >= 5);
  REQUIRE(report.recomputed_closures >= 5);
}

TEST_CASE("the chief killed five times", "[chief]") {
  auto cluster = Launch("storm_chief", 40);
  REQUIRE(cluster->WaitForSteps(50, seconds(30)).ok());
  Storm storm(cluster.get(), Seed());
  storm.Strike(TaskRole::kChief, 1, 5);
  Finish(cluster.get(), seconds(300));
  REQUIRE(storm.kills() >= 5);
}

TEST_CASE("a parameter server killed five times", "[ps]") {
  auto cluster = Launch("storm_ps", 40);
  REQUIRE(cluster->WaitForSteps(50, seconds(30)).ok());
  Storm storm(cluster.get(), Seed());
  storm.Strike(TaskRole::kPs, 2, 5);
  const ApplyReport report = Finish(cluster.get(), seconds(300));
  REQUIRE(storm.kills() >= 5);
  REQUIRE(report.timelines >= 4);
}

}  // namespace
}  // namespace cohort

// Kills of real processes, half of them at armed crash points, half at random moments. The apply
// logs of the servers must show that the failures that the run claims to survive have happened.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "tests/cluster/scenario.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kKilled = 128 + 9;
constexpr int kEpochs = 40;
constexpr int kCheckpointed = 100;                  // steps between two checkpoints
constexpr uint64_t kUpdates = 2u * 1000 * kEpochs;  // two servers, one tablet each

uint32_t Seed() {
  const char* given = std::getenv("COHORT_TEST_SEED");
  const uint32_t seed = given != nullptr ? static_cast<uint32_t>(std::atoi(given)) : 20260101u;
  WARN("seed " << seed << " (COHORT_TEST_SEED)");
  return seed;
}

// A crash point that every incarnation of a task reaches, and how many times it does so soon.
struct Point {
  TaskRole role;
  std::string_view name;
  uint32_t times;
};

// Not here: `ps.push.partial` (these servers have one tablet each), `chief.fresh.deleting`, and
// `chief.rollback.journaled`, which a chief reaches only after the loss of a server.
constexpr Point kPoints[] = {
    {TaskRole::kWorker, "worker.closure.received", 3},
    {TaskRole::kWorker, "worker.push.sent", 30},
    {TaskRole::kWorker, "worker.result.made", 10},
    {TaskRole::kChief, "chief.closures.reserved", 1},
    {TaskRole::kChief, "chief.cut.manifest_writing", 3},
    {TaskRole::kChief, "chief.cut.manifest_written", 3},
    {TaskRole::kChief, "chief.cut.shards_written", 3},
    {TaskRole::kChief, "chief.cut.snapshotted", 3},
    {TaskRole::kChief, "chief.journal.writing", 10},
    {TaskRole::kChief, "chief.result.folded", 100},
    {TaskRole::kChief, "chief.settle.journaled", 3},
    {TaskRole::kPs, "ps.push.applied", 100},
    {TaskRole::kPs, "ps.push.received", 100},
    {TaskRole::kPs, "ps.restore.done", 1},
    {TaskRole::kPs, "ps.snapshot.taken", 3},
    {TaskRole::kPs, "ps.snapshot.writing", 3},
    {TaskRole::kPs, "ps.snapshot.written", 3},
};

// Delays the answers of one server meanwhile, so that the job does not end before the storm.
class Storm : public Scenario {
 public:
  explicit Storm(const std::string& name)
      : Scenario(Body::kProcesses, name,
                 MiniClusterOptions{.job_yaml = StormJob(kEpochs, kCheckpointed), .proxied = true}),
        random_(Seed()) {
    Pace(0, milliseconds(20));
    Check((*this)->StartAll());
    Check((*this)->WaitForSteps(50, seconds(60)));
  }

  // Kills tasks of these roles, `times` times each, in a random order. The first of two kills of a
  // task comes at a random moment, the second at a crash point that is armed when the task is
  // restarted.
  void Strike(const std::map<TaskRole, int>& times) {
    std::vector<TaskRole> pairs;
    for (const auto& [role, kills] : times) pairs.insert(pairs.end(), kills / 2, role);
    std::shuffle(pairs.begin(), pairs.end(), random_);
    for (const TaskRole role : pairs) StrikeTwice(role, AnyPoint(role));
  }

  // What a run of killed workers must show. Whether a random kill meets a push that is half sent
  // depends on the machine. So these kills come between the sends to the first and to the second
  // server. A worker sends to the servers in order, and its first request only pulls.
  void StrikeBetweenSends(uint64_t mixed_closures) {
    for (int more = 0; Report(/*finished=*/false).mixed_closures < mixed_closures; ++more) {
      REQUIRE(more < 30);
      StrikeTwice(TaskRole::kWorker, fmt::format("worker.push.sent:{}", 2 * Nth(10) + 1));
    }
  }

  ApplyReport End() {
    Release(0);
    const ApplyReport report = Finish(seconds(300));
    for (const auto& [role, kills] : kills_) {
      WARN(TaskRoleName(role) << ": " << kills << " kills, " << at_points_[role] << " at points");
    }
    WARN("applied " << report.applied << ", duplicates refused " << report.duplicates_refused
                    << ", recomputed " << report.recomputed_closures << ", partial pushes "
                    << report.partial_pushes << ", mixed " << report.mixed_closures
                    << ", timelines " << report.timelines);
    return report;
  }

 private:
  uint32_t Nth(uint32_t most) { return 1 + random_() % most; }

  std::string AnyPoint(TaskRole role) {
    std::vector<Point> points;
    std::copy_if(std::begin(kPoints), std::end(kPoints), std::back_inserter(points),
                 [&](const Point& point) { return point.role == role; });
    const Point& point = points[random_() % points.size()];
    return fmt::format("{}:{}", point.name, Nth(point.times));
  }

  void StrikeTwice(TaskRole role, const std::string& armed) {
    const MiniClusterOptions& options = (*this)->options();
    const int tasks = role == TaskRole::kWorker ? options.workers
                      : role == TaskRole::kPs   ? options.servers
                                                : 1;
    const int index = static_cast<int>(random_() % static_cast<uint32_t>(tasks));
    INFO(TaskRoleName(role) << ":" << index << " armed at " << armed);
    AwaitUpdates(Nth(200));
    Check((*this)->Kill(role, index));
    Check((*this)->Start(role, index, {"--crash_point", armed}));
    REQUIRE(ExitOf(role, index, seconds(60)) == kKilled);
    Check((*this)->Start(role, index));
    kills_[role] += 2;
    ++at_points_[role];
  }

  void AwaitUpdates(uint32_t updates) {
    const std::string log = (*this)->apply_log(0);
    LineFollower lines(log, SizeOf(log));
    const auto last = [&](std::string_view) { return --updates == 0; };
    REQUIRE(lines.WaitFor(last, seconds(60)));
  }

  std::mt19937 random_;
  std::map<TaskRole, int> kills_;
  std::map<TaskRole, int> at_points_;
};

TEST_CASE("workers, the chief and servers are killed in one run") {
  Storm storm("storm");
  storm.Strike({{TaskRole::kWorker, 20}, {TaskRole::kChief, 6}, {TaskRole::kPs, 6}});
  storm.StrikeBetweenSends(5);
  const ApplyReport report = storm.End();
  REQUIRE(report.applied >= kUpdates);
  REQUIRE(report.timelines >= 3);
  REQUIRE(report.partial_pushes >= 5);
  REQUIRE(report.duplicates_refused >= 5);
  REQUIRE(report.recomputed_closures >= 5);
}

TEST_CASE("kills of workers and of the chief cost nothing that was applied") {
  Storm storm("storm_kept");
  storm.Strike({{TaskRole::kWorker, 6}, {TaskRole::kChief, 6}});
  const ApplyReport report = storm.End();
  REQUIRE(report.applied == kUpdates);
  REQUIRE(report.timelines == 1);
}

}  // namespace
}  // namespace cohort

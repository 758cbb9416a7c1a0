// Every crash point of the list, once, on real processes: the process dies there and is restarted,
// and the job ends as if nothing had happened. A point that no process reaches fails this test, and
// so does a point that the table lacks. replica_points_test.cc walks the points of a replica.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>

#include "common/base/crash_point_list.h"
#include "tests/cluster/scenario.h"

namespace cohort {
namespace {

using std::chrono::seconds;

constexpr int kKilled = 128 + 9;
constexpr int kEpochs = 20;  // 10 steps each
// For a job that must not end before the test has killed a server.
constexpr int kLongEpochs = 200;

struct Walk {
  std::string_view point;
  int nth;               // some way into the run, if the point is passed often
  bool reading = false;  // it is passed during the recovery of a lost server
};

constexpr Walk kWalks[] = {
    {"chief.closures.reserved", 1},
    {"chief.cut.manifest_writing", 2},
    {"chief.cut.manifest_written", 1},
    {"chief.cut.shards_written", 2},
    {"chief.cut.snapshotted", 2},
    {"chief.former.moving", 2},
    {"chief.fresh.deleting", 1},
    {"chief.homes.journaled", 1, true},
    {"chief.journal.segment_durable", 3},
    {"chief.journal.segment_started", 3},
    {"chief.journal.segment_written", 3},
    {"chief.journal.writing", 10},
    {"chief.rate.journaled", 2},
    {"chief.result.folded", 30},
    {"chief.rollback.journaled", 2, true},
    {"chief.settle.journaled", 2},
    {"chief.step.closed", 30},
    {"chief.step.closing", 30},
    {"ps.pull.answering", 30},
    {"ps.push.applied", 30},
    {"ps.push.partial", 30},
    {"ps.push.received", 30},
    {"ps.push.staged", 30},
    {"ps.restore.done", 1, true},
    {"ps.snapshot.taken", 2},
    {"ps.snapshot.writing", 10},
    {"ps.snapshot.written", 2},
    {"ps.step.closed", 30},
    {"ps.step.closing", 30},
    {"ps.step.partial", 30},
    {"worker.closure.received", 5},
    {"worker.pull.done", 21},
    {"worker.push.sent", 31},
    {"worker.result.made", 20},
};

TaskRole RoleOf(std::string_view point) {
  for (const TaskRole role : {TaskRole::kChief, TaskRole::kPs, TaskRole::kWorker}) {
    if (point.starts_with(std::string(TaskRoleName(role)) + ".")) return role;
  }
  FAIL(point << " is named after no role");
  return TaskRole::kChief;
}

// The table is so wide that each of two servers makes two tablets of its part.
std::string WideJob() {
  std::string job = RecommenderJob(kEpochs, 40);
  const auto replace = [&](const std::string& from, const std::string& to) {
    REQUIRE(job.find(from) != std::string::npos);
    job.replace(job.find(from), from.size(), to);
  };
  replace("input_dim: 8", "input_dim: 16384");
  replace("num_shards: 2", "num_shards: 4");
  return job;
}

// Fills the checkpoint directory with those of a job with another optimizer.
void TrainFormerJob(const std::string& job, Scenario* s) {
  std::string former = RecommenderJob(2, 0);
  const std::string optimizer = "RMSprop";
  REQUIRE(former.find(optimizer) != std::string::npos);
  former.replace(former.find(optimizer), optimizer.size(), "SGD");
  std::ofstream((*s)->job_file()) << former;
  s->Check((*s)->StartAll());
  s->Finish();
  for (const std::string& log : (*s)->apply_logs()) std::filesystem::remove(log);
  std::ofstream((*s)->job_file()) << job;
}

void TakeWalk(const Walk& walk) {
  INFO("crash point " << walk.point);
  const TaskRole role = RoleOf(walk.point);
  const int index = role == TaskRole::kPs ? 1 : 0;
  MiniClusterOptions options{
      .workers = 1,
      .job_yaml = walk.point.ends_with(".partial")
                      ? WideJob()
                      : RecommenderJob(walk.reading ? kLongEpochs : kEpochs, 40)};
  if (walk.point.find(".step.") != std::string_view::npos || walk.point == "ps.push.staged") {
    std::string& job = options.job_yaml;
    const std::string strategy = "strategy:\n";
    REQUIRE(job.find(strategy) != std::string::npos);
    job.insert(job.find(strategy) + strategy.size(), "  mode: sync\n  closures_per_step: 2\n");
  }
  const bool copies = walk.point.starts_with("chief.homes.");
  if (copies) {
    std::string& job = options.job_yaml;
    const std::string strategy = "strategy:\n";
    job.insert(job.find(strategy) + strategy.size(), "  replicas: 2\n");
  }
  if (walk.point == "chief.rate.journaled") {
    std::string& job = options.job_yaml;
    const std::string fit = fmt::format("fit: {{epochs: {}", kEpochs);
    REQUIRE(job.find(fit) != std::string::npos);
    job.insert(job.find(fit) + fit.size(),
               ", callbacks: [{LearningRateScheduler: {schedule: {0: 0.1, 2: 0.05}}}]");
  }
  for (const TaskRole r : {TaskRole::kPs, TaskRole::kWorker, TaskRole::kChief}) {
    options.flags[r] = {"--threads", "1"};
  }
  // A server makes at most one tablet per thread.
  options.flags[TaskRole::kPs] = {"--threads", "2"};
  Scenario s(Scenario::Body::kProcesses, "walk", options);
  if (walk.point.starts_with("chief.former.")) TrainFormerJob(options.job_yaml, &s);
  TaskFlags armed = {"--crash_point", fmt::format("{}:{}", walk.point, walk.nth)};
  if (walk.point.starts_with("chief.fresh.")) armed.push_back("--fresh");
  const auto flags_of = [&](TaskRole r, int i) {
    // A server passes a point of the recovery only in its second incarnation.
    const bool now = r == role && i == index && !(walk.reading && role == TaskRole::kPs);
    return now ? armed : TaskFlags{};
  };
  for (int i = 0; i < 2; ++i) s.Check(s->Start(TaskRole::kPs, i, flags_of(TaskRole::kPs, i)));
  s.Check(s->Start(TaskRole::kWorker, 0, flags_of(TaskRole::kWorker, 0)));
  s.Check(s->Start(TaskRole::kChief, 0, flags_of(TaskRole::kChief, 0)));
  if (walk.reading) {
    s.Check(s->WaitForSteps(100, seconds(60)));
    s.Check(s->Kill(TaskRole::kPs, 1));
    s.Check(s->Start(TaskRole::kPs, 1, role == TaskRole::kPs ? armed : TaskFlags{}));
  }
  s.Said(role, index, {fmt::format("crash_point name={} nth={}", walk.point, walk.nth)});
  REQUIRE(s.ExitOf(role, index, seconds(20)) == kKilled);
  s.Check(s->Start(role, index));
  const ApplyReport report = s.Finish();
  if (!copies && (role == TaskRole::kPs || walk.reading)) {
    REQUIRE(report.timelines >= 2);
  } else {
    REQUIRE(report.timelines == 1);
  }
}

// Two checkpoints that a job needs: the first one, and one at the end.
TEST_CASE("a server that dies in the first or the last checkpoint is survived", "[ps]") {
  for (const int cut : {1, 3}) {  // cut 2 is in the middle: it belongs to the first of two epochs
    INFO("checkpoint " << cut);
    MiniClusterOptions options{.workers = 1, .job_yaml = RecommenderJob(2, 0)};
    Scenario s(Scenario::Body::kProcesses, "ends", options);
    s.Check(s->Start(TaskRole::kPs, 0));
    s.Check(
        s->Start(TaskRole::kPs, 1, {"--crash_point", fmt::format("ps.snapshot.taken:{}", cut)}));
    s.Check(s->Start(TaskRole::kWorker, 0));
    s.Check(s->Start(TaskRole::kChief, 0));
    REQUIRE(s.ExitOf(TaskRole::kPs, 1, seconds(60)) == kKilled);
    s.Check(s->Start(TaskRole::kPs, 1));
    REQUIRE(s.Finish().timelines == (cut == 1 ? 1u : 2u));
  }
}

// It deletes the rest when it is started again the same way.
TEST_CASE("a chief that is killed in --fresh takes nothing of the former run", "[chief]") {
  for (const int nth : {1, 3, 4}) {  // before the first checkpoint, the last one, the journal
    INFO("killed before deletion " << nth);
    Scenario s(Scenario::Body::kProcesses, "fresh", RecommenderJob(2, 0));
    REQUIRE(s.Finish().applied == 2u * 20);
    const TaskFlags fresh = {"--fresh"};
    TaskFlags armed = fresh;
    armed.insert(armed.end(), {"--crash_point", fmt::format("chief.fresh.deleting:{}", nth)});
    for (int i = 0; i < 2; ++i) s.Check(s->Start(TaskRole::kPs, i));
    for (int i = 0; i < 3; ++i) s.Check(s->Start(TaskRole::kWorker, i));
    s.Check(s->Start(TaskRole::kChief, 0, armed));
    REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == kKilled);
    s.Check(s->Start(TaskRole::kChief, 0, fresh));
    REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == 0);
    const auto trained = [&] {
      const auto events = ReadApplyLogs(s->apply_logs());
      s.Check(events.status());
      return events->size();
    };
    REQUIRE(trained() == 2u * 2 * 20);  // all of it again
    s.Check(s->Start(TaskRole::kChief, 0, {"--finished_ok"}));
    REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == 0);
    REQUIRE(trained() == 2u * 2 * 20);  // found finished
  }
}

TEST_CASE("every crash point of the list has its walk") {
  std::set<std::string_view> walked;
  for (const Walk& walk : kWalks) walked.insert(walk.point);
  for (const std::string_view point : kCrashPoints) {
    if (point.starts_with("replica.")) continue;
    INFO(point);
    REQUIRE(walked.erase(point) == 1);
  }
  REQUIRE(walked.empty());
}

TEST_CASE("crash points of the chief are reached and survived", "[chief]") {
  for (const Walk& walk : kWalks) {
    if (RoleOf(walk.point) == TaskRole::kChief) TakeWalk(walk);
  }
}

TEST_CASE("crash points of a parameter server are reached and survived", "[ps]") {
  for (const Walk& walk : kWalks) {
    if (RoleOf(walk.point) == TaskRole::kPs) TakeWalk(walk);
  }
}

TEST_CASE("crash points of a worker are reached and survived", "[worker]") {
  for (const Walk& walk : kWalks) {
    if (RoleOf(walk.point) == TaskRole::kWorker) TakeWalk(walk);
  }
}

}  // namespace
}  // namespace cohort

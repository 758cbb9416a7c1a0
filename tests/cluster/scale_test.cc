// Sixty-four workers in one run, as processes on one machine: they join, train and leave. The test
// prints the time and memory that this takes.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/cluster/scenario.h"

namespace cohort {
namespace {

using std::chrono::seconds;
using SteadyClock = std::chrono::steady_clock;

constexpr int kWorkers = 64;
constexpr int kSteps = 10;  // least number of steps of each worker
constexpr int kEpochs = 3;  // 1,000 steps each

// A line of /proc/PID/FILE, in its own unit (kB); 0 if there is no such line.
int64_t ProcLine(pid_t pid, const char* file, const std::string& name) {
  std::ifstream in(fmt::format("/proc/{}/{}", pid, file));
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(name + ":")) return std::atoll(line.c_str() + name.size() + 1);
  }
  return 0;
}

std::string MemoryOf(Scenario* s, TaskRole role, int tasks) {
  int64_t pss = 0;
  int64_t most = 0;
  int64_t threads = 0;
  for (int i = 0; i < tasks; ++i) {
    const pid_t pid = s->processes()->pid(role, i);
    pss += ProcLine(pid, "smaps_rollup", "Pss");
    most = std::max(most, ProcLine(pid, "status", "VmRSS"));
    threads = std::max(threads, ProcLine(pid, "status", "Threads"));
  }
  return fmt::format("{} {}: {} MiB together, {} MiB resident and {} threads in the largest", tasks,
                     TaskRoleName(role), pss / 1024, most / 1024, threads);
}

double SecondsSince(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

TEST_CASE("sixty-four workers join, train ten steps each and leave") {
  MiniClusterOptions options{.servers = 2, .workers = kWorkers, .proxied = true};
  options.job_yaml = StormJob(kEpochs);
  options.job_yaml.replace(options.job_yaml.find("strategy:\n"), 10,
                           "strategy:\n  closures_in_flight: 2\n");
  for (const TaskRole role : {TaskRole::kPs, TaskRole::kWorker, TaskRole::kChief}) {
    options.flags[role] = {"--threads", "1"};
  }
  Scenario s(Scenario::Body::kProcesses, "scale", options);
  const auto begin = SteadyClock::now();
  s.Check(s->StartAll());
  const double started = SecondsSince(begin);
  for (int i = 0; i < kWorkers; ++i) s.Said(TaskRole::kWorker, i, {"adopted"});
  s.Said(TaskRole::kChief, 0, {"tablets_assigned"});
  const double joined = SecondsSince(begin);
  s.Check(s->WaitForSteps(kWorkers * kSteps, seconds(120)));
  WARN(MemoryOf(&s, TaskRole::kWorker, kWorkers) << "\n"
                                                 << MemoryOf(&s, TaskRole::kPs, 2) << "\n"
                                                 << MemoryOf(&s, TaskRole::kChief, 1));
  const ApplyReport report = s.Finish(seconds(300));
  WARN("all forked after " << started << " s, joined after " << joined << " s, done and gone after "
                           << SecondsSince(begin) << " s, " << report.applied / 2 << " steps");
  REQUIRE(report.applied == 2u * 1000 * kEpochs);
  REQUIRE(report.duplicates_refused == 0);
  REQUIRE(report.timelines == 1);
  for (int i = 0; i < kWorkers; ++i) {
    const std::string line = s.Said(TaskRole::kWorker, i, {" ends ", "job_finished=true"});
    INFO(line);
    const size_t at = line.find("steps=");
    REQUIRE(at != std::string::npos);
    REQUIRE(std::atoi(line.c_str() + at + 6) >= kSteps);
  }
  // One connection of the chief to each task, and one of each worker to each server: no task dials
  // repeatedly.
  for (int ps = 0; ps < 2; ++ps) {
    REQUIRE(s->proxy(TaskRole::kPs, ps)->counters(Traffic::kData, Way::kToServer).connections ==
            kWorkers);
  }
}

}  // namespace
}  // namespace cohort

// How jobs begin, end, are continued and handed over; on both bodies.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/cluster/scenario.h"

namespace cohort {
namespace {

using std::chrono::seconds;
using Body = Scenario::Body;

constexpr int kChiefRefused = 78;
constexpr int kUnavailable = 169;

void RequireSaid(Scenario* s, TaskRole role, int index, const std::string& text) {
  const std::string tail = (*s)->LogTail(role, index, 40);
  INFO(tail);
  REQUIRE(tail.find(text) != std::string::npos);
}

void FreshOverAFinishedJob(Body body) {
  Scenario s(body, "fresh", RecommenderJob(2, 0));
  REQUIRE(s.Finish().applied == 2u * 20);
  s.Check(s->StartAll());
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == kChiefRefused);
  RequireSaid(&s, TaskRole::kChief, 0, "this job is finished");
  s.Check(s->Start(TaskRole::kChief, 0, {"--fresh"}));
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == 0);
  for (int i = 0; i < 3; ++i) REQUIRE(s.ExitOf(TaskRole::kWorker, i, seconds(60)) == 0);
  for (int i = 0; i < 2; ++i) REQUIRE(s.ExitOf(TaskRole::kPs, i, seconds(60)) == 0);
  const auto events = ReadApplyLogs(s->apply_logs());
  s.Check(events.status());
  REQUIRE(events->size() == 2u * 2 * 20);  // all of it again
}

void FreshOverAnotherJob(Body body) {
  Scenario s(body, "other", RecommenderJob(2, 0));
  s.Finish();
  std::ofstream(s->job_file()) << StormJob(1);
  s.Check(s->StartAll());
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == kChiefRefused);
  RequireSaid(&s, TaskRole::kChief, 0, "holds checkpoints of another job");
  RequireSaid(&s, TaskRole::kChief, 0, "another checkpoint directory");
  s.Check(s->Start(TaskRole::kChief, 0, {"--fresh"}));
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(120)) == 0);
}

// More epochs, on three servers after two.
void GoesOnWithMoreServers(Body body) {
  const ClusterDirectory directory("more");
  MiniClusterOptions options{
      .workers = 2, .job_yaml = RecommenderJob(3, 0), .directory = directory.path()};
  {
    Scenario s(body, "more", options);
    s.Check(s->StartAll());
    REQUIRE(s.Finish().applied == 2u * 30);
  }
  for (int ps = 0; ps < 2; ++ps) {
    std::filesystem::rename(directory.path() + "/apply-ps-" + std::to_string(ps) + ".log",
                            directory.path() + "/before-" + std::to_string(ps) + ".log");
  }
  options.servers = 3;
  options.job_yaml = RecommenderJob(5, 0);
  options.job_yaml.replace(options.job_yaml.find("num_shards: 2"), 13, "num_shards: 3");
  Scenario s(body, "more", options);
  s.Check(s->StartAll());
  s.Said(TaskRole::kChief, 0, {"tablets_assigned", "from=" + directory.path(), "status=OK"});
  REQUIRE(s.Finish().applied == 3u * 20);  // the two missing epochs
}

// A job that was killed after more epochs than the job file asks for now.
void HasDoneMoreThanIsAsked(Body body) {
  Scenario s(body, "less", {.workers = 2, .job_yaml = RecommenderJob(30, 10), .proxied = true});
  s.Pace(0);
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(30, seconds(60)));
  s.Check(s->Kill(TaskRole::kChief, 0));
  std::ofstream(s->job_file()) << RecommenderJob(1, 10);
  s.Release(0);
  s.Check(s->Start(TaskRole::kChief, 0));
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == 0);
  if (body != Body::kProcesses) return;  // the console is not in the log
  RequireSaid(&s, TaskRole::kChief, 0,
              "steps, more than the 10 that it is asked for now: it is finished");
}

// If no checkpoint is whole, the job does not restart from step 0: a person may still repair one.
void RefusesToBeginAnew(Body body) {
  Scenario s(body, "all-torn", RecommenderJob(2, 0));
  s.Finish();
  namespace fs = std::filesystem;
  size_t torn = 0;
  for (const auto& entry : fs::recursive_directory_iterator(s->checkpoint_dir())) {
    if (entry.path().extension() != ".safetensors") continue;
    fs::resize_file(entry.path(), fs::file_size(entry.path()) - 1);
    ++torn;
  }
  REQUIRE(torn > 0);
  std::ofstream(s->job_file()) << RecommenderJob(3, 0);
  s.Check(s->StartAll());
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == 65);
  size_t kept = 0;
  for (const auto& entry : fs::recursive_directory_iterator(s->checkpoint_dir())) {
    if (entry.path().extension() == ".safetensors") ++kept;
  }
  REQUIRE(kept == torn);
}

// The newest checkpoint lacks the end of a shard file.
void GoesOnFromTheOneBefore(Body body) {
  Scenario s(body, "torn", RecommenderJob(2, 0));
  s.Finish();
  const auto newest = [&] {
    std::filesystem::path path;
    for (const auto& entry : std::filesystem::directory_iterator(s->checkpoint_dir())) {
      const std::string name = entry.path().filename();
      if (name.starts_with("ckpt-") && (path.empty() || name > path.filename().string())) {
        path = entry.path();
      }
    }
    return path;
  }();
  REQUIRE(!newest.empty());
  for (const auto& entry : std::filesystem::directory_iterator(newest)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) - 1);
  }
  std::ofstream(s->job_file()) << RecommenderJob(3, 0);
  s.Check(s->StartAll());
  s.Said(TaskRole::kChief, 0, {"checkpoint_refused", newest.string()});
  const std::string taken = s.Said(TaskRole::kChief, 0, {"tablets_assigned", "status=OK"});
  REQUIRE(taken.find("ckpt-") != std::string::npos);
  REQUIRE(taken.find(newest.string()) == std::string::npos);
  s.Finish();
}

void StartsInAnyOrder(Body body) {
  Scenario s(body, "order", MiniClusterOptions{.workers = 1, .job_yaml = RecommenderJob(2, 0)});
  s.Check(s->Start(TaskRole::kChief, 0));
  s.Check(s->Start(TaskRole::kWorker, 0));
  s.Check(s->Start(TaskRole::kPs, 1));
  s.Check(s->Start(TaskRole::kPs, 0));
  s.Finish();
}

void NamesWhoIsMissing(Body body) {
  Scenario s(body, "missing", MiniClusterOptions{.workers = 2, .job_yaml = RecommenderJob(2, 0)});
  s.Check(s->Start(TaskRole::kPs, 0));
  s.Check(s->Start(TaskRole::kWorker, 0));
  s.Check(s->Start(TaskRole::kChief, 0, {"--task_timeout_s", "2"}));
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == kUnavailable);
  const std::string tail = s->LogTail(TaskRole::kChief, 0, 3);
  INFO(tail);
  const auto named = [&](TaskRole role, int index) {
    return tail.find(fmt::format("{}:{} (127.0.0.1:{})", TaskRoleName(role), index,
                                 s->port(role, index))) != std::string::npos;
  };
  REQUIRE(named(TaskRole::kPs, 1));
  REQUIRE(named(TaskRole::kWorker, 1));
  REQUIRE(!named(TaskRole::kPs, 0));
}

void MeetsOnUnixSockets(Body body) {
  // No flag asks for it: TF_CONFIG has TCP addresses, those of the proxies.
  const MiniClusterOptions options{
      .workers = 2, .job_yaml = RecommenderJob(5, 0), .proxied = true, .unix_sockets = true};
  Scenario s(body, "sockets", options);
  s.Check(s->StartAll());
  REQUIRE(s.Finish().applied == 2u * 50);
  // The proxies saw only the chief: the data took another way.
  for (int ps = 0; ps < 2; ++ps) {
    FaultProxy* link = s->proxy(TaskRole::kPs, ps);
    REQUIRE(link->counters(Traffic::kControl, Way::kToServer).connections >= 1);
    REQUIRE(link->counters(Traffic::kData, Way::kToServer).connections == 0);
  }
}

void HandsOver(Body body) {
  MiniClusterOptions options{.workers = 2, .job_yaml = RecommenderJob(30, 0), .proxied = true};
  Scenario s(body, "takeover", options);
  // The job must outlast three starts of a chief, also in a slow build.
  s.Pace(0, std::chrono::milliseconds(300));
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(10, seconds(60)));
  s.Check(s->Start(TaskRole::kChief, 1));
  REQUIRE(s.ExitOf(TaskRole::kChief, 1, seconds(60)) == kUnavailable);
  RequireSaid(&s, TaskRole::kChief, 1, "belongs to another chief");
  RequireSaid(&s, TaskRole::kChief, 1, "--takeover");
  // If it has a directory of its own, the tasks refuse it.
  s.Check(s->Start(TaskRole::kChief, 1, {"--checkpoint_dir", s->options().directory + "/own"}));
  REQUIRE(s.ExitOf(TaskRole::kChief, 1, seconds(60)) == kUnavailable);
  RequireSaid(&s, TaskRole::kChief, 1, "is at work for another chief");
  RequireSaid(&s, TaskRole::kChief, 1, "--takeover");
  REQUIRE(s->Running(TaskRole::kChief, 0));
  s.Check(s->Start(TaskRole::kChief, 1, {"--takeover"}));
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == kUnavailable);
  RequireSaid(&s, TaskRole::kChief, 0, "is fenced");
  s.Release(0);
  REQUIRE(s.ExitOf(TaskRole::kChief, 1, seconds(60)) == 0);
  for (int i = 0; i < 2; ++i) REQUIRE(s.ExitOf(TaskRole::kWorker, i, seconds(60)) == 0);
  for (int i = 0; i < 2; ++i) REQUIRE(s.ExitOf(TaskRole::kPs, i, seconds(60)) == 0);
  const ApplyReport report = s.Report(/*finished=*/true);
  REQUIRE(report.applied == 2u * 300);
  REQUIRE(report.timelines == 1);  // the servers were alive all the time
}

COHORT_BOTH_BODIES("--fresh trains a finished job again", FreshOverAFinishedJob)
COHORT_BOTH_BODIES("another job's checkpoints are refused, and given up with --fresh",
                   FreshOverAnotherJob)
COHORT_BOTH_BODIES("a job continues on more servers", GoesOnWithMoreServers)
COHORT_BOTH_BODIES("a job that has done more than it is asked for is finished",
                   HasDoneMoreThanIsAsked)
COHORT_BOTH_BODIES("a torn checkpoint is refused by name and the one before is taken",
                   GoesOnFromTheOneBefore)
COHORT_BOTH_BODIES("a job whose checkpoints are all torn does not start over", RefusesToBeginAnew)
COHORT_BOTH_BODIES("tasks start in any order", StartsInAnyOrder)
COHORT_BOTH_BODIES("missing tasks are named", NamesWhoIsMissing)
COHORT_BOTH_BODIES("tasks of one host meet on unix sockets", MeetsOnUnixSockets)
COHORT_BOTH_BODIES("a second chief is refused, and takes over with --takeover", HandsOver)

}  // namespace
}  // namespace cohort

// `cohort-chief --standby`: a second chief waits, and continues the job of the first.
#include <signal.h>

#include <catch2/catch.hpp>

#include "deploy/launcher/control_job.h"
#include "tests/cluster/scenario.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Body = Scenario::Body;

constexpr int kUnavailable = 169;
constexpr int kStopped = 79;

Scenario Paced(const std::string& name) {
  return Scenario(Body::kProcesses, name,
                  MiniClusterOptions{.job_yaml = RecommenderJob(30, 50), .proxied = true});
}

// Steps of the whole job that the log of server 0 has from now on.
void Train(Scenario* s, int updates) {
  const std::string log = (*s)->apply_log(0);
  LineFollower lines(log, SizeOf(log));
  REQUIRE(lines.WaitFor([&](std::string_view) { return --updates == 0; }, seconds(60)));
}

void StartWithStandby(Scenario* s) {
  s->Pace(0);
  s->Check((*s)->StartAll());
  s->Check((*s)->WaitForSteps(10, seconds(60)));
  s->Check((*s)->Start(TaskRole::kChief, 1, {"--standby"}));
  s->Said(TaskRole::kChief, 1, {"standing_by", "process "});
  Train(s, 20);
}

TEST_CASE("a standby chief takes over from one that was killed, and from one that stands still",
          "[processes]") {
  const bool killed = GENERATE(true, false);
  INFO("killed: " << killed);
  Scenario s = Paced("standby");
  StartWithStandby(&s);
  if (killed) {
    s.Check(s->Kill(TaskRole::kChief, 0));
  } else {
    s.Check(s.processes()->Signal(TaskRole::kChief, 0, SIGSTOP));
  }
  s.Said(TaskRole::kChief, 1, {"job_resumed"}, seconds(30));
  Train(&s, 20);
  if (!killed) {
    s.Check(s.processes()->Signal(TaskRole::kChief, 0, SIGCONT));
    CHECK(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == kUnavailable);
  }
  s.Release(0);
  CHECK(s.ExitOf(TaskRole::kChief, 1, seconds(120)) == 0);
  CHECK(s.Report(/*finished=*/true).timelines == 1);
}

TEST_CASE("a standby of a job that a user stops ends, too", "[processes]") {
  Scenario s = Paced("standby-stop");
  StartWithStandby(&s);
  s.Check(ControlJob({.run = s->checkpoint_dir(), .command = "stop"}).status());
  CHECK(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == kStopped);
  CHECK(s.ExitOf(TaskRole::kChief, 1, seconds(60)) == kStopped);
}

TEST_CASE("a standby of a job that ends well ends, too", "[processes]") {
  Scenario s = Paced("standby-end");
  StartWithStandby(&s);
  s.Release(0);
  s.Finish();
  CHECK(s.ExitOf(TaskRole::kChief, 1, seconds(60)) == 0);
}

}  // namespace
}  // namespace cohort

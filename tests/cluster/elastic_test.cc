// Workers and servers that no TF_CONFIG names join a running job, and leave it.
#include <signal.h>

#include <catch2/catch.hpp>
#include <deque>
#include <random>

#include "common/cluster/free_ports.h"
#include "deploy/launcher/control_job.h"
#include "tests/cluster/scenario.h"
#include "tests/cluster/trained_weights.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Body = Scenario::Body;

constexpr int kTerminated = 143;

std::string SyncJob() {
  std::string job = ExampleJob("census_csv.yaml");
  job.replace(job.find("\ncheckpoint:"), 0, "\nstrategy: {mode: sync, closures_per_step: 3}\n");
  return job;
}

void Control(Scenario* s, const std::string& command, const std::string& what = "") {
  s->Check(ControlJob({.run = (*s)->checkpoint_dir(), .command = command, .mode = what}).status());
}

// One worker of TF_CONFIG, and any number that join.
struct Elastic {
  Elastic(const std::string& name, const std::string& job)
      : s(Body::kProcesses, name, Options(job)) {
    for (const int ps : {0, 1}) s.Pace(ps, milliseconds(10));
    s.Check(s->StartAll());
    s.Check(s->WaitForSteps(3, seconds(60)));
  }

  MiniClusterOptions Options(const std::string& job) {
    return {.servers = 2,
            .workers = 1,
            .job_yaml = job,
            .data_dir = GeneratedDataDir(),
            .flags = {{TaskRole::kChief, {"--join_bind", chief}}},
            .proxied = true};
  }

  void Join() {
    const int index = next++;
    s.Check(s->Start(TaskRole::kWorker, index, {"--join", chief}));
    s.Said(TaskRole::kWorker, index, {"adopted"});
    there.push_back(index);
  }

  // The one that is there for the longest time gets the notice of a machine that is taken away.
  void Leave() {
    const int index = there.front();
    there.pop_front();
    s.Check(s.processes()->Signal(TaskRole::kWorker, index, SIGTERM));
    CHECK(s.ExitOf(TaskRole::kWorker, index, seconds(30)) == kTerminated);
  }

  // Updates of server 0 from now on.
  void Train(int updates) {
    LineFollower lines(s->apply_log(0), SizeOf(s->apply_log(0)));
    REQUIRE(lines.WaitFor([&](std::string_view) { return --updates == 0; }, seconds(60)));
  }

  // `times` workers come and as many go; the one of TF_CONFIG is away, so only they work.
  void ComeAndGo(int times, uint32_t seed) {
    std::mt19937 random(seed);
    int left = 0;
    while (left < times) {
      INFO("left: " << left << ", there: " << there.size());
      if (there.size() < 2 || (there.size() < 4 && random() % 2 == 0)) {
        Join();
        if (next == 3) s.Check(s->Kill(TaskRole::kWorker, 0));
      } else {
        Leave();
        ++left;
      }
      Train(1 + static_cast<int>(random() % 10));
    }
  }

  // The worker of TF_CONFIG is back. The others end with the job.
  ApplyReport Finish() {
    s.Check(s->Start(TaskRole::kWorker, 0));
    s.Said(TaskRole::kWorker, 0, {"adopted"});
    for (const int ps : {0, 1}) s.Release(ps);
    ApplyReport report = s.Finish(seconds(300));
    for (const int index : there) CHECK(s.ExitOf(TaskRole::kWorker, index, seconds(20)) == 0);
    return report;
  }

  const std::string chief = "127.0.0.1:" + std::to_string(ChooseFreePorts(1).value().front());
  Scenario s;
  std::deque<int> there;  // those that have joined
  int next = 1;           // the index of the next process
};

TEST_CASE("workers join and leave 30 times, and each update is applied once", "[processes]") {
  Elastic e("elastic-async", StormJob(8));
  e.ComeAndGo(30, /*seed=*/1);
  CHECK(e.Finish().timelines == 1);
}

TEST_CASE("workers join and leave 30 times, and synchronous weights are the same bits",
          "[processes]") {
  Scenario calm(
      Body::kProcesses, "elastic-calm",
      {.servers = 2, .workers = 3, .job_yaml = SyncJob(), .data_dir = GeneratedDataDir()});
  calm.Check(calm->StartAll());
  calm.Finish();
  Elastic e("elastic-sync", SyncJob());
  e.ComeAndGo(30, /*seed=*/2);
  CHECK(e.Finish().timelines == 1);
  CheckSameWeights(TrainedWeightsOf(calm->checkpoint_dir()),
                   TrainedWeightsOf(e.s->checkpoint_dir()));
}

TEST_CASE("a chief that is killed finds the workers that have joined", "[processes]") {
  Elastic e("elastic-chief", StormJob(2));
  e.Join();
  e.Join();
  e.s.Check(e.s->Kill(TaskRole::kWorker, 0));
  e.s.Bounce(TaskRole::kChief, 0);
  e.s.Said(TaskRole::kChief, 0, {"job_resumed"});
  e.Train(20);
  CHECK(e.Finish().timelines == 1);
}

TEST_CASE("a worker that joins without the data is refused, and the job continues", "[processes]") {
  Elastic e("elastic-data", SyncJob());
  e.s.Check(e.s->Start(TaskRole::kWorker, 9, {"--join", e.chief, "--data_dir", "/nonexistent"}));
  e.s.Said(TaskRole::kChief, 0, {"task_refused", "worker:1"});
  e.s.Said(TaskRole::kChief, 0, {"task_left", "worker:1"});
  e.Train(10);
  e.Join();  // it gets the place
  for (const int ps : {0, 1}) e.s.Release(ps);
  CHECK(e.s.Finish(seconds(120)).timelines == 1);
}

TEST_CASE("a worker that cannot join says why", "[processes]") {
  Elastic e("elastic-refused", StormJob(1));
  auto& s = e.s;
  s.Check(s->Start(TaskRole::kWorker, 1, {"--join", "127.0.0.1:1", "--chief_wait_s", "1"}));
  CHECK(s.ExitOf(TaskRole::kWorker, 1, seconds(20)) == 169);
  CHECK_THAT(s->LogTail(TaskRole::kWorker, 1, 3),
             Catch::Contains("waits to join, 0 s: the chief at 127.0.0.1:1"));
  s.Check(s->Start(TaskRole::kWorker, 2, {"--join", "chief"}));
  CHECK(s.ExitOf(TaskRole::kWorker, 2, seconds(20)) == 64);
  for (const int ps : {0, 1}) s.Release(ps);
  s.Finish();
}

TEST_CASE("a worker that joins as the job ends finds it finished", "[processes]") {
  Elastic e("elastic-late", StormJob(1));
  auto& s = e.s;
  e.Join();
  Control(&s, "fence", "worker:1");
  s.Said(TaskRole::kChief, 0, {"worker_fenced", "worker:1"});
  // The chief waits for it at the end.
  s.Check(s.processes()->Signal(TaskRole::kWorker, 1, SIGSTOP));
  for (const int ps : {0, 1}) s.Release(ps);
  s.Said(TaskRole::kWorker, 0, {"ends", "job_finished=true"});
  s.Check(s->Start(TaskRole::kWorker, 2, {"--join", e.chief}));
  CHECK(s.ExitOf(TaskRole::kWorker, 2, seconds(20)) == 0);
  CHECK_THAT(s->LogTail(TaskRole::kWorker, 2, 3), Catch::Contains("the job is finished"));
  s.Check(s.processes()->Signal(TaskRole::kWorker, 1, SIGCONT));
  CHECK(s.ExitOf(TaskRole::kWorker, 1, seconds(20)) == 0);
  CHECK(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == 0);
}

// The table is so wide that each of two servers with two threads has two tablets of it.
std::string WideJob(bool sync, int epochs = 60) {
  std::string job = RecommenderJob(epochs, /*checkpoint_steps=*/200);
  const auto replace = [&](const std::string& from, const std::string& to) {
    REQUIRE(job.find(from) != std::string::npos);
    job.replace(job.find(from), from.size(), to);
  };
  replace("input_dim: 8", "input_dim: 16384");
  replace("num_shards: 2", "num_shards: 4");
  if (sync) replace("strategy:\n", "strategy:\n  mode: sync\n  closures_per_step: 2\n");
  return job;
}

// A third server, which no TF_CONFIG of the others has.
MiniClusterOptions WithAddedServer(const std::string& job) {
  return {.servers = 3,
          .workers = 2,
          .job_yaml = job,
          .data_dir = GeneratedDataDir(),
          .flags = {{TaskRole::kPs, {"--threads", "2"}}},
          .proxied = true,
          .added_servers = 1};
}

// The server joins, gets tablets, is known to a restarted chief, and gives its tablets back.
void AddServer(Scenario* s) {
  for (const int ps : {0, 1}) s->Pace(ps, milliseconds(20));
  s->Check((*s)->StartAll());
  s->Check((*s)->WaitForSteps(10, seconds(60)));
  Control(s, "add-ps", fmt::format("127.0.0.1:{}", (*s)->proxy(TaskRole::kPs, 2)->port()));
  s->Said(TaskRole::kPs, 2, {"adopted"});
  Control(s, "rebalance");
  s->Said(TaskRole::kChief, 0, {"tablet_handed_over", "to ps:2", "0 still move"});
  LineFollower lines((*s)->apply_log(2), 0);
  REQUIRE(lines.WaitFor([](std::string_view) { return true; }, seconds(60)));
  s->Bounce(TaskRole::kChief, 0);
  s->Said(TaskRole::kChief, 0, {"job_resumed"});
  Control(s, "drain-ps", "2");
  s->Said(TaskRole::kChief, 0, {"tablet_handed_over", "from ps:2", "0 still move"});
  for (const int ps : {0, 1}) s->Release(ps);
}

TEST_CASE("a server that is added while the job runs gets tablets, and nothing is rolled back",
          "[processes]") {
  Scenario s(Body::kProcesses, "add-ps", WithAddedServer(WideJob(/*sync=*/false)));
  AddServer(&s);
  CHECK(s.Finish(seconds(300)).timelines == 1);
}

TEST_CASE("with `rebalance: auto`, a server that is added gets tablets by itself", "[processes]") {
  std::string job = WideJob(/*sync=*/false, /*epochs=*/1000);
  const std::string strategy = "strategy:\n";
  job.insert(job.find(strategy) + strategy.size(), "  rebalance: auto\n");
  // Each tablet has some of the few rows that the job reads.
  const std::string shards = "num_shards: 4";
  job.insert(job.find(shards) + shards.size(), ", rows: hash");
  Scenario s(Body::kProcesses, "rebalance-auto", WithAddedServer(job));
  for (const int ps : {0, 1}) s.Pace(ps, milliseconds(10));
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(10, seconds(60)));
  Control(&s, "add-ps", fmt::format("127.0.0.1:{}", s->proxy(TaskRole::kPs, 2)->port()));
  s.Said(TaskRole::kChief, 0, {"tablet_moves", "to ps:2", "ps:2 0 %"});
  s.Said(TaskRole::kChief, 0, {"tablet_handed_over", "to ps:2", "0 still move"});
  for (const int ps : {0, 1}) s.Release(ps);
  CHECK(s.Finish(seconds(300)).timelines == 1);
}

// 30 s pass until the chief gives the server up.
TEST_CASE("an added server with tablets is lost for good, and the others continue",
          "[processes][long]") {
  Scenario s(Body::kProcesses, "add-ps-lost", WithAddedServer(WideJob(/*sync=*/false)));
  for (const int ps : {0, 1}) s.Pace(ps, milliseconds(20));
  s.Check(s->StartAll());
  s.Said(TaskRole::kChief, 0, {"checkpoint", "cut=1"});
  Control(&s, "add-ps", fmt::format("127.0.0.1:{}", s->proxy(TaskRole::kPs, 2)->port()));
  Control(&s, "rebalance");
  s.Said(TaskRole::kChief, 0, {"tablet_handed_over", "to ps:2", "0 still move"});
  s.Check(s->Kill(TaskRole::kPs, 2));
  s.Said(TaskRole::kChief, 0, {"tablets_assigned", "timeline=2", "status=OK"}, seconds(90));
  for (const int ps : {0, 1}) s.Release(ps);
  CHECK(s.ExitOf(TaskRole::kChief, 0, seconds(120)) == 0);
}

TEST_CASE("a server that is added changes no bit of synchronous weights", "[processes]") {
  Scenario calm(Body::kProcesses, "add-ps-calm",
                {.servers = 2,
                 .workers = 2,
                 .job_yaml = WideJob(/*sync=*/true),
                 .data_dir = GeneratedDataDir(),
                 .flags = {{TaskRole::kPs, {"--threads", "2"}}}});
  calm.Check(calm->StartAll());
  calm.Finish();
  Scenario s(Body::kProcesses, "add-ps-sync", WithAddedServer(WideJob(/*sync=*/true)));
  AddServer(&s);
  CHECK(s.Finish(seconds(300)).timelines == 1);
  CheckSameWeights(TrainedWeightsOf(calm->checkpoint_dir()), TrainedWeightsOf(s->checkpoint_dir()));
}

}  // namespace
}  // namespace cohort

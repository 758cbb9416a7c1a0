// A slow worker in a synchronous job: idle workers do its work, or the job continues without it.
// Prints the speed beside that of the same cluster without the slow worker.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cluster/scenario.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Run {
  double seconds = 0;  // that the training took
  double accuracy = 0;
};

std::string Job(const std::string& strategy) {
  std::string job = ExampleJob("mnist_mlp.yaml");
  const std::string mark = "\ncheckpoint:";
  return job.replace(
      job.find(mark), mark.size(),
      fmt::format("\nstrategy: {{mode: sync, closures_per_step: 3{}}}\n{}", strategy, mark));
}

Run RunOf(const std::string& log_dir) {
  Run run;
  std::ifstream in(log_dir + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["kind"] != "epoch") continue;
    if (json["set"] == "train") {
      run.seconds += 282 / json["steps_per_second"].get<double>();
    } else {
      run.accuracy = json["accuracy"].get<double>();
    }
  }
  return run;
}

// `held`: how long each message between the chief and the last worker takes; 0: it is not slow.
Run Train(const std::string& strategy, int workers, milliseconds held) {
  Scenario s(Scenario::Body::kProcesses, "backup",
             MiniClusterOptions{.workers = workers,
                                .job_yaml = Job(strategy),
                                .data_dir = GeneratedDataDir(),
                                .proxied = true});
  if (held.count() > 0) {
    s->proxy(TaskRole::kWorker, workers - 1)
        ->Inject({.kind = Fault::Kind::kDelay, .way = Way::kToServer, .delay = held});
  }
  s.Check(s->StartAll());
  s.Finish(seconds(300));
  return RunOf(s->log_dir());
}

TEST_CASE("a worker that is ten times as slow costs a synchronous job little") {
  for (const std::string strategy :
       {", backup_work: speculative", ", backup_work: drop, replicas_to_aggregate: 2"}) {
    std::vector<double> ratios;
    for (int round = 0; round < 3; ++round) {
      const Run without = Train("", 2, milliseconds(0));
      const double steps = 5 * 282 / 3;
      const auto held = milliseconds(static_cast<int>(10 * 1000 * without.seconds / steps));
      const Run with = Train(strategy, 3, held);
      ratios.push_back(without.seconds / with.seconds);
      WARN("mode sync" << strategy << ", one of 3 workers held for " << held.count()
                       << " ms a message: " << ratios.back()
                       << " of the speed of 2 workers; accuracy " << with.accuracy << ", without "
                       << without.accuracy);
      CHECK(with.accuracy > without.accuracy - 0.01);
    }
    std::sort(ratios.begin(), ratios.end());
    CHECK(ratios[1] >= 0.8);
  }
}

}  // namespace
}  // namespace cohort

// Where workers resume in independent datasets after a death, and when a run is continued; on both
// bodies.
#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>

#include "common/checkpoint/checkpoint_directory.h"
#include "proto/checkpoint.pb.h"
#include "tests/cluster/scenario.h"

namespace cohort {
namespace {

using std::chrono::seconds;
using Body = Scenario::Body;

constexpr int kEpochs = 30;
constexpr uint64_t kSteps = 10 * kEpochs;
constexpr int kWorkers = 2;

// Each worker reads its own shuffled copy through a buffer; ten steps are an epoch.
MiniClusterOptions Independent() {
  std::string job = RecommenderJob(kEpochs, /*checkpoint_steps=*/20);
  const auto replace = [&](const std::string& what, const std::string& with) {
    REQUIRE(job.find(what) != std::string::npos);
    job.replace(job.find(what), what.size(), with);
  };
  replace("visitation: exactly_once", "visitation: independent");
  replace("shuffle: true", "shuffle: true\n    shuffle_buffer: 50");
  replace("fit: {", "fit: {steps_per_epoch: 10, ");
  return {.workers = kWorkers, .job_yaml = job, .proxied = true};
}

// The positions in the newest checkpoint, by worker.
std::map<uint32_t, uint64_t> Positions(Scenario* s) {
  v1::Manifest manifest;
  const auto newest = NewestReadable((*s)->checkpoint_dir(), &manifest);
  REQUIRE(newest.ok());
  REQUIRE(newest->has_value());
  std::map<uint32_t, uint64_t> positions;
  for (const v1::ReaderPositions& readers : manifest.chief().readers()) {
    for (int i = 0; i < readers.workers_size(); ++i) {
      positions[readers.workers(i)] = readers.batches(i);
    }
  }
  return positions;
}

uint64_t Sum(const std::map<uint32_t, uint64_t>& positions) {
  uint64_t sum = 0;
  for (const auto& [worker, batches] : positions) sum += batches;
  return sum;
}

// The position where the next reader of this worker starts.
uint64_t Begin(Scenario* s, int worker, int timeline) {
  const std::string line =
      s->Said(TaskRole::kWorker, worker, {"resource_made", fmt::format("timeline={}", timeline)});
  const std::string key = "begin=";
  const size_t at = line.find(key);
  INFO(line);
  REQUIRE(at != std::string::npos);
  const size_t from = at + key.size();
  uint64_t begin = 0;
  REQUIRE(absl::SimpleAtoi(line.substr(from, line.find(' ', from) - from), &begin));
  return begin;
}

void GoesOnWhereItsPredecessorWas(Body body) {
  Scenario s(body, "readers", Independent());
  s.Pace(0);
  s.Check(s->StartAll());
  for (int i = 0; i < kWorkers; ++i) REQUIRE(Begin(&s, i, 1) == 0);
  uint64_t steps = 0;
  for (const int worker : {1, 0, 1}) {
    steps += 60;
    s.Check(s->WaitForSteps(steps, seconds(60)));
    auto before = Positions(&s);
    s.Bounce(TaskRole::kWorker, worker);
    const uint64_t begin = Begin(&s, worker, 1);
    REQUIRE(begin > 0);
    REQUIRE(begin >= before[static_cast<uint32_t>(worker)]);
  }
  s.Release(0);
  REQUIRE(s.Finish().applied == 2 * kSteps);
  // Each step has read one batch. A batch that a dead worker had started was read again, not
  // skipped.
  REQUIRE(Sum(Positions(&s)) == kSteps);
}

void GoesOnFromTheCheckpoint(Body body) {
  Scenario s(body, "continued-readers", Independent());
  s.Pace(0);
  s.Check(s->StartAll());
  s.Said(TaskRole::kChief, 0, {"checkpoint", "cut=1"});  // number 0 is the beginning
  s.Check(s->Kill(TaskRole::kChief, 0));
  for (int i = 0; i < kWorkers; ++i) s.Check(s->Kill(TaskRole::kWorker, i));
  for (int i = 0; i < 2; ++i) s.Check(s->Kill(TaskRole::kPs, i));
  auto at_cut = Positions(&s);
  REQUIRE(Sum(at_cut) > 0);
  s.Check(s->StartAll());
  for (int i = 0; i < kWorkers; ++i) {
    REQUIRE(Begin(&s, i, 2) == at_cut[static_cast<uint32_t>(i)]);
  }
  s.Release(0);
  s.Finish();
}

// The settings that say how batches are made do not change which batches they are: with the
// journal, and without it.
void GoesOnWithAnotherPrefetch(Body body) {
  Scenario s(body, "prefetch-readers", Independent());
  s.Pace(0);
  s.Check(s->StartAll());
  s.Said(TaskRole::kChief, 0, {"checkpoint", "cut=1"});
  for (const bool with_journal : {true, false}) {
    s.Check(s->Kill(TaskRole::kChief, 0));
    for (int i = 0; i < kWorkers; ++i) s.Check(s->Kill(TaskRole::kWorker, i));
    for (int i = 0; i < 2 && !with_journal; ++i) s.Check(s->Kill(TaskRole::kPs, i));
    if (!with_journal) std::filesystem::remove_all(s->checkpoint_dir() + "/journal");
    auto at_cut = Positions(&s);
    REQUIRE(Sum(at_cut) > 0);
    std::string job = Independent().job_yaml;
    const std::string mark = "    shuffle_buffer:";
    job.insert(job.find(mark), with_journal ? "    prefetch: 4\n" : "    prefetch: 1\n");
    std::ofstream(s->job_file()) << job;
    for (int i = 0; i < 2 && !with_journal; ++i) s.Check(s->Start(TaskRole::kPs, i));
    for (int i = 0; i < kWorkers; ++i) s.Check(s->Start(TaskRole::kWorker, i));
    s.Check(s->Start(TaskRole::kChief, 0));
    for (int i = 0; i < kWorkers; ++i) {
      const uint64_t begin = Begin(&s, i, with_journal ? 1 : 2);
      const uint64_t cut = at_cut[static_cast<uint32_t>(i)];
      REQUIRE((with_journal ? begin >= cut : begin == cut));
    }
  }
  s.Release(0);
  s.Finish();
}

COHORT_BOTH_BODIES("a worker reads on where its predecessor was", GoesOnWhereItsPredecessorWas)
COHORT_BOTH_BODIES("a continued run reads on from its checkpoint", GoesOnFromTheCheckpoint)
COHORT_BOTH_BODIES("a continued run that makes its batches otherwise reads on all the same",
                   GoesOnWithAnotherPrefetch)

}  // namespace
}  // namespace cohort

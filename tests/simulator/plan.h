#ifndef COHORT_TESTS_SIMULATOR_PLAN_H_
#define COHORT_TESTS_SIMULATOR_PLAN_H_

#include <cstdint>
#include <string>

#include "chief/core/core_types.h"
#include "chief/job/job_schedule.h"
#include "common/exchange/exchange.h"
#include "common/graph/program.h"
#include "proto/worker.pb.h"
#include "tests/simulator/network.h"

namespace cohort::simulator {

// How often what goes wrong while faults last: events per second of virtual time, for the whole
// cluster. Most seeds have few kinds, so that each kind is also seen alone.
struct FaultRates {
  double kill_worker = 0;
  double kill_ps = 0;
  double kill_chief = 0;
  double break_stream = 0;
  double cut_network = 0;
  double freeze = 0;
  double lose_message = 0;  // a message of the data path, and its stream with it
  double wedge = 0;         // a worker's step never ends; it answers all the same
  double crash_point = 0;
  uint64_t disk_full_percent = 0;   // of snapshots
  uint64_t keep_tail_percent = 50;  // of dead chiefs: records on their way to the disk survive
  // Of killed chiefs: journal and checkpoints are gone (another directory, --fresh), and the tasks
  // live. Alone, because who lived through nothing cannot tell how far a former run had come.
  uint64_t empty_directory_percent = 0;
};

// A bug that a test plants in one of the roles, to see it found.
enum class PlantedBug { kNone, kPsSnapshotForgets, kChiefPublishesEarly, kWorkerKeepsResults };

// What a seed means: a cluster, a job and what befalls them.
struct Plan {
  explicit Plan(uint64_t seed, PlantedBug bug = PlantedBug::kNone);

  uint64_t seed = 0;
  PlantedBug bug = PlantedBug::kNone;
  int workers = 1;
  int ps = 1;
  // The job: `epochs` passes over `examples` records, exactly once each, in closures of `steps`
  // batches of `batch`.
  uint64_t examples = 0;
  uint64_t batch = 0;
  uint32_t steps = 0;
  uint64_t epochs = 0;
  uint64_t window = 0;              // closures scheduled ahead
  uint64_t cut_every_us = 0;        // 0: only at the ends of epochs
  uint64_t validation_records = 0;  // after each epoch; 0: no validation
  bool keep_best = false;
  bool best_is_highest = false;
  size_t keep_checkpoints = 0;
  uint64_t shards = 0;  // of each variable
  int tablets_per_ps = 1;

  int64_t compute_us = 0;  // of a step
  int slow_worker = -1;    // one whose steps take 20 times as long
  int64_t journal_us = 0;  // an fsync takes up to so long
  int64_t restart_us = 0;  // a dead process is started again after up to so long
  int64_t faults_for_us = 0;
  FaultRates faults;
  NetworkShape network;
  CoreOptions core;
  ExchangeOptions exchange;

  JobSchedule Schedule() const;
  v1::CreateResource TrainingSet() const;
  v1::CreateResource ValidationSet() const;
  v1::Layout Layout() const;
  std::string Text() const;
};

// The variables, and the program that trains them: every example's record number e is a gradient of
// one in seen[s, e] of every row s (so in every shard, and every tablet) and in table[e]. With SGD
// of rate one the weights are minus the times that each example was used, tablet by tablet:
//
//   seen   float32[shards, examples]  pushed dense
//   table  float32[examples, 1]       pushed by rows
Program TrainProgram(const Plan& plan);
// Only pulls. Its metric kSumMetric adds the weights that it sees.
Program EvalProgram(const Plan& plan);
// The mean of kSumMetric that a validation finds if each example was used exactly `epochs` times.
double ExpectedValidation(const Plan& plan, uint64_t epochs);
inline constexpr char kSeen[] = "seen";
inline constexpr char kTable[] = "table";
inline constexpr char kExamplesMetric[] = "examples";
inline constexpr char kSumMetric[] = "sum";

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_PLAN_H_

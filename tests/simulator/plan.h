#ifndef COHORT_TESTS_SIMULATOR_PLAN_H_
#define COHORT_TESTS_SIMULATOR_PLAN_H_

#include <cstdint>
#include <string>

#include "chief/core/core_types.h"
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
  uint64_t window = 0;             // closures scheduled ahead
  uint64_t cut_every_us = 0;       // 0: only at the ends of epochs
  uint64_t evaluate_closures = 0;  // after each epoch
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

  uint64_t steps_per_epoch() const { return (examples + batch - 1) / batch; }
  uint64_t places() const { return steps_per_epoch() * epochs; }
  // Steps of the closure at a place; fewer at the end of an epoch.
  uint32_t StepsAt(uint64_t place) const;
  uint64_t EpochEnd(uint64_t place) const {
    return (place / steps_per_epoch() + 1) * steps_per_epoch();
  }
  v1::Lease LeaseAt(uint64_t place) const;

  v1::CreateResource Dataset() const;
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
// Only pulls.
Program EvalProgram(const Plan& plan);
inline constexpr char kSeen[] = "seen";
inline constexpr char kTable[] = "table";
inline constexpr char kExamplesMetric[] = "examples";

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_PLAN_H_

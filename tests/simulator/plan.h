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

// How often each fault happens during the time of faults: events per second of virtual time, for
// the whole cluster. Most seeds have few kinds, so that each kind also happens alone.
struct FaultRates {
  double kill_worker = 0;
  double kill_ps = 0;
  double kill_chief = 0;
  double break_stream = 0;
  double cut_network = 0;
  uint64_t one_way_percent = 0;  // share of cuts that stop only one direction
  double freeze = 0;
  double lose_message = 0;  // a message of the data path, and its stream with it
  double wedge = 0;         // a worker's step never ends, but the worker still answers
  double crash_point = 0;
  uint64_t disk_full_percent = 0;   // share of snapshots
  uint64_t io_error_percent = 0;    // share of snapshots, and of restores
  uint64_t keep_tail_percent = 50;  // share of dead chiefs whose unsynced records survive
  // The share of killed chiefs that find journal and checkpoints gone (another directory, --fresh)
  // while the tasks are alive. No other task dies in such a run: a restarted task would not know
  // how far the previous chief had come.
  uint64_t empty_directory_percent = 0;
  uint64_t kill_two_percent = 0;  // share of kills that also hit another task at the same moment
};

// How the job trains at its start (chief/core/job_settings.h): a mode, and the backup work of
// synchronous steps.
enum class PlanMode : uint8_t { kAsync, kSync, kDrop, kSpeculative, kBounded };

// A bug that a test plants in one of the roles, to prove that the simulator finds it.
enum class PlantedBug {
  kNone,
  kPsSnapshotForgets,
  kChiefPublishesEarly,
  kWorkerKeepsResults,
  // Synchronous steps and bounded staleness (TabletTestFaults, ProtocolFaults, ClosuresInHand).
  kPsSnapshotHasStaged,
  kPsPullIgnoresStep,
  kPsCloseIgnoresTry,
  kPsNewTryAppliesIds,
  kChiefSettlesEarly,
  kChiefClosesEarly,
  kChiefRepeatsOtherMembers,
  kChiefForgetsHalfClose,
  kChiefCountsOlderResults,
  kChiefAllowsMoreStaleness,
  kWorkerKeepsResultsOverTries,
  // Changes of the mode (ProtocolFaults).
  kChiefChangesModeEarly,
  kChiefChangesModeUnsettled,
  kChiefForgetsMode,
  // Pauses, memory and storage.
  kChiefCountsItsPause,
  kPsAnswersNeverWait,
  kChiefCommitsFailedFiles,
  kChiefIgnoresProgress,
  // Copies of tablets (CopyFaults, ProtocolFaults).
  kPsAnswersBeforeCopy,
  kPsDuplicateDoesNotWait,
  kPsFillMissesEntries,
  kPsFillForgets,
  kPsCopyLosesStaged,
  kPsOldPrimaryAnswers,
  kChiefPromotesFilling,
  kChiefHandsOverEarly,
  // Tasks that join (ProtocolFaults).
  kChiefForgetsAtOnce,
  kChiefKeepsClosures,
};

// What a seed stands for: a cluster, a job and their faults.
struct Plan {
  explicit Plan(uint64_t seed, PlantedBug bug = PlantedBug::kNone);

  uint64_t seed = 0;
  PlantedBug bug = PlantedBug::kNone;
  PlanMode mode = PlanMode::kAsync;
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
  uint64_t shards = 0;  // per variable
  int tablets_per_ps = 1;
  double moves = 0;  // per second, in which a user has tablets moved
  // Tasks that are not in TF_CONFIG: workers that join and leave, and servers that a user adds; and
  // how many of each the chief takes at once.
  int joiners = 0;
  int added_ps = 0;
  size_t worker_places = 0;
  size_t ps_places = 0;
  bool replicas = false;   // each tablet has a copy on another server
  bool has_idle = false;   // there is a variable that no program touches, on a tablet of its own
  bool evaluates = false;  // closures that do not train run beside the training
  // How often a user changes the mode during the time of faults, per second of virtual time.
  double mode_changes = 0;

  int64_t compute_us = 0;  // per step
  int slow_worker = -1;    // the worker whose steps take 20 times as long
  int64_t journal_us = 0;  // the most that an fsync takes
  int64_t block_us = 0;    // how long the disks of servers take for a block, about
  // The bytes that the limit of a server's memory leaves beside its values, for each of its pulls
  // or pushes of all values; 0: there is no limit.
  double room = 0;
  int64_t restart_us = 0;  // the longest time until a dead process is started again
  int64_t faults_for_us = 0;
  FaultRates faults;
  NetworkShape network;
  CoreOptions core;
  ExchangeOptions exchange;

  bool sync() const { return mode != PlanMode::kAsync && mode != PlanMode::kBounded; }
  bool changes_mode() const { return mode_changes > 0; }
  // What one example adds to a gradient. A synchronous step divides it by the number of its
  // members, up to kMostMembers, without a rest.
  double unit() const { return sync() || changes_mode() ? 60 : 1; }
  JobSchedule Schedule() const;
  v1::CreateResource TrainingSet() const;
  v1::CreateResource ValidationSet() const;
  v1::Layout Layout() const;
  // The bytes of all values of a server.
  uint64_t ValueBytes(int server) const;
  std::string Text() const;
};

inline constexpr uint32_t kMostMembers = 5;

// The settings of a mode that a user chooses while the job runs: any of PlanMode.
ModeSettings DrawSettings(Chance* chance);

// The variables, and the program that trains them. The record number e of an example becomes a
// gradient of unit() in table[e] and in seen[s, e] for every row s. With SGD of rate one, each
// weight is minus the number of times that its example was used; in synchronous steps, each use
// counts unit() / the members of its step:
//
//   seen   float32[shards, examples]  pushed dense
//   table  float32[examples, 1]       pushed by rows
//   idle   float32[1, 4096]           has_idle; never pushed
Program TrainProgram(const Plan& plan);
// This program only pulls. Its metric kSumMetric adds the weights that it sees. Its metric
// kSpreadMetric, and that of TrainProgram, is the sum of their differences between shards: 0 if it
// saw one version of all tablets.
Program EvalProgram(const Plan& plan);
// The mean of kSumMetric that a validation finds if each example was used exactly `epochs` times.
double ExpectedValidation(const Plan& plan, uint64_t epochs);
inline constexpr char kSeen[] = "seen";
inline constexpr char kTable[] = "table";
inline constexpr char kIdle[] = "idle";
inline constexpr char kExamplesMetric[] = "examples";
inline constexpr char kUsedMetric[] = "used";  // a vector: how often each example was used
inline constexpr char kSumMetric[] = "sum";
inline constexpr char kSpreadMetric[] = "spread";

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_PLAN_H_

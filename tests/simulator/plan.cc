#include "tests/simulator/plan.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <numeric>

#include "common/base/status.h"
#include "common/graph/expr.h"
#include "common/optimizers/optimizers.h"
#include "common/placement/placement.h"
#include "proto/config.pb.h"
#include "proto/job.pb.h"

namespace cohort::simulator {
namespace {

constexpr uint64_t kMostExamples = 64;

// The records 0, 1, ... as an IDX file of int32. It is the only real file of a simulation, and real
// datasets read it. The process removes it when it ends.
class RecordsFile {
 public:
  RecordsFile() {
    std::string pattern = std::string(::getenv("TMPDIR") != nullptr ? ::getenv("TMPDIR") : "/tmp") +
                          "/cohort-simulator-XXXXXX";
    const int fd = ::mkstemp(pattern.data());
    path_ = pattern;
    std::string bytes = {0, 0, 0x0C, 1};
    const auto add = [&bytes](uint32_t value) {
      for (int shift = 24; shift >= 0; shift -= 8)
        bytes.push_back(static_cast<char>(value >> shift));
    };
    add(kMostExamples);
    for (uint32_t i = 0; i < kMostExamples; ++i) add(i);
    std::ofstream(path_, std::ios::binary) << bytes;
    if (fd >= 0) ::close(fd);
  }
  ~RecordsFile() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

const std::string& Records() {
  static const RecordsFile file;
  return file.path();
}

// Draws the rates. Only some seeds have faults of a given kind.
FaultRates DrawFaults(Chance* chance) {
  FaultRates rates;
  const auto draw = [chance](uint64_t percent, double least, double most) {
    if (!chance->Percent(percent)) return 0.0;
    return least + (most - least) * static_cast<double>(chance->Below(1000)) / 1000;
  };
  rates.kill_worker = draw(45, 1, 15);
  rates.kill_ps = draw(35, 1, 8);
  rates.kill_chief = draw(40, 1, 8);
  rates.break_stream = draw(50, 2, 40);
  rates.lose_message = draw(50, 5, 60);
  rates.cut_network = draw(35, 1, 12);
  rates.freeze = draw(25, 1, 8);
  rates.wedge = draw(15, 1, 4);
  rates.crash_point = draw(50, 2, 15);
  rates.disk_full_percent = chance->Percent(15) ? 40 : 0;
  rates.keep_tail_percent = chance->Below(101);
  if (chance->Percent(10)) {
    rates.empty_directory_percent = 60;
    rates.kill_chief = std::max(rates.kill_chief, 2.0);
    rates.kill_worker = rates.kill_ps = rates.crash_point = 0;
  }
  return rates;
}

PlanMode DrawMode(Chance* chance) {
  const uint64_t at = chance->Below(100);
  if (at < 50) return PlanMode::kAsync;
  if (at < 66) return PlanMode::kSync;
  if (at < 77) return PlanMode::kDrop;
  if (at < 88) return PlanMode::kSpeculative;
  return PlanMode::kBounded;
}

const char* NameOf(PlanMode mode) {
  switch (mode) {
    case PlanMode::kAsync:
      return "async";
    case PlanMode::kSync:
      return "sync";
    case PlanMode::kDrop:
      return "sync, drop";
    case PlanMode::kSpeculative:
      return "sync, speculative";
    case PlanMode::kBounded:
      return "bounded staleness";
  }
  return "";
}

CoreOptions DrawCoreOptions(const Plan& plan, Chance* chance) {
  CoreOptions core;
  core.job = "simulated";
  for (int i = 0; i < plan.workers; ++i) core.workers.push_back(fmt::format("worker{}:1", i));
  for (int i = 0; i < plan.ps; ++i) core.ps.push_back(fmt::format("ps{}:1", i));
  core.checkpoint_dir = "/checkpoints";
  core.directory_token = "token";
  core.seed = plan.seed;
  core.closures_in_flight = static_cast<uint32_t>(chance->Between(1, 6));
  core.max_attempts = 1000;  // here nothing is the closure's fault
  core.max_give_backs = 1000;
  core.settle_interval_us = chance->Between(2, 40) * 1000;
  core.ping_interval_us = 100'000;
  core.silence_us = 600'000;
  core.probe_patience_us = 800'000;
  core.probe_again_us = 50'000;
  core.adopt_grace_us = 500'000;
  core.server_grace_s = static_cast<double>(chance->Between(20, 300)) / 1000;
  core.set_aside_us = 100'000;
  core.closure_timeout_s = 1.5;
  core.task_timeout_s = 20;
  core.cancel_deadline_us = 500'000;
  core.cut_deadline_s =
      static_cast<double>(chance->Percent(60) ? chance->Between(1, 30) : 500) / 1000;
  core.snapshot_deadline_us = 1'000'000;
  core.write_deadline_us = 2'000'000;
  core.assign_deadline_us = 2'000'000;
  core.close_deadline_us = 5'000'000;
  core.test_faults.publish_before_durable = plan.bug == PlantedBug::kChiefPublishesEarly;
  core.test_faults.settles_before_closed = plan.bug == PlantedBug::kChiefSettlesEarly;
  core.test_faults.closes_before_closed = plan.bug == PlantedBug::kChiefClosesEarly;
  core.test_faults.repeats_other_members = plan.bug == PlantedBug::kChiefRepeatsOtherMembers;
  core.test_faults.forgets_half_close = plan.bug == PlantedBug::kChiefForgetsHalfClose;
  core.test_faults.counts_older_results = plan.bug == PlantedBug::kChiefCountsOlderResults;
  core.test_faults.allows_more_staleness = plan.bug == PlantedBug::kChiefAllowsMoreStaleness;
  core.test_faults.changes_mode_early = plan.bug == PlantedBug::kChiefChangesModeEarly;
  core.test_faults.changes_mode_unsettled = plan.bug == PlantedBug::kChiefChangesModeUnsettled;
  core.test_faults.forgets_mode = plan.bug == PlantedBug::kChiefForgetsMode;
  core.test_faults.hands_over_early = plan.bug == PlantedBug::kChiefHandsOverEarly;
  core.test_faults.promotes_filling = plan.bug == PlantedBug::kChiefPromotesFilling;
  core.test_faults.forgets_at_once = plan.bug == PlantedBug::kChiefForgetsAtOnce;
  core.test_faults.keeps_closures = plan.bug == PlantedBug::kChiefKeepsClosures;
  core.test_faults.commits_failed_files = plan.bug == PlantedBug::kChiefCommitsFailedFiles;
  core.test_faults.ignores_progress = plan.bug == PlantedBug::kChiefIgnoresProgress;
  return core;
}

ModeSettings SettingsOf(PlanMode mode, Chance* chance) {
  ModeSettings settings;
  if (mode == PlanMode::kAsync) return settings;
  settings.closures_per_step = static_cast<uint32_t>(chance->Between(1, kMostMembers));
  if (mode == PlanMode::kBounded) {
    settings.mode = ConsistencyMode::kBounded;
    settings.staleness = static_cast<uint32_t>(chance->Between(0, 2));
    return settings;
  }
  settings.mode = ConsistencyMode::kSync;
  if (mode == PlanMode::kSpeculative) settings.backup_work = BackupWork::kSpeculative;
  if (mode == PlanMode::kDrop) {
    settings.backup_work = BackupWork::kDrop;
    settings.replicas_to_aggregate =
        static_cast<uint32_t>(chance->Between(1, static_cast<int64_t>(settings.closures_per_step)));
  }
  return settings;
}

// The mode, and what only runs of other modes than async have. It has random numbers of its own.
void DrawSteps(Plan* plan) {
  Chance chance(plan->seed ^ 0x5350);
  plan->faults.kill_two_percent = chance.Percent(25) ? 40 : 0;
  if (plan->faults.empty_directory_percent > 0) plan->faults.kill_two_percent = 0;
  plan->mode = DrawMode(&chance);
  if (plan->mode == PlanMode::kAsync) {
    Chance ahead(plan->seed ^ 0x50a4);
    if (ahead.Percent(50)) plan->core.pull_ahead = static_cast<uint32_t>(ahead.Between(1, 4));
    return;
  }
  plan->steps = 1;
  static_cast<ModeSettings&>(plan->core) = SettingsOf(plan->mode, &chance);
  if (plan->mode == PlanMode::kBounded) return;
  plan->evaluates = chance.Percent(30);
  if (plan->evaluates) {
    plan->window += 8;  // they wait in the queue, too
    // A restarted chief forgets places whose ids were given up for those of the evaluations.
    plan->faults.kill_chief = plan->faults.crash_point = 0;
    plan->faults.empty_directory_percent = plan->faults.kill_two_percent = 0;
  }
  plan->has_idle = chance.Percent(40);
  if (plan->has_idle) {
    plan->tablets_per_ps = static_cast<int>(chance.Between(1, 3));
    plan->shards = static_cast<uint64_t>(chance.Between(1, plan->ps));
  }
}

// Some runs change the mode. Evaluations would see the states of several modes: there are none.
void DrawModeChanges(Plan* plan) {
  Chance chance(plan->seed ^ 0x30de);
  if (plan->evaluates || !chance.Percent(15)) return;
  plan->mode_changes = static_cast<double>(chance.Between(5, 60));
  plan->steps = 1;
  plan->core.pull_ahead = 0;
}

// How the network treats large and doubled messages. It has random numbers of its own.
void DrawLinks(Plan* plan) {
  Chance chance(plan->seed ^ 0x117c);
  plan->faults.one_way_percent = chance.Percent(40) ? 60 : 0;
  plan->network.double_percent =
      chance.Percent(20) ? static_cast<uint64_t>(chance.Between(2, 30)) : 0;
  if (!chance.Percent(20)) return;
  // A row, the smallest piece of an answer, takes up to half of request_timeout_us. A server has up
  // to five rows, so a push or an answer may take two timeouts.
  const uint64_t row_us = static_cast<uint64_t>(chance.Between(20, 100) * 1000);
  plan->network.bytes_per_second = (plan->examples * 4 + 64) * 1'000'000 / row_us;
  plan->exchange.chunk_bytes =
      std::clamp<uint64_t>(plan->network.bytes_per_second / 20, 32, plan->exchange.chunk_bytes);
  plan->core.closure_timeout_s = 8;
}

// The memory and the disks of servers. They have random numbers of their own.
void DrawServers(Plan* plan) {
  Chance chance(plan->seed ^ 0x3e30);
  if (chance.Percent(30)) plan->room = static_cast<double>(chance.Between(150, 1200)) / 100;
  plan->faults.io_error_percent = chance.Percent(20) ? 30 : 0;
  // A file has up to 30 blocks, so some take several times the deadline of the chief.
  if (chance.Percent(12)) plan->block_us = chance.Between(20, 400) * 1000;
}

// The tasks that are not in TF_CONFIG. They have random numbers of their own. They do not run
// beside an emptied directory, whose chief knows none of them.
void DrawJoins(Plan* plan) {
  Chance chance(plan->seed ^ 0x701e);
  if (!chance.Percent(30) || plan->faults.empty_directory_percent > 0) return;
  plan->joiners = static_cast<int>(chance.Between(0, 3));
  plan->worker_places = static_cast<size_t>(chance.Between(1, 3));
  plan->core.join_grace_us = chance.Between(50, 400) * 1000;
  if (plan->joiners > 0 && chance.Percent(50)) return;
  plan->added_ps = static_cast<int>(chance.Between(1, 2));
  plan->ps_places = static_cast<size_t>(chance.Between(1, 2));
  plan->moves = static_cast<double>(chance.Between(5, 30));
  plan->epochs = 2;  // else it is over before a server has much
}

}  // namespace

ModeSettings DrawSettings(Chance* chance) {
  const auto mode = static_cast<PlanMode>(chance->Below(5));
  return SettingsOf(mode, chance);
}

Plan::Plan(uint64_t s, PlantedBug b) : seed(s), bug(b) {
  Chance chance(s);
  workers = static_cast<int>(chance.Between(1, 4));
  ps = static_cast<int>(chance.Between(1, 3));
  examples = static_cast<uint64_t>(chance.Between(10, kMostExamples));
  batch = static_cast<uint64_t>(chance.Between(1, 5));
  steps = static_cast<uint32_t>(chance.Between(1, 3));
  epochs = static_cast<uint64_t>(chance.Between(1, 2));
  window = static_cast<uint64_t>(chance.Between(1, 24));
  cut_every_us = chance.Percent(75) ? static_cast<uint64_t>(chance.Between(10, 200)) * 1000 : 0;
  validation_records = chance.Percent(40) ? std::min(examples, chance.Below(4) * batch) : 0;
  keep_best = validation_records > 0 && chance.Percent(60);
  best_is_highest = chance.Percent(50);
  keep_checkpoints = static_cast<size_t>(chance.Between(1, 3));
  shards = static_cast<uint64_t>(chance.Between(ps, 5));
  tablets_per_ps = static_cast<int>(chance.Between(1, 2));

  compute_us = chance.Between(1, 20) * 500;
  slow_worker = chance.Percent(25) ? static_cast<int>(chance.Below(4)) : -1;
  journal_us = chance.Between(1, 10) * 500;
  restart_us = chance.Between(10, 300) * 1000;
  faults = DrawFaults(&chance);
  faults_for_us = chance.Between(2, 25) * 100'000;
  network.latency_us = chance.Between(20, 400);
  network.jitter_us = chance.Between(10, 1000);
  network.slow_percent = chance.Percent(50) ? 3 : 0;
  core = DrawCoreOptions(*this, &chance);
  exchange.request_timeout_us = 200'000;
  exchange.unreachable_after_us = chance.Between(300, 600) * 1000;
  exchange.hold_timeout_us = 800'000;
  exchange.backoff_min_us = 2'000;
  exchange.backoff_max_us = 40'000;
  exchange.chunk_bytes = static_cast<uint64_t>(chance.Between(64, 2048));
  DrawSteps(this);
  DrawModeChanges(this);
  DrawLinks(this);
  DrawServers(this);
  replicas = core.copies = ps > 1 && chance.Percent(50);
  if (ps > 1 && chance.Percent(40)) moves = static_cast<double>(chance.Between(1, 20));
  DrawJoins(this);
}

JobSchedule Plan::Schedule() const {
  JobSchedule schedule;
  schedule.epochs = epochs;
  schedule.steps_per_epoch = (examples + batch - 1) / batch;
  schedule.steps_per_closure = steps;
  schedule.batch_size = batch;
  schedule.train_records = examples;
  schedule.validation_records = validation_records;
  schedule.validation_every_epochs = 1;
  return schedule;
}

namespace {

v1::CreateResource MakeDataset(const Plan& plan, const char* name, uint64_t records) {
  v1::CreateResource resource;
  resource.set_name(name);
  v1::DatasetSpec* const dataset = resource.mutable_dataset();
  *dataset->mutable_source_class() = ClassOf("idx", {{"images", ConfigOf(Records())}});
  dataset->set_take(records);
  dataset->set_shuffle(true);
  resource.set_visitation(v1::EXACTLY_ONCE);
  resource.set_seed(plan.seed);
  resource.set_batch_size(static_cast<uint32_t>(plan.batch));
  resource.add_features("image");
  return resource;
}

}  // namespace

v1::CreateResource Plan::TrainingSet() const { return MakeDataset(*this, "train", examples); }

v1::CreateResource Plan::ValidationSet() const {
  return MakeDataset(*this, "validation", validation_records);
}

v1::Layout Plan::Layout() const {
  std::vector<v1::VariableSpec> variables(2);
  variables[0].set_name(kSeen);
  variables[0].add_dims(static_cast<int64_t>(shards));
  variables[0].add_dims(static_cast<int64_t>(examples));
  variables[1].set_name(kTable);
  variables[1].add_dims(static_cast<int64_t>(examples));
  variables[1].add_dims(1);
  variables[1].set_row_reads(true);
  if (has_idle) {
    v1::VariableSpec& idle = variables.emplace_back();
    idle.set_name(kIdle);
    idle.add_dims(1);
    idle.add_dims(4096);
  }
  for (v1::VariableSpec& variable : variables) {
    variable.set_dtype(v1::FLOAT32);
    variable.set_trainable(true);
    variable.mutable_initializer()->set_class_name("Zeros");
  }
  v1::PartitionerSpec partitioner;
  partitioner.set_class_name("FixedShards");
  partitioner.set_num_shards(shards);
  const v1::OptimizerSpec optimizer = OptimizerOf("SGD", {{"learning_rate", ConfigOf(1.0)}});
  PlacementOptions placement;
  placement.cores.assign(static_cast<size_t>(ps), tablets_per_ps);
  placement.bytes_per_tablet = 1;
  placement.copies = replicas;
  auto layout = MakeLayout(variables, partitioner, {&optimizer, 1}, placement);
  if (!layout.ok()) throw std::runtime_error(layout.status().ToString());
  return *std::move(layout);
}

uint64_t Plan::ValueBytes(int server) const {
  const v1::Layout layout = Layout();
  uint64_t bytes = 0;
  for (const v1::ShardSpec& shard : layout.shards()) {
    for (const v1::TabletSpec& tablet : layout.tablets()) {
      const bool here =
          static_cast<int>(tablet.ps()) == server || static_cast<int>(tablet.copy()) == server + 1;
      if (tablet.tablet() != shard.tablet() || !here) continue;
      const auto& dims = layout.variables(static_cast<int>(shard.variable())).dims();
      bytes += shard.rows() * static_cast<uint64_t>(dims[1]) * sizeof(float);
    }
  }
  return bytes;
}

std::string Plan::Text() const {
  return fmt::format(
      "seed {}: {}{}, {:.0f} moves per second, changed {:.0f} times per second, pull_ahead {}, "
      "steps of {} closures ({} "
      "close "
      "one, staleness {}){}{}, {} workers and {} "
      "that join, {} ps and {} that are added, with "
      "{} shards, {} epochs of {} examples in closures of {} x {}; "
      "faults per second for {} ms: worker {:.1f}, ps {:.1f}, chief {:.1f}, stream {:.1f}, message "
      "{:.1f}, cut {:.1f}, freeze {:.1f}, wedge {:.1f}, crash point {:.1f}, disk full {} %, "
      "directory "
      "emptied {} %, cuts of one way {} %, errors of disks {} %; {} bytes per second (0: any), {} "
      "% "
      "of messages twice; {:.2f} times the values are room (0: any), {} us for a block of a file",
      seed, NameOf(mode), replicas ? ", copies" : "", moves, mode_changes, core.pull_ahead,
      core.closures_per_step, core.replicas_to_aggregate, core.staleness,
      has_idle ? ", an idle variable" : "", evaluates ? ", evaluations" : "", workers, joiners, ps,
      added_ps, shards, epochs, examples, steps, batch, faults_for_us / 1000, faults.kill_worker,
      faults.kill_ps, faults.kill_chief, faults.break_stream, faults.lose_message,
      faults.cut_network, faults.freeze, faults.wedge, faults.crash_point, faults.disk_full_percent,
      faults.empty_directory_percent, faults.one_way_percent, faults.io_error_percent,
      network.bytes_per_second, network.double_percent, room, block_us);
}

// ------------------------------------------------------------------ programs

namespace {

struct Traced {
  Expr mask;  // [examples]: how often each is in the batch
  Expr seen;  // as it was pulled
  Expr rows;  // the table's
  Expr keys;
};

Traced Trace(const Plan& plan, ProgramBuilder* b) {
  const auto examples = static_cast<int64_t>(plan.examples);
  const auto batch = static_cast<int64_t>(plan.batch);
  const int symbol = b->AddSymbol("batch", batch);
  const Expr ids = b->Input("image", {DType::kInt32, {{batch, symbol}}});
  std::vector<float> numbers(plan.examples);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  const Expr all = b->Constant(Tensor::FromValues<float>({1, examples}, numbers));
  const Expr wanted = Reshape(Cast(ids, DType::kFloat32), {-1, 1});
  Traced traced;
  traced.mask = ReduceSum(Cast(Equal(wanted, all), DType::kFloat32), {0});
  traced.seen =
      b->Read(kSeen, {DType::kFloat32, {{static_cast<int64_t>(plan.shards)}, {examples}}});
  traced.keys = Unique(Cast(ids, DType::kInt64)).first;
  traced.rows = b->ReadRows(kTable, {DType::kFloat32, {{examples}, {1}}}, traced.keys);
  return traced;
}

// How far apart the weights of different shards are, which is 0 in one version.
void AddSpread(const Traced& traced, ProgramBuilder* b) {
  const Expr most = ReduceMax(traced.seen, {0});
  const Expr least = -ReduceMax(-traced.seen, {0});
  const Expr wanted = ReduceSum(most * traced.mask);
  b->AddMetric(kSpreadMetric, ReduceSum(most - least) + Abs(wanted - ReduceSum(traced.rows)),
               b->Scalar(1, DType::kFloat32));
}

Program Built(ProgramBuilder* b) {
  auto program = std::move(*b).Build();
  if (!program.ok()) throw std::runtime_error(program.status().ToString());
  return *std::move(program);
}

}  // namespace

Program TrainProgram(const Plan& plan) {
  ProgramBuilder b("train");
  const Traced traced = Trace(plan, &b);
  Push seen;
  seen.variable = b.DeclareVariable(kSeen, traced.seen.type());
  seen.kind = PushKind::kGradient;
  seen.value = BroadcastLike(traced.mask * plan.unit(), traced.seen).id();
  b.AddPush(seen);
  Push table;
  table.variable =
      b.DeclareVariable(kTable, {DType::kFloat32, {{static_cast<int64_t>(plan.examples)}, {1}}});
  table.kind = PushKind::kGradient;
  table.keys = traced.keys.id();
  table.value = (traced.rows * 0.0 + plan.unit()).id();
  b.AddPush(table);
  b.SetLoss(b.Scalar(1, DType::kFloat32));
  b.AddMetric(kExamplesMetric, ReduceSum(traced.mask), b.Scalar(1, DType::kFloat32));
  v1::ClassConfig single;
  single.set_class_name("Single");
  AddSpread(traced, &b);
  const MetricExpr used[] = {{"used", traced.mask}};
  b.AddMetric(kUsedMetric, single, used);
  return Built(&b);
}

Program EvalProgram(const Plan& plan) {
  ProgramBuilder b("evaluate");
  const Traced traced = Trace(plan, &b);
  b.AddMetric(kSumMetric, ReduceSum(traced.seen) + ReduceSum(traced.rows), ReduceSum(traced.mask));
  AddSpread(traced, &b);
  return Built(&b);
}

double ExpectedValidation(const Plan& plan, uint64_t epochs) {
  const double batches = static_cast<double>(plan.Schedule().ValidationBatches().size());
  const double records = static_cast<double>(plan.validation_records);
  const double weights_per_batch = static_cast<double>(plan.shards * plan.examples);
  return -static_cast<double>(epochs) * (batches * weights_per_batch + records) / records;
}

}  // namespace cohort::simulator

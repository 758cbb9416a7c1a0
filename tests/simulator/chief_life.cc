#include "tests/simulator/chief_life.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/status.h"
#include "common/graph/program_proto.h"

namespace cohort::simulator {
namespace {

constexpr int64_t kTickUs = 10'000;
constexpr int64_t kRedialUs = 20'000;
// A tick that comes so much later follows a pause of the chief (AttendedClock).
constexpr int64_t kPauseUs = 100'000;

CoreOptions MakeCoreOptions(const Cluster& cluster, const Node& node) {
  CoreOptions options = cluster.plan.core;
  options.chief_incarnation = node.incarnation();
  const std::vector<v1::JournalRecord> journal = cluster.disk.ReadJournal();
  options.continued = !journal.empty();
  AddPlaces(JoinedIn(journal), cluster.plan.worker_places, cluster.plan.ps_places, &options);
  return options;
}

v1::Program ToProto(const Program& program) {
  v1::Program proto;
  ProgramToProto(program, &proto);
  return proto;
}

}  // namespace

ChiefLife::ChiefLife(Cluster* cluster, Node* node)
    : cluster_(cluster),
      node_(node),
      world_(cluster->world),
      schedule_(cluster->plan.Schedule()),
      state_([cluster](const std::string& path) { return cluster->disk.Manifest(path); }),
      clock_(cluster->plan.bug == PlantedBug::kChiefCountsItsPause ? INT64_MAX : kPauseUs),
      core_(std::make_unique<CoordinatorCore>(MakeCoreOptions(*cluster, *node), this)),
      walk_(std::make_unique<Fiber>([this] { Run(); })),
      wait_(node, walk_.get()),
      user_(std::make_unique<Fiber>([this] { ChangeModes(); })),
      user_wait_(node, user_.get()),
      training_(cluster, core_.get(), &wait_, &user_wait_),
      log_(cluster->MakeLog(*node)),
      line_(world_, {},
            [w = world_](std::string_view text) { w->Trace("chief prints: {}", text); }),
      console_(&line_),
      metrics_(&console_, log_.get()),
      catalog_(&cluster->disk, cluster->plan.core.checkpoint_dir) {
  if (cluster->plan.keep_best) {
    best_ = std::make_unique<BestTracker>(BestRule{.metric = std::string("val_") + kSumMetric,
                                                   .highest = cluster->plan.best_is_highest},
                                          &catalog_, &console_, log_.get());
  }
  ++cluster->ledger.statistics.chief_lives;
  node->After(0, [this] { walk_->Resume(); });
  if (cluster->plan.changes_mode()) node->After(0, [this] { user_->Resume(); });
  if (cluster->plan.moves > 0) MoveTablets();
}

ChiefLife::~ChiefLife() {
  user_.reset();
  walk_.reset();
  cluster_->ledger.statistics.Add(core_->view().counters());
  cluster_->ledger.statistics.handed_over += core_->view().homes.handed_over();
  // Some of the records on their way to the disk may have arrived. A segment arrives whole.
  const auto arrives = [this] {
    return world_->chance.Percent(cluster_->plan.faults.keep_tail_percent);
  };
  if (base_.has_value() && arrives()) cluster_->disk.StartSegment(generation_, {*base_});
  if (!writing_.empty()) {
    size_t count = 0;
    while (count < writing_.size() && arrives()) ++count;
    if (journal_begun_ || count == writing_.size()) StoreJournal(count);
  }
}

void ChiefLife::Input(const std::function<void(CoordinatorCore*)>& input) {
  input(core_.get());
  wait_.Poll();
  user_wait_.Poll();
}

// ------------------------------------------------------------------ the walk

void ChiefLife::Run() {
  const absl::Status status = RunJob();
  world_->Trace("chief: the job ends: {}", status.ToString());
  if (status.ok()) {
    cluster_->finished = true;
    node_->Retire();
  } else {
    ++cluster_->ledger.statistics.chiefs_gave_up;
  }
  node_->Exit();
}

absl::Status ChiefLife::RunJob() {
  COHORT_ASSIGN_OR_RETURN(const auto newest, catalog_.NewestManifest());
  if (newest.has_value() && newest->finished()) return absl::OkStatus();
  COHORT_ASSIGN_OR_RETURN(const JobWalk::Options options, StartCluster());
  JobWalk walk({.cluster = &training_,
                .catalog = &catalog_,
                .schedule = &schedule_,
                .clock = world_,
                .log = log_.get(),
                .console = &console_,
                .metrics = &metrics_,
                .best = best_.get()},
               options);
  COHORT_RETURN_IF_ERROR(walk.Run());
  return training_.Shutdown("the job is finished", /*job_finished=*/true);
}

absl::StatusOr<JobWalk::Options> ChiefLife::StartCluster() {
  const Plan& plan = cluster_->plan;
  Tick();
  const CoreOptions& known = core_->view().context.options;
  for (const Task task : core_->view().membership.tasks()) {
    const auto& addresses = task.role == Role::kWorker ? known.workers : known.ps;
    DialJoined(task, addresses[static_cast<size_t>(task.index)]);
  }
  COHORT_RETURN_IF_ERROR(training_.WaitUntilReady());
  const Program train = TrainProgram(plan);
  const Program eval = EvalProgram(plan);
  JobWalk::Options options;
  options.job_name = "simulated";
  options.epochs.step.program = core_->setup()->AddProgram(Fingerprint(train), ToProto(train));
  options.epochs.dataset.resource = core_->setup()->AddResource(plan.TrainingSet());
  options.epochs.window = plan.window;
  options.epochs.poll_seconds = 0.01;
  options.validation.function.program =
      core_->setup()->AddProgram(Fingerprint(eval), ToProto(eval));
  if (plan.validation_records > 0) {
    options.validation.dataset.resource = core_->setup()->AddResource(plan.ValidationSet());
  }
  training_.EvaluateBeside(options.validation.function.program, options.epochs.dataset.resource);
  options.checkpoints = {.every_seconds = static_cast<double>(plan.cut_every_us) / 1e6,
                         .every_epochs = 1};
  COHORT_RETURN_IF_ERROR(training_.CreateVariables(plan.Layout()));
  world_->Trace("chief: serves timeline {}, {} of {} steps done", core_->view().timeline(),
                core_->view().settlement.steps(), schedule_.steps());
  return options;
}

// ------------------------------------------------------------------ the user

void ChiefLife::ChangeModes() {
  const Plan& plan = cluster_->plan;
  while (true) {
    const double gap_us = world_->chance.Exponential() / plan.mode_changes * 1e6;
    user_wait_.For([] { return false; }, static_cast<int64_t>(gap_us), "the user");
    if (cluster_->faults_over) return;
    const ModeSettings settings = DrawSettings(&world_->chance);
    CountChange(settings, training_.SetMode(settings));
  }
}

void ChiefLife::MoveTablets() {
  const Plan& plan = cluster_->plan;
  const double gap_us = world_->chance.Exponential() / plan.moves * 1e6;
  node_->After(static_cast<int64_t>(gap_us), [this, &plan] {
    const int workers = plan.workers + static_cast<int>(plan.worker_places);
    if (cluster_->faults_over) {
      for (int worker = 0; worker < workers; ++worker) FenceWorker(worker, false);
      return;
    }
    if (world_->chance.Percent(30)) {
      const auto worker = static_cast<int>(world_->chance.Between(0, workers - 1));
      FenceWorker(worker, world_->chance.Percent(70));
    }
    if (plan.added_ps > 0 && world_->chance.Percent(40)) AddServer();
    using What = TabletMove::What;
    static constexpr What kWhat[] = {What::kDrain, What::kReturn, What::kRebalance, What::kMove,
                                     What::kFence};
    const int64_t what = world_->chance.Between(0, plan.replicas ? 4 : 3);
    const int ps = plan.ps + static_cast<int>(plan.ps_places);
    Move({.what = kWhat[what],
          .ps = static_cast<int>(world_->chance.Between(0, ps - 1)),
          .tablet =
              static_cast<uint32_t>(world_->chance.Between(0, plan.ps * plan.tablets_per_ps - 1))});
    MoveTablets();
  });
}

void ChiefLife::AddServer() {
  const Plan& plan = cluster_->plan;
  const uint64_t which = world_->chance.Below(static_cast<uint64_t>(plan.added_ps));
  Node* const server = cluster_->ps[static_cast<size_t>(plan.ps) + which].get();
  const std::vector<std::string>& known = core_->view().context.options.ps;
  if (std::ranges::find(known, server->address) != known.end()) {
    if (world_->chance.Percent(25)) server->Kill();  // no matter what it has
    return;
  }
  Move({.what = TabletMove::What::kAdd, .address = server->address});
  node_->After(world_->chance.Between(1'000, 60'000),
               [this] { Move({.what = TabletMove::What::kRebalance}); });
}

void ChiefLife::Move(const TabletMove& move) {
  Input([&](CoordinatorCore* core) {
    const absl::Status status = core->MoveTablets(move);
    world_->Trace("chief: tablets move ({}, ps:{}{}): {}", static_cast<int>(move.what), move.ps,
                  move.address, status.ToString());
  });
}

void ChiefLife::FenceWorker(int worker, bool fenced) {
  Input([&](CoordinatorCore* core) {
    const absl::Status status = core->FenceWorker(worker, fenced, /*again=*/false);
    world_->Trace("chief: worker:{} is {}: {}", worker, fenced ? "fenced" : "not fenced",
                  status.ToString());
    if (fenced && status.ok()) ++cluster_->ledger.statistics.workers_fenced;
  });
}

void ChiefLife::CountChange(const ModeSettings& settings, const absl::Status& status) {
  Statistics& s = cluster_->ledger.statistics;
  world_->Trace("chief: the mode is changed: {}", status.ToString());
  if (absl::IsDeadlineExceeded(status)) cluster_->ledger.Violate("{}", status.ToString());
  if (absl::IsAborted(status)) ++s.changes_undone;
  if (!status.ok()) return;
  if (settings.mode == ConsistencyMode::kAsync) ++s.changes_to_async;
  if (settings.mode == ConsistencyMode::kSync) ++s.changes_to_sync;
  if (settings.mode == ConsistencyMode::kBounded) ++s.changes_to_bounded;
}

// ------------------------------------------------------------------ inputs

void ChiefLife::Tick() {
  const int64_t now_us = world_->now_us();
  const int64_t before_us = std::exchange(ticked_us_, now_us);
  was_stopped_ = before_us > 0 && now_us - before_us > kPauseUs;
  if (was_stopped_) ++cluster_->ledger.statistics.chief_pauses;
  clock_.Tick(now_us);
  Input([&](CoordinatorCore* core) { core->Tick(clock_.At(now_us)); });
  was_stopped_ = false;
  node_->After(kTickUs, [this] { Tick(); });
}

// ------------------------------------------------------------------ streams

void ChiefLife::DialJoined(Task task, const std::string& address) {
  LinkOf(task).address = address;
  Dial(task);
}

// The core knows already that the task is gone.
void ChiefLife::HangUp(Task task) {
  const std::shared_ptr<Stream> stream = std::exchange(LinkOf(task), {}).stream;
  if (stream != nullptr) stream->Close(Stream::kDialler);
}

absl::StatusOr<Task> ChiefLife::Join(Role role, const std::string& address) {
  absl::StatusOr<Task> task;
  Input([&](CoordinatorCore* core) {
    task = core->Join(role, address);
    if (task.ok() && !core->view().joined.settled(*task)) {
      task = Unavailable("the journal does not have it yet");
    }
  });
  return task;
}

void ChiefLife::Dial(Task task) {
  const std::string& address = LinkOf(task).address;
  if (address.empty() || LinkOf(task).stream != nullptr) return;
  LinkOf(task).stream = cluster_->network.Dial(
      node_, cluster_->At(address), StreamKind::kControl,
      {.on_open = [this, task] { Input([&](CoordinatorCore* core) { core->OnConnected(task); }); },
       .on_message =
           [this, task](Message message) {
             Input([&](CoordinatorCore* core) {
               if (task.role == Role::kWorker) {
                 core->OnWorkerMessage(task.index, std::get<v1::WorkerToChief>(std::move(message)));
               } else {
                 core->OnPsMessage(task.index, std::get<v1::PsToChief>(message));
               }
             });
           },
       .on_closed = [this, task](bool) { OnClosed(task, "the stream broke"); }});
}

void ChiefLife::OnClosed(Task task, const std::string& why) {
  LinkOf(task).stream = nullptr;
  Input([&](CoordinatorCore* core) { core->OnDisconnected(task, why); });
  node_->After(kRedialUs, [this, task] { Dial(task); });
}

void ChiefLife::Reconnect(Task task, const std::string& why) {
  std::weak_ptr<Stream> aborted = LinkOf(task).stream;
  node_->After(0, [this, task, why, aborted] {
    const auto stream = aborted.lock();
    if (stream == nullptr || stream != LinkOf(task).stream) return;
    stream->Close(Stream::kDialler);
    OnClosed(task, why);
  });
}

void ChiefLife::SendToWorker(int worker, v1::ChiefToWorker message) {
  for (const v1::Closure& closure : message.dispatch().closures()) {
    if (closure.speculative()) ++cluster_->ledger.statistics.copies;
    cluster_->steps.Dispatched(closure, core_->view().steps.mode().settings());
  }
  if (message.has_dispatch()) CheckPublished(message.dispatch().settled_watermark());
  const auto& stream = LinkOf(WorkerTask(worker)).stream;
  if (stream != nullptr) stream->Send(Stream::kDialler, std::move(message));
}

void ChiefLife::SendToPs(int ps, v1::ChiefToPs message) {
  if (message.has_watermark()) CheckPublished(message.watermark().settled_watermark());
  if (message.has_abandon_step()) ++cluster_->ledger.statistics.steps_abandoned;
  if (message.has_close_step()) {
    const ModeSwitch& mode = core_->view().steps.mode();
    cluster_->steps.AskedToClose(message.close_step(), mode.settings(), mode.changing());
  }
  const auto& stream = LinkOf(PsTask(ps)).stream;
  if (stream != nullptr) stream->Send(Stream::kDialler, std::move(message));
}

// ------------------------------------------------------------------ disk

void ChiefLife::TakeGeneration(uint64_t heard) {
  node_->After(world_->chance.Between(100, cluster_->plan.journal_us), [this, heard] {
    generation_ = cluster_->disk.TakeGeneration(heard);
    Input([this](CoordinatorCore* core) { core->OnGeneration(generation_); });
  });
}

void ChiefLife::ReadJournal() {
  node_->After(world_->chance.Between(100, cluster_->plan.journal_us), [this] {
    Input([this](CoordinatorCore* core) { core->OnRecovered(RecoverJournal()); });
  });
}

absl::StatusOr<Recovered> ChiefLife::RecoverJournal() {
  for (const v1::JournalRecord& record : cluster_->disk.ReadJournal()) {
    COHORT_RETURN_IF_ERROR(state_.Apply(record));
  }
  return state_.Recover(cluster_->disk.Newest());
}

void ChiefLife::AppendJournal(v1::JournalRecord record) {
  queue_.push_back(std::move(record));
  if (!journal_busy_) WriteJournal();
}

// All queued records share one fsync. Starts a new segment when JournalThread does, and sometimes
// at random, which stands for a segment that has grown too long.
void ChiefLife::WriteJournal() {
  journal_busy_ = true;
  writing_ = std::exchange(queue_, {});
  node_->After(world_->chance.Between(100, cluster_->plan.journal_us), [this] {
    const bool begins = !journal_begun_;
    StoreJournal(writing_.size());
    const std::vector<v1::JournalRecord> written = std::exchange(writing_, {});
    Input([&](CoordinatorCore* core) { core->OnJournaled(written.back().number()); });
    bool due = world_->chance.Percent(2);
    for (const v1::JournalRecord& record : written) {
      const absl::Status status = state_.Apply(record);
      if (!status.ok()) cluster_->ledger.Violate("the journal: {}", status.ToString());
      due = due || record.has_cut();
    }
    if (begins) {
      DeleteOlderSegments();
    } else if (due) {
      StartSegment();
    } else {
      EndWrite();
    }
  });
}

void ChiefLife::StoreJournal(size_t count) {
  std::vector<v1::JournalRecord> records(writing_.begin(),
                                         writing_.begin() + static_cast<int64_t>(count));
  if (journal_begun_) {
    for (v1::JournalRecord& record : records) {
      cluster_->disk.Append(generation_, std::move(record));
    }
    return;
  }
  if (auto base = state_.Base(); base.has_value()) records.insert(records.begin(), *base);
  cluster_->disk.StartSegment(generation_, std::move(records));
  journal_begun_ = true;
}

void ChiefLife::StartSegment() {
  base_ = state_.Base();
  if (!base_.has_value()) return EndWrite();  // the manifest of the rollback is gone
  node_->After(world_->chance.Between(100, cluster_->plan.journal_us), [this] {
    cluster_->disk.StartSegment(generation_, {*std::exchange(base_, std::nullopt)});
    ++cluster_->ledger.statistics.segments;
    DeleteOlderSegments();
  });
}

void ChiefLife::DeleteOlderSegments() {
  node_->After(world_->chance.Between(1, 500), [this] {
    cluster_->disk.DeleteOlderSegments(generation_);
    EndWrite();
  });
}

void ChiefLife::EndWrite() {
  journal_busy_ = false;
  if (!queue_.empty()) WriteJournal();
}

void ChiefLife::WriteManifest(v1::Manifest manifest) {
  if (manifest.chief().pending_size() > 0) ++cluster_->ledger.statistics.cuts_with_pending;
  node_->After(
      world_->chance.Between(200, 5'000),
      [this, manifest = std::move(manifest)]() mutable { CommitManifest(std::move(manifest)); });
}

void ChiefLife::CommitManifest(v1::Manifest manifest) {
  if (!core_->view().cut.commits(manifest.cut())) return;  // abandoned meanwhile
  if (best_ != nullptr) best_->keeper()->Complete(&manifest);
  CheckValidated(manifest);
  const std::string directory = catalog_.PathOf(IdOf(manifest).ToString());
  cluster_->disk.Commit(directory, manifest, cluster_->plan.keep_checkpoints);
  cluster_->steps.Committed(directory + "/" + kManifestName, manifest);
  // The checkpoint is committed, but no task knows it yet: a place to die.
  node_->After(world_->chance.Between(1, 2'000), [this, manifest, directory] {
    Input([&](CoordinatorCore* core) {
      const bool taken = core->OnManifestWritten(manifest.cut(), absl::OkStatus(),
                                                 directory + "/" + kManifestName);
      if (!taken) return;
      training_.OnCommitted(directory);
      if (best_ != nullptr) best_->keeper()->Committed(manifest);
    });
  });
}

// Checks that a validation saw the weights of its state and no others, and that the best checkpoint
// exists.
void ChiefLife::CheckValidated(const v1::Manifest& manifest) {
  Ledger& ledger = cluster_->ledger;
  if (manifest.has_validated()) ++ledger.statistics.validated;
  const Plan& plan = cluster_->plan;
  if (manifest.has_validated() && !plan.sync() && !plan.changes_mode()) {
    const double expected = ExpectedValidation(plan, manifest.epoch());
    if (std::abs(manifest.validated().value() - expected) > 1e-6 * std::abs(expected)) {
      ledger.Violate("the validation after {} epochs found {}, not {}", manifest.epoch(),
                     manifest.validated().value(), expected);
    }
  }
  if (!manifest.has_best()) return;
  const std::string& best = manifest.best().checkpoint();
  if (best != IdOf(manifest).ToString() && catalog_.IsGone(best)) {
    ledger.Violate("{} names {} as the best checkpoint, which does not exist",
                   IdOf(manifest).ToString(), best);
  }
}

// ------------------------------------------------------------------ what is observed

std::string ChiefLife::Text() const {
  std::string text = fmt::format(
      "chief: {}, the walk waits for {}; {}; served {}, timeline {}, next place {}, queued {}, in "
      "flight {}, error pending {}, cut {}\n",
      console_.activity(), wait_.what(), core_->view().WaitingFor(), core_->view().served(),
      core_->view().timeline(), core_->view().scheduler.next_place(),
      core_->view().closures.queue().queued(), core_->view().closures.queue().in_flight(),
      core_->view().error_pending(), core_->view().cut.active());
  for (const UnfinishedClosure& open : core_->view().Unfinished()) {
    text += fmt::format("  closure {} of place {} is not scheduled\n", open.id, open.place);
  }
  return text;
}

void ChiefLife::CheckPublished(uint64_t watermark) {
  const uint64_t timeline = core_->view().timeline();
  if (timeline == published_timeline_ && watermark <= published_) return;
  published_ = watermark;
  published_timeline_ = timeline;
  cluster_->steps.Settled(timeline, watermark);
  cluster_->ledger.events.push_back(
      {.closure = watermark, .timeline = timeline, .verdict = "published"});
  const auto recovered = cluster_->disk.RecoverNow();
  if (!recovered.ok() || recovered->timeline != timeline) return;
  if (recovered->watermark < watermark) {
    cluster_->ledger.Violate(
        "the chief published watermark {} of timeline {}; the journal holds no more than {}",
        watermark, timeline, recovered->watermark);
  }
}

// A chief that was stopped has not read what the tasks have sent meanwhile.
void ChiefLife::Note(const char* event, const std::string& what) {
  world_->Trace("chief: {} {}", event, what);
  Statistics& s = cluster_->ledger.statistics;
  const bool worker = what.starts_with("worker");
  if (event == std::string_view("task_joins")) ++(worker ? s.workers_joined : s.servers_added);
  const size_t to =
      event == std::string_view("tablet_handed_over") ? what.find("to ps:") : what.npos;
  if (to != what.npos && what[to + 6] >= '0' + cluster_->plan.ps) ++s.handed_to_added;
  if (event == std::string_view("task_left")) ++(worker ? s.workers_left : s.servers_forgotten);
  if (was_stopped_ && event == std::string_view("task_silent")) {
    cluster_->ledger.Violate("the chief was stopped, and blames a task: {}", what);
  }
}

std::unique_ptr<Life> StartChief(Cluster* cluster, Node* node) {
  return std::make_unique<ChiefLife>(cluster, node);
}

}  // namespace cohort::simulator

#include "chief/core/coordinator_core.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "common/base/status.h"
#include "common/base/status_proto.h"

namespace cohort {
namespace {

// How long a server is away until another one answers for its tablets: a stream that only broke is
// opened again sooner.
constexpr int64_t kPromoteAfterUs = 100'000;

}  // namespace

CoordinatorCore::CoordinatorCore(CoreOptions options, CoreEffects* effects)
    : context_(std::move(options)),
      outbox_(effects),
      membership_(&context_.options, &outbox_),
      joined_(&context_.options, &outbox_, &membership_),
      adoption_(&context_, &outbox_, &membership_),
      settlement_(&outbox_, context_.options.settle_interval_us, context_.options.test_faults),
      servers_(&context_, &outbox_, &membership_),
      homes_(&context_, &outbox_, &membership_, &servers_),
      variables_(&context_, &outbox_, &membership_, &servers_, &homes_),
      rollback_(&context_.options, &outbox_, &homes_),
      cut_(&context_.options, &outbox_),
      setup_(&context_, &outbox_, &settlement_),
      queue_(context_.options.queue_capacity, context_.options.workers.size()),
      error_(&context_, &queue_, &unfinished_),
      closures_(&context_, &outbox_, &settlement_, &queue_, &unfinished_, &error_),
      steps_(&context_, &outbox_, &closures_, &homes_),
      scheduler_(&context_, &outbox_, &settlement_, &closures_),
      dispatcher_({.context = &context_,
                   .outbox = &outbox_,
                   .membership = &membership_,
                   .settlement = &settlement_,
                   .setup = &setup_,
                   .closures = &closures_,
                   .error = &error_,
                   .steps = &steps_,
                   .gate = [this] { return Gate(); }}),
      end_(&outbox_) {}

void CoordinatorCore::SetTimeline(uint64_t timeline) {
  context_.timeline = timeline;
  context_.era = EraOf(outbox_.generation(), timeline);
}

void CoordinatorCore::Enter(absl::StatusOr<Phase> phase) {
  if (phase.ok()) {
    context_.phase = *phase;
  } else {
    FailForGood(std::move(phase).status());
  }
}

DispatchGate CoordinatorCore::Gate() const {
  return {.open = phase() == Phase::kReady && served() && !end_.begun() && homes_.there() &&
                  homes_.steady() && !rollback_.active(),
          .training = steps_.sync() ? !paused_ || !steps_.open().empty()
                                    : !paused_ && !cut_.holds_dispatch(),
          .ids_end = std::min(scheduler_.durable_end(),
                              settlement_.watermark() + context_.options.max_ids_ahead)};
}

void CoordinatorCore::Advance() {
  if (phase() == Phase::kFailed) return;
  AdvanceHomes();
  if (phase() == Phase::kReady && served() && !rollback_.active() && !end_.begun()) {
    // A promoted server is in no cut that has begun.
    homes_.Advance(variables_.layout(), steps_.open().begin(), steps_.rates().rates(),
                   /*may_hand_over=*/cut_.state() == Cut::State::kIdle);
  }
  steps_.Advance(scheduler_.next_place(), rollback_.active());
  AdvanceCut();
  // A watermark must not overtake a close.
  settlement_.LimitPublished(steps_.first_of_repeated_close());
  if (settlement_.TakePublish()) {
    servers_.PublishWatermark(settlement_.durable_watermark());
    dispatcher_.PublishWatermark();
  }
  dispatcher_.Advance();
  AdvanceStop();
}

// ------------------------------------------------------------------ the clock

void CoordinatorCore::Tick(int64_t now_us) {
  const Advancing advancing(this);
  const bool first = context_.now_us == 0;
  context_.now_us = std::max(context_.now_us, now_us);
  if (first) adoption_.Begin();
  if (ended()) return;
  membership_.Tick(context_.now_us);
  journal_watch_.Tick(outbox_.next_record() - 1, context_.now_us);
  Enter(adoption_.Advance());
  // Another server can take over at once, and a primary that lives can answer nothing without it.
  for (const int ps : servers_.AwayFor(kPromoteAfterUs)) {
    if (served() && homes_.Survives(ps)) LosePs(ps, membership_.member(PsTask(ps)).why_down);
  }
  for (const int ps : servers_.Lost()) {
    if (served()) LosePs(ps, membership_.member(PsTask(ps)).why_down);
  }
  if (phase() == Phase::kReady) {
    for (const Task gone : joined_.Tick(context_.now_us)) {
      if (gone.role == Role::kPs) {
        homes_.Forget(gone.index);
        servers_.Forget(gone.index);
      } else if (dispatcher_.pace().fenced(gone.index)) {
        dispatcher_.SetFenced(gone.index, false);
      }
    }
  }
  dispatcher_.Tick();
  CheckStranded();
  WatchLinks();
  WatchLoad();
  rollback_.Tick(context_.now_us);
  cut_.Tick(context_.now_us);
  if (absl::Status late = steps_.Tick(); !late.ok()) {
    FailStep(std::move(late));
  }
  recall_due_ = true;
  if (!rollback_.holds_settlement()) settlement_.Tick(context_.now_us);
}

void CoordinatorCore::LosePs(int ps, const std::string& why) {
  absl::Status error = servers_.LostError(ps, why);
  if (served()) {
    if (!context_.options.test_faults.promotes_filling) homes_.DropFill(ps);
    if (!homes_.Involves(ps)) return;
    if (homes_.Survives(ps)) return Replace(ps, error);
  }
  cut_.LoseServer(error);
  rollback_.Fail(error);
  if (!served()) return;
  Count(&ClusterCounters::ps_lost);
  variables_.StopServing();
  dispatcher_.Fail(std::move(error));
  steps_.LoseServer();
}

void CoordinatorCore::Replace(int ps, const absl::Status& error) {
  Count(&ClusterCounters::ps_lost);
  ++counters_.replaced;
  outbox_.effects()->Note("server_replaced", std::string(error.message()));
  if (homes_.IsPrimary(ps)) cut_.LoseServer(error);
  homes_.Lose(ps);
  steps_.OnPsReplaced(ps);
}

void CoordinatorCore::AdvanceHomes() {
  const auto promoted = homes_.TakeMoved();
  if (!promoted.has_value()) return;
  steps_.OnHomes(*promoted);
  for (int i = 0; i < membership_.workers(); ++i) variables_.SendRoutes(i);
  // A server may have missed a watermark while its tablets changed.
  settlement_.PublishAgain();
}

void CoordinatorCore::OnPong(Task task, const v1::Pong& pong) {
  membership_.OnPong(task, pong);
  if (!membership_.adopted(task)) return;
  if (task.role == Role::kPs) {
    for (const v1::TabletFigures& of : pong.figures().tablets()) {
      load_.OnMoved(task.index, of.tablet(), of.moved_bytes(), context_.now_us);
    }
    return links_.OnBytes(task.index,
                          pong.figures().sent_bytes() + pong.figures().received_bytes());
  }
  std::vector<LinkFigure> waits;
  for (const v1::LinkFigures& link : pong.figures().servers()) {
    if (link.server() >= context_.options.ps.size()) continue;
    waits.push_back({.worker = task.index,
                     .server = static_cast<int>(link.server()),
                     .requests = link.requests(),
                     .p50_seconds = link.p50_seconds(),
                     .p99_seconds = link.p99_seconds()});
  }
  links_.OnWaits(task.index, waits, context_.now_us);
}

void CoordinatorCore::WatchLinks() {
  for (const LinkWatch::Event& event : links_.Tick(context_.now_us, /*turns=*/steps_.sync())) {
    event.begins ? outbox_.effects()->Warn(event.name, event.what)
                 : outbox_.effects()->Note(event.name, event.what);
  }
}

void CoordinatorCore::WatchLoad() {
  if (!context_.options.rebalance) return;
  if (!served() || !homes_.settled()) return load_.Wait();
  const std::optional<LoadWatch::Move> due =
      load_.Tick(homes_.places(), homes_.open_servers(), context_.now_us);
  if (!due.has_value()) return;
  const absl::Status moves =
      MoveTablets({.what = TabletMove::What::kMove, .ps = due->server, .tablet = due->tablet});
  // Else it is found again.
  if (moves.ok()) outbox_.effects()->Note("tablet_moves", due->why);
}

void CoordinatorCore::CheckStranded() {
  const bool stranded = phase() == Phase::kReady && served() && queue_.size() > 0 &&
                        !error_.raised() && view_.ready_workers() == 0;
  if (!stranded) {
    stranded_since_us_ = -1;
    return;
  }
  if (stranded_since_us_ < 0) stranded_since_us_ = context_.now_us;
  const int64_t us = context_.now_us - stranded_since_us_;
  if (us < MicrosFromSeconds(context_.options.task_timeout_s)) return;
  absl::Status error =
      Unavailable("no worker took work for {} s; {}", us / 1'000'000, view_.WaitingFor());
  SetFailure(&error, {.role = "worker", .retryable = false});
  dispatcher_.Fail(std::move(error));
}

// ------------------------------------------------------------------ tasks

void CoordinatorCore::OnConnected(Task task) {
  const Advancing advancing(this);
  if (phase() == Phase::kFailed) return;
  if (membership_.adopted(task)) OnDisconnected(task, "it was dialed again");
  membership_.OnConnected(task, context_.now_us);
}

void CoordinatorCore::OnDisconnected(Task task, const std::string& why, bool left) {
  const Advancing advancing(this);
  const bool was_there = membership_.adopted(task);
  membership_.OnDisconnected(task, why, context_.now_us);
  if (!was_there || ended()) return;
  links_.OnLost(task);
  outbox_.effects()->Note(left ? "task_leaves" : "task_lost", membership_.Lost(task));
  if (task.role == Role::kPs) {
    servers_.OnDown(task.index);
    const absl::Status lost = servers_.LostError(task.index, why);
    if (!served() || homes_.IsPrimary(task.index)) cut_.LoseServer(lost);
    if (served() && !context_.options.test_faults.promotes_filling) homes_.DropFill(task.index);
    rollback_.Fail(lost);
    return;
  }
  if (!left) Count(&ClusterCounters::workers_lost);
  if (!context_.options.test_faults.keeps_closures || !IsPlace(context_.options, task)) {
    dispatcher_.OnLost(task.index);
  }
  setup_.OnLost(task.index);
}

template <typename Proto>
void CoordinatorCore::OnHello(Task task, uint64_t request, Proto hello) {
  const auto verdict = membership_.OnHello(task, HelloOf(request, hello), context_.now_us);
  const bool reborn = verdict == Membership::Verdict::kReborn;
  if (phase() == Phase::kStopped) {
    if (verdict == Membership::Verdict::kAdopted || reborn) end_.SendShutdown(task);
    return;
  }
  if (reborn || verdict == Membership::Verdict::kAdopted) {
    links_.OnAdopted(task, hello.host_id());
    if constexpr (std::is_same_v<Proto, v1::WorkerHello>) {
      OnWorkerAdopted(task.index, std::move(hello));
    } else {
      OnPsAdopted(task.index, hello, reborn);
    }
  }
  if (!ended()) Enter(adoption_.Advance());
}

void CoordinatorCore::OnWorkerAdopted(int worker, v1::WorkerHello hello) {
  variables_.OnWorkerTimeline(hello.timeline());
  if (served() || rollback_.active()) {
    absl::Status behind = variables_.CheckWorkerTimeline(WorkerTask(worker));
    if (!behind.ok()) return FailForGood(std::move(behind));
  }
  setup_.OnHello(worker, std::move(hello));
  if (phase() == Phase::kReady) SetUpWorker(worker);
}

void CoordinatorCore::OnPsAdopted(int ps, const v1::PsHello& hello, bool reborn) {
  servers_.OnHello(ps, hello);
  if (reborn) LosePs(ps, "it has come back without its tablets, as a new process");
  // The server may have missed a watermark while it was away.
  if (served()) homes_.OnPsAdopted(ps);
  if (served()) servers_.SendWatermark(ps, settlement_.durable_watermark());
  if (served() && !reborn) steps_.OnPsReturned(ps, hello);
}

void CoordinatorCore::SetUpWorker(int worker) {
  v1::WorkerHello hello = setup_.Begin(worker);
  dispatcher_.OnReturned(worker, &hello);
  variables_.SendRoutes(worker);
  setup_.Finish(worker);
  recall_due_ = true;
}

// The job must not end for a host that anybody has added.
void CoordinatorCore::Refuse(Task task, absl::Status why) {
  if (!IsPlace(context_.options, task)) return FailForGood(std::move(why));
  const std::string text(why.message());
  OnDisconnected(task, text);
  membership_.Refuse(task, text, context_.now_us);
}

void CoordinatorCore::OnBadMessages(Task task, absl::Status why) {
  const Advancing advancing(this);
  if (phase() != Phase::kFailed) Refuse(task, std::move(why));
}

void CoordinatorCore::OnFenced(Task task, const v1::Fenced& fenced) {
  absl::Status newer = adoption_.OnFenced(task, fenced);
  if (!newer.ok()) Refuse(task, std::move(newer));
}

void CoordinatorCore::OnWorkerMessage(int worker, v1::WorkerToChief message) {
  const Advancing advancing(this);
  const Task task = WorkerTask(worker);
  if (membership_.member(task).link == Link::kDown || phase() == Phase::kFailed) return;
  membership_.OnHeard(task, context_.now_us);
  switch (message.body_case()) {
    case v1::WorkerToChief::kHello:
      return OnHello(task, message.request(), std::move(*message.mutable_hello()));
    case v1::WorkerToChief::kFenced:
      return OnFenced(task, message.fenced());
    case v1::WorkerToChief::kResults:
      return OnResults(worker, message.mutable_results());
    case v1::WorkerToChief::kPsUnreachable:
      return OnPsUnreachable(worker, message.ps_unreachable());
    case v1::WorkerToChief::kPong:
      return OnPong(task, message.pong());
    case v1::WorkerToChief::BODY_NOT_SET:
      break;
  }
  if (!setup_.TakeRequest(worker, message.request())) return;
  absl::Status status = StatusFromProto(message.status());
  if (!status.ok() && IsPlace(context_.options, task)) {
    return Refuse(task, Annotate(status, membership_.Name(task)));
  }
  if (!status.ok()) return dispatcher_.Fail(Annotate(status, membership_.Name(task)));
  if (!setup_.opens_data(worker)) dispatcher_.WakeAll();
}

void CoordinatorCore::OnResults(int worker, v1::Results* results) {
  if (!membership_.adopted(WorkerTask(worker))) return;
  if (!setup_.ready(worker)) return setup_.OnResults(worker, results);
  setup_.MoveReaders(worker, results->readers());
  const bool gave_back = dispatcher_.OnResults(worker, results->mutable_results());
  if (gave_back) variables_.SendRoutes(worker);  // the worker's routes may be stale
}

void CoordinatorCore::AddWaiting(int clients) {
  const Advancing advancing(this);
  steps_.AddWaiting(clients);
}

// Some servers may have closed the step, and others not: only a rollback makes them equal again.
void CoordinatorCore::FailStep(absl::Status error) {
  variables_.StopServing();
  dispatcher_.Fail(std::move(error));
  steps_.LoseServer();
}

absl::Status CoordinatorCore::SetMode(const ModeSettings& settings) {
  const Advancing advancing(this);
  if (phase() != Phase::kReady || !served() || rollback_.active() || end_.begun()) {
    return FailedPrecondition("the mode cannot change while the variables are not served");
  }
  return steps_.SetMode(settings);
}

absl::Status CoordinatorCore::MoveTablets(const TabletMove& move) {
  const Advancing advancing(this);
  if (phase() != Phase::kReady || !served() || rollback_.active() || end_.begun()) {
    return FailedPrecondition("tablets cannot move while the variables are not served");
  }
  if (context_.options.table_memory_bytes > 0) {
    return FailedPrecondition(
        "tablets cannot move, because the job has `table_memory_bytes`: a server that gets a "
        "tablet "
        "keeps all of its rows in memory");
  }
  switch (move.what) {
    case TabletMove::What::kAdd:
      return AddServer(move.address);
    case TabletMove::What::kDrain:
      return homes_.Drain(move.ps, variables_.layout());
    case TabletMove::What::kReturn:
      return homes_.Return(move.ps);
    case TabletMove::What::kRebalance:
      return homes_.Rebalance(variables_.layout());
    case TabletMove::What::kFence:
      return FenceServer(move.ps);
    case TabletMove::What::kMove:
      return homes_.Move(move.tablet, move.ps);
  }
  return absl::OkStatus();
}

absl::Status CoordinatorCore::AddServer(const std::string& address) {
  COHORT_ASSIGN_OR_RETURN(const Task server, joined_.Join(Role::kPs, address, context_.now_us));
  if (!homes_.drained(server.index)) return absl::OkStatus();
  return homes_.Return(server.index);
}

// As Replace, for a server that may live: it can answer no push without its copies, and they hear
// the new term before anybody hears of them.
absl::Status CoordinatorCore::FenceServer(int ps) {
  const bool answered = homes_.IsPrimary(ps);
  COHORT_RETURN_IF_ERROR(homes_.Fence(ps));
  const Task task = PsTask(ps);
  ++counters_.servers_fenced;
  outbox_.effects()->Note("server_fenced", membership_.Name(task));
  if (answered) cut_.LoseServer(servers_.LostError(ps, "a user has fenced it"));
  steps_.OnPsReplaced(ps);
  return absl::OkStatus();
}

absl::Status CoordinatorCore::FenceWorker(int worker, bool fenced, bool again) {
  const Advancing advancing(this);
  // Another worker may have the place meanwhile.
  if (again && worker >= membership_.named(Role::kWorker)) return absl::OkStatus();
  if (worker < 0 || worker >= membership_.workers()) {
    return InvalidArgument("there is no worker:{}: the job has worker:0 to worker:{}", worker,
                           membership_.workers() - 1);
  }
  const WorkerPace& pace = dispatcher_.pace();
  if (!fenced && !pace.fenced(worker)) return InvalidArgument("worker:{} is not fenced", worker);
  if (fenced && context_.options.ring) {
    return FailedPrecondition("a step needs each worker, because they sum gradients in a ring");
  }
  bool others = again;
  for (int i = 0; i < membership_.workers(); ++i) {
    others |= i != worker && membership_.adopted(WorkerTask(i)) && !pace.fenced(i);
  }
  if (fenced && !others) {
    return FailedPrecondition("worker:{} cannot be fenced: no other worker would be left", worker);
  }
  dispatcher_.SetFenced(worker, fenced);
  return absl::OkStatus();
}

absl::Status CoordinatorCore::SetLearningRate(double rate, bool by_user) {
  const Advancing advancing(this);
  if (phase() != Phase::kReady || !served() || rollback_.active() || end_.begun()) {
    return FailedPrecondition("the learning rate cannot change while the variables are not served");
  }
  if (steps_.rates().changing()) {
    return FailedPrecondition("another change of the learning rate is under way");
  }
  steps_.SetLearningRate(rate, by_user, scheduler_.next_place());
  return absl::OkStatus();
}

void CoordinatorCore::SetPaused(bool paused) {
  const Advancing advancing(this);
  paused_ = paused;
}

void CoordinatorCore::OnPsUnreachable(int worker, const v1::PsUnreachable& report) {
  if (report.ps() >= context_.options.ps.size() || !membership_.adopted(WorkerTask(worker))) return;
  const Task ps = PsTask(static_cast<int>(report.ps()));
  variables_.SendRoutes(worker);  // the worker's routes may be stale
  if (!membership_.adopted(ps)) return;
  if (membership_.member(ps).incarnation != report.incarnation()) return;
  dispatcher_.SetAside(worker,
                       fmt::format("cannot reach {}: {}", membership_.Name(ps), report.error()));
}

void CoordinatorCore::OnPsMessage(int ps, const v1::PsToChief& message) {
  const Advancing advancing(this);
  const Task task = PsTask(ps);
  if (membership_.member(task).link == Link::kDown || phase() == Phase::kFailed) return;
  membership_.OnHeard(task, context_.now_us);
  switch (message.body_case()) {
    case v1::PsToChief::kHello:
      return OnHello(task, message.request(), message.hello());
    case v1::PsToChief::kFenced:
      return OnFenced(task, message.fenced());
    case v1::PsToChief::kPong:
      return OnPong(task, message.pong());
    default:
      break;  // an answer
  }
  if (absl::Status failed = steps_.OnPsMessage(ps, message); !failed.ok()) {
    return FailStep(std::move(failed));
  }
  if (rollback_.OnPsMessage(ps, message, context_.now_us)) {
    if (rollback_.TakeDone()) OnRolledBack();
    return;
  }
  if (message.has_copy_lost()) {
    if (served()) homes_.LoseCopy(message.copy_lost().tablet(), message.copy_lost().term());
    return;
  }
  if (homes_.OnPsMessage(ps, message)) return;
  cut_.OnPsMessage(ps, message, context_.now_us);
}

void CoordinatorCore::OnRolledBack() {
  if (variables_.was_served()) Count(&ClusterCounters::rollbacks);
  variables_.OnAssigned(rollback_.target());
  for (int i = 0; i < membership_.workers(); ++i) variables_.SendRoutes(i);
  outbox_.effects()->RollbackDone(absl::OkStatus());
}

absl::StatusOr<Task> CoordinatorCore::Join(Role role, const std::string& address) {
  const Advancing advancing(this);
  if (end_.begun() && end_.job_finished()) return OutOfRange("the job is finished");
  if (phase() != Phase::kReady || end_.begun()) {
    return Unavailable("the chief {}", ended() || end_.begun() ? "is ending" : "is starting");
  }
  return joined_.Join(role, address, context_.now_us);
}

// ------------------------------------------------------------------ the journal

void CoordinatorCore::OnGeneration(const absl::StatusOr<uint64_t>& generation) {
  const Advancing advancing(this);
  if (phase() == Phase::kTaking) Enter(adoption_.OnGeneration(generation));
}

void CoordinatorCore::OnRecovered(absl::StatusOr<Recovered> recovered) {
  const Advancing advancing(this);
  if (phase() != Phase::kReading) return;
  if (!recovered.ok()) {
    return FailForGood(Annotate(recovered.status(), "reading the journal"));
  }
  SetTimeline(recovered->timeline);
  AddCounters(*recovered);
  recovered_mode_ = recovered->mode;
  recovered_rates_ = recovered->rates;
  history_ = recovered->history;
  variables_.Restore(*recovered);
  cut_.SkipTo(recovered->next_cut);
  outbox_.SetNextRecord(recovered->next_record);
  closures_.Restore(recovered->unfinished, recovered->min_attempt);
  scheduler_.Reset(recovered->reserved_end, recovered->next_place);
  std::vector<uint64_t> open;
  for (const UnfinishedClosure& closure : recovered->unfinished) open.push_back(closure.id);
  settlement_.Reset(recovered->watermark, recovered->reserved_end, open);
  settlement_.SetFolded(std::move(recovered->metrics), recovered->steps,
                        std::move(recovered->readers), recovered->epoch);
  Enter(adoption_.WriteStart(recovered->from_manifest));
}

void CoordinatorCore::OnJournaled(const absl::StatusOr<uint64_t>& durable) {
  const Advancing advancing(this);
  if (!durable.ok()) return journal_watch_.OnRefused(durable.status());
  if (phase() == Phase::kFailed) return;
  const uint64_t record = *durable;
  journal_watch_.OnDurable(record);
  if (adoption_.IsStarted(record)) {
    Enter(Phase::kReady);
    std::vector<const v1::PsHello*> hellos;
    for (int ps = 0; ps < membership_.ps(); ++ps) hellos.push_back(&servers_.hello(ps));
    const uint64_t end = steps_.TakeOver(recovered_mode_, recovered_rates_, hellos).next_place();
    const bool refuse = steps_.sync() && !context_.options.test_faults.counts_older_results;
    if (refuse) unfinished_.RefuseResultsFrom(end);
    for (int worker = 0; worker < membership_.workers(); ++worker) {
      if (membership_.adopted(WorkerTask(worker))) SetUpWorker(worker);
    }
  }
  joined_.OnJournaled(record);
  settlement_.OnJournaled(record);
  if (rollback_.OnJournaled(record, context_.now_us)) RaiseTimeline();
  cut_.OnJournaled(record);
  homes_.OnJournaled(record);
  steps_.OnJournaled(record);
  scheduler_.OnJournaled(record);
}

absl::Status CoordinatorCore::EndEpoch(const v1::EpochRecord* record) {
  if (rollback_.holds_settlement()) {
    return FailedPrecondition("epoch {} is being rolled back: it cannot end", settlement_.epoch());
  }
  settlement_.EndEpoch(context_.now_us, record);
  closures_.EndEpoch();
  return absl::OkStatus();
}

uint64_t CoordinatorCore::Flush() {
  if (!rollback_.holds_settlement() && phase() == Phase::kReady) {
    settlement_.Tick(context_.now_us, /*force=*/true);
  }
  return outbox_.next_record() - 1;
}

// ------------------------------------------------------------------ closures

absl::StatusOr<uint64_t> CoordinatorCore::Schedule(ClosureSpec spec) {
  const Advancing advancing(this);
  COHORT_RETURN_IF_ERROR(TakeError());
  if (error_.raised()) return FailedPrecondition("an error is about to be raised");
  if (phase() != Phase::kReady || !served() || rollback_.active()) {
    return FailedPrecondition("the variables are not served: {}",
                              variables_.has_layout()
                                  ? "a parameter server was lost; restore a checkpoint first"
                                  : "create them first");
  }
  COHORT_RETURN_IF_ERROR(setup_.CheckSpec(spec));
  if (steps_.sync() && spec.training && spec.steps != 1) {
    return InvalidArgument("a closure of {} steps in mode sync, where each closure is one step",
                           spec.steps);
  }
  if (!view_.has_room(spec)) return ResourceExhausted("the queue of closures is full");
  COHORT_ASSIGN_OR_RETURN(const uint64_t id, scheduler_.Schedule(std::move(spec)));
  dispatcher_.OnScheduled(id);
  return id;
}

absl::Status CoordinatorCore::TakeError() {
  return phase() == Phase::kFailed ? failure_ : error_.Take();
}

void CoordinatorCore::FailForGood(absl::Status why) {
  if (phase() == Phase::kFailed) return;
  context_.phase = Phase::kFailed;
  failure_ = std::move(why);
  variables_.StopServing();
  cut_.Abandon(failure_);
  rollback_.Fail(failure_);
  closures_.EndAll(failure_);
}

// ------------------------------------------------------------------ cuts and rollbacks

absl::StatusOr<uint64_t> CoordinatorCore::StartCut(bool finished) {
  const Advancing advancing(this);
  if (phase() != Phase::kReady || !served() || rollback_.active()) {
    return FailedPrecondition("a checkpoint needs variables that are served");
  }
  if (cut_.active()) {
    return FailedPrecondition("checkpoint {} is still being written", cut_.number());
  }
  const uint64_t number =
      cut_.Begin(finished, context_.timeline, context_.now_us, /*holds=*/!steps_.sync());
  recall_due_ = true;
  return number;
}

void CoordinatorCore::DropCut() {
  const Advancing advancing(this);
  cut_.Abandon(Aborted("the cluster is being rolled back"));
}

void CoordinatorCore::AdvanceCut() {
  if (cut_.state() != Cut::State::kDraining) return;
  // Between two synchronous steps nothing has to be drained: what is staged is in no snapshot.
  if (steps_.sync() && !steps_.at_boundary()) return;
  const size_t in_flight = steps_.sync() ? 0 : queue_.training_in_flight();
  if (in_flight > 0 && std::exchange(recall_due_, false)) dispatcher_.Recall();
  if (!cut_.drained(in_flight, context_.now_us)) return;
  if (!homes_.steady()) return;
  if (!homes_.there()) {
    absl::Status missing = Unavailable("{}", view_.WaitingFor());
    SetFailure(&missing, {.role = "ps", .retryable = true});
    cut_.Abandon(missing);
    return;
  }
  v1::Manifest manifest = cut_.manifest();
  FillCut(&manifest);
  cut_.Snapshot(std::move(manifest), homes_.primaries(), context_.now_us);
}

void CoordinatorCore::FillCut(v1::Manifest* manifest) const {
  v1::ChiefCut* const chief = manifest->mutable_chief();
  uint64_t next_place = scheduler_.next_place();
  if (steps_.sync()) {
    // Closures of the open step are not in the snapshots: their places count as unused.
    *chief->mutable_position() = steps_.open().begin();
    next_place = steps_.open().begin().next_place();
  } else {
    closures_.FillPending(chief, &next_place);
  }
  if (steps_.mode().change().has_value()) *chief->mutable_mode() = *steps_.mode().change();
  if (const v1::LearningRates& rates = steps_.rates().rates(); rates.rates_size() > 0) {
    *chief->mutable_learning_rates() = rates;
  }
  settlement_.Fill(chief);
  chief->set_next_closure(scheduler_.reserved_end());
  chief->set_next_place(next_place);
  chief->set_journal_record(outbox_.next_record() - 1);
  manifest->set_step(next_place);
  manifest->set_epoch(settlement_.epoch());
  *manifest->mutable_layout() = variables_.layout();
  if (membership_.fingerprint().has_value()) {
    *manifest->mutable_fingerprint() = *membership_.fingerprint();
  }
}

bool CoordinatorCore::OnManifestWritten(uint64_t cut, const absl::Status& status,
                                        const std::string& path) {
  const Advancing advancing(this);
  return phase() != Phase::kFailed && cut_.OnManifestWritten(cut, status, path);
}

void CoordinatorCore::Resume() {
  const Advancing advancing(this);
  variables_.Resume();
  steps_.Resume();
  for (int i = 0; i < membership_.workers(); ++i) variables_.SendRoutes(i);
  settlement_.PublishAgain();
}

absl::Status CoordinatorCore::RollBack(const v1::Manifest* manifest, const std::string& path) {
  const Advancing advancing(this);
  if (phase() != Phase::kReady || !variables_.has_layout()) {
    return FailedPrecondition("there are no variables to roll back");
  }
  if (rollback_.active()) return FailedPrecondition("a rollback is under way");
  if (!view_.all_ps_there()) {
    absl::Status status = Unavailable("{}", view_.WaitingFor());
    SetFailure(&status, {.role = "ps", .retryable = true});
    return status;
  }
  COHORT_ASSIGN_OR_RETURN(RollbackTarget target,
                          variables_.PlanRollback(manifest, path, scheduler_.reserved_end()));
  DropCut();
  cut_.ForgetCommitted();
  if (manifest != nullptr) cut_.SkipTo(manifest->cut() + 1);
  v1::LearningRates rates =
      RatesAfterRollback(target.chief.learning_rates(), steps_.rates().rates());
  if (rates.rates_size() > 0) *target.chief.mutable_learning_rates() = std::move(rates);
  rollback_.Begin(std::move(target), homes_.Placed(variables_.layout()), servers_.SharingMemory(),
                  context_.now_us);
  return absl::OkStatus();
}

// The rollback is durable: everything after the cut is void.
void CoordinatorCore::RaiseTimeline() {
  const RollbackTarget& target = rollback_.target();
  SetTimeline(target.timeline);
  variables_.OnTimelineRaised(target);
  dispatcher_.CancelOlderTimelines();
  closures_.RollBack(target.chief);
  steps_.RollBack(target.chief);
  scheduler_.Reset(target.reserved_end, target.chief.next_place());
  settlement_.Reset(target.pending.empty() ? target.reserved_end : target.pending.front(),
                    target.reserved_end, target.pending);
  settlement_.SetFoldedFrom(target.chief, target.epoch);
  history_.clear();
  setup_.RecreateReaders();
}

// ------------------------------------------------------------------ the end

void CoordinatorCore::Stop(const std::string& reason, bool job_finished) {
  const Advancing advancing(this);
  if (phase() != Phase::kReady || end_.begun()) return;
  const bool held = rollback_.holds_settlement();
  if (held && !job_finished) {
    // A settle record after the Rollback record would count for the new timeline.
    end_.Begin(reason, job_finished, outbox_.next_record() - 1);
    return;
  }
  if (!held) settlement_.Tick(context_.now_us, /*force=*/true);
  v1::JournalRecord record;
  if (job_finished) {
    record.mutable_finished()->set_step(settlement_.steps());
  } else {
    v1::Settle* const settle = record.mutable_settle();
    settle->set_watermark(settlement_.watermark());
    SettledMetricsToProto(settlement_.metrics(), settle->mutable_metrics());
    settle->set_step(settlement_.steps());
  }
  end_.Begin(reason, job_finished, outbox_.Append(std::move(record)));
}

// The tasks may end when the end is durable: in the journal, or in a manifest if the disk is full.
void CoordinatorCore::AdvanceStop() {
  if (!end_.begun() || phase() == Phase::kStopped) return;
  const bool proved = end_.job_finished() && cut_.finish_committed() && journal_watch_.refused();
  if (!view_.stop_journaled() && !proved) return;
  context_.phase = Phase::kStopped;
  for (const Task task : membership_.tasks()) {
    if (membership_.adopted(task)) end_.SendShutdown(task);
  }
}

// ------------------------------------------------------------------ state

void CoordinatorCore::Count(uint64_t ClusterCounters::*counter) {
  ++(counters_.*counter);
  JournalCounters();
}

void CoordinatorCore::AddCounters(const Recovered& recovered) {
  counters_.workers_lost += recovered.counters.workers_lost();
  counters_.ps_lost += recovered.counters.ps_lost();
  counters_.rollbacks += recovered.counters.rollbacks();
  counters_.chief_restarts = recovered.counters.chief_restarts();
  if (recovered.next_record > 1) ++counters_.chief_restarts;
  JournalCounters();
}

void CoordinatorCore::JournalCounters() {
  v1::JobCounters journaled;
  journaled.set_workers_lost(counters_.workers_lost);
  journaled.set_ps_lost(counters_.ps_lost);
  journaled.set_rollbacks(counters_.rollbacks);
  journaled.set_chief_restarts(counters_.chief_restarts);
  outbox_.AttachCounters(std::move(journaled));
}

}  // namespace cohort

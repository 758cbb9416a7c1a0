// The part of CoordinatorCore that finds its tasks, adopts them, and sets up workers.
#include <algorithm>
#include <utility>

#include "chief/core/coordinator_core.h"
#include "common/base/exit_code.h"
#include "common/base/status.h"

namespace cohort {

bool CoordinatorCore::EnoughWorkers(Link at_least) const {
  if (membership_.all(Role::kWorker, at_least)) return true;
  // A run that is continued need not wait for workers that may be gone for good; one that hears
  // another chief is there.
  if (membership_.any_worker_hears_other()) return false;
  return options_.continued && membership_.count(Role::kWorker, at_least) > 0 &&
         now_us_ - phase_since_us_ >= options_.adopt_grace_us;
}

void CoordinatorCore::Advance() {
  if (!membership_.failure().ok() && phase_ < Phase::kReady) {
    FailForGood(membership_.failure());
    return;
  }
  if (phase_ == Phase::kProbing && membership_.all(Role::kPs, Link::kProbed) &&
      EnoughWorkers(Link::kProbed)) {
    phase_ = Phase::kTaking;
    outbox_.effects()->TakeGeneration(membership_.heard_generation());
  } else if (phase_ == Phase::kAdopting && membership_.all(Role::kPs, Link::kAdopted) &&
             EnoughWorkers(Link::kAdopted)) {
    phase_ = Phase::kReading;
    outbox_.effects()->ReadJournal();
  }
}

void CoordinatorCore::OnGeneration(const absl::StatusOr<uint64_t>& generation) {
  if (phase_ != Phase::kTaking) return;
  if (!generation.ok()) {
    absl::Status why = Annotate(generation.status(), "taking a generation");
    if (absl::IsOutOfRange(why)) {
      why = WithExitCode(
          FailedPrecondition("{} says that it has heard of generation {} of a chief: {}. It is at "
                             "fault: end it, and start the chief again",
                             membership_.heard_generation_by(), membership_.heard_generation(),
                             std::string(generation.status().message())),
          ExitCode::kConfig);
    }
    FailForGood(std::move(why));
    return;
  }
  outbox_.SetGeneration(*generation);
  phase_ = Phase::kAdopting;
  phase_since_us_ = now_us_;
  membership_.AdoptAll(now_us_);
}

void CoordinatorCore::OnRecovered(absl::StatusOr<Recovered> recovered) {
  if (phase_ != Phase::kReading) return;
  if (!recovered.ok()) {
    FailForGood(Annotate(recovered.status(), "reading the journal"));
    return;
  }
  v1::JournalRecord record;
  record.mutable_start()->set_from_manifest(recovered->from_manifest);
  Take(*std::move(recovered));
  record.mutable_start()->set_generation(outbox_.generation());
  record.mutable_start()->set_job(options_.job);
  record.mutable_start()->set_chief_incarnation(options_.chief_incarnation);
  record.mutable_start()->set_timeline(timeline_);
  phase_ = Phase::kStarting;
  start_record_ = outbox_.Append(std::move(record));
}

void CoordinatorCore::Take(Recovered recovered) {
  timeline_ = last_timeline_ = recovered.timeline;
  began_from_ = recovered.began_from;
  era_ = EraOf(outbox_.generation(), timeline_);
  layout_hash_ = recovered.layout_hash;
  next_place_ = recovered.next_place;
  epoch_ = recovered.epoch;
  next_cut_ = recovered.next_cut;
  outbox_.SetNextRecord(recovered.next_record);
  ids_.Reset(timeline_, recovered.reserved_end);
  std::vector<uint64_t> open;
  for (const UnfinishedClosure& closure : recovered.unfinished) {
    open.push_back(closure.id);
    UnfinishedClosures::Entry entry{.closure = closure, .attempt = AttemptBase(era_)};
    if (closure.id < recovered.rolled_back_end) entry.min_attempt = recovered.min_attempt;
    unfinished_.Add(entry);
  }
  settlement_.Reset(recovered.watermark, recovered.reserved_end, open);
  settlement_.SetFolded(std::move(recovered.metrics), recovered.steps);
  settlement_.SetReaders(std::move(recovered.readers));
}

void CoordinatorCore::OnWorkerHello(int worker, uint64_t request, v1::WorkerHello* hello) {
  const Task task = WorkerTask(worker);
  const bool returns = membership_.member(task).known;
  const uint64_t before = membership_.member(task).incarnation;
  Hello common{.request = request,
               .task = hello->task(),
               .incarnation = hello->incarnation(),
               .job = hello->job(),
               .heard_generation = hello->heard_generation(),
               .timeline = hello->timeline(),
               .hears_chief = hello->hears_chief(),
               .chief_lost = hello->chief_lost()};
  if (membership_.OnHello(task, common, now_us_) == Membership::Verdict::kAdopted) {
    membership_.member(task).known = true;
    outbox_.effects()->Note(
        "task_adopted",
        fmt::format("{} incarnation {:016x}{}", membership_.Name(task), hello->incarnation(),
                    !returns                         ? ""
                    : before == hello->incarnation() ? ", back"
                                                     : ", born again"));
    worker_timeline_ = std::max(worker_timeline_, hello->timeline());
    if ((served_ || rollback_.active()) && worker_timeline_ > last_timeline_) {
      return FailBehind(task);
    }
    workers_[static_cast<size_t>(worker)].hello = std::move(*hello);
    if (phase_ == Phase::kReady) SetUpWorker(worker);
  }
  Advance();
}

// It takes nothing of a timeline that it has left, and would be waited for, for ever. The chief's
// next life hears of its timeline before it chooses its own.
void CoordinatorCore::FailBehind(Task task) {
  absl::Status status = Aborted(
      "{} has worked at timeline {} of this job, and this chief's journal knows of no more than "
      "{}: "
      "it is another one's; start the chief again, and it goes on above both",
      membership_.Name(task), worker_timeline_, last_timeline_);
  SetFailure(&status, {.role = "chief", .retryable = true});
  FailForGood(WithExitCode(std::move(status), ExitCode::kUnavailable));
}

void CoordinatorCore::OnPsHello(int ps, uint64_t request, const v1::PsHello& hello) {
  const Task task = PsTask(ps);
  const bool returns = membership_.member(task).known;
  const uint64_t before = membership_.member(task).incarnation;
  Hello common{.request = request,
               .task = hello.task(),
               .incarnation = hello.incarnation(),
               .job = hello.job(),
               .heard_generation = hello.heard_generation(),
               .timeline = hello.timeline(),
               .hears_chief = hello.hears_chief(),
               .chief_lost = hello.chief_lost(),
               .sees_checkpoint_dir = hello.sees_checkpoint_dir()};
  if (membership_.OnHello(task, common, now_us_) == Membership::Verdict::kAdopted) {
    Ps& state = ps_[static_cast<size_t>(ps)];
    membership_.member(task).known = true;
    outbox_.effects()->Note(
        "task_adopted",
        fmt::format("{} incarnation {:016x}", membership_.Name(task), hello.incarnation()));
    state.hello = hello;
    state.term = hello.term();
    state.down_since_us = -1;
    if (returns && before != hello.incarnation()) {
      LosePs(ps, "it has come back without its tablets, as a new process");
    }
    if (served_) TellWatermark(ps);  // what was told while it was away is lost
    RefillAll(/*idle_only=*/false);
  }
  Advance();
}

// Results that a worker tells after its hello and before the journal is read: it is as if the hello
// had had them. What it has told is not in its hand any more.
void CoordinatorCore::KeepForSetUp(int worker, v1::Results* results) {
  v1::WorkerHello& hello = workers_[static_cast<size_t>(worker)].hello;
  for (v1::ClosureResult& result : *results->mutable_results()) {
    auto* const in_hand = hello.mutable_in_hand();
    in_hand->erase(std::remove_if(in_hand->begin(), in_hand->end(),
                                  [&](const v1::ClosureAttempt& hand) {
                                    return hand.id() == result.id() &&
                                           hand.attempt() <= result.attempt();
                                  }),
                   in_hand->end());
    *hello.add_results() = std::move(result);
  }
  hello.mutable_readers()->MergeFrom(results->readers());
}

void CoordinatorCore::SetUpWorker(int worker) {
  Worker& w = workers_[static_cast<size_t>(worker)];
  v1::WorkerHello taken = std::exchange(w.hello, v1::WorkerHello());
  v1::WorkerHello* const hello = &taken;
  w.programs = {hello->programs().begin(), hello->programs().end()};
  w.resources = {hello->resources().begin(), hello->resources().end()};
  for (const v1::ReaderPosition& reader : hello->readers()) {
    if (reader.timeline() != timeline_) w.resources.erase(reader.resource());
  }
  MoveReaders(worker, hello->readers());
  w.rests_until_us = 0;
  w.progress_us = now_us_;
  w.quick_us = -1;
  w.in_flight.clear();
  if (timeline_ > 0 && hello->timeline() != timeline_) {
    v1::ChiefToWorker cancel;
    cancel.mutable_cancel()->set_all_training(true);
    cancel.mutable_cancel()->set_timeline(timeline_);
    outbox_.ToWorker(worker, std::move(cancel));
  }
  for (v1::ClosureResult& result : *hello->mutable_results()) OnResult(worker, &result);
  TakeBack(worker, *hello);
  if (served_) SendRoutes(worker);
  w.ready = true;
  SendMissing(worker);
  Refill(worker);
}

// What the worker has in hand goes on there, where nobody else has it by now; the rest is
// cancelled.
void CoordinatorCore::TakeBack(int worker, const v1::WorkerHello& hello) {
  Worker& w = workers_[static_cast<size_t>(worker)];
  std::vector<uint64_t> unwanted;
  for (const v1::ClosureAttempt& hand : hello.in_hand()) {
    Closure* c = queue_.Find(hand.id());
    if (queue_.failed()) {
      // Until it has given it up. The error waits for that once: one that comes back from having
      // been dropped for it may run for ever.
      if (!w.dropped) unfinished_.Hold(hand.id(), worker, hand.attempt());
      unwanted.push_back(hand.id());
    } else if (c != nullptr && c->state == Closure::State::kQueued &&
               hand.attempt() >= c->min_attempt && hand.attempt() <= c->attempt) {
      queue_.Claim(c, worker, hand.attempt());
      w.in_flight.push_back(hand.id());
    } else if (!unfinished_.Hold(hand.id(), worker, hand.attempt())) {
      unwanted.push_back(hand.id());
    }
  }
  CancelOn(worker, unwanted);
}

void CoordinatorCore::SendMissing(int worker) {
  Worker& w = workers_[static_cast<size_t>(worker)];
  if (!w.ready) return;
  for (const Named& program : programs_) {
    if (!w.programs.insert(program.name).second) continue;
    setup_requests_.insert(outbox_.AskWorker(worker, program.message));
  }
  for (const Named& resource : resources_) {
    // A reader belongs to a timeline; before the first one no closure runs.
    const bool independent = resource.independent();
    if (independent && timeline_ == 0) continue;
    if (!w.resources.insert(resource.name).second) continue;
    const auto index = static_cast<uint32_t>(worker);
    v1::ChiefToWorker message = resource.message;
    message.mutable_resource()->set_worker_index(index);
    if (independent) {
      message.mutable_resource()->set_begin(settlement_.readers().Of(resource.name, index));
      message.mutable_resource()->set_timeline(timeline_);
    }
    setup_requests_.insert(outbox_.AskWorker(worker, std::move(message)));
  }
}

// The readers of independent datasets, after a rollback: they go back with the cut.
void CoordinatorCore::RemakeReaders(int worker) {
  for (const Named& resource : resources_) {
    if (resource.independent()) {
      workers_[static_cast<size_t>(worker)].resources.erase(resource.name);
    }
  }
  SendMissing(worker);
}

// Those of an older timeline say nothing about this one.
void CoordinatorCore::MoveReaders(
    int worker, const google::protobuf::RepeatedPtrField<v1::ReaderPosition>& readers) {
  for (const v1::ReaderPosition& reader : readers) {
    if (reader.timeline() != timeline_) continue;
    settlement_.MoveReader(reader.resource(), static_cast<uint32_t>(worker), reader.batches());
  }
}

void CoordinatorCore::SendRoutes(int worker) {
  if (!served_ || !membership_.adopted(WorkerTask(worker))) return;
  v1::ChiefToWorker message;
  v1::Routes* routes = message.mutable_routes();
  *routes->mutable_layout() = layout_;
  routes->set_timeline(timeline_);
  uint32_t tablets = 0;
  for (const v1::TabletSpec& tablet : layout_.tablets()) {
    tablets = std::max(tablets, tablet.tablet() + 1);
  }
  routes->mutable_terms()->Resize(static_cast<int>(tablets), 0);
  for (const v1::TabletSpec& tablet : layout_.tablets()) {
    routes->set_terms(static_cast<int>(tablet.tablet()), ps_[tablet.ps()].term);
  }
  for (size_t i = 0; i < ps_.size(); ++i) {
    v1::PsRoute* route = routes->add_servers();
    route->set_ps(static_cast<uint32_t>(i));
    route->set_address(options_.ps[i]);
    route->set_unix_socket(ps_[i].hello.unix_socket());
    route->set_host_id(ps_[i].hello.host_id());
    route->set_incarnation(ps_[i].hello.incarnation());
  }
  outbox_.ToWorker(worker, std::move(message));
}

void CoordinatorCore::OnFenced(Task task, const v1::Fenced& fenced) {
  if (outbox_.generation() != 0 && fenced.current_generation() > outbox_.generation()) {
    absl::Status status = Aborted(
        "this chief (generation {}) is fenced: {} works for generation {} now: {}",
        outbox_.generation(), membership_.Name(task), fenced.current_generation(), fenced.why());
    SetFailure(&status, {.role = "chief", .retryable = false});
    FailForGood(WithExitCode(std::move(status), ExitCode::kUnavailable));
    return;
  }
  // One that was adopted has taken an older stream of this chief for the newer one, as a process
  // can that stood still while it was dialled: adopted anew, it knows again which one counts.
  const Link link = membership_.member(task).link;
  if (link == Link::kAdopting || link == Link::kAdopted) {
    outbox_.effects()->Note("task_refused",
                            fmt::format("{}: {}", membership_.Name(task), fenced.why()));
    outbox_.effects()->Reconnect(task, fenced.why());
  }
}

void CoordinatorCore::FailForGood(absl::Status why) {
  if (phase_ == Phase::kFailed) return;
  phase_ = Phase::kFailed;
  failure_ = std::move(why);
  served_ = false;
  cut_.Abandon(failure_);
  rollback_.Fail(failure_);
  for (auto& closure : queue_.Clear()) {
    outbox_.effects()->ClosureDone(closure->spec.token, failure_, nullptr);
  }
}

bool CoordinatorCore::CanResume() const {
  if (!have_layout_ || timeline_ == 0 || layout_hash_ != wanted_hash_ || !all_ps_there()) {
    return false;
  }
  if (worker_timeline_ > timeline_) return false;  // the journal is another one than the workers'
  for (size_t i = 0; i < ps_.size(); ++i) {
    const v1::PsHello& hello = ps_[i].hello;
    std::set<uint32_t> wanted;
    for (const v1::TabletSpec& tablet : layout_.tablets()) {
      if (tablet.ps() == i) wanted.insert(tablet.tablet());
    }
    const std::set<uint32_t> has(hello.tablets().begin(), hello.tablets().end());
    if (hello.job() != options_.job || hello.timeline() != timeline_ || has != wanted) return false;
  }
  return true;
}

}  // namespace cohort

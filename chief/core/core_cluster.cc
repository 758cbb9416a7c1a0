// The part of CoordinatorCore that judges servers, takes cuts and rolls back.
#include <algorithm>
#include <utility>

#include "chief/core/coordinator_core.h"
#include "chief/core/lost_task.h"
#include "common/base/exit_code.h"
#include "common/base/status.h"

namespace cohort {

void CoordinatorCore::SetLayout(v1::Layout layout, uint64_t layout_hash) {
  layout_ = std::move(layout);
  wanted_hash_ = layout_hash;
  have_layout_ = true;
}

void CoordinatorCore::Resume() {
  served_ = was_served_ = true;
  for (size_t i = 0; i < workers_.size(); ++i) SendRoutes(static_cast<int>(i));
  Settled();
}

// ------------------------------------------------------------------ judging

void CoordinatorCore::LosePs(int ps, const std::string& why) {
  const Task task = PsTask(ps);
  const std::string text = fmt::format("{} is lost: {}", membership_.Name(task), why);
  const absl::Status error = LostTask("ps", ps, membership_.member(task).incarnation, text);
  cut_.LoseServer(error);
  rollback_.Fail(error);
  if (!served_) return;
  ++counters_.ps_lost;
  served_ = false;
  Fail(error);
}

void CoordinatorCore::CheckPs() {
  for (size_t i = 0; i < ps_.size(); ++i) {
    if (!served_ || ps_[i].down_since_us < 0) continue;
    if (now_us_ - ps_[i].down_since_us < options_.ps_grace_us) continue;
    LosePs(static_cast<int>(i), membership_.member(PsTask(static_cast<int>(i))).why_down);
  }
}

void CoordinatorCore::CheckStranded() {
  const bool stranded = phase_ == Phase::kReady && served_ && queue_.size() > 0 &&
                        !queue_.failed() && ready_workers() == 0;
  if (!stranded) {
    stranded_since_us_ = -1;
    return;
  }
  if (stranded_since_us_ < 0) stranded_since_us_ = now_us_;
  if (now_us_ - stranded_since_us_ < options_.stranded_us) return;
  absl::Status error = Unavailable("no worker took work for {} s; {}",
                                   (now_us_ - stranded_since_us_) / 1'000'000, WaitingFor());
  SetFailure(&error, {.role = "worker", .retryable = false});
  Fail(std::move(error));
}

// A worker can be there, answer pings, and never end a step: its device hangs, say. It is tried
// again, each time after twice as long, so that several such do not hand a closure round among
// them. Where there is nobody else to take its work it goes on, for the step may only be a long
// one, unless the user has said how long a step may be.
void CoordinatorCore::CheckStragglers() {
  for (size_t i = 0; i < workers_.size(); ++i) {
    Worker& w = workers_[i];
    if (!Late(w) || now_us_ < w.rests_until_us) continue;
    if (!HasQuicker(w)) {
      EndForStraggler(static_cast<int>(i));
      continue;
    }
    Rest(static_cast<int>(i), options_.closure_deadline_us << std::min(++w.stuck, 10),
         fmt::format("no result for {} s of the {} closures that it has",
                     (now_us_ - w.progress_us) / 1'000'000, w.in_flight.size()));
    w.rests_late = true;
  }
}

void CoordinatorCore::EndForStraggler(int worker) {
  if (!options_.closure_deadline_ends || queue_.failed()) return;
  std::string others;
  for (size_t i = 0; i < workers_.size(); ++i) {
    const Worker& other = workers_[i];
    if (static_cast<int>(i) == worker || !other.ready) continue;
    const bool rests = now_us_ < other.rests_until_us;
    if (rests ? !other.rests_late : !Late(other)) return;  // it may yet take them
    others += fmt::format("{}{}", others.empty() ? " (nor does it get on: " : ", ",
                          membership_.Name(WorkerTask(static_cast<int>(i))));
  }
  if (!others.empty()) others += ")";
  const Worker& w = workers_[static_cast<size_t>(worker)];
  const uint64_t oldest = *std::min_element(w.in_flight.begin(), w.in_flight.end());
  const Task task = WorkerTask(worker);
  absl::Status error = Unavailable(
      "{} has told no result for {} s of the {} closures that it has, from closure {} on, and no "
      "other worker is there to take them{}: closure_timeout_s is {} s",
      membership_.Name(task), (now_us_ - w.progress_us) / 1'000'000, w.in_flight.size(), oldest,
      others, static_cast<double>(options_.closure_deadline_us) / 1e6);
  SetFailure(&error, {.role = "worker",
                      .index = worker,
                      .incarnation = membership_.member(task).incarnation,
                      .retryable = false});
  Fail(std::move(error));
}

// Whether there is one to take the work of a worker that is late: with nothing in hand, or that has
// told a result in time since then. Others may be in the middle of steps that take as long.
bool CoordinatorCore::HasQuicker(const Worker& late) const {
  return std::any_of(workers_.begin(), workers_.end(), [&](const Worker& other) {
    return &other != &late && other.ready && now_us_ >= other.rests_until_us && !Late(other) &&
           (other.in_flight.empty() || other.quick_us > late.progress_us);
  });
}

void CoordinatorCore::CheckCancel() {
  if (!error_pending() || cancel_since_us_ < 0) return;
  if (now_us_ - cancel_since_us_ < options_.cancel_deadline_us) return;
  cancel_since_us_ = now_us_;
  for (size_t i = 0; i < workers_.size(); ++i) {
    const int worker = static_cast<int>(i);
    if (workers_[i].in_flight.empty() && unfinished_.HeldBy(worker).empty()) continue;
    workers_[i].dropped = true;
    outbox_.effects()->Reconnect(WorkerTask(worker), "it did not give up its closures in time");
  }
}

// ------------------------------------------------------------------ cuts

absl::StatusOr<uint64_t> CoordinatorCore::StartCut(bool finished) {
  if (phase_ != Phase::kReady || !served_ || rollback_.active()) {
    return FailedPrecondition("a checkpoint needs variables that are served");
  }
  if (cut_active())
    return FailedPrecondition("checkpoint {} is still being written", cut_.number());
  cut_finished_ = finished;
  finish_committed_ = false;
  const uint64_t number = next_cut_++;
  const std::string name = fmt::format("ckpt-{}-{}-{}", timeline_, outbox_.generation(), number);
  cut_.Begin(number, timeline_, options_.checkpoint_dir + "/" + name, now_us_);
  AdvanceCut();
  return number;
}

void CoordinatorCore::AdvanceCut() {
  if (cut_.TakeReleased()) RefillAll(/*idle_only=*/false);
  if (!cut_.drained(queue_.training_in_flight(), now_us_)) return;
  if (!all_ps_there()) {
    absl::Status missing = Unavailable("{}", WaitingFor());
    SetFailure(&missing, {.role = "ps", .retryable = true});
    cut_.Abandon(missing);
    return;
  }
  v1::Manifest manifest;
  manifest.set_format_version(1);
  manifest.set_job(options_.job);
  manifest.set_timeline(timeline_);
  manifest.set_generation(outbox_.generation());
  manifest.set_cut(cut_.number());
  manifest.set_epoch(epoch_);
  manifest.set_finished(cut_finished_);
  *manifest.mutable_layout() = layout_;
  v1::ChiefCut* chief = manifest.mutable_chief();
  uint64_t next_place = next_place_;
  for (const Closure* c : queue_.Pending(&next_place)) {
    v1::PendingClosure* pending = chief->add_pending();
    pending->set_id(c->id);
    pending->set_place(c->place);
    pending->set_steps(c->spec.steps);
    for (const v1::Lease& lease : c->spec.leases) *pending->add_leases() = lease;
  }
  for (const UnfinishedClosure& closure : unfinished_.List()) {
    v1::PendingClosure* pending = chief->add_pending();
    pending->set_id(closure.id);
    pending->set_place(closure.place);
    pending->set_steps(closure.steps);
  }
  std::sort(chief->mutable_pending()->begin(), chief->mutable_pending()->end(),
            [](const auto& a, const auto& b) { return a.id() < b.id(); });
  manifest.set_step(next_place);
  chief->set_settled_watermark(settlement_.watermark());
  for (const uint64_t id : settlement_.DoneAbove()) chief->add_finished(id);
  chief->set_next_closure(ids_.reserved_end());
  chief->set_next_place(next_place);
  MetricsToProto(settlement_.metrics(), chief->mutable_metrics());
  settlement_.readers().Fill(chief->mutable_readers());
  chief->set_journal_record(outbox_.next_record() - 1);
  cut_.Snapshot(std::move(manifest), now_us_);
}

// ------------------------------------------------------------------ rollback

absl::Status CoordinatorCore::RollBack(const v1::Manifest* manifest, const std::string& path) {
  if (phase_ != Phase::kReady || !have_layout_) {
    return FailedPrecondition("there are no variables to roll back");
  }
  if (rollback_.active()) return FailedPrecondition("a rollback is under way");
  if (!all_ps_there()) {
    absl::Status status = Unavailable("{}", WaitingFor());
    SetFailure(&status, {.role = "ps", .retryable = true});
    return status;
  }
  if (TooFarAhead(membership_.heard_timeline(), last_timeline_)) {
    return WithExitCode(
        FailedPrecondition(
            "{} says that it has heard of timeline {}, and the journal knows of none "
            "above {}: so many rollbacks there were not. It is at fault: end it, and "
            "start the chief again",
            membership_.heard_timeline_by(), membership_.heard_timeline(), last_timeline_),
        ExitCode::kConfig);
  }
  DropCut();
  RollbackTarget target;
  last_timeline_ = std::max(last_timeline_, membership_.heard_timeline()) + 1;
  era_ = EraOf(outbox_.generation(), last_timeline_);
  target.timeline = last_timeline_;
  target.term = era_;
  for (const Ps& ps : ps_) target.term = std::max(target.term, ps.term + 1);
  target.reserved_end = ids_.reserved_end();
  target.layout_hash = wanted_hash_;
  target.manifest = path;
  rollback_cut_.Clear();
  rollback_epoch_ = 0;
  if (manifest != nullptr) {
    target.cut_timeline = manifest->timeline();
    target.cut_generation = manifest->generation();
    target.cut = manifest->cut();
    target.reserved_end = std::max(target.reserved_end, manifest->chief().next_closure());
    rollback_cut_ = manifest->chief();
    rollback_epoch_ = manifest->epoch();
    next_cut_ = std::max(next_cut_, manifest->cut() + 1);
  }
  for (const v1::PendingClosure& pending : rollback_cut_.pending()) {
    target.pending.push_back(pending.id());
  }
  std::sort(target.pending.begin(), target.pending.end());
  served_ = false;
  finish_committed_ = false;
  settle_held_ = true;
  rollback_.Begin(std::move(target), layout_, now_us_);
  return absl::OkStatus();
}

// The rollback is durable: from here on all that was after the cut is void.
void CoordinatorCore::TimelineRaised() {
  const RollbackTarget& target = rollback_.target();
  timeline_ = target.timeline;
  began_from_ = target.manifest;
  layout_hash_ = target.layout_hash;
  for (size_t i = 0; i < workers_.size(); ++i) {
    v1::ChiefToWorker message;
    v1::CancelClosures* cancel = message.mutable_cancel();
    cancel->mutable_ids()->Add(workers_[i].in_flight.begin(), workers_[i].in_flight.end());
    cancel->set_all_training(true);
    cancel->set_timeline(timeline_);
    workers_[i].in_flight.clear();
    if (workers_[i].ready) outbox_.ToWorker(static_cast<int>(i), std::move(message));
  }
  for (auto& closure : queue_.Clear()) {
    outbox_.effects()->ClosureDone(closure->spec.token, Aborted("the cluster was rolled back"),
                                   nullptr);
  }
  unfinished_.Clear();
  ids_.Reset(timeline_, target.reserved_end);
  settlement_.Reset(target.pending.empty() ? target.reserved_end : target.pending.front(),
                    target.reserved_end, target.pending);
  uint64_t steps = rollback_cut_.next_place();
  for (const v1::PendingClosure& pending : rollback_cut_.pending()) {
    unfinished_.Add(
        {.closure = {.id = pending.id(), .place = pending.place(), .steps = pending.steps()},
         .attempt = AttemptBase(era_),
         .min_attempt = AttemptBase(era_) + 1});
    steps -= std::min<uint64_t>(steps, pending.steps());
  }
  settlement_.SetFolded(MetricsFromProto(rollback_cut_.metrics()), steps);
  ReaderPositions readers;
  readers.Add(rollback_cut_.readers());
  settlement_.SetReaders(std::move(readers));
  for (size_t i = 0; i < workers_.size(); ++i) RemakeReaders(static_cast<int>(i));
  next_place_ = rollback_cut_.next_place();
  epoch_ = rollback_epoch_;
  settle_held_ = false;
}

void CoordinatorCore::RolledBack() {
  for (size_t i = 0; i < ps_.size(); ++i) {
    ps_[i].term = rollback_.target().term;
    ps_[i].hello.set_job(options_.job);
    ps_[i].hello.set_timeline(timeline_);
    ps_[i].hello.clear_tablets();
    for (const v1::TabletSpec& tablet : layout_.tablets()) {
      if (tablet.ps() == i) ps_[i].hello.add_tablets(tablet.tablet());
    }
  }
  served_ = true;
  if (std::exchange(was_served_, true)) ++counters_.rollbacks;
  for (size_t i = 0; i < workers_.size(); ++i) SendRoutes(static_cast<int>(i));
  outbox_.effects()->RollbackDone(absl::OkStatus());
}

}  // namespace cohort

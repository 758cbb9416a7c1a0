#include "ps_server/data_path.h"

#include <algorithm>
#include <utility>

#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/close_order.h"

namespace cohort {
namespace {

// Raises `value` to at least `to`.
void RaiseTo(std::atomic<uint64_t>* value, uint64_t to) {
  uint64_t now = value->load(std::memory_order_relaxed);
  while (now < to && !value->compare_exchange_weak(now, to, std::memory_order_acq_rel)) {
  }
}

// The sum of bytes(tablet) over all tablets, if there are any.
template <typename Bytes>
uint64_t SumOfTablets(const std::shared_ptr<const TabletSet>& tablets, const Bytes& bytes) {
  uint64_t sum = 0;
  if (tablets == nullptr) return sum;
  for (const auto& tablet : tablets->tablets) sum += bytes(tablet.get());
  for (const auto& copy : tablets->copies) sum += bytes(copy->tablet().get());
  return sum;
}

// The sum of bytes(tablet, section) over the sections whose tablets are here.
template <typename Sections, typename Bytes>
uint64_t SumOfSections(const std::shared_ptr<const TabletSet>& tablets, const Sections& sections,
                       const Bytes& bytes) {
  uint64_t sum = 0;
  if (tablets == nullptr) return sum;
  for (const auto& section : sections) {
    if (Tablet* const tablet = tablets->Find(section.tablet)) sum += bytes(tablet, section);
  }
  return sum;
}

}  // namespace

Tablet* TabletSet::Find(uint32_t number) const {
  const auto it = std::ranges::lower_bound(tablets, number, {}, &Tablet::number);
  return it != tablets.end() && (*it)->number() == number ? it->get() : nullptr;
}

const std::shared_ptr<TabletCopy>* TabletSet::FindCopy(uint32_t number) const {
  const auto it =
      std::ranges::find(copies, number, [](const auto& copy) { return copy->tablet()->number(); });
  return it == copies.end() ? nullptr : &*it;
}

std::shared_ptr<CopyLog> TabletSet::LogOf(uint32_t number) const {
  const auto it = std::ranges::find(logs, number, &CopyLog::tablet);
  return it == logs.end() ? nullptr : *it;
}

v1::StepPosition CloseProgress::position() const {
  v1::StepPosition position;
  if (newest != nullptr) {
    position.set_open_step(newest->step() + 1);
    position.set_iteration(newest->iteration() + (newest->skip() ? 0 : 1));
    position.set_next_place(newest->next_place());
    if (newest->has_loss_scale()) *position.mutable_loss_scale() = newest->loss_scale();
  } else if (begin != nullptr) {
    position = *begin;
  }
  position.set_open_step(std::max<uint64_t>(position.open_step(), 1));
  return position;
}

uint64_t CloseProgress::open_step() const { return position().open_step(); }

void TabletSet::AdvanceWatermark(uint64_t to) const { RaiseTo(&watermark, to); }

void DataPath::Handle(const RequestView& request, DataPathScratch* scratch,
                      v1::PushPullResponseHeader* header, std::vector<PayloadSlice>* payload,
                      const DeviceParts* device) {
  CopyMarks marks;
  HandlePushes(request, scratch, header, &marks, device);
  WriteLog(&scratch->log_lines);
  HandlePulls(request, header, payload, device);
}

void DataPath::HandlePushes(const RequestView& request, DataPathScratch* scratch,
                            v1::PushPullResponseHeader* header, CopyMarks* marks,
                            const DeviceParts* device) {
  header->set_sequence(request.sequence);
  header->set_generation(generation());
  const std::shared_ptr<const TabletSet> tablets = this->tablets();
  // It may be ahead of the chief's own message, which comes on another stream. But only the chief
  // knows what is settled: a wrong watermark from a worker would settle closures that are still to
  // come.
  if (tablets != nullptr && request.settled_watermark > tablets->watermark.load()) {
    metrics_->watermarks_ahead->Increment();
  }
  for (const PushSectionView& section : request.push_sections) {
    Push(request, section, tablets.get(), device, scratch, header, marks);
  }
  marks->Flush();
}

void DataPath::WriteLog(std::string* lines) {
  if (!lines->empty() && !log_->Write(lines).ok()) metrics_->apply_log_errors->Increment();
}

void DataPath::HandlePulls(const RequestView& request, v1::PushPullResponseHeader* header,
                           std::vector<PayloadSlice>* payload, const DeviceParts* device) {
  const std::shared_ptr<const TabletSet> tablets = this->tablets();
  for (const PullSectionView& section : request.pull_sections) {
    Pull(request, section, tablets.get(), device, header, payload);
  }
  if (!request.pull_sections.empty()) COHORT_CRASH_POINT("ps.pull.answering");
}

void DataPath::Push(const RequestView& request, const PushSectionView& section,
                    const TabletSet* tablets, const DeviceParts* device, DataPathScratch* scratch,
                    v1::PushPullResponseHeader* header, CopyMarks* marks) {
  if (header->pushes_size() > 0) COHORT_CRASH_POINT("ps.push.partial");
  COHORT_CRASH_POINT("ps.push.received");
  v1::PushResult* result = header->add_pushes();
  Tablet* const tablet = tablets == nullptr ? nullptr : tablets->Find(section.tablet);
  if (tablet == nullptr) {
    result->set_tablet(section.tablet);
    result->set_status(v1::MOVED);
  } else {
    const TimePoint begin = clock_->Now();
    const PushEffect effect =
        tablet->Push(request.generation, tablets->watermark.load(std::memory_order_acquire),
                     request.push, section, result, device);
    if (effect.applied) {
      metrics_->apply_seconds->Observe(ToSeconds(clock_->Now() - begin));
      metrics_->staleness->Observe(static_cast<double>(effect.staleness));
      if (effect.non_finite) metrics_->non_finite_gradients->Increment();
      COHORT_CRASH_POINT("ps.push.applied");
    }
    if (result->status() == v1::STAGED) COHORT_CRASH_POINT("ps.push.staged");
    // Also a duplicate: the copy may not have the push before yet.
    if (!tablets->logs.empty()) {
      auto log = tablets->LogOf(section.tablet);
      if (log != nullptr && (result->status() != v1::DUPLICATE || log->holds_duplicates())) {
        marks->Add(std::move(log));
      }
    }
  }
  metrics_->pushes[result->status()]->Increment();
  if (log_ != nullptr) {
    ApplyLog::AddLine(request.push, request.generation, section.tablet, result->status(),
                      &scratch->log_lines);
  }
}

void DataPath::Pull(const RequestView& request, const PullSectionView& section,
                    const TabletSet* tablets, const DeviceParts* device,
                    v1::PushPullResponseHeader* header, std::vector<PayloadSlice>* payload) {
  v1::PullResult* result = header->add_pulls();
  Tablet* const tablet = tablets == nullptr ? nullptr : tablets->Find(section.tablet);
  if (tablet == nullptr) {
    result->set_tablet(section.tablet);
    result->set_status(v1::MOVED);
  } else {
    tablet->Pull(request.generation, request.pull_step, section, result, payload, device);
  }
  metrics_->pulls[result->status()]->Increment();
}

bool DataPath::MustWait(const RequestView& request) const {
  if (request.pull_step == 0) return false;
  const std::shared_ptr<const TabletSet> tablets = this->tablets();
  if (tablets == nullptr || request.generation != generation()) return false;
  for (const PullSectionView& section : request.pull_sections) {
    const Tablet* const tablet = tablets->Find(section.tablet);
    if (tablet != nullptr && tablet->term() == section.term &&
        tablet->open_step() < request.pull_step) {
      return true;
    }
  }
  return false;
}

bool DataPath::MayStage(const RequestView& request, uint64_t most) const {
  uint64_t copied = 0;
  for (const PushSectionView& section : request.push_sections) {
    copied += StagedStep::CopiedBytes(section.entries);
  }
  if (EarlyBytes() + copied <= most) return true;
  const uint64_t early =
      SumOfSections(tablets(), request.push_sections, [&](Tablet* tablet, const auto& section) {
        return tablet->BytesIfEarly(request.push, section);
      });
  return early == 0 || EarlyBytes() + early <= most;
}

uint64_t DataPath::BytesToCopy(const RequestView& request) const {
  return SumOfSections(tablets(), request.push_sections, [](Tablet* tablet, const auto& section) {
    return tablet->BytesToCopy(section);
  });
}

uint64_t DataPath::PulledBytes(const RequestView& request) const {
  return SumOfSections(tablets(), request.pull_sections, [](Tablet* tablet, const auto& section) {
    return tablet->PulledBytes(section);
  });
}

uint64_t DataPath::BytesToCopyAtClose() const {
  return SumOfTablets(tablets(), [](Tablet* tablet) { return tablet->BytesToCopyAtClose(); });
}

uint64_t DataPath::SupersededBytes() const {
  return SumOfTablets(tablets(), [](Tablet* tablet) { return tablet->superseded_bytes(); });
}

uint64_t DataPath::ValueBytes() const {
  const std::shared_ptr<const TabletSet> tablets = this->tablets();
  const bool has_disk = tablets != nullptr && tablets->disk != nullptr;
  return SumOfTablets(tablets, [](Tablet* tablet) { return tablet->bytes(); }) +
         (has_disk ? tablets->disk->memory_bytes() : 0);
}

void DataPath::AddFigures(v1::TaskFigures* figures) const {
  const std::shared_ptr<const TabletSet> tablets = this->tablets();
  if (tablets == nullptr) return;
  for (const auto& tablet : tablets->tablets) tablet->AddFigures(figures);
}

void DataPath::Reclaim() {
  const std::shared_ptr<const TabletSet> tablets = this->tablets();
  if (tablets == nullptr) return;
  for (const auto& tablet : tablets->tablets) tablet->Reclaim();
  for (const auto& copy : tablets->copies) copy->tablet()->Reclaim();
}

absl::StatusOr<std::shared_ptr<const TabletSet>> DataPath::TabletsOf(uint64_t generation,
                                                                     uint64_t timeline,
                                                                     uint64_t step) const {
  std::shared_ptr<const TabletSet> tablets = this->tablets();
  if (tablets == nullptr || tablets->timeline != timeline || generation != this->generation()) {
    return Aborted("step {} is of a chief or a timeline that has gone", step);
  }
  return tablets;
}

absl::Status DataPath::SetLearningRates(uint64_t generation, const v1::LearningRates& rates) {
  const std::shared_ptr<const TabletSet> tablets = this->tablets();
  if (tablets == nullptr || generation != this->generation()) {
    return Aborted("the learning rates are of a chief that has gone");
  }
  tablets->rules->set_rates()->Set(rates);
  // A copy that was made later has rules of its own.
  for (const auto& tablet : tablets->tablets) tablet->rules().set_rates()->Set(rates);
  for (const auto& copy : tablets->copies) copy->tablet()->rules().set_rates()->Set(rates);
  return absl::OkStatus();
}

absl::Status DataPath::SumStep(uint64_t generation, const v1::SumStep& sum,
                               const Progress& progress, v1::StepSummed* summed) {
  const CloseOrder step = StepOf(sum);
  MutexLock lock(&close_mu_);
  COHORT_ASSIGN_OR_RETURN(const auto tablets, TabletsOf(generation, sum.timeline(), sum.step()));
  SquareSums squares;
  uint64_t bytes = 0;
  for (const auto& tablet : tablets->tablets) {
    COHORT_RETURN_IF_ERROR(tablet->AddSquares(step, &squares));
    progress(bytes += tablet->bytes());
  }
  summed->set_step(sum.step());
  summed->set_step_try(sum.step_try());
  for (const auto& [key, part] : squares) {
    v1::GradientNorm* const norm = summed->add_norms();
    norm->set_optimizer(key.optimizer);
    norm->set_variable(key.variable);
    norm->set_squares(part.Serialize());
  }
  return absl::OkStatus();
}

absl::Status DataPath::CloseStep(uint64_t generation, const v1::CloseStep& close,
                                 const Progress& progress, CopyMarks* marks, std::string* lines) {
  const CloseOrder step = CloseOrderOf(close);
  MutexLock lock(&close_mu_);
  COHORT_ASSIGN_OR_RETURN(const auto tablets,
                          TabletsOf(generation, close.timeline(), close.step()));
  const auto message = std::make_shared<const v1::CloseStep>(close);
  for (const auto& log : tablets->logs) log->Announce(message);
  // A tablet of another server may have become this one's since then, and not have closed it.
  const bool repeated = close.step() < steps_.open_step();
  uint64_t bytes = 0;
  COHORT_CRASH_POINT("ps.step.closing");
  for (const auto& tablet : tablets->tablets) {
    if (tablet != tablets->tablets.front()) COHORT_CRASH_POINT("ps.step.partial");
    const TimePoint begin = clock_->Now();
    PushEffect effect;
    std::vector<StagedStep::Member> applied;
    COHORT_RETURN_IF_ERROR(tablet->Close(step, &effect, &applied));
    progress(bytes += tablet->bytes());
    if (effect.applied) metrics_->apply_seconds->Observe(ToSeconds(clock_->Now() - begin));
    if (effect.non_finite) metrics_->non_finite_gradients->Increment();
    if (log_ == nullptr) continue;
    for (const StagedStep::Member& member : applied) {
      const PushHeaderView push{.id = member.id,
                                .attempt = member.attempt,
                                .place = member.place,
                                .timeline = tablets->timeline};
      ApplyLog::AddLine(push, generation, tablet->number(), v1::APPLIED, lines);
    }
  }
  for (const auto& log : tablets->logs) marks->Add(log);
  if (repeated) return absl::OkStatus();
  steps_.newest = message;
  metrics_->steps_closed->Increment();
  COHORT_CRASH_POINT("ps.step.closed");
  return absl::OkStatus();
}

void DataPath::AbandonStep(const v1::AbandonStep& abandon) {
  const std::shared_ptr<const TabletSet> tablets = this->tablets();
  if (tablets == nullptr || tablets->timeline != abandon.timeline()) return;
  for (const auto& tablet : tablets->tablets) tablet->Abandon(abandon.step(), abandon.step_try());
}

CloseProgress DataPath::closed_steps() const {
  MutexLock lock(&close_mu_);
  return steps_;
}

std::shared_ptr<const TabletSet> DataPath::tablets() const {
  MutexLock lock(&mu_);
  return tablets_;
}

absl::Status DataPath::Reside(const DeviceCopies& copies) {
  MutexLock closing(&close_mu_);
  copies_ = {};
  const std::shared_ptr<const TabletSet> tablets = this->tablets();
  if (tablets == nullptr) return Unavailable("this server has no tablets now");
  absl::Status status;
  for (const auto& tablet : tablets->tablets) {
    if (status.ok()) status = tablet->Reside(copies);
  }
  if (!status.ok()) {
    for (const auto& tablet : tablets->tablets) tablet->Reside({}).IgnoreError();
    return status;
  }
  copies_ = copies;
  return absl::OkStatus();
}

CloseProgress DataPath::KnownCloses(bool* lacks) const {
  MutexLock lock(&close_mu_);
  CloseProgress known = steps_;
  *lacks = false;
  const std::shared_ptr<const TabletSet> tablets = this->tablets();
  if (tablets == nullptr) return known;
  for (const auto& copy : tablets->copies) {
    const std::shared_ptr<const v1::CloseStep> close = copy->last_close();
    if (close != nullptr && close->step() >= known.open_step()) known.newest = close;
  }
  const auto lacks_close = [&](const Tablet& tablet) {
    return known.newest != nullptr && tablet.open_step() <= known.newest->step();
  };
  for (const auto& tablet : tablets->tablets) *lacks |= lacks_close(*tablet);
  // The journal may name it as the primary already.
  for (const auto& copy : tablets->copies) *lacks |= !copy->fills() && lacks_close(*copy->tablet());
  return known;
}

absl::Status DataPath::TakeHomes(uint64_t generation, const v1::TakeHomes& take,
                                 const MakeLog& make_log) {
  MutexLock closing(&close_mu_);
  const std::shared_ptr<const TabletSet> now = tablets();
  if (now == nullptr || now->timeline != take.timeline() || generation != this->generation()) {
    return Aborted("the homes are of a chief or a timeline that has gone");
  }
  auto next = std::make_shared<TabletSet>();
  next->timeline = now->timeline;
  next->term = now->term;
  next->position = now->position;
  next->rules = now->rules;
  next->disk = now->disk;
  next->watermark = now->watermark.load();
  for (const v1::TabletHome& home : take.homes()) {
    Tablet* const mine = now->Find(home.tablet());
    const std::shared_ptr<TabletCopy>* const copy = now->FindCopy(home.tablet());
    if (mine == nullptr && copy == nullptr) {
      return FailedPrecondition("this server does not have tablet {}", home.tablet());
    }
    next->term = std::max(next->term, home.term());
    std::shared_ptr<Tablet> tablet =
        copy != nullptr
            ? (*copy)->tablet()
            : *std::ranges::find(now->tablets, mine, [](const auto& t) { return t.get(); });
    if (home.primary() != take.ps()) {
      // Another server answers for it now. What comes to this tablet is of the log alone.
      std::shared_ptr<TabletCopy> kept =
          copy != nullptr ? *copy : std::make_shared<TabletCopy>(tablet, home.term());
      kept->BeginTerm(home.term());
      tablet->BeginTerm(home.term(), nullptr);
      next->copies.push_back(std::move(kept));
      continue;
    }
    if (copy != nullptr) {
      (*copy)->Stop();
      const std::shared_ptr<const v1::CloseStep> close = (*copy)->last_close();
      if (close != nullptr && close->step() >= steps_.open_step()) steps_.newest = close;
    }
    std::shared_ptr<CopyLog> log = home.copy() == 0 ? nullptr : make_log(home);
    if (log != nullptr && home.filling()) {
      if (copy != nullptr) tablet->BeginTerm(home.term(), nullptr);
      log->Announce(steps_.newest);
      COHORT_RETURN_IF_ERROR(tablet->BeginLog(log, now->watermark.load()));
    } else {
      tablet->BeginTerm(home.term(), log);
    }
    if (log != nullptr) next->logs.push_back(std::move(log));
    next->tablets.push_back(std::move(tablet));
  }
  std::ranges::sort(next->tablets, {}, &Tablet::number);
  for (const auto& log : now->logs) {
    if (std::ranges::find(next->logs, log) != next->logs.end()) continue;
    next->Find(log->tablet()) != nullptr ? log->Stop() : log->Void();
  }
  const auto has = [&](uint32_t number) {
    return next->Find(number) != nullptr || next->FindCopy(number) != nullptr;
  };
  for (const auto& tablet : now->tablets) {
    if (!has(tablet->number())) tablet->Retire();
  }
  for (const auto& copy : now->copies) {
    if (has(copy->tablet()->number())) continue;
    copy->Stop();
    copy->tablet()->Retire();
  }
  metrics_->tablets->Set(static_cast<double>(next->tablets.size()));
  MutexLock lock(&mu_);
  tablets_ = std::move(next);
  return absl::OkStatus();
}

absl::Status DataPath::AddCopies(uint64_t generation, const std::shared_ptr<TabletSet>& made) {
  MutexLock closing(&close_mu_);
  if (generation != this->generation()) {
    return Aborted("the copies are of a chief that has gone");
  }
  const std::shared_ptr<const TabletSet> now = tablets();
  if (now != nullptr) {
    if (now->timeline != made->timeline) return Aborted("the copies are of another timeline");
    made->term = now->term;
    made->position = now->position;
    made->rules = now->rules;
    made->disk = now->disk;
    made->AdvanceWatermark(now->watermark.load());
    made->tablets = now->tablets;
    made->logs = now->logs;
    for (const auto& copy : now->copies) {
      if (made->FindCopy(copy->tablet()->number()) == nullptr) made->copies.push_back(copy);
    }
  } else {
    steps_ = {made->position, nullptr};
  }
  MutexLock lock(&mu_);
  tablets_ = made;
  return absl::OkStatus();
}

absl::StatusOr<TabletCopy::Replayed> DataPath::Replay(const v1::CopyEntry& entry,
                                                      const TabletCopy::Payload& payload) {
  const std::shared_ptr<const TabletSet> tablets = this->tablets();
  const std::shared_ptr<TabletCopy>* const copy =
      tablets == nullptr ? nullptr : tablets->FindCopy(entry.tablet());
  if (copy == nullptr) return NotFound("there is no copy of tablet {} here", entry.tablet());
  COHORT_ASSIGN_OR_RETURN(TabletCopy::Replayed replayed, (*copy)->Replay(entry, payload));
  if (log_ == nullptr) return replayed;
  std::string lines;
  const auto add = [&](const PushHeaderView& push, int verdict) {
    ApplyLog::AddLine(push, generation(), entry.tablet(), verdict, &lines);
  };
  for (const StagedStep::Member& member : replayed.applied) {
    add({.id = member.id,
         .attempt = member.attempt,
         .place = member.place,
         .timeline = tablets->timeline},
        ApplyLog::kReplayed);
  }
  for (const v1::UpdateId& id : entry.state().cut().applied().applied()) {
    add({.id = {.closure = id.closure(), .ordinal = id.ordinal()}, .timeline = tablets->timeline},
        ApplyLog::kHeld);
  }
  WriteLog(&lines);
  return replayed;
}

void DataPath::Serve(std::shared_ptr<const TabletSet> tablets) {
  metrics_->tablets->Set(tablets == nullptr ? 0 : static_cast<double>(tablets->tablets.size()));
  if (tablets != nullptr) metrics_->timeline->Set(static_cast<double>(tablets->timeline));
  std::shared_ptr<const TabletSet> before = std::move(tablets);
  {
    MutexLock closing(&close_mu_);
    // The room on the devices is that of the tablets before them. A tablet that finds none says
    // why, when a step wants to read it there.
    for (size_t i = 0; before != nullptr && !copies_.readers.empty() && i < before->tablets.size();
         ++i) {
      before->tablets[i]->Reside(copies_).IgnoreError();
    }
    steps_ = {before == nullptr ? nullptr : before->position, nullptr};
    MutexLock lock(&mu_);
    before.swap(tablets_);
  }
  if (before == nullptr) return;
  for (const auto& log : before->logs) log->Void();
  for (const auto& tablet : before->tablets) tablet->Retire();
  for (const auto& copy : before->copies) {
    copy->Stop();
    copy->tablet()->Retire();
  }
}

void DataPath::Fence(uint64_t generation) {
  RaiseTo(&generation_, generation);
  metrics_->generation->Set(static_cast<double>(generation));
  const std::shared_ptr<const TabletSet> now = tablets();
  if (now == nullptr) return;
  for (const auto& tablet : now->tablets) tablet->Fence(generation);
  for (const auto& copy : now->copies) copy->tablet()->Fence(generation);
}

void DataPath::Reset() {
  generation_.store(0, std::memory_order_release);
  MutexLock closing(&close_mu_);
  copies_ = {};
}

}  // namespace cohort

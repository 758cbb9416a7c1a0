#include "chief/core/served_variables.h"

#include <algorithm>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"

namespace cohort {
namespace {

bool HasCopies(const v1::Layout& layout) {
  return std::ranges::any_of(layout.tablets(),
                             [](const v1::TabletSpec& tablet) { return tablet.copy() > 0; });
}

}  // namespace

void ServedVariables::Restore(const Recovered& recovered) {
  last_timeline_ = recovered.timeline;
  began_from_ = recovered.began_from;
  journal_hash_ = recovered.layout_hash;
  homes_->Restore(recovered.homes);
}

void ServedVariables::SetLayout(v1::Layout layout, uint64_t layout_hash) {
  layout_ = std::move(layout);
  layout_hash_ = layout_hash;
  has_layout_ = true;
}

void ServedVariables::OnWorkerTimeline(uint64_t timeline) {
  worker_timeline_ = std::max(worker_timeline_, timeline);
}

absl::Status ServedVariables::CheckWorkerTimeline(Task worker) const {
  if (worker_timeline_ <= last_timeline_) return absl::OkStatus();
  absl::Status status = Aborted(
      "{} has worked at timeline {} of this job, but this chief's journal knows no timeline above "
      "{}: it is another journal. Restart the chief: it continues above both timelines",
      TaskName(context_->options, worker), worker_timeline_, last_timeline_);
  SetFailure(&status, {.role = "chief", .retryable = true});
  return WithExitCode(std::move(status), ExitCode::kUnavailable);
}

bool ServedVariables::CanResume() const {
  return has_layout_ && context_->timeline > 0 && journal_hash_ == layout_hash_ &&
         worker_timeline_ <= context_->timeline &&  // otherwise the workers know another journal
         (HasCopies(layout_) || homes_->journaled()
              ? homes_->CanResume(layout_)
              : membership_->all(Role::kPs, Link::kAdopted, /*joined=*/false) &&
                    servers_->Have(layout_));
}

void ServedVariables::Resume() {
  homes_->Resume(layout_);
  served_ = was_served_ = true;
}

absl::StatusOr<RollbackTarget> ServedVariables::PlanRollback(const v1::Manifest* manifest,
                                                             const std::string& path,
                                                             uint64_t reserved_end) {
  const uint64_t heard = membership_->heard_timeline();
  if (TooFarAhead(heard, last_timeline_)) {
    return WithExitCode(
        FailedPrecondition("{} reports timeline {}, which cannot exist: the journal knows no "
                           "timeline above {}. Stop that task, then restart the chief",
                           membership_->heard_timeline_by(), heard, last_timeline_),
        ExitCode::kConfig);
  }
  last_timeline_ = std::max(last_timeline_, heard) + 1;
  RollbackTarget target;
  target.timeline = last_timeline_;
  target.term = servers_->NextTerm(EraOf(outbox_->generation(), last_timeline_));
  target.reserved_end = reserved_end;
  target.layout_hash = layout_hash_;
  target.manifest = path;
  if (manifest != nullptr) {
    target.cut_timeline = manifest->timeline();
    target.cut_generation = manifest->generation();
    target.cut = manifest->cut();
    target.epoch = manifest->epoch();
    target.chief = manifest->chief();
    target.reserved_end = std::max(reserved_end, manifest->chief().next_closure());
  }
  for (const v1::PendingClosure& pending : target.chief.pending()) {
    target.pending.push_back(pending.id());
  }
  std::sort(target.pending.begin(), target.pending.end());
  served_ = false;
  return target;
}

void ServedVariables::OnTimelineRaised(const RollbackTarget& target) {
  began_from_ = target.manifest;
  journal_hash_ = target.layout_hash;
}

void ServedVariables::OnAssigned(const RollbackTarget& target) {
  servers_->OnAssigned(layout_, target.term);
  served_ = was_served_ = true;
}

}  // namespace cohort

#include "chief/core/cluster_adoption.h"

#include <string>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"

namespace cohort {
namespace {

constexpr int64_t kJoinedUs = 1'000'000;  // how long a chief that starts waits for joined workers

}  // namespace

bool ClusterAdoption::EnoughWorkers(Link at_least) const {
  if (membership_->all(Role::kWorker, at_least)) return true;
  // A continued run does not wait for workers that may never return. It does wait for a worker that
  // hears another chief.
  if (membership_->any_worker_hears_other()) return false;
  // One that has joined may have left meanwhile.
  const int64_t waited_us = context_->now_us - phase_since_us_;
  if (membership_->all(Role::kWorker, at_least, /*joined=*/false) && waited_us >= kJoinedUs) {
    return true;
  }
  return context_->options.continued && membership_->count(Role::kWorker, at_least) > 0 &&
         context_->now_us - phase_since_us_ >= context_->options.adopt_grace_us;
}

// One that had joined may never return, and no TF_CONFIG says where it was. Copies stand in for
// any.
bool ClusterAdoption::EnoughServers(Link at_least) const {
  if (membership_->all(Role::kPs, at_least)) return true;
  if (context_->now_us - phase_since_us_ < context_->options.adopt_grace_us) return false;
  return membership_->all(Role::kPs, at_least, /*joined=*/false) ||
         (context_->options.misses_servers && context_->options.continued &&
          membership_->count(Role::kPs, at_least) > 0);
}

absl::StatusOr<CorePhase> ClusterAdoption::Advance() {
  const CorePhase phase = context_->phase;
  if (phase >= CorePhase::kReady) return phase;
  if (!membership_->failure().ok()) return membership_->failure();
  if (phase == CorePhase::kProbing && EnoughServers(Link::kProbed) &&
      EnoughWorkers(Link::kProbed)) {
    outbox_->effects()->TakeGeneration(membership_->heard_generation());
    return CorePhase::kTaking;
  }
  if (phase == CorePhase::kAdopting && EnoughServers(Link::kAdopted) &&
      EnoughWorkers(Link::kAdopted)) {
    outbox_->effects()->ReadJournal();
    return CorePhase::kReading;
  }
  return phase;
}

absl::StatusOr<CorePhase> ClusterAdoption::OnGeneration(
    const absl::StatusOr<uint64_t>& generation) {
  if (!generation.ok()) {
    absl::Status why = Annotate(generation.status(), "taking a generation");
    if (!absl::IsOutOfRange(why)) return why;
    return WithExitCode(
        FailedPrecondition("{} reports generation {} of a chief, which cannot exist: {}. Stop that "
                           "task, then restart the chief",
                           membership_->heard_generation_by(), membership_->heard_generation(),
                           std::string(generation.status().message())),
        ExitCode::kConfig);
  }
  outbox_->SetGeneration(*generation);
  phase_since_us_ = context_->now_us;
  membership_->AdoptAll(context_->now_us);
  return CorePhase::kAdopting;
}

CorePhase ClusterAdoption::WriteStart(bool from_manifest) {
  v1::JournalRecord record;
  record.mutable_start()->set_from_manifest(from_manifest);
  record.mutable_start()->set_generation(outbox_->generation());
  record.mutable_start()->set_job(context_->options.job);
  if (const auto& identity = context_->options.identity; identity != nullptr) {
    *record.mutable_start()->mutable_identity() = *identity;
  }
  record.mutable_start()->set_chief_incarnation(context_->options.chief_incarnation);
  record.mutable_start()->set_timeline(context_->timeline);
  start_record_ = outbox_->Append(std::move(record));
  return CorePhase::kStarting;
}

absl::Status ClusterAdoption::OnFenced(Task task, const v1::Fenced& fenced) {
  if (outbox_->generation() != 0 && fenced.current_generation() > outbox_->generation()) {
    absl::Status status =
        Aborted("this chief (generation {}) is fenced: {} works for generation {} now: {}",
                outbox_->generation(), TaskName(context_->options, task),
                fenced.current_generation(), fenced.why());
    SetFailure(&status, {.role = "chief", .retryable = false});
    return WithExitCode(std::move(status), ExitCode::kUnavailable);
  }
  // A process that was stopped while it was dialed can mistake an older stream of this chief for
  // the newer one. A new adoption corrects that.
  const Link link = membership_->member(task).link;
  if (link == Link::kAdopting || link == Link::kAdopted) {
    outbox_->effects()->Note(
        "task_refused", fmt::format("{}: {}", TaskName(context_->options, task), fenced.why()));
    outbox_->effects()->Reconnect(task, fenced.why());
  }
  return absl::OkStatus();
}

}  // namespace cohort

#include "chief/api/locked_core.h"

#include <utility>

#include "common/base/status.h"

namespace cohort {

LockedCore::LockedCore(const Clock* clock, double task_timeout_s,
                       const std::atomic<bool>* interrupt)
    : clock_(clock), task_timeout_s_(task_timeout_s), waits_(clock, interrupt) {}

void LockedCore::Create(CoreOptions options, CoreEffects* effects) {
  MutexLock lock(&mu_);
  core_ = std::make_unique<CoordinatorCore>(std::move(options), effects);
}

void LockedCore::Input(const std::function<void(CoordinatorCore*)>& input) {
  MutexLock lock(&mu_);
  input(core_.get());
  waits_.Wake();
}

void LockedCore::Interrupt() {
  MutexLock lock(&mu_);
  waits_.Interrupt();
}

absl::StatusOr<bool> LockedCore::Wait(const CallWaits::Condition& condition, TimePoint deadline,
                                      const CallWaits::Description& description) {
  const auto ends = [this, &condition]()
                        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return failed() || condition(); };
  return waits_.Wait(&mu_, ends, deadline, description);
}

bool LockedCore::WaitDespiteInterrupt(const CallWaits::Condition& condition, TimePoint deadline) {
  const auto ends = [this, &condition]()
                        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return failed() || condition(); };
  return waits_.WaitDespiteInterrupt(&mu_, ends, deadline);
}

absl::Status LockedCore::GaveUp() const {
  return DeadlineExceeded(
      "{}: gave up after {} s; start what is missing, or correct its address in TF_CONFIG",
      core_->view().WaitingFor(), task_timeout_s_);
}

}  // namespace cohort

#include "chief/api/locked_core.h"

#include <chrono>
#include <utility>

#include "common/base/status.h"

namespace cohort {

CallWaits::CallWaits(const Clock* clock, const std::atomic<bool>* interrupt)
    : clock_(clock), flag_(interrupt), next_report_(clock->Now() + std::chrono::seconds(1)) {}

absl::StatusOr<bool> CallWaits::Wait(Mutex* mu, const Condition& condition, TimePoint deadline,
                                     const Description& description) {
  const Call call{condition, description};
  calls_.push_back(&call);
  bool holds = condition();
  bool in_time = true;
  while (!holds && in_time && !interrupted_) {
    if (deadline == kForever) {
      changed_.Wait(mu);
    } else {
      in_time = changed_.WaitUntil(mu, deadline);
    }
    holds = condition();
  }
  calls_.remove(&call);
  if (!holds && interrupted_) return Cancelled("interrupted");
  return holds;
}

bool CallWaits::WaitDespiteInterrupt(Mutex* mu, const Condition& condition, TimePoint deadline) {
  const Description none;
  const Call call{condition, none};
  calls_.push_back(&call);
  bool holds = condition();
  while (!holds && changed_.WaitUntil(mu, deadline)) holds = condition();
  calls_.remove(&call);
  return holds;
}

void CallWaits::Wake() {
  for (const Call* call : calls_) {
    if (call->condition()) {
      changed_.SignalAll();
      return;
    }
  }
}

void CallWaits::Interrupt() {
  interrupted_ = true;
  changed_.SignalAll();
}

void CallWaits::CheckFlag() {
  if (flag_ != nullptr && *flag_ && !interrupted_) Interrupt();
}

std::string CallWaits::Describe() const {
  for (const Call* call : calls_) {
    if (!call->description) continue;
    if (std::string text = call->description(); !text.empty()) return text;
  }
  return "";
}

std::string CallWaits::TakeReport(const Description& text) {
  if (calls_.empty() || clock_->Now() < next_report_) return "";
  std::string report = text();
  next_report_ = clock_->Now() + std::chrono::seconds(report.empty() ? 1 : 3);
  return report;
}

LockedCore::LockedCore(const Clock* clock, const std::atomic<bool>* interrupt)
    : clock_(clock), waits_(clock, interrupt) {}

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

absl::Status LockedCore::GaveUp(double after_s) const {
  return DeadlineExceeded(
      "{}: gave up after {} s; start what is missing, or correct its address in TF_CONFIG",
      core_->view().WaitingFor(), after_s);
}

void WaitingFetches::AddWaiting(int calls) {
  MutexLock lock(&mu_);
  if (core_ == nullptr) return;
  core_->Input([calls](CoordinatorCore* core) { core->AddWaiting(calls); });
}

void WaitingFetches::Close() {
  MutexLock lock(&mu_);
  core_ = nullptr;
}

}  // namespace cohort

#include "chief/api/call_waits.h"

#include <chrono>

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

}  // namespace cohort

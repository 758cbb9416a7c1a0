#include "common/cluster/wait_list.h"

#include <fmt/format.h>

#include <algorithm>

namespace cohort {

WaitList::WaitList(const Clock* clock, Options options) : clock_(clock), options_(options) {}

void WaitList::Expect(const std::string& task, const std::string& address) {
  const TimePoint now = clock_->Now();
  if (missing_.empty()) next_report_ = now + options_.report_every;
  missing_.try_emplace(task, Entry{address, "", now});
}

void WaitList::Expect(Task task, const std::optional<Address>& address) {
  Expect(task.ToString(), address.has_value() ? address->ToString() : "");
}

void WaitList::Note(const std::string& task, const std::string& reason) {
  if (const auto it = missing_.find(task); it != missing_.end()) it->second.reason = reason;
}

void WaitList::Arrived(const std::string& task) { missing_.erase(task); }

std::string WaitList::Missing() const {
  std::string text;
  for (const auto& [task, entry] : missing_) {
    if (!text.empty()) text += ", ";
    text += task;
    if (!entry.address.empty()) text += fmt::format(" ({})", entry.address);
    if (!entry.reason.empty()) text += fmt::format(" [{}]", entry.reason);
  }
  return text;
}

std::optional<std::string> WaitList::Tick() {
  const TimePoint now = clock_->Now();
  if (missing_.empty() || now < next_report_) return std::nullopt;
  next_report_ = now + options_.report_every;
  return fmt::format("waiting for {}, {:.0f} s", Missing(), ToSeconds(now - Oldest()));
}

std::optional<Duration> WaitList::Expired() const {
  if (missing_.empty() || options_.timeout == Duration::zero()) return std::nullopt;
  const Duration waited = clock_->Now() - Oldest();
  return waited < options_.timeout ? std::nullopt : std::optional<Duration>(waited);
}

TimePoint WaitList::Oldest() const {
  TimePoint oldest = TimePoint::max();
  for (const auto& [task, entry] : missing_) oldest = std::min(oldest, entry.since);
  return oldest;
}

}  // namespace cohort

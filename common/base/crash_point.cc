#include "common/base/crash_point.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <charconv>

#include "common/base/status.h"
#include "common/base/suggest.h"

namespace cohort {
namespace internal {

std::atomic<bool> crash_points_live{false};

}  // namespace internal

namespace {

constexpr size_t kCount = std::size(kCrashPoints);

std::array<std::atomic<int64_t>, kCount> hits;
std::atomic<size_t> armed{kNoCrashPoint};
std::atomic<int64_t> armed_nth{0};
std::atomic<bool> armed_hold{false};
std::atomic<void (*)(std::string_view)> armed_action{nullptr};

// Uses only write(2) and kill(2), which cannot block on a lock that this thread holds.
[[noreturn]] void DieOrHold(size_t index, int64_t nth) {
  const bool hold = armed_hold.load();
  const std::string line =
      fmt::format("crash_point name={} nth={}{}\n", kCrashPoints[index], nth, hold ? " held" : "");
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  if (!hold) kill(getpid(), SIGKILL);
  for (;;) pause();
}

}  // namespace

namespace internal {

void HitCrashPoint(size_t index) {
  const int64_t nth = ++hits[index];
  const auto action = armed_action.load();
  if (armed.load() != index || armed_nth.load() != nth) return;
  if (action == nullptr) DieOrHold(index, nth);
  action(kCrashPoints[index]);
}

}  // namespace internal

absl::Status ArmCrashPoint(std::string_view name_and_nth) {
  const size_t colon = name_and_nth.find(':');
  const std::string_view name = name_and_nth.substr(0, colon);
  const size_t index = CrashPointIndex(name);
  if (index == kNoCrashPoint) {
    return InvalidArgument("unknown crash point \"{}\"{}", name,
                           DidYouMean(name, std::span<const std::string_view>(kCrashPoints)));
  }
  int64_t nth = 1;
  bool hold = false;
  if (colon != std::string_view::npos) {
    std::string_view count = name_and_nth.substr(colon + 1);
    constexpr std::string_view kHold = ":hold";
    hold = count.ends_with(kHold);
    if (hold) count.remove_suffix(kHold.size());
    const auto result = std::from_chars(count.data(), count.data() + count.size(), nth);
    if (result.ec != std::errc() || result.ptr != count.data() + count.size() || nth < 1) {
      return InvalidArgument(
          "crash point {}: \"{}\" is not a count from 1, optionally followed by :hold", name,
          count);
    }
  }
  for (auto& h : hits) h = 0;
  armed_nth = nth;
  armed_hold = hold;
  armed = index;
  internal::crash_points_live = true;
  return absl::OkStatus();
}

void WatchCrashPoints(void (*action)(std::string_view name)) {
  for (auto& h : hits) h = 0;
  armed_action = action;
  internal::crash_points_live = true;
}

int64_t CrashPointHits(std::string_view name) {
  const size_t index = CrashPointIndex(name);
  return index == kNoCrashPoint ? 0 : hits[index].load();
}

}  // namespace cohort

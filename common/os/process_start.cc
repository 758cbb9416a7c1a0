#include "common/os/process_start.h"

#include <time.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace cohort {

TimePoint ProcessStart() {
  const TimePoint now = std::chrono::steady_clock::now();
  // proc(5): field 22 of /proc/self/stat, in ticks since boot; field 2 may contain spaces.
  constexpr int kFieldsAfterName = 20;
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return now;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int i = 1; i < kFieldsAfterName; ++i) fields >> skipped;
  double ticks = 0;
  timespec up = {};
  if (!(fields >> ticks) || clock_gettime(CLOCK_BOOTTIME, &up) != 0) return now;
  const double started = ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  const double age = static_cast<double>(up.tv_sec) + 1e-9 * static_cast<double>(up.tv_nsec);
  return started < age ? now - FromSeconds(age - started) : now;
}

TimePoint LaunchTime(const char* value) {
  if (value == nullptr) return ProcessStart();
  const std::string_view text(value);
  int64_t ns = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ns);
  if (error != std::errc() || end != text.data() + text.size()) return ProcessStart();
  return TimePoint(std::chrono::nanoseconds(ns));
}

}  // namespace cohort

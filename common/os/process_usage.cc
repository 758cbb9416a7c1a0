#include "common/os/process_usage.h"

#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace cohort {
namespace {

uint64_t MemoryBytes() {
  // proc(5): pages of the whole program, then those in memory.
  std::ifstream file("/proc/self/statm");
  uint64_t size = 0;
  uint64_t used = 0;
  if (!(file >> size >> used)) return 0;
  return used * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

uint64_t OpenFiles() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (error) return 0;
  // Without the descriptor that lists them.
  return static_cast<uint64_t>(std::distance(begin(files), end(files))) - 1;
}

}  // namespace

ProcessUsage ReadProcessUsage() {
  ProcessUsage usage{.memory_bytes = MemoryBytes(), .open_files = OpenFiles()};
  timespec used = {};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0) {
    usage.cpu_seconds = static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
  }
  return usage;
}

}  // namespace cohort

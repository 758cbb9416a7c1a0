#include "common/os/identity.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>

#include "common/os/process_usage.h"

namespace cohort {
namespace {

// The first line of a file; "" if there is none.
std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The CPU quota of this process's cgroup in cores; 0: none. Reads version 2, as a container sees
// its own.
double CgroupQuota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  return std::strtod(quota.c_str(), nullptr) / period;
}

// All memory of the machine. 0: unknown.
uint64_t MachineMemoryBytes() {
  return static_cast<uint64_t>(std::max(0L, sysconf(_SC_PHYS_PAGES))) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

struct CgroupLimit {
  uint64_t bytes = std::numeric_limits<uint64_t>::max();  // none
  std::string cgroup;                                     // that has it
};

// The smallest limit in the files called `name` of a cgroup and its parents, up to `root`.
CgroupLimit LeastLimit(const std::string& root, std::string cgroup, const std::string& name) {
  CgroupLimit least;
  while (true) {
    uint64_t limit = 0;  // stays 0 for "max"
    if (std::ifstream(root + cgroup + "/" + name) >> limit && limit < least.bytes) {
      least = {limit, cgroup};
    }
    if (cgroup.empty()) return least;
    cgroup.resize(cgroup.rfind('/'));
  }
}

// The smallest limit of the process's cgroups, of both versions.
CgroupLimit LeastLimit(const MemorySources& sources) {
  CgroupLimit least;
  std::ifstream own(sources.own_cgroups);
  std::string line;  // "0::/path" (v2), "4:memory:/path" (v1)
  while (std::getline(own, line)) {
    const size_t path = line.find('/');
    if (path == std::string::npos) continue;
    const std::string cgroup = path + 1 == line.size() ? "" : line.substr(path);
    CgroupLimit limit;
    if (line.starts_with("0::")) {
      limit = LeastLimit(sources.cgroups, cgroup, "memory.max");
    } else if (line.find(":memory:") != std::string::npos) {
      limit = LeastLimit(sources.cgroups + "/memory", cgroup, "memory.limit_in_bytes");
    }
    if (limit.bytes < least.bytes) least = std::move(limit);
  }
  return least;
}

// The target of a symbolic link; "" if there is none.
std::string LinkTarget(const std::string& path) {
  char target[256] = {};
  const ssize_t bytes = ::readlink(path.c_str(), target, sizeof(target));
  return std::string(target, static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
}

}  // namespace

uint64_t RandomIncarnation() {
  std::random_device device;
  uint64_t value = 0;
  while (value == 0) value = (static_cast<uint64_t>(device()) << 32) | device();
  return value;
}

std::string HostId(const HostIdSources& sources) {
  const std::string machine = FirstLine(sources.machine_id);
  const std::string boot = FirstLine(sources.boot_id);
  if (!machine.empty() && !boot.empty()) return machine + "/" + boot;
  return HostName() + "/" + machine + boot;
}

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "localhost";
  return name;
}

namespace {

// All of the machine's memory, if the kernel does not tell what is available (before 3.14).
uint64_t FreeMemoryBytes(const std::string& meminfo) {
  const uint64_t all = MachineMemoryBytes();
  std::ifstream file(meminfo);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);  // "MemAvailable:   22113456 kB"
    std::string name;
    uint64_t kilobytes = 0;
    if (!(words >> name >> kilobytes) || name != "MemAvailable:") continue;
    return std::min(all, (kilobytes << 10) + ReadProcessUsage().memory_bytes);
  }
  return all;
}

}  // namespace

uint64_t AvailableMemoryBytes(const MemorySources& sources) {
  return std::min(FreeMemoryBytes(sources.machine), LeastLimit(sources).bytes);
}

// In a container the path of its own cgroup is "/", so the namespace is a part of the name.
SharedMemoryPool MemoryPoolOf(const MemorySources& sources) {
  const CgroupLimit least = LeastLimit(sources);
  const uint64_t machine = MachineMemoryBytes();
  if (machine > 0 && least.bytes >= machine) return {machine, ""};
  return {least.bytes, LinkTarget(sources.cgroup_namespace) + least.cgroup + "/"};
}

int AvailableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = 1;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cores = std::max(1, CPU_COUNT(&set));
  const double quota = CgroupQuota();
  if (quota > 0) cores = std::min(cores, std::max(1, static_cast<int>(std::ceil(quota))));
  return cores;
}

}  // namespace cohort

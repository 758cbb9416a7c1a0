#ifndef COHORT_COMMON_OS_IDENTITY_H_
#define COHORT_COMMON_OS_IDENTITY_H_

#include <cstdint>
#include <string>

namespace cohort {

// A random number that names one incarnation of a process; never 0.
uint64_t RandomIncarnation();

// The files that HostId reads; tests pass others.
struct HostIdSources {
  std::string machine_id = "/etc/machine-id";
  std::string boot_id = "/proc/sys/kernel/random/boot_id";
};

// Equal in two processes that share a kernel, so that a unix socket can join them. Consists of
// machine id and boot id, or of the host name and whichever of the two exists. Two containers of
// one host may differ only in their file systems, so a user of this id must also find the peer's
// socket.
std::string HostId(const HostIdSources& sources = {});

// gethostname().
std::string HostName();

// The files that the functions below read; tests pass others.
struct MemorySources {
  std::string own_cgroups = "/proc/self/cgroup";
  std::string cgroups = "/sys/fs/cgroup";  // v2, with v1's memory controller in memory/
  std::string machine = "/proc/meminfo";
  std::string cgroup_namespace = "/proc/self/ns/cgroup";  // a link
};

// Memory that processes of one machine share: that of the control group with the least limit, or
// all of the machine's.
struct SharedMemoryPool {
  uint64_t bytes = 0;  // 0: unknown
  std::string name;    // equal in all processes of the machine that share it; "": the machine
};
SharedMemoryPool MemoryPoolOf(const MemorySources& sources = {});

// Memory that this process may use: the smallest of what the machine has available now, with what
// this process has already, and the limits of its cgroups and their parents. 0: unknown.
uint64_t AvailableMemoryBytes(const MemorySources& sources = {});

// Cores that this process may use by its affinity mask and its cgroup's CPU quota; at least 1.
int AvailableCores();

}  // namespace cohort

#endif  // COHORT_COMMON_OS_IDENTITY_H_

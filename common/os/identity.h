#ifndef COHORT_COMMON_OS_IDENTITY_H_
#define COHORT_COMMON_OS_IDENTITY_H_

#include <cstdint>
#include <string>

namespace cohort {

// A random number that names one life of a process; never 0.
uint64_t RandomIncarnation();

// Where HostId looks; tests give others.
struct HostIdSources {
  std::string machine_id = "/etc/machine-id";
  std::string boot_id = "/proc/sys/kernel/random/boot_id";
};

// Equal in two processes when they share a kernel, so that a unix socket can join them: machine id
// and boot id, or the host's name and what of them there is. Two containers of one host may be told
// apart only by their file systems: whoever uses it must also find the other's socket.
std::string HostId(const HostIdSources& sources = {});

// gethostname().
std::string HostName();

// Where AvailableMemoryBytes looks; tests give others.
struct MemorySources {
  std::string own_cgroups = "/proc/self/cgroup";
  std::string cgroups = "/sys/fs/cgroup";  // v2, with v1's memory controller in memory/
};

// Memory that this process may use: the machine's, or what the least of its cgroups and those above
// them allows. 0: not known.
uint64_t AvailableMemoryBytes(const MemorySources& sources = {});

// Cores that this process may use (its affinity mask and its cgroup's CPU quota), at least 1.
int AvailableCores();

}  // namespace cohort

#endif  // COHORT_COMMON_OS_IDENTITY_H_

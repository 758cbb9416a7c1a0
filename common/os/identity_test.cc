#include "common/os/identity.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>

#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

TEST_CASE("incarnations differ and are not 0") {
  std::set<uint64_t> seen = {0};
  for (int i = 0; i < 100; ++i) REQUIRE(seen.insert(RandomIncarnation()).second);
}

TEST_CASE("the host id comes from machine and boot, or from the host name") {
  const testing::TestDirectory directory;
  const std::string& path = directory.path();
  HostIdSources sources{path + "/machine-id", path + "/boot_id"};
  REQUIRE(HostId(sources) == HostName() + "/");
  std::ofstream(sources.machine_id) << "m1\n";
  REQUIRE(HostId(sources) == HostName() + "/m1");
  std::ofstream(sources.boot_id) << "b1\n";
  REQUIRE(HostId(sources) == "m1/b1");
  REQUIRE(HostId() == HostId());
}

TEST_CASE("available memory is the smallest limit of the cgroups above") {
  const testing::TestDirectory dir;
  const MemorySources sources{dir / "own", dir / "cgroups", dir / "meminfo"};
  const uint64_t machine = AvailableMemoryBytes(sources);
  REQUIRE(machine > (64u << 20));
  dir.Write("own", "4:memory:/a/b\n1:cpu:/a/b\n0::/c/d\n");
  REQUIRE(AvailableMemoryBytes(sources) == machine);  // no such files
  for (const char* made : {"cgroups/c/d", "cgroups/memory/a/b", "cgroups/a/b"}) {
    std::filesystem::create_directories(dir / made);
  }
  dir.Write("cgroups/c/d/memory.max", "max\n");
  dir.Write("cgroups/a/b/memory.max", "1\n");  // another cgroup
  REQUIRE(AvailableMemoryBytes(sources) == machine);
  dir.Write("cgroups/c/memory.max", "3000000\n");
  REQUIRE(AvailableMemoryBytes(sources) == 3000000);
  dir.Write("cgroups/memory/memory.limit_in_bytes", "2000000\n");
  REQUIRE(AvailableMemoryBytes(sources) == 2000000);
  dir.Write("cgroups/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  REQUIRE(AvailableMemoryBytes(sources) == 2000000);
  dir.Write("cgroups/memory.max", "1000000\n");
  REQUIRE(AvailableMemoryBytes(sources) == 1000000);
  dir.Write("own", "0::/\n");
  REQUIRE(AvailableMemoryBytes(sources) == 1000000);
}

TEST_CASE("the memory that processes share is that of the cgroup with the least limit") {
  const testing::TestDirectory dir;
  const MemorySources sources{dir / "own", dir / "cgroups", dir / "meminfo", dir / "namespace"};
  const SharedMemoryPool machine = MemoryPoolOf(sources);
  REQUIRE(machine.bytes > (64u << 20));
  REQUIRE(machine.name.empty());
  std::filesystem::create_symlink("cgroup:[7]", dir / "namespace");
  std::filesystem::create_directories(dir / "cgroups/pod/server");
  dir.Write("own", "0::/pod/server\n");
  dir.Write("cgroups/pod/memory.max", "3000000\n");
  dir.Write("cgroups/pod/server/memory.max", "max\n");
  const SharedMemoryPool pod = MemoryPoolOf(sources);
  REQUIRE(pod.bytes == 3000000);
  REQUIRE(pod.name == "cgroup:[7]/pod/");
  dir.Write("cgroups/pod/server/memory.max", "2000000\n");  // the server has its own
  REQUIRE(MemoryPoolOf(sources).bytes == 2000000);
  REQUIRE(MemoryPoolOf(sources).name == "cgroup:[7]/pod/server/");
  dir.Write("own", "0::/\n");  // as a container sees it
  dir.Write("cgroups/memory.max", "1000000\n");
  REQUIRE(MemoryPoolOf(sources).name == "cgroup:[7]/");
}

TEST_CASE("available memory is what the machine has left, with this process's own") {
  const testing::TestDirectory dir;
  const MemorySources sources{dir / "own", dir / "cgroups", dir / "meminfo"};
  const uint64_t all = AvailableMemoryBytes(sources);  // the kernel does not tell
  dir.Write("meminfo", "MemTotal:       99999999999 kB\nMemAvailable:   1000 kB\n");
  const uint64_t available = AvailableMemoryBytes(sources);
  REQUIRE(available > 1000 << 10);
  REQUIRE(available < all);
  REQUIRE(available < (uint64_t{1000} << 10) + (uint64_t{1} << 30));
  dir.Write("meminfo", "MemAvailable:   99999999999 kB\n");
  REQUIRE(AvailableMemoryBytes(sources) == all);
}

TEST_CASE("there is a core") { REQUIRE(AvailableCores() >= 1); }

}  // namespace
}  // namespace cohort

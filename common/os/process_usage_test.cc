#include "common/os/process_usage.h"

#include <fcntl.h>

#include <catch2/catch.hpp>
#include <vector>

#include "common/base/unique_fd.h"

namespace cohort {
namespace {

TEST_CASE("the usage of a process follows what it uses") {
  const ProcessUsage before = ReadProcessUsage();
  constexpr size_t kBytes = size_t{64} << 20;
  const std::vector<char> memory(kBytes, 'x');
  const UniqueFd file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  REQUIRE(file.get() >= 0);
  const ProcessUsage after = ReadProcessUsage();
  CHECK(after.memory_bytes >= before.memory_bytes + kBytes / 2);
  CHECK(after.open_files == before.open_files + 1);
  CHECK(after.cpu_seconds > before.cpu_seconds);
  CHECK(memory.back() == 'x');
}

}  // namespace
}  // namespace cohort

#include "common/base/identity.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <set>

#include "common/base/test_directory.h"

namespace cohort {
namespace {

TEST_CASE("incarnations differ and are not 0") {
  std::set<uint64_t> seen = {0};
  for (int i = 0; i < 100; ++i) REQUIRE(seen.insert(RandomIncarnation()).second);
}

TEST_CASE("the host's id comes from machine and boot, or from its name") {
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

TEST_CASE("there is a core") { REQUIRE(AvailableCores() >= 1); }

}  // namespace
}  // namespace cohort

#include "chief/api/start_options.h"

#include <catch2/catch.hpp>

#include "common/base/exit_code.h"
#include "common/graph/pull_ahead.h"

namespace cohort {
namespace {

CoordinatorOptions Valid() {
  CoordinatorOptions options;
  options.cluster.Set({Role::kWorker, 0}, *ParseAddress("host0:1"));
  options.cluster.Set({Role::kWorker, 1}, *ParseAddress("host1:1"));
  options.cluster.Set({Role::kPs, 0}, *ParseAddress("host2:1"));
  options.checkpoint_dir = "/c";
  options.seed = 7;
  return options;
}

TEST_CASE("options that no cluster can start with are refused") {
  CoordinatorOptions options = Valid();
  REQUIRE(CheckOptions(options).ok());
  options.pull_ahead = kMaxPullAhead;
  REQUIRE(CheckOptions(options).ok());
  SECTION("a gap in the indices") {
    options.cluster.Set({Role::kWorker, 3}, *ParseAddress("host3:1"));
  }
  SECTION("no tasks") { options.cluster = ClusterSpec(); }
  SECTION("values that are pulled too far ahead") { options.pull_ahead = kMaxPullAhead + 1; }
  SECTION("values that are pulled ahead in a synchronous step") {
    options.pull_ahead = 1;
    options.mode = ConsistencyMode::kSync;
  }
  SECTION("values that are pulled ahead with bounded staleness") {
    options.pull_ahead = 1;
    options.mode = ConsistencyMode::kBounded;
  }
  SECTION("no directory") { options.checkpoint_dir.clear(); }
  CHECK(ExitCodeOf(CheckOptions(options)) == ExitCode::kConfig);
}

TEST_CASE("the core gets the job's settings and the addresses by index") {
  const CoreOptions core = CoreOptionsOf(Valid(), "token", /*continued=*/true, {});
  CHECK(core.seed == 7);
  CHECK(core.checkpoint_dir == "/c");
  CHECK(core.workers == std::vector<std::string>{"host0:1", "host1:1"});
  REQUIRE(core.ps.size() == 1 + core.ps_places);
  CHECK(core.ps[0] == "host2:1");
  CHECK(core.worker_places == 0);  // without --join_bind
  CHECK(core.directory_token == "token");
  CHECK(core.continued);
}

}  // namespace
}  // namespace cohort

#include "common/cluster/role_flags.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "common/base/exit_code.h"
#include "common/base/flags.h"

namespace cohort {
namespace {

using Catch::Contains;

constexpr char kFar[] =
    R"({"cluster": {"worker": ["host1:1"], "ps": ["localhost:2", "localhost:3"]},
                            "task": {"type": "worker", "index": 0}})";
constexpr char kPs[] = R"({"cluster": {"ps": ["localhost:2", "localhost:3"]},
                           "task": {"type": "ps", "index": 1}})";

TEST_CASE("a task reads its role and settings from flags and TF_CONFIG") {
  RoleFlags flags;
  FlagSet set("cohort-ps", "x");
  AddRoleFlags(&set, &flags);
  REQUIRE(set.Parse({"--threads", "3", "--log_level=error"}).run);
  const auto context = MakeRoleContext(flags, Role::kPs, kPs);
  REQUIRE(context.ok());
  REQUIRE(context->task == Task{Role::kPs, 1});
  REQUIRE(context->advertised == Address{"localhost", 3});
  REQUIRE(context->bind == Address{"localhost", 3});
  REQUIRE(context->threads == 3);
  REQUIRE(context->incarnation != 0);
  REQUIRE_FALSE(context->host_id.empty());
  REQUIRE_FALSE(context->log->enabled(LogLevel::kWarning));
}

TEST_CASE("a flag that is planned is reported as not supported yet") {
  for (const auto& [flag, planned] :
       {std::pair("--device", "CUDA is"), std::pair("--cuda_devices", "CUDA is"),
        std::pair("--gpus", "CUDA is"),
        std::pair("--replicas", "replicas of parameter servers are"),
        std::pair("--trace_file", "a trace of a step is")}) {
    RoleFlags flags;
    FlagSet set("cohort-ps", "x");
    AddRoleFlags(&set, &flags);
    const ParsedFlags parsed = set.Parse({fmt::format("{}=1", flag)});
    CHECK(parsed.exit_code == 64);
    CHECK_THAT(parsed.err, Contains(fmt::format("{}: {} not supported yet\n", flag, planned)));
  }
}

TEST_CASE("plaintext beyond loopback is refused without --allow_insecure") {
  RoleFlags flags;
  const auto refused = MakeRoleContext(flags, Role::kWorker, kFar);
  REQUIRE(ExitCodeOf(refused.status()) == ExitCode::kConfig);
  REQUIRE_THAT(std::string(refused.status().message()), Contains("--allow_insecure"));
  flags.allow_insecure = true;
  REQUIRE(MakeRoleContext(flags, Role::kWorker, kFar)->bind == Address{"0.0.0.0", 1});
  flags.allow_insecure = false;
  flags.bind = "127.0.0.1:77";
  REQUIRE(MakeRoleContext(flags, Role::kWorker, kFar)->bind == Address{"127.0.0.1", 77});
}

TEST_CASE("the admin port is on loopback unless a flag names an address") {
  RoleFlags flags;
  REQUIRE(AdminAddress(flags).empty());
  flags.admin_port = 9100;
  REQUIRE(AdminAddress(flags) == "127.0.0.1:9100");
  for (const auto& [bind, address] :
       {std::pair("0.0.0.0", "0.0.0.0:9100"), std::pair("::", "[::]:9100")}) {
    flags.admin_bind = bind;
    REQUIRE(AdminAddress(flags) == address);
    REQUIRE(MakeRoleContext(flags, Role::kPs, kPs).ok());
  }
}

TEST_CASE("a chief without an entry has no address, an evaluator no cluster") {
  const auto chief = MakeRoleContext({}, Role::kChief, R"({"cluster": {"worker": ["host1:1"]}})");
  REQUIRE(chief.ok());
  REQUIRE_FALSE(chief->bind.has_value());
  REQUIRE(MakeRoleContext({}, Role::kEvaluator, nullptr).ok());
  REQUIRE_THAT(std::string(MakeRoleContext({}, Role::kChief, nullptr).status().message()),
               Contains("TF_CONFIG: is empty"));
}

TEST_CASE("a wrong flag ends with 64 and its name, a wrong TF_CONFIG with 78") {
  const auto code = [](RoleFlags flags, const char* config, std::string* message) {
    const auto context = MakeRoleContext(flags, Role::kPs, config);
    *message = std::string(context.status().message());
    return ExitCodeOf(context.status());
  };
  std::string message;
  RoleFlags flags;
  flags.threads = -1;
  REQUIRE(code(flags, kPs, &message) == ExitCode::kUsage);
  REQUIRE_THAT(message, Contains("--threads"));
  flags = {};
  flags.admin_port = 70000;
  REQUIRE(code(flags, kPs, &message) == ExitCode::kUsage);
  REQUIRE_THAT(message, Contains("--admin_port"));
  flags = {};
  flags.admin_bind = "no such host";
  REQUIRE(code(flags, kPs, &message) == ExitCode::kUsage);
  REQUIRE_THAT(message, Contains("--admin_bind"));
  flags = {};
  flags.log_level = "loud";
  REQUIRE(code(flags, kPs, &message) == ExitCode::kUsage);
  REQUIRE_THAT(message, Contains("--log_level"));
  flags = {};
  flags.crash_point = "ps.nowhere";
  REQUIRE(code(flags, kPs, &message) == ExitCode::kUsage);
  REQUIRE_THAT(message, Contains("--crash_point"));
  REQUIRE(code({}, kFar, &message) == ExitCode::kConfig);
  REQUIRE(code({}, "{", &message) == ExitCode::kConfig);
}

}  // namespace
}  // namespace cohort

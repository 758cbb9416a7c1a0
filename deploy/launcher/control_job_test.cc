#include "deploy/launcher/control_job.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/rpc/admin/admin_server.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using Catch::Contains;

TEST_CASE("ctl sends what was given, and prints the answer") {
  const testing::TestDirectory run;
  std::string heard;
  auto server =
      AdminServer::Start({.control_socket = run / "control/chief.sock",
                          .control = [&](const std::string& command, const std::string& request) {
                            heard = command + request;
                            return absl::StatusOr<std::string>(R"({"checkpoint":"/c/ckpt-1-1-1"})");
                          }});
  REQUIRE(server.ok());
  ControlOptions options{.run = run.path(), .command = "checkpoint"};
  REQUIRE(ControlJob(options).value() == "/c/ckpt-1-1-1\n");
  REQUIRE(heard == "checkpoint{}");
  options.json = true;
  REQUIRE(ControlJob(options).value() == "{\"checkpoint\":\"/c/ckpt-1-1-1\"}\n");
  options.command = "set-mode";
  options.mode = "sync";
  options.closures_per_step = 0;
  options.backup_work = "none";
  REQUIRE(ControlJob(options).ok());
  REQUIRE(heard == R"(set-mode{"backup_work":"none","closures_per_step":0,"mode":"sync"})");
  REQUIRE(
      ControlJob({.run = run.path(), .command = "set", .mode = "learning_rate", .value = "1e-4"})
          .ok());
  REQUIRE(heard == R"(set{"learning_rate":0.0001})");
  REQUIRE(ControlJob({.run = run.path(), .command = "extend", .epochs = 9}).ok());
  REQUIRE(heard == R"(extend{"epochs":9})");
  REQUIRE(ControlJob({.run = run.path(), .command = "drain-ps", .mode = "1"}).ok());
  REQUIRE(heard == R"(drain-ps{"ps":1})");
  REQUIRE(ControlJob({.run = run.path(), .command = "fence", .mode = "worker:1"}).ok());
  REQUIRE(heard == R"(fence{"task":"worker:1"})");
  server->reset();
  const absl::Status gone = ControlJob(options).status();
  REQUIRE(ExitCodeOf(gone) == ExitCode::kNoInput);
  REQUIRE_THAT(std::string(gone.message()), Contains("no running job in " + run.path()));
}

TEST_CASE("ctl refuses a wrong command line") {
  const auto refused = [](ControlOptions options) {
    options.run = "/nowhere";
    return ExitCodeOf(ControlJob(options).status()) == ExitCode::kUsage;
  };
  REQUIRE(refused({.command = "sleep"}));
  REQUIRE(refused({.command = "pause", .epochs = 2}));
  REQUIRE(refused({.command = "extend"}));
  REQUIRE(refused({.command = "drain-ps"}));
  REQUIRE(refused({.command = "return-ps", .mode = "ps:1"}));
  REQUIRE(refused({.command = "rebalance", .mode = "1"}));
  REQUIRE(refused({.command = "fence"}));
  REQUIRE(refused({.command = "unfence", .mode = "1"}));
  REQUIRE(refused({.command = "set", .mode = "learning_rate"}));
  REQUIRE(refused({.command = "set", .mode = "momentum", .value = "1"}));
  REQUIRE(refused({.command = "set", .mode = "learning_rate", .value = "fast"}));
  REQUIRE(refused({.command = "set-mode"}));
  REQUIRE(refused({.command = "status", .mode = "sync"}));
  REQUIRE(refused({.command = "stop", .staleness = 0}));
}

TEST_CASE("ctl prints a status for people") {
  REQUIRE(ControlText("status", R"({
    "job": "short", "activity": "training", "epoch": 2, "epochs": 4, "step": 30, "steps": 80,
    "steps_per_second": 12.25, "seconds_left": 3.5, "strategy": {"mode": "sync", "closures_per_step": 3},
    "metrics": {"loss": 0.5, "accuracy": null}, "queued": 7, "in_flight": 2,
    "workers": [{"connected": true}, {"connected": false}], "servers": [{"connected": true}],
    "newest_checkpoint": "/c/ckpt-1-1-0", "waiting_for": "waiting for worker:1, 3 s"})") ==
          "job         short\n"
          "activity    training\n"
          "progress    epoch 2 of 4, step 30 of 80, 12.2 steps/s, 4 s left\n"
          "mode        sync, closures_per_step 3\n"
          "metrics     accuracy is not finite, loss 0.5000\n"
          "workers     1 of 2, without worker:1\n"
          "servers     1 of 1\n"
          "closures    7 wait, 2 run\n"
          "checkpoint  /c/ckpt-1-1-0\n"
          "waits       waiting for worker:1, 3 s\n");
  REQUIRE(ControlText("status", R"({"job": "short", "activity": "starting the cluster"})") ==
          "job         short\nactivity    starting the cluster\n");
  REQUIRE(ControlText("stop", R"({"checkpoint": "/c/1"})") ==
          "the job ends; its checkpoint is /c/1\n");
  REQUIRE(ControlText("set", R"({"learning_rate": 0.0001})") == "the learning rate is 0.0001\n");
  CHECK_THAT(ControlText("status", R"({"job": "j", "step": 1, "servers": [
      {"connected": true, "tablets": 0, "copies": 1, "drained": true},
      {"task": "ps:2", "connected": false, "tablets": 3, "copies": 0, "drained": false}]})"),
             Catch::Contains("servers     1 of 2, without ps:2\n") &&
                 Catch::Contains(
                     "tablets     ps:0 0 and 1 copies (drained; return-ps ends this), ps:2 3\n"));
  CHECK_THAT(ControlText("status", R"({"job": "j", "step": 1,
      "workers": [{"connected": true, "fenced": true}, {"connected": true}],
      "links": [{"worker": 0, "ps": 0, "p50_seconds": 0.0004, "p99_seconds": 0.001},
                {"worker": 0, "ps": 1, "p50_seconds": 0.020, "p99_seconds": 0.030},
                {"worker": 1, "ps": 1, "p50_seconds": 0.021, "p99_seconds": 0.025}],
      "slow": ["ps:1: p50 20.0 ms"]})"),
             Contains("workers     2 of 2; fenced: worker:0\n") &&
                 Contains("waits for   ps:1 21.0 ms (p99 30.0), ps:0 0.4 ms (p99 1.0)\n"
                          "slow        ps:1: p50 20.0 ms\n"));
  CHECK(ControlText("fence", R"({"task": "worker:1", "fenced": true})") ==
        "other workers get the work of worker:1; it gets none until `unfence worker:1`\n");
  CHECK(ControlText("unfence", R"({"task": "ps:1", "fenced": false})") ==
        "ps:1 may have tablets again; `rebalance` moves those that it had\n");
  REQUIRE(ControlText("extend", R"({"epochs": 9})") == "the job has 9 epochs\n");
  REQUIRE(ControlText("set-mode", R"({"strategy": {"mode": "async"}})") == "the mode is async\n");
}

}  // namespace
}  // namespace cohort

#include "chief/job/job_control.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/base/status.h"

namespace cohort {
namespace {

using Catch::Contains;
using nlohmann::json;

class FakeControlledJob : public ControlledJob {
 public:
  JobStatus now{.job = "short",
                .activity = "training",
                .epochs = 2,
                .steps = 40,
                .steps_per_second = 12.5,
                .newest_checkpoint = "/c/ckpt-1-1-0"};
  absl::Status fail;
  std::optional<ModeChange> change;
  std::optional<TabletMove> moved;
  std::pair<int, bool> fenced;

  JobStatus Status() const override { return now; }
  absl::StatusOr<std::string> TakeCheckpoint() override {
    COHORT_RETURN_IF_ERROR(fail);
    return std::string("/c/ckpt-1-1-1");
  }
  absl::StatusOr<std::string> Stop() override { return std::string("/c/ckpt-1-1-2"); }
  absl::StatusOr<ModeSettings> ChangeMode(const ModeChange& asked) override {
    change = asked;
    return ModeAfter(asked, {}, /*workers=*/3);
  }
  absl::StatusOr<double> SetLearningRate(double rate) override { return rate; }
  absl::StatusOr<uint64_t> MoveTablets(const TabletMove& move) override {
    moved = move;
    COHORT_RETURN_IF_ERROR(fail);
    return 3;
  }
  absl::Status FenceWorker(int worker, bool fence) override {
    fenced = {worker, fence};
    return fail;
  }
  absl::Status SetPaused(bool) override { return fail; }
  absl::Status Extend(uint64_t epochs) override {
    return epochs > 2 ? absl::OkStatus() : InvalidArgument("the job has 2 epochs already");
  }
};

absl::StatusOr<json> Ask(FakeControlledJob* job, const std::string& command,
                         const std::string& request = "") {
  COHORT_ASSIGN_OR_RETURN(const std::string answer,
                          AnswerJobRequest(command, request, job, Logger::Discard().get()));
  return json::parse(answer);
}

TEST_CASE("the status of a job tells what it does, and who is there") {
  FakeControlledJob job;
  json status = Ask(&job, "status").value();
  REQUIRE(status["job"] == "short");
  REQUIRE_FALSE(status.contains("step"));  // the cluster has not started

  CoordinatorState state;
  state.epoch = 1;
  state.steps = 23;
  state.workers = {
      {.steps = 20, .closures = 10, .applied = 40, .sum_staleness = 80, .in_flight = 3},
      {.connected = false}};
  state.worker_reports = {{.address = "a:1", .connected = true, .heard_seconds = 0.5},
                          {.address = "b:1"}};
  state.servers = {true, false};
  state.server_reports = {
      {.address = "c:1", .connected = true, .memory_bytes = 1 << 20, .pushes = 7},
      {.address = "d:1"}};
  state.checkpoint_age_seconds = 90;
  state.waiting_for = "waiting for ps:1";
  state.mode = {.mode = ConsistencyMode::kSync,
                .closures_per_step = 3,
                .backup_work = BackupWork::kDrop,
                .replicas_to_aggregate = 2};
  job.now.state = state;
  status = Ask(&job, "status").value();
  REQUIRE(status["epoch"] == 2);
  REQUIRE(status["step"] == 23);
  REQUIRE(status["steps_per_second"] == 12.5);
  REQUIRE(status["seconds_left"].is_null());
  job.now.pace = 0.5;
  REQUIRE(Ask(&job, "status").value()["seconds_left"] == 2.0 * (job.now.steps - 23));
  job.now.pace = 0;
  REQUIRE(status["workers"][0]["connected"] == true);
  REQUIRE(status["workers"][1]["connected"] == false);
  REQUIRE(status["servers"][1]["connected"] == false);
  REQUIRE(status["workers"][0]["address"] == "a:1");
  REQUIRE(status["workers"][0]["heard_seconds"] == 0.5);
  REQUIRE(status["workers"][0]["closures"] == 10);
  REQUIRE(status["workers"][0]["sum_staleness"] == 80);
  REQUIRE(status["servers"][0]["address"] == "c:1");
  REQUIRE(status["servers"][0]["memory_bytes"] == 1 << 20);
  REQUIRE(status["servers"][0]["pushes"] == 7);
  REQUIRE(status["checkpoint_age_seconds"] == 90);
  REQUIRE(json::parse(StatusJsonText(job.now)) == status);
  REQUIRE(status["waiting_for"] == "waiting for ps:1");
  REQUIRE(status["newest_checkpoint"] == "/c/ckpt-1-1-0");
  REQUIRE(status["strategy"] == json{{"mode", "sync"},
                                     {"closures_per_step", 3},
                                     {"backup_work", "drop"},
                                     {"replicas_to_aggregate", 2}});
  job.now.state->waiting_for.clear();
  REQUIRE(Ask(&job, "status").value()["waiting_for"] == "");
  job.now.state->worker_reports[0].heard_seconds = 12;
  REQUIRE(Ask(&job, "status").value()["waiting_for"] == "worker:0 has said nothing for 12 s");
  // Two have joined, and one of them has left.
  job.now.state->workers = {{}, {}, {.steps = 4}};
  job.now.state->worker_reports = {
      {.address = "a:1"}, {.address = ""}, {.address = "e:1", .connected = true}};
  job.now.state->servers = {true, false, true};
  job.now.state->server_reports = {{.address = "c:1"}, {.address = ""}, {.address = "f:1"}};
  status = Ask(&job, "status").value();
  REQUIRE(status["workers"].size() == 2);
  REQUIRE(status["workers"][1]["task"] == "worker:2");
  REQUIRE(status["workers"][1]["steps"] == 4);
  REQUIRE(status["servers"].size() == 2);
  REQUIRE(status["servers"][1]["task"] == "ps:2");
  job.now.state->epoch = 2;  // after the last epoch
  REQUIRE(Ask(&job, "status").value()["epoch"] == 2);
}

TEST_CASE("checkpoint and stop name the checkpoint") {
  FakeControlledJob job;
  REQUIRE(Ask(&job, "checkpoint").value()["checkpoint"] == "/c/ckpt-1-1-1");
  REQUIRE(Ask(&job, "stop").value()["checkpoint"] == "/c/ckpt-1-1-2");
  job.fail = Unavailable("ps:0 is gone");
  REQUIRE(Ask(&job, "checkpoint").status() == job.fail);
}

TEST_CASE("set-mode passes on what was given") {
  FakeControlledJob job;
  const json sync = Ask(&job, "set-mode",
                        R"({"mode":"sync","closures_per_step":5,)"
                        R"("backup_work":"drop","replicas_to_aggregate":4})")
                        .value();
  REQUIRE(job.change->closures_per_step == 5u);
  REQUIRE(job.change->backup_work == BackupWork::kDrop);
  REQUIRE(sync["strategy"]["replicas_to_aggregate"] == 4);
  const json bounded =
      Ask(&job, "set-mode", R"({"mode":"bounded_staleness","staleness":2})").value();
  REQUIRE(bounded["strategy"] ==
          json{{"mode", "bounded_staleness"}, {"closures_per_step", 3}, {"staleness", 2}});
  REQUIRE_FALSE(job.change->closures_per_step.has_value());
}

TEST_CASE("servers are drained, returned and rebalanced") {
  FakeControlledJob job;
  CHECK(Ask(&job, "drain-ps", R"({"ps": 1})").value() == json{{"tablets_moving", 3}});
  CHECK((job.moved->what == TabletMove::What::kDrain && job.moved->ps == 1));
  CHECK(Ask(&job, "return-ps", R"({"ps": 0})").ok());
  CHECK((job.moved->what == TabletMove::What::kReturn && job.moved->ps == 0));
  CHECK(Ask(&job, "rebalance").ok());
  CHECK(job.moved->what == TabletMove::What::kRebalance);
  for (const char* wrong : {"", "{}", R"({"ps": -1})", R"({"ps": "1"})", R"({"ps": 1e12})"}) {
    INFO(wrong);
    CHECK(absl::IsInvalidArgument(Ask(&job, "drain-ps", wrong).status()));
  }
}

TEST_CASE("tasks are fenced by name") {
  FakeControlledJob job;
  CHECK(Ask(&job, "fence", R"({"task": "worker:2"})").value() ==
        json{{"task", "worker:2"}, {"fenced", true}});
  CHECK(job.fenced == std::pair(2, true));
  CHECK(Ask(&job, "unfence", R"({"task": "worker:0"})").ok());
  CHECK(job.fenced == std::pair(0, false));
  CHECK(Ask(&job, "fence", R"({"task": "ps:1"})").value() ==
        json{{"task", "ps:1"}, {"fenced", true}});
  CHECK((job.moved->what == TabletMove::What::kFence && job.moved->ps == 1));
  CHECK(Ask(&job, "unfence", R"({"task": "ps:1"})").ok());
  CHECK((job.moved->what == TabletMove::What::kReturn && job.moved->ps == 1));
  for (const char* wrong : {"", "{}", R"({"task": 1})", R"({"task": "ps"})", R"({"task": "ps:"})",
                            R"({"task": "chief:0"})", R"({"task": "ps:-1"})", R"({"task": ":1"})",
                            R"({"task": "worker:9999999999"})"}) {
    INFO(wrong);
    CHECK(absl::IsInvalidArgument(Ask(&job, "fence", wrong).status()));
  }
  job.fail = FailedPrecondition("no other worker would be left");
  CHECK(Ask(&job, "fence", R"({"task": "worker:2"})").status() == job.fail);
}

TEST_CASE("a mode as text has the keys of the mode") {
  REQUIRE(TextOf({}) == "async");
  REQUIRE(TextOf({.mode = ConsistencyMode::kBounded, .closures_per_step = 4, .staleness = 2}) ==
          "bounded_staleness, closures_per_step 4, staleness 2");
  ModeSettings sync = {.mode = ConsistencyMode::kSync, .closures_per_step = 3};
  REQUIRE(TextOf(sync) == "sync, closures_per_step 3, backup_work none");
  sync.backup_work = BackupWork::kDrop;
  sync.replicas_to_aggregate = 2;
  REQUIRE(TextOf(sync) == "sync, closures_per_step 3, backup_work drop, replicas_to_aggregate 2");
}

TEST_CASE("a wrong request to a job is refused with the reason") {
  FakeControlledJob job;
  const auto why = [&](const std::string& command, const std::string& request) {
    const auto answer = Ask(&job, command, request);
    REQUIRE(absl::IsInvalidArgument(answer.status()));
    return std::string(answer.status().message());
  };
  REQUIRE_THAT(why("status", "status"), Contains("not JSON"));
  REQUIRE_THAT(why("go", "{}"), Contains("status, checkpoint, stop, set-mode"));
  REQUIRE_THAT(why("set-mode", ""), Contains("needs a \"mode\""));
  const auto mode = [&](const std::string& rest) {
    return why("set-mode", R"({"mode":)" + rest + "}");
  };
  REQUIRE_THAT(mode("7"), Contains("not a text"));
  REQUIRE_THAT(mode(R"("fast")"), Contains("async, sync, bounded_staleness"));
  REQUIRE_THAT(mode(R"("sync","backup_work":"all")"), Contains("none, speculative, drop"));
  REQUIRE_THAT(mode(R"("sync","closures_per_step":-1)"), Contains("closures_per_step"));
  REQUIRE_THAT(mode(R"("sync","closures_per_step":5000000000)"), Contains("32 bits"));
}

TEST_CASE("a mode keeps what the job has, and refuses what does not fit") {
  const ModeSettings now = {.mode = ConsistencyMode::kSync,
                            .closures_per_step = 6,
                            .backup_work = BackupWork::kDrop,
                            .replicas_to_aggregate = 5};
  const auto of = [&](const ModeChange& change) { return ModeAfter(change, now, 3); };
  constexpr auto kSync = ConsistencyMode::kSync;
  REQUIRE(of({.mode = kSync, .closures_per_step = 8})->replicas_to_aggregate == 5);
  REQUIRE(of({.mode = kSync, .backup_work = BackupWork::kNone})->replicas_to_aggregate == 0);
  REQUIRE(of({.mode = kSync})->closures_per_step == 6);
  REQUIRE(of({.mode = ConsistencyMode::kAsync})->closures_per_step == 1);
  REQUIRE(ModeAfter({.mode = kSync}, {}, 3)->closures_per_step == 3);
  REQUIRE(of({.mode = ConsistencyMode::kBounded, .staleness = 1})->staleness == 1);

  for (const ModeChange& wrong :
       {ModeChange{.mode = kSync, .closures_per_step = 0},
        ModeChange{.mode = kSync, .closures_per_step = 4097},
        ModeChange{.mode = kSync, .closures_per_step = 4},
        ModeChange{.mode = kSync, .staleness = 1},
        ModeChange{.mode = kSync, .replicas_to_aggregate = 0},
        ModeChange{.mode = kSync, .backup_work = BackupWork::kNone, .replicas_to_aggregate = 2},
        ModeChange{.closures_per_step = 2}, ModeChange{.backup_work = BackupWork::kNone}}) {
    REQUIRE(absl::IsInvalidArgument(of(wrong).status()));
  }
}

}  // namespace
}  // namespace cohort

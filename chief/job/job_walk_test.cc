// The walk of a job on a cluster whose closures finish at once.
#include "chief/job/job_walk.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "chief/job/fake_cluster_test_util.h"

namespace cohort {
namespace {

using testing::Console;
using testing::FakeCluster;
using testing::LostServer;
using Calls = std::vector<std::string>;

struct WalkedJob {
  WalkedJob() : shown(&cluster.clock) {
    schedule = {.epochs = 2,
                .steps_per_epoch = 3,
                .steps_per_closure = 2,
                .batch_size = 4,
                .train_records = 10,
                .validation_records = 5,
                .validation_every_epochs = 1};
    options.job_name = "t";
    options.checkpoints.every_epochs = 1;
    cluster.now.timeline = 1;
  }
  void KeepBest(double min_delta = 0) {
    best = std::make_unique<BestTracker>(BestRule{.metric = "val_loss", .min_delta = min_delta},
                                         &cluster, &shown.console, shown.log.get());
    cluster.keeper = best->keeper();
  }
  void Use(std::vector<v1::ClassConfig> configs) {
    callbacks =
        std::make_unique<EpochCallbacks>(EpochCallbacks::Options{.configs = std::move(configs)});
    options.learning_rate = 0.5;
    cluster.callbacks = callbacks.get();
  }
  absl::Status Run() {
    walk = std::make_unique<JobWalk>(JobWalk::Environment{.cluster = &cluster,
                                                          .catalog = &cluster,
                                                          .schedule = &schedule,
                                                          .clock = &cluster.clock,
                                                          .log = shown.log.get(),
                                                          .console = &shown.console,
                                                          .metrics = &shown.metrics,
                                                          .best = best.get(),
                                                          .callbacks = callbacks.get(),
                                                          .update_epochs = update_epochs,
                                                          .gives_up = gives_up,
                                                          .replicas_change = replicas_change},
                                     options);
    return walk->Run();
  }
  // Fails the nth call of this name, once.
  void FailOnce(const std::string& call, int nth, absl::Status why) {
    cluster.fail = [call, why, left = nth](const std::string& name) mutable {
      return name == call && --left == 0 ? why : absl::OkStatus();
    };
  }

  FakeCluster cluster;
  Console shown;
  JobSchedule schedule;
  JobWalk::Options options;
  std::unique_ptr<BestTracker> best;
  std::unique_ptr<EpochCallbacks> callbacks;
  std::function<void(bool)> update_epochs;
  std::function<bool(int, bool)> gives_up;
  std::function<bool()> replicas_change;
  std::unique_ptr<JobWalk> walk;
};

v1::ClassConfig Stopping(int64_t patience) {
  return *CompleteConfig(
      CallbackSchemas(),
      ClassOf("EarlyStopping", {{"patience", ConfigOf(patience)}, {"mode", ConfigOf("min")}}));
}

TEST_CASE("training ends when the validation has not improved, and is finished then") {
  WalkedJob job;
  job.schedule.epochs = 9;
  job.Use({Stopping(2)});
  REQUIRE(job.Run().ok());
  // The figure is always the same, so the first epoch is the best one.
  CHECK(job.cluster.now.epoch == 3);
  CHECK(job.shown.Has(
      "EarlyStopping: val_loss was best at epoch 1 (1); training ends after epoch 3 of 9"));
  CHECK(job.cluster.calls.back() == "last checkpoint");
  REQUIRE(job.cluster.manifests.back().history_size() == 3);
  CHECK(job.cluster.manifests.back().history(2).values().at("loss") == 0.5);

  // A chief that is started again sees it from the checkpoint, and one with more patience
  // continues.
  job.Use({Stopping(2)});
  REQUIRE(job.Run().ok());
  CHECK(job.cluster.now.epoch == 3);
  job.Use({Stopping(4)});
  REQUIRE(job.Run().ok());
  CHECK(job.cluster.now.epoch == 5);
}

TEST_CASE("callbacks see each epoch once, also after a rollback") {
  WalkedJob job;
  job.schedule.epochs = 9;
  job.Use({Stopping(3)});
  job.FailOnce("train 6+2", 1, LostServer());
  REQUIRE(job.Run().ok());
  CHECK(job.cluster.now.epoch == 4);
  CHECK(job.cluster.manifests.back().history_size() == 4);
}

v1::ClassConfig CallbackOf(
    std::string_view name,
    std::initializer_list<std::pair<std::string_view, v1::ConfigValue>> arguments) {
  return *CompleteConfig(CallbackSchemas(), ClassOf(name, arguments));
}

TEST_CASE("a callback changes the learning rate between two epochs, and a restart keeps it") {
  WalkedJob job;
  job.schedule.epochs = 3;
  job.Use(
      {CallbackOf("ReduceLROnPlateau", {{"patience", ConfigOf(1)}, {"mode", ConfigOf("min")}})});
  REQUIRE(job.Run().ok());
  // The figure is always the same. After the last epoch nobody needs a rate.
  const Calls& calls = job.cluster.calls;
  const auto set = std::ranges::find(calls, fmt::format("set learning rate {}", double{0.05F}));
  REQUIRE(set != calls.end());
  CHECK(*(set - 1) == "validate 4");
  CHECK(*(set + 1) == "end epoch 2");
  CHECK(std::ranges::count(calls, *set) == 1);
  CHECK(job.cluster.history.at(1).learning_rate() == 0.5);
  CHECK(job.cluster.history.at(2).learning_rate() == double{0.05F});
  CHECK(job.shown.Has("ReduceLROnPlateau: the learning rate is 0.05 now"));
  // With more epochs, the rate that the last epoch asked for is set at the start.
  job.cluster.calls.clear();
  job.schedule.epochs = 4;
  job.Use(
      {CallbackOf("ReduceLROnPlateau", {{"patience", ConfigOf(1)}, {"mode", ConfigOf("min")}})});
  REQUIRE(job.Run().ok());
  CHECK(job.cluster.calls.front() ==
        fmt::format("set learning rate {}",
                    static_cast<double>(static_cast<float>(double{0.05F} * 0.1))));
}

TEST_CASE("LearningRateScheduler sets a rate before the first checkpoint") {
  WalkedJob job;
  v1::ConfigValue schedule;
  for (const double number : {0.0, 0.25, 1.0, 0.125}) {
    *schedule.mutable_list()->add_values() = ConfigOf(number);
  }
  job.Use({CallbackOf("LearningRateScheduler", {{"schedule", schedule}})});
  REQUIRE(job.Run().ok());
  CHECK(Calls(job.cluster.calls.begin(), job.cluster.calls.begin() + 2) ==
        Calls{"set learning rate 0.25", "checkpoint"});
  CHECK(std::ranges::count(job.cluster.calls, "set learning rate 0.125") == 1);
}

TEST_CASE("a learning rate of 0 is a rate") {
  WalkedJob job;
  job.schedule.epochs = 3;
  SECTION("of a schedule that warms up") {
    v1::ConfigValue schedule;
    for (const double number : {0.0, 0.0, 1.0, 0.25}) {
      *schedule.mutable_list()->add_values() = ConfigOf(number);
    }
    job.Use({CallbackOf("LearningRateScheduler", {{"schedule", schedule}})});
    REQUIRE(job.Run().ok());
    CHECK(job.cluster.calls.front() == "set learning rate 0");
    CHECK(job.cluster.history.at(1).learning_rate() == 0.25);
  }
  SECTION("of a user, which a callback keeps") {
    job.Use({CallbackOf("ReduceLROnPlateau", {{"mode", ConfigOf("min")}})});
    job.cluster.now.learning_rate = 0;
    REQUIRE(job.Run().ok());
    CHECK(job.cluster.now.learning_rate == 0);
  }
  CHECK(job.cluster.history.at(0).has_learning_rate());
  CHECK(job.cluster.history.at(0).learning_rate() == 0);
}

TEST_CASE("a job ends with its best epoch if a callback restores it") {
  WalkedJob job;
  job.schedule.epochs = 9;
  job.KeepBest();
  job.Use({CallbackOf("EarlyStopping", {{"patience", ConfigOf(2)},
                                        {"mode", ConfigOf("min")},
                                        {"restore_best_weights", ConfigOf(true)}})});
  bool stops = true;
  SECTION("after it has stopped") {}
  SECTION("after the last epoch") {
    job.schedule.epochs = 3;
    stops = false;
  }
  SECTION("also if a server is lost meanwhile") {
    job.FailOnce("last checkpoint", 1, LostServer());
  }
  job.cluster.validation["loss"] = 1;
  job.cluster.fail = [&, fail = job.cluster.fail](const std::string& call) {
    if (call == "end epoch 1") job.cluster.validation["loss"] = 0.5;
    if (call == "end epoch 2") job.cluster.validation["loss"] = 0.75;
    return fail ? fail(call) : absl::OkStatus();
  };
  REQUIRE(job.Run().ok());
  const v1::Manifest& last = job.cluster.manifests.back();
  CHECK(last.finished());
  CHECK(last.epoch() == 2);
  CHECK(last.history_size() == 2);
  CHECK(last.trained_epochs() == (stops ? 4 : 3));
  CHECK(last.trained_steps() == (stops ? 12 : 9));
  CHECK(last.stopped().empty() != stops);
  CHECK(job.shown.Has("the job ends with the weights of its best epoch: /c/"));
}

TEST_CASE("the best epoch is the one that EarlyStopping calls the best") {
  WalkedJob job;
  job.schedule.epochs = 9;
  job.KeepBest(0.1);
  job.Use({CallbackOf("EarlyStopping", {{"patience", ConfigOf(2)},
                                        {"mode", ConfigOf("min")},
                                        {"min_delta", ConfigOf(0.1)},
                                        {"restore_best_weights", ConfigOf(true)}})});
  job.cluster.validation["loss"] = 1;
  job.cluster.fail = [&](const std::string& call) {
    if (call.starts_with("end epoch")) job.cluster.validation["loss"] -= 0.01;
    return absl::OkStatus();
  };
  REQUIRE(job.Run().ok());
  CHECK(job.cluster.manifests.back().epoch() == 1);
  CHECK(job.cluster.manifests.back().trained_epochs() == 3);
}

TEST_CASE("max_steps ends a job inside an epoch, and more of them continue in it") {
  WalkedJob job;
  job.schedule.max_steps = 5;
  REQUIRE(job.Run().ok());
  CHECK(Calls(job.cluster.calls.end() - 4, job.cluster.calls.end()) ==
        Calls{"train 3+2", "validate 0", "validate 4", "last checkpoint"});
  CHECK(job.cluster.manifests.back().epoch() == 1);
  CHECK(job.cluster.manifests.back().step() == 5);
  CHECK(job.shown.Has("`fit.max_steps` ends the training at step 5, inside epoch 2"));
  job.schedule.max_steps = 0;
  job.cluster.calls.clear();
  REQUIRE(job.Run().ok());
  CHECK(job.cluster.calls ==
        Calls{"train 5+1", "end epoch 2", "validate 0", "validate 4", "last checkpoint"});
  // At the end of an epoch it ends the job as `epochs` does.
  WalkedJob whole;
  whole.schedule.epochs = 5;
  whole.schedule.max_steps = 6;
  REQUIRE(whole.Run().ok());
  CHECK(whole.cluster.now.epoch == 2);
}

TEST_CASE("a job gets more epochs while it runs") {
  WalkedJob job;
  job.update_epochs = [&](bool ends) {
    if (ends && job.schedule.epochs == 2) job.schedule.epochs = 3;
  };
  REQUIRE(job.Run().ok());
  CHECK(job.cluster.now.epoch == 3);
}

TEST_CASE("TerminateOnNaN ends the job at a loss that is not finite") {
  WalkedJob job;
  job.Use({*CompleteConfig(CallbackSchemas(), ClassOf("TerminateOnNaN", {}))});
  job.cluster.now.counters.not_finite = 1;
  job.cluster.now.counters.first_not_finite_step = 2;
  const absl::Status status = job.Run();
  CHECK(absl::IsInvalidArgument(status));
  CHECK_THAT(std::string(status.message()),
             Catch::StartsWith("TerminateOnNaN: the loss is infinite or NaN at step 2, epoch 1. "
                               "The newest checkpoint is /c/"));
}

TEST_CASE("a job takes a first checkpoint, trains and validates each epoch, and takes the last") {
  WalkedJob job;
  REQUIRE(job.Run().ok());
  CHECK(job.cluster.calls == Calls{"checkpoint", "train 0+2", "train 2+1", "end epoch 1",
                                   "checkpoint", "validate 0", "validate 4", "train 3+2",
                                   "train 5+1", "end epoch 2", "validate 0", "validate 4",
                                   "last checkpoint"});
  CHECK(job.walk->figures().steps == 6);
  CHECK(!job.walk->continued());
  CHECK(job.walk->training_metrics().at(0).Value() == 0.5);
  CHECK(job.walk->validation_metrics().at(0).Value() == 1);
  CHECK(job.shown.Has("epoch 1/2"));
  CHECK(job.shown.Has("epoch 2/2 validation, loss 1.0000"));
}

TEST_CASE("with keep_best an epoch's checkpoint comes after its validation") {
  WalkedJob job;
  job.KeepBest();
  REQUIRE(job.Run().ok());
  CHECK(job.cluster.calls == Calls{"checkpoint", "train 0+2", "train 2+1", "end epoch 1",
                                   "validate 0", "validate 4", "checkpoint", "train 3+2",
                                   "train 5+1", "end epoch 2", "validate 0", "validate 4",
                                   "last checkpoint"});
  CHECK(job.best->best()->epoch() == 1);
  CHECK(job.shown.Has("best checkpoint so far: "));
}

TEST_CASE("the best checkpoint has the weights that were validated, if the last one has others") {
  WalkedJob job;
  job.KeepBest();
  job.options.ends_with_other_weights = true;
  bool best = true;
  job.cluster.validation["loss"] = 1;
  job.cluster.fail = [&](const std::string& call) {
    if (call == "end epoch 2") job.cluster.validation["loss"] = best ? 0.5 : 2;
    return absl::OkStatus();
  };
  SECTION("the last state is the best") {}
  SECTION("an earlier state is the best") { best = false; }
  REQUIRE(job.Run().ok());
  const Calls& calls = job.cluster.calls;
  CHECK(calls.back() == "last checkpoint");
  CHECK((*(calls.end() - 2) == "checkpoint") == best);
  const std::vector<v1::Manifest>& manifests = job.cluster.manifests;
  const v1::Manifest& last = manifests.back();
  REQUIRE(last.has_best());
  CHECK(last.best().checkpoint() == IdOf(*(manifests.end() - 2)).ToString());
  CHECK(last.best().epoch() == (best ? 2 : 1));
}

// The first such checkpoint fails, because a server is away and then lost.
void FailCheckpoint(WalkedJob* job, const std::string& call) {
  job->cluster.fail = [call, failing = true](const std::string& made) mutable {
    if (!failing || (made != call && made != "await servers")) return absl::OkStatus();
    failing = made == call;
    return LostServer();
  };
}

TEST_CASE("a lost server takes the job back to its newest checkpoint") {
  WalkedJob job;
  job.options.checkpoints.every_epochs = 1;
  SECTION("in the middle of an epoch") {
    job.FailOnce("train 5+1", 1, LostServer());
    REQUIRE(job.Run().ok());
    const auto restore = std::find(job.cluster.calls.begin(), job.cluster.calls.end(), "restore");
    CHECK(Calls(restore, job.cluster.calls.end()) == Calls{"restore", "train 3+2", "train 5+1",
                                                           "end epoch 2", "validate 0",
                                                           "validate 4", "last checkpoint"});
    CHECK(job.shown.Has("; going back to the newest checkpoint"));
    CHECK(job.shown.Has("restored: continuing at step 3"));
  }
  SECTION("in a validation, which runs again") {
    job.FailOnce("validate 4", 1, LostServer());
    REQUIRE(job.Run().ok());
    const auto restore = std::find(job.cluster.calls.begin(), job.cluster.calls.end(), "restore");
    CHECK(Calls(restore, restore + 3) == Calls{"restore", "validate 0", "validate 4"});
  }
  SECTION("in the first checkpoint") {
    FailCheckpoint(&job, "checkpoint");
    REQUIRE(job.Run().ok());
    CHECK(Calls(job.cluster.calls.begin(), job.cluster.calls.begin() + 4) ==
          Calls{"checkpoint", "await servers", "restore", "checkpoint"});
  }
  SECTION("in the last checkpoint") {
    FailCheckpoint(&job, "last checkpoint");
    REQUIRE(job.Run().ok());
    CHECK(std::count(job.cluster.calls.begin(), job.cluster.calls.end(), "end epoch 2") == 2);
    CHECK(job.cluster.manifests.back().finished());
  }
  CHECK(job.cluster.now.steps == 6);
  CHECK(job.cluster.now.timeline == 2);
}

TEST_CASE("a job that continues without a lost server ends its walk, unless the server is back") {
  WalkedJob job;
  bool was_back = false;
  job.gives_up = [&](int server, bool is_back) {
    CHECK(server == 0);
    was_back = is_back;
    return !is_back;
  };
  job.FailOnce("train 5+1", 1, LostServer());
  SECTION("it is away") {
    CHECK(JobWalk::NamesLostServer(job.Run()));
    CHECK(std::ranges::count(job.cluster.calls, "restore") == 0);
  }
  SECTION("it is back") {
    job.cluster.now.servers = {true};
    CHECK(job.Run().ok());
    CHECK(was_back);
    CHECK(std::ranges::count(job.cluster.calls, "restore") == 1);
  }
}

TEST_CASE("a walk takes a checkpoint and ends when replicas are back, but not near the end") {
  WalkedJob job;
  int asked = 0;
  job.replicas_change = [&] { return ++asked == 1; };
  const absl::Status ended = job.Run();
  CHECK(JobWalk::EndedForReplicas(ended));
  CHECK(!JobWalk::NamesLostServer(ended));
  CHECK(job.cluster.calls == Calls{"checkpoint", "train 0+2", "train 2+1", "checkpoint"});
  // The next walk is that of another cluster. It asks once, at the end of the first epoch: in the
  // last one no place waits.
  REQUIRE(job.Run().ok());
  CHECK(asked == 2);
  CHECK(job.cluster.calls.back() == "last checkpoint");
}

TEST_CASE("with replicas that may leave, a checkpoint precedes each validation") {
  WalkedJob job;
  SECTION("with the best epoch") { job.KeepBest(); }
  SECTION("without checkpoints of epochs") { job.options.checkpoints.every_epochs = 0; }
  job.replicas_change = [] { return false; };
  REQUIRE(job.Run().ok());
  int validations = 0;
  for (auto call = job.cluster.calls.begin(); call != job.cluster.calls.end(); ++call) {
    if (*call != "validate 0") continue;
    ++validations;
    CHECK(*std::prev(call) == "checkpoint");
  }
  CHECK(validations == 2);
}

TEST_CASE("a job without a checkpoint for the replicas that are back continues without them") {
  WalkedJob job;
  bool asked = false;
  job.replicas_change = [&] { return !std::exchange(asked, true); };
  job.FailOnce("checkpoint", 2, Internal("the disk"));
  REQUIRE(job.Run().ok());
  CHECK(asked);
  CHECK(job.cluster.now.steps == 6);
}

TEST_CASE("a checkpoint waits for a server that is only away") {
  for (const char* checkpoint : {"checkpoint", "last checkpoint"}) {
    WalkedJob job;
    job.FailOnce(checkpoint, 1, LostServer());
    REQUIRE(job.Run().ok());
    const Calls& calls = job.cluster.calls;
    CHECK(std::ranges::count(calls, "restore") == 0);
    const auto waited = std::ranges::find(calls, "await servers");
    REQUIRE(waited != calls.end());
    CHECK(Calls(waited - 1, waited + 2) == Calls{checkpoint, "await servers", checkpoint});
  }
}

TEST_CASE("a job that goes back to one checkpoint again and again ends") {
  WalkedJob job;
  // A new process has taken the place of the lost one.
  const auto [lost_bytes, text] = GENERATE(std::pair(uint64_t{3} << 30, "used 3.00 GiB"),
                                           std::pair(uint64_t{700} << 20, "used 700 MiB"),
                                           std::pair(uint64_t{0}, "had not reported its memory"));
  job.cluster.now.server_reports = {{.memory_bytes = 1000, .lost_memory_bytes = lost_bytes}};
  int rollbacks = 0;
  job.cluster.fail = [&](const std::string& call) {
    if (call == "restore") ++rollbacks;
    return call == "train 2+1" ? LostServer() : absl::OkStatus();
  };
  const absl::Status ended = job.Run();
  CHECK(absl::IsUnavailable(ended));
  CHECK(rollbacks == RollbackLimit::kMost);
  const std::string message(ended.message());
  INFO(message);
  CHECK(message.find("went back to " + job.cluster.newest_checkpoint() + " 5 times") !=
        std::string::npos);
  CHECK(message.find("ps:0 is gone") != std::string::npos);
  CHECK(message.find(text) != std::string::npos);
}

TEST_CASE("any other error ends the job") {
  WalkedJob job;
  job.FailOnce("train 2+1", 1, InvalidArgument("a bad record"));
  CHECK(job.Run().message() == "a bad record");
  CHECK(job.cluster.calls.back() == "train 2+1");
}

TEST_CASE("a failed checkpoint of an epoch does not end the job") {
  WalkedJob job;
  job.FailOnce("checkpoint", 2, ResourceExhausted("the disk is full"));
  REQUIRE(job.Run().ok());
  CHECK(job.cluster.manifests.size() == 2);
}

TEST_CASE("a continued job schedules what is unfinished first, and takes no first checkpoint") {
  WalkedJob job;
  job.cluster.manifests.emplace_back();
  job.cluster.now.epoch = 1;
  job.cluster.now.steps = 4;
  job.cluster.now.next_place = 6;
  job.cluster.unfinished = {{.place = 3, .steps = 2}};
  REQUIRE(job.Run().ok());
  CHECK(job.cluster.calls ==
        Calls{"train 3+2", "end epoch 2", "validate 0", "validate 4", "last checkpoint"});
  CHECK(job.walk->continued());
  CHECK(job.shown.Has("continuing t at step 4 of 6"));
}

TEST_CASE("a chief that died between an epoch and its validation validates again") {
  WalkedJob job;
  job.cluster.manifests.emplace_back();
  job.cluster.now.epoch = 1;
  job.cluster.now.steps = job.cluster.now.next_place = 3;
  REQUIRE(job.Run().ok());
  CHECK(Calls(job.cluster.calls.begin(), job.cluster.calls.begin() + 3) ==
        Calls{"validate 0", "validate 4", "train 3+2"});
}

TEST_CASE("checkpoints by steps are taken during an epoch") {
  WalkedJob job;
  job.options.checkpoints = {.every_steps = 2};
  job.options.epochs.window = 1;
  REQUIRE(job.Run().ok());
  CHECK(Calls(job.cluster.calls.begin(), job.cluster.calls.begin() + 4) ==
        Calls{"checkpoint", "train 0+2", "checkpoint", "train 2+1"});
}

}  // namespace
}  // namespace cohort

// The coordinator's API over real streams, with peers that compute nothing.
#include "chief/api/coordinator.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <future>
#include <regex>
#include <set>
#include <thread>

#include "chief/api/coordinator_test_util.h"
#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/journal.h"
#include "common/schema/class_registry.h"
#include "common/testing/directory_test_util.h"
#include "proto/checkpoint.pb.h"

namespace {
std::atomic<bool> journal_held{false};
}

// In the place of the library's.
extern "C" int fsync(int fd) {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), error);
  const bool journal = path.filename().string().starts_with("journal-");
  while (journal && journal_held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace cohort {
namespace {

using testing::Arguments;
using testing::Await;
using testing::Cluster;
using testing::Hold;
using testing::RequireOk;

TEST_CASE("Schedule, Join, Done and Fetch over structures") {
  Cluster c(2, 2);
  c.Start();
  std::map<std::string, std::vector<RemoteValue>> values;
  for (int i = 0; i < 200; ++i) {
    auto value = c.coordinator->Schedule(c.step, Arguments(1));
    REQUIRE(value.ok());
    values[i % 2 == 0 ? "even" : "odd"].push_back(*value);
  }
  REQUIRE(c.coordinator->Join().ok());
  CHECK(*c.coordinator->Done());
  const auto fetched = Fetch(values);
  REQUIRE(fetched.ok());
  CHECK(fetched->at("even").size() == 100);
  CHECK(fetched->at("odd")[1].outputs[0].values<float>()[0] == 3);  // the place of the fourth
  CHECK(fetched->at("odd")[1].metrics[0].Value() == 2);
  CHECK(c.workers[0]->executed + c.workers[1]->executed == 200);
  CHECK(c.workers[0]->executed > 0);
  CHECK(c.workers[1]->executed > 0);
  CHECK(c.coordinator->state().steps == 200);
  CHECK(RemoteValue().Fetch().status().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("an error is raised once, and scheduling continues") {
  Cluster c(2, 1);
  c.Start();
  std::vector<RemoteValue> values;
  const auto bad = c.coordinator->Schedule(c.step, Arguments(FakePeer::kTooMany));
  REQUIRE(bad.ok());
  absl::Status raised;
  for (int i = 0; i < 1000 && raised.ok(); ++i) {
    const auto value = c.coordinator->Schedule(c.step, Arguments(1));
    raised = value.status();
    if (value.ok()) values.push_back(*value);
  }
  if (raised.ok()) raised = c.coordinator->Join();
  CHECK(absl::IsInvalidArgument(raised));
  CHECK(absl::IsInvalidArgument(bad->Fetch().status()));
  for (const RemoteValue& value : values) {
    CHECK(value.ready());
    const absl::Status status = value.Fetch().status();
    CHECK((status.ok() || absl::IsAborted(status)));
  }
  CHECK(c.coordinator->Join().ok());
  REQUIRE(c.coordinator->Schedule(c.step, Arguments(1)).ok());
  CHECK(c.coordinator->Join().ok());
}

TEST_CASE("two datasets of one spec are two iterators, also in the next incarnation") {
  Cluster c(1, 1);
  v1::DatasetSpec spec;
  *spec.mutable_source_class() = ClassOf("generator");
  std::set<int> made;
  const auto make = [&](uint64_t seed) {
    const auto dataset =
        c.coordinator->CreatePerWorkerDataset(spec, {.name = "a", .batch_size = 4, .seed = seed});
    RequireOk(dataset.status());
    made.insert(dataset->resource);
  };
  std::vector<std::string> names;
  for (size_t life = 1; life <= 2; ++life) {
    c.Start();
    spec.set_prefetch(static_cast<uint32_t>(life));  // the batches are the same
    made.clear();
    for (const uint64_t seed : {1, 1, 2}) make(seed);
    CHECK(made.size() == 3);
    Await([&] { return c.workers[0]->resources().size() == 3 * life; });
  }
  names = c.workers[0]->resources();
  CHECK(std::set<std::string>(names.begin(), names.end()).size() == 3);
}

TEST_CASE("arguments beside a dataset come to the worker") {
  Cluster c(1, 1);
  c.Start();
  v1::DatasetSpec spec;
  *spec.mutable_source_class() = ClassOf("generator");
  const auto dataset = c.coordinator->CreatePerWorkerDataset(spec, {.name = "a", .batch_size = 4});
  RequireOk(dataset.status());
  RequireOk(c.coordinator->Schedule(c.step, *dataset, Arguments(1)).status());
  RequireOk(c.coordinator->Join());
  RequireOk(c.coordinator->Schedule(c.step, *dataset, Arguments(FakePeer::kTooMany)).status());
  CHECK(testing::Contains(c.coordinator->Join().ToString(), "too many arguments"));
}

TEST_CASE("closures that a worker does not end go to others after the closure timeout") {
  Cluster c(2, 1);
  c.options.closure_timeout_s = 0.1;
  c.options.closure_timeout_ends_job = true;
  c.workers[0]->hold = true;
  c.Start();
  for (int i = 0; i < 20; ++i) REQUIRE(c.coordinator->Schedule(c.step, Arguments(1)).ok());
  CHECK(*c.coordinator->JoinFor(ToSeconds(TestLimit())));
  CHECK(c.workers[0]->executed == 0);
  CHECK(c.workers[1]->executed >= 20);
}

TEST_CASE("the state shows which worker delays the others") {
  Cluster c(2, 1);
  c.workers[0]->hold = true;
  c.Start();
  for (int i = 0; i < 20; ++i) REQUIRE(c.coordinator->Schedule(c.step, Arguments(1)).ok());
  const auto worker = [&](size_t i) { return c.coordinator->state().workers.at(i); };
  Await([&] {
    return worker(1).in_flight == 0 && c.coordinator->state().queued == 0 &&
           worker(0).silent_seconds > 0.2;
  });
  CHECK(worker(0).steps == 0);
  CHECK(worker(0).in_flight > 0);
  CHECK(worker(1).steps + worker(0).in_flight == 20);
  CHECK(worker(1).silent_seconds == 0);
}

TEST_CASE("the state has what each task reports") {
  Cluster c(1, 1);
  c.Start();
  for (int i = 0; i < 3; ++i) REQUIRE(c.coordinator->Schedule(c.step, Arguments(1)).ok());
  const auto reports = [&] {
    const CoordinatorState state = c.coordinator->state();
    return std::vector<TaskReport>{state.worker_reports.at(0), state.server_reports.at(0)};
  };
  Await([&] {
    const auto all = reports();
    return all[0].memory_bytes == kFakeMemoryBytes && all[1].memory_bytes == kFakeMemoryBytes;
  });
  for (const TaskReport& report : reports()) {
    CHECK(report.connected);
    CHECK(report.heard_seconds < ToSeconds(TestLimit()));
  }
  CHECK(reports()[0].address == c.workers[0]->address().ToString());
  CHECK(reports()[1].address == c.servers[0]->address().ToString());
  Await([&] { return c.coordinator->state().workers.at(0).closures == 3; });
  CHECK(c.coordinator->state().checkpoint_age_seconds > 0);
  c.servers[0]->Kill();
  Await([&] { return !reports()[1].connected; });
  CHECK(reports()[1].lost_memory_bytes == kFakeMemoryBytes);
}

TEST_CASE("a worker that dies loses nothing") {
  Cluster c(2, 1);
  c.Start();
  c.workers[0]->hold = true;
  std::vector<RemoteValue> values;
  for (int i = 0; i < 100; ++i) values.push_back(*c.coordinator->Schedule(c.step, Arguments(1)));
  while (c.coordinator->state().counters.finished < 50) {
    REQUIRE(c.coordinator->JoinFor(0.01).ok());
  }
  c.workers[0]->Kill();
  REQUIRE(c.coordinator->Join().ok());
  CHECK(Fetch(values).ok());
  CHECK(c.coordinator->state().counters.workers_lost == 1);
  CHECK(c.coordinator->state().counters.requeued > 0);
}

TEST_CASE("a worker that ends in order is not a lost one") {
  Cluster c(2, 1);
  c.Start();
  c.workers[0]->Leave();
  Await([&] { return !c.coordinator->state().workers.at(0).connected; });
  CHECK(c.coordinator->state().counters.workers_lost == 0);
  c.workers[1]->Kill();
  Await([&] { return c.coordinator->state().counters.workers_lost == 1; });
}

TEST_CASE("the streams that a chief closes at its end are not lost tasks") {
  std::string said;
  {
    Cluster c(2, 1);
    c.log = *Logger::Create({.to_stderr = false, .sink = [&](std::string_view line) {
                               said.append(line).append("\n");
                             }});
    c.options.log = c.log.get();
    c.Start();
  }
  CHECK_THAT(said, Catch::Contains("task_adopted") && !Catch::Contains("task_lost"));
}

TEST_CASE("a lost server is a typed error; Restore waits for it and says which") {
  Cluster c(1, 2);
  c.Start();
  RequireOk(c.coordinator->Checkpoint());
  c.servers[1]->Kill();
  absl::Status raised;
  while (raised.ok()) {
    raised = c.coordinator->Schedule(c.step, Arguments(1)).status();
    if (raised.ok()) raised = c.coordinator->JoinFor(0.05).status();
  }
  REQUIRE(GetFailure(raised).has_value());
  CHECK(GetFailure(raised)->role == "ps");
  CHECK(GetFailure(raised)->index == 1);
  CHECK(absl::IsFailedPrecondition(c.coordinator->Schedule(c.step, Arguments(1)).status()));
}

TEST_CASE("missing tasks are named when the time is up") {
  Cluster c(1, 1);
  c.options.cluster.Set({Role::kWorker, 1}, {"127.0.0.1", 1});
  c.options.task_timeout_s = 1.5;
  std::vector<std::string> waits;
  c.options.on_wait = [&](const std::string& what) { waits.push_back(what); };
  const auto started = ClusterCoordinator::Start(c.options);
  CHECK(absl::IsDeadlineExceeded(started.status()));
  const std::string message(started.status().message());
  CHECK(message.find("worker:1 (127.0.0.1:1)") != std::string::npos);
  CHECK(message.find("worker:0") == std::string::npos);
  REQUIRE(!waits.empty());
  CHECK(waits[0].find("waiting for worker:1") == 0);
}

TEST_CASE("a task that says it is another is refused by name") {
  Cluster c(1, 1);
  c.options.cluster.Set({Role::kPs, 1}, c.servers[0]->address());
  const auto started = ClusterCoordinator::Start(c.options);
  CHECK(absl::IsFailedPrecondition(started.status()));
  CHECK(std::string(started.status().message()).find("says that it is ps:0") != std::string::npos);
}

TEST_CASE("a message that one end cannot parse ends the chief at once") {
  for (const bool chief_cannot : {false, true}) {
    Cluster c(1, 1);
    c.options.task_timeout_s = 60;
    c.workers[0]->cannot_parse = !chief_cannot;
    c.workers[0]->sends_noise = chief_cannot;
    const auto started = ClusterCoordinator::Start(c.options);
    CHECK(absl::IsInvalidArgument(started.status()));
    const std::string message(started.status().message());
    INFO(message);
    CHECK(message.find("worker:0: ") == 0);
    CHECK(message.find(chief_cannot ? "this chief cannot read what it sends"
                                    : "it cannot read what this chief sends") != message.npos);
    CHECK(message.find(chief_cannot ? "is not a cohort.v1.WorkerToChief"
                                    : "is not a cohort.v1.ChiefToWorker") != message.npos);
  }
}

TEST_CASE("what a failed checkpoint has written is deleted, and its end is reported") {
  std::atomic<bool> bad = true;
  std::atomic<int> failed = 0, committed = 0;
  Cluster c(1, 1);
  c.options.complete_manifest = [&](v1::Manifest* manifest) {
    if (bad) manifest->add_files()->set_name("../elsewhere");
  };
  c.options.on_cut_done = [&](const absl::Status& status) { ++(status.ok() ? committed : failed); };
  c.Start();
  CHECK(absl::IsInvalidArgument(c.coordinator->Checkpoint()));
  Await([&] { return !std::filesystem::exists(c.directory / "ckpt-1-1-0"); });
  CHECK(failed == 1);  // its end is reported before the deletion
  bad = false;
  RequireOk(c.coordinator->Checkpoint());
  Await([&] { return committed == 1; });
  CHECK(std::filesystem::exists(c.coordinator->newest_checkpoint()));
}

TEST_CASE("checkpoints commit; one that fails is an error, and the next is tried") {
  Cluster c(1, 2);
  c.Start();
  RequireOk(c.coordinator->Checkpoint());
  const std::string first = c.coordinator->newest_checkpoint();
  CHECK(std::filesystem::exists(first + "/manifest.json"));
  c.servers[1]->refuse_snapshots = true;
  CHECK(absl::IsResourceExhausted(c.coordinator->Checkpoint()));
  CHECK(c.coordinator->newest_checkpoint() == first);
  c.servers[1]->refuse_snapshots = false;
  for (int i = 0; i < 6; ++i) REQUIRE(c.coordinator->Checkpoint().ok());
  Await([&] { return ListCheckpoints(c.directory.path())->size() == c.options.max_to_keep; });
  CHECK(c.coordinator->state().counters.cuts == 7);
  CHECK(c.coordinator->state().counters.cut_failures == 1);
}

TEST_CASE("the next incarnation resumes live servers, under the next generation") {
  Cluster c(1, 2);
  c.Start();
  const auto place = [&](uint64_t p) {
    return c.coordinator->Schedule({.step = c.step, .place = JobPlace{p, 50}}).ok();
  };
  for (uint64_t p = 0; p < 50; ++p) REQUIRE(place(p));
  REQUIRE(c.coordinator->Join().ok());
  c.Start();
  const CoordinatorState state = c.coordinator->state();
  CHECK(state.generation == 2);
  CHECK(state.timeline == 1);
  CHECK(state.steps == 50);
  CHECK(state.next_place == 50);
  CHECK(state.metrics.at(0).Scalar(kTotal) == 100);
  CHECK(c.coordinator->Unfinished().empty());
  SECTION("and ends it: every task gets a shutdown") {
    REQUIRE(c.coordinator->Shutdown("the end", true).ok());
    CHECK(c.workers[0]->shutdown_reason() == "the end");
    CHECK(c.servers[1]->shutdown_reason() == "the end");
  }
  SECTION("a server without tablets means a rollback") {
    c.coordinator.reset();
    c.servers[0]->Kill();
    c.servers[0] = std::make_unique<FakePeer>(Task{Role::kPs, 0});
    c.options.cluster.Set({Role::kPs, 0}, c.servers[0]->address());
    c.Start();
    CHECK(c.coordinator->state().timeline == 2);
    CHECK(c.coordinator->state().next_place == 0);  // there was no checkpoint
  }
}

TEST_CASE("a full disk of the journal is reported and waited for, and does not end the job") {
  std::atomic<int> errors{0};  // must outlive the logger
  Cluster c(1, 1);
  c.log = *Logger::Create({.to_stderr = false, .sink = [&](std::string_view line) {
                             errors += testing::Contains(line, "journal_error") ? 1 : 0;
                           }});
  c.options.log = c.log.get();
  c.options.flush_limit_s = 3600;  // longer than any test may take
  c.Start();
  const auto train = [&] {
    REQUIRE(c.coordinator->Schedule(c.step, Arguments(1)).ok());
    REQUIRE(c.coordinator->Join().ok());
  };
  train();  // ids are reserved
  auto full = std::make_unique<testing::FullDisk>(0);
  train();
  // Several tries.
  Await([&] { return c.coordinator->state().journal_stalled_seconds > 1.5; });
  CoordinatorState state = c.coordinator->state();
  CHECK(state.waiting_for.find("waiting for the journal: cannot write ") == 0);
  CHECK(std::regex_search(state.waiting_for,
                          std::regex("/journal/journal-1: File too large, [0-9]+ s$")));
  CHECK(state.journal_refusals >= 1);
  CHECK(errors >= 1);
  SECTION("it continues when there is room") {
    full.reset();
    Await([&] { return c.coordinator->state().journal_stalled_seconds == 0; });
    CHECK(c.coordinator->state().waiting_for.empty());
    c.Start();
    CHECK(c.coordinator->state().steps == 2);
  }
  SECTION("an interrupted one ends at once") {
    c.coordinator->Interrupt();
    c.coordinator.reset();
  }
}

TEST_CASE("a finished job whose last checkpoint is there ends well on a full disk") {
  Cluster c(1, 1);
  c.Start();
  RequireOk(c.coordinator->Checkpoint(/*finished=*/true));
  const testing::FullDisk full(0);
  RequireOk(c.coordinator->Shutdown("the end", /*job_finished=*/true));
  CHECK(c.workers[0]->shutdown_reason() == "the end");
  CHECK(c.servers[0]->shutdown_reason() == "the end");
}

// No record becomes durable while it lives.
struct HeldJournal {
  HeldJournal() { journal_held = true; }
  ~HeldJournal() { journal_held = false; }
};

TEST_CASE("the last checkpoint of a finished job does not wait for a full disk's journal") {
  Cluster c(1, 1);
  c.Start();
  const std::string journal = c.directory / "journal/journal-1";
  constexpr int kRoom = 4096;  // more than a manifest
  while (std::filesystem::file_size(journal) <= kRoom) {
    RequireOk(c.coordinator->Schedule(c.step, Arguments(1)).status());
    RequireOk(c.coordinator->Join());
    c.coordinator->Flush();
  }
  const testing::FullDisk full(kRoom);
  RequireOk(c.coordinator->Checkpoint(/*finished=*/true));
  CHECK(c.coordinator->state().counters.cuts == 0);  // it is there, and its record is not
  CHECK(ListCheckpoints(c.directory.path())->size() == 1);
  RequireOk(c.coordinator->Shutdown("the end", /*job_finished=*/true));
  CHECK(c.workers[0]->shutdown_reason() == "the end");
}

TEST_CASE("a job that is interrupted when its last checkpoint is committed is finished") {
  Cluster c(1, 1);
  c.Start();
  const HeldJournal held;
  auto last = std::async(std::launch::async, [&] { return c.coordinator->Checkpoint(true); });
  Await([&] { return !c.coordinator->newest_checkpoint().empty(); });
  c.coordinator->Interrupt();
  RequireOk(last.get());
  CHECK(c.coordinator->state().counters.cuts == 0);
  CHECK(absl::IsCancelled(c.coordinator->Shutdown("the end", /*job_finished=*/true)));
}

TEST_CASE("checkpoints do not wait for the deletion of older ones") {
  Cluster c(1, 1);
  Hold hold;
  c.log = *Logger::Create(
      {.level = LogLevel::kWarning, .to_stderr = false, .sink = [&](std::string_view line) {
         if (testing::Contains(line, "checkpoint_retention") && !hold.here()) hold.Come();
       }});
  c.options.log = c.log.get();
  c.options.max_to_keep = 1;
  c.Start();
  RequireOk(c.coordinator->Checkpoint());
  // It cannot be deleted, and the thread that logs this is held.
  std::filesystem::create_directories(c.coordinator->newest_checkpoint() + "/a/b");
  RequireOk(c.coordinator->Checkpoint());
  Await([&] { return hold.here(); });
  RequireOk(c.coordinator->Checkpoint());
  CHECK(c.coordinator->state().counters.cuts == 3);
  hold.Release();
  c.coordinator.reset();
  CHECK(hold.in_time());
}

TEST_CASE("Interrupt ends a wait") {
  Cluster c(1, 1);
  c.Start();
  c.workers[0]->hold = true;
  REQUIRE(c.coordinator->Schedule(c.step, Arguments(1)).ok());
  std::thread other([&] { c.coordinator->Interrupt(); });
  CHECK(absl::IsCancelled(c.coordinator->Join()));
  other.join();
}

TEST_CASE("a cluster without workers, or with a gap, is refused") {
  Cluster c(1, 1);
  SECTION("a gap") {
    c.options.cluster.Set({Role::kWorker, 5}, {"127.0.0.1", 1});
    const auto started = ClusterCoordinator::Start(c.options);
    CHECK(std::string(started.status().message()).find("cluster.worker") != std::string::npos);
  }
  SECTION("values that are pulled ahead in synchronous steps") {
    c.options.pull_ahead = 1;
    c.options.mode = ConsistencyMode::kSync;
    CHECK(absl::IsInvalidArgument(ClusterCoordinator::Start(c.options).status()));
  }
  SECTION("no directory") {
    c.options.checkpoint_dir = "";
    CHECK(absl::IsInvalidArgument(ClusterCoordinator::Start(c.options).status()));
  }
}

}  // namespace
}  // namespace cohort

// What a coordinator does where its checkpoint directory is not as it left it, over real streams.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <future>
#include <thread>

#include "chief/api/coordinator_test_util.h"
#include "chief/api/journal_thread.h"
#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/directory_lock.h"
#include "common/checkpoint/journal.h"
#include "common/checkpoint/journal_format.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

using testing::Await;
using testing::Cluster;
using testing::Hold;
using testing::RequireOk;

TEST_CASE("a chief that was fenced while it wrote a manifest deletes nothing") {
  Cluster c(1, 1);
  Hold hold;
  std::atomic<bool> held{false};
  c.options.max_to_keep = 1;
  c.options.complete_manifest = [&](v1::Manifest*) {
    if (held) hold.Come();
  };
  c.Start();
  RequireOk(c.coordinator->Checkpoint());
  const std::string first = c.coordinator->newest_checkpoint();
  held = true;
  RequireOk(c.coordinator->StartCheckpoint());
  Await([&] { return hold.here(); });
  Cluster other(1, 1);
  other.options.checkpoint_dir = c.options.checkpoint_dir;
  other.options.takeover = true;
  other.options.max_to_keep = 0;
  other.Start();
  hold.Release();
  c.coordinator.reset();
  CHECK(hold.in_time());
  CHECK(ListCheckpoints(c.directory.path())->size() == 2);  // one came too late to be stopped
  CHECK(std::filesystem::exists(first + "/manifest.json"));
}

TEST_CASE("a chief that was fenced before its job starts leaves the other's token") {
  Cluster c(1, 1);
  const auto take = [&](uint64_t incarnation, bool takeover) {
    auto lock = DirectoryLock::Take({.directory = c.directory.path(),
                                     .job = "job",
                                     .incarnation = incarnation,
                                     .takeover = takeover});
    RequireOk(lock.status());
    return *std::move(lock);
  };
  c.options.lock = take(1, false);
  const auto other = take(2, true);
  const auto token = CreateDirectoryToken(c.directory.path(), 2);
  RequireOk(token.status());
  const absl::Status fenced = ClusterCoordinator::Start(c.options).status();
  CHECK(absl::IsAborted(fenced));
  CHECK(CheckDirectoryToken(c.directory.path(), *token) == absl::OkStatus());
  CHECK(!std::filesystem::exists(c.directory / "journal"));
}

TEST_CASE("a chief reports that a chief which took over has removed its token") {
  Cluster c(1, 1);
  const bool taken = GENERATE(true, false);
  std::unique_ptr<DirectoryLock> other;
  absl::Status created;
  c.servers[0]->SetSeesDirectory([&](const std::string& token) {
    if (taken && other == nullptr) {
      other = *DirectoryLock::Take(
          {.directory = c.directory.path(), .job = "job", .incarnation = 77, .takeover = true});
      created = CreateDirectoryToken(c.directory.path(), 77).status();
    }
    return taken && CheckDirectoryToken(c.directory.path(), token).ok();
  });
  const absl::Status refused = ClusterCoordinator::Start(c.options).status();
  INFO(refused);
  RequireOk(created);
  CHECK(absl::IsAborted(refused) == taken);
  CHECK(ExitCodeOf(refused) == (taken ? ExitCode::kUnavailable : ExitCode::kConfig));
  CHECK_THAT(refused.ToString(), Catch::Contains(taken ? "has taken over the checkpoint directory"
                                                       : "does not see the checkpoint directory"));
}

TEST_CASE("a checkpoint directory that disappears ends the chief, and loses nothing") {
  Cluster c(1, 1);
  std::filesystem::create_directory(c.directory / "c");
  c.options.checkpoint_dir = c.directory / "c";
  c.Start();
  REQUIRE(c.coordinator->Schedule({.step = c.step, .place = JobPlace{0, 50}}).ok());
  REQUIRE(c.coordinator->Join().ok());
  c.coordinator->Flush();
  std::filesystem::rename(c.directory / "c", c.directory / "away");
  const absl::Status raised = c.coordinator->Checkpoint();
  INFO(raised);
  CHECK(ExitCodeOf(raised) == ExitCode::kIo);
  CHECK(testing::Contains(std::string(raised.message()),
                          c.directory / "c was deleted, moved or replaced"));
  CHECK(!c.coordinator->Checkpoint().ok());
  c.coordinator.reset();
  CHECK(!std::filesystem::exists(c.directory / "c"));
  std::filesystem::rename(c.directory / "away", c.directory / "c");
  c.Start();
  CHECK(c.coordinator->state().steps == 1);
  CHECK(c.coordinator->state().timeline == 1);
}

TEST_CASE(
    "a journal that is emptied is refused at the next start, and the error names what to do") {
  Cluster c(1, 1);
  c.Start();
  RequireOk(c.coordinator->Checkpoint());
  REQUIRE(c.coordinator->Schedule({.step = c.step, .place = JobPlace{0, 50}}).ok());
  REQUIRE(c.coordinator->Join().ok());
  const std::string path = c.directory / "journal/journal-1";
  std::filesystem::resize_file(path, 0);
  c.coordinator.reset();
  const absl::Status refused = ClusterCoordinator::Start(c.options).status();
  INFO(refused);
  CHECK(ExitCodeOf(refused) == ExitCode::kData);
  CHECK(testing::Contains(std::string(refused.message()), "move all journal-* out of"));
  std::filesystem::remove(path);
  c.Start();
  CHECK(c.coordinator->state().steps == 0);
  CHECK(c.coordinator->state().timeline == 2);  // the servers did so too
}

TEST_CASE("a journal that lacks what a checkpoint names, or its newest file, is refused") {
  Cluster c(1, 1);
  c.Start();
  const auto records = Journal::ReadAll(c.directory / "journal");
  REQUIRE(c.coordinator->Schedule({.step = c.step, .place = JobPlace{0, 50}}).ok());
  REQUIRE(c.coordinator->Join().ok());
  RequireOk(c.coordinator->Checkpoint());
  const std::string newest = c.coordinator->newest_checkpoint();
  const std::string path = c.directory / "journal/journal-1";
  std::string said;
  SECTION("cut between two records") {
    c.coordinator.reset();
    std::string bytes;
    REQUIRE(AppendJournalFrame(records->front(), &bytes).ok());
    testing::WriteAllBytes(path, bytes);
    said = path + ": ends with record 1, but " + newest + "/manifest.json was written when record ";
  }
  SECTION("the newest file is gone, and an older one is back") {
    c.coordinator.reset();
    const std::string first = testing::ReadAllBytes(path);
    c.Start();
    c.coordinator.reset();
    const std::string second = c.directory / "journal/journal-2";
    std::filesystem::remove(second);
    testing::WriteAllBytes(path, first);
    said = second + " is missing: " + (c.directory / "journal/generation-2");
  }
  const absl::Status refused = ClusterCoordinator::Start(c.options).status();
  INFO(refused.ToString());
  CHECK(ExitCodeOf(refused) == ExitCode::kData);
  CHECK(testing::Contains(std::string(refused.message()), said));
  std::filesystem::remove(path);  // as it says
  c.Start();
  CHECK(c.coordinator->state().steps == 1);
}

TEST_CASE("a chief that continues from a checkpoint alone, and dies at once, leaves its timeline") {
  Cluster c(1, 1);
  c.servers[0]->timeline = 6;
  c.Start();
  RequireOk(c.coordinator->Checkpoint());
  c.coordinator.reset();
  std::filesystem::remove(c.directory / "journal/journal-1");
  c.servers[0]->Kill();
  c.servers[0] = std::make_unique<FakePeer>(Task{Role::kPs, 0});
  c.options.cluster.Set({Role::kPs, 0}, c.servers[0]->address());
  RequireOk(ClusterCoordinator::Start(c.options).status());
  c.Start();
  CHECK(c.coordinator->state().timeline == 8);  // above the checkpoint's
}

TEST_CASE("a journal that is gone with its directory is no loss beyond its newest checkpoint") {
  const uint64_t lives = GENERATE(as<uint64_t>(), 1, 4);
  CAPTURE(lives);
  Cluster c(1, 1);
  std::vector<std::string> told;
  c.log = *Logger::Create(
      {.to_stderr = false, .sink = [&](std::string_view line) { told.emplace_back(line); }});
  c.options.log = c.log.get();
  for (uint64_t life = 1; life <= lives; ++life) c.Start();
  REQUIRE(c.coordinator->Schedule({.step = c.step, .place = JobPlace{0, 50}}).ok());
  REQUIRE(c.coordinator->Join().ok());
  RequireOk(c.coordinator->Checkpoint());
  // The next chief comes when all tasks are dead, so that they tell it of nothing.
  const auto end_all = [&] {
    c.coordinator.reset();
    told.clear();
    c.workers[0] = std::make_unique<FakePeer>(Task{Role::kWorker, 0});
    c.servers[0] = std::make_unique<FakePeer>(Task{Role::kPs, 0});
    c.options.cluster.Set({Role::kWorker, 0}, c.workers[0]->address());
    c.options.cluster.Set({Role::kPs, 0}, c.servers[0]->address());
  };
  const auto missing_told = [&] {
    return std::any_of(told.begin(), told.end(), [](const std::string& line) {
      return testing::Contains(line, "journal_missing");
    });
  };
  const std::string journal = c.directory / "journal";
  end_all();
  std::filesystem::remove_all(journal);
  SECTION("where it is gone") {}
  SECTION("where chiefs that counted from 1 have begun others since") {
    const uint64_t begun = lives == 1 ? 1 : lives - 1;
    for (uint64_t i = 0; i < begun; ++i) REQUIRE(Journal::Create(journal).ok());
    const absl::Status refused = ClusterCoordinator::Start(c.options).status();
    REQUIRE(testing::Contains(std::string(refused.message()), "move all journal-* out of"));
    for (uint64_t i = 1; i <= begun; ++i) {
      std::filesystem::remove(journal + fmt::format("/journal-{}", i));
    }
    end_all();
  }
  c.Start();
  CHECK(c.coordinator->state().generation == lives + 1);
  CHECK(c.coordinator->state().steps == 1);
  CHECK(c.coordinator->state().timeline == 2);
  c.coordinator.reset();
  CHECK(missing_told());
  end_all();
  c.Start();
  CHECK(c.coordinator->state().generation == lives + 2);
  CHECK(c.coordinator->state().steps == 1);
  c.coordinator.reset();
  CHECK(!missing_told());
}

TEST_CASE("a chief that has no room to begin with is worth another try, and then begins") {
  Cluster c(1, 1);
  c.Start();
  RequireOk(c.coordinator->Checkpoint());
  c.coordinator.reset();
  rlim_t room = 0;
  SECTION("for the lock") {}
  SECTION("for all of the lock") { room = 10; }
  SECTION("for the token") {
    auto lock = DirectoryLock::Take({.directory = c.directory.path(), .job = "job"});
    RequireOk(lock.status());
    c.options.lock = *std::move(lock);
  }
  absl::Status refused;
  {
    const testing::FullDisk full(room);
    refused = ClusterCoordinator::Start(c.options).status();
  }
  INFO(refused.ToString());
  CHECK(ExitCodeOf(refused) == ExitCode::kTempFail);
  c.options.lock = nullptr;
  c.Start();
}

TEST_CASE("a journal that cannot be created on a full disk may be retried too") {
  const testing::TestDirectory dir;
  std::promise<absl::StatusOr<uint64_t>> told;
  JournalThread journal(dir.path(), dir / "journal", {.on_generation = [&](auto generation) {
                          told.set_value(std::move(generation));
                        }});
  const testing::FullDisk full(0);
  journal.TakeGeneration(0);
  const absl::Status refused = told.get_future().get().status();
  INFO(refused.ToString());
  CHECK(ExitCodeOf(refused) == ExitCode::kTempFail);
}

TEST_CASE("a generation that no chief can have had is refused by name, and nothing is taken") {
  Cluster c(2, 1);
  c.workers[1]->heard_generation = uint64_t{1} << 40;
  const absl::Status refused = ClusterCoordinator::Start(c.options).status();
  INFO(refused.ToString());
  CHECK(ExitCodeOf(refused) == ExitCode::kConfig);
  CHECK(testing::Contains(
      std::string(refused.message()),
      "worker:1 (" + c.workers[1]->address().ToString() + ") reports generation 1099511627776"));
  CHECK(std::filesystem::is_empty(c.directory / "journal"));
  c.workers[1]->heard_generation = 70;  // a former directory's
  c.Start();
  CHECK(c.coordinator->state().generation == 71);
}

TEST_CASE("a timeline that no job can have come to is refused by name, and none is journaled") {
  Cluster c(1, 2);
  c.servers[1]->timeline = uint64_t{1} << 40;
  auto started = ClusterCoordinator::Start(c.options);
  REQUIRE(started.ok());
  c.coordinator = *std::move(started);
  const absl::Status refused = c.CreateVariables();
  INFO(refused.ToString());
  CHECK(ExitCodeOf(refused) == ExitCode::kConfig);
  CHECK(testing::Contains(
      std::string(refused.message()),
      "ps:1 (" + c.servers[1]->address().ToString() + ") reports timeline 1099511627776"));
  c.servers[1]->timeline = 7;
  c.Start();
  CHECK(c.coordinator->state().timeline == 8);
}

TEST_CASE("a checkpoint directory belongs to one chief, with any servers") {
  Cluster c(1, 1);
  c.Start();
  RequireOk(c.coordinator->Checkpoint());
  Cluster other(1, 1);
  other.options.checkpoint_dir = c.options.checkpoint_dir;
  other.options.chief_incarnation = 77;
  const auto refused = ClusterCoordinator::Start(other.options);
  CHECK(ExitCodeOf(refused.status()) == ExitCode::kUnavailable);
  CHECK(refused.status().message().find("belongs to another chief") != absl::string_view::npos);
  RequireOk(c.coordinator->Checkpoint());
  other.options.takeover = true;
  other.Start();
  const absl::Status fenced = c.coordinator->Checkpoint();
  CHECK(ExitCodeOf(fenced) == ExitCode::kUnavailable);
  CHECK(fenced.message().find("is fenced") != absl::string_view::npos);
  CHECK(!c.coordinator->Checkpoint().ok());
  RequireOk(other.coordinator->Checkpoint());
}

}  // namespace
}  // namespace cohort

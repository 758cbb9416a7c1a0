// The coordinator when its storage holds it up: what it says, what it may end without.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <string_view>
#include <vector>

#include "chief/api/coordinator_test_util.h"
#include "common/base/mutex.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/journal.h"
#include "common/testing/directory_test_util.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

using testing::Await;
using testing::Cluster;
using testing::Contains;
using testing::Hold;
using testing::RequireOk;

// The texts that were reported, from any thread.
class Told {
 public:
  void Add(std::string_view line) {
    MutexLock lock(&mu_);
    lines_.emplace_back(line);
  }
  bool Has(const std::string& text) const {
    MutexLock lock(&mu_);
    return std::any_of(lines_.begin(), lines_.end(),
                       [&](const std::string& line) { return Contains(line, text); });
  }

 private:
  mutable Mutex mu_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mu_);
};

// A cluster whose storage holds up a manifest: the nth.
struct Held {
  explicit Held(int nth) : cluster(1, 1) {
    cluster.options.on_wait = [this](const std::string& what) {
      told.Add(what);
      if (on_refused && testing::Contains(what, "; restoring the one before it")) on_refused();
    };
    cluster.options.complete_manifest = [this, nth](v1::Manifest*) {
      if (++manifests == nth) hold.Come();
    };
    cluster.log = *Logger::Create(
        {.to_stderr = false, .sink = [this](std::string_view line) { told.Add(line); }});
    cluster.options.log = cluster.log.get();
  }
  std::string ending() const {
    return "waiting for the storage of " + cluster.directory.path() +
           ": a manifest is being written, ";
  }

  Hold hold;  // these outlive whoever tells and comes
  std::atomic<int> manifests{0};
  Told told;
  std::function<void()> on_refused;  // a checkpoint that is looked at
  Cluster cluster;
};

TEST_CASE("a coordinator may end while storage holds up a manifest") {
  Held held(1);
  Cluster& c = held.cluster;
  c.Start();
  RequireOk(c.coordinator->StartCheckpoint());
  Await([&] { return held.hold.here(); });
  SECTION("and its tasks continue") {}
  SECTION("and has asked them to end") {
    RequireOk(c.coordinator->Shutdown("the end", /*job_finished=*/false));
  }
  auto end = std::async(std::launch::async, [&] { c.coordinator.reset(); });
  // What waits for the storage tells nobody, and what must come after it has not come.
  Await([&] { return held.told.Has(held.ending()); });
  CHECK(c.servers[0]->streams() == 0);
  held.hold.Release();
  end.get();
  CHECK(held.hold.in_time());
  CHECK(ListCheckpoints(c.directory.path())->size() == 1);
  const auto records = Journal::ReadAll(c.directory / "journal");
  REQUIRE(records.ok());
  // A new segment follows a committed cut, whose shards were durable when the streams broke.
  CHECK(records->back().base().next_cut() == 1);
}

TEST_CASE("one that is held up as it ends can still be asked") {
  Held held(1);
  Cluster& c = held.cluster;
  c.Start();
  RequireOk(c.coordinator->StartCheckpoint());
  Await([&] { return held.hold.here(); });
  auto end = std::async(std::launch::async, [&] { c.coordinator->Close(); });
  Await([&] { return Contains(c.coordinator->state().waiting_for, held.ending()); });
  CHECK(c.coordinator->state().generation == 1);
  CHECK(c.coordinator->layout().tablets_size() > 0);
  held.hold.Release();
  end.get();
}

TEST_CASE("a start that fails reports it before it waits for its storage") {
  Held held(1);
  Cluster& c = held.cluster;
  absl::Status failed;
  bool alive = false;
  c.options.on_failed_start = [&](const absl::Status& why) {
    failed = why;
    const auto limit = TestDeadline();
    while (c.servers[0]->streams() == 0 && CompletionLoop::Clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    alive = c.servers[0]->streams() == 1;  // its threads have not ended
  };
  c.options.task_timeout_s = 0.5;
  c.options.cluster.Set({Role::kWorker, 1}, {"127.0.0.1", 1});
  CHECK(absl::IsDeadlineExceeded(ClusterCoordinator::Start(c.options).status()));
  CHECK(absl::IsDeadlineExceeded(failed));
  CHECK(alive);
}

TEST_CASE("a call that waits for a checkpoint reports what delays it") {
  Held held(1);
  Cluster& c = held.cluster;
  c.Start();
  auto call = std::async(std::launch::async, [&] { return c.coordinator->Checkpoint(); });
  const std::string what = "waiting for checkpoint " + c.directory.path() +
                           "/ckpt-1-1-0: the storage to take its manifest, ";
  Await([&] { return held.told.Has(what); });
  CHECK(Contains(c.coordinator->state().waiting_for, what));
  held.hold.Release();
  RequireOk(call.get());
  CHECK(c.coordinator->state().waiting_for.empty());
}

TEST_CASE("a manifest that comes after its cut was dropped replaces and deletes nothing") {
  Held held(2);
  Cluster& c = held.cluster;
  c.options.max_to_keep = 1;
  c.Start();
  RequireOk(c.coordinator->Checkpoint());
  const std::string first = c.coordinator->newest_checkpoint();
  RequireOk(c.coordinator->StartCheckpoint());
  Await([&] { return held.hold.here(); });
  SECTION("after the older one is restored") {
    RequireOk(c.coordinator->Restore());
    held.hold.Release();
  }
  SECTION("while the older one is looked for") {
    const std::string torn = c.directory / "ckpt-9-9-9";
    std::filesystem::create_directories(torn);
    std::ofstream(torn + "/manifest.json") << "{";
    held.on_refused = [&] {
      held.hold.Release();
      Await([&] {
        return held.told.Has("checkpoint_late") || c.coordinator->state().counters.cuts == 2;
      });
    };
    RequireOk(c.coordinator->Restore());
  }
  Await([&] { return held.told.Has("checkpoint_late"); });
  CHECK(c.coordinator->newest_checkpoint() == first);
  CHECK(c.coordinator->state().counters.cuts == 1);
  c.coordinator.reset();  // what is to be deleted is
  CHECK(std::filesystem::exists(first + "/manifest.json"));
}

}  // namespace
}  // namespace cohort

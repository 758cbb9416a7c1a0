#include "chief/api/chief_checkpoints.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "chief/api/locked_core_test_util.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/rpc/stream/rpc_test_util.h"

namespace cohort {
namespace {

using testing::IdleCore;

struct Checkpoints {
  Checkpoints()
      : directory(*OwnedDirectory::Take(idle.options)),
        checkpoints(&idle.options, directory.get(), &idle.core,
                    [this](const absl::Status& why) { lost = why; }) {}
  void WriteOne() {
    v1::Manifest manifest;
    manifest.set_timeline(1);
    manifest.set_generation(1);
    checkpoints.Write(manifest);
    REQUIRE(checkpoints.EndCommits(TestDeadline()));
    REQUIRE(checkpoints.EndDeletions(TestDeadline()));
  }
  IdleCore idle;
  std::unique_ptr<OwnedDirectory> directory;
  absl::Status lost;
  ChiefCheckpoints checkpoints;
};

TEST_CASE("the manifest of a cut that the core has dropped is not written") {
  Checkpoints c;
  c.WriteOne();
  CHECK(c.lost.ok());
  CHECK(c.checkpoints.newest().empty());
  CHECK(ListCheckpoints(c.directory->path())->empty());
}

TEST_CASE("a chief that has lost its directory writes nothing into it") {
  Checkpoints c;
  CoordinatorOptions other = c.idle.options;
  other.chief_incarnation = 2;
  other.takeover = true;
  const auto taken = OwnedDirectory::Take(other);
  REQUIRE(taken.ok());
  c.WriteOne();
  CHECK(absl::IsAborted(c.lost));
  CHECK(ListCheckpoints(c.directory->path())->empty());
}

TEST_CASE("no checkpoint is taken before the variables are served") {
  Checkpoints c;
  CHECK(absl::IsFailedPrecondition(c.checkpoints.StartOne()));
  CHECK(absl::IsFailedPrecondition(c.checkpoints.Take(/*finished=*/false).status()));
  {
    MutexLock lock(c.idle.core.mu());
    c.checkpoints.SetNewest("/c/ckpt-1-1-1");
  }
  CHECK(c.checkpoints.newest() == "/c/ckpt-1-1-1");
}

}  // namespace
}  // namespace cohort

#include "chief/api/restoration.h"

#include <catch2/catch.hpp>

#include "chief/api/locked_core_test_util.h"
#include "common/base/status.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::IdleCore;

struct Restoring {
  Restoring()
      : directory(*OwnedDirectory::Take(idle.options)),
        checkpoints(&idle.options, directory.get(), &idle.core, [](const absl::Status&) {}),
        restoration(&idle.options, &idle.core, &checkpoints) {}
  IdleCore idle;
  std::unique_ptr<OwnedDirectory> directory;
  ChiefCheckpoints checkpoints;
  Restoration restoration;
};

TEST_CASE(
    "a restore without servers gives up after the timeout, with an error that is not retryable") {
  Restoring r;
  const absl::Status gave_up = r.restoration.ResumeOrRestore();
  CHECK(absl::IsDeadlineExceeded(gave_up));
  CHECK(Contains(std::string(gave_up.message()), "gave up after 0.02 s"));
  const auto failure = GetFailure(gave_up);
  REQUIRE(failure.has_value());
  CHECK(failure->role == "ps");
  CHECK(!failure->retryable);
}

TEST_CASE("a restore ends with the error of a chief that has failed") {
  Restoring r;
  r.idle.core.Input([](CoordinatorCore* core) { core->FailForGood(Aborted("fenced")); });
  CHECK(r.restoration.Restore() == Aborted("fenced"));
}

TEST_CASE("an interrupt ends a restore") {
  Restoring r;
  r.idle.core.Interrupt();
  CHECK(absl::IsCancelled(r.restoration.Restore()));
}

}  // namespace
}  // namespace cohort

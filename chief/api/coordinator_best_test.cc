// The coordinator's part in keeping the best checkpoint: retention, and where an incarnation
// continues.
#include <catch2/catch.hpp>
#include <filesystem>

#include "chief/api/coordinator_test_util.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/manifest.h"
#include "proto/checkpoint.pb.h"

namespace cohort::testing {
namespace {

namespace fs = std::filesystem;

TEST_CASE("the best checkpoint is kept until a better one is committed, then deleted") {
  Cluster c(1, 2);
  c.options.max_to_keep = 2;
  bool better = false;
  std::string best;
  std::string kept;  // must be there when the next one is committed
  bool gone_early = false;
  bool named_another = false;
  c.options.complete_manifest = [&](v1::Manifest* manifest) {
    if (better) best = IdOf(*manifest).ToString();
    manifest->mutable_best()->set_checkpoint(best);
  };
  c.options.on_committed = [&](const v1::Manifest& manifest) {
    named_another = named_another || manifest.best().checkpoint() != best;
    gone_early = gone_early || (!kept.empty() && !fs::exists(kept + "/manifest.json"));
  };
  const auto size = [&] { return ListCheckpoints(c.directory.path())->size(); };
  c.Start();
  better = true;
  RequireOk(c.coordinator->Checkpoint());
  kept = c.coordinator->newest_checkpoint();
  better = false;
  for (int i = 0; i < 5; ++i) RequireOk(c.coordinator->Checkpoint());
  Await([&] { return size() == 3; });
  CHECK(fs::exists(kept));
  better = true;
  c.servers[1]->refuse_snapshots = true;
  CHECK(!c.coordinator->Checkpoint().ok());
  c.servers[1]->refuse_snapshots = false;
  CHECK(fs::exists(kept));
  RequireOk(c.coordinator->Checkpoint());
  CHECK(!gone_early);
  CHECK(!named_another);
  Await([&] { return size() == 2; });
  CHECK(!fs::exists(kept + "/manifest.json"));
  CHECK(fs::exists(c.directory / best));
}

TEST_CASE("an incarnation that resumes live servers knows their newest checkpoint") {
  Cluster c(1, 2);
  c.Start();
  CHECK(c.coordinator->newest_checkpoint().empty());
  c.Start();
  CHECK(c.coordinator->newest_checkpoint().empty());
  RequireOk(c.coordinator->Checkpoint());
  const std::string first = c.coordinator->newest_checkpoint();
  c.Start();
  CHECK(c.coordinator->newest_checkpoint() == first);
  // One that cannot be read as the cluster goes back is left behind, also when it can be again.
  RequireOk(c.coordinator->Checkpoint());
  const std::string left = c.coordinator->newest_checkpoint() + "/manifest.json";
  fs::rename(left, left + ".away");
  RequireOk(c.coordinator->Restore());
  CHECK(c.coordinator->newest_checkpoint() == first);
  fs::rename(left + ".away", left);
  c.Start();
  CHECK(c.coordinator->state().timeline == 2);
  CHECK(c.coordinator->newest_checkpoint() == first);
  RequireOk(c.coordinator->Checkpoint());
  const std::string last = c.coordinator->newest_checkpoint();
  c.Start();
  CHECK(c.coordinator->newest_checkpoint() == last);
}

}  // namespace
}  // namespace cohort::testing

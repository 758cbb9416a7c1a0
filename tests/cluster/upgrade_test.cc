// Tasks of this version and of the last release in one cluster, and running clusters that are
// upgraded task by task. tests/upgrade/beside_release.py runs it: it names the directory of the
// release's programs.
#include <fmt/format.h>
#include <signal.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "common/checkpoint/format_version.h"
#include "common/checkpoint/journal_format.h"
#include "deploy/launcher/control_job.h"
#include "proto/checkpoint.pb.h"
#include "tests/cluster/scenario.h"
#include "tests/cluster/trained_weights.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kServers = 2;
constexpr int kWorkers = 3;
constexpr int kData = 65;
constexpr int kTerminated = 128 + SIGTERM;

std::string ReleaseDir() {
  const char* directory = std::getenv("COHORT_RELEASE_DIR");
  INFO("COHORT_RELEASE_DIR is not set: run under ctest");
  REQUIRE(directory != nullptr);
  return directory;
}

std::string ReadFile(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string Replace(std::string text, const std::string& what, const std::string& with) {
  REQUIRE(text.find(what) != std::string::npos);
  return text.replace(text.find(what), what.size(), with);
}

std::string WithCopies(std::string job) {
  return Replace(std::move(job), "strategy:", "strategy:\n  replicas: 2");
}

// The census model with tables without bounds, in steps of three closures.
std::string SyncJob(int epochs) {
  std::string job =
      Replace(ExampleJob("census_csv.yaml"), "epochs: 5", fmt::format("epochs: {}", epochs));
  job = Replace(std::move(job), "- Embedding", "- DynamicEmbedding");
  job = Replace(std::move(job), "input_dim: 17, ", "min_count: 2, evict_after_steps: 3, ");
  return Replace(std::move(job), "\ncheckpoint:",
                 "\nstrategy:\n  mode: sync\n  closures_per_step: 3\n\ncheckpoint:");
}

class UpgradeScenario : public Scenario {
 public:
  UpgradeScenario(const std::string& name, std::string job)
      : Scenario(Body::kProcesses, name,
                 {.servers = kServers,
                  .workers = kWorkers,
                  .job_yaml = std::move(job),
                  .data_dir = GeneratedDataDir(),
                  .proxied = true}) {}

  // A task's next start is one of the last release, or one of this version.
  void UseRelease(TaskRole role, int index, bool release = true) {
    processes()->UsePrograms(role, index, release ? ReleaseDir() : "");
  }

  void UseReleaseEverywhere() {
    UseRelease(TaskRole::kChief, 0);
    for (int i = 0; i < kServers; ++i) UseRelease(TaskRole::kPs, i);
    for (int i = 0; i < kWorkers; ++i) UseRelease(TaskRole::kWorker, i);
  }

  bool IsRelease(TaskRole role, int index) {
    const fs::path program =
        fs::read_symlink(fmt::format("/proc/{}/exe", processes()->pid(role, index)));
    return program.parent_path() == fs::canonical(ReleaseDir());
  }

  // Ends a task as a supervisor does, and starts the other version in its place.
  void Exchange(TaskRole role, int index) {
    INFO(TaskRoleName(role) << ":" << index);
    const bool release = IsRelease(role, index);
    Check(processes()->Signal(role, index, SIGTERM));
    REQUIRE(ExitOf(role, index, seconds(60)) == kTerminated);
    UseRelease(role, index, !release);
    Check((*this)->Start(role, index));
    REQUIRE(IsRelease(role, index) == !release);
  }

  // Waits for verdicts of server 0.
  void Train(int verdicts) {
    LineFollower lines((*this)->apply_log(0), SizeOf((*this)->apply_log(0)));
    REQUIRE(lines.WaitFor([&](std::string_view) { return --verdicts == 0; }, seconds(90)));
  }

  void ExchangeWorkers() {
    for (int worker = 0; worker < kWorkers; ++worker) {
      Exchange(TaskRole::kWorker, worker);
      Said(TaskRole::kWorker, worker, {"adopted"});
      Train(20);
    }
  }

  void ExchangeChief() {
    Exchange(TaskRole::kChief, 0);
    Said(TaskRole::kChief, 0, {"job_resumed"});
    Train(20);
  }

  // True if the servers had each other's copies all the time.
  bool KeptCopies() {
    return ReadFile((*this)->LogFile(TaskRole::kChief, 0)).find("degraded") == std::string::npos;
  }

  void Control(const std::string& command, const std::string& ps = "") {
    Check(ControlJob({.run = (*this)->checkpoint_dir(), .command = command, .mode = ps}).status());
  }
};

TrainedWeights Undisturbed(int epochs) {
  UpgradeScenario s("upgrade-calm", SyncJob(epochs));
  s.Check(s->StartAll());
  s.Finish();
  return TrainedWeightsOf(s->checkpoint_dir());
}

// The first tasks of each role are of the last release, the others of this version.
struct Mix {
  bool chief;
  int servers;
  int workers;
};

constexpr Mix kMixes[] = {
    {.chief = false, .servers = kServers, .workers = kWorkers},
    {.chief = true, .servers = 0, .workers = 0},
    {.chief = false, .servers = 1, .workers = 1},
    {.chief = true, .servers = 1, .workers = 2},
};

void StartMixed(UpgradeScenario* s, const Mix& mix) {
  if (mix.chief) s->UseRelease(TaskRole::kChief, 0);
  for (int i = 0; i < mix.servers; ++i) s->UseRelease(TaskRole::kPs, i);
  for (int i = 0; i < mix.workers; ++i) s->UseRelease(TaskRole::kWorker, i);
  s->Check((*s)->StartAll());
  REQUIRE(s->IsRelease(TaskRole::kChief, 0) == mix.chief);
  REQUIRE(s->IsRelease(TaskRole::kPs, 0) == (mix.servers > 0));
  REQUIRE(s->IsRelease(TaskRole::kWorker, 0) == (mix.workers > 0));
  REQUIRE(s->IsRelease(TaskRole::kWorker, kWorkers - 1) == (mix.workers == kWorkers));
}

TEST_CASE("a cluster of two minor versions applies each update once", "[mixed]") {
  for (const Mix& mix : kMixes) {
    INFO("chief: " << mix.chief << ", servers: " << mix.servers << ", workers: " << mix.workers);
    UpgradeScenario s("upgrade-mixed", WithCopies(StormJob(/*epochs=*/2)));
    StartMixed(&s, mix);
    const ApplyReport report = s.Finish();
    CHECK(report.timelines == 1);
    CHECK(s.KeptCopies());
    CHECK(report.applied == uint64_t{2} * 2 * 1000);  // two servers, one tablet each
  }
}

TEST_CASE("a synchronous cluster of two minor versions has the bits of one version", "[mixed]") {
  constexpr int kEpochs = 2;
  const TrainedWeights calm = Undisturbed(kEpochs);
  for (const Mix& mix : kMixes) {
    INFO("chief: " << mix.chief << ", servers: " << mix.servers << ", workers: " << mix.workers);
    UpgradeScenario s("upgrade-mixed", WithCopies(SyncJob(kEpochs)));
    StartMixed(&s, mix);
    CHECK(s.Finish().timelines == 1);
    CHECK(s.KeptCopies());
    CheckSameWeights(calm, TrainedWeightsOf(s->checkpoint_dir()));
  }
}

// Servers, workers, the chief: from the last release to this version while the job trains. Then
// the chief goes back, and forth.
void UpgradeWithCopies(UpgradeScenario* s, milliseconds pace) {
  s->UseReleaseEverywhere();
  for (int ps = 0; ps < kServers; ++ps) s->Pace(ps, pace);
  s->Check((*s)->StartAll());
  s->Check((*s)->WaitForSteps(10, seconds(60)));
  for (int ps = 0; ps < kServers; ++ps) {
    s->Exchange(TaskRole::kPs, ps);
    s->Said(TaskRole::kChief, 0, {"chief:0 degraded"});
    s->Said(TaskRole::kChief, 0, {"not_degraded"});
    s->Train(20);
  }
  s->ExchangeWorkers();
  for (int times = 0; times < 3; ++times) s->ExchangeChief();
  REQUIRE_FALSE(s->IsRelease(TaskRole::kChief, 0));
  for (int ps = 0; ps < kServers; ++ps) s->Release(ps);
  CHECK(s->Finish(seconds(300)).timelines == 1);
}

TEST_CASE("a running cluster with copies is upgraded task by task, and nothing is rolled back",
          "[rolling]") {
  UpgradeScenario s("upgrade-async", WithCopies(StormJob(/*epochs=*/10)));
  UpgradeWithCopies(&s, milliseconds(10));
}

TEST_CASE("a synchronous cluster is upgraded task by task, and the weights have the same bits",
          "[rolling]") {
  constexpr int kEpochs = 4;
  const TrainedWeights calm = Undisturbed(kEpochs);
  UpgradeScenario s("upgrade-sync", WithCopies(SyncJob(kEpochs)));
  UpgradeWithCopies(&s, milliseconds(20));
  CheckSameWeights(calm, TrainedWeightsOf(s->checkpoint_dir()));
}

TEST_CASE("servers without copies are drained, upgraded and returned, and nothing is rolled back",
          "[drained]") {
  UpgradeScenario s("upgrade-drained", StormJob(/*epochs=*/10));
  s.UseReleaseEverywhere();
  for (int ps = 0; ps < kServers; ++ps) s.Pace(ps, milliseconds(10));
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(10, seconds(60)));
  for (int ps = 0; ps < kServers; ++ps) {
    s.Control("drain-ps", std::to_string(ps));
    s.Said(TaskRole::kChief, 0, {"tablet_handed_over", "0 still move"});
    s.Exchange(TaskRole::kPs, ps);
    s.Said(TaskRole::kPs, ps, {"adopted"});
    s.Control("return-ps", std::to_string(ps));
  }
  s.Control("rebalance");
  s.Said(TaskRole::kChief, 0, {"tablet_handed_over", "0 still move"});
  s.ExchangeWorkers();
  s.ExchangeChief();
  for (int ps = 0; ps < kServers; ++ps) s.Release(ps);
  CHECK(s.Finish(seconds(300)).timelines == 1);
}

// The newest segment of a journal.
fs::path SegmentOf(const std::string& checkpoint_dir) {
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(checkpoint_dir + "/journal")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("journal-") && entry.path() > newest) newest = entry.path();
  }
  REQUIRE_FALSE(newest.empty());
  return newest;
}

// The same records, as a Cohort would have written them whose format is newer.
std::string InNewerFormat(const std::string& segment) {
  const auto records = ParseJournal(segment, "segment", nullptr);
  REQUIRE(records.ok());
  std::string newer;
  for (v1::JournalRecord record : *records) {
    if (record.has_start()) record.mutable_start()->set_format_version(kJournalFormat + 1);
    if (record.has_base()) record.mutable_base()->set_format_version(kJournalFormat + 1);
    REQUIRE(AppendJournalFrame(record, &newer).ok());
  }
  return newer;
}

TEST_CASE("an older chief refuses a journal whose format is newer, and changes nothing",
          "[journal]") {
  UpgradeScenario s("upgrade-journal", StormJob(/*epochs=*/3));
  for (int ps = 0; ps < kServers; ++ps) s.Pace(ps);
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(10, seconds(60)));
  s.Check(s.processes()->Signal(TaskRole::kChief, 0, SIGTERM));
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == kTerminated);
  const fs::path file = SegmentOf(s->checkpoint_dir());
  const std::string segment = ReadFile(file);
  const std::string newer = InNewerFormat(segment);
  std::ofstream(file, std::ios::binary) << newer;
  s.UseRelease(TaskRole::kChief, 0);
  s.Check(s->Start(TaskRole::kChief, 0));
  CHECK(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == kData);
  const std::string log = s->LogTail(TaskRole::kChief, 0, 5);
  INFO(log);
  CHECK(log.find(fmt::format("has format version {}", kJournalFormat + 1)) != std::string::npos);
  CHECK(ReadFile(file) == newer);

  std::ofstream(file, std::ios::binary) << segment;
  s.UseRelease(TaskRole::kChief, 0, /*release=*/false);
  s.Check(s->Start(TaskRole::kChief, 0));
  for (int ps = 0; ps < kServers; ++ps) s.Release(ps);
  CHECK(s.Finish().timelines == 1);
}

}  // namespace
}  // namespace cohort

// A checkpoint directory while a job runs: another cluster asks for it, or its files are deleted;
// on both bodies.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "tests/cluster/scenario.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using Body = Scenario::Body;

constexpr int kData = 65;
constexpr int kUnavailable = 169;
constexpr int kIo = 74;

constexpr int kNever = 1'000'000;  // steps

MiniClusterOptions Paced(int checkpoint_steps, const std::string& checkpoint_dir = "") {
  return {.workers = 2,
          .job_yaml = RecommenderJob(30, checkpoint_steps),
          .checkpoint_dir = checkpoint_dir,
          .proxied = true};
}

void StartPaced(Scenario* s) {
  s->Pace(0);
  s->Check((*s)->StartAll());
  s->Check((*s)->WaitForSteps(10, seconds(60)));
}

std::set<std::string> FilesIn(const std::string& directory) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    files.insert(fmt::format("{} {}", entry.path().string(),
                             fs::last_write_time(entry.path()).time_since_epoch().count()));
  }
  return files;
}

// The first checkpoint of a job. No task touches it if the job makes no other but the last.
std::string FirstCheckpoint(const std::string& directory) {
  std::string first;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string path = entry.path();
    if (path.find("/ckpt-") != std::string::npos && (first.empty() || path < first)) first = path;
  }
  REQUIRE(!first.empty());
  return first;
}

// Two clusters, each with servers of its own, and one directory.
void IsOneClusters(Body body) {
  Scenario first(body, "first", Paced(kNever));
  StartPaced(&first);
  const std::string directory = first->checkpoint_dir();
  const auto files = FilesIn(FirstCheckpoint(directory));
  Scenario second(body, "second", Paced(kNever, directory));
  second.Pace(0);
  for (const TaskFlags& flags : {TaskFlags{}, TaskFlags{"--fresh"}}) {
    if (flags.empty()) {
      second.Check(second->StartAll());
    } else {
      second.Check(second->Start(TaskRole::kChief, 0, flags));
    }
    REQUIRE(second.ExitOf(TaskRole::kChief, 0, seconds(60)) == kUnavailable);
    second.Said(TaskRole::kChief, 0, {"belongs to another chief, process ", " (job "});
    REQUIRE(FilesIn(FirstCheckpoint(directory)) == files);
  }
  // After a kill the first chief comes back at once and holds the lock again.
  first.Bounce(TaskRole::kChief, 0);
  first.Said(TaskRole::kChief, 0, {"job_resumed"});
  second.Check(second->Start(TaskRole::kChief, 0, {"--fresh"}));
  REQUIRE(second.ExitOf(TaskRole::kChief, 0, seconds(60)) == kUnavailable);
  second.Said(TaskRole::kChief, 0, {"belongs to another chief"});
  REQUIRE(FilesIn(FirstCheckpoint(directory)) == files);

  second.Check(second->Start(TaskRole::kChief, 0, {"--fresh", "--takeover"}));
  REQUIRE(first.ExitOf(TaskRole::kChief, 0, seconds(60)) == kUnavailable);
  first.Said(TaskRole::kChief, 0, {"is fenced", "has taken over the checkpoint directory"});
  second.Release(0);
  REQUIRE(second.ExitOf(TaskRole::kChief, 0, seconds(120)) == 0);
  REQUIRE(second.Report(/*finished=*/true).applied == 2u * 300);
}

void IsMissed(Body body) {
  Scenario s(body, "moved", Paced(/*checkpoint_steps=*/10));
  StartPaced(&s);
  const std::string directory = s->checkpoint_dir();
  fs::rename(directory, directory + ".away");
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == kIo);
  s.Said(TaskRole::kChief, 0, {"the checkpoint directory " + directory + " was deleted, moved"});
  fs::remove_all(directory);  // a server may have begun the next checkpoint there
  fs::rename(directory + ".away", directory);
  s.Release(0);
  s.Check(s->Start(TaskRole::kChief, 0));
  for (int i = 0; i < 2; ++i) REQUIRE(s.ExitOf(TaskRole::kWorker, i, seconds(60)) == 0);
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == 0);
  const ApplyReport report = s.Report(/*finished=*/true);
  REQUIRE(report.applied == 2u * 300);
  REQUIRE(report.timelines == 1);  // nothing was lost
}

// The number of the newest committed checkpoint.
int NewestCut(const std::string& directory) {
  int newest = -1;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string path = entry.path();
    if (path.find("/ckpt-") == std::string::npos || !fs::exists(path + "/manifest.json")) continue;
    newest = std::max(newest, std::stoi(path.substr(path.rfind('-') + 1)));
  }
  return newest;
}

// The journal lacks whole records at its end, as after an interrupted copy.
void LacksItsEnd(Body body) {
  Scenario s(body, "journal-end", Paced(/*checkpoint_steps=*/10));
  StartPaced(&s);
  const std::string path = s->checkpoint_dir() + "/journal/journal-1";
  const std::string away = s->checkpoint_dir() + "/away";
  const std::string older = s->checkpoint_dir() + "/older";
  fs::copy(path, older);
  const int cut = NewestCut(s->checkpoint_dir());
  for (int i = 0; i < 600 && NewestCut(s->checkpoint_dir()) < cut + 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  s.Check(s->Kill(TaskRole::kChief, 0));
  fs::rename(path, away);
  fs::rename(older, path);
  s.Check(s->Start(TaskRole::kChief, 0));
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == kData);
  s.Said(TaskRole::kChief, 0,
         {path + ": ends with record ", "manifest.json was written when record ",
          "Put the file back as it was, or move all journal-*"});
  fs::rename(away, path);
  s.Release(0);
  s.Check(s->Start(TaskRole::kChief, 0));
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == 0);
  const ApplyReport report = s.Report(/*finished=*/true);
  REQUIRE(report.applied == 2u * 300);
  REQUIRE(report.timelines == 1);  // nothing was lost
}

COHORT_BOTH_BODIES(
    "a journal that lacks its end is refused, and the job resumes when it is put back", LacksItsEnd)
COHORT_BOTH_BODIES("a checkpoint directory belongs to one cluster", IsOneClusters)
COHORT_BOTH_BODIES(
    "a chief whose checkpoint directory is moved away ends, and its successor continues there",
    IsMissed)

}  // namespace
}  // namespace cohort

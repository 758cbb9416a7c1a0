// A long run beside kills, cuts and slow links, with checkpoints every few seconds: it ends with
// the right weights, and nothing grows. COHORT_SOAK_SECONDS is how long each of the two cases
// disturbs its cluster.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/cluster/scenario.h"
#include "tests/cluster/trained_weights.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr int kWorkers = 3;
constexpr int kServers = 2;
constexpr int kStepsPerEpoch = 1000;  // StormJob

int SoakSeconds() {
  const char* given = std::getenv("COHORT_SOAK_SECONDS");
  return given == nullptr ? 60 : std::atoi(given);
}

// A job that is long enough for the soak at the pace of Soak, with a checkpoint every 5 seconds, or
// 20 in a long soak.
std::string SoakJob(const std::string& strategy, int epochs) {
  std::string job = StormJob(epochs, /*checkpoint_steps=*/100);
  const auto replace = [&job](const std::string& from, const std::string& to) {
    REQUIRE(job.find(from) != std::string::npos);
    job.replace(job.find(from), from.size(), to);
  };
  replace("every_steps: 100", fmt::format("every_seconds: {}", SoakSeconds() < 600 ? 5 : 20));
  replace("strategy:", "strategy:\n" + strategy);
  return job;
}

// What a process uses.
struct Usage {
  uint64_t resident_kb = 0;
  uint64_t descriptors = 0;
};

Usage UsageOf(pid_t pid) {
  Usage usage;
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("VmRSS:")) continue;
    const size_t digit = line.find_first_of("0123456789");
    std::from_chars(line.data() + digit, line.data() + line.size(), usage.resident_kb);
  }
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", pid), gone)) {
    static_cast<void>(entry);
    ++usage.descriptors;
  }
  return usage;
}

class Soak : public Scenario {
 public:
  Soak(const std::string& name, const std::string& job)
      : Scenario(Body::kProcesses, name,
                 MiniClusterOptions{
                     .servers = kServers, .workers = kWorkers, .job_yaml = job, .proxied = true}),
        random_(20261126) {
    Slow();
    Check((*this)->StartAll());
    Check((*this)->WaitForSteps(50, seconds(60)));
  }

  // Disturbs the cluster for this time, and looks at what it uses after each disturbance.
  void Disturb(seconds time) {
    const auto began = Clock::now();
    while (Clock::now() - began < time) {
      AwaitUpdates(20 + random_() % 60);
      StrikeOnce();
      Look(Clock::now() - began < time / 3 ? &early_ : &all_);
    }
    for (int i = 0; i < kServers; ++i) Release(i);
  }

  // After Disturb. What a task used at most may not be above what it used at most in the first
  // third.
  void CheckGates() {
    for (const TaskRole role : {TaskRole::kChief, TaskRole::kWorker, TaskRole::kPs}) {
      const Usage early = early_[role], all = all_[role];
      WARN(TaskRoleName(role) << ": " << early.resident_kb / 1024 << " MB and " << early.descriptors
                              << " descriptors at first, " << all.resident_kb / 1024 << " MB and "
                              << all.descriptors << " later");
      CHECK(all.resident_kb <= early.resident_kb * 5 / 4 + 16 * 1024);
      CHECK(all.descriptors <= early.descriptors + 16);
    }
    WARN(strikes_ << " disturbances; at most " << most_files_ << " files, journal of "
                  << most_journal_ / 1024 << " KB");
    CHECK(most_journal_ <= uint64_t{24} << 20);
    CHECK(most_files_ <= 100);
  }

 private:
  // Slow enough that the job outlasts the soak.
  void Slow() {
    for (int i = 0; i < kServers; ++i) Pace(i, milliseconds(20));
  }

  void AwaitUpdates(uint32_t updates) {
    const std::string log = (*this)->apply_log(0);
    LineFollower lines(log, SizeOf(log));
    REQUIRE(lines.WaitFor([&](std::string_view) { return --updates == 0; }, seconds(120)));
  }

  void StrikeOnce() {
    ++strikes_;
    const auto pick = [this](int n) {
      return static_cast<int>(random_() % static_cast<uint32_t>(n));
    };
    const int kind = pick(8);
    INFO("disturbance " << strikes_ << " of kind " << kind);
    if (kind == 0) {
      Bounce(TaskRole::kChief, 0);
    } else if (kind <= 2) {
      Bounce(TaskRole::kWorker, pick(kWorkers));
    } else if (kind == 3) {
      // Not twice between two checkpoints: the fifth rollback to one ends the job.
      Bounce(TaskRole::kPs, pick(kServers));
      Said(TaskRole::kChief, 0, {" checkpoint cut="}, seconds(120));
    } else if (kind <= 5) {
      (*this)
          ->proxy(TaskRole::kPs, pick(kServers))
          ->Cut(kind == 4 ? Traffic::kData : Traffic::kAll);
    } else {
      // A link of 200 KB/s, and later a fast one again.
      FaultProxy* link = (*this)->proxy(TaskRole::kPs, pick(kServers));
      link->Inject({.kind = Fault::Kind::kRate,
                    .way = kind == 6 ? Way::kToServer : Way::kToClient,
                    .traffic = Traffic::kAll,
                    .bytes_per_second = 200'000});
      AwaitUpdates(20);
      link->Heal();
      Slow();
    }
  }

  void Look(std::map<TaskRole, Usage>* most) {
    const auto look = [&](TaskRole role, int count) {
      for (int i = 0; i < count; ++i) {
        if (!(*this)->Running(role, i)) continue;
        const Usage usage = UsageOf(processes()->pid(role, i));
        Usage& m = (*most)[role];
        m.resident_kb = std::max(m.resident_kb, usage.resident_kb);
        m.descriptors = std::max(m.descriptors, usage.descriptors);
      }
    };
    look(TaskRole::kChief, 1);
    look(TaskRole::kWorker, kWorkers);
    look(TaskRole::kPs, kServers);
    uint64_t files = 0, journal = 0;
    // Files come and go while the walk lasts, so a step of it may fail: then the rest is not
    // counted.
    std::error_code gone;
    fs::recursive_directory_iterator entries((*this)->checkpoint_dir(), gone);
    for (; entries != fs::recursive_directory_iterator(); entries.increment(gone)) {
      ++files;
      std::error_code ignored;
      const bool in_journal = entries->path().parent_path().filename() == "journal";
      const auto bytes = in_journal ? entries->file_size(ignored) : 0;
      if (!ignored) journal += bytes;
    }
    most_files_ = std::max(most_files_, files);
    most_journal_ = std::max(most_journal_, journal);
  }

  std::mt19937 random_;
  int strikes_ = 0;
  std::map<TaskRole, Usage> early_, all_;
  uint64_t most_files_ = 0, most_journal_ = 0;
};

TEST_CASE("a long synchronous run has the weights of one that nothing disturbed", "[sync]") {
  const int epochs = 2 + SoakSeconds() / 8;
  const std::string job = SoakJob("  mode: sync\n  closures_per_step: 3", epochs);
  Soak soak("soak-sync", job);
  soak.Disturb(seconds(SoakSeconds()));
  soak.Finish(seconds(300));
  soak.CheckGates();
  Scenario calm(Scenario::Body::kProcesses, "soak-calm",
                MiniClusterOptions{.servers = 1, .workers = 1, .job_yaml = job});
  calm.Check(calm->StartAll());
  calm.Finish(seconds(300));
  CheckSameWeights(TrainedWeightsOf(calm->checkpoint_dir()),
                   TrainedWeightsOf(soak->checkpoint_dir()));
}

TEST_CASE("a long asynchronous run applies each update once", "[async]") {
  const int epochs = 2 + SoakSeconds() / 5;
  Soak soak("soak-async", SoakJob("  mode: async", epochs));
  soak.Disturb(seconds(SoakSeconds()));
  const ApplyReport report = soak.Finish(seconds(300));  // it checks the apply logs
  REQUIRE(report.applied >= 2u * kStepsPerEpoch * static_cast<uint64_t>(epochs));
  soak.CheckGates();
}

}  // namespace
}  // namespace cohort

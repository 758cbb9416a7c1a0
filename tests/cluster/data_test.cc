// Every task of a job reads the same data, also after a restart of the job; on both bodies.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "common/data/input_file.h"
#include "tests/cluster/scenario.h"

namespace cohort {
namespace {

using std::chrono::seconds;
using Body = Scenario::Body;

constexpr int kData = 65;
constexpr int kEpochs = 30;

constexpr char kJob[] = R"(name: csv
model:
  sequential:
    - Input: {{shape: [1], feature: age}}
    - Dense: {{units: 1, activation: sigmoid}}
compile: {{loss: binary_crossentropy, optimizer: SGD}}
data:
  batch_size: 32
  train:
    csv: {{path: a.csv}}
    transforms:
      - {{column: income, equals: "yes"}}
    label: income
fit: {{epochs: {}}}
checkpoint: {{directory: checkpoints, every_steps: 10}}
)";

std::string Rows(int rows, bool flipped = false) {
  std::string text = "age,income\n";
  for (int i = 0; i < rows; ++i) {
    text += fmt::format("{},{}\n", i % 7 - 3, (i % 7 > 3) != flipped ? "yes" : "no");
  }
  return text;
}

// Replaces a file that other processes may have open, as a person would.
void Write(const std::string& directory, const std::string& rows,
           const std::string& name = "a.csv") {
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/new") << rows;
  std::filesystem::rename(directory + "/new", directory + "/" + name);
}

// The job with `with` inserted after the first `mark`.
std::string With(const std::string& mark, const std::string& with) {
  std::string job = fmt::format(kJob, kEpochs);
  return job.insert(job.find(mark) + mark.size(), with);
}

std::string WithValidationOf(const std::string& file) {
  return With("label: income\n", "  validation: {csv: {path: " + file + "}}\n");
}

struct DataScenario {
  explicit DataScenario(Body body, const std::string& job = fmt::format(kJob, kEpochs))
      : directory("data"),
        common(directory.path() + "/common"),
        s(body, "data",
          {.servers = 1,
           .workers = 2,
           .job_yaml = job,
           .directory = directory.path() + "/cluster",
           .data_dir = common,
           .proxied = true}) {
    Write(common, Rows(320));
    s.Pace(0);
  }

  ClusterDirectory directory;
  const std::string common;
  Scenario s;
};

void OneWorkerReadsOtherData(Body body) {
  for (const auto& [rows, said] :
       {std::pair(Rows(320, /*flipped=*/true), "320 records here, 320 at the chief"),
        std::pair(Rows(400), "400 records here, 320 at the chief"),
        std::pair(Rows(160), "160 records here, 320 at the chief")}) {
    DataScenario d(body);
    Scenario& s = d.s;
    const std::string other = d.directory.path() + "/other";
    Write(other, rows);
    s.Check(s->Start(TaskRole::kPs, 0));
    s.Check(s->Start(TaskRole::kWorker, 0));
    s.Check(s->Start(TaskRole::kWorker, 1, {"--data_dir", other}));
    s.Check(s->Start(TaskRole::kChief, 0));
    REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == kData);
    s.Said(TaskRole::kChief, 0,
           {"worker:1 (", "): resource 'train-", "': a.csv has other contents (", said,
            "(COHORT_DATA_DIR is " + other + " here)"});
  }
}

void WorkerComesBackToOtherData(Body body) {
  DataScenario d(body);
  Scenario& s = d.s;
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(10, seconds(60)));
  Write(d.common, Rows(320, /*flipped=*/true));
  s.Bounce(TaskRole::kWorker, 1);
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == kData);
  s.Said(TaskRole::kChief, 0, {"worker:1 (", "): resource 'train-", "a.csv has other contents ("});
}

void ChiefComesBackToOtherData(Body body) {
  DataScenario d(body);
  Scenario& s = d.s;
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(10, seconds(60)));
  s.Check(s->Kill(TaskRole::kChief, 0));
  // All but the first change the number of steps of an epoch.
  for (const auto& [rows, with_sha256, said] :
       {std::tuple(Rows(320, /*flipped=*/true), false, "320 records now, 320 then"),
        std::tuple(Rows(160), false, "160 records now, 320 then"),
        std::tuple(Rows(160), true, "160 records now, 320 then")}) {
    Write(d.common, rows);
    if (with_sha256) {
      std::ofstream(s->job_file()) << With("path: a.csv", ", sha256: " + Sha256Hex(rows));
    }
    s.Check(s->Start(TaskRole::kChief, 0));
    REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == kData);
    s.Said(TaskRole::kChief, 0,
           {"holds checkpoints of this job over other data: a.csv has other contents (", said,
            "put back what was there then, or give another checkpoint directory"});
  }
  Write(d.common, Rows(320));
  std::ofstream(s->job_file()) << s->options().job_yaml;
  s.Release(0);
  s.Check(s->Start(TaskRole::kChief, 0));
  REQUIRE(s.Finish().applied == 10u * kEpochs);
}

// A user may choose another validation set, but may not replace the contents of the same one.
void ChiefComesBackToOtherValidationData(Body body) {
  DataScenario d(body, WithValidationOf("v.csv"));
  Scenario& s = d.s;
  Write(d.common, Rows(64), "v.csv");
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(10, seconds(60)));
  s.Check(s->Kill(TaskRole::kChief, 0));
  Write(d.common, Rows(32), "v.csv");
  s.Check(s->Start(TaskRole::kChief, 0));
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == kData);
  s.Said(TaskRole::kChief, 0,
         {"holds checkpoints of this job over other validation data: v.csv has other contents (",
          "32 records now, 64 then", "another name in the job file"});
  std::filesystem::rename(d.common + "/v.csv", d.common + "/w.csv");
  std::ofstream(s->job_file()) << WithValidationOf("w.csv");
  s.Release(0);
  s.Check(s->Start(TaskRole::kChief, 0));
  REQUIRE(s.Finish().applied == 10u * kEpochs);
}

COHORT_BOTH_BODIES("a worker that reads other data ends the job with its name and the file",
                   OneWorkerReadsOtherData)
COHORT_BOTH_BODIES("a worker that comes back to other data is not let in",
                   WorkerComesBackToOtherData)
COHORT_BOTH_BODIES("a job whose data were replaced does not resume until they are back",
                   ChiefComesBackToOtherData)
COHORT_BOTH_BODIES("a job whose validation data were replaced does not resume as if they were not",
                   ChiefComesBackToOtherValidationData)

}  // namespace
}  // namespace cohort

#include "tests/cluster/scenario.h"

#include <catch2/catch.hpp>

namespace cohort {

using std::chrono::seconds;

Scenario::Scenario(Body body, const std::string& name, MiniClusterOptions options) {
  if (options.directory.empty()) options.directory = directory_.emplace(name).path();
  auto created = MiniCluster::Create(body, std::move(options));
  INFO(created.status().ToString());
  REQUIRE(created.ok());
  cluster_ = *std::move(created);
}

Scenario::Scenario(Body body, const std::string& name, const std::string& job_yaml)
    : Scenario(body, name, MiniClusterOptions{.job_yaml = job_yaml}) {
  Check(cluster_->StartAll());
}

void Scenario::Check(const absl::Status& status) {
  INFO(status.ToString() << "\n" << cluster_->LogTail(TaskRole::kChief, 0, 12));
  REQUIRE(status.ok());
}

int Scenario::ExitOf(TaskRole role, int index, seconds limit) {
  auto code = cluster_->WaitForExit(role, index, limit);
  INFO(code.status().ToString());
  REQUIRE(code.ok());
  return *code;
}

std::string Scenario::Said(TaskRole role, int index, const std::vector<std::string>& texts,
                           seconds limit) {
  auto line = cluster_->WaitForLog(role, index, texts, limit);
  INFO(line.status().ToString());
  REQUIRE(line.ok());
  return *line;
}

ApplyReport Scenario::Finish(seconds limit) {
  const int chief = ExitOf(TaskRole::kChief, 0, limit);
  INFO(cluster_->LogTail(TaskRole::kChief, 0, 12));
  REQUIRE(chief == 0);
  for (int i = 0; i < cluster_->options().workers; ++i) {
    INFO("worker:" << i << "\n" << cluster_->LogTail(TaskRole::kWorker, i, 12));
    REQUIRE(ExitOf(TaskRole::kWorker, i, seconds(20)) == 0);
  }
  for (int i = 0; i < cluster_->options().servers; ++i) {
    INFO("ps:" << i << "\n" << cluster_->LogTail(TaskRole::kPs, i, 12));
    REQUIRE(ExitOf(TaskRole::kPs, i, seconds(20)) == 0);
  }
  return Report(/*finished=*/true);
}

ApplyReport Scenario::Report(bool finished) {
  auto events = ReadApplyLogs(cluster_->apply_logs());
  Check(events.status());
  ApplyReport report = CheckApplyEvents(*events, finished);
  for (const std::string& v : report.violations) UNSCOPED_INFO(v);
  REQUIRE(report.violations.empty());
  return report;
}

void Scenario::Pace(int ps, std::chrono::milliseconds delay) {
  cluster_->proxy(TaskRole::kPs, ps)
      ->Inject({.kind = Fault::Kind::kDelay,
                .way = Way::kToClient,
                .traffic = Traffic::kData,
                .delay = delay});
}

void Scenario::Release(int ps) { cluster_->proxy(TaskRole::kPs, ps)->Heal(); }

void Scenario::Bounce(TaskRole role, int index) {
  Check(cluster_->Kill(role, index));
  Check(cluster_->Start(role, index));
}

}  // namespace cohort

#include "tests/cluster/mini_cluster.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/status.h"
#include "tests/cluster/in_process_cluster.h"
#include "tests/cluster/process_cluster.h"

namespace cohort {
namespace {

// The largest step that the chief wrote to its metrics file.
uint64_t ReportedSteps(const std::string& log_dir) {
  std::ifstream in(log_dir + "/metrics.jsonl");
  uint64_t steps = 0;
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.contains("step") && json["step"].is_number_unsigned()) {
      steps = std::max(steps, json["step"].get<uint64_t>());
    }
  }
  return steps;
}

}  // namespace

const char* TaskRoleName(TaskRole role) {
  switch (role) {
    case TaskRole::kChief:
      return "chief";
    case TaskRole::kWorker:
      return "worker";
    case TaskRole::kPs:
      return "ps";
    case TaskRole::kEvaluator:
      return "evaluator";
  }
  return "";
}

std::chrono::seconds Scaled(std::chrono::seconds limit) {
  const char* scale = std::getenv("COHORT_TEST_TIME_SCALE");
  const double factor = scale != nullptr ? std::max(1.0, std::atof(scale)) : 1.0;
  return std::chrono::seconds(static_cast<int64_t>(static_cast<double>(limit.count()) * factor));
}

bool Eventually(std::chrono::seconds limit, const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + Scaled(limit);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return done();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

absl::StatusOr<std::unique_ptr<MiniCluster>> MiniCluster::Create(Body body,
                                                                 MiniClusterOptions options) {
  std::error_code error;
  std::filesystem::create_directories(options.directory + "/logs", error);
  if (error) return Unavailable("{}: {}", options.directory, error.message());
  std::ofstream(options.directory + "/job.yaml") << options.job_yaml;
  if (body == Body::kProcesses) return ProcessCluster::Create(std::move(options));
  return InProcessCluster::Create(std::move(options));
}

absl::Status MiniCluster::StartAll() {
  for (int i = 0; i < options_.servers; ++i) COHORT_RETURN_IF_ERROR(Start(TaskRole::kPs, i));
  for (int i = 0; i < options_.workers; ++i) COHORT_RETURN_IF_ERROR(Start(TaskRole::kWorker, i));
  return Start(TaskRole::kChief, 0);
}

absl::Status MiniCluster::WaitForSteps(uint64_t steps, std::chrono::seconds limit) {
  if (Eventually(
          limit,
          [&] { return ReportedSteps(log_dir()) >= steps || !Running(TaskRole::kChief, 0); }) &&
      ReportedSteps(log_dir()) >= steps) {
    return absl::OkStatus();
  }
  return DeadlineExceeded("{} steps were not reached, only {}; the chief's log ends with\n{}",
                          steps, ReportedSteps(log_dir()), LogTail(TaskRole::kChief, 0, 20));
}

std::string MiniCluster::apply_log(int ps) const {
  return fmt::format("{}/apply-ps-{}.log", options_.directory, ps);
}

std::vector<std::string> MiniCluster::apply_logs() const {
  std::vector<std::string> logs;
  for (int i = 0; i < options_.servers; ++i) logs.push_back(apply_log(i));
  return logs;
}

}  // namespace cohort

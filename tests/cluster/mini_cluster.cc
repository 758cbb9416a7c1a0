#include "tests/cluster/mini_cluster.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/base/status.h"
#include "common/cluster/free_ports.h"
#include "tests/cluster/fault_proxy.h"
#include "tests/cluster/object_cluster.h"
#include "tests/cluster/process_cluster.h"

namespace cohort {
namespace {

// The step in a line of the chief's metrics file; 0 for any other line.
uint64_t StepOf(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_unsigned()) return 0;
  return json["step"].get<uint64_t>();
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

absl::StatusOr<std::unique_ptr<MiniCluster>> MiniCluster::Create(Body body,
                                                                 MiniClusterOptions options) {
  std::error_code error;
  std::filesystem::create_directories(options.directory + "/logs", error);
  const std::string run = options.directory + "/run";
  if (!error) std::filesystem::create_directory(run, error);
  if (!error) std::filesystem::permissions(run, std::filesystem::perms::owner_all, error);
  if (error) return Unavailable("{}: {}", options.directory, error.message());
  std::ofstream(options.directory + "/job.yaml") << options.job_yaml;
  absl::StatusOr<std::unique_ptr<MiniCluster>> cluster =
      body == Body::kProcesses ? ProcessCluster::Create(std::move(options))
                               : ObjectCluster::Create(std::move(options));
  COHORT_RETURN_IF_ERROR(cluster.status());
  COHORT_RETURN_IF_ERROR((*cluster)->StartProxies());
  return cluster;
}

MiniCluster::MiniCluster(MiniClusterOptions options) : options_(std::move(options)) {
  if (options_.replicas) options_.servers = 0;
  const std::vector<int> ports = ChooseFreePorts(options_.workers + options_.servers).value();
  for (int i = 0; i < options_.workers; ++i) {
    ports_[{TaskRole::kWorker, i}] = ports[static_cast<size_t>(i)];
  }
  for (int i = 0; i < options_.servers; ++i) {
    ports_[{TaskRole::kPs, i}] = ports[static_cast<size_t>(options_.workers + i)];
  }
}

MiniCluster::~MiniCluster() = default;

absl::Status MiniCluster::StartProxies() {
  if (!options_.proxied) return absl::OkStatus();
  for (const auto& [key, port] : ports_) {
    COHORT_ASSIGN_OR_RETURN(proxies_[key], FaultProxy::Start(port));
  }
  return absl::OkStatus();
}

std::vector<std::string> MiniCluster::Arguments(TaskRole role, int index,
                                                const TaskFlags& flags) const {
  std::vector<std::string> args;
  if (role == TaskRole::kChief) args.push_back(job_file());
  if (role == TaskRole::kChief && options_.replicas) {
    args.push_back("--strategy=multi_worker_mirrored");
  }
  if (role == TaskRole::kChief || role == TaskRole::kEvaluator) {
    args.insert(args.end(), {"--log_dir", log_dir()});
    if (std::find(flags.begin(), flags.end(), "--checkpoint_dir") == flags.end()) {
      args.insert(args.end(), {"--checkpoint_dir", checkpoint_dir()});
    }
  } else if (options_.proxied && ports_.contains({role, index})) {
    args.insert(args.end(), {"--bind", fmt::format("127.0.0.1:{}", port(role, index))});
  }
  const auto own = options_.flags.find(role);
  if (role == TaskRole::kPs || (role == TaskRole::kWorker && options_.replicas)) {
    args.insert(args.end(), {"--apply_log", apply_log(index)});
    // Data that must go through a proxy must not use a unix socket instead.
    if (options_.proxied && !options_.unix_sockets) {
      args.insert(args.end(), {"--unix_socket_dir", "none"});
    }
  }
  if (own != options_.flags.end()) args.insert(args.end(), own->second.begin(), own->second.end());
  args.insert(args.end(), flags.begin(), flags.end());
  return args;
}

std::string MiniCluster::TfConfig(TaskRole role, int index) const {
  if (role == TaskRole::kWorker && index >= options_.workers) return "";
  nlohmann::json config;
  for (const auto& [key, port] : ports_) {
    const bool added =
        key.first == TaskRole::kPs && key.second >= options_.servers - options_.added_servers;
    if (added && key != Key(role, index)) continue;
    const auto proxy = proxies_.find(key);
    config["cluster"][TaskRoleName(key.first)].push_back(
        fmt::format("127.0.0.1:{}", proxy == proxies_.end() ? port : proxy->second->port()));
  }
  if (!options_.evaluator_address.empty()) {
    config["cluster"]["evaluator"] = {options_.evaluator_address};
  }
  config["task"] = {{"type", TaskRoleName(role)}, {"index", role == TaskRole::kChief ? 0 : index}};
  return config.dump();
}

void MiniCluster::BeginLife(TaskRole role, int index) {
  read_until_[{role, index}] = SizeOf(LogFile(role, index));
}

absl::Status MiniCluster::StartAll() {
  for (int i = 0; i < options_.servers; ++i) COHORT_RETURN_IF_ERROR(Start(TaskRole::kPs, i));
  for (int i = 0; i < options_.workers; ++i) COHORT_RETURN_IF_ERROR(Start(TaskRole::kWorker, i));
  return Start(TaskRole::kChief, 0);
}

absl::StatusOr<int> MiniCluster::WaitForExit(TaskRole role, int index, std::chrono::seconds limit) {
  const int fd = EndFd(role, index);
  if (fd < 0) return FailedPrecondition("{}:{} was never started", TaskRoleName(role), index);
  if (!WaitReadable(fd, limit)) {
    return DeadlineExceeded("{}:{} still runs; its log ends with\n{}", TaskRoleName(role), index,
                            LogTail(role, index, 20));
  }
  return ExitCode(role, index);
}

absl::Status MiniCluster::WaitForSteps(uint64_t steps, std::chrono::seconds limit) {
  LineFollower metrics(log_dir() + "/metrics.jsonl");
  uint64_t reached = 0;
  const auto enough = [&](std::string_view line) {
    reached = std::max(reached, StepOf(line));
    return reached >= steps;
  };
  if (metrics.WaitFor(enough, limit, EndFd(TaskRole::kChief, 0)).has_value()) {
    return absl::OkStatus();
  }
  return DeadlineExceeded("{} steps were not reached, only {}; the chief's log ends with\n{}",
                          steps, reached, LogTail(TaskRole::kChief, 0, 20));
}

absl::StatusOr<std::string> MiniCluster::WaitForLog(TaskRole role, int index,
                                                    const std::vector<std::string>& texts,
                                                    std::chrono::seconds limit) {
  int64_t& read_until = read_until_[{role, index}];
  LineFollower log(LogFile(role, index), read_until);
  const auto wanted = [&](std::string_view line) {
    return std::all_of(texts.begin(), texts.end(), [&](const std::string& text) {
      return line.find(text) != std::string_view::npos;
    });
  };
  if (auto line = log.WaitFor(wanted, limit, EndFd(role, index))) {
    read_until = log.position();
    return *line;
  }
  return DeadlineExceeded("{}:{} never said \"{}\"; its log ends with\n{}", TaskRoleName(role),
                          index, fmt::join(texts, "\", \""), LogTail(role, index, 20));
}

std::string MiniCluster::LogFile(TaskRole role, int index) const {
  return fmt::format("{}/{}-{}.log", log_dir(), TaskRoleName(role), index);
}

std::string MiniCluster::LogTail(TaskRole role, int index, int lines) const {
  return TailOf(LogFile(role, index), lines);
}

std::string MiniCluster::checkpoint_dir() const {
  return options_.checkpoint_dir.empty() ? options_.directory + "/checkpoints"
                                         : options_.checkpoint_dir;
}

std::string MiniCluster::apply_log(int ps) const {
  return fmt::format("{}/apply-ps-{}.log", options_.directory, ps);
}

std::vector<std::string> MiniCluster::apply_logs() const {
  std::vector<std::string> logs;
  const int owners = options_.replicas ? options_.workers : options_.servers;
  for (int i = 0; i < owners; ++i) logs.push_back(apply_log(i));
  return logs;
}

}  // namespace cohort

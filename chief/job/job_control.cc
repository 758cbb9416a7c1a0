#include "chief/job/job_control.h"

#include <absl/strings/numbers.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "chief/job/row_report.h"
#include "common/base/json_text.h"
#include "common/base/status.h"
#include "common/cluster/address.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

using nlohmann::json;

absl::Status NoneOf(const std::array<const char*, 3>& names, const char* what,
                    const std::string& name) {
  return InvalidArgument("{} \"{}\" is none of {}", what, name, fmt::join(names, ", "));
}

absl::StatusOr<std::string> TextAt(const json& request, const char* key) {
  if (request[key].is_string()) return request[key].get<std::string>();
  return InvalidArgument("\"{}\" is not a text", key);
}

absl::StatusOr<std::optional<uint32_t>> NumberAt(const json& request, const char* key) {
  if (!request.contains(key)) return std::nullopt;
  const json& value = request[key];
  if (!value.is_number_unsigned() || value.get<uint64_t>() > std::numeric_limits<uint32_t>::max()) {
    return InvalidArgument("\"{}\" is not a number of 32 bits without a sign", key);
  }
  return value.get<uint32_t>();
}

json ModeJson(const ModeSettings& mode) {
  json out = {{"mode", NameOf(mode.mode)}};
  if (mode.mode == ConsistencyMode::kAsync) return out;
  out["closures_per_step"] = mode.closures_per_step;
  if (mode.mode == ConsistencyMode::kBounded) out["staleness"] = mode.staleness;
  if (mode.mode == ConsistencyMode::kSync) out["backup_work"] = NameOf(mode.backup_work);
  if (mode.backup_work == BackupWork::kDrop) {
    out["replicas_to_aggregate"] = mode.replicas_to_aggregate;
  }
  return out;
}

json ReportJson(Task task, const TaskReport& report) {
  return {{"task", task.ToString()},
          {"address", report.address},
          {"heard_seconds", report.heard_seconds},
          {"memory_bytes", report.memory_bytes},
          {"sent_bytes", report.sent_bytes},
          {"received_bytes", report.received_bytes}};
}

// A task that had joined has left.
bool IsFree(const std::vector<TaskReport>& reports, size_t i) {
  return i < reports.size() && reports[i].address.empty();
}

json WorkersJson(const CoordinatorState& state) {
  json workers = json::array();
  for (size_t i = 0; i < state.workers.size(); ++i) {
    const WorkerFigures& worker = state.workers[i];
    if (IsFree(state.worker_reports, i)) continue;
    json one = i < state.worker_reports.size()
                   ? ReportJson(Task{Role::kWorker, static_cast<int>(i)}, state.worker_reports[i])
                   : json();
    one["connected"] = worker.connected;
    one["fenced"] = worker.fenced;
    one["steps"] = worker.steps;
    one["closures"] = worker.closures;
    one["applied"] = worker.applied;
    one["sum_staleness"] = worker.sum_staleness;
    one["in_flight"] = worker.in_flight;
    one["silent_seconds"] = worker.silent_seconds;
    workers.push_back(std::move(one));
  }
  return workers;
}

json ServersJson(const CoordinatorState& state) {
  json servers = json::array();
  for (size_t i = 0; i < state.servers.size(); ++i) {
    if (IsFree(state.server_reports, i)) continue;
    json one = i < state.server_reports.size()
                   ? ReportJson(Task{Role::kPs, static_cast<int>(i)}, state.server_reports[i])
                   : json();
    one["connected"] = state.servers[i];
    if (i < state.server_reports.size()) one["pushes"] = state.server_reports[i].pushes;
    if (i < state.server_tablets.size()) {
      const ServerTablets& has = state.server_tablets[i];
      one["tablets"] = has.tablets;
      one["copies"] = has.copies;
      one["drained"] = has.drained;
    }
    servers.push_back(std::move(one));
  }
  return servers;
}

json RowsJson(const ClusterRowFigures& figures) {
  json out = {{"skew", figures.skew()}, {"servers", json::array()}, {"variables", json::array()}};
  for (const ServerShare& server : figures.servers) {
    out["servers"].push_back({{"rows", server.rows}, {"bytes", server.bytes}});
  }
  for (const v1::RowFigures& of : figures.variables) {
    json hot = json::array();
    for (const v1::HotKey& key : of.hot()) {
      hot.push_back({{"key", key.key()}, {"pulls", key.pulls()}});
    }
    out["variables"].push_back({{"name", of.variable()},
                                {"rows", of.rows()},
                                {"bytes", of.bytes()},
                                {"pulled", of.pulled()},
                                {"pushed", of.pushed()},
                                {"made", of.made()},
                                {"evicted", of.evicted()},
                                {"not_admitted", of.not_admitted()},
                                {"hot", std::move(hot)}});
  }
  return out;
}

json LinksJson(const CoordinatorState& state) {
  json links = json::array();
  for (const LinkFigure& link : state.links) {
    links.push_back({{"worker", link.worker},
                     {"ps", link.server},
                     {"requests", link.requests},
                     {"p50_seconds", link.p50_seconds},
                     {"p99_seconds", link.p99_seconds},
                     {"slow", link.slow}});
  }
  return links;
}

// A task whose process is stopped, or whose machine is, keeps its connection for a while.
std::string SilentTasks(const CoordinatorState& state) {
  constexpr double kSilentSeconds = 10;
  std::vector<std::string> silent;
  const auto add = [&](const char* role, const std::vector<TaskReport>& reports) {
    for (size_t i = 0; i < reports.size(); ++i) {
      if (!reports[i].connected || reports[i].heard_seconds < kSilentSeconds) continue;
      silent.push_back(
          fmt::format("{}:{} has said nothing for {:.0f} s", role, i, reports[i].heard_seconds));
    }
  };
  add("worker", state.worker_reports);
  add("ps", state.server_reports);
  return fmt::format("{}", fmt::join(silent, ", "));
}

json StreamJson(const StreamFigures& stream) {
  return {{"place", stream.place},
          {"files_done", stream.files_done},
          {"files_in_work", stream.files_in_work},
          {"files_waiting", stream.files_waiting},
          {"files_not_counted", stream.files_not_counted},
          {"records_waiting", stream.records_waiting},
          {"bytes_waiting", stream.bytes_waiting},
          {"oldest_waiting_seconds", stream.oldest_waiting_seconds},
          {"files_left_out", stream.files_left_out},
          {"ended", stream.ended}};
}

json StatusJson(const JobStatus& status) {
  json out = {
      {"job", status.job},
      {"activity", status.activity},
      {"epochs", status.epochs},
      {"steps", status.steps},
      {"steps_per_second", status.steps_per_second},
      {"learning_rate", status.learning_rate.has_value() ? json(*status.learning_rate) : json()},
      {"newest_checkpoint", status.newest_checkpoint}};
  if (status.stream.has_value()) out["stream"] = StreamJson(*status.stream);
  if (!status.state.has_value()) return out;
  const CoordinatorState& state = *status.state;
  // People count epochs from 1.
  out["epoch"] = status.stream.has_value()
                     ? state.epoch + 1
                     : std::min(state.epoch + 1, std::max<uint64_t>(status.epochs, 1));
  out["step"] = state.steps;
  out["seconds_left"] = status.pace > 0 && state.steps < status.steps
                            ? json(static_cast<double>(status.steps - state.steps) / status.pace)
                            : json();
  out["timeline"] = state.timeline;
  out["generation"] = state.generation;
  out["queued"] = state.queued;
  out["in_flight"] = state.in_flight;
  out["strategy"] = ModeJson(state.mode);
  out["workers"] = WorkersJson(state);
  out["servers"] = ServersJson(state);
  if (state.tablets_alone > 0) out["tablets_without_copy"] = state.tablets_alone;
  if (state.tablets_moving > 0) out["tablets_moving"] = state.tablets_moving;
  if (const ClusterRowFigures rows = RowFiguresOf(state); !rows.empty()) {
    out["rows"] = RowsJson(rows);
  }
  out["links"] = LinksJson(state);
  if (!state.slow.empty()) out["slow"] = state.slow;
  out["checkpoint_age_seconds"] = state.checkpoint_age_seconds;
  out["waiting_for"] = state.waiting_for.empty() ? SilentTasks(state) : state.waiting_for;
  out["metrics"] = json::object();
  for (const MetricState& metric : state.metrics) out["metrics"][metric.name] = metric.Value();
  return out;
}

std::string Dump(const json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
}

absl::StatusOr<ModeChange> ModeChangeOf(const json& request) {
  ModeChange change;
  if (!request.contains("mode")) return InvalidArgument("set-mode needs a \"mode\"");
  COHORT_ASSIGN_OR_RETURN(const std::string mode, TextAt(request, "mode"));
  COHORT_ASSIGN_OR_RETURN(change.mode, ParseConsistencyMode(mode));
  if (request.contains("backup_work")) {
    COHORT_ASSIGN_OR_RETURN(const std::string work, TextAt(request, "backup_work"));
    COHORT_ASSIGN_OR_RETURN(change.backup_work, ParseBackupWork(work));
  }
  COHORT_ASSIGN_OR_RETURN(change.closures_per_step, NumberAt(request, "closures_per_step"));
  COHORT_ASSIGN_OR_RETURN(change.replicas_to_aggregate, NumberAt(request, "replicas_to_aggregate"));
  COHORT_ASSIGN_OR_RETURN(change.staleness, NumberAt(request, "staleness"));
  return change;
}

absl::StatusOr<json> FenceTask(bool fence, const json& request, ControlledJob* job) {
  const std::string name = request.contains("task") && request["task"].is_string()
                               ? request["task"].get<std::string>()
                               : "";
  const size_t colon = name.find(':');
  const std::string role = name.substr(0, colon);
  uint32_t index = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(name.substr(colon + 1), &index) ||
      index > 1'000'000 || (role != "worker" && role != "ps")) {
    return InvalidArgument("{} needs a \"task\": worker:N or ps:N", fence ? "fence" : "unfence");
  }
  const int number = static_cast<int>(index);
  if (role == "worker") {
    COHORT_RETURN_IF_ERROR(job->FenceWorker(number, fence));
  } else {
    const TabletMove move{.what = fence ? TabletMove::What::kFence : TabletMove::What::kReturn,
                          .ps = number};
    COHORT_RETURN_IF_ERROR(job->MoveTablets(move).status());
  }
  return json{{"task", fmt::format("{}:{}", role, number)}, {"fenced", fence}};
}

absl::StatusOr<json> Run(const std::string& command, const json& request, ControlledJob* job) {
  if (command == "status") return StatusJson(job->Status());
  if (command == "checkpoint" || command == "stop") {
    COHORT_ASSIGN_OR_RETURN(const std::string directory,
                            command == "stop" ? job->Stop() : job->TakeCheckpoint());
    return json{{"checkpoint", directory}};
  }
  if (command == "set-mode") {
    COHORT_ASSIGN_OR_RETURN(const ModeChange change, ModeChangeOf(request));
    COHORT_ASSIGN_OR_RETURN(const ModeSettings mode, job->ChangeMode(change));
    return json{{"strategy", ModeJson(mode)}};
  }
  if (command == "set") {
    if (request.size() != 1 || !request.contains("learning_rate") ||
        !request["learning_rate"].is_number()) {
      return InvalidArgument("set needs a \"learning_rate\", a number, and nothing else");
    }
    COHORT_ASSIGN_OR_RETURN(const double rate,
                            job->SetLearningRate(request["learning_rate"].get<double>()));
    return json{{"learning_rate", rate}};
  }
  if (command == "drain-ps" || command == "return-ps") {
    if (!request.contains("ps") || !request["ps"].is_number_unsigned() ||
        request["ps"] > 1'000'000) {
      return InvalidArgument("{} needs \"ps\": the number of a server", command);
    }
    const TabletMove move{
        .what = command == "drain-ps" ? TabletMove::What::kDrain : TabletMove::What::kReturn,
        .ps = request["ps"].get<int>()};
    COHORT_ASSIGN_OR_RETURN(const uint64_t moving, job->MoveTablets(move));
    return json{{"tablets_moving", moving}};
  }
  if (command == "add-ps") {
    if (request.size() != 1 || !request.contains("address") || !request["address"].is_string()) {
      return InvalidArgument("add-ps needs an \"address\" and nothing else");
    }
    const auto address = request["address"].get<std::string>();
    COHORT_RETURN_IF_ERROR(Annotate(ParseAddress(address).status(), "add-ps"));
    COHORT_RETURN_IF_ERROR(
        job->MoveTablets({.what = TabletMove::What::kAdd, .address = address}).status());
    return json{{"address", address}};
  }
  if (command == "rebalance") {
    COHORT_ASSIGN_OR_RETURN(const uint64_t moving,
                            job->MoveTablets({.what = TabletMove::What::kRebalance}));
    return json{{"tablets_moving", moving}};
  }
  if (command == "fence" || command == "unfence") {
    return FenceTask(command == "fence", request, job);
  }
  if (command == "pause" || command == "resume") {
    COHORT_RETURN_IF_ERROR(job->SetPaused(command == "pause"));
    return json{{"paused", command == "pause"}};
  }
  if (command == "extend") {
    if (!request.contains("epochs") || !request["epochs"].is_number_unsigned()) {
      return InvalidArgument("extend needs \"epochs\": how many the job has then in all");
    }
    COHORT_RETURN_IF_ERROR(job->Extend(request["epochs"].get<uint64_t>()));
    return json{{"epochs", request["epochs"]}};
  }
  return InvalidArgument(
      "\"{}\" is none of the commands status, checkpoint, stop, set-mode, set, add-ps, "
      "drain-ps, return-ps, rebalance, fence, unfence, pause, resume, extend",
      command);
}

// True if the change names a field that its mode does not have.
bool HasForeignField(const ModeChange& change) {
  const bool sync = change.mode == ConsistencyMode::kSync;
  const bool bounded = change.mode == ConsistencyMode::kBounded;
  return (!sync && (change.backup_work.has_value() || change.replicas_to_aggregate.has_value())) ||
         (!bounded && change.staleness.has_value()) ||
         (!sync && !bounded && change.closures_per_step.has_value());
}

}  // namespace

absl::StatusOr<ConsistencyMode> ParseConsistencyMode(const std::string& name) {
  if (const auto mode = ModeNamed(name); mode.has_value()) return *mode;
  return NoneOf(kModeNames, "the mode", name);
}

absl::StatusOr<BackupWork> ParseBackupWork(const std::string& name) {
  if (const auto work = BackupWorkNamed(name); work.has_value()) return *work;
  return NoneOf(kBackupWorkNames, "backup_work", name);
}

std::string TextOf(const ModeSettings& mode) {
  std::string text = NameOf(mode.mode);
  if (mode.mode == ConsistencyMode::kAsync) return text;
  text += fmt::format(", closures_per_step {}", mode.closures_per_step);
  if (mode.mode == ConsistencyMode::kBounded) {
    return text + fmt::format(", staleness {}", mode.staleness);
  }
  text += ", backup_work " + NameOf(mode.backup_work);
  if (mode.backup_work != BackupWork::kDrop) return text;
  return text + fmt::format(", replicas_to_aggregate {}", mode.replicas_to_aggregate);
}

absl::StatusOr<ModeSettings> ModeAfter(const ModeChange& change, const ModeSettings& now,
                                       uint32_t workers) {
  if (HasForeignField(change)) {
    return InvalidArgument(
        "closures_per_step applies to sync and bounded_staleness, backup_work and "
        "replicas_to_aggregate to sync, staleness to bounded_staleness; the mode is {}",
        NameOf(change.mode));
  }
  ModeSettings request{.mode = change.mode};
  if (change.mode == ConsistencyMode::kAsync) return request;
  const bool had_steps = now.mode != ConsistencyMode::kAsync;
  request.closures_per_step =
      change.closures_per_step.value_or(had_steps ? now.closures_per_step : workers);
  if (request.closures_per_step == 0 || request.closures_per_step > 4096) {
    return InvalidArgument("a step has 1 to 4096 closures, not {}", request.closures_per_step);
  }
  if (change.mode == ConsistencyMode::kBounded) {
    request.staleness = change.staleness.value_or(now.staleness);
    return request;
  }
  request.backup_work = change.backup_work.value_or(now.backup_work);
  const bool drop = request.backup_work == BackupWork::kDrop;
  if (drop) request.replicas_to_aggregate = now.replicas_to_aggregate;
  if (change.replicas_to_aggregate.has_value()) {
    request.replicas_to_aggregate = *change.replicas_to_aggregate;
  }
  if (drop != (request.replicas_to_aggregate > 0)) {
    return InvalidArgument(
        "`backup_work: drop` and replicas_to_aggregate belong together: how many of a step's "
        "closures close it");
  }
  if (request.replicas_to_aggregate > request.closures_per_step) {
    return InvalidArgument("replicas_to_aggregate is {}, but a step has {} closures",
                           request.replicas_to_aggregate, request.closures_per_step);
  }
  return request;
}

std::string StatusJsonText(const JobStatus& status) { return Dump(StatusJson(status)); }

absl::StatusOr<std::string> AnswerJobRequest(const std::string& command, const std::string& request,
                                             ControlledJob* job, Logger* log) {
  COHORT_ASSIGN_OR_RETURN(const json parsed, ParseJsonText(request.empty() ? "{}" : request));
  if (!parsed.is_object()) return InvalidArgument("the request is not a JSON object");
  const bool changes = command != "status";
  if (changes) log->Info("control_request", {{"command", command}, {"request", Dump(parsed)}});
  const absl::StatusOr<json> answer = Run(command, parsed, job);
  if (!answer.ok()) {
    if (changes) log->Failure(LogLevel::kWarning, "control_refused", answer.status());
    return answer.status();
  }
  if (changes) log->Info("control_done", {{"answer", Dump(*answer)}});
  return Dump(*answer);
}

}  // namespace cohort

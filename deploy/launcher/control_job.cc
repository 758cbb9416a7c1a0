#include "deploy/launcher/control_job.h"

#include <absl/strings/numbers.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/report/progress.h"
#include "common/rpc/admin/admin_client.h"

namespace cohort {
namespace {

using nlohmann::json;

bool IsFence(const ControlOptions& o) { return o.command == "fence" || o.command == "unfence"; }

absl::Status CheckControlOptions(const ControlOptions& o) {
  const std::vector<std::string> commands = {
      "status",    "checkpoint", "stop",  "set-mode", "set",   "add-ps", "drain-ps",
      "return-ps", "rebalance",  "fence", "unfence",  "pause", "resume", "extend"};
  if (std::find(commands.begin(), commands.end(), o.command) == commands.end()) {
    return UsageError("ctl: \"{}\" is none of the commands {}", o.command,
                      fmt::join(commands, ", "));
  }
  const bool set_mode = o.command == "set-mode";
  if (set_mode && o.mode.empty()) {
    return UsageError("ctl: set-mode needs a mode: async, sync or bounded_staleness");
  }
  const bool of_server = o.command == "drain-ps" || o.command == "return-ps";
  const bool add_server = o.command == "add-ps";
  if (add_server && o.mode.empty()) {
    return UsageError("ctl: add-ps needs the address of a server: `add-ps HOST:PORT`");
  }
  uint32_t ps = 0;
  if (of_server && !absl::SimpleAtoi(o.mode, &ps)) {
    return UsageError("ctl: {} needs the number of a server: `{} 1`", o.command, o.command);
  }
  const bool of_task = IsFence(o);
  if (of_task && !o.mode.starts_with("worker:") && !o.mode.starts_with("ps:")) {
    return UsageError("ctl: {} needs a worker or a server: `{} worker:1` or `{} ps:1`", o.command,
                      o.command, o.command);
  }
  if (o.command == "set") {
    char* end = nullptr;
    std::strtod(o.value.c_str(), &end);
    if (o.mode != "learning_rate" || o.value.empty() || *end != '\0') {
      return UsageError("ctl: set needs what, and a number: `set learning_rate 1e-4`");
    }
  } else if (!o.value.empty()) {
    return UsageError("ctl: {} takes no value \"{}\"", o.command, o.value);
  }
  if ((o.command == "extend") != (o.epochs >= 0)) {
    return UsageError(
        "ctl: extend needs `--epochs N`, how many the job has then in all, and no "
        "other command has this flag");
  }
  const bool mode_flags =
      (!o.mode.empty() && o.command != "set" && !of_server && !of_task && !add_server) ||
      o.closures_per_step >= 0 || o.staleness >= 0 || !o.backup_work.empty() ||
      o.replicas_to_aggregate >= 0;
  if (!set_mode && mode_flags) {
    return UsageError("ctl: a mode and its flags belong to set-mode, not to {}", o.command);
  }
  return absl::OkStatus();
}

json RequestOf(const ControlOptions& o) {
  json request = json::object();
  if (o.command == "set") {
    request[o.mode] = std::strtod(o.value.c_str(), nullptr);
    return request;
  }
  if (o.command == "drain-ps" || o.command == "return-ps") {
    request["ps"] = static_cast<uint32_t>(std::strtoul(o.mode.c_str(), nullptr, 10));
    return request;
  }
  if (o.command == "add-ps") {
    request["address"] = o.mode;
    return request;
  }
  if (IsFence(o)) {
    request["task"] = o.mode;
    return request;
  }
  if (o.epochs >= 0) request["epochs"] = o.epochs;
  if (!o.mode.empty()) request["mode"] = o.mode;
  if (!o.backup_work.empty()) request["backup_work"] = o.backup_work;
  if (o.closures_per_step >= 0) request["closures_per_step"] = o.closures_per_step;
  if (o.staleness >= 0) request["staleness"] = o.staleness;
  if (o.replicas_to_aggregate >= 0) request["replicas_to_aggregate"] = o.replicas_to_aggregate;
  return request;
}

// A value without quotes: sync, 3.
std::string Plain(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string StrategyText(const json& strategy) {
  std::string text = Plain(strategy.value("mode", json("")));
  for (const auto& [key, value] : strategy.items()) {
    if (key != "mode") text += fmt::format(", {} {}", key, Plain(value));
  }
  return text;
}

// "worker:2". The list has no tasks that had joined and have left, so the place says little.
std::string NameOf(const char* role, const json& tasks, size_t i) {
  return tasks[i].value("task", fmt::format("{}:{}", role, i));
}

// "2 of 3, without worker:1; fenced: worker:2".
std::string TasksText(const char* role, const json& tasks) {
  std::vector<std::string> lost;
  std::vector<std::string> fenced;
  size_t known = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    ++known;
    const std::string name = NameOf(role, tasks, i);
    if (!tasks[i].value("connected", false)) lost.push_back(name);
    if (tasks[i].value("fenced", false)) fenced.push_back(name);
  }
  std::string text = fmt::format("{} of {}", known - lost.size(), known);
  if (!lost.empty()) text += fmt::format(", without {}", fmt::join(lost, ", "));
  if (!fenced.empty()) text += fmt::format("; fenced: {}", fmt::join(fenced, ", "));
  return text;
}

// How long workers wait for the servers, the slowest first: the median of the workers' p50, and the
// largest p99. "ps:1 21.3 ms (p99 25.0), ps:0 0.4 ms (p99 1.2)".
std::string WaitsText(const json& links) {
  struct Waits {
    std::string server;
    std::vector<double> p50;
    double p99 = 0;
    double median() const { return p50[p50.size() / 2]; }
  };
  std::vector<Waits> servers;
  for (const json& link : links) {
    const std::string name = fmt::format("ps:{}", link.value("ps", uint64_t{0}));
    auto server = std::ranges::find(servers, name, &Waits::server);
    if (server == servers.end()) server = servers.insert(server, {.server = name});
    server->p50.push_back(link.value("p50_seconds", 0.0));
    server->p99 = std::max(server->p99, link.value("p99_seconds", 0.0));
  }
  for (Waits& server : servers) std::ranges::sort(server.p50);
  std::ranges::stable_sort(servers, std::ranges::greater(), &Waits::median);
  constexpr size_t kShown = 6;
  std::vector<std::string> parts;
  for (const Waits& server : servers) {
    if (parts.size() == kShown) break;
    parts.push_back(fmt::format("{} {:.1f} ms (p99 {:.1f})", server.server, server.median() * 1e3,
                                server.p99 * 1e3));
  }
  if (servers.size() > kShown) parts.push_back(fmt::format("and {} more", servers.size() - kShown));
  return fmt::format("{}", fmt::join(parts, ", "));
}

// "ps:0 3, ps:1 1 and 2 copies, ps:2 0 (drained)"; "" if all servers have tablets and nothing else.
std::string PlacesText(const json& servers) {
  std::vector<std::string> parts;
  bool usual = true;
  for (size_t i = 0; i < servers.size(); ++i) {
    if (!servers[i].contains("tablets")) return "";  // an older chief
    const uint64_t tablets = servers[i].value("tablets", uint64_t{0});
    const uint64_t copies = servers[i].value("copies", uint64_t{0});
    const bool drained = servers[i].value("drained", false);
    usual = usual && copies == 0 && !drained && tablets > 0;
    parts.push_back(fmt::format("{} {}{}{}", NameOf("ps", servers, i), tablets,
                                copies > 0 ? fmt::format(" and {} copies", copies) : "",
                                drained ? " (drained; return-ps ends this)" : ""));
  }
  return usual ? "" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string MetricsText(const json& metrics) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : metrics.items()) {
    parts.push_back(value.is_number() ? fmt::format("{} {:.4f}", name, value.get<double>())
                                      : name + " is not finite");
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string StreamText(const json& stream) {
  const auto number = [&stream](const char* key) { return stream.value(key, uint64_t{0}); };
  std::string text = fmt::format(
      "{:<11} {} done, {} in work, {} waiting in {}{}{}\n", "files", number("files_done"),
      number("files_in_work"), number("files_waiting"), stream.value("place", ""),
      number("files_left_out") > 0 ? fmt::format("; {} with a .skip", number("files_left_out"))
                                   : "",
      stream.value("ended", false) ? "; no file will come" : "");
  text += fmt::format("{:<11} {} records, {} bytes", "lag", number("records_waiting"),
                      number("bytes_waiting"));
  if (number("files_not_counted") > 0) {
    text += fmt::format(", of {} files without a count of records", number("files_not_counted"));
  }
  if (number("files_waiting") > 0) {
    text += fmt::format(", the oldest file {}",
                        FormatSeconds(stream.value("oldest_waiting_seconds", 0.0)));
  }
  return text + "\n";
}

// "skew 1.68: 84 %, 16 %", and for each variable its size and its hottest keys.
std::string RowsText(const json& rows) {
  double all = 0;
  for (const json& server : rows.value("servers", json::array())) all += server.value("rows", 0.0);
  std::vector<std::string> shares;
  for (const json& server : rows.value("servers", json::array())) {
    shares.push_back(
        fmt::format("{:.0f} %", all > 0 ? 100 * server.value("rows", 0.0) / all : 0.0));
  }
  std::string text = fmt::format("{:<11} skew {:.2f}, by server {}\n", "rows",
                                 rows.value("skew", 0.0), fmt::join(shares, ", "));
  for (const json& of : rows.value("variables", json::array())) {
    const auto number = [&of](const char* key) { return of.value(key, uint64_t{0}); };
    text += fmt::format("{:<11} {}: {} rows, {} bytes", "", of.value("name", ""), number("rows"),
                        number("bytes"));
    if (number("made") + number("evicted") + number("not_admitted") > 0) {
      text += fmt::format(", {} made, {} evicted, {} gradients not admitted", number("made"),
                          number("evicted"), number("not_admitted"));
    }
    std::vector<int64_t> keys;
    for (const json& hot : of.value("hot", json::array())) {
      keys.push_back(hot.value("key", int64_t{0}));
    }
    text += keys.empty() ? "\n" : fmt::format("; hot keys {}\n", fmt::join(keys, " "));
  }
  return text;
}

std::string StatusText(const json& s) {
  const auto number = [&s](const char* key) { return s.value(key, uint64_t{0}); };
  std::string text;
  const auto line = [&text](const char* name, const std::string& value) {
    if (!value.empty()) text += fmt::format("{:<11} {}\n", name, value);
  };
  line("job", s.value("job", ""));
  line("activity", s.value("activity", ""));
  if (s.contains("step")) {
    const bool knows_end = s.contains("seconds_left") && s["seconds_left"].is_number();
    const auto count = [&](const char* what, const char* key, const char* all) {
      return number(all) > 0 ? fmt::format("{} {} of {}", what, number(key), number(all))
                             : fmt::format("{} {}", what, number(key));
    };
    line("progress",
         fmt::format("{}, {}, {:.1f} steps/s{}",
                     count(s.contains("stream") ? "window" : "epoch", "epoch", "epochs"),
                     count("step", "step", "steps"), s.value("steps_per_second", 0.0),
                     knows_end ? fmt::format(", {} left", FormatSeconds(std::ceil(
                                                              s["seconds_left"].get<double>())))
                               : ""));
    if (s.contains("learning_rate") && s["learning_rate"].is_number()) {
      line("rate", fmt::format("{:.6g}", s["learning_rate"].get<double>()));
    }
    line("mode", StrategyText(s.value("strategy", json::object())));
    line("metrics", MetricsText(s.value("metrics", json::object())));
    line("workers", TasksText("worker", s.value("workers", json::array())));
    line("servers", TasksText("ps", s.value("servers", json::array())));
    line("tablets", PlacesText(s.value("servers", json::array())));
    if (number("tablets_moving") > 0) {
      line("moving", fmt::format("{} tablets, to other servers", number("tablets_moving")));
    }
    if (number("tablets_without_copy") > 0) {
      line("degraded", fmt::format("{} tablets have no copy, so their server must not be lost",
                                   number("tablets_without_copy")));
    }
    line("waits for", WaitsText(s.value("links", json::array())));
    for (const json& slow : s.value("slow", json::array())) line("slow", Plain(slow));
    line("closures", fmt::format("{} wait, {} run", number("queued"), number("in_flight")));
  }
  if (s.contains("rows")) text += RowsText(s["rows"]);
  if (s.contains("stream")) text += StreamText(s["stream"]);
  line("checkpoint", s.value("newest_checkpoint", ""));
  line("waits", s.value("waiting_for", ""));
  return text;
}

}  // namespace

std::string ControlText(const std::string& command, const std::string& answer) {
  const json parsed = json::parse(answer, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return answer + "\n";
  if (command == "status") return StatusText(parsed);
  if (command == "set-mode") {
    return fmt::format("the mode is {}\n", StrategyText(parsed.value("strategy", json::object())));
  }
  if (command == "set") {
    return fmt::format("the learning rate is {:.6g}\n", parsed.value("learning_rate", 0.0));
  }
  if (command == "add-ps") {
    return fmt::format("{} is a server of the job; `rebalance` moves variables to it\n",
                       parsed.value("address", ""));
  }
  if (command == "return-ps") {
    return "the server may have tablets again; `rebalance` moves those that it had\n";
  }
  if (command == "fence" || command == "unfence") {
    const std::string task = parsed.value("task", "");
    const bool server = task.starts_with("ps:");
    if (command == "unfence") {
      return server ? task + " may have tablets again; `rebalance` moves those that it had\n"
                    : task + " gets work again\n";
    }
    return server ? fmt::format(
                        "the servers of its copies take over from {}; it gets no tablets "
                        "until `unfence {}`\n",
                        task, task)
                  : fmt::format(
                        "other workers get the work of {}; it gets none until "
                        "`unfence {}`\n",
                        task, task);
  }
  if (command == "drain-ps" || command == "rebalance") {
    return fmt::format("{} tablets move; `status` shows how many are left\n",
                       parsed.value("tablets_moving", uint64_t{0}));
  }
  if (command == "pause") return "the job is paused\n";
  if (command == "resume") return "the job continues\n";
  if (command == "extend") {
    return fmt::format("the job has {} epochs\n", parsed.value("epochs", uint64_t{0}));
  }
  const std::string directory = parsed.value("checkpoint", "");
  if (command != "stop") return directory + "\n";
  if (directory.empty()) return "the job ends; it has trained nothing since its start\n";
  return fmt::format("the job ends; its checkpoint is {}\n", directory);
}

absl::StatusOr<std::string> ControlJob(const ControlOptions& options) {
  COHORT_RETURN_IF_ERROR(CheckControlOptions(options));
  COHORT_ASSIGN_OR_RETURN(const std::string socket, FindControlSocket(options.run));
  COHORT_ASSIGN_OR_RETURN(
      const std::string answer,
      CallControl(socket, options.command,
                  RequestOf(options).dump(-1, ' ', false, json::error_handler_t::replace)));
  return options.json ? answer + "\n" : ControlText(options.command, answer);
}

}  // namespace cohort

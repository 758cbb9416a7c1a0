#include "common/cluster/tf_config.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/base/suggest.h"

namespace cohort {
namespace {

using Json = nlohmann::json;

// The type of a value, for errors: "number", "string".
std::string Kind(const Json& value) {
  return value.is_array() ? "list" : value.is_object() ? "dictionary" : value.type_name();
}

absl::StatusOr<Role> ParseRole(const std::string& name, std::string_view field) {
  if (const auto role = RoleFromName(name)) return *role;
  return InvalidArgument("{}: \"{}\" is not a task type (chief, worker, ps, evaluator){}", field,
                         name, DidYouMean(name, {"chief", "worker", "ps", "evaluator", "master"}));
}

// Reads a number or a string of digits. TensorFlow accepts both for task.index and for the keys of
// a sparse job.
absl::StatusOr<int> ParseIndex(const Json& value, std::string_view field) {
  int64_t index = -1;
  if (value.is_number_unsigned()) {
    index = static_cast<int64_t>(std::min<uint64_t>(value.get<uint64_t>(), INT64_MAX));
  } else if (value.is_number_integer()) {
    index = value.get<int64_t>();
  } else if (value.is_number()) {  // it has a fraction or too many digits
    return InvalidArgument("{}: {} is not a task index; tasks are counted 0, 1, ...", field,
                           value.dump());
  } else if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const auto result = std::from_chars(text.data(), text.data() + text.size(), index);
    if (text.empty() || result.ec != std::errc() || result.ptr != text.data() + text.size()) {
      return InvalidArgument("{}: \"{}\" is not a number; tasks are counted 0, 1, ...", field,
                             text);
    }
  } else {
    return InvalidArgument("{}: expected a number, found a {}", field, Kind(value));
  }
  if (index < 0) {
    return InvalidArgument("{}: {} is negative; tasks are counted 0, 1, ...", field, index);
  }
  if (index > 1'000'000) return InvalidArgument("{}: {} is too large", field, index);
  return static_cast<int>(index);
}

// Collects the tasks of "cluster" and refuses an address that two tasks have.
class ClusterReader {
 public:
  absl::Status ReadJob(const std::string& name, const Json& value) {
    const std::string field = fmt::format("cluster.{}", name);
    COHORT_ASSIGN_OR_RETURN(const Role role, ParseRole(name, "cluster"));
    if (spec_.count(role) > 0) {
      return InvalidArgument("{}: chief and master name the same task; keep one of them", field);
    }
    COHORT_RETURN_IF_ERROR(value.is_array() ? ReadList(role, field, value)
                                            : ReadDictionary(role, field, value));
    if ((role == Role::kChief || role == Role::kEvaluator) && spec_.count(role) > 1) {
      return InvalidArgument("{}: {} tasks, but at most one is allowed", field, spec_.count(role));
    }
    return absl::OkStatus();
  }

  ClusterSpec Take() { return std::move(spec_); }

 private:
  absl::Status ReadList(Role role, const std::string& field, const Json& list) {
    for (size_t i = 0; i < list.size(); ++i) {
      COHORT_RETURN_IF_ERROR(
          ReadTask({role, static_cast<int>(i)}, fmt::format("{}[{}]", field, i), list[i]));
    }
    return absl::OkStatus();
  }

  absl::Status ReadDictionary(Role role, const std::string& field, const Json& dictionary) {
    if (!dictionary.is_object()) {
      return InvalidArgument(
          "{}: expected a list of addresses, or a dictionary of addresses by index, found a {}",
          field, Kind(dictionary));
    }
    for (const auto& [key, value] : dictionary.items()) {
      const std::string entry = fmt::format("{}[\"{}\"]", field, key);
      COHORT_ASSIGN_OR_RETURN(const int index, ParseIndex(Json(key), entry));
      if (spec_.Find({role, index}).has_value()) {
        return InvalidArgument("{}: index {} is named twice", entry, index);
      }
      COHORT_RETURN_IF_ERROR(ReadTask({role, index}, entry, value));
    }
    return absl::OkStatus();
  }

  absl::Status ReadTask(Task task, const std::string& field, const Json& value) {
    if (!value.is_string()) {
      return InvalidArgument("{}: expected an address \"host:port\", found a {}", field,
                             Kind(value));
    }
    auto address = ParseAddress(value.get_ref<const std::string&>());
    if (!address.ok()) return Annotate(address.status(), field);
    const auto [other, added] = owners_.try_emplace(address->ToString(), field);
    if (!added) {
      return InvalidArgument("{}: {} is the address of {} too; every task needs its own", field,
                             address->ToString(), other->second);
    }
    spec_.Set(task, *std::move(address));
    return absl::OkStatus();
  }

  ClusterSpec spec_;
  std::map<std::string, std::string> owners_;  // address to field
};

absl::StatusOr<std::optional<Task>> ReadTaskSection(const Json& root) {
  const auto it = root.find("task");
  if (it == root.end() || it->is_null()) return std::nullopt;
  if (!it->is_object()) {
    return InvalidArgument("task: expected {{\"type\": ..., \"index\": ...}}, found a {}",
                           Kind(*it));
  }
  const auto type = it->find("type");
  const auto index = it->find("index");
  if (type == it->end()) {
    if (index == it->end()) return std::nullopt;
    return InvalidArgument("task.type: is missing (chief, worker, ps or evaluator)");
  }
  if (!type->is_string()) {
    return InvalidArgument("task.type: expected a string, found a {}", Kind(*type));
  }
  Task task;
  COHORT_ASSIGN_OR_RETURN(task.role, ParseRole(type->get<std::string>(), "task.type"));
  if (index != it->end()) {
    COHORT_ASSIGN_OR_RETURN(task.index, ParseIndex(*index, "task.index"));
  }
  return task;
}

// Refuses what a TFJob with enableDynamicWorker gives its tasks: a worker gets a dictionary of
// itself alone, and the other tasks get an empty one.
absl::Status CheckNamesWorkers(const Json& cluster, const std::optional<Task>& task) {
  const auto workers = cluster.find("worker");
  if (workers == cluster.end() || !workers->is_object()) return absl::OkStatus();
  const bool is_worker = task.has_value() && task->role == Role::kWorker;
  if (workers->size() > 1 || (workers->size() == 1 && !is_worker)) return absl::OkStatus();
  return InvalidArgument(
      "cluster.worker: a dictionary with {}, which is what a TFJob with `enableDynamicWorker: "
      "true` "
      "sets; remove that key from the TFJob, so that every task gets the lists of all workers and "
      "parameter servers",
      workers->empty() ? "no worker" : "this worker alone");
}

// Checks that the cluster has an entry for the task, if it needs one.
absl::Status CheckTask(const ClusterSpec& cluster, Task task) {
  const bool needs_entry = task.role == Role::kWorker || task.role == Role::kPs;
  if (!needs_entry && cluster.count(task.role) == 0) {
    if (task.index == 0) return absl::OkStatus();
    return InvalidArgument("task.index: {}, but a cluster has at most one {}", task.index,
                           RoleName(task.role));
  }
  if (cluster.Find(task).has_value()) return absl::OkStatus();
  if (cluster.count(task.role) == 0) {
    return InvalidArgument(
        "task.type: this task is a {}, and cluster.{} is missing; add it, a list "
        "of addresses",
        RoleName(task.role), RoleName(task.role));
  }
  return InvalidArgument("task.index: cluster.{} has no task {}; it has {}, counted from 0",
                         RoleName(task.role), task.index, cluster.count(task.role));
}

absl::StatusOr<TfConfig> Read(const Json& root) {
  if (!root.is_object()) return InvalidArgument("expected a dictionary, found a {}", Kind(root));
  TfConfig config;
  COHORT_ASSIGN_OR_RETURN(config.task, ReadTaskSection(root));
  if (const auto it = root.find("cluster"); it != root.end() && !it->is_null()) {
    if (!it->is_object()) {
      return InvalidArgument("cluster: expected a dictionary by task type, found a {}", Kind(*it));
    }
    ClusterReader reader;
    for (const auto& [name, value] : it->items()) {
      COHORT_RETURN_IF_ERROR(reader.ReadJob(name, value));
    }
    config.cluster = reader.Take();
    COHORT_RETURN_IF_ERROR(CheckNamesWorkers(*it, config.task));
  }
  if (config.task.has_value()) COHORT_RETURN_IF_ERROR(CheckTask(config.cluster, *config.task));
  return config;
}

absl::Status Bad(const absl::Status& status) {
  return WithExitCode(Annotate(status, "TF_CONFIG"), ExitCode::kConfig);
}

}  // namespace

absl::StatusOr<TfConfig> ParseTfConfig(std::string_view json) {
  if (json.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return Bad(InvalidArgument(
        "is empty; it should be {{\"cluster\": {{\"worker\": [\"host:port\"], \"ps\": [...]}}, "
        "\"task\": {{\"type\": \"worker\", \"index\": 0}}}}"));
  }
  try {
    const Json root = Json::parse(json.begin(), json.end());
    auto config = Read(root);
    if (!config.ok()) return Bad(config.status());
    return config;
  } catch (const Json::exception& e) {
    // The message begins with the exception's name: "[json.exception.parse_error.101] parse error
    // at".
    const std::string_view what = e.what();
    const size_t begin = what.find("] ");
    return Bad(InvalidArgument("is not valid JSON: {}",
                               begin == what.npos ? what : what.substr(begin + 2)));
  }
}

absl::StatusOr<Task> TaskOfRole(const TfConfig& config, Role role) {
  if (!config.task.has_value()) {
    if (role == Role::kChief || role == Role::kEvaluator) return Task{role, 0};
    return Bad(InvalidArgument("task: is missing; a {} needs {{\"type\": \"{}\", \"index\": n}}",
                               RoleName(role), RoleName(role)));
  }
  if (config.task->role == role) return *config.task;
  return Bad(InvalidArgument("task.type: names a {}, and this is cohort-{}; start cohort-{}",
                             RoleName(config.task->role), RoleName(role),
                             RoleName(config.task->role)));
}

std::string MakeTfConfig(const ClusterSpec& cluster, Task task) {
  Json root = {{"cluster", Json::object()},
               {"task", {{"type", RoleName(task.role)}, {"index", task.index}}}};
  for (int r = 0; r < kNumRoles; ++r) {
    const auto& tasks = cluster.tasks(static_cast<Role>(r));
    if (tasks.empty()) continue;
    const bool dense = tasks.rbegin()->first == static_cast<int>(tasks.size()) - 1;
    Json& job = root["cluster"][std::string(RoleName(static_cast<Role>(r)))];
    for (const auto& [index, address] : tasks) {
      if (dense) {
        job.push_back(address.ToString());
      } else {
        job[std::to_string(index)] = address.ToString();
      }
    }
  }
  return root.dump();
}

}  // namespace cohort

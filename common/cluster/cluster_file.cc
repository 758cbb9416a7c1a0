#include "common/cluster/cluster_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/base/suggest.h"

namespace cohort {
namespace {

constexpr size_t kMaxBytes = size_t{4} << 20;  // a file has at most as many
constexpr size_t kMaxNameLength = 63;
constexpr int kMaxIndex = 1'000'000;
constexpr char kExample[] =
    "for example `cluster: {ps: [node1:4711], worker: [node1:4701, node2:4701]}`";

std::string Describe(const YAML::Node& node) {
  if (node.IsMap()) return "a mapping";
  if (node.IsSequence()) return "a list";
  if (!node.IsScalar()) return "nothing";
  return fmt::format("\"{}\"", node.Scalar().substr(0, 60));
}

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameLength &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
         });
}

class ClusterFileReader {
 public:
  explicit ClusterFileReader(std::string_view file) : file_(file) {}

  absl::StatusOr<ClusterFile> Read(const std::string& yaml) {
    const std::vector<YAML::Node> documents = YAML::LoadAll(yaml);
    if (documents.empty() || documents[0].IsNull()) {
      return InvalidArgument("{}:1: the file is empty; it should have `name` and `cluster`, {}",
                             file_, kExample);
    }
    if (documents.size() > 1) {
      return Error(documents[1], "", "a cluster is one YAML document; remove the others");
    }
    COHORT_ASSIGN_OR_RETURN(const auto entries, Entries(documents[0], ""));
    for (const auto& [key, value] : entries) {
      const std::string& name = key.Scalar();
      if (name == "name") {
        COHORT_RETURN_IF_ERROR(ReadName(value));
      } else if (name == "cluster") {
        COHORT_RETURN_IF_ERROR(ReadCluster(value));
      } else {
        const std::string hint = DidYouMean(name, {"name", "cluster"});
        return Error(key, "", "unknown key \"{}\"{}", name.substr(0, 60),
                     hint.empty() ? "; the keys are name and cluster" : hint);
      }
    }
    if (result_.name.empty()) {
      return Error(documents[0], "name", "is missing; add it, for example `name: lab`");
    }
    if (result_.cluster.empty()) {
      return Error(documents[0], "cluster", "is missing; add the tasks, {}", kExample);
    }
    return std::move(result_);
  }

 private:
  using Entry = std::pair<YAML::Node, YAML::Node>;  // key and value

  // `field` is the place in the file, such as "cluster.ps[1]"; "" for the whole file.
  template <typename... Args>
  absl::Status Error(const YAML::Node& node, std::string_view field,
                     fmt::format_string<Args...> format, Args&&... args) const {
    return InvalidArgument("{}:{}: {}{}{}", file_, node.Mark().line + 1, field,
                           field.empty() ? "" : ": ",
                           fmt::format(format, std::forward<Args>(args)...));
  }

  absl::StatusOr<std::vector<Entry>> Entries(const YAML::Node& node, std::string_view field) const {
    if (!node.IsMap()) {
      return Error(node, field, "expected a mapping of keys, found {}; {}", Describe(node),
                   kExample);
    }
    std::vector<Entry> entries;
    std::set<std::string> seen;
    for (const auto& pair : node) {
      if (!pair.first.IsScalar()) {
        return Error(pair.first, field, "a key must be text, not {}", Describe(pair.first));
      }
      if (!seen.insert(pair.first.Scalar()).second) {
        return Error(pair.first, field, "key \"{}\" is given twice; remove one",
                     pair.first.Scalar());
      }
      entries.emplace_back(pair.first, pair.second);
    }
    return entries;
  }

  absl::Status ReadName(const YAML::Node& node) {
    if (!node.IsScalar() || !IsName(node.Scalar())) {
      return Error(node, "name",
                   "{} is not a name; use 1 to {} letters, digits, \".\", \"_\" and \"-\"",
                   Describe(node), kMaxNameLength);
    }
    result_.name = node.Scalar();
    return absl::OkStatus();
  }

  absl::Status ReadCluster(const YAML::Node& node) {
    COHORT_ASSIGN_OR_RETURN(const auto entries, Entries(node, "cluster"));
    for (const auto& [key, value] : entries) {
      const std::string& name = key.Scalar();
      const auto role = RoleFromName(name);
      if (!role.has_value()) {
        return Error(key, "cluster", "\"{}\" is not a task type (chief, worker, ps, evaluator){}",
                     name.substr(0, 60),
                     DidYouMean(name, {"chief", "worker", "ps", "evaluator", "master"}));
      }
      const std::string field = fmt::format("cluster.{}", name);
      if (result_.cluster.count(*role) > 0) {
        return Error(key, field, "chief and master name the same task; keep one of them");
      }
      COHORT_RETURN_IF_ERROR(ReadTasks(*role, field, value));
      const bool single = *role == Role::kChief || *role == Role::kEvaluator;
      if (single && result_.cluster.count(*role) > 1) {
        return Error(value, field, "{} tasks, but at most one is allowed",
                     result_.cluster.count(*role));
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadTasks(Role role, const std::string& field, const YAML::Node& node) {
    if (node.IsSequence()) {
      int index = 0;
      for (const YAML::Node& item : node) {
        COHORT_RETURN_IF_ERROR(ReadTask({role, index}, fmt::format("{}[{}]", field, index), item));
        ++index;
      }
      return absl::OkStatus();
    }
    if (!node.IsMap()) {
      return Error(node, field, "expected a list of addresses, found {}; for example [node1:4701]",
                   Describe(node));
    }
    COHORT_ASSIGN_OR_RETURN(const auto entries, Entries(node, field));
    for (const auto& [key, value] : entries) {
      const std::string& text = key.Scalar();
      int index = -1;
      const auto parsed = std::from_chars(text.data(), text.data() + text.size(), index);
      if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || index < 0 ||
          index > kMaxIndex) {
        return Error(key, field, "\"{}\" is not a task index; tasks are counted 0, 1, ...",
                     text.substr(0, 60));
      }
      const std::string entry = fmt::format("{}[\"{}\"]", field, text);
      if (result_.cluster.Find({role, index}).has_value()) {
        return Error(key, entry, "index {} is named twice; remove one", index);
      }
      COHORT_RETURN_IF_ERROR(ReadTask({role, index}, entry, value));
    }
    return absl::OkStatus();
  }

  absl::Status ReadTask(Task task, const std::string& field, const YAML::Node& node) {
    if (!node.IsScalar()) {
      return Error(node, field,
                   "expected an address \"host:port\", found {}; quote an IPv6 address: {}",
                   Describe(node), "\"[fd00::1]:4701\"");
    }
    auto address = ParseAddress(node.Scalar());
    if (!address.ok()) {
      const absl::string_view why = address.status().message();
      return Error(node, field, "{}", std::string_view(why.data(), why.size()));
    }
    const auto [owner, added] = owners_.try_emplace(address->ToString(), field);
    if (!added) {
      return Error(node, field, "{} is the address of {} too; every task needs its own",
                   address->ToString(), owner->second);
    }
    result_.cluster.Set(task, *std::move(address));
    return absl::OkStatus();
  }

  const std::string file_;
  ClusterFile result_;
  std::map<std::string, std::string> owners_;  // address to field
};

}  // namespace

absl::StatusOr<ClusterFile> ParseClusterFile(std::string_view yaml, std::string_view file_name) {
  try {
    return ClusterFileReader(file_name).Read(std::string(yaml));
  } catch (const YAML::Exception& error) {
    const int line = error.mark.is_null() ? 1 : error.mark.line + 1;
    // yaml-cpp reports BAD_FILE for nesting beyond its limit. A text cannot be a bad file
    // otherwise.
    if (error.msg == YAML::ErrorMsg::BAD_FILE) {
      return InvalidArgument("{}:{}: lists or mappings are nested too deeply", file_name, line);
    }
    return InvalidArgument("{}:{}: not YAML: {}", file_name, line, error.msg);
  }
}

absl::StatusOr<ClusterFile> ReadClusterFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return NotFound("{}: is a directory, not the description of a cluster", path);
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return NotFound("{}: cannot be opened: {}", path, std::generic_category().message(errno));
  }
  std::string text(kMaxBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) return NotFound("{}: cannot be read", path);
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kMaxBytes) {
    return InvalidArgument("{}:1: the file has more than {} bytes; a cluster needs far fewer", path,
                           kMaxBytes);
  }
  return ParseClusterFile(text, path);
}

}  // namespace cohort

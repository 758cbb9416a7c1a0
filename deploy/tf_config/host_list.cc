#include "deploy/tf_config/host_list.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <set>

#include "common/base/status.h"

namespace cohort {
namespace {

// A whole text of digits, at most kMostHosts * 10; nullopt for anything else.
std::optional<int> Number(std::string_view text) {
  int value = -1;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = result.ec == std::errc() && result.ptr == text.data() + text.size();
  if (!whole || value < 0 || text[0] == '-') return std::nullopt;
  return value;
}

bool IsHostName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_' || c == ':';
  });
}

// Splits at commas outside of brackets.
std::vector<std::string_view> SplitList(std::string_view list) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i == list.size() || (list[i] == ',' && depth == 0)) {
      parts.push_back(list.substr(begin, i - begin));
      begin = i + 1;
    } else if (list[i] == '[') {
      ++depth;
    } else if (list[i] == ']') {
      --depth;
    }
  }
  return parts;
}

class HostListExpander {
 public:
  absl::StatusOr<std::vector<std::string>> Expand(std::string_view list) {
    for (const std::string_view part : SplitList(list)) {
      COHORT_RETURN_IF_ERROR(ExpandPart("", part));
    }
    return std::move(hosts_);
  }

 private:
  // Adds all hosts that begin with `done` and continue with the pattern `rest`.
  absl::Status ExpandPart(const std::string& done, std::string_view rest) {
    const size_t open = rest.find('[');
    if (open == rest.npos) {
      const std::string host = done + std::string(rest);
      if (!IsHostName(host)) return InvalidArgument("\"{}\" is not the name of a host", host);
      if (hosts_.size() == kMostHosts) {
        return InvalidArgument("more than {} hosts", kMostHosts);
      }
      hosts_.push_back(host);
      return absl::OkStatus();
    }
    const size_t close = rest.find(']', open);
    if (close == rest.npos) return InvalidArgument("\"{}\" has no \"]\"", rest);
    const std::string prefix = done + std::string(rest.substr(0, open));
    for (const std::string_view range : SplitList(rest.substr(open + 1, close - open - 1))) {
      const size_t dash = range.find('-');
      const std::string_view first = range.substr(0, dash);
      const std::string_view last = dash == range.npos ? first : range.substr(dash + 1);
      const auto from = Number(first);
      const auto to = Number(last);
      if (!from.has_value() || !to.has_value() || *to < *from) {
        return InvalidArgument("\"{}\" is not a range of numbers, such as 01-03", range);
      }
      for (int i = *from; i <= *to; ++i) {
        COHORT_RETURN_IF_ERROR(
            ExpandPart(prefix + fmt::format("{:0{}}", i, first.size()), rest.substr(close + 1)));
      }
    }
    return absl::OkStatus();
  }

  std::vector<std::string> hosts_;
};

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == text.npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// One line without its comment: "host", "host slots=2" or "host:2".
absl::StatusOr<HostSlots> ParseHostLine(std::string_view line) {
  HostSlots entry;
  const size_t blank = line.find_first_of(" \t");
  std::string_view host = line.substr(0, blank);
  std::string_view slots = blank == line.npos ? "" : Trim(line.substr(blank));
  if (const size_t colon = host.find(':');
      colon != host.npos && host.find(':', colon + 1) == host.npos) {
    if (!slots.empty()) return InvalidArgument("\"{}\" gives the number of tasks twice", line);
    slots = host.substr(colon + 1);
    host = host.substr(0, colon);
  } else if (slots.starts_with("slots=")) {
    slots.remove_prefix(6);
  } else if (!slots.empty()) {
    return InvalidArgument("\"{}\" is unknown; a line is `host`, `host slots=2` or `host:2`",
                           slots);
  } else {
    slots = "1";
  }
  const auto count = Number(slots);
  if (!count.has_value() || *count < 1 || *count > kMostHosts) {
    return InvalidArgument("\"{}\" is not a number of tasks from 1 to {}", slots, kMostHosts);
  }
  if (!IsHostName(host)) return InvalidArgument("\"{}\" is not the name of a host", host);
  return HostSlots{std::string(host), *count};
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandHostList(std::string_view list) {
  return HostListExpander().Expand(list);
}

absl::StatusOr<std::vector<int>> ExpandTasksPerNode(std::string_view text) {
  std::vector<int> tasks;
  for (std::string_view part : SplitList(text)) {
    std::optional<int> repeat = 1;
    if (const size_t open = part.find("(x"); open != part.npos && part.ends_with(")")) {
      repeat = Number(part.substr(open + 2, part.size() - open - 3));
      part = part.substr(0, open);
    }
    const auto count = Number(part);
    if (!count.has_value() || !repeat.has_value() || *repeat < 1 ||
        *repeat > kMostHosts - static_cast<int>(tasks.size())) {
      return InvalidArgument("\"{}\" is not a list of tasks per node, such as 2(x3),1", text);
    }
    tasks.insert(tasks.end(), static_cast<size_t>(*repeat), *count);
  }
  return tasks;
}

absl::StatusOr<std::vector<HostSlots>> ParseHostFile(std::string_view text,
                                                     std::string_view file_name) {
  std::vector<HostSlots> hosts;
  std::set<std::string> seen;
  int number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view whole = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view line = Trim(whole.substr(0, whole.find('#')));
    if (line.empty()) continue;
    auto entry = ParseHostLine(line);
    if (!entry.ok()) return Annotate(entry.status(), fmt::format("{}:{}", file_name, number));
    if (!seen.insert(entry->host).second) {
      return InvalidArgument(
          "{}:{}: {} is listed twice; write the number of its tasks, `{} slots=2`", file_name,
          number, entry->host, entry->host);
    }
    hosts.push_back(*std::move(entry));
  }
  if (hosts.empty()) return InvalidArgument("{}:1: the file names no host", file_name);
  return hosts;
}

}  // namespace cohort

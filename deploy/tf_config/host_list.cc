#include "deploy/tf_config/host_list.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

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

}  // namespace cohort

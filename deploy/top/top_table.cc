#include "deploy/top/top_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/base/printable.h"

namespace cohort {
namespace {

using nlohmann::json;

constexpr const char* kNothing = "-";

std::optional<double> NumberAt(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::string TextAt(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return "";
  return PrintableLine(found->get_ref<const std::string&>());
}

const json& ArrayAt(const json& object, const char* key) {
  static const json kEmpty = json::array();
  const auto found = object.find(key);
  return found == object.end() || !found->is_array() ? kEmpty : *found;
}

bool BoolAt(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

size_t Width(std::string_view text) {
  size_t characters = 0;
  for (; !text.empty(); text.remove_prefix(FirstCharacter(text).bytes)) ++characters;
  return characters;
}

std::string Cut(std::string_view text, size_t columns) {
  if (columns == 0 || Width(text) <= columns) return std::string(text);
  size_t bytes = 0;
  for (size_t i = 0; i < columns; ++i) bytes += FirstCharacter(text.substr(bytes)).bytes;
  return std::string(text.substr(0, bytes));
}

std::string Count(std::optional<double> value) {
  return value.has_value() ? fmt::format("{:.0f}", *value) : kNothing;
}

std::string Rate(std::optional<double> value) {
  if (!value.has_value()) return kNothing;
  return fmt::format("{:.{}f}", *value, *value < 100 ? 1 : 0);
}

std::string Bytes(std::optional<double> value, const char* unit) {
  if (!value.has_value()) return kNothing;
  constexpr const char* kPrefixes[] = {"", "Ki", "Mi", "Gi", "Ti"};
  size_t prefix = 0;
  double scaled = *value;
  for (; scaled >= 1024 && prefix + 1 < std::size(kPrefixes); ++prefix) scaled /= 1024;
  return fmt::format("{:.{}f} {}{}", scaled, prefix > 0 && scaled < 100 ? 1 : 0, kPrefixes[prefix],
                     unit);
}

std::string Age(std::optional<double> seconds) {
  if (!seconds.has_value()) return kNothing;
  if (*seconds < 60) return fmt::format("{:.1f} s", *seconds);
  const auto minutes = static_cast<int64_t>(*seconds / 60);
  if (minutes < 120) return fmt::format("{} min", minutes);
  return fmt::format("{} h", minutes / 60);
}

// A task in two statuses.
struct TaskView {
  const char* role;
  size_t index;
  const json* before;
  const json* now;
  double seconds;

  bool connected() const { return BoolAt(*now, "connected"); }
  // How much a counter has risen; nullopt if it was reset, because the process or the chief is new.
  std::optional<double> Rise(const char* key) const {
    const auto from = NumberAt(*before, key);
    const auto to = NumberAt(*now, key);
    if (!from.has_value() || !to.has_value() || *to < *from) return std::nullopt;
    return *to - *from;
  }
  std::optional<double> PerSecond(const char* key) const {
    const auto rise = Rise(key);
    if (!rise.has_value() || seconds <= 0) return std::nullopt;
    return *rise / seconds;
  }
};

std::string State(const TaskView& task) {
  if (!task.connected()) return "lost";
  if (task.now->contains("pushes")) return "serves";
  const double silent = NumberAt(*task.now, "silent_seconds").value_or(0);
  if (silent >= 10) return "silent " + Age(silent);
  return NumberAt(*task.now, "in_flight").value_or(0) > 0 ? "runs" : "idle";
}

std::string Staleness(const TaskView& task) {
  const auto applied = task.Rise("applied");
  const auto sum = task.Rise("sum_staleness");
  if (!sum.has_value() || applied.value_or(0) == 0) return kNothing;
  return fmt::format("{:.1f}", *sum / *applied);
}

struct Column {
  const char* title;
  bool left;  // aligned
  int rank;   // a narrow screen loses the columns with the highest ranks
  std::string (*cell)(const TaskView& task);
};

constexpr Column kColumns[] = {
    {"TASK", true, 0, [](const TaskView& t) { return fmt::format("{}:{}", t.role, t.index); }},
    {"ADDRESS", true, 6, [](const TaskView& t) { return TextAt(*t.now, "address"); }},
    {"STATE", true, 1, State},
    {"STEPS/S", false, 2, [](const TaskView& t) { return Rate(t.PerSecond("steps")); }},
    {"PUSHES/S", false, 7,
     [](const TaskView& t) {
       return Rate(t.PerSecond(t.now->contains("pushes") ? "pushes" : "applied"));
     }},
    {"CLOSURES", false, 8, [](const TaskView& t) { return Count(NumberAt(*t.now, "closures")); }},
    {"STALENESS", false, 9, Staleness},
    {"SENT/S", false, 4, [](const TaskView& t) { return Bytes(t.PerSecond("sent_bytes"), "B"); }},
    {"RECEIVED/S", false, 5,
     [](const TaskView& t) { return Bytes(t.PerSecond("received_bytes"), "B"); }},
    {"MEMORY", false, 3,
     [](const TaskView& t) {
       return t.connected() ? Bytes(NumberAt(*t.now, "resident_bytes"), "B") : kNothing;
     }},
    {"HEARD", false, 10,
     [](const TaskView& t) {
       return t.connected() ? Age(NumberAt(*t.now, "heard_seconds")) : kNothing;
     }},
};
constexpr size_t kGap = 2;  // characters between two columns

void AddTasks(const json& before, const json& now, const char* role, const char* key,
              double seconds, std::vector<TaskView>* tasks) {
  static const json kNone = json::object();
  const json& old = ArrayAt(before, key);
  const json& all = ArrayAt(now, key);
  for (size_t i = 0; i < all.size(); ++i) {
    tasks->push_back({role, i, i < old.size() ? &old[i] : &kNone, &all[i], seconds});
  }
}

// Returns the indices of the columns that fit, given their widths.
std::vector<size_t> ColumnsThatFit(const std::vector<size_t>& widths, size_t columns) {
  std::vector<size_t> shown(std::size(kColumns));
  for (size_t c = 0; c < shown.size(); ++c) shown[c] = c;
  const auto total = [&] {
    size_t sum = 0;
    for (const size_t c : shown) sum += widths[c] + kGap;
    return sum - kGap;
  };
  while (columns > 0 && shown.size() > 1 && total() > columns) {
    shown.erase(std::max_element(shown.begin(), shown.end(), [](size_t a, size_t b) {
      return kColumns[a].rank < kColumns[b].rank;
    }));
  }
  return shown;
}

std::string RowText(const std::vector<std::string>& cells, const std::vector<size_t>& widths,
                    const std::vector<size_t>& shown) {
  std::string text;
  for (const size_t c : shown) {
    const std::string pad(widths[c] - Width(cells[c]), ' ');
    if (!text.empty()) text += std::string(kGap, ' ');
    text += kColumns[c].left ? cells[c] + pad : pad + cells[c];
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::vector<TopRow> TaskRows(std::vector<TaskView> tasks, const ScreenSize& screen, size_t above) {
  std::vector<std::vector<std::string>> cells(1);
  for (const Column& column : kColumns) cells[0].push_back(column.title);
  const size_t left = screen.rows == 0 ? tasks.size() : screen.rows - std::min(screen.rows, above);
  const size_t most = tasks.size() <= left ? left : left - std::min<size_t>(left, 1);
  if (tasks.size() > most) {
    std::stable_partition(tasks.begin(), tasks.end(),
                          [](const TaskView& t) { return !t.connected(); });
  }
  const size_t hidden = tasks.size() - std::min(tasks.size(), most);
  tasks.resize(tasks.size() - hidden);
  for (const TaskView& task : tasks) {
    auto& row = cells.emplace_back();
    for (const Column& column : kColumns) row.push_back(column.cell(task));
  }
  std::vector<size_t> widths(std::size(kColumns));
  for (const auto& row : cells) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], Width(row[c]));
  }
  const std::vector<size_t> shown = ColumnsThatFit(widths, screen.columns);
  std::vector<TopRow> rows = {{RowText(cells[0], widths, shown), TopRowKind::kTitles}};
  for (size_t t = 0; t < tasks.size(); ++t) {
    rows.push_back({RowText(cells[t + 1], widths, shown),
                    tasks[t].connected() ? TopRowKind::kPlain : TopRowKind::kLost});
  }
  if (hidden > 0) rows.push_back({fmt::format("and {} more tasks", hidden)});
  return rows;
}

std::string Metrics(const json& now) {
  std::vector<std::string> parts;
  const auto found = now.find("metrics");
  if (found == now.end() || !found->is_object()) return "";
  for (const auto& [name, value] : found->items()) {
    parts.push_back(value.is_number()
                        ? fmt::format("{} {:.4f}", PrintableLine(name), value.get<double>())
                        : PrintableLine(name) + " is not finite");
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<TopRow> HeaderRows(const json& now) {
  std::vector<TopRow> rows;
  const auto line = [&rows](const char* name, const std::string& value) {
    if (!value.empty()) rows.push_back({fmt::format("{:<11} {}", name, value)});
  };
  line("job", fmt::format("{}, {}", TextAt(now, "job"), TextAt(now, "activity")));
  if (NumberAt(now, "step").has_value()) {
    const auto count = [&now](const char* key) { return Count(NumberAt(now, key)); };
    line("progress",
         fmt::format("epoch {} of {}, step {} of {}, {} steps/s", count("epoch"), count("epochs"),
                     count("step"), count("steps"), Rate(NumberAt(now, "steps_per_second"))));
    line("metrics", Metrics(now));
    line("closures", fmt::format("{} wait, {} run", count("queued"), count("in_flight")));
  }
  const std::string checkpoint = TextAt(now, "newest_checkpoint");
  if (!checkpoint.empty()) {
    line("checkpoint",
         fmt::format("{}, {} ago", checkpoint, Age(NumberAt(now, "checkpoint_age_seconds"))));
  }
  line("waits", TextAt(now, "waiting_for"));
  return rows;
}

}  // namespace

std::vector<TopRow> TopRows(const json& before, const json& now, double seconds,
                            const ScreenSize& screen) {
  std::vector<TopRow> rows = HeaderRows(now);
  std::vector<TaskView> tasks;
  AddTasks(before, now, "worker", "workers", seconds, &tasks);
  AddTasks(before, now, "ps", "servers", seconds, &tasks);
  if (!tasks.empty()) {
    rows.push_back({});
    const size_t above = rows.size() + 1;  // with the titles
    for (TopRow& row : TaskRows(std::move(tasks), screen, above)) rows.push_back(std::move(row));
  }
  for (TopRow& row : rows) row.text = Cut(row.text, screen.columns);
  return rows;
}

}  // namespace cohort

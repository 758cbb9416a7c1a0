#include "deploy/cluster_check/reach_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/cluster/protocol_version.h"

namespace cohort {
namespace {

// What the table shows for a pair.
std::string_view Cell(const v1::CheckedPeer& pair) {
  switch (pair.outcome()) {
    case v1::REACHED:
      if (!pair.same_host()) return "ok";
      return pair.unix_error().empty() ? "ok, unix" : "ok, TCP only";
    case v1::REFUSED:
      return "refused";
    case v1::TIMED_OUT:
      return "timed out";
    case v1::UNKNOWN_HOST:
      return "no name";
    case v1::NO_ROUTE:
      return "no route";
    case v1::OTHER_PROGRAM:
      return "other program";
    case v1::OTHER_TASK:
      return "other task";
    case v1::OTHER_VERSION:
      return "version";
    case v1::CONNECT_FAILED:
      return "failed";
    default:
      return "?";
  }
}

// What may be the reason, and what to do.
std::string_view Advice(v1::ReachOutcome outcome) {
  switch (outcome) {
    case v1::REFUSED:
      return "nothing listens on this port, or a firewall rejects the connection";
    case v1::TIMED_OUT:
      return "a firewall drops the packets, or the host is down: allow this TCP port";
    case v1::UNKNOWN_HOST:
      return "correct the name in TF_CONFIG, or the DNS of the first host";
    case v1::NO_ROUTE:
      return "correct the address in TF_CONFIG, the routes, or a firewall that rejects";
    case v1::OTHER_PROGRAM:
      return "end the program that listens there, or choose another port";
    case v1::OTHER_TASK:
      return "correct task.index, or the addresses, in TF_CONFIG";
    case v1::OTHER_VERSION:
      return "install the same version of Cohort";
    default:
      return "see the error";
  }
}

std::string Padded(std::string_view text, size_t width) {
  return fmt::format("{:<{}}", text, width);
}

void EndLine(std::string* text) {
  text->erase(text->find_last_not_of(' ') + 1);
  *text += "\n";
}

}  // namespace

Task TaskOf(const v1::TaskId& id) {
  return {RoleFromName(id.type()).value_or(Role::kChief), id.index()};
}

v1::TaskId TaskIdOf(Task task) {
  v1::TaskId id;
  id.set_type(std::string(RoleName(task.role)));
  id.set_index(task.index);
  return id;
}

ReachTable::ReachTable(const ClusterSpec& cluster, Task self, v1::CheckedTask own) : self_(self) {
  for (const Task task : cluster.AllTasks()) {
    if (task.role == Role::kEvaluator) continue;
    addresses_[task] = *cluster.Find(task);
    if (task != self) peers_.push_back(task);
  }
  *own.mutable_task() = TaskIdOf(self);
  own.set_revision(1);
  rows_[self] = std::move(own);
}

v1::CheckedTask& ReachTable::own() { return rows_.at(self_); }

const v1::CheckedTask* ReachTable::Find(Task task) const {
  const auto it = rows_.find(task);
  return it == rows_.end() ? nullptr : &it->second;
}

v1::CheckedPeer ReachTable::Pair(Task from, Task to) const {
  const v1::CheckedTask* const row = Find(from);
  if (row != nullptr) {
    for (const v1::CheckedPeer& peer : row->peers()) {
      if (TaskOf(peer.task()) == to) return peer;
    }
  }
  return {};
}

void ReachTable::Record(v1::CheckedPeer peer) {
  const Task task = TaskOf(peer.task());
  for (v1::CheckedPeer& known : *own().mutable_peers()) {
    if (TaskOf(known.task()) != task) continue;
    if (known.outcome() == v1::REACHED) {
      if (peer.outcome() == v1::REACHED) {
        ended_.erase(task);
      } else {
        ended_.insert(task);
      }
      return;
    }
    if (known.outcome() == peer.outcome() && known.detail() == peer.detail()) return;
    known = std::move(peer);
    own().set_revision(own().revision() + 1);
    return;
  }
  *own().add_peers() = std::move(peer);
  own().set_revision(own().revision() + 1);
}

void ReachTable::Merge(const v1::CheckReport& report) {
  for (const v1::CheckedTask& row : report.tasks()) {
    const Task task = TaskOf(row.task());
    if (task == self_) continue;
    v1::CheckedTask& known = rows_[task];
    if (row.revision() > known.revision()) known = row;
  }
}

v1::CheckReport ReachTable::Report() const {
  v1::CheckReport report;
  *report.mutable_sender() = TaskIdOf(self_);
  SetProtocolVersion(&report);
  for (const auto& [task, row] : rows_) *report.add_tasks() = row;
  return report;
}

std::vector<Task> ReachTable::Sources() const {
  std::set<Task> sources;
  for (const auto& [task, address] : addresses_) sources.insert(task);
  for (const auto& [task, row] : rows_) sources.insert(task);
  return {sources.begin(), sources.end()};
}

bool ReachTable::AllReached() {
  for (const Task from : Sources()) {
    for (const auto& [to, address] : addresses_) {
      if (from != to && Pair(from, to).outcome() != v1::REACHED) return false;
    }
  }
  if (!own().complete()) {
    own().set_complete(true);
    own().set_revision(own().revision() + 1);
  }
  return true;
}

bool ReachTable::AllComplete() const {
  return std::ranges::all_of(Sources(), [&](Task task) {
    const v1::CheckedTask* const row = Find(task);
    return (row != nullptr && row->complete()) || ended_.contains(task);
  });
}

bool ReachTable::AwaitsChief() const {
  const auto is = [](Role role) { return [role](Task task) { return task.role == role; }; };
  const std::vector<Task> sources = Sources();
  return std::ranges::any_of(sources, is(Role::kPs)) &&
         std::ranges::none_of(sources, is(Role::kChief));
}

std::string ReachTable::Name(Task task) const {
  const auto it = addresses_.find(task);
  if (it == addresses_.end()) return task.ToString();
  return fmt::format("{} ({})", task.ToString(), it->second.ToString());
}

std::string ReachTable::Waiting() const {
  std::string text;
  for (const auto& [to, address] : addresses_) {
    const bool reached = std::ranges::all_of(Sources(), [&, task = to](Task from) {
      return from == task || Find(from) == nullptr || Pair(from, task).outcome() == v1::REACHED;
    });
    if (reached && Find(to) != nullptr) continue;
    text += (text.empty() ? "" : ", ") + Name(to);
  }
  return text;
}

std::string ReachTable::Problem(Task from, Task to, const v1::CheckedPeer& pair) const {
  return fmt::format("{} -> {}: {}: {}\n", from.ToString(), Name(to), pair.detail(),
                     Advice(pair.outcome()));
}

std::string ReachTable::Text() const {
  const std::vector<Task> sources = Sources();
  size_t width = std::string_view("from \\ to").size();
  for (const Task from : sources) width = std::max(width, from.ToString().size());
  std::map<Task, size_t> widths;
  for (const auto& [to, address] : addresses_) {
    widths[to] = to.ToString().size();
    for (const Task from : sources) {
      widths[to] = std::max(widths[to], Cell(Pair(from, to)).size());
    }
  }
  std::string text = Padded("from \\ to", width);
  for (const auto& [to, address] : addresses_) text += "  " + Padded(to.ToString(), widths[to]);
  EndLine(&text);
  std::string problems;
  int pairs = 0, reached = 0;
  for (const Task from : sources) {
    text += Padded(from.ToString(), width);
    for (const auto& [to, address] : addresses_) {
      const v1::CheckedPeer pair = Pair(from, to);
      text += "  " + Padded(from == to ? "-" : Cell(pair), widths[to]);
      if (from == to) continue;
      ++pairs;
      if (pair.outcome() == v1::REACHED) {
        ++reached;
        if (!pair.same_host() || pair.unix_error().empty()) continue;
        problems += fmt::format("{} -> {}: same host, but without unix sockets: {}\n",
                                from.ToString(), Name(to), pair.unix_error());
      } else if (pair.outcome() != v1::NOT_TRIED &&
                 (Find(to) != nullptr || pair.outcome() != v1::REFUSED)) {
        problems += Problem(from, to, pair);
      }
    }
    EndLine(&text);
  }
  for (const Task from : sources) {
    if (Find(from) != nullptr) continue;
    problems += fmt::format(
        "{} has not reported: start `cohort cluster-check` there while it runs on the others\n",
        Name(from));
  }
  return fmt::format("{}\n{}{} of {} pairs work\n", text, problems, reached, pairs);
}

}  // namespace cohort

#include "common/exec/step_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>

namespace cohort {
namespace {

TimePoint Now() { return std::chrono::steady_clock::now(); }

// Names of layers are any text that a user writes.
std::string JsonText(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

StepProfile::StepProfile(const Program* program) : program_(program) {}

void StepProfile::Clear() {
  events_.clear();
  step_seconds_.clear();
}

void StepProfile::AddPhase(const char* phase, TimePoint begin, TimePoint end) {
  events_.push_back({-1, phase, begin, end});
}

void StepProfile::AddStep(TimePoint begin, TimePoint end) {
  events_.push_back({-1, nullptr, begin, end});
  step_seconds_.push_back(ToSeconds(end - begin));
}

void StepProfile::OnBegin(int /*node*/) { kernel_began_ = Now(); }

void StepProfile::OnEnd(int node) { events_.push_back({node, nullptr, kernel_began_, Now()}); }

std::vector<StepProfile::Row> StepProfile::Group(std::string Node::*name) const {
  std::map<std::string, Row> groups;
  for (const Event& event : events_) {
    if (event.node < 0) continue;
    const Node& node = program_->nodes[static_cast<size_t>(event.node)];
    const OpCost cost = CostOf(*program_, node);
    Row& row = groups[node.*name];
    row.name = node.*name;
    ++row.runs;
    row.seconds += ToSeconds(event.end - event.begin);
    row.flops += cost.flops;
    row.bytes += cost.bytes;
  }
  std::vector<Row> rows;
  for (auto& [key, row] : groups) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.seconds > b.seconds; });
  return rows;
}

std::vector<StepProfile::Row> StepProfile::ByLayer() const { return Group(&Node::name); }
std::vector<StepProfile::Row> StepProfile::ByOp() const { return Group(&Node::op); }

std::vector<StepProfile::Phase> StepProfile::Phases() const {
  std::vector<Phase> phases;
  for (const Event& event : events_) {
    if (event.phase == nullptr) continue;
    auto phase = std::find_if(phases.begin(), phases.end(),
                              [&](const Phase& p) { return p.name == event.phase; });
    if (phase == phases.end()) phase = phases.insert(phases.end(), {event.phase, 0});
    phase->seconds += ToSeconds(event.end - event.begin);
  }
  return phases;
}

double StepProfile::MedianStepSeconds() const {
  if (step_seconds_.empty()) return 0;
  std::vector<double> sorted = step_seconds_;
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

double StepProfile::BestStepSeconds() const {
  return step_seconds_.empty() ? 0 : *std::min_element(step_seconds_.begin(), step_seconds_.end());
}

OpCost StepProfile::CostOfStep() const {
  OpCost sum;
  for (const Node& node : program_->nodes) {
    if (node.inputs.empty() || node.op == "reshape") continue;  // leaves and views move nothing
    const OpCost cost = CostOf(*program_, node);
    sum.flops += cost.flops;
    sum.bytes += cost.bytes;
  }
  return sum;
}

std::string StepProfile::ChromeTrace() const {
  TimePoint first = TimePoint::max();
  for (const Event& event : events_) first = std::min(first, event.begin);
  std::string trace = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  const char* separator = "\n";
  for (const Event& event : events_) {
    // Rows of the picture: steps, their phases, kernels.
    int row = event.phase == nullptr ? 1 : 2;
    std::string name = event.phase == nullptr ? "step" : event.phase;
    std::string arguments;
    if (event.node >= 0) {
      const Node& node = program_->nodes[static_cast<size_t>(event.node)];
      const OpCost cost = CostOf(*program_, node);
      row = 3;
      name = node.name.empty() ? node.op : node.name + ": " + node.op;
      arguments = fmt::format(
          ", \"args\": {{\"node\": {}, \"op\": {}, \"flops\": {:.0f}, \"bytes\": {:.0f}}}",
          event.node, JsonText(node.op), cost.flops, cost.bytes);
    }
    fmt::format_to(std::back_inserter(trace),
                   "{}{{\"ph\": \"X\", \"pid\": 1, \"tid\": {}, \"ts\": {:.3f}, \"dur\": {:.3f}, "
                   "\"name\": {}{}}}",
                   separator, row, ToSeconds(event.begin - first) * 1e6,
                   ToSeconds(event.end - event.begin) * 1e6, JsonText(name), arguments);
    separator = ",\n";
  }
  return trace + "\n]}\n";
}

}  // namespace cohort

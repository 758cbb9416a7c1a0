#include "common/graph/segments.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "common/base/status.h"
#include "common/graph/op_registry.h"

namespace cohort {
namespace {

// Cuts one program. Its methods are called in the order of Run.
class Cutter {
 public:
  Cutter(Program program, DeviceResolver resolve)
      : p_(std::move(program)), made_by_(p_.values.size(), -1), seen_(p_.values.size(), false) {
    for (size_t n = 0; n < p_.nodes.size(); ++n) {
      Node& node = p_.nodes[n];
      for (const ValueId v : node.outputs) made_by_[Index(v)] = static_cast<int>(n);
      // Counts of `unique` are those of the host's table.
      node.device = IsLeaf(node) || node.op == "unique" ? "" : resolve(node.device);
    }
  }

  Program Run() {
    KeepKeysOnHost();
    FindSeen();
    const std::vector<std::vector<int>> runs = FindRuns();
    std::vector<int> run_of(p_.nodes.size());
    for (size_t r = 0; r < runs.size(); ++r) {
      for (const int n : runs[r]) run_of[Index(n)] = static_cast<int>(r);
    }
    FindUsedOutside(run_of);
    std::vector<Node> nodes;
    for (const std::vector<int>& run : runs) {
      if (node(run[0]).device.empty()) {
        for (const int n : run) nodes.push_back(node(n));
      } else if (Node segment = Segment(run); !segment.outputs.empty()) {
        nodes.push_back(std::move(segment));
      }
    }
    p_.nodes = std::move(nodes);
    return std::move(p_);
  }

 private:
  static size_t Index(int i) { return static_cast<size_t>(i); }
  const Node& node(int n) const { return p_.nodes[Index(n)]; }

  void KeepKeysOnHost() {
    std::vector<int> stack;
    for (size_t n = 0; n < p_.nodes.size(); ++n) {
      if (p_.nodes[n].op == "read_rows") stack.push_back(static_cast<int>(n));
    }
    std::vector<bool> visited(p_.nodes.size(), false);
    while (!stack.empty()) {
      const int n = stack.back();
      stack.pop_back();
      if (visited[Index(n)]) continue;
      visited[Index(n)] = true;
      p_.nodes[Index(n)].device.clear();
      for (const ValueId v : node(n).inputs) stack.push_back(made_by_[Index(v)]);
    }
  }

  void FindSeen() {
    const auto see = [this](ValueId v) {
      if (v != kNoValue) seen_[Index(v)] = true;
    };
    for (const Push& push : p_.pushes) see(push.value), see(push.keys);
    for (const MetricPartial& metric : p_.metrics) {
      for (const MetricAccumulator& a : metric.accumulators) see(a.value);
    }
    for (const Output& output : p_.outputs) see(output.value);
    see(p_.weight);
  }

  // The nodes in the order in which they run, divided where the device changes: each run has all
  // nodes of its device that are ready, beginning with those of the host.
  std::vector<std::vector<int>> FindRuns() const {
    std::vector<std::vector<int>> runs;
    std::vector<bool> done(p_.nodes.size(), false);
    const auto ready = [&](const Node& n) {
      return std::ranges::all_of(n.inputs,
                                 [&](ValueId v) { return done[Index(made_by_[Index(v)])]; });
    };
    std::string device;
    size_t left = p_.nodes.size();
    while (left > 0) {
      std::vector<int> run;
      for (size_t n = 0; n < p_.nodes.size(); ++n) {
        if (done[n] || p_.nodes[n].device != device || !ready(p_.nodes[n])) continue;
        done[n] = true;
        run.push_back(static_cast<int>(n));
      }
      left -= run.size();
      if (!run.empty()) runs.push_back(std::move(run));
      for (size_t n = 0; n < p_.nodes.size(); ++n) {
        if (done[n] || !ready(p_.nodes[n])) continue;
        device = p_.nodes[n].device;
        break;
      }
    }
    return runs;
  }

  void FindUsedOutside(const std::vector<int>& run_of) {
    for (size_t n = 0; n < p_.nodes.size(); ++n) {
      for (const ValueId v : p_.nodes[n].inputs) {
        if (run_of[Index(made_by_[Index(v)])] != run_of[n]) seen_[Index(v)] = true;
      }
    }
  }

  Node Segment(const std::vector<int>& run) const {
    Node segment;
    segment.op = "segment";
    segment.device = node(run[0]).device;
    const std::set<int> inside(run.begin(), run.end());
    std::set<ValueId> known;
    std::set<std::string> names;
    for (const int n : run) {
      for (const ValueId v : node(n).inputs) {
        const int maker = made_by_[Index(v)];
        if (inside.contains(maker) || !known.insert(v).second) continue;
        if (node(maker).op == "constant") {
          segment.body.push_back(node(maker));
        } else {
          segment.inputs.push_back(v);
        }
      }
      if (!node(n).name.empty() && names.insert(node(n).name).second) {
        segment.name += (segment.name.empty() ? "" : ",") + node(n).name;
      }
    }
    for (const int n : run) {
      segment.body.push_back(node(n));
      for (const ValueId v : node(n).outputs) {
        if (seen_[Index(v)]) segment.outputs.push_back(v);
      }
    }
    return segment;
  }

  Program p_;
  std::vector<int> made_by_;  // node, by value
  std::vector<bool> seen_;    // by value: used outside of the program, or of the run that makes it
};

}  // namespace

bool NamesDevices(const Program& program) {
  return std::ranges::any_of(program.nodes, [](const Node& node) { return !node.device.empty(); });
}

Program CutAtDevices(Program program, DeviceResolver resolve) {
  return Cutter(std::move(program), resolve).Run();
}

Program ProgramOfSegment(const Program& program, const Node& segment) {
  Program part;
  part.name = program.name;
  part.symbols = program.symbols;
  std::map<ValueId, ValueId> renamed;
  const auto add = [&](ValueId v) {
    const auto id = static_cast<ValueId>(part.values.size());
    part.values.push_back(program.type(v));
    return renamed[v] = id;
  };
  for (size_t i = 0; i < segment.inputs.size(); ++i) {
    Node input;
    input.op = "input";
    input.name = fmt::format("input {}", i);
    input.attrs = {{"index", static_cast<int64_t>(i)}};
    input.outputs = {add(segment.inputs[i])};
    part.arguments.push_back({input.name, input.outputs[0]});
    part.nodes.push_back(std::move(input));
  }
  for (Node node : segment.body) {
    node.device.clear();
    for (ValueId& v : node.inputs) v = renamed.at(v);
    for (ValueId& v : node.outputs) v = add(v);
    part.nodes.push_back(std::move(node));
  }
  for (size_t i = 0; i < segment.outputs.size(); ++i) {
    part.outputs.push_back({fmt::format("output {}", i), renamed.at(segment.outputs[i])});
  }
  return part;
}

}  // namespace cohort

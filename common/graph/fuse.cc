#include "common/graph/fuse.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "common/graph/visible_values.h"

namespace cohort {
namespace {

// Returns true if each element of the output depends on the elements at its place alone.
bool IsElementwise(std::string_view op) {
  static const std::set<std::string_view> kOps = [] {
    std::set<std::string_view> ops;
#define OP(name, schema, cpu, grid, form, doc) \
  if (#form == std::string_view("Elementwise")) ops.insert(#name);
#include "common/graph/ops.def"
    return ops;
  }();
  return kOps.contains(op);
}

size_t Index(int i) { return static_cast<size_t>(i); }

class Fuser {
 public:
  explicit Fuser(Program program) : p_(std::move(program)) {
    made_by_.assign(p_.values.size(), -1);
    uses_.assign(p_.values.size(), 0);
    group_of_.resize(p_.nodes.size());
  }

  Program Run() && {
    CountUses();
    for (size_t n = 0; n < p_.nodes.size(); ++n) {
      groups_.push_back({static_cast<int>(n)});
      group_of_[n] = static_cast<int>(n);
      for (const ValueId v : p_.nodes[n].outputs) made_by_[Index(v)] = static_cast<int>(n);
      if (IsFusible(p_.nodes[n])) Merge(static_cast<int>(n));
    }
    std::vector<Node> nodes;
    for (std::vector<int>& group : groups_) {
      if (group.size() == 1) {
        nodes.push_back(std::move(p_.nodes[Index(group[0])]));
      } else if (!group.empty()) {
        nodes.push_back(Fused(group));
      }
    }
    p_.nodes = std::move(nodes);
    return std::move(p_);
  }

 private:
  void CountUses() {
    for (const Node& node : p_.nodes) {
      for (const ValueId v : node.inputs) ++uses_[Index(v)];
    }
    ForEachVisible(p_, [this](ValueId v) { ++uses_[Index(v)]; });
  }

  bool IsFusible(const Node& node) const {
    if (!IsElementwise(node.op)) return false;
    return std::ranges::all_of(node.inputs, [&](ValueId v) {
      return OperandOf(p_.type(v), p_.type(node.outputs[0])) != Operand::kOther;
    });
  }

  // Takes the groups of those inputs of node n into its group that nothing but n uses. They run
  // later than before, at the place of n; nothing between needs them.
  void Merge(int n) {
    const Node& node = p_.nodes[Index(n)];
    for (const ValueId v : node.inputs) {
      const int maker = made_by_[Index(v)];
      const int group = maker < 0 ? n : group_of_[Index(maker)];
      if (group == n || !IsFusible(p_.nodes[Index(maker)]) ||
          OperandOf(p_.type(v), p_.type(node.outputs[0])) != Operand::kFull ||
          std::ranges::count(node.inputs, v) != uses_[Index(v)] ||
          groups_[Index(n)].size() + groups_[Index(group)].size() > kMaxFused) {
        continue;
      }
      for (const int member : groups_[Index(group)]) {
        group_of_[Index(member)] = n;
        groups_[Index(n)].push_back(member);
      }
      groups_[Index(group)].clear();
      std::ranges::sort(groups_[Index(n)]);
    }
  }

  Node Fused(const std::vector<int>& group) {
    Node fused;
    fused.op = "fused";
    for (const int member : group) {
      const Node& node = p_.nodes[Index(member)];
      for (const ValueId v : node.inputs) {
        const int maker = made_by_[Index(v)];
        const bool inside = maker >= 0 && group_of_[Index(maker)] == group.back();
        if (!inside && std::ranges::find(fused.inputs, v) == fused.inputs.end()) {
          fused.inputs.push_back(v);
        }
      }
    }
    for (const int member : group) fused.body.push_back(std::move(p_.nodes[Index(member)]));
    fused.name = fused.body.back().name;
    fused.outputs = fused.body.back().outputs;
    return fused;
  }

  Program p_;
  std::vector<int> made_by_;              // node, by value
  std::vector<int64_t> uses_;             // by value
  std::vector<std::vector<int>> groups_;  // nodes in order, by the last of them; empty: taken over
  std::vector<int> group_of_;             // by node
};

}  // namespace

Operand OperandOf(const ValueType& input, const ValueType& output) {
  if (input.dims == output.dims) return Operand::kFull;
  if (input.dims.size() > output.dims.size()) return Operand::kOther;
  const bool one_row =
      std::ranges::all_of(input.dims.begin(), input.dims.end() - (input.dims.empty() ? 0 : 1),
                          [](const Dim& dim) { return dim.size == 1 && !dim.bounded(); });
  if (!one_row) return Operand::kOther;
  if (input.dims.empty() || (input.dims.back().size == 1 && !input.dims.back().bounded())) {
    return Operand::kScalar;
  }
  return input.dims.back() == output.dims.back() ? Operand::kRow : Operand::kOther;
}

Program FuseElementwise(Program program) { return Fuser(std::move(program)).Run(); }

}  // namespace cohort

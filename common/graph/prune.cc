// Dead-node pruning of ProgramBuilder: the backward pass of autodiff makes more than is used.
#include <algorithm>

#include "common/graph/op_registry.h"
#include "common/graph/program_builder.h"

namespace cohort {
namespace {

std::vector<bool> LiveValues(const Program& program) {
  std::vector<bool> live(program.values.size(), false);
  const auto mark = [&live](ValueId id) {
    if (id != kNoValue) live[static_cast<size_t>(id)] = true;
  };
  for (const ProgramArgument& argument : program.arguments) mark(argument.value);
  for (const Push& push : program.pushes) mark(push.value), mark(push.keys);
  for (const MetricPartial& metric : program.metrics) {
    for (const MetricAccumulator& a : metric.accumulators) mark(a.value);
  }
  for (const Output& output : program.outputs) mark(output.value);
  mark(program.weight);
  for (auto node = program.nodes.rbegin(); node != program.nodes.rend(); ++node) {
    const bool used = std::any_of(node->outputs.begin(), node->outputs.end(),
                                  [&live](ValueId id) { return live[static_cast<size_t>(id)]; });
    if (!used) continue;
    for (ValueId id : node->outputs) mark(id);
    for (ValueId id : node->inputs) mark(id);
  }
  return live;
}

// New numbers of what is kept, in the old order; -1 of what is not.
std::vector<int> Renumber(const std::vector<bool>& keep) {
  std::vector<int> numbers(keep.size(), -1);
  int next = 0;
  for (size_t i = 0; i < keep.size(); ++i) {
    if (keep[i]) numbers[i] = next++;
  }
  return numbers;
}

int64_t& MutableInt(Node* node, std::string_view name) {
  return std::get<int64_t>(node->attrs.find(name)->second);
}

class Pruner {
 public:
  explicit Pruner(const Program& program) : from_(program), live_(LiveValues(program)) {}

  Program Run() {
    values_ = Renumber(live_);
    CollectUses();
    variables_ = Renumber(used_variables_);
    symbols_ = Renumber(used_symbols_);
    to_.name = from_.name;
    CopyTables();
    for (const Node& node : from_.nodes) {
      if (live_[static_cast<size_t>(node.outputs[0])]) CopyNode(node);
    }
    CopyEnds();
    return std::move(to_);
  }

 private:
  void CollectUses() {
    used_variables_.assign(from_.variables.size(), false);
    used_symbols_.assign(from_.symbols.size(), false);
    // Symbol 1 is "batch" by convention, used or not.
    if (!used_symbols_.empty()) used_symbols_[0] = true;
    for (size_t i = 0; i < live_.size(); ++i) {
      if (!live_[i]) continue;
      for (const Dim& dim : from_.values[i].dims) {
        if (dim.bounded()) used_symbols_[static_cast<size_t>(dim.symbol - 1)] = true;
      }
    }
    for (const Push& push : from_.pushes)
      used_variables_[static_cast<size_t>(push.variable)] = true;
    for (const Node& node : from_.nodes) {
      if (!live_[static_cast<size_t>(node.outputs[0])]) continue;
      if (node.op == "read" || node.op == "read_rows") {
        used_variables_[static_cast<size_t>(IntAttr(node, "variable"))] = true;
      }
    }
  }

  void CopyTables() {
    for (size_t i = 0; i < live_.size(); ++i) {
      if (!live_[i]) continue;
      ValueType type = from_.values[i];
      for (Dim& dim : type.dims) {
        if (dim.bounded()) dim.symbol = symbols_[static_cast<size_t>(dim.symbol - 1)] + 1;
      }
      to_.values.push_back(std::move(type));
    }
    for (size_t i = 0; i < from_.symbols.size(); ++i) {
      if (used_symbols_[i]) to_.symbols.push_back(from_.symbols[i]);
    }
    for (size_t i = 0; i < from_.variables.size(); ++i) {
      if (used_variables_[i]) to_.variables.push_back(from_.variables[i]);
    }
  }

  void CopyNode(Node node) {
    for (ValueId& id : node.inputs) id = Value(id);
    for (ValueId& id : node.outputs) id = Value(id);
    if (node.op == "read" || node.op == "read_rows") {
      int64_t& variable = MutableInt(&node, "variable");
      variable = variables_[static_cast<size_t>(variable)];
    } else if (node.op == "unique") {
      int64_t& symbol = MutableInt(&node, "symbol");
      symbol = symbols_[static_cast<size_t>(symbol - 1)] + 1;
    }
    to_.nodes.push_back(std::move(node));
  }

  void CopyEnds() {
    for (ProgramArgument argument : from_.arguments) {
      argument.value = Value(argument.value);
      to_.arguments.push_back(std::move(argument));
    }
    for (Push push : from_.pushes) {
      push.variable = variables_[static_cast<size_t>(push.variable)];
      push.value = Value(push.value);
      push.keys = Value(push.keys);
      to_.pushes.push_back(push);
    }
    for (MetricPartial metric : from_.metrics) {
      for (MetricAccumulator& a : metric.accumulators) a.value = Value(a.value);
      to_.metrics.push_back(std::move(metric));
    }
    for (Output output : from_.outputs) {
      output.value = Value(output.value);
      to_.outputs.push_back(std::move(output));
    }
    to_.weight = Value(from_.weight);
    to_.loss_scaling = from_.loss_scaling;
  }

  ValueId Value(ValueId id) const {
    return id == kNoValue ? kNoValue : values_[static_cast<size_t>(id)];
  }

  const Program& from_;
  Program to_;
  std::vector<bool> live_;
  std::vector<bool> used_variables_;
  std::vector<bool> used_symbols_;
  std::vector<int> values_;
  std::vector<int> variables_;
  std::vector<int> symbols_;
};

}  // namespace

Program PruneDeadNodes(const Program& program) { return Pruner(program).Run(); }

}  // namespace cohort

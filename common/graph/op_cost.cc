#include "common/graph/op_cost.h"

#include "common/graph/op_registry.h"

namespace cohort {
namespace {

double BytesOf(const ValueType& type) {
  return static_cast<double>(CapacityElements(type)) * static_cast<double>(SizeOf(type.dtype));
}

}  // namespace

OpCost CostOf(const Program& program, const Node& node) {
  OpCost cost;
  for (const Node& part : node.body) cost.flops += CostOf(program, part).flops;
  const OpSchema* const op = FindOp(node.op);
  if (op != nullptr && op->flops != nullptr) {
    cost.flops = op->flops(program, node);
  } else if (op != nullptr && op->min_inputs > 0 && !node.outputs.empty()) {
    cost.flops = static_cast<double>(CapacityElements(program.type(node.outputs[0])));
  }
  // A gather reads only the rows that it copies.
  const size_t first_input = node.op == "gather" ? 1 : 0;
  for (size_t i = first_input; i < node.inputs.size(); ++i) {
    cost.bytes += BytesOf(program.type(node.inputs[i]));
  }
  for (const ValueId output : node.outputs) cost.bytes += BytesOf(program.type(output));
  if (first_input == 1) cost.bytes += BytesOf(program.type(node.outputs[0]));
  return cost;
}

}  // namespace cohort

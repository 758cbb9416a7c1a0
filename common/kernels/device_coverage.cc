#include "common/kernels/device_coverage.h"

#include <fmt/ranges.h>

#include <map>
#include <utility>

#include "common/kernels/device_kernel.h"

namespace cohort {
namespace {

// The ops that devices leave to the executor, or to the host.
bool NeedsKernel(const Node& node) {
  static const std::set<std::string_view> kWithout = [] {
    std::set<std::string_view> without;
#define OP(name, schema, cpu, grid, form, doc) \
  if (#grid == std::string_view("None")) without.insert(#name);
#include "common/graph/ops.def"
    return without;
  }();
  return !kWithout.contains(node.op);
}

// By node: it makes ids that a `unique` takes, and so runs before the step.
std::vector<bool> BeforeKeys(const Program& program) {
  std::vector<bool> needed(program.values.size(), false), before(program.nodes.size(), false);
  for (size_t n = program.nodes.size(); n-- > 0;) {
    const Node& node = program.nodes[n];
    bool early = node.op == "unique";
    for (const ValueId v : node.outputs) early = early || needed[static_cast<size_t>(v)];
    before[n] = early;
    if (!early) continue;
    for (const ValueId v : node.inputs) needed[static_cast<size_t>(v)] = true;
  }
  return before;
}

}  // namespace

std::vector<OpOnCpu> OpsOnCpu(std::span<const Program> programs) {
  std::map<std::pair<std::string, std::string>, std::set<std::string>> found;
  for (const Program& program : programs) {
    const std::vector<bool> before = BeforeKeys(program);
    for (size_t n = 0; n < program.nodes.size(); ++n) {
      const Node& node = program.nodes[n];
      if (before[n] || !NeedsKernel(node)) continue;
      if (simulated::CreateGridKernel(node, program).ok()) continue;
      const ValueId of = node.inputs.empty() ? node.outputs[0] : node.inputs[0];
      found[{node.op, std::string(DTypeName(program.type(of).dtype))}].insert(
          node.name.empty() ? "(none)" : node.name);
    }
  }
  std::vector<OpOnCpu> ops;
  for (auto& [key, layers] : found) ops.push_back({key.first, key.second, std::move(layers)});
  return ops;
}

std::string DeviceCoverageText(std::span<const Program> programs) {
  const std::vector<OpOnCpu> ops = OpsOnCpu(programs);
  if (ops.empty()) return "on a GPU: all operations have kernels";
  std::vector<std::string> texts;
  for (const OpOnCpu& op : ops) {
    texts.push_back(
        fmt::format("{} of {} (layers: {})", op.op, op.dtype, fmt::join(op.layers, ", ")));
  }
  return fmt::format("on a GPU: these operations would run on the CPU, between copies: {}",
                     fmt::join(texts, "; "));
}

}  // namespace cohort

#include "common/graph/fuse_pooling.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "common/graph/fuse.h"
#include "common/graph/mixed_precision.h"
#include "common/graph/op_registry.h"
#include "common/graph/ops/pooling.h"
#include "common/graph/visible_values.h"

namespace cohort {
namespace {

constexpr int kNoNode = -1;

// The nodes of a convolution with its bias, relu and max_pool, and of its gradients.
struct Pattern {
  int conv = kNoNode, add = kNoNode, relu = kNoNode, pool = kNoNode;
  int pool_grad = kNoNode, relu_grad = kNoNode, kernel_grad = kNoNode,
      bias_grad = kNoNode;  // or none

  bool has_gradient() const { return pool_grad != kNoNode; }
  std::vector<int> forward() const { return {conv, add, relu, pool}; }
  std::vector<int> gradient() const { return {pool_grad, relu_grad, kernel_grad, bias_grad}; }
};

class PoolingFuser {
 public:
  PoolingFuser(Program program, absl::FunctionRef<bool(const ops::ConvShape&)> suits)
      : p_(std::move(program)), suits_(suits) {
    users_.resize(p_.values.size());
    made_by_.assign(p_.values.size(), kNoNode);
    for (size_t n = 0; n < p_.nodes.size(); ++n) {
      for (const ValueId v : p_.nodes[n].inputs) users_[Index(v)].push_back(static_cast<int>(n));
      for (const ValueId v : p_.nodes[n].outputs) made_by_[Index(v)] = static_cast<int>(n);
    }
    // What is visible outside has a user that is no node.
    ForEachVisible(p_, [this](ValueId v) { users_[Index(v)].push_back(kNoNode); });
  }

  Program Run() && {
    std::vector<Pattern> found;
    for (size_t n = 0; n < p_.nodes.size(); ++n) {
      if (const auto pattern = Match(static_cast<int>(n))) found.push_back(*pattern);
    }
    for (const Pattern& pattern : found) Replace(pattern);
    std::erase_if(p_.nodes, [](const Node& node) { return node.op.empty(); });
    return std::move(p_);
  }

 private:
  static size_t Index(int i) { return static_cast<size_t>(i); }
  const Node& node(int n) const { return p_.nodes[Index(n)]; }
  ValueId out(int n) const { return node(n).outputs[0]; }

  // The node of this op that makes input `i` of node n, if it makes it for nothing else; else
  // kNoNode.
  int Maker(int n, size_t i, std::string_view op) const {
    const ValueId v = node(n).inputs[i];
    const int maker = made_by_[Index(v)];
    const bool fits = maker != kNoNode && node(maker).op == op && users_[Index(v)].size() == 1;
    return fits ? maker : kNoNode;
  }

  // The only user of this op of a value, with the value as input `i`; else kNoNode.
  int User(ValueId v, std::string_view op, size_t i) const {
    int found = kNoNode;
    for (const int user : users_[Index(v)]) {
      if (user == kNoNode || node(user).op != op) continue;
      if (found != kNoNode || node(user).inputs.size() <= i || node(user).inputs[i] != v)
        return kNoNode;
      found = user;
    }
    return found;
  }

  std::optional<Pattern> Match(int n) const {
    Pattern m;
    m.pool = n;
    if (node(n).op != "max_pool" || node(n).inputs.size() != 1) return std::nullopt;
    const ValueId activations = node(n).inputs[0];
    m.relu = made_by_[Index(activations)];
    if (m.relu == kNoNode || node(m.relu).op != "relu") return std::nullopt;
    m.add = Maker(m.relu, 0, "add");
    if (m.add == kNoNode) return std::nullopt;
    m.conv = Maker(m.add, 0, "conv2d");
    if (m.conv == kNoNode || !Suits(m)) return std::nullopt;
    if (users_[Index(activations)].size() == 1) return m;
    if (!MatchGradient(activations, &m)) return std::nullopt;
    return m;
  }

  bool Suits(const Pattern& m) const {
    const Node& conv = node(m.conv);
    const ValueType& type = p_.type(out(m.conv));
    if (type.dtype != DType::kFloat32 || PrecisionOf(conv) != Precision::kFloat32 ||
        OperandOf(p_.type(node(m.add).inputs[1]), type) != Operand::kRow) {
      return false;
    }
    const auto shape = ops::MakeConvShape(conv, p_.type(conv.inputs[0]), p_.type(conv.inputs[1]));
    if (!shape.ok() || !suits_(*shape)) return false;
    int64_t pixels = 1;
    for (size_t i = 0; i < 2; ++i) {
      const auto axis = ops::MakePoolAxis(node(m.pool), i, shape->axes[i].out);
      if (!axis.ok() || axis->before != 0 || axis->stride < axis->window ||
          (axis->out - 1) * axis->stride + axis->window > axis->in ||
          axis->window > kMaxFusedPoolPixels) {
        return false;
      }
      pixels *= axis->window;
    }
    return pixels <= kMaxFusedPoolPixels;
  }

  bool MatchGradient(ValueId activations, Pattern* m) const {
    m->pool_grad = User(activations, "max_pool_grad", 1);
    m->relu_grad = User(activations, "relu_grad", 1);
    if (users_[Index(activations)].size() != 3 || m->pool_grad == kNoNode ||
        m->relu_grad == kNoNode || !SameWindows(node(m->pool), node(m->pool_grad)) ||
        Maker(m->relu_grad, 0, "max_pool_grad") != m->pool_grad) {
      return false;
    }
    const ValueId gradient = out(m->relu_grad);
    m->kernel_grad = User(gradient, "conv2d_kernel_grad", 1);
    m->bias_grad = User(gradient, "reduce_sum", 0);
    return users_[Index(gradient)].size() == 2 && m->kernel_grad != kNoNode &&
           m->bias_grad != kNoNode && node(m->kernel_grad).inputs[0] == node(m->conv).inputs[0] &&
           PrecisionOf(node(m->kernel_grad)) == Precision::kFloat32 &&
           std::ranges::equal(IntsAttr(node(m->bias_grad), "axes"), std::vector<int64_t>{0, 1, 2});
  }

  static bool SameWindows(const Node& a, const Node& b) {
    return std::ranges::equal(IntsAttr(a, "window"), IntsAttr(b, "window")) &&
           std::ranges::equal(IntsAttr(a, "strides"), IntsAttr(b, "strides")) &&
           StringAttr(a, "padding") == StringAttr(b, "padding");
  }

  // The new nodes take the places of max_pool and max_pool_grad: all inputs are there, and what
  // they compute is not used before.
  void Replace(const Pattern& m) {
    Node fused;
    fused.op = kConvReluPool;
    fused.inputs = {node(m.conv).inputs[0], node(m.conv).inputs[1], node(m.add).inputs[1]};
    fused.outputs = {out(m.pool)};
    if (m.has_gradient()) {
      const auto places = static_cast<ValueId>(p_.values.size());
      p_.values.push_back({DType::kUint8, p_.type(out(m.pool)).dims});
      fused.outputs.push_back(places);
      Node gradient;
      gradient.op = kConvReluPoolGrad;
      gradient.inputs = {node(m.pool_grad).inputs[0], places, node(m.conv).inputs[0]};
      gradient.outputs = {out(m.kernel_grad), out(m.bias_grad)};
      Put(std::move(gradient), m.gradient(), m.pool_grad, m.kernel_grad);
    }
    Put(std::move(fused), m.forward(), m.pool, m.conv);
  }

  // Moves the nodes into the body of `fused`, which takes the place of one of them and the name of
  // another.
  void Put(Node fused, const std::vector<int>& body, int place, int named) {
    fused.name = node(named).name;
    fused.device = node(named).device;
    for (const int member : body) {
      fused.body.push_back(std::exchange(p_.nodes[Index(member)], Node()));
    }
    p_.nodes[Index(place)] = std::move(fused);
  }

  Program p_;
  const absl::FunctionRef<bool(const ops::ConvShape&)> suits_;
  std::vector<std::vector<int>> users_;  // nodes, by value; kNoNode: outside
  std::vector<int> made_by_;             // node, by value
};

}  // namespace

Program FusePooledConvolutions(Program program,
                               absl::FunctionRef<bool(const ops::ConvShape&)> suits) {
  return PoolingFuser(std::move(program), suits).Run();
}

}  // namespace cohort

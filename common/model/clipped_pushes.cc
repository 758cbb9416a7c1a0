#include "common/model/clipped_pushes.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "common/graph/expr.h"
#include "common/graph/program_builder.h"
#include "common/optimizers/gradient_clipping.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

using Clip = GradientClipping::Kind;

// The nodes of clipped gradients carry this name, which no layer can have.
constexpr std::string_view kClipScope = "(clipped gradients)";
constexpr std::string_view kRoundScope = "(rounded gradients)";

// The gradients that have one norm: of a variable, or of all variables of an optimizer. For
// clipvalue, those of an optimizer.
struct Group {
  GradientClipping clipping;
  std::vector<size_t> pushes;
};

bool IsClipped(const Program& program, const Push& push) {
  const auto made_by = [&](int value, auto matches) {
    return std::ranges::find_if(
        program.nodes, [&](const Node& node) { return node.outputs[0] == value && matches(node); });
  };
  int value = push.value;
  const auto rounded = made_by(value, [](const Node& node) { return node.name == kRoundScope; });
  if (rounded != program.nodes.end()) value = rounded->inputs[0];
  return made_by(value, [](const Node& node) { return node.name == kClipScope; }) !=
         program.nodes.end();
}

absl::StatusOr<std::vector<Group>> GroupsOf(const Program& program, const v1::Layout& layout) {
  std::vector<GradientClipping> clippings;
  for (const v1::OptimizerSpec& optimizer : layout.optimizers()) {
    COHORT_ASSIGN_OR_RETURN(clippings.emplace_back(), GradientClipping::Of(optimizer));
  }
  std::map<std::string_view, uint32_t> optimizers;  // by variable
  for (const v1::VariableSpec& variable : layout.variables()) {
    if (variable.trainable()) optimizers.emplace(variable.name(), variable.optimizer());
  }
  std::map<std::pair<uint32_t, int>, Group> groups;  // by optimizer and, for clipnorm, variable
  for (size_t i = 0; i < program.pushes.size(); ++i) {
    const Push& push = program.pushes[i];
    const auto optimizer =
        optimizers.find(program.variables[static_cast<size_t>(push.variable)].name);
    if (push.kind != PushKind::kGradient || optimizer == optimizers.end()) continue;
    if (optimizer->second >= clippings.size() || IsClipped(program, push)) continue;
    const GradientClipping& clipping = clippings[optimizer->second];
    if (clipping.kind == Clip::kNone) continue;
    const int variable = clipping.kind == Clip::kNorm ? push.variable : -1;
    Group& group = groups[{optimizer->second, variable}];
    group.clipping = clipping;
    group.pushes.push_back(i);
  }
  std::vector<Group> found;
  for (auto& [key, group] : groups) found.push_back(std::move(group));
  return found;
}

// Norms are computed in float64, from gradients of the *summed* loss.
class PushClipper {
 public:
  explicit PushClipper(const Program& program) : builder_(program) {
    builder_.SetScope(std::string(kClipScope));
    // A gradient of weight 0 counts as zeros.
    weight_ = Maximum(Cast(Expr(&builder_, program.weight), DType::kFloat64),
                      builder_.Scalar(1e-30, DType::kFloat64));
  }

  void Clip(const Group& group) {
    if (group.clipping.by_norm()) {
      ClipByNorm(group);
    } else {
      ClipByValue(group);
    }
  }
  absl::StatusOr<Program> Build() && { return std::move(builder_).Build(); }

 private:
  Expr Gradient(size_t push) { return {&builder_, builder_.program().pushes[push].value}; }

  void ClipByValue(const Group& group) {
    for (const size_t push : group.pushes) {
      const Expr gradient = Gradient(push);
      const Expr most = Cast(weight_ * group.clipping.limit, gradient.dtype());
      // The difference is 0, or NaN for a gradient that is not finite: it must not become a limit.
      builder_.SetPushValue(push, Maximum(Minimum(gradient, most), -most) + (gradient - gradient));
    }
  }

  // GradientClipping::ScaleOf as expressions.
  void ClipByNorm(const Group& group) {
    Expr squares;
    for (const size_t push : group.pushes) {
      const Expr square = SumSquares(Gradient(push));
      squares = squares.valid() ? squares + square : square;
    }
    const Expr norm = Sqrt(squares) / weight_;
    const double limit = group.clipping.limit;
    Expr scale = limit / Maximum(norm, builder_.Scalar(limit, DType::kFloat64));
    if (group.clipping.kind == Clip::kGlobalNorm) scale = scale + (norm - norm);
    for (const size_t push : group.pushes) {
      const Expr gradient = Gradient(push);
      builder_.SetPushValue(push, gradient * Cast(scale, gradient.dtype()));
    }
  }

  ProgramBuilder builder_;
  Expr weight_;
};

}  // namespace

absl::StatusOr<Program> ClipPushes(const Program& program, const v1::Layout& layout) {
  COHORT_ASSIGN_OR_RETURN(const std::vector<Group> groups, GroupsOf(program, layout));
  // Without a loss all gradients count as zeros.
  if (groups.empty() || program.weight == kNoValue) return program;
  PushClipper clipper(program);
  for (const Group& group : groups) clipper.Clip(group);
  return std::move(clipper).Build();
}

absl::StatusOr<Program> RoundPushes(const Program& program) {
  ProgramBuilder builder(program);
  builder.SetScope(std::string(kRoundScope));
  for (size_t i = 0; i < program.pushes.size(); ++i) {
    const Push& push = program.pushes[i];
    if (push.kind != PushKind::kGradient || push.value == kNoValue) continue;
    builder.SetPushValue(i, RoundToBfloat16(Expr(&builder, push.value)));
  }
  return std::move(builder).Build();
}

absl::StatusOr<bool> PushesAreClipped(const Program& program, const v1::Layout& layout) {
  COHORT_ASSIGN_OR_RETURN(const std::vector<Group> groups, GroupsOf(program, layout));
  return groups.empty() || program.weight == kNoValue;
}

}  // namespace cohort

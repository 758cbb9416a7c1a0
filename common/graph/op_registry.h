#ifndef COHORT_COMMON_GRAPH_OP_REGISTRY_H_
#define COHORT_COMMON_GRAPH_OP_REGISTRY_H_

#include <absl/status/status.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/graph/program.h"

namespace cohort {

class GradientContext;  // common/graph/autodiff.h

// The inputs of the type inference of one node.
struct InferContext {
  const Program& program;                    // symbols, arguments and variables
  const Node& node;                          // attributes already checked against the schema
  std::span<const ValueType* const> inputs;  // as many as the schema allows

  const ValueType& input(size_t i) const { return *inputs[i]; }
};

// Computes the types of the node's outputs. Errors: InvalidArgument saying which input or attribute
// is wrong; the caller adds the node's name. Sizes of the inputs are within limits, so that the
// product of the dims of one value does not overflow.
using Types = std::vector<ValueType>;
using InferFn = absl::StatusOr<Types> (*)(const InferContext& context);

// Adds the backward pass of one node to its program: ordinary ops, by way of the context's builder.
using GradientFn = void (*)(GradientContext* context);

// The alternatives of Attr, in its order.
enum class AttrKind : uint8_t {
  kInt = 0,
  kFloat = 1,
  kBool = 2,
  kString = 3,
  kInts = 4,
  kTensor = 5
};

// Counts the floating-point operations of one run of a node at full capacity.
using FlopsFn = double (*)(const Program& program, const Node& node);

struct AttrSchema {
  std::string_view name;
  AttrKind kind;
  bool required = true;
};

// Everything about an op except its kernels (common/kernels).
struct OpSchema {
  std::string_view name;
  int min_inputs = 0;
  int max_inputs = 0;  // kVariadic: no limit
  int num_outputs = 1;
  std::vector<AttrSchema> attrs;
  InferFn infer = nullptr;
  // Null: no gradient flows back through this op, because its outputs are integers, booleans or
  // counts, or because it is a leaf (input, read, read_rows, constant).
  GradientFn gradient = nullptr;
  // Null: one operation per element of output 0.
  FlopsFn flops = nullptr;
  std::string_view doc = {};  // "inputs → outputs", of ops.def
};

inline constexpr int kVariadic = 1 << 20;

// Returns all ops, in alphabetical order.
std::span<const OpSchema> AllOps();

// Returns the output of `cohort reference --ops`, which is docs/ops.md: a table of all ops.
std::string OpReference();

// Returns true for the ops that compute nothing: `input`, `read`, `read_rows`, `constant`.
bool IsLeaf(const Node& node);

// Returns null for an unknown name.
const OpSchema* FindOp(std::string_view name);

// Checks number of inputs, attributes (unknown, missing, of the wrong kind), then infers. Errors:
// InvalidArgument that names op and node.
absl::StatusOr<Types> InferNode(const Program& program, const Node& node,
                                std::span<const ValueType* const> inputs);

// Attributes of a node whose schema has been checked. The optional ones have a default here.
int64_t IntAttr(const Node& node, std::string_view name, int64_t fallback = 0);
double FloatAttr(const Node& node, std::string_view name, double fallback = 0);
bool BoolAttr(const Node& node, std::string_view name, bool fallback = false);
std::string_view StringAttr(const Node& node, std::string_view name,
                            std::string_view fallback = {});
std::span<const int64_t> IntsAttr(const Node& node, std::string_view name);
// Returns null if it is absent.
const Tensor* TensorAttr(const Node& node, std::string_view name);

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_OP_REGISTRY_H_

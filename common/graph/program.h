#ifndef COHORT_COMMON_GRAPH_PROGRAM_H_
#define COHORT_COMMON_GRAPH_PROGRAM_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/graph/loss_scale.h"
#include "common/metrics/metric_state.h"
#include "common/tensor/dtype.h"
#include "common/tensor/table_rows.h"
#include "common/tensor/tensor.h"

namespace cohort {

// The intermediate representation of a step function, in memory. proto/program.proto is its form on
// the wire (common/graph/program_proto.h translates); common/graph/op_registry.h lists the ops.
// ProgramBuilder builds it, ValidateProgram checks it, Executable compiles it.

// One axis of a value. A *bounded* axis has a capacity known when the program is compiled and a
// count known at run time: count = size / capacity(symbol) * count(symbol).
struct Dim {
  int64_t size = 0;  // static: the size. Bounded: the capacity of this axis
  int symbol = 0;    // 0: static; n: program.symbols[n - 1]

  bool bounded() const { return symbol != 0; }
  bool operator==(const Dim&) const = default;
};

struct ValueType {
  DType dtype = DType::kInvalid;
  std::vector<Dim> dims;

  bool operator==(const ValueType&) const = default;
};

// True for a variable that is a table without bounds (common/tensor/table_rows.h).
inline bool IsTable(const ValueType& type) {
  return !type.dims.empty() && type.dims[0].size == kTableRows;
}

// Elements at full capacity.
int64_t CapacityElements(const ValueType& type);
// "float32[batch<=32, 10]".
std::string TypeToString(const ValueType& type);

// Bounded dimensions of a program; symbol 1 is by convention "batch".
struct Symbol {
  std::string name;
  int64_t capacity = 0;
};

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

using Attr = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>, Tensor>;
using Attrs = std::map<std::string, Attr, std::less<>>;

struct Node {
  std::string op;
  std::string name;  // for people: the layer that it came from
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attrs attrs;
  // The ops "fused" (common/graph/fuse.h) and "segment" (common/graph/segments.h), which only a
  // compiled program has, stand for these nodes, in order.
  std::vector<Node> body;
  // Where it runs ("cuda:1", "worker:1/cpu:0": device_name.h); "": where the program does. Leaves
  // have none.
  std::string device;
};

struct ProgramArgument {
  std::string name;
  ValueId value = kNoValue;
};

struct VariableDecl {
  std::string name;  // the logical variable, "dense/kernel"
  ValueType type;    // static dims
  // Reads give its average, if its optimizer keeps one (use_ema), and else its value.
  bool reads_average = false;
};

// The numbers are those of PushKind in proto/program.proto.
enum class PushKind : uint8_t { kGradient = 1, kAssignAdd = 2, kEma = 3, kRecordOnly = 4 };

struct Push {
  int variable = 0;  // index into Program::variables
  PushKind kind = PushKind::kGradient;
  ValueId value = kNoValue;  // dense: the variable's shape. Sparse: [rows, ...]
  ValueId keys = kNoValue;   // int64 [rows], no key twice; kNoValue: dense
  double momentum = 0;       // for kEma
};

// What a step adds to one accumulator of a metric.
struct MetricAccumulator {
  std::string name;
  Reduction reduction = Reduction::kSum;
  ValueId value = kNoValue;  // a floating scalar or vector of static size
};

// What a step adds to the state of a metric (common/metrics/metric_state.h).
struct MetricPartial {
  std::string name;
  FinalizerConfig finalizer;  // null: Mean
  std::vector<MetricAccumulator> accumulators;
};

struct Output {
  std::string name;
  ValueId value = kNoValue;
};

struct Program {
  std::string name;
  std::vector<Symbol> symbols;
  std::vector<ValueType> values;  // by ValueId
  std::vector<Node> nodes;        // every input is made before it is used
  std::vector<ProgramArgument> arguments;
  std::vector<VariableDecl> variables;
  std::vector<Push> pushes;  // gradients are of the *summed* loss
  std::vector<MetricPartial> metrics;
  std::vector<Output> outputs;
  ValueId weight = kNoValue;  // scalar: the divisor of the loss's reduction; kNoValue: no loss
  LossScaling loss_scaling;   // if enabled, the last argument is the loss scale

  const ValueType& type(ValueId id) const { return values[static_cast<size_t>(id)]; }
};

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_PROGRAM_H_

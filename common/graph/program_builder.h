#ifndef COHORT_COMMON_GRAPH_PROGRAM_BUILDER_H_
#define COHORT_COMMON_GRAPH_PROGRAM_BUILDER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/graph/program.h"

namespace cohort {

class ProgramBuilder;

// A value of a program under construction: a handle that C++ expressions are traced with (see
// common/graph/expr.h for the operators). Copies are cheap; it is valid as long as its builder. The
// default one is not a value, and neither is the result of an op that failed, nor any result
// computed from it. ProgramBuilder::Build returns the first error.
class Expr {
 public:
  Expr() = default;
  Expr(ProgramBuilder* builder, ValueId id) : builder_(builder), id_(id) {}

  bool valid() const { return id_ != kNoValue; }
  ValueId id() const { return id_; }
  ProgramBuilder* builder() const { return builder_; }
  // The type of a valid one. A copy, because tracing more ops moves the types.
  ValueType type() const;
  DType dtype() const;
  size_t rank() const;

 private:
  ProgramBuilder* builder_ = nullptr;
  ValueId id_ = kNoValue;
};

// What a step adds to one accumulator of a metric: a floating scalar or vector of static size.
struct MetricExpr {
  std::string name;
  Expr value;
  Reduction reduction = Reduction::kSum;
};

// Makes a Program by tracing. A step function reads like this:
//
//   ProgramBuilder b("train");
//   const int batch = b.AddSymbol("batch", 32);
//   Expr x = b.Input("x", {DType::kFloat32, {{32, batch}, {784}}});
//   Expr y = b.Input("y", {DType::kFloat32, {{32, batch}, {1}}});
//   Expr w = b.Read("dense/kernel", {DType::kFloat32, {{784}, {1}}});
//   Expr loss = ReduceSum(Square(MatMul(x, w) - y));
//   b.SetLoss(DimSize(y, 0));
//   COHORT_RETURN_IF_ERROR(PushGradients(&b, loss));   // common/graph/autodiff.h
//   b.AddMetric("loss", loss, DimSize(y, 0));
//   StatusOr<Program> program = std::move(b).Build();
//
// Errors of single calls are kept; the first one is returned by Build. One thread at a time.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::string name);
  // Continues a program that was built before. Its nodes, pushes and so on stay as they are.
  explicit ProgramBuilder(Program program);
  ProgramBuilder(const ProgramBuilder&) = delete;
  ProgramBuilder& operator=(const ProgramBuilder&) = delete;

  // A bounded dimension; returns its number for Dim::symbol. By convention the first is "batch".
  int AddSymbol(std::string name, int64_t capacity);

  // The next argument of the program, fed by the closure's batch.
  Expr Input(std::string name, ValueType type);

  // Declares a variable (again: with the same type) and returns its index.
  int DeclareVariable(std::string_view name, const ValueType& type);
  // The whole variable; reading it twice is one read.
  Expr Read(std::string_view name, const ValueType& type);
  // Rows of the variable, for unique int64 keys [U].
  Expr ReadRows(std::string_view name, const ValueType& type, Expr keys);

  Expr Constant(const Tensor& value);
  // A scalar of dtype; equal ones are one node.
  Expr Scalar(double value, DType dtype);

  // Traces one op. The one-output form returns output 0.
  std::vector<Expr> OpOutputs(std::string_view op, std::span<const Expr> inputs, Attrs attrs = {});
  Expr Op(std::string_view op, std::initializer_list<Expr> inputs, Attrs attrs = {});
  Expr Op(std::string_view op, std::span<const Expr> inputs, Attrs attrs = {});

  // A push of a gradient, an assign_add or a moving average. Keys: rows of a sparse one.
  void AddPush(Push push);
  // Replaces what a push of the program (by index) pushes.
  void SetPushValue(size_t push, Expr value);
  // A metric whose value is `finalizer` of its folded accumulators.
  void AddMetric(std::string name, const v1::ClassConfig& finalizer,
                 std::span<const MetricExpr> accumulators);
  // The mean total / count of two scalars.
  void AddMetric(std::string name, Expr total, Expr count);
  void AddOutput(std::string name, Expr value);
  // The scalar divisor of the loss's reduction (Keras' default: the number of loss elements).
  void SetLoss(Expr weight);
  // The last argument is the scale of the loss (PushScaledGradients).
  void SetLossScaling(const LossScaling& scaling) { program_.loss_scaling = scaling; }

  // Nodes traced from now on carry this name (the layer that they come from).
  void SetScope(std::string name) { scope_ = std::move(name); }
  // Nodes traced from now on run on this device (Node::device); "": where the program does.
  void SetDevice(std::string device) { device_ = std::move(device); }
  // For ops that need a number of their own in the program (`dropout`): 0, 1, ...
  int64_t NextNumber() { return next_number_++; }

  // Keeps the first error and ignores later ones.
  void Fail(absl::Status status);
  // Adds context to the error that is kept, if there is one.
  void AnnotateError(std::string_view where) { status_ = Annotate(std::move(status_), where); }
  const absl::Status& status() const { return status_; }

  // The program so far: types and nodes are appended only.
  const Program& program() const { return program_; }

  // Prunes dead nodes, validates and returns the program. Errors: the first one of tracing, or what
  // ValidateProgram finds.
  absl::StatusOr<Program> Build() &&;

 private:
  Expr AddNode(Node node, std::vector<ValueType> types, std::vector<Expr>* outputs);
  bool CheckInputs(std::string_view op, std::span<const Expr> inputs);

  Program program_;
  absl::Status status_;
  std::string scope_;
  std::string device_;
  int64_t next_number_ = 0;
  std::map<std::string, int, std::less<>> variables_;
  std::map<int, Expr> reads_;                          // by variable
  std::map<std::pair<int, ValueId>, Expr> row_reads_;  // by variable and keys
  std::map<std::pair<DType, double>, Expr> scalars_;
};

// Removes nodes that no push, metric, output or weight depends on, and values, variables and
// symbols that are left without use (arguments stay: the closure's batch has them all). Keeps the
// order.
Program PruneDeadNodes(const Program& program);

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_PROGRAM_BUILDER_H_

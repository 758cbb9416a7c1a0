#ifndef COHORT_COMMON_KERNELS_KERNEL_TEST_UTIL_H_
#define COHORT_COMMON_KERNELS_KERNEL_TEST_UTIL_H_

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <initializer_list>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/thread_pool.h"
#include "common/graph/program_builder.h"
#include "common/kernels/kernel.h"

namespace cohort::testing {

// One op, traced into a program of its own and run by its CPU kernel on tensors of static shape.
struct OpRun {
  std::string op;
  std::vector<Tensor> inputs;
  Attrs attrs;
  int threads = 1;
  RandomKey random;
  int64_t symbol_capacity = 0;        // above 0: the program has a symbol 1 of that capacity
  int64_t batch_capacity = 0;         // above 0: the size of axis 0 for which the kernel is made
  std::vector<size_t> batched = {0};  // the inputs that have such an axis 0
};

struct OpResult {
  absl::Status status;
  std::vector<Tensor> outputs;  // a symbol's axis at full capacity
  int64_t count = -1;           // what the kernel counted
};

inline OpResult RunOp(const OpRun& run) {
  ProgramBuilder b("test");
  if (run.symbol_capacity > 0) b.AddSymbol("keys", run.symbol_capacity);
  std::vector<Expr> exprs;
  for (const Tensor& t : run.inputs) {
    ValueType type{t.dtype(), {}};
    for (int64_t size : t.dims()) type.dims.push_back({std::max<int64_t>(size, 1), 0});
    if (run.batch_capacity > 0 && std::ranges::count(run.batched, exprs.size()) > 0) {
      type.dims[0].size = run.batch_capacity;
    }
    exprs.push_back(b.Input("x" + std::to_string(exprs.size()), type));
  }
  const std::vector<Expr> outputs = b.OpOutputs(run.op, exprs, run.attrs);
  OpResult result;
  result.status = b.status();
  if (!result.status.ok()) return result;
  const Program& program = b.program();
  const Node& node = program.nodes.back();
  auto kernel = CreateKernel(node, program);
  result.status = kernel.status();
  if (!kernel.ok()) return result;

  std::vector<ValueView> views;
  std::vector<const ValueView*> pointers;
  views.reserve(run.inputs.size() + outputs.size());
  const auto add = [&](const Tensor& t) {
    views.push_back({const_cast<void*>(t.raw()), t.dtype(), static_cast<int>(t.dims().size()),
                     t.dims().data(), t.num_elements()});
    pointers.push_back(&views.back());
  };
  for (const Tensor& t : run.inputs) add(t);
  result.outputs.reserve(outputs.size());
  for (const Expr& e : outputs) {
    Dims dims;
    for (const Dim& dim : e.type().dims) dims.push_back(dim.size);
    if (run.batch_capacity > 0 && dims.size() > 1 && dims[0] == run.batch_capacity) {
      dims[0] = run.inputs[0].dims()[0];
    }
    result.outputs.emplace_back(e.dtype(), std::move(dims));
    add(result.outputs.back());
  }
  const BufferRef scratch = BufferRef::Allocate((*kernel)->scratch_bytes() + 1);
  ThreadPool pool(run.threads);
  KernelContext context;
  context.inputs = pointers.data();
  context.outputs = pointers.data() + run.inputs.size();
  context.scratch = scratch->data();
  context.pool = &pool;
  context.random = &run.random;
  context.count = &result.count;
  result.status = (*kernel)->Run(context);
  return result;
}

// The only output of an op that must succeed.
inline Tensor Output(const OpRun& run) {
  OpResult result = RunOp(run);
  INFO(run.op << ": " << result.status);
  REQUIRE(result.status.ok());
  return result.outputs[0];
}

template <typename T>
Tensor Values(Dims dims, std::initializer_list<T> values) {
  return Tensor::FromValues<T>(std::move(dims), std::span<const T>(values.begin(), values.size()));
}

// Returns values in [low, high), the same on every machine.
template <typename T>
Tensor RandomTensor(Dims dims, double low, double high, unsigned seed) {
  Tensor t(DTypeOf<T>(), std::move(dims));
  std::mt19937_64 random(seed);
  for (T& x : t.mutable_values<T>()) {
    x = static_cast<T>(low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53);
  }
  return t;
}

template <typename T>
constexpr double kTolerance = sizeof(T) == 4 ? 4e-6 : 1e-13;

// |a - b| <= kTolerance * max(1, |b|); infinities and NaN must agree.
template <typename T>
bool Near(double a, double b) {
  if (std::isnan(b)) return std::isnan(a);
  if (std::isinf(b)) return a == b;
  return std::abs(a - b) <= kTolerance<T> * std::max(1.0, std::abs(b));
}

}  // namespace cohort::testing

#endif  // COHORT_COMMON_KERNELS_KERNEL_TEST_UTIL_H_

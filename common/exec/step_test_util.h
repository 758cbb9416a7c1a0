#ifndef COHORT_COMMON_EXEC_STEP_TEST_UTIL_H_
#define COHORT_COMMON_EXEC_STEP_TEST_UTIL_H_

#include <cmath>
#include <string>
#include <vector>

#include "common/exec/executable.h"
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "proto/config.pb.h"

namespace cohort::testing {

inline ValueType Type(DType dtype, std::vector<Dim> dims) { return {dtype, std::move(dims)}; }

// Embedding -> mean -> Dense(1): the recommender. Arguments: ids int64 [batch, 3], labels [batch,
// 1]. Variables: table [rows, dim] (read by rows), kernel [dim, 1], bias [1].
inline absl::StatusOr<Program> RecommenderProgram(DType dtype, int64_t capacity, int64_t rows,
                                                  int64_t dim) {
  ProgramBuilder b("recommender");
  const int batch = b.AddSymbol("batch", capacity);
  const Expr ids = b.Input("ids", Type(DType::kInt64, {{capacity, batch}, {3}}));
  const Expr labels = b.Input("labels", Type(dtype, {{capacity, batch}, {1}}));
  const auto [keys, inverse] = Unique(ids);
  const Expr table = b.ReadRows("table", Type(dtype, {{rows}, {dim}}), keys);
  const Expr mean = ReduceMean(Gather(table, inverse), {1});
  const Expr kernel = b.Read("kernel", Type(dtype, {{dim}, {1}}));
  const Expr logits = MatMul(mean, kernel) + b.Read("bias", Type(dtype, {{1}}));
  const Expr loss = ReduceSum(SigmoidCrossEntropy(labels, logits));
  const Expr correct = Equal(Cast(Greater(labels, b.Scalar(0.5, dtype)), dtype),
                             Cast(Greater(logits, b.Scalar(0, dtype)), dtype));
  b.SetLoss(DimSize(labels, 0));
  COHORT_RETURN_IF_ERROR(PushGradients(&b, loss));
  b.AddMetric("loss", loss, DimSize(labels, 0));
  b.AddMetric("accuracy", ReduceSum(Cast(correct, dtype)), DimSize(labels, 0));
  b.AddOutput("logits", logits);
  return std::move(b).Build();
}

// Dense(hidden, relu) -> Dropout(rate) -> Dense(10), softmax cross entropy.
inline absl::StatusOr<Program> MlpProgram(DType dtype, int64_t capacity, int64_t inputs,
                                          int64_t hidden, double rate) {
  ProgramBuilder b("mlp");
  const int batch = b.AddSymbol("batch", capacity);
  const Expr x = b.Input("x", Type(dtype, {{capacity, batch}, {inputs}}));
  const Expr labels = b.Input("labels", Type(DType::kInt64, {{capacity, batch}}));
  const Expr kernel1 = b.Read("dense/kernel", Type(dtype, {{inputs}, {hidden}}));
  const Expr bias1 = b.Read("dense/bias", Type(dtype, {{hidden}}));
  const Expr kernel2 = b.Read("dense_1/kernel", Type(dtype, {{hidden}, {10}}));
  const Expr bias2 = b.Read("dense_1/bias", Type(dtype, {{10}}));
  Expr h = Relu(MatMul(x, kernel1) + bias1);
  if (rate > 0) h = Dropout(h, rate, 1).first;
  const Expr logits = MatMul(h, kernel2) + bias2;
  const Expr loss = ReduceSum(SparseSoftmaxCrossEntropy(labels, logits));
  b.SetLoss(DimSize(labels, 0, dtype));
  COHORT_RETURN_IF_ERROR(PushGradients(&b, loss));
  b.AddMetric("loss", loss, DimSize(labels, 0, dtype));
  b.AddMetric("accuracy", ReduceSum(Cast(Equal(ArgMax(logits), labels), dtype)),
              DimSize(labels, 0, dtype));
  b.AddOutput("logits", logits);
  return std::move(b).Build();
}

// Counts of x above four thresholds (a vector), and the least and the largest x. Argument: x
// [batch, 1].
inline absl::StatusOr<Program> CountsProgram(DType dtype, int64_t capacity) {
  ProgramBuilder b("counts");
  const int batch = b.AddSymbol("batch", capacity);
  const Expr x = b.Input("x", Type(dtype, {{capacity, batch}, {1}}));
  const std::vector<double> at = {-1, 0, 1, 2};
  const Expr thresholds = Cast(b.Constant(Tensor::FromValues<double>({4}, at)), dtype);
  const Expr counts = ReduceSum(Cast(Greater(x, thresholds), dtype), {0});
  v1::ClassConfig finalizer;
  finalizer.set_class_name("AUC");
  const MetricExpr curve[] = {{"true_positives", counts}, {"false_positives", counts}};
  b.AddMetric("curve", finalizer, curve);
  finalizer.set_class_name("Single");
  const MetricExpr least[] = {{"least", -ReduceMax(-x, {0, 1}), Reduction::kMin}};
  b.AddMetric("least", finalizer, least);
  const MetricExpr most[] = {{"most", ReduceMax(x, {0, 1}), Reduction::kMax}};
  b.AddMetric("most", finalizer, most);
  b.AddMetric("mean", ReduceSum(x), DimSize(x, 0));
  return std::move(b).Build();
}

// Element i of variable v.
inline double Weight(size_t variable, int64_t i) {
  return std::sin(static_cast<double>(i) * 0.7 + static_cast<double>(variable)) * 0.1;
}

// Fills the destinations of all pulls with Weight.
template <typename T>
void FillPulls(Executable* e) {
  for (const PullItem& item : e->pulls()) {
    const ValueType& type = e->program().variables[static_cast<size_t>(item.variable)].type;
    T* to = static_cast<T*>(item.destination);
    const size_t variable = static_cast<size_t>(item.variable);
    if (!item.rows) {
      for (int64_t i = 0; i < CapacityElements(type); ++i)
        to[i] = static_cast<T>(Weight(variable, i));
      continue;
    }
    const int64_t row = CapacityElements(type) / type.dims[0].size;
    for (int64_t key : item.keys) {
      for (int64_t i = 0; i < row; ++i) *to++ = static_cast<T>(Weight(variable, key * row + i));
    }
  }
}

// A batch for RecommenderProgram, different for every `step`.
template <typename T>
std::vector<Tensor> RecommenderBatch(int64_t count, int64_t rows, int64_t step) {
  Tensor ids(DType::kInt64, {count, 3});
  for (int64_t i = 0; i < count * 3; ++i) {
    ids.mutable_values<int64_t>()[static_cast<size_t>(i)] = (i * 7 + step * 3 + i * i) % rows;
  }
  Tensor labels(DTypeOf<T>(), {count, 1});
  for (int64_t i = 0; i < count; ++i) {
    labels.mutable_values<T>()[static_cast<size_t>(i)] = static_cast<T>((i + step) % 2);
  }
  return {ids, labels};
}

// A batch for MlpProgram.
template <typename T>
std::vector<Tensor> MlpBatch(int64_t count, int64_t inputs, int64_t step) {
  Tensor x(DTypeOf<T>(), {count, inputs});
  for (int64_t i = 0; i < count * inputs; ++i) {
    x.mutable_values<T>()[static_cast<size_t>(i)] =
        static_cast<T>(std::cos(static_cast<double>(i * (step + 1)) * 0.3));
  }
  Tensor labels(DType::kInt64, {count});
  for (int64_t i = 0; i < count; ++i) {
    labels.mutable_values<int64_t>()[static_cast<size_t>(i)] = (i * 3 + step) % 10;
  }
  return {x, labels};
}

}  // namespace cohort::testing

#endif  // COHORT_COMMON_EXEC_STEP_TEST_UTIL_H_

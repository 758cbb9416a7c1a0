#include "deploy/examples/custom_loop/recommender_step.h"

#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/program_builder.h"

namespace cohort::examples {
namespace {

constexpr int64_t kWords = 8;  // seven names and the unknown one
constexpr int64_t kWidth = 20;

}  // namespace

absl::StatusOr<Program> TrainStep() {
  ProgramBuilder b("custom_train");
  const int batch = b.AddSymbol("batch", kBatch);
  const Expr words = b.Input("features", {DType::kInt64, {{kBatch, batch}, {3}}});
  const Expr label = b.Input("label", {DType::kFloat32, {{kBatch, batch}}});

  const auto [keys, position] = Unique(words);
  const Expr rows = b.ReadRows("embedding", {DType::kFloat32, {{kWords}, {kWidth}}}, keys);
  const Expr pooled = ReduceMean(Gather(rows, position), {1});
  const Expr kernel = b.Read("dense/kernel", {DType::kFloat32, {{kWidth}, {1}}});
  const Expr bias = b.Read("dense/bias", {DType::kFloat32, {{1}}});
  const Expr logits = MatMul(pooled, kernel) + bias;

  const Expr loss = ReduceSum(SigmoidCrossEntropy(Reshape(label, {-1, 1}), logits));
  const Expr count = DimSize(logits, 0);
  b.SetLoss(count);
  COHORT_RETURN_IF_ERROR(PushGradients(&b, loss));
  b.AddMetric("loss", loss, count);
  b.AddOutput("loss", loss / count);
  return std::move(b).Build();
}

std::vector<v1::VariableSpec> Variables() {
  const auto variable = [](const char* name, std::vector<int64_t> dims, const char* initializer) {
    v1::VariableSpec spec;
    spec.set_name(name);
    spec.set_dtype(v1::FLOAT32);
    spec.mutable_dims()->Add(dims.begin(), dims.end());
    spec.set_trainable(true);
    spec.mutable_initializer()->set_class_name(initializer);
    spec.mutable_initializer()->set_minval(-0.05);
    spec.mutable_initializer()->set_maxval(0.05);
    spec.mutable_initializer()->set_seed(7);
    return spec;
  };
  std::vector<v1::VariableSpec> variables = {
      variable("embedding", {kWords, kWidth}, "RandomUniform"),
      variable("dense/kernel", {kWidth, 1}, "RandomUniform"), variable("dense/bias", {1}, "Zeros")};
  variables[0].set_row_reads(true);
  return variables;
}

v1::OptimizerSpec Optimizer() {
  v1::OptimizerSpec optimizer;
  optimizer.set_class_name("RMSprop");
  optimizer.set_learning_rate(0.1);
  optimizer.set_rho(0.9);
  optimizer.set_epsilon(1e-7);
  optimizer.set_sparse_update("keras");
  return optimizer;
}

v1::DatasetSpec Data() {
  v1::DatasetSpec data;
  data.mutable_generator()->set_name("recommender");
  data.mutable_generator()->set_records(6400);
  data.mutable_generator()->set_seed(1);
  data.set_shuffle(true);
  data.set_prefetch(2);
  data.set_block_size(1);
  data.set_label("label");
  v1::ColumnTransform* lookup = data.add_transforms();
  lookup->set_column("features");
  lookup->set_lookup("string");
  lookup->set_num_oov_indices(1);
  for (const char* word :
       {"avenger", "ironman", "batman", "hulk", "spiderman", "kingkong", "wonder_woman"}) {
    lookup->add_vocabulary(word);
  }
  v1::ColumnTransform* label = data.add_transforms();
  label->set_column("label");
  label->set_equals("yes");
  return data;
}

}  // namespace cohort::examples

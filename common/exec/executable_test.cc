#include "common/exec/executable.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "common/exec/metric_fold.h"
#include "common/exec/step_test_util.h"
#include "common/exec/test_device.h"
#include "common/graph/op_registry.h"

namespace cohort {
namespace {

using testing::FillPulls;
using testing::Type;
using testing::Weight;

std::unique_ptr<Executable> Compile(absl::StatusOr<Program> program, int threads = 1) {
  INFO(program.status());
  REQUIRE(program.ok());
  auto executable = Executable::Compile(*std::move(program),
                                        testing::OnTestDevice({.intra_op_threads = threads}));
  INFO(executable.status());
  REQUIRE(executable.ok());
  return *std::move(executable);
}

template <typename T>
void Step(Executable* e, const std::vector<Tensor>& batch) {
  REQUIRE(e->Bind(batch).ok());
  REQUIRE(e->Prepare({1, 2, 3}).ok());
  FillPulls<T>(e);
  REQUIRE(e->Run().ok());
}

// Computes the expected results of the recommender with loops over examples.
struct Expected {
  std::vector<double> logits;
  std::map<int64_t, std::vector<double>> table_gradient;
  std::vector<double> kernel_gradient;
  double bias_gradient = 0, loss = 0, correct = 0;
};

template <typename T>
Expected NaiveRecommender(const std::vector<Tensor>& batch, int64_t dim, size_t table,
                          size_t kernel, size_t bias) {
  Expected e;
  e.kernel_gradient.resize(static_cast<size_t>(dim));
  const auto ids = batch[0].values<int64_t>();
  for (size_t i = 0; i < batch[1].values<T>().size(); ++i) {
    std::vector<double> mean(static_cast<size_t>(dim), 0);
    double logit = static_cast<T>(Weight(bias, 0));
    for (int64_t j = 0; j < dim; ++j) {
      double& m = mean[static_cast<size_t>(j)];
      for (size_t k = 0; k < 3; ++k)
        m += static_cast<T>(Weight(table, ids[i * 3 + k] * dim + j)) / 3.0;
      logit += m * static_cast<T>(Weight(kernel, j));
    }
    const double label = batch[1].values<T>()[i];
    const double delta = 1 / (1 + std::exp(-logit)) - label;
    e.logits.push_back(logit);
    e.loss += std::log1p(std::exp(-logit)) + (1 - label) * logit;
    e.correct += (logit > 0) == (label > 0.5);
    e.bias_gradient += delta;
    for (int64_t j = 0; j < dim; ++j) {
      const size_t at = static_cast<size_t>(j);
      e.kernel_gradient[at] += delta * mean[at];
      for (size_t k = 0; k < 3; ++k) {
        auto& row = e.table_gradient[ids[i * 3 + k]];
        row.resize(static_cast<size_t>(dim));
        row[at] += delta * static_cast<T>(Weight(kernel, j)) / 3;
      }
    }
  }
  return e;
}

int VariableIndex(const Program& program, const std::string& name) {
  for (size_t i = 0; i < program.variables.size(); ++i) {
    if (program.variables[i].name == name) return static_cast<int>(i);
  }
  FAIL("no variable " << name);
  return -1;
}

const PushItem& PushOf(const Executable& e, const std::string& variable) {
  const int index = VariableIndex(e.program(), variable);
  for (const PushItem& item : e.pushes()) {
    if (item.variable == index) return item;
  }
  FAIL("no push of " << variable);
  return e.pushes()[0];
}

TEMPLATE_TEST_CASE("a recommender step, for any number of examples", "", float, double) {
  constexpr int64_t kRows = 11, kDim = 5;
  const double tolerance = sizeof(TestType) == 4 ? 2e-6 : 1e-13;
  const std::unique_ptr<Executable> e =
      Compile(testing::RecommenderProgram(DTypeOf<TestType>(), 32, kRows, kDim));
  const auto near = [&](double a, double b) {
    return std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
  };
  for (const int64_t count : {32, 5, 1, 32, 31}) {
    const auto batch = testing::RecommenderBatch<TestType>(count, kRows, count);
    Step<TestType>(e.get(), batch);
    const Expected expected = NaiveRecommender<TestType>(
        batch, kDim, static_cast<size_t>(VariableIndex(e->program(), "table")),
        static_cast<size_t>(VariableIndex(e->program(), "kernel")),
        static_cast<size_t>(VariableIndex(e->program(), "bias")));
    REQUIRE(e->batch_count() == count);
    REQUIRE(e->weight() == static_cast<double>(count));
    REQUIRE(e->output(0).dims() == Dims{count, 1});
    const Tensor logits = e->output(0);
    for (size_t i = 0; i < expected.logits.size(); ++i) {
      REQUIRE(near(logits.values<TestType>()[i], expected.logits[i]));
    }
    REQUIRE(near(e->metric_values()[0], expected.loss));
    REQUIRE(e->metric_values()[2] == expected.correct);
    REQUIRE(e->metric_values()[1] == static_cast<double>(count));
    const PushItem& bias = PushOf(*e, "bias");
    REQUIRE_FALSE(bias.sparse);
    REQUIRE(near(*static_cast<const TestType*>(bias.value), expected.bias_gradient));
    const PushItem& kernel = PushOf(*e, "kernel");
    for (size_t j = 0; j < kDim; ++j) {
      REQUIRE(near(static_cast<const TestType*>(kernel.value)[j], expected.kernel_gradient[j]));
    }
    const PushItem& table = PushOf(*e, "table");
    REQUIRE(table.sparse);
    REQUIRE(table.keys.size() == expected.table_gradient.size());
    size_t row = 0;
    for (const auto& [key, gradient] : expected.table_gradient) {
      REQUIRE(table.keys[row] == key);
      for (size_t j = 0; j < kDim; ++j) {
        REQUIRE(near(static_cast<const TestType*>(table.value)[row * kDim + j], gradient[j]));
      }
      ++row;
    }
  }
}

TEMPLATE_TEST_CASE("metrics with vectors are folded over steps", "", float, double) {
  auto e = Compile(testing::CountsProgram(DTypeOf<TestType>(), 4));
  MetricFold fold;
  CHECK(fold.States(e->program()).empty());
  const std::vector<std::vector<TestType>> batches = {{0.5, 3, -2}, {1.5}, {-0.5, 0.5, 2.5, 0.25}};
  for (const auto& values : batches) {
    const Dims dims{static_cast<int64_t>(values.size()), 1};
    Step<TestType>(e.get(), {Tensor::FromValues<TestType>(dims, values)});
    fold.Add(*e);
  }
  const std::vector<MetricState> states = fold.States(e->program());
  REQUIRE(states.size() == 4);
  CHECK(states[0].name == "curve");
  CHECK(states[0].accumulators[0].values == std::vector<double>{7, 6, 3, 2});
  CHECK(states[0].accumulators[1].name == "false_positives");
  CHECK(states[0].Value() == Approx((1 - 4.0 / 49) / 2));  // the curve ends at (2/7, 2/7)
  CHECK(states[1].Value() == -2);
  CHECK(states[2].Value() == 3);
  CHECK(states[3].Value() == 5.75 / 8);
}

TEST_CASE("an empty batch gives an empty gradient") {
  auto e = Compile(testing::RecommenderProgram(DType::kFloat32, 8, 11, 4));
  Step<float>(e.get(), testing::RecommenderBatch<float>(0, 11, 1));
  REQUIRE(e->weight() == 0);
  REQUIRE(e->metric_values()[0] == 0);
  REQUIRE(PushOf(*e, "table").keys.empty());
  REQUIRE(*static_cast<const float*>(PushOf(*e, "bias").value) == 0);
}

// A copy of a push.
struct PushedBytes {
  std::vector<int64_t> keys;
  std::vector<float> values;
};

std::vector<PushedBytes> CopyPushes(std::span<const PushItem> items, const Program& program) {
  std::vector<PushedBytes> copies;
  for (const PushItem& item : items) {
    const ValueType& type = program.variables[static_cast<size_t>(item.variable)].type;
    const int64_t all = CapacityElements(type);
    const size_t n = static_cast<size_t>(
        item.sparse ? all / type.dims[0].size * static_cast<int64_t>(item.keys.size()) : all);
    const float* values = static_cast<const float*>(item.value);
    copies.push_back({{item.keys.begin(), item.keys.end()}, {values, values + n}});
  }
  return copies;
}

TEST_CASE("the pushes of a step stay while the next step runs") {
  auto e = Compile(testing::RecommenderProgram(DType::kFloat32, 32, 50, 4));
  std::span<const PushItem> previous;
  std::vector<PushedBytes> previous_copy;
  for (int64_t step = 0; step < 7; ++step) {
    Step<float>(e.get(), testing::RecommenderBatch<float>(32 - step * 4, 50, step));
    if (step > 0) {
      const auto now = CopyPushes(previous, e->program());
      for (size_t i = 0; i < now.size(); ++i) {
        REQUIRE(now[i].keys == previous_copy[i].keys);
        REQUIRE(now[i].values == previous_copy[i].values);
      }
      REQUIRE(e->pushes().data() != previous.data());
    }
    previous = e->pushes();
    previous_copy = CopyPushes(previous, e->program());
  }
}

TEST_CASE("an argument and a constant can be pushed") {
  ProgramBuilder b("push");
  const Expr x = b.Input("x", Type(DType::kFloat32, {{3}}));
  const float two[] = {2, 2, 2};
  const Expr c = b.Constant(Tensor::FromValues<float>({3}, two));
  const int v = b.DeclareVariable("v", Type(DType::kFloat32, {{3}}));
  const int w = b.DeclareVariable("w", Type(DType::kFloat32, {{3}}));
  b.AddPush({v, PushKind::kAssignAdd, x.id(), kNoValue, 0});
  b.AddPush({w, PushKind::kEma, c.id(), kNoValue, 0.9});
  auto e = Compile(std::move(b).Build());
  const float first[] = {1, 2, 3}, second[] = {4, 5, 6};
  Step<float>(e.get(), {Tensor::FromValues<float>({3}, first)});
  const auto pushes = e->pushes();
  REQUIRE(pushes[1].kind == PushKind::kEma);
  REQUIRE(pushes[1].momentum == 0.9);
  REQUIRE(static_cast<const float*>(pushes[1].value)[2] == 2);
  Step<float>(e.get(), {Tensor::FromValues<float>({3}, second)});
  REQUIRE(static_cast<const float*>(pushes[0].value)[2] == 3);
  REQUIRE(static_cast<const float*>(e->pushes()[0].value)[2] == 6);
}

TEST_CASE("a masked step can take its mask from an argument") {
  // The recorded mask of a golden file: mul by an argument is what dropout's gradient does too.
  ProgramBuilder b("masked");
  const Expr x = b.Read("x", Type(DType::kFloat64, {{2}}));
  const Expr mask = b.Input("mask", Type(DType::kFloat64, {{2}}));
  REQUIRE(PushGradients(&b, ReduceSum(x * mask)).ok());
  b.SetLoss(b.Scalar(1, DType::kFloat64));
  auto e = Compile(std::move(b).Build());
  const double m[] = {0, 1.25};
  Step<double>(e.get(), {Tensor::FromValues<double>({2}, m)});
  REQUIRE(static_cast<const double*>(e->pushes()[0].value)[0] == 0);
  REQUIRE(static_cast<const double*>(e->pushes()[0].value)[1] == 1.25);
}

// A random program of elementwise ops, matrix products, views and reductions; with `all`, every
// value is an output and so has memory of its own.
absl::StatusOr<Program> RandomProgram(unsigned seed, bool all) {
  std::mt19937 random(seed);
  ProgramBuilder b("random");
  const int batch = b.AddSymbol("batch", 6);
  std::vector<Expr> xs = {b.Input("x", Type(DType::kFloat64, {{6, batch}, {4}})),
                          b.Input("y", Type(DType::kFloat64, {{6, batch}, {4}}))};
  const Expr w = b.Read("w", Type(DType::kFloat64, {{4}, {4}}));
  const auto pick = [&] { return xs[random() % xs.size()]; };
  for (int i = 0; i < 25; ++i) {
    const Expr a = pick();
    Expr y;
    switch (random() % 9) {
      case 0:
        y = a + pick();
        break;
      case 1:
        y = a * pick();
        break;
      case 2:
        y = Tanh(a);
        break;
      case 3:
        y = MatMul(a, w);
        break;
      case 4:
        y = Softmax(a);
        break;
      case 5:
        y = Reshape(Relu(Reshape(a, {-1, 2, 2})), {-1, 4});
        break;
      case 6:
        y = Select(Greater(a, pick()), a, pick());
        break;
      case 7:
        y = a - ReduceSum(pick(), {1}, true);
        break;
      default:
        y = Concat(std::vector<Expr>{Slice(a, 1, 2, 2), Slice(pick(), 1, 0, 2)}, 1);
    }
    xs.push_back(y);
  }
  b.AddOutput("last", xs.back());
  b.AddOutput("middle", xs[xs.size() / 2]);
  b.AddOutput("sum", ReduceSum(xs[xs.size() / 3]));
  if (all) {
    for (ValueId v = 0; v < static_cast<ValueId>(b.program().values.size()); ++v) {
      b.AddOutput("all", Expr(&b, v));
    }
  }
  return std::move(b).Build();
}

TEST_CASE("sharing memory between values changes no value") {
  const unsigned first_seed = 1;
  size_t shared = 0, apart = 0;
  for (unsigned seed = first_seed; seed < first_seed + 100; ++seed) {
    INFO("seed " << seed);
    auto planned = Compile(RandomProgram(seed, false)),
         reference = Compile(RandomProgram(seed, true));
    shared += planned->memory_bytes();
    apart += reference->memory_bytes();
    for (const int64_t count : {6, 2}) {
      Tensor x(DType::kFloat64, {count, 4}), y(DType::kFloat64, {count, 4});
      for (size_t i = 0; i < x.values<double>().size(); ++i) {
        x.mutable_values<double>()[i] = std::sin(static_cast<double>(i + seed));
        y.mutable_values<double>()[i] = std::cos(static_cast<double>(3 * i + seed));
      }
      Step<double>(planned.get(), {x, y});
      Step<double>(reference.get(), {x, y});
      for (size_t i = 0; i < 3; ++i) {
        const Tensor got = planned->output(i), expected = reference->output(i);
        REQUIRE(got.dims() == expected.dims());
        REQUIRE(std::ranges::equal(got.values<double>(), expected.values<double>()));
      }
    }
  }
  REQUIRE(shared * 2 < apart);
}

TEST_CASE("a step does not depend on the number of intra-op threads") {
  auto one = Compile(testing::MlpProgram(DType::kFloat64, 64, 300, 70, 0.2));
  auto three = Compile(testing::MlpProgram(DType::kFloat64, 64, 300, 70, 0.2), 3);
  for (int64_t step = 0; step < 3; ++step) {
    const auto batch = testing::MlpBatch<double>(64, 300, step);
    Step<double>(one.get(), batch);
    Step<double>(three.get(), batch);
    REQUIRE(one->metric_values()[0] == three->metric_values()[0]);
    for (size_t i = 0; i < one->pushes().size(); ++i) {
      const auto n = CapacityElements(one->program().variables[i].type);
      REQUIRE(std::equal(static_cast<const double*>(one->pushes()[i].value),
                         static_cast<const double*>(one->pushes()[i].value) + n,
                         static_cast<const double*>(three->pushes()[i].value)));
    }
  }
}

TEST_CASE("bound tensors must match the arguments") {
  auto e = Compile(testing::RecommenderProgram(DType::kFloat32, 8, 11, 4));
  const auto good = testing::RecommenderBatch<float>(8, 11, 0);
  const auto message = [&](const std::vector<Tensor>& batch) {
    const absl::Status status = e->Bind(batch);
    REQUIRE(status.code() == absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  REQUIRE(message({good[0]}) == "program \"recommender\" takes 2 arguments, but is fed 1");
  REQUIRE(message({good[0], good[0]}) ==
          "argument \"labels\" is float32[batch<=8, 1], but is fed int64[8, 3]");
  const auto large = testing::RecommenderBatch<float>(9, 11, 0);
  REQUIRE(message(large).find("argument \"ids\" is int64[batch<=8, 3], but is fed int64[9, 3]") ==
          0);
  const auto small = testing::RecommenderBatch<float>(7, 11, 0);
  REQUIRE(message({good[0], small[1]}) ==
          "argument \"labels\" has 7 of \"batch\", but another argument has 8");
  REQUIRE(e->Bind(good).ok());
}

TEST_CASE("a wrong value is an error that names the node") {
  auto e = Compile(testing::MlpProgram(DType::kFloat32, 4, 6, 5, 0));
  auto batch = testing::MlpBatch<float>(4, 6, 0);
  batch[1].mutable_values<int64_t>()[2] = 10;
  REQUIRE(e->Bind(batch).ok());
  REQUIRE(e->Prepare({}).ok());
  FillPulls<float>(e.get());
  const absl::Status status = e->Run();
  REQUIRE(status.code() == absl::StatusCode::kInvalidArgument);
  REQUIRE(
      std::string(status.message()).find("(sparse_softmax_cross_entropy): label 10 of example 2") !=
      std::string::npos);
}

}  // namespace
}  // namespace cohort

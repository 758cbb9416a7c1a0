// Every gradient rule against central differences, in float64. A table; a test proves that no
// differentiable op is missing from it.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/exec/executable.h"
#include "common/exec/test_device.h"
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/fuse_pooling.h"
#include "common/graph/op_registry.h"
#include "common/kernels/kernel.h"

namespace cohort {
namespace {

using Exprs = std::vector<Expr>;

struct GradientCase {
  std::string op;            // whose rule is tested
  std::vector<Dims> inputs;  // float64 arguments, all of them differentiated
  std::function<Expr(ProgramBuilder&, const Exprs&)> build;
  double low = -1, high = 1;  // the range of the values
  double tolerance = 1e-8;    // absolute, for each gradient
  double h = 1e-5;            // half the distance of the difference
};

Expr Indices(ProgramBuilder& b, Dims dims, std::vector<int64_t> values) {
  return b.Constant(Tensor::FromValues<int64_t>(std::move(dims), std::span<const int64_t>(values)));
}

template <typename F>
std::function<Expr(ProgramBuilder&, const Exprs&)> Unary(F f) {
  return [f](ProgramBuilder&, const Exprs& x) { return f(x[0]); };
}
template <typename F>
std::function<Expr(ProgramBuilder&, const Exprs&)> Binary(F f) {
  return [f](ProgramBuilder&, const Exprs& x) { return f(x[0], x[1]); };
}

void AddElementwise(std::vector<GradientCase>* cases) {
  for (const auto& [a, b] : std::vector<std::pair<Dims, Dims>>{
           {{3, 4}, {3, 4}}, {{3, 4}, {4}}, {{3, 1}, {2, 1, 4}}, {{}, {5}}}) {
    cases->push_back({"add", {a, b}, Binary([](Expr x, Expr y) { return x + y; })});
    cases->push_back({"sub", {a, b}, Binary([](Expr x, Expr y) { return x - y; })});
    cases->push_back({"mul", {a, b}, Binary([](Expr x, Expr y) { return x * y; })});
    cases->push_back({"div", {a, b}, Binary([](Expr x, Expr y) { return x / y; }), 0.5, 2});
    cases->push_back({"pow", {a, b}, Binary([](Expr x, Expr y) { return Pow(x, y); }), 0.5, 2});
    cases->push_back({"maximum", {a, b}, Binary([](Expr x, Expr y) { return Maximum(x, y); })});
    cases->push_back({"minimum", {a, b}, Binary([](Expr x, Expr y) { return Minimum(x, y); })});
    cases->push_back(
        {"select", {a, b}, Binary([](Expr x, Expr y) { return Select(Greater(x, y), x * x, y); })});
  }
  const Dims d = {2, 9};
  cases->push_back({"neg", {d}, Unary([](Expr x) { return -x; })});
  cases->push_back({"exp", {d}, Unary([](Expr x) { return Exp(x); })});
  cases->push_back({"log", {d}, Unary([](Expr x) { return Log(x); }), 0.5, 3});
  cases->push_back({"sqrt", {d}, Unary([](Expr x) { return Sqrt(x); }), 0.5, 3});
  cases->push_back({"log1p", {d}, Unary([](Expr x) { return Log1p(x); }), -0.5, 3});
  cases->push_back({"expm1", {d}, Unary([](Expr x) { return Expm1(x); })});
  cases->push_back({"rsqrt", {d}, Unary([](Expr x) { return Rsqrt(x); }), 0.5, 3});
  cases->push_back({"sin", {d}, Unary([](Expr x) { return Sin(x); }), -4, 4});
  cases->push_back({"cos", {d}, Unary([](Expr x) { return Cos(x); }), -4, 4});
  cases->push_back({"atan", {d}, Unary([](Expr x) { return Atan(x); }), -4, 4});
  // A base below 0 has a slope for whole exponents.
  cases->push_back({"pow", {d}, Unary([](Expr x) { return Pow(x, 3.0); }), -2, -1});
  cases->push_back({"square", {d}, Unary([](Expr x) { return Square(x); })});
  cases->push_back({"abs", {d}, Unary([](Expr x) { return Abs(x); })});
  cases->push_back({"relu", {d}, Unary([](Expr x) { return Relu(x); })});
  cases->push_back({"sigmoid", {d}, Unary([](Expr x) { return Sigmoid(x); }), -4, 4});
  cases->push_back({"tanh", {d}, Unary([](Expr x) { return Tanh(x); }), -3, 3});
  cases->push_back({"erf", {d}, Unary([](Expr x) { return Erf(x); }), -3, 3});
  cases->push_back({"softplus", {d}, Unary([](Expr x) { return Softplus(x); }), -4, 4});
  // At 0, where softplus composed of abs and relu would have no slope.
  cases->push_back({"softplus", {{3}}, Unary([](Expr x) { return Softplus(x); }), 0, 0});
  cases->push_back({"clip", {d}, Unary([](Expr x) { return Clip(x, -0.5, 0.4); })});
  cases->push_back(
      {"relu_grad", {d, d}, Binary([](Expr g, Expr x) { return ReluGrad(g, Floor(x * 9)); })});
  cases->push_back({"clip_grad", {d, d}, Binary([](Expr g, Expr x) {
                      return ClipGrad(g, Floor(x * 9), -4, 3);
                    })});
  // Through float32, whose rounding a wide difference hides.
  cases->push_back(
      {"cast",
       {d},
       Unary([](Expr x) { return Cast(Square(Cast(x, DType::kFloat32)), DType::kFloat64); }),
       -1,
       1,
       1e-4,
       1e-2});
  cases->push_back({"dropout", {{8, 9}}, [](ProgramBuilder&, const Exprs& x) {
                      return Dropout(x[0], 0.4, 3).first;
                    }});
}

void AddShapes(std::vector<GradientCase>* cases) {
  cases->push_back({"reshape", {{2, 6}}, Unary([](Expr x) { return Reshape(x, {3, 4}); })});
  cases->push_back({"transpose", {{2, 3, 4}}, Unary([](Expr x) {
                      return Transpose(x, {2, 0, 1});
                    })});
  for (int64_t axis = 0; axis < 2; ++axis) {
    const Dims other = axis == 0 ? Dims{5, 3} : Dims{2, 7};
    cases->push_back({"concat", {{2, 3}, other}, [axis](ProgramBuilder&, const Exprs& x) {
                        return Concat(std::vector<Expr>{x[0], x[1], x[0]}, axis);
                      }});
    cases->push_back({"slice", {{5, 4}}, Unary([axis](Expr x) { return Slice(x, axis, 1, 2); })});
  }
  cases->push_back({"broadcast_like", {{3, 1}, {2, 3, 4}}, Binary([](Expr x, Expr y) {
                      return BroadcastLike(x, y) * y;
                    })});
  cases->push_back({"sum_squares", {{2, 3, 4}}, Unary(SumSquares)});
  // Rows with one 0 and with two.
  for (const int zeros : {1, 2}) {
    cases->push_back({"reduce_prod", {{2, 3}}, [zeros](ProgramBuilder& b, const Exprs& x) {
                        std::vector<double> factors(3, 1.0);
                        std::fill_n(factors.begin(), zeros, 0.0);
                        const Expr mask = b.Constant(
                            Tensor::FromValues<double>({3}, std::span<const double>(factors)));
                        return ReduceProd(x[0] * mask, {1}) + ReduceProd(x[0], {1});
                      }});
  }
  for (const std::vector<int64_t>& axes :
       std::vector<std::vector<int64_t>>{{0}, {1}, {0, 2}, {0, 1, 2}}) {
    for (const bool keep : {false, true}) {
      cases->push_back(
          {"reduce_sum", {{2, 3, 4}}, Unary([=](Expr x) { return ReduceSum(x, axes, keep); })});
      cases->push_back(
          {"reduce_max", {{2, 3, 4}}, Unary([=](Expr x) { return ReduceMax(x, axes, keep); })});
      cases->push_back(
          {"reduce_max", {{2, 3, 4}}, Unary([=](Expr x) { return ReduceMin(x, axes, keep); })});
      cases->push_back(
          {"reduce_prod", {{2, 3, 4}}, Unary([=](Expr x) { return ReduceProd(x, axes, keep); })});
    }
  }
}

void AddMatrices(std::vector<GradientCase>* cases) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      cases->push_back({"matmul",
                        {ta ? Dims{4, 3} : Dims{3, 4}, tb ? Dims{5, 4} : Dims{4, 5}},
                        Binary([=](Expr x, Expr y) { return MatMul(x, y, ta, tb); })});
    }
  }
  cases->push_back({"softmax", {{3, 5}}, Unary([](Expr x) { return Softmax(x); })});
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      cases->push_back({"batch_matmul",
                        {ta ? Dims{2, 4, 3} : Dims{2, 3, 4}, tb ? Dims{2, 5, 4} : Dims{2, 4, 5}},
                        Binary([=](Expr x, Expr y) { return BatchMatMul(x, y, ta, tb); })});
    }
  }
  cases->push_back({"sparsemax", {{6, 5}}, Unary([](Expr x) { return Sparsemax(x); })});
  cases->push_back({"log_softmax", {{3, 5}}, Unary([](Expr x) { return LogSoftmax(x); })});
  cases->push_back({"sigmoid_cross_entropy", {{3, 4}, {3, 4}}, Binary([](Expr z, Expr x) {
                      return SigmoidCrossEntropy(z, x);
                    })});
  cases->push_back(
      {"sparse_softmax_cross_entropy", {{4, 6}}, [](ProgramBuilder& b, const Exprs& x) {
         return SparseSoftmaxCrossEntropy(Indices(b, {4}, {5, 0, 2, 2}), x[0]);
       }});
  cases->push_back({"gather", {{5, 3}}, [](ProgramBuilder& b, const Exprs& x) {
                      return Gather(x[0], Indices(b, {2, 3}, {4, 0, 4, 1, 1, 1}));
                    }});
  cases->push_back({"gather_along", {{2, 5}}, [](ProgramBuilder& b, const Exprs& x) {
                      return GatherAlong(x[0], Indices(b, {2, 3}, {4, 0, 4, -1, 1, 5}));
                    }});
  cases->push_back({"gather_along_grad", {{2, 3}, {2, 5}}, [](ProgramBuilder& b, const Exprs& x) {
                      return GatherAlongGrad(x[0], Indices(b, {2, 3}, {4, 0, 4, -1, 1, 5}), x[1]);
                    }});
  // The sorted elements.
  cases->push_back(
      {"gather_along", {{3, 4}}, Unary([](Expr x) { return GatherAlong(x, Argsort(x, true)); })});
  cases->push_back({"bag", {{5, 3}}, [](ProgramBuilder& b, const Exprs& x) {
                      return Bag(x[0], Indices(b, {3, 2}, {4, 0, 4, -1, -1, -1}));
                    }});
  cases->push_back({"bag", {{5, 3}, {3, 2}}, [](ProgramBuilder& b, const Exprs& x) {
                      return Bag(x[0], Indices(b, {3, 2}, {4, 0, 4, -1, 1, 1}), x[1]);
                    }});
  cases->push_back({"bag_grad", {{3, 3}, {5, 3}, {3, 2}}, [](ProgramBuilder& b, const Exprs& x) {
                      return BagGrad(x[0], Indices(b, {3, 2}, {4, 0, 4, -1, 1, 1}), x[1], x[2]);
                    }});
  cases->push_back({"bag_grad", {{3, 3}, {5, 3}}, [](ProgramBuilder& b, const Exprs& x) {
                      return BagGrad(x[0], Indices(b, {3, 2}, {4, 0, 4, -1, -1, -1}), x[1]);
                    }});
  cases->push_back({"gather_grad", {{4, 3}, {5, 3}}, [](ProgramBuilder& b, const Exprs& x) {
                      return GatherGrad(x[0], Indices(b, {4}, {4, 0, 4, 1}), x[1]);
                    }});
}

// Windows that overlap, touch, leave steps out, and are padded; with the form of max_pool that
// picks from a second input, which is the gradient of max_pool_grad.
void AddPooling(std::vector<GradientCase>* cases) {
  struct Window {
    int64_t size, stride;
    const char* padding;
    int64_t windows;
  };
  for (const Window& w : std::vector<Window>{{2, 2, "valid", 3},
                                             {3, 1, "valid", 5},
                                             {2, 3, "valid", 2},
                                             {2, 2, "same", 4},
                                             {4, 3, "same", 3},
                                             {9, 2, "same", 4}}) {
    const Attrs attrs = {{"window", std::vector<int64_t>{w.size}},
                         {"strides", std::vector<int64_t>{w.stride}},
                         {"padding", std::string(w.padding)}};
    const Dims x = {2, 7, 3}, pooled = {2, w.windows, 3};
    cases->push_back({"max_pool", {x}, Unary([w](Expr e) {
                        return MaxPool(e, {w.size}, {w.stride}, w.padding);
                      })});
    cases->push_back({"max_pool", {x, x}, [attrs](ProgramBuilder& b, const Exprs& e) {
                        return b.Op("max_pool", {e[0], e[1]}, attrs);
                      }});
    cases->push_back({"max_pool_grad", {pooled, x}, [attrs](ProgramBuilder& b, const Exprs& e) {
                        return b.Op("max_pool_grad", {e[0], e[1]}, attrs);
                      }});
  }
}

// Two axes, each with its own window.
void AddPooling2D(std::vector<GradientCase>* cases) {
  for (const char* padding : {"valid", "same"}) {
    const bool same = padding == std::string("same");
    const std::vector<int64_t> window = {2, 3}, strides = {2, 1};
    const Attrs attrs = {
        {"window", window}, {"strides", strides}, {"padding", std::string(padding)}};
    const Dims x = {2, 5, 4, 3}, pooled = {2, same ? 3 : 2, same ? 4 : 2, 3};
    const Dims steps = {2, 5, 3};
    cases->push_back(
        {"max_pool", {x}, Unary([=](Expr e) { return MaxPool(e, window, strides, padding); })});
    cases->push_back({"max_pool", {x, x}, [attrs](ProgramBuilder& b, const Exprs& e) {
                        return b.Op("max_pool", {e[0], e[1]}, attrs);
                      }});
    cases->push_back({"max_pool_grad", {pooled, x}, [attrs](ProgramBuilder& b, const Exprs& e) {
                        return b.Op("max_pool_grad", {e[0], e[1]}, attrs);
                      }});
    cases->push_back(
        {"avg_pool", {x}, Unary([=](Expr e) { return AvgPool(e, window, strides, padding); })});
    cases->push_back(
        {"avg_pool", {steps}, Unary([=](Expr e) { return AvgPool(e, {3}, {2}, padding); })});
    cases->push_back({"avg_pool_grad", {pooled, x}, [attrs](ProgramBuilder& b, const Exprs& e) {
                        return b.Op("avg_pool_grad", {e[0], e[1]}, attrs);
                      }});
  }
}

// Strides, dilation, groups, uneven padding and odd sizes, for each of the three ops.
void AddConvolutions(std::vector<GradientCase>* cases) {
  struct Conv {
    Dims x, kernel, y;
    ConvOptions options;
  };
  for (const Conv& c : std::vector<Conv>{
           {{2, 5, 4, 3}, {3, 2, 3, 4}, {2, 3, 3, 4}, {}},
           {{2, 5, 4, 2}, {3, 3, 2, 3}, {2, 3, 2, 3}, {{2, 2}, {1, 1}, {1, 1, 0, 1}, 1}},
           {{1, 7, 6, 2}, {2, 3, 2, 2}, {1, 5, 4, 2}, {{1, 1}, {2, 2}, {0, 0, 1, 1}, 1}},
           {{2, 4, 5, 4}, {2, 2, 2, 6}, {2, 2, 2, 6}, {{2, 2}, {1, 1}, {0, 0, 0, 0}, 2}},
           {{2, 5, 5, 3}, {3, 3, 1, 3}, {2, 5, 5, 3}, {{1, 1}, {1, 1}, {1, 1, 1, 1}, 3}},
           {{1, 4, 4, 2}, {3, 3, 1, 4}, {1, 2, 2, 4}, {{1, 1}, {1, 1}, {0, 0, 0, 0}, 2}}}) {
    const std::array<int64_t, 2> size = {c.x[1], c.x[2]};
    Attrs kernel_attrs = {
        {"strides", std::vector<int64_t>(c.options.strides.begin(), c.options.strides.end())},
        {"dilations", std::vector<int64_t>(c.options.dilations.begin(), c.options.dilations.end())},
        {"pads", std::vector<int64_t>(c.options.pads.begin(), c.options.pads.end())},
        {"groups", c.options.groups},
        {"size", std::vector<int64_t>{c.kernel[0], c.kernel[1]}}};
    const ConvOptions options = c.options;
    cases->push_back({"conv2d", {c.x, c.kernel}, Binary([options](Expr x, Expr k) {
                        return Conv2D(x, k, options);
                      })});
    cases->push_back({"conv2d_input_grad", {c.y, c.kernel}, Binary([=](Expr g, Expr k) {
                        return Conv2DInputGrad(g, k, size, options);
                      })});
    cases->push_back(
        {"conv2d_kernel_grad", {c.x, c.y}, [kernel_attrs](ProgramBuilder& b, const Exprs& e) {
           return b.Op("conv2d_kernel_grad", {e[0], e[1]}, kernel_attrs);
         }});
  }
}

void AddBatchNorm(std::vector<GradientCase>* cases) {
  for (const Dims& x : std::vector<Dims>{{5, 3}, {2, 3, 2, 4}}) {
    const Dims channel = {x.back()};
    cases->push_back(
        {"batch_norm_train", {x, channel, channel}, [](ProgramBuilder&, const Exprs& e) {
           return BatchNormTrain(e[0], e[1], e[2], 0.1).y;
         }});
    // The statistics take part in the loss.
    cases->push_back(
        {"batch_norm_train", {x, channel, channel}, [](ProgramBuilder&, const Exprs& e) {
           const auto n = BatchNormTrain(e[0], e[1], e[2], 0.1);
           return n.y * n.mean + Square(n.variance);
         }});
    cases->push_back(
        {"batch_norm_train", {x, channel, channel}, [](ProgramBuilder&, const Exprs& e) {
           return BatchNormTrain(e[0], e[1], e[2], 0.1).variance;
         }});
  }
}

// With and without a mask, in both directions.
void AddRecurrences(std::vector<GradientCase>* cases) {
  const int64_t n = 2, steps = 3, units = 2;
  for (const bool masked : {false, true}) {
    for (const bool backwards : {false, true}) {
      const auto options = [=](ProgramBuilder& b) {
        RecurrenceOptions options{.backwards = backwards};
        Tensor mask(DType::kBool, {n, steps});
        for (size_t i = 0; i < 6; ++i) mask.mutable_values<bool>()[i] = i != 1 && i != 3;
        if (masked) options.mask = b.Constant(mask);
        return options;
      };
      cases->push_back(
          {"lstm",
           {{n, steps, 4 * units}, {units, 4 * units}},
           [=](ProgramBuilder& b, const Exprs& e) { return Lstm(e[0], e[1], options(b)).h; }});
      // From states that are given, and with the cells.
      cases->push_back({"lstm",
                        {{n, steps, 4 * units}, {units, 4 * units}, {n, units}, {n, units}},
                        [=](ProgramBuilder& b, const Exprs& e) {
                          RecurrenceOptions with = options(b);
                          with.states = {e[2], e[3]};
                          const LstmExprs y = Lstm(e[0], e[1], with);
                          return backwards ? y.c : y.h + 2.0 * y.c;
                        }});
      cases->push_back(
          {"gru",
           {{n, steps, 3 * units}, {units, 3 * units}, {3 * units}},
           [=](ProgramBuilder& b, const Exprs& e) { return Gru(e[0], e[1], e[2], options(b)); }});
      cases->push_back({"gru",
                        {{n, steps, 3 * units}, {units, 3 * units}, {3 * units}, {n, units}},
                        [=](ProgramBuilder& b, const Exprs& e) {
                          RecurrenceOptions with = options(b);
                          with.states = {e[3]};
                          return Gru(e[0], e[1], e[2], with);
                        }});
      cases->push_back({"simple_rnn",
                        {{n, steps, units}, {units, units}, {n, units}},
                        [=](ProgramBuilder& b, const Exprs& e) {
                          RecurrenceOptions with = options(b);
                          with.states = {e[2]};
                          return SimpleRnn(e[0], e[1], with);
                        }});
      cases->push_back(
          {"simple_rnn",
           {{n, steps, units}, {units, units}},
           [=](ProgramBuilder& b, const Exprs& e) { return SimpleRnn(e[0], e[1], options(b)); }});
    }
  }
}

// Ops whose rule is an error.
bool IsLastDerivative(std::string_view op) {
  const std::set<std::string_view> last = {"batch_norm_grad", "lstm_grad", "gru_grad",
                                           "simple_rnn_grad"};
  return last.contains(op);
}

std::vector<GradientCase> Cases() {
  std::vector<GradientCase> cases;
  AddElementwise(&cases);
  AddShapes(&cases);
  AddMatrices(&cases);
  AddPooling(&cases);
  AddPooling2D(&cases);
  AddConvolutions(&cases);
  AddBatchNorm(&cases);
  AddRecurrences(&cases);
  return cases;
}

Tensor RandomValues(Dims dims, double low, double high, std::mt19937_64* random) {
  Tensor t(DType::kFloat64, std::move(dims));
  for (double& x : t.mutable_values<double>()) {
    x = low + (high - low) * static_cast<double>((*random)() >> 11) * 0x1p-53;
  }
  return t;
}

// The program with outputs loss, gradient of input 0, 1, ...: loss = sum(op(inputs) * fixed
// numbers).
absl::StatusOr<std::unique_ptr<Executable>> CompileCase(const GradientCase& c,
                                                        std::mt19937_64* random) {
  ProgramBuilder b(c.op);
  Exprs inputs;
  for (const Dims& dims : c.inputs) {
    ValueType type{DType::kFloat64, {}};
    for (int64_t size : dims) type.dims.push_back({size, 0});
    inputs.push_back(b.Input("x" + std::to_string(inputs.size()), type));
  }
  const Expr y = c.build(b, inputs);
  COHORT_RETURN_IF_ERROR(b.status());
  Dims dims;
  for (const Dim& dim : y.type().dims) dims.push_back(dim.size);
  const Expr loss = ReduceSum(y * b.Constant(RandomValues(dims, 0.5, 1.5, random)));
  COHORT_ASSIGN_OR_RETURN(const Exprs grads, Gradients(loss, inputs));
  b.AddOutput("loss", loss);
  for (size_t i = 0; i < grads.size(); ++i) {
    const Expr zero = BroadcastLike(b.Scalar(0, DType::kFloat64), inputs[i]);
    b.AddOutput("gradient", grads[i].valid() ? grads[i] : zero);
  }
  COHORT_ASSIGN_OR_RETURN(Program program, std::move(b).Build());
  return Executable::Compile(std::move(program), testing::OnTestDevice());
}

double Loss(Executable* executable, const std::vector<Tensor>& inputs) {
  REQUIRE(executable->Bind(inputs).ok());
  REQUIRE(executable->Prepare({1, 2, 3}).ok());
  REQUIRE(executable->Run().ok());
  return executable->output(0).values<double>()[0];
}

void CheckCase(const GradientCase& c, std::mt19937_64* random) {
  auto compiled = CompileCase(c, random);
  INFO(c.op << ": " << compiled.status());
  REQUIRE(compiled.ok());
  Executable* executable = compiled->get();
  std::vector<Tensor> inputs;
  for (const Dims& dims : c.inputs) inputs.push_back(RandomValues(dims, c.low, c.high, random));
  Loss(executable, inputs);
  std::vector<Tensor> gradients;
  for (size_t i = 0; i < inputs.size(); ++i) gradients.push_back(executable->output(i + 1));
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t k = 0; k < inputs[i].values<double>().size(); ++k) {
      double& x = inputs[i].mutable_values<double>()[k];
      const double at = x;
      x = at + c.h;
      const double above = Loss(executable, inputs);
      x = at - c.h;
      const double below = Loss(executable, inputs);
      x = at;
      const double numeric = (above - below) / (2 * c.h);
      const double exact = gradients[i].values<double>()[k];
      INFO(c.op << " input " << i << " " << DimsToString(c.inputs[i]) << " element " << k << ": "
                << exact << ", numerically " << numeric);
      REQUIRE(std::abs(exact - numeric) <= c.tolerance * std::max(1.0, std::abs(numeric)));
    }
  }
}

TEST_CASE("every gradient rule agrees with central differences") {
  const unsigned seed = 20240608;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (const GradientCase& c : Cases()) CheckCase(c, &random);
}

TEST_CASE("every differentiable op is in the table") {
  std::set<std::string, std::less<>> tested;
  for (const GradientCase& c : Cases()) tested.insert(c.op);
  for (const OpSchema& schema : AllOps()) {
    INFO(schema.name);
    if (IsLastDerivative(schema.name)) continue;
    if (schema.name == "external") continue;  // another process computes it: external_step_test.py
    if (schema.gradient != nullptr) REQUIRE(tested.contains(schema.name));
  }
}

TEST_CASE("batch normalization refuses a second derivative") {
  ProgramBuilder b("test");
  const Expr x = b.Input("x", {DType::kFloat64, {{4}, {3}}});
  const Expr ones = b.Input("ones", {DType::kFloat64, {{3}}});
  const Expr y = ReduceSum(Square(BatchNormTrain(x, ones, ones, 0.1).y));
  const auto first = Gradients(y, std::vector<Expr>{x});
  REQUIRE(first.ok());
  const auto second = Gradients(ReduceSum(first->at(0)), std::vector<Expr>{x});
  CHECK(second.status().code() == absl::StatusCode::kUnimplemented);
}

TEST_CASE("a recurrence refuses a second derivative, and that of its gates") {
  ProgramBuilder b("test");
  const Expr x = b.Input("x", {DType::kFloat64, {{2}, {3}, {8}}});
  const Expr kernel = b.Input("kernel", {DType::kFloat64, {{2}, {8}}});
  const auto outputs = b.OpOutputs("lstm", std::vector<Expr>{x, kernel});
  const auto first = Gradients(ReduceSum(outputs[0]), std::vector<Expr>{x});
  REQUIRE(first.ok());
  CHECK(Gradients(ReduceSum(first->at(0)), std::vector<Expr>{x}).status().code() ==
        absl::StatusCode::kUnimplemented);
  ProgramBuilder other("test");
  const Expr x2 = other.Input("x", {DType::kFloat64, {{2}, {3}, {8}}});
  const Expr kernel2 = other.Input("kernel", {DType::kFloat64, {{2}, {8}}});
  const auto gates = other.OpOutputs("lstm", std::vector<Expr>{x2, kernel2})[2];
  CHECK(Gradients(ReduceSum(gates), std::vector<Expr>{x2}).status().code() ==
        absl::StatusCode::kUnimplemented);
}

TEST_CASE("every op has a CPU kernel or is the executor's own") {
  const std::set<std::string_view> own = {"input", "read", "read_rows", "constant", "reshape"};
  const auto kernels = KernelOps();
  const std::set<std::string_view> have(kernels.begin(), kernels.end());
  for (const OpSchema& schema : AllOps()) {
    INFO(schema.name);
    REQUIRE(have.contains(schema.name) != own.contains(schema.name));
  }
  // These are not ops of programs: the compiler makes them.
  const std::set<std::string_view> made = {"fused", kConvReluPool, kConvReluPoolGrad};
  REQUIRE(std::ranges::includes(have, made));
  REQUIRE(have.size() - made.size() + own.size() == AllOps().size());
}

}  // namespace
}  // namespace cohort

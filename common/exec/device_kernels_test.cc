// Every kernel of devices beside the CPU's, which is its specification: at full capacity, below it
// and without examples, in both floating types. On the device that COHORT_TEST_DEVICE names, else
// on the simulated one.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/device/device.h"
#include "common/device/simulated_device.h"
#include "common/exec/executable.h"
#include "common/exec/step_test_util.h"
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/fuse_pooling.h"
#include "common/graph/mixed_precision.h"
#include "common/graph/op_registry.h"
#include "common/kernels/device_kernel.h"

namespace cohort {
namespace {

constexpr int64_t kCapacity = 37;

std::shared_ptr<Device> TestDevice() {
  const char* name = std::getenv("COHORT_TEST_DEVICE");
  static const absl::StatusOr<std::shared_ptr<Device>> device =
      OpenDevice(name == nullptr || IsCpu(name) ? "simulated:0" : name);
  INFO(device.status());
  REQUIRE(device.ok());
  return *device;
}

// A program whose arguments have up to kCapacity examples.
struct Inputs {
  ProgramBuilder b{"test"};
  DType dtype;
  Dim n{kCapacity, b.AddSymbol("batch", kCapacity)};
  Expr x, y, positive, column, image, labels, ids, w, row, square;

  explicit Inputs(DType t) : dtype(t) {
    x = b.Input("x", {t, {n, {6}}});
    y = b.Input("y", {t, {n, {6}}});
    positive = b.Input("positive", {t, {n, {6}}});
    column = b.Input("column", {t, {n, {1}}});
    image = b.Input("image", {t, {n, {7}, {8}, {4}}});
    labels = b.Input("labels", {DType::kInt64, {n}});
    ids = b.Input("ids", {DType::kInt64, {n, {3}}});
    w = b.Input("w", {t, {{6}, {5}}});
    row = b.Input("row", {t, {{6}}});
    square = b.Input("square", {t, {{3}, {5}, {5}}});
  }
  std::vector<Tensor> Batch(int64_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Tensor> batch;
    for (const ProgramArgument& argument : b.program().arguments) {
      const ValueType& type = b.program().type(argument.value);
      Dims dims;
      for (const Dim& dim : type.dims) dims.push_back(dim.bounded() ? count : dim.size);
      Tensor tensor(type.dtype, std::move(dims));
      const double low = argument.name == "positive" ? 0.1 : -2;
      const auto fill = [&](auto values) {
        using T = typename decltype(values)::value_type;
        std::uniform_real_distribution<double> real(low, 2);
        for (T& v : values) {
          v = std::is_integral_v<T> ? static_cast<T>(random() % 6) : static_cast<T>(real(random));
        }
      };
      if (type.dtype == DType::kInt64) fill(tensor.mutable_values<int64_t>());
      if (type.dtype == DType::kFloat32) fill(tensor.mutable_values<float>());
      if (type.dtype == DType::kFloat64) fill(tensor.mutable_values<double>());
      batch.push_back(std::move(tensor));
    }
    return batch;
  }
};

struct KernelCase {
  std::string op;
  std::function<std::vector<Expr>(Inputs&)> build;
};

using Case = std::function<Expr(Inputs&)>;

std::vector<KernelCase> Cases() {
  std::vector<KernelCase> cases;
  const auto add = [&](std::string op, Case build) {
    cases.push_back({std::move(op), [build](Inputs& i) { return std::vector<Expr>{build(i)}; }});
  };
  const auto both = [&](std::string op, Expr (*f)(Expr, Expr)) {
    add(op, [f](Inputs& i) { return f(i.x, i.y); });
    add(op, [f](Inputs& i) { return f(i.x, i.row); });
    add(op, [f](Inputs& i) { return f(i.column, i.x); });
  };
  both("add", [](Expr a, Expr b) { return a + b; });
  both("sub", [](Expr a, Expr b) { return a - b; });
  both("mul", [](Expr a, Expr b) { return a * b; });
  both("maximum", Maximum);
  both("minimum", Minimum);
  both("greater", Greater);
  both("equal", [](Expr a, Expr b) { return Equal(Floor(a), Floor(b)); });
  both("greater_equal", [](Expr a, Expr b) { return GreaterEqual(Floor(a), Floor(b)); });
  both("select", [](Expr a, Expr b) { return Select(Greater(a, b), a, b * 2); });
  add("div", [](Inputs& i) { return i.x / i.positive; });
  add("logical_and",
      [](Inputs& i) { return LogicalAnd(Greater(i.x, i.row), Greater(i.y, i.row)); });
  add("logical_or",
      [](Inputs& i) { return LogicalOr(Greater(i.x, i.row), LogicalNot(Greater(i.y, i.row))); });
  add("logical_not", [](Inputs& i) { return LogicalNot(Greater(i.x, i.y)); });
  add("pow", [](Inputs& i) { return Pow(i.positive, i.x); });
  add("log1p", [](Inputs& i) { return Log1p(i.positive); });
  add("rsqrt", [](Inputs& i) { return Rsqrt(i.positive); });
  add("reduce_prod", [](Inputs& i) { return ReduceProd(i.x, {1}); });
  add("reduce_prod", [](Inputs& i) { return ReduceProd(i.image, {2}); });
  add("sigmoid_cross_entropy", [](Inputs& i) { return SigmoidCrossEntropy(i.positive, i.x); });
  for (const auto& [op, f] :
       std::vector<std::pair<std::string, Expr (*)(Expr)>>{{"exp", Exp},
                                                           {"square", Square},
                                                           {"abs", Abs},
                                                           {"floor", Floor},
                                                           {"round", Round},
                                                           {"round_to_bfloat16", RoundToBfloat16},
                                                           {"sign", Sign},
                                                           {"expm1", Expm1},
                                                           {"sin", Sin},
                                                           {"cos", Cos},
                                                           {"atan", Atan},
                                                           {"stop_gradient", StopGradient},
                                                           {"relu", Relu},
                                                           {"sigmoid", Sigmoid},
                                                           {"tanh", Tanh},
                                                           {"erf", Erf},
                                                           {"softplus", Softplus},
                                                           {"softmax", Softmax},
                                                           {"log_softmax", LogSoftmax},
                                                           {"sparsemax", Sparsemax},
                                                           {"argmax", ArgMax},
                                                           {"neg", [](Expr x) { return -x; }}}) {
    add(op, [f = f](Inputs& i) { return f(i.x); });
  }
  add("log", [](Inputs& i) { return Log(i.positive); });
  add("sqrt", [](Inputs& i) { return Sqrt(i.positive); });
  add("clip", [](Inputs& i) { return Clip(i.x, -1, 0.5); });
  add("clip_grad", [](Inputs& i) { return ClipGrad(i.y, i.x, -1, 0.5); });
  add("relu_grad", [](Inputs& i) { return ReluGrad(i.y, i.x); });
  for (const DType to : {DType::kInt32, DType::kUint8, DType::kBool, DType::kFloat64}) {
    add("cast", [to](Inputs& i) { return Cast(i.x * 100, to); });
  }
  add("matmul", [](Inputs& i) { return MatMul(i.x, i.w); });
  add("matmul", [](Inputs& i) { return MatMul(i.x, i.y, true); });
  add("matmul", [](Inputs& i) { return MatMul(i.x, MatMul(i.w, i.w, false, true), false, true); });
  add("matmul", [](Inputs& i) { return MatMul(i.x, i.y, false, true); });
  add("matmul", [](Inputs& i) { return MatMul(i.w, i.x, true, true); });
  add("batch_matmul", [](Inputs& i) {
    const Expr a = Reshape(i.x, {-1, 2, 3});
    return BatchMatMul(a, a, true);
  });
  add("batch_matmul", [](Inputs& i) { return BatchMatMul(i.square, i.square, false, true); });
  add("concat", [](Inputs& i) { return Concat(std::vector<Expr>{i.x, i.column, i.y}, 1); });
  add("concat", [](Inputs& i) { return Concat(std::vector<Expr>{i.w, i.w}, 0); });
  add("slice", [](Inputs& i) { return Slice(i.image, 2, 3, 4); });
  add("transpose", [](Inputs& i) { return Transpose(i.image, {0, 3, 1, 2}); });
  add("transpose", [](Inputs& i) { return Transpose(i.x, {1, 0}); });
  add("broadcast_like", [](Inputs& i) { return BroadcastLike(i.row, i.x); });
  add("broadcast_like", [](Inputs& i) { return BroadcastLike(i.column, i.x); });
  add("dim_size", [](Inputs& i) { return DimSize(i.x, 0); });
  for (const std::vector<int64_t>& axes :
       std::vector<std::vector<int64_t>>{{0}, {1}, {0, 1}, {0, 1, 2}, {1, 2}, {2}, {0, 3}, {3}}) {
    add("reduce_sum",
        [axes](Inputs& i) { return ReduceSum(axes.back() < 2 ? i.x : i.image, axes); });
    add("reduce_max",
        [axes](Inputs& i) { return ReduceMax(axes.back() < 2 ? i.x : i.image, axes, true); });
  }
  add("sum_squares", [](Inputs& i) { return SumSquares(i.image); });
  add("gather", [](Inputs& i) { return Gather(i.w, i.ids); });
  add("gather_grad", [](Inputs& i) {
    return GatherGrad(Reshape(i.x, {-1, 3, 2}), i.ids, Slice(i.w, 1, 0, 2));
  });
  for (const bool descending : {false, true}) {
    add("argsort", [=](Inputs& i) { return Argsort(i.x, descending); });
    add("argsort", [=](Inputs& i) { return Argsort(Floor(i.image), descending); });
    add("argsort",
        [=](Inputs& i) { return Argsort(Cast(Floor(i.image), DType::kInt64), descending); });
  }
  add("gather_along", [](Inputs& i) { return GatherAlong(i.x, Argsort(i.y)); });
  add("gather_along",
      [](Inputs& i) { return GatherAlong(Greater(i.x, i.y), Cast(i.x * 4, DType::kInt64)); });
  add("gather_along_grad",
      [](Inputs& i) { return GatherAlongGrad(i.y, Cast(i.x * 4, DType::kInt64), i.x); });
  add("bag", [](Inputs& i) { return Bag(i.w, i.ids); });
  add("bag", [](Inputs& i) { return Bag(i.w, Unique(i.ids, 2).second, Slice(i.x, 1, 0, 3)); });
  add("bag_grad", [](Inputs& i) {
    return BagGrad(Slice(i.x, 1, 0, 2), Unique(i.ids, 2).second, Slice(i.w, 1, 0, 2));
  });
  add("bag_grad", [](Inputs& i) {
    return BagGrad(Slice(i.x, 1, 0, 2), i.ids, Slice(i.w, 1, 0, 2), Slice(i.y, 1, 0, 3));
  });
  add("sparse_softmax_cross_entropy",
      [](Inputs& i) { return SparseSoftmaxCrossEntropy(i.labels, i.x); });
  add("in_top_k", [](Inputs& i) { return InTopK(i.labels, i.x, 2); });
  cases.push_back({"dropout", [](Inputs& i) {
                     const auto [y, mask] = Dropout(i.image, 0.3, 5);
                     return std::vector<Expr>{y, mask};
                   }});
  add("random_normal", [](Inputs& i) { return RandomNormalLike(i.image, 7); });
  const auto pool = [&](std::vector<int64_t> window, std::vector<int64_t> strides,
                        std::string padding) {
    const Attrs attrs = {{"window", window}, {"strides", strides}, {"padding", padding}};
    add("max_pool", [=](Inputs& i) { return i.b.Op("max_pool", {i.image}, attrs); });
    add("max_pool", [=](Inputs& i) {
      return i.b.Op("max_pool", {i.image, Square(i.image)}, attrs);
    });
    add("avg_pool", [=](Inputs& i) { return i.b.Op("avg_pool", {i.image}, attrs); });
    for (const char* grad : {"max_pool_grad", "avg_pool_grad"}) {
      add(grad, [=](Inputs& i) {
        const Expr y = i.b.Op("avg_pool", {i.image}, attrs);
        return i.b.Op(grad, {Square(y), Floor(i.image)}, attrs);
      });
    }
  };
  pool({2, 2}, {2, 2}, "valid");
  pool({3, 3}, {2, 1}, "same");
  pool({3, 2}, {1, 2}, "same");
  const auto conv = [&](int64_t taps, std::array<int64_t, 2> strides,
                        std::array<int64_t, 2> dilations, int64_t groups, int64_t outputs,
                        const std::vector<int64_t>& pads) {
    Attrs attrs = {{"strides", std::vector<int64_t>(strides.begin(), strides.end())},
                   {"dilations", std::vector<int64_t>(dilations.begin(), dilations.end())},
                   {"pads", pads},
                   {"groups", groups}};
    const auto kernel = [=](Inputs& i) {
      const int64_t elements = taps * taps * 4 / groups * outputs;
      Tensor values(i.dtype, {taps, taps, 4 / groups, outputs});
      for (int64_t e = 0; e < elements; ++e) {
        const double v = std::sin(static_cast<double>(e) * 1.3);
        if (i.dtype == DType::kFloat32) {
          values.mutable_values<float>()[static_cast<size_t>(e)] = static_cast<float>(v);
        } else {
          values.mutable_values<double>()[static_cast<size_t>(e)] = v;
        }
      }
      return i.b.Constant(values);
    };
    add("conv2d", [=](Inputs& i) { return i.b.Op("conv2d", {i.image, kernel(i)}, attrs); });
    Attrs input = attrs, kernels = attrs;
    input["size"] = std::vector<int64_t>{7, 8};
    kernels["size"] = std::vector<int64_t>{taps, taps};
    add("conv2d_input_grad", [=](Inputs& i) {
      const Expr k = kernel(i);
      return i.b.Op("conv2d_input_grad", {Sigmoid(i.b.Op("conv2d", {i.image, k}, attrs)), k},
                    input);
    });
    add("conv2d_kernel_grad", [=](Inputs& i) {
      const Expr y = i.b.Op("conv2d", {i.image, kernel(i)}, attrs);
      return i.b.Op("conv2d_kernel_grad", {i.image, Sigmoid(y)}, kernels);
    });
  };
  conv(3, {1, 1}, {1, 1}, 1, 5, {1, 1, 1, 1});
  conv(3, {2, 2}, {1, 1}, 1, 6, {0, 1, 0, 1});
  conv(3, {1, 1}, {2, 2}, 1, 3, {2, 2, 2, 2});
  conv(3, {1, 2}, {1, 1}, 4, 4, {1, 1, 1, 1});
  conv(2, {1, 1}, {1, 1}, 2, 6, {0, 0, 0, 0});
  conv(1, {1, 1}, {1, 1}, 1, 7, {0, 0, 0, 0});
  conv(1, {2, 2}, {1, 1}, 1, 7, {0, 0, 0, 0});
  const auto norm = [](Inputs& i, Expr x) {
    const Expr c = Reshape(Slice(i.row, 0, 0, 4), {4});
    return i.b.OpOutputs("batch_norm_train", std::vector<Expr>{x, Exp(c), c}, {{"epsilon", 1e-3}});
  };
  cases.push_back({"batch_norm_train", [norm](Inputs& i) { return norm(i, i.image); }});
  cases.push_back({"batch_norm_grad", [norm](Inputs& i) {
                     const std::vector<Expr> y = norm(i, i.image);
                     const Expr gamma = Exp(Slice(i.row, 0, 0, 4));
                     return i.b.OpOutputs(
                         "batch_norm_grad",
                         std::vector<Expr>{Sigmoid(y[0]), i.image, gamma, y[1], y[2]},
                         {{"epsilon", 1e-3}});
                   }});
  const auto steps = [](Inputs& i) { return Reshape(i.image, {-1, 7, 32}); };
  const auto weights = [](Inputs& i, int64_t rows, int64_t columns) {
    Tensor values(DType::kFloat64, {rows, columns});
    for (int64_t e = 0; e < rows * columns; ++e) {
      values.mutable_values<double>()[static_cast<size_t>(e)] =
          0.2 * std::sin(static_cast<double>(e));
    }
    return Cast(i.b.Constant(values), i.dtype);
  };
  for (const bool masked : {false, true}) {
    const auto run = [=](Inputs& i, const std::string& op, bool from_states) {
      const int64_t units = op == "lstm" ? 8 : op == "gru" ? 4 : 32;
      std::vector<Expr> inputs = {steps(i)};
      if (op == "gru") inputs[0] = Slice(inputs[0], 2, 0, 12);
      const int64_t width = inputs[0].type().dims[2].size;
      inputs.push_back(weights(i, units, width));
      if (op == "gru") inputs.push_back(Reshape(weights(i, 1, width), {width}));
      const Expr first = Reshape(Slice(i.image, 2, 0, 1), {-1, 7, 4});
      const Expr state = Reshape(Slice(Slice(steps(i), 1, 2, 1), 2, 0, units), {-1, units});
      if (from_states) inputs.push_back(state);
      if (from_states && op == "lstm") inputs.push_back(state * 0.5);
      if (masked) {
        inputs.push_back(Reshape(Greater(Slice(first, 2, 0, 1), Slice(first, 2, 1, 1)), {-1, 7}));
      }
      return i.b.OpOutputs(op, inputs, {{"backwards", masked}});
    };
    for (const char* op : {"lstm", "gru", "simple_rnn"}) {
      for (const bool from_states : {false, true}) {
        cases.push_back(
            {op, [=](Inputs& i) { return std::vector<Expr>{run(i, op, from_states)[0]}; }});
        cases.push_back({std::string(op) + "_grad", [=](Inputs& i) {
                           const auto all = run(i, op, from_states);
                           Expr sum = ReduceSum(Square(all[0]));
                           // The cells.
                           if (from_states && std::string_view(op) == "lstm") {
                             sum = sum + ReduceSum(Square(all[1]));
                           }
                           const auto wrt = std::vector<Expr>{i.image};
                           const auto grads = Gradients(sum, wrt);
                           return std::vector<Expr>{grads.ok() ? grads->at(0) : Expr()};
                         }});
      }
    }
  }
  return cases;
}

// Ops whose gradient rule is an error.
bool IsLastDerivative(std::string_view op) {
  return op == "batch_norm_grad" || op == "lstm_grad" || op == "gru_grad" ||
         op == "simple_rnn_grad";
}

std::vector<double> Doubles(const Tensor& t) {
  std::vector<double> values;
  const auto take = [&](auto span) {
    for (const auto v : span) values.push_back(static_cast<double>(v));
  };
  if (t.dtype() == DType::kFloat32) take(t.values<float>());
  if (t.dtype() == DType::kFloat64) take(t.values<double>());
  if (t.dtype() == DType::kInt32) take(t.values<int32_t>());
  if (t.dtype() == DType::kInt64) take(t.values<int64_t>());
  if (t.dtype() == DType::kUint8) take(t.values<uint8_t>());
  if (t.dtype() == DType::kBool) take(t.values<bool>());
  return values;
}

// ||a - b|| / ||b||; 0 if both are NaN or infinite alike.
double Difference(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if ((std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i]) continue;
    difference += (a[i] - b[i]) * (a[i] - b[i]);
  }
  for (const double v : b) norm += v * v;
  return std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30);
}

void Run(Executable* e, const std::vector<Tensor>& batch) {
  REQUIRE(e->Bind(batch).ok());
  REQUIRE(e->Prepare({3, 5, 1}).ok());
  const absl::Status status = e->Run();
  INFO(status);
  REQUIRE(status.ok());
}

bool IsProduct(const Node& node) {
  return node.op.ends_with("matmul") || node.op.starts_with("conv2d");
}

// True if a product has an operand that another product has made: it may be rounded to another
// neighbor where the two devices differ by one bit.
bool HasChainedProducts(const Program& program) {
  std::vector<bool> of_product(program.values.size(), false);
  for (const Node& node : program.nodes) {
    const bool any = std::ranges::any_of(
        node.inputs, [&](ValueId v) { return of_product[static_cast<size_t>(v)]; });
    if (any && IsProduct(node)) return true;
    for (const ValueId v : node.outputs) {
      of_product[static_cast<size_t>(v)] = any || IsProduct(node);
    }
  }
  return false;
}

void CheckCase(const KernelCase& c, DType dtype, size_t number,
               Precision precision = Precision::kFloat32) {
  Inputs inputs(dtype);
  const std::vector<Expr> outputs = c.build(inputs);
  INFO(c.op << ", case " << number << ", " << DTypeName(dtype) << ": " << inputs.b.status());
  REQUIRE(inputs.b.status().ok());
  for (size_t i = 0; i < outputs.size(); ++i) {
    inputs.b.AddOutput("y" + std::to_string(i), outputs[i]);
  }
  std::vector<std::vector<Tensor>> batches;
  // The first one leaves NaN behind its examples, the others what was there before.
  for (const int64_t count :
       {int64_t{5}, kCapacity, int64_t{3}, int64_t{0}, int64_t{1}, kCapacity}) {
    batches.push_back(inputs.Batch(count, static_cast<unsigned>(count)));
  }
  auto program = std::move(inputs.b).Build();
  INFO(program.status() << ", " << PrecisionName(precision));
  REQUIRE(program.ok());
  *program = WithPrecision(*std::move(program), precision, {""});
  const auto cpu = Executable::Compile(*program, {});
  const auto device = Executable::Compile(*program, {.devices = {TestDevice()}});
  INFO(cpu.status() << device.status());
  REQUIRE((cpu.ok() && device.ok()));
  const bool loose = precision != Precision::kFloat32 && HasChainedProducts(*program);
  const double tolerance = loose ? 4e-3 : dtype == DType::kFloat32 ? 2e-6 : 1e-13;
  for (const std::vector<Tensor>& batch : batches) {
    Run(cpu->get(), batch);
    Run(device->get(), batch);
    for (size_t i = 0; i < program->outputs.size(); ++i) {
      const double difference =
          Difference(Doubles((*device)->output(i)), Doubles((*cpu)->output(i)));
      INFO("output " << i << " of " << batch[0].dims()[0] << " examples");
      CHECK(difference <= tolerance);
    }
  }
}

TEST_CASE("the kernels of the device compute what those of the CPU do") {
  const DType dtype = GENERATE(DType::kFloat32, DType::kFloat64);
  const std::vector<KernelCase> cases = Cases();
  for (size_t i = 0; i < cases.size(); ++i) CheckCase(cases[i], dtype, i);
}

TEST_CASE("products round their operands on the device as on the CPU") {
  const Precision precision = GENERATE(Precision::kBfloat16, Precision::kFloat16);
  const std::vector<KernelCase> cases = Cases();
  for (size_t i = 0; i < cases.size(); ++i) {
    if (!cases[i].op.ends_with("matmul") && !cases[i].op.starts_with("conv2d")) continue;
    CheckCase(cases[i], DType::kFloat32, i, precision);
  }
}

TEST_CASE("every op has a kernel for devices, and is in the table") {
  std::set<std::string, std::less<>> tested;
  for (const KernelCase& c : Cases()) tested.insert(c.op);
  for (const std::string_view op : KernelOps()) {
    // They run on the CPU, or a program for a device never has them.
    if (op == "unique" || op == "table_row" || op == "external" || op == "fused" ||
        op.starts_with(kConvReluPool))
      continue;
    INFO(op);
    CHECK(tested.contains(op));
  }
  for (const KernelCase& c : Cases()) {
    Inputs inputs(DType::kFloat32);
    c.build(inputs);
    const Program& program = inputs.b.program();
    INFO(c.op);
    for (const Node& node : program.nodes) {
      if (node.op == c.op) {
        CHECK(CreateDeviceKernel(node, program, TestDevice()->kind()).status() == absl::OkStatus());
      }
    }
  }
}

TEST_CASE("the gradients of every op have the types of its inputs, in a program that builds") {
  // Without a kernel, and in other cases; on the CPU only.
  std::set<std::string_view> passed = {"reshape", "external"};
  for (const KernelCase& c : Cases()) {
    if (IsLastDerivative(c.op)) continue;
    Inputs in(DType::kFloat32);
    INFO(c.op);
    Expr loss = in.b.Scalar(0, in.dtype);
    for (const Expr& y : c.build(in)) {
      if (IsFloating(y.dtype())) loss = loss + ReduceSum(Cast(y, in.dtype));
    }
    const std::vector<Expr> wrt = {in.x,     in.y, in.positive, in.column,
                                   in.image, in.w, in.row,      in.square};
    const auto gradients = Gradients(loss, wrt);
    REQUIRE(gradients.status() == absl::OkStatus());
    for (size_t i = 0; i < wrt.size(); ++i) {
      const Expr& gradient = gradients->at(i);
      if (!gradient.valid()) continue;
      passed.insert(FindOp(c.op)->name);
      CHECK(gradient.type() == wrt[i].type());
      in.b.AddOutput("g" + std::to_string(i), gradient);
    }
    CHECK(std::move(in.b).Build().status() == absl::OkStatus());
  }
  for (const OpSchema& op : AllOps()) {
    INFO(op.name);
    if (op.gradient != nullptr && !IsLastDerivative(op.name)) CHECK(passed.contains(op.name));
  }
}

TEST_CASE("a device reports a wrong value with its place, and computes the next batch") {
  Inputs inputs(DType::kFloat32);
  inputs.b.AddOutput("y", Gather(inputs.w, inputs.ids));
  std::vector<Tensor> good = inputs.Batch(4, 1), bad = inputs.Batch(4, 1);
  bad[6].mutable_values<int64_t>()[7] = 6;
  auto e = Executable::Compile(*std::move(inputs.b).Build(), {.devices = {TestDevice()}});
  REQUIRE(e.ok());
  REQUIRE((*e)->Bind(bad).ok());
  REQUIRE((*e)->Prepare({}).ok());
  const absl::Status status = (*e)->Run();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(status.message()),
             Catch::Contains("(gather): index 6 at position 7 does not lie in [0, 6)"));
  Run(e->get(), good);
}

TEST_CASE("a step without room on the device is an error that says what was asked for") {
  Inputs inputs(DType::kFloat64);
  inputs.b.AddOutput("y", inputs.x + inputs.y);
  const auto device = MakeSimulatedDevice(0, /*seed=*/1, /*memory_bytes=*/100);
  const absl::Status status =
      Executable::Compile(*std::move(inputs.b).Build(), {.devices = {device}}).status();
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK_THAT(std::string(status.message()),
             Catch::Contains("program \"test\" needs") && Catch::Contains("has 100 of 100 free"));
}

}  // namespace
}  // namespace cohort

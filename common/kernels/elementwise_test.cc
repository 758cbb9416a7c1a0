// Elementwise ops against a loop over multi-indices.
#include <functional>
#include <limits>

#include "common/kernels/device_kernel.h"
#include "common/kernels/kernel_test_util.h"

namespace cohort {
namespace {

using testing::Near;
using testing::Output;
using testing::RandomTensor;
using testing::RunOp;
using testing::Values;

// Element of `t` that lies at output index `index` of shape `out` after broadcasting.
template <typename T>
T At(const Tensor& t, const Dims& out, int64_t index) {
  int64_t offset = 0, stride = 1;
  for (size_t back = 1; back <= out.size(); ++back) {
    const int64_t size = out[out.size() - back];
    const int64_t own = back <= t.dims().size() ? t.dims()[t.dims().size() - back] : 1;
    if (own != 1) offset += index % size * stride;
    stride *= own;
    index /= size;
  }
  return t.values<T>()[static_cast<size_t>(offset)];
}

const std::vector<std::pair<Dims, Dims>>& Shapes() {
  static const std::vector<std::pair<Dims, Dims>> shapes = {{{}, {}},
                                                            {{7}, {7}},
                                                            {{33}, {}},
                                                            {{}, {5}},
                                                            {{4, 10}, {10}},
                                                            {{4, 10}, {4, 1}},
                                                            {{1, 6}, {5, 1}},
                                                            {{2, 3, 5}, {3, 1}},
                                                            {{3, 1, 4}, {2, 1}},
                                                            {{2, 3, 4, 5}, {2, 1, 4, 1}},
                                                            {{2, 1, 4, 1}, {2, 3, 4, 5}},
                                                            {{1, 1}, {3, 2}}};
  return shapes;
}

template <typename T>
void CheckBinary(const std::string& op, const std::function<double(double, double)>& f) {
  unsigned seed = 1;
  for (const auto& [da, db] : Shapes()) {
    const Tensor a = RandomTensor<T>(da, -2, 2, seed++), b = RandomTensor<T>(db, 0.5, 2, seed++);
    const Tensor y = Output({op, {a, b}});
    for (int64_t i = 0; i < y.num_elements(); ++i) {
      const double expected = f(At<T>(a, y.dims(), i), At<T>(b, y.dims(), i));
      INFO(op << DimsToString(da) << DimsToString(db) << " element " << i);
      REQUIRE(Near<T>(y.values<T>()[static_cast<size_t>(i)], expected));
    }
  }
}

TEMPLATE_TEST_CASE("binary ops broadcast as NumPy does", "", float, double) {
  CheckBinary<TestType>("add", [](double a, double b) { return a + b; });
  CheckBinary<TestType>("sub", [](double a, double b) { return a - b; });
  CheckBinary<TestType>("mul", [](double a, double b) { return a * b; });
  CheckBinary<TestType>("div", [](double a, double b) { return a / b; });
  CheckBinary<TestType>("maximum", [](double a, double b) { return std::max(a, b); });
  CheckBinary<TestType>("minimum", [](double a, double b) { return std::min(a, b); });
}

TEMPLATE_TEST_CASE("powers", "", float, double) {
  const Tensor a = Values<TestType>({6}, {2, 0.5, -3, -3, 0, 7});
  const Tensor b = Values<TestType>({6}, {10, 0.5, 3, -2, 0, 0});
  const Tensor y = Output({"pow", {a, b}});
  const double expected[] = {1024, std::sqrt(0.5), -27, 1.0 / 9, 1, 1};
  for (size_t i = 0; i < 6; ++i) REQUIRE(Near<TestType>(y.values<TestType>()[i], expected[i]));
  const Tensor root = Output({"pow", {a, Values<TestType>({}, {0.5})}});
  REQUIRE(std::isnan(root.values<TestType>()[2]));
}

TEMPLATE_TEST_CASE("comparisons", "", float, double, int64_t, int32_t) {
  for (const auto& [da, db] : Shapes()) {
    const Tensor a = RandomTensor<TestType>(da, -3, 3, 5), b = RandomTensor<TestType>(db, -3, 3, 6);
    const Tensor greater = Output({"greater", {a, b}}), equal = Output({"equal", {a, b}});
    const Tensor reached = Output({"greater_equal", {a, b}});
    for (int64_t i = 0; i < greater.num_elements(); ++i) {
      const TestType x = At<TestType>(a, greater.dims(), i), y = At<TestType>(b, greater.dims(), i);
      REQUIRE(greater.values<bool>()[static_cast<size_t>(i)] == (x > y));
      REQUIRE(equal.values<bool>()[static_cast<size_t>(i)] == (x == y));
      REQUIRE(reached.values<bool>()[static_cast<size_t>(i)] == (x >= y));
    }
  }
}

TEST_CASE("logical ops broadcast") {
  const Tensor a = Values<bool>({2, 1}, {false, true});
  const Tensor b = Values<bool>({3}, {true, false, true});
  const auto answers = [](const Tensor& y) {
    return std::vector<bool>(y.values<bool>().begin(), y.values<bool>().end());
  };
  const Tensor both = Output({"logical_and", {a, b}});
  REQUIRE(both.dims() == Dims{2, 3});
  REQUIRE(answers(both) == std::vector<bool>{false, false, false, true, false, true});
  REQUIRE(answers(Output({"logical_or", {a, b}})) ==
          std::vector<bool>{true, false, true, true, true, true});
  REQUIRE(answers(Output({"logical_not", {b}})) == std::vector<bool>{false, true, false});
}

TEMPLATE_TEST_CASE("select broadcasts its condition", "", float, double) {
  for (const Dims& dc : {Dims{2, 3}, Dims{3}, Dims{}, Dims{2, 1}}) {
    Tensor cond(DType::kBool, dc);
    for (size_t i = 0; i < cond.values<bool>().size(); ++i) {
      cond.mutable_values<bool>()[i] = i % 2 == 0;
    }
    const Tensor a = RandomTensor<TestType>({2, 3}, 0, 1, 1),
                 b = RandomTensor<TestType>({1, 3}, 2, 3, 2);
    const Tensor y = Output({"select", {cond, a, b}});
    REQUIRE(y.dims() == Dims{2, 3});
    for (int64_t i = 0; i < 6; ++i) {
      const TestType expected =
          At<bool>(cond, y.dims(), i) ? At<TestType>(a, y.dims(), i) : At<TestType>(b, y.dims(), i);
      REQUIRE(y.values<TestType>()[static_cast<size_t>(i)] == expected);
    }
  }
}

template <typename T>
void CheckUnary(const std::string& op, double low, double high,
                const std::function<double(double)>& f, const Attrs& attrs = {}) {
  for (int64_t n : {1, 3, 8, 16, 37, 1000}) {
    const Tensor x = RandomTensor<T>({n}, low, high, static_cast<unsigned>(n));
    const Tensor y = Output({op, {x}, attrs});
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      INFO(op << "(" << x.values<T>()[i] << ") = " << y.values<T>()[i]);
      REQUIRE(Near<T>(y.values<T>()[i], f(x.values<T>()[i])));
    }
  }
}

TEMPLATE_TEST_CASE("unary ops", "", float, double) {
  CheckUnary<TestType>("neg", -2, 2, [](double x) { return -x; });
  CheckUnary<TestType>("exp", -5, 5, [](double x) { return std::exp(x); });
  CheckUnary<TestType>("log", 1e-3, 50, [](double x) { return std::log(x); });
  CheckUnary<TestType>("sqrt", 0, 50, [](double x) { return std::sqrt(x); });
  CheckUnary<TestType>("square", -3, 3, [](double x) { return x * x; });
  CheckUnary<TestType>("abs", -3, 3, [](double x) { return std::abs(x); });
  CheckUnary<TestType>("floor", -3, 3, [](double x) { return std::floor(x); });
  CheckUnary<TestType>("round", -3, 3, [](double x) { return std::nearbyint(x); });
  CheckUnary<TestType>("round_to_bfloat16", -3, 3, [](double x) {
    return RoundTo(Precision::kBfloat16, static_cast<float>(x));
  });
  CheckUnary<TestType>("sign", -3, 3, [](double x) { return x > 0 ? 1 : -1; });
  CheckUnary<TestType>("log1p", -0.9, 3, [](double x) { return std::log1p(x); });
  CheckUnary<TestType>("expm1", -3, 3, [](double x) { return std::expm1(x); });
  CheckUnary<TestType>("rsqrt", 0.1, 3, [](double x) { return 1 / std::sqrt(x); });
  CheckUnary<TestType>("sin", -9, 9, [](double x) { return std::sin(x); });
  CheckUnary<TestType>("cos", -9, 9, [](double x) { return std::cos(x); });
  CheckUnary<TestType>("atan", -9, 9, [](double x) { return std::atan(x); });
  CheckUnary<TestType>("stop_gradient", -3, 3, [](double x) { return x; });
  CheckUnary<TestType>("relu", -3, 3, [](double x) { return std::max(x, 0.0); });
  CheckUnary<TestType>("sigmoid", -20, 20, [](double x) { return 1 / (1 + std::exp(-x)); });
  CheckUnary<TestType>("tanh", -5, 5, [](double x) { return std::tanh(x); });
  CheckUnary<TestType>("erf", -5, 5, [](double x) { return std::erf(x); });
  CheckUnary<TestType>("softplus", -30, 30, [](double x) { return std::log1p(std::exp(x)); });
  CheckUnary<TestType>("clip", -3, 3, [](double x) { return std::clamp(x, -1.0, 0.5); },
                       {{"min", -1.0}, {"max", 0.5}});
}

TEST_CASE("round takes the even one of two integers, and sign keeps 0") {
  const Tensor x = Values<double>({5}, {-1.5, -0.5, 0, 0.5, 2.5});
  const Tensor rounded = Output({"round", {x}}), sign = Output({"sign", {x}});
  for (size_t i = 0; i < 5; ++i) {
    REQUIRE(rounded.values<double>()[i] == std::array<double, 5>{-2, 0, 0, 0, 2}[i]);
    REQUIRE(sign.values<double>()[i] == std::array<double, 5>{-1, -1, 0, 1, 1}[i]);
  }
}

TEMPLATE_TEST_CASE("NaN goes through", "", float, double) {
  const TestType nan = std::numeric_limits<TestType>::quiet_NaN();
  const Tensor x = Values<TestType>({2}, {nan, 1});
  for (const char* op : {"neg",
                         "exp",
                         "log",
                         "sqrt",
                         "square",
                         "abs",
                         "floor",
                         "relu",
                         "sigmoid",
                         "tanh",
                         "erf",
                         "softplus",
                         "log1p",
                         "expm1",
                         "rsqrt",
                         "round",
                         "round_to_bfloat16",
                         "sign",
                         "sin",
                         "cos",
                         "atan"}) {
    INFO(op);
    REQUIRE(std::isnan(Output({op, {x}}).values<TestType>()[0]));
  }
  const Tensor clipped = Output({"clip", {x}, {{"min", 0.0}, {"max", 2.0}}});
  REQUIRE(std::isnan(clipped.values<TestType>()[0]));
  const Tensor ones = Values<TestType>({2}, {1, nan});
  for (const char* op : {"maximum", "minimum"}) {
    INFO(op);
    const Tensor y = Output({op, {x, ones}});
    REQUIRE(std::isnan(y.values<TestType>()[0]));
    REQUIRE(std::isnan(y.values<TestType>()[1]));
  }
}

TEST_CASE("cast goes between all dtypes, and what does not fit saturates") {
  const Attrs to_int = {{"dtype", std::string("int64")}};
  const Tensor x = Values<double>({6}, {1.9, -1.9, 1e300, -1e300, 0, std::nan("")});
  const Tensor y = Output({"cast", {x}, to_int});
  const int64_t expected[] = {
      1, -1, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(), 0, 0};
  REQUIRE(std::equal(y.values<int64_t>().begin(), y.values<int64_t>().end(), expected));
  const Tensor i = Values<int32_t>({3}, {-7, 0, 9});
  for (const char* name : {"float32", "float64", "int32", "int64", "bool"}) {
    const Tensor there = Output({"cast", {i}, {{"dtype", std::string(name)}}});
    const Tensor back = Output({"cast", {there}, {{"dtype", std::string("int32")}}});
    const bool is_bool = std::string(name) == "bool";
    for (size_t k = 0; k < 3; ++k) {
      const int32_t v = i.values<int32_t>()[k];
      REQUIRE(back.values<int32_t>()[k] == (is_bool ? v != 0 : v));
    }
  }
  const Tensor bytes =
      Output({"cast", {Values<float>({2}, {300, -5})}, {{"dtype", std::string("uint8")}}});
  REQUIRE(bytes.values<uint8_t>()[0] == 255);
  REQUIRE(bytes.values<uint8_t>()[1] == 0);
}

TEST_CASE("a result does not depend on the number of threads") {
  const Tensor a = RandomTensor<float>({300, 200}, -2, 2, 1),
               b = RandomTensor<float>({200}, -2, 2, 2);
  for (const char* op : {"add", "mul", "maximum"}) {
    const Tensor one = Output({op, {a, b}, {}, 1}), three = Output({op, {a, b}, {}, 3});
    REQUIRE(std::ranges::equal(one.values<float>(), three.values<float>()));
  }
  const Tensor one = Output({"tanh", {a}, {}, 1}), three = Output({"tanh", {a}, {}, 3});
  REQUIRE(std::ranges::equal(one.values<float>(), three.values<float>()));
}

TEST_CASE("an error names the kernel that this build lacks") {
  ProgramBuilder b("test");
  const Expr x = b.Input("x", {DType::kFloat32, {{2}}});
  b.Op("neg", {x});
  const Node node = b.program().nodes.back();
  REQUIRE(CreateDeviceKernel(node, b.program(), "tpu").status().code() ==
          absl::StatusCode::kUnimplemented);
  Node unknown = node;
  unknown.op = "fft";
  REQUIRE(CreateKernel(unknown, b.program()).status().message() == "op \"fft\" has no CPU kernel");
}

}  // namespace
}  // namespace cohort

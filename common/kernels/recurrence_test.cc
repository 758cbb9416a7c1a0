// lstm, gru, simple_rnn and their gradients: the states against sums in float64 by their
// definition, and the vector code of float32 against the loops of float64, whose gradients are
// tested numerically (common/exec/gradients_test.cc).
#include "common/kernels/kernel_test_util.h"

namespace cohort {
namespace {

using testing::OpResult;
using testing::OpRun;
using testing::RandomTensor;
using testing::RunOp;

struct Shape {
  int64_t n, steps, units;
  bool masked, backwards;
  bool from_states = false;
};

// The states before the first step.
Tensor First(const Shape& s, uint64_t seed) {
  return RandomTensor<double>({s.n, s.units}, -1, 1, seed);
}

Tensor Mask(const Shape& s) {
  Tensor mask(DType::kBool, {s.n, s.steps});
  for (int64_t i = 0; i < s.n * s.steps; ++i) {
    mask.mutable_values<bool>()[static_cast<size_t>(i)] = i % 3 != 1;
  }
  return mask;
}

double SigmoidOf(double x) { return 1 / (1 + std::exp(-x)); }

// The states of all steps, in the order of the inputs.
std::vector<double> States(const std::string& op, const Shape& s, const Tensor& x,
                           const Tensor& kernel, const Tensor* bias) {
  const int64_t u = s.units, width = kernel.dims()[1];
  const Tensor mask = Mask(s);
  const auto at = [](const Tensor& t, int64_t i) {
    return t.values<double>()[static_cast<size_t>(i)];
  };
  std::vector<double> all(static_cast<size_t>(s.n * s.steps * u));
  for (int64_t example = 0; example < s.n; ++example) {
    std::vector<double> h(static_cast<size_t>(u)), c = h;
    for (int64_t j = 0; s.from_states && j < u; ++j) {
      h[static_cast<size_t>(j)] = at(First(s, 5), example * u + j);
      c[static_cast<size_t>(j)] = at(First(s, 6), example * u + j);
    }
    for (int64_t i = 0; i < s.steps; ++i) {
      const int64_t step = example * s.steps + (s.backwards ? s.steps - 1 - i : i);
      if (!s.masked || mask.values<bool>()[static_cast<size_t>(step)]) {
        const auto product = [&](int64_t j) {
          double sum = bias == nullptr ? 0 : at(*bias, j);
          for (int64_t k = 0; k < u; ++k) {
            sum += h[static_cast<size_t>(k)] * at(kernel, k * width + j);
          }
          return sum;
        };
        const auto in = [&](int64_t j) { return at(x, step * width + j); };
        std::vector<double> next = h;
        for (int64_t j = 0; j < u; ++j) {
          const auto unit = static_cast<size_t>(j);
          const auto sum = [&](int64_t gate) { return in(gate * u + j) + product(gate * u + j); };
          if (op == "simple_rnn") next[unit] = std::tanh(sum(0));
          if (op == "gru") {
            const double z = SigmoidOf(sum(0)), r = SigmoidOf(sum(1));
            const double candidate = std::tanh(in(2 * u + j) + r * product(2 * u + j));
            next[unit] = z * h[unit] + (1 - z) * candidate;
          }
          if (op == "lstm") {
            c[unit] = SigmoidOf(sum(1)) * c[unit] + SigmoidOf(sum(0)) * std::tanh(sum(2));
            next[unit] = SigmoidOf(sum(3)) * std::tanh(c[unit]);
          }
        }
        h = next;
      }
      std::copy(h.begin(), h.end(), all.begin() + step * u);
    }
  }
  return all;
}

template <typename T>
void CheckNear(const Tensor& got, std::span<const double> want, double tolerance) {
  REQUIRE(got.num_elements() == static_cast<int64_t>(want.size()));
  for (size_t i = 0; i < want.size(); ++i) {
    INFO("element " << i);
    const double difference = std::abs(static_cast<double>(got.values<T>()[i]) - want[i]);
    REQUIRE(difference <= tolerance * std::max(1.0, std::abs(want[i])));
  }
}

Tensor AsFloat(const Tensor& t) {
  if (t.dtype() != DType::kFloat64) return t;
  Tensor result(DType::kFloat32, t.dims());
  for (size_t i = 0; i < t.values<double>().size(); ++i) {
    result.mutable_values<float>()[i] = static_cast<float>(t.values<double>()[i]);
  }
  return result;
}

// Runs an op in both dtypes. The float32 result must not depend on the number of threads.
std::vector<Tensor> RunInBoth(const OpRun& run) {
  const OpResult exact = RunOp(run);
  INFO(run.op << exact.status);
  REQUIRE(exact.status.ok());
  OpRun rounded = run;
  for (Tensor& input : rounded.inputs) input = AsFloat(input);
  for (const int threads : {1, 3}) {
    rounded.threads = threads;
    const OpResult result = RunOp(rounded);
    REQUIRE(result.status.ok());
    for (size_t i = 0; i < exact.outputs.size(); ++i) {
      CheckNear<float>(result.outputs[i], exact.outputs[i].values<double>(), 1e-5);
    }
  }
  return exact.outputs;
}

void CheckShape(const std::string& op, const Shape& s) {
  INFO(op << " of " << s.n << " x " << s.steps << " x " << s.units << ", masked " << s.masked
          << ", backwards " << s.backwards << ", from states " << s.from_states);
  const int64_t gates = op == "lstm" ? 4 : op == "gru" ? 3 : 1;
  const Tensor x = RandomTensor<double>({s.n, s.steps, gates * s.units}, -1, 1, 1);
  const Tensor kernel = RandomTensor<double>({s.units, gates * s.units}, -1, 1, 2);
  const Tensor bias = RandomTensor<double>({3 * s.units}, -1, 1, 3);
  const Attrs attrs = {{"backwards", s.backwards}};
  std::vector<Tensor> inputs = {x, kernel};
  if (op == "gru") inputs.push_back(bias);
  if (s.from_states) inputs.push_back(First(s, 5));
  if (s.from_states && op == "lstm") inputs.push_back(First(s, 6));
  if (s.masked) inputs.push_back(Mask(s));
  const std::vector<Tensor> out = RunInBoth({op, inputs, attrs});
  CheckNear<double>(out[0], States(op, s, x, kernel, op == "gru" ? &bias : nullptr), 1e-12);

  const Tensor grad = RandomTensor<double>({s.n, s.steps, s.units}, -1, 1, 4);
  inputs = {grad, kernel};
  if (op == "lstm") inputs.insert(inputs.end(), {out[2], out[1]});
  if (op == "gru") inputs.insert(inputs.end(), {out[0], out[1]});
  if (op == "simple_rnn") inputs.push_back(out[0]);
  if (op == "lstm" && s.from_states) {
    inputs.push_back(RandomTensor<double>({s.n, s.steps, s.units}, -1, 1, 7));
  }
  if (s.from_states) inputs.push_back(First(s, op == "lstm" ? 6 : 5));
  if (s.masked) inputs.push_back(Mask(s));
  RunInBoth({op + "_grad", inputs, attrs});
}

TEST_CASE(
    "recurrences compute the states of their definition, and their gradients in both dtypes") {
  for (const char* op : {"lstm", "gru", "simple_rnn"}) {
    for (const bool masked : {false, true}) {
      for (const bool backwards : {false, true}) {
        for (const bool from_states : {false, true}) {
          CheckShape(op, {3, 4, 5, masked, backwards, from_states});
          CheckShape(op, {13, 3, 33, masked, backwards, from_states});
        }
      }
    }
    CheckShape(op, {1, 1, 1, false, false});
    CheckShape(op, {2, 1, 3, false, false, true});
    CheckShape(op, {7, 2, 70, true, false});
  }
}

TEST_CASE("a recurrence refuses inputs of other shapes") {
  const Tensor x = RandomTensor<float>({2, 3, 8}, -1, 1, 1);
  const Tensor kernel = RandomTensor<float>({2, 8}, -1, 1, 2);
  const Tensor wide = RandomTensor<float>({2, 3, 9}, -1, 1, 1);
  const Tensor square = RandomTensor<float>({2, 2}, -1, 1, 1);
  const Tensor mask(DType::kBool, {2, 2});
  CHECK(RunOp({"lstm", {x, kernel}, {}}).status.ok());
  CHECK_THAT(RunOp({"lstm", {x, square}, {}}).status.ToString(),
             Catch::Contains("input 1 must be a kernel [units, 4 units], not float32[2, 2]"));
  CHECK_THAT(RunOp({"lstm", {wide, kernel}, {}}).status.ToString(),
             Catch::Contains("input 0 must be float32[2, 3, 8], not float32[2, 3, 9]"));
  CHECK_THAT(RunOp({"lstm", {x, kernel, mask}, {}}).status.ToString(),
             Catch::Contains("input 2 must be bool[2, 3], not bool[2, 2]"));
  CHECK_THAT(RunOp({"lstm", {x, kernel, square}, {}}).status.ToString(),
             Catch::Contains("it takes the states before the first step all or none"));
}

}  // namespace
}  // namespace cohort

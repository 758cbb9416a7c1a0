// batch_norm_train and batch_norm_grad, against sums in float64 by their definition.
#include "common/kernels/kernel_test_util.h"

namespace cohort {
namespace {

using testing::OpResult;
using testing::OpRun;
using testing::RandomTensor;
using testing::RunOp;

constexpr double kEpsilon = 1e-3;

OpResult Train(const Tensor& x, const Tensor& gamma, const Tensor& beta, int threads = 1) {
  OpResult result = RunOp({"batch_norm_train", {x, gamma, beta}, {{"epsilon", kEpsilon}}, threads});
  REQUIRE(result.status.ok());
  return result;
}

struct Reference {
  std::vector<double> y, mean, variance, dx, dgamma, dbeta;
};

template <typename T>
Reference Compute(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& grad) {
  const size_t channels = static_cast<size_t>(x.dims().back());
  const size_t rows = static_cast<size_t>(x.num_elements()) / channels;
  const double count = static_cast<double>(rows);
  Reference r;
  r.y.resize(rows * channels);
  r.dx.resize(rows * channels);
  for (size_t c = 0; c < channels; ++c) {
    const auto at = [&](const Tensor& t, size_t row) {
      return static_cast<double>(t.values<T>()[row * channels + c]);
    };
    double mean = 0, variance = 0, dgamma = 0, dbeta = 0;
    for (size_t i = 0; i < rows; ++i) mean += at(x, i) / count;
    for (size_t i = 0; i < rows; ++i) variance += std::pow(at(x, i) - mean, 2) / count;
    const double inverse = 1 / std::sqrt(variance + kEpsilon);
    for (size_t i = 0; i < rows; ++i) {
      const double normal = (at(x, i) - mean) * inverse;
      r.y[i * channels + c] = normal * at(gamma, 0) + at(beta, 0);
      dgamma += at(grad, i) * normal;
      dbeta += at(grad, i);
    }
    for (size_t i = 0; i < rows; ++i) {
      const double normal = (at(x, i) - mean) * inverse;
      r.dx[i * channels + c] =
          at(gamma, 0) * inverse * (at(grad, i) - dbeta / count - normal * dgamma / count);
    }
    r.mean.push_back(mean);
    r.variance.push_back(variance);
    r.dgamma.push_back(dgamma);
    r.dbeta.push_back(dbeta);
  }
  return r;
}

template <typename T>
void CheckClose(const Tensor& got, const std::vector<double>& want, double tolerance) {
  REQUIRE(static_cast<size_t>(got.num_elements()) == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    INFO("element " << i);
    REQUIRE(std::abs(static_cast<double>(got.values<T>()[i]) - want[i]) <=
            tolerance * std::max(1.0, std::abs(want[i])));
  }
}

TEMPLATE_TEST_CASE("batch normalization agrees with its definition", "", float, double) {
  using T = TestType;
  const double near = sizeof(T) == 4 ? 3e-6 : 1e-12;
  for (const Dims& dims : std::vector<Dims>{{1, 3}, {2, 1}, {7, 5}, {3, 9, 7, 16}, {900, 33}}) {
    INFO(DimsToString(dims));
    const Dims one = {dims.back()};
    const Tensor x = RandomTensor<T>(dims, -1, 3, 1), grad = RandomTensor<T>(dims, -1, 1, 2);
    const Tensor gamma = RandomTensor<T>(one, 0.5, 2, 3), beta = RandomTensor<T>(one, -1, 1, 4);
    const Reference want = Compute<T>(x, gamma, beta, grad);
    const OpResult train = Train(x, gamma, beta);
    CheckClose<T>(train.outputs[0], want.y, near);
    CheckClose<T>(train.outputs[1], want.mean, near);
    CheckClose<T>(train.outputs[2], want.variance, near);
    const OpResult back = RunOp({"batch_norm_grad",
                                 {grad, x, gamma, train.outputs[1], train.outputs[2]},
                                 {{"epsilon", kEpsilon}}});
    CheckClose<T>(back.outputs[0], want.dx, near * 30);  // 1 / sqrt(epsilon)
    CheckClose<T>(back.outputs[1], want.dgamma, near * 30);
    CheckClose<T>(back.outputs[2], want.dbeta, near * 10);
  }
}

TEST_CASE("the variance stays exact beside a large mean, and that of equal values is 0") {
  Tensor x = RandomTensor<float>({4096, 2}, -1, 1, 5);
  double sum = 0, squares = 0;
  for (size_t i = 0; i < 4096; ++i) {
    float& value = x.mutable_values<float>()[2 * i];
    value += 100000.0f;
    x.mutable_values<float>()[2 * i + 1] = 3e7f;
    sum += static_cast<double>(value) - 1e5;
    squares += std::pow(static_cast<double>(value) - 1e5, 2);
  }
  const Tensor ones = testing::Values<float>({2}, {1, 1});
  const OpResult result = Train(x, ones, ones);
  const double mean = sum / 4096, variance = squares / 4096 - mean * mean;
  CHECK(std::abs(static_cast<double>(result.outputs[2].values<float>()[0]) - variance) < 1e-6);
  CHECK(result.outputs[2].values<float>()[1] == 0);
  CHECK(result.outputs[1].values<float>()[1] == 3e7f);
}

TEMPLATE_TEST_CASE("batch normalization has the same bits with any number of threads", "", float,
                   double) {
  using T = TestType;
  const Dims dims = {37, 11, 5, 24}, one = {24};
  const Tensor x = RandomTensor<T>(dims, -1, 3, 1), grad = RandomTensor<T>(dims, -1, 1, 2);
  const Tensor gamma = RandomTensor<T>(one, 0.5, 2, 3), beta = RandomTensor<T>(one, -1, 1, 4);
  const OpResult first = Train(x, gamma, beta);
  const auto backward = [&](int threads) {
    return RunOp({"batch_norm_grad",
                  {grad, x, gamma, first.outputs[1], first.outputs[2]},
                  {{"epsilon", kEpsilon}},
                  threads});
  };
  const OpResult first_back = backward(1);
  for (const int threads : {2, 3}) {
    const OpResult again = Train(x, gamma, beta, threads), back = backward(threads);
    for (size_t i = 0; i < 3; ++i) {
      CHECK(std::ranges::equal(again.outputs[i].values<T>(), first.outputs[i].values<T>()));
      CHECK(std::ranges::equal(back.outputs[i].values<T>(), first_back.outputs[i].values<T>()));
    }
  }
}

TEMPLATE_TEST_CASE("without rows the statistics and gradients are 0", "", float, double) {
  const Tensor none(DTypeOf<TestType>(), {0, 3});
  const Tensor ones = testing::Values<TestType>({3}, {1, 1, 1});
  OpRun run = {"batch_norm_train", {none, ones, ones}, {{"epsilon", kEpsilon}}};
  run.batch_capacity = 4;
  for (size_t i = 1; i < 3; ++i) {
    const OpResult result = RunOp(run);
    for (const TestType v : result.outputs[i].values<TestType>()) CHECK(v == 0);
  }
  run = {"batch_norm_grad", {none, none, ones, ones, ones}, {{"epsilon", kEpsilon}}};
  run.batch_capacity = 4;
  run.batched = {0, 1};
  for (size_t i = 1; i < 3; ++i) {
    const OpResult result = RunOp(run);
    for (const TestType v : result.outputs[i].values<TestType>()) CHECK(v == 0);
  }
}

}  // namespace
}  // namespace cohort

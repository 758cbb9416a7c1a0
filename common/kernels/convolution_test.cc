// conv2d and its gradients: float64 against the definition, float32 (oneDNN) against float64, and
// the same bits for any number of threads.
#include "common/graph/ops/convolution.h"

#include "common/kernels/kernel_test_util.h"

namespace cohort {
namespace {

using testing::OpRun;
using testing::Output;
using testing::RandomTensor;

struct ConvCase {
  int64_t images, rows, columns, channels, filters;
  std::vector<int64_t> taps, strides, dilations, pads;
  int64_t groups = 1;
};

// Odd sizes, strides, dilation, uneven padding, windows that lie in the padding, groups, depthwise.
std::vector<ConvCase> ConvCases() {
  return {{1, 1, 1, 1, 1, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
          {3, 7, 5, 3, 8, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}},
          {2, 9, 8, 1, 32, {3, 3}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
          {2, 8, 7, 16, 24, {3, 2}, {2, 3}, {1, 1}, {0, 1, 2, 0}},
          {4, 11, 6, 5, 7, {3, 3}, {1, 1}, {2, 3}, {2, 2, 3, 3}},
          {2, 6, 9, 12, 18, {2, 3}, {2, 1}, {1, 1}, {1, 0, 1, 1}, 6},
          {3, 8, 8, 16, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 16},
          {3, 9, 7, 13, 13, {3, 3}, {2, 2}, {1, 1}, {0, 1, 1, 1}, 13},
          {2, 5, 6, 6, 18, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 6},
          {5, 1, 30, 8, 16, {1, 5}, {1, 2}, {1, 1}, {0, 0, 4, 0}},
          {2, 6, 6, 40, 16, {1, 1}, {2, 2}, {1, 1}, {0, 0, 0, 0}},
          {2, 3, 3, 4, 4, {3, 3}, {1, 1}, {1, 1}, {4, 4, 5, 3}},
          {9, 18, 19, 1, 32, {3, 3}, {1, 1}, {1, 1}, {0, 0, 0, 0}},
          {17, 12, 11, 3, 48, {3, 3}, {1, 2}, {1, 1}, {1, 1, 0, 2}},
          {5, 14, 9, 2, 16, {3, 2}, {2, 1}, {2, 3}, {2, 3, 1, 0}},
          {3, 6, 7, 32, 16, {1, 1}, {2, 3}, {1, 1}, {0, 0, 0, 0}}};
}

int64_t OutSize(const ConvCase& c, size_t axis) {
  const int64_t in = axis == 0 ? c.rows : c.columns;
  return (in + c.pads[2 * axis] + c.pads[2 * axis + 1] - (c.taps[axis] - 1) * c.dilations[axis] -
          1) /
             c.strides[axis] +
         1;
}

Attrs ConvCaseAttrs(const ConvCase& c, std::vector<int64_t> size = {}) {
  Attrs attrs = {
      {"strides", c.strides}, {"dilations", c.dilations}, {"pads", c.pads}, {"groups", c.groups}};
  if (!size.empty()) attrs["size"] = size;
  return attrs;
}

Dims ImageDims(const ConvCase& c) { return {c.images, c.rows, c.columns, c.channels}; }
Dims GradDims(const ConvCase& c) { return {c.images, OutSize(c, 0), OutSize(c, 1), c.filters}; }
Dims KernelDims(const ConvCase& c) {
  return {c.taps[0], c.taps[1], c.channels / c.groups, c.filters};
}

template <typename T>
OpRun Forward(const ConvCase& c) {
  return {"conv2d",
          {RandomTensor<T>(ImageDims(c), -1, 1, 1), RandomTensor<T>(KernelDims(c), -1, 1, 2)},
          ConvCaseAttrs(c)};
}
template <typename T>
OpRun InputGrad(const ConvCase& c) {
  return {"conv2d_input_grad",
          {RandomTensor<T>(GradDims(c), -1, 1, 3), RandomTensor<T>(KernelDims(c), -1, 1, 2)},
          ConvCaseAttrs(c, {c.rows, c.columns})};
}
template <typename T>
OpRun KernelGrad(const ConvCase& c) {
  return {"conv2d_kernel_grad",
          {RandomTensor<T>(ImageDims(c), -1, 1, 1), RandomTensor<T>(GradDims(c), -1, 1, 3)},
          ConvCaseAttrs(c, c.taps)};
}
template <typename T>
std::vector<OpRun> AllRuns(const ConvCase& c) {
  return {Forward<T>(c), InputGrad<T>(c), KernelGrad<T>(c)};
}

// Calls fn(element of x, of the kernel, of y) for every product of the convolution.
template <typename Fn>
void ForEachProduct(const ConvCase& c, const Fn& fn) {
  const int64_t in = c.channels / c.groups, out = c.filters / c.groups;
  for (int64_t n = 0; n < c.images; ++n) {
    for (int64_t y = 0; y < OutSize(c, 0); ++y) {
      for (int64_t x = 0; x < OutSize(c, 1); ++x) {
        for (int64_t t = 0; t < c.taps[0] * c.taps[1]; ++t) {
          const int64_t row = y * c.strides[0] - c.pads[0] + t / c.taps[1] * c.dilations[0];
          const int64_t col = x * c.strides[1] - c.pads[2] + t % c.taps[1] * c.dilations[1];
          if (row < 0 || row >= c.rows || col < 0 || col >= c.columns) continue;
          for (int64_t i = 0; i < in; ++i) {
            for (int64_t o = 0; o < c.filters; ++o) {
              fn(static_cast<size_t>(((n * c.rows + row) * c.columns + col) * c.channels +
                                     o / out * in + i),
                 static_cast<size_t>((t * in + i) * c.filters + o),
                 static_cast<size_t>(((n * OutSize(c, 0) + y) * OutSize(c, 1) + x) * c.filters +
                                     o));
            }
          }
        }
      }
    }
  }
}

void CheckNear(const Tensor& got, const std::vector<double>& want, double tolerance) {
  REQUIRE(static_cast<size_t>(got.num_elements()) == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    const double value = got.dtype() == DType::kFloat64
                             ? got.values<double>()[i]
                             : static_cast<double>(got.values<float>()[i]);
    INFO("element " << i);
    REQUIRE(std::abs(value - want[i]) <= tolerance * std::max(1.0, std::abs(want[i])));
  }
}

TEST_CASE("convolutions in float64 are sums over taps and channels") {
  for (const ConvCase& c : ConvCases()) {
    INFO(DimsToString(ImageDims(c)) << " by " << DimsToString(KernelDims(c)));
    const OpRun forward = Forward<double>(c), input = InputGrad<double>(c);
    const auto x = forward.inputs[0].values<double>(), kernel = forward.inputs[1].values<double>();
    const auto grad = input.inputs[0].values<double>();
    std::vector<double> y(grad.size(), 0), dx(x.size(), 0), dkernel(kernel.size(), 0);
    ForEachProduct(c, [&](size_t in, size_t k, size_t out) {
      y[out] += x[in] * kernel[k];
      dx[in] += grad[out] * kernel[k];
      dkernel[k] += grad[out] * x[in];
    });
    CheckNear(Output(forward), y, 1e-12);
    CheckNear(Output(input), dx, 1e-12);
    CheckNear(Output(KernelGrad<double>(c)), dkernel, 1e-12);
  }
}

TEST_CASE("convolutions in float32 agree with float64") {
  for (const ConvCase& c : ConvCases()) {
    INFO(DimsToString(ImageDims(c)) << " by " << DimsToString(KernelDims(c)));
    const auto exact = AllRuns<double>(c), fast = AllRuns<float>(c);
    for (size_t i = 0; i < exact.size(); ++i) {
      INFO(exact[i].op);
      const Tensor want = Output(exact[i]);
      CheckNear(Output(fast[i]), {want.values<double>().begin(), want.values<double>().end()},
                1e-4);
    }
  }
}

template <typename T>
std::vector<T> ValuesOf(const Tensor& t) {
  return {t.values<T>().begin(), t.values<T>().end()};
}

TEMPLATE_TEST_CASE("convolutions have the same bits with one, two and three threads", "", float,
                   double) {
  std::vector<ConvCase> cases = ConvCases();
  cases.push_back({21, 12, 12, 8, 24, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}});
  cases.push_back({19, 14, 14, 32, 32, {3, 3}, {2, 2}, {1, 1}, {0, 1, 0, 1}, 32});
  for (const ConvCase& c : cases) {
    for (OpRun& run : AllRuns<TestType>(c)) {
      INFO(run.op << " " << DimsToString(ImageDims(c)) << " by " << DimsToString(KernelDims(c)));
      const auto one = ValuesOf<TestType>(Output(run));
      for (const int threads : {2, 3}) {
        run.threads = threads;
        REQUIRE(ValuesOf<TestType>(Output(run)) == one);
      }
    }
  }
}

TEMPLATE_TEST_CASE("convolutions take fewer images than their capacity, and none", "", float,
                   double) {
  for (ConvCase c : ConvCases()) {
    for (const int64_t images : {0, 1, 4, 5}) {
      c.images = images;
      INFO(images << " of " << DimsToString(ImageDims(c)));
      for (size_t i = 0; i < 3; ++i) {
        OpRun run = AllRuns<TestType>(c)[i];
        if (i == 2) run.batched = {0, 1};
        if (images == 0) {
          run.batch_capacity = 13;
          const Tensor result = Output(run);
          for (const TestType value : result.values<TestType>()) REQUIRE(value == 0);
          continue;
        }
        const Tensor full = Output(run);
        run.batch_capacity = 13;
        const Tensor part = Output(run);
        REQUIRE(part.dims() == full.dims());
        CheckNear(part, {full.values<TestType>().begin(), full.values<TestType>().end()}, 1e-5);
      }
    }
  }
}

TEST_CASE("the outputs that a tap reaches are those whose windows have it inside") {
  for (const ConvCase& c : ConvCases()) {
    const ops::ConvAxis axis{c.columns,      OutSize(c, 1), c.taps[1], c.strides[1],
                             c.dilations[1], c.pads[2],     c.pads[3]};
    for (int64_t tap = 0; tap < axis.taps; ++tap) {
      for (int64_t o = 0; o < axis.out; ++o) {
        const bool inside = axis.place(o, tap) >= 0 && axis.place(o, tap) < axis.in;
        CHECK((o >= axis.first(tap) && o < axis.last(tap)) == inside);
      }
    }
  }
}

}  // namespace
}  // namespace cohort

// batch_norm_train and batch_norm_grad, as in batch_norm_cpu.cc, in three bodies:
//   1. a thread per part of the rows and channel sums two numbers per channel,
//   2. a group per channel adds the parts and computes what the channel's elements need,
//   3. a thread per element writes it.
// The order of the additions depends on shapes only. Channels are fastest, so that neighboring
// threads read neighboring memory.
#include <cmath>

#include "common/kernels/grid/grid.h"

namespace cohort::COHORT_GRID {
namespace {

constexpr int64_t kLeastPartRows = 8;

// How the rows are split: part p has the rows p, p + parts, ...
struct Parts {
  int64_t channels = 0;
  int64_t parts = 1;

  static Parts Of(const ValueType& x) {
    Parts p;
    p.channels = x.dims.back().size;
    if (p.channels == 0) return p;
    const int64_t rows = CapacityElements(x) / p.channels;
    p.parts = std::clamp<int64_t>(kBusyThreads / p.channels, 1,
                                  std::max<int64_t>(rows / kLeastPartRows, 1));
    return p;
  }
  int64_t threads() const { return parts * channels; }
  // Two sums per part and channel and, after them, three numbers per channel.
  size_t scratch_bytes() const {
    return static_cast<size_t>(2 * threads() + 3 * channels) * sizeof(double);
  }
};

// The memory of one run. sums[0][p * channels + c] and sums[1][...] are those of part p.
template <typename T>
struct Scratch {
  double* sums[2];
  T* factors[3];  // by channel

  static Scratch Of(const KernelContext& c, const Parts& p) {
    auto* first = reinterpret_cast<double*>(c.scratch);
    auto* factors = reinterpret_cast<T*>(first + 2 * p.threads());
    return {{first, first + p.threads()},
            {factors, factors + p.channels, factors + 2 * p.channels}};
  }
};

int64_t Rows(const ValueView& x, const Parts& p) {
  return p.channels == 0 ? 0 : x.elements / p.channels;
}

// Calls fn(row, &a, &b), which sets two numbers, for the rows of a part, and returns their sums.
// Four rows are added in T, the rest in double.
template <typename T, typename Fn>
COHORT_HD void SumPart(int64_t part, int64_t parts, int64_t rows, double* first, double* second,
                       const Fn& fn) {
  double all_a = 0, all_b = 0;
  T a[4], b[4];
  int64_t row = part;
  for (; row + 3 * parts < rows; row += 4 * parts) {
    for (int i = 0; i < 4; ++i) fn(row + i * parts, &a[i], &b[i]);
    all_a += static_cast<double>((a[0] + a[1]) + (a[2] + a[3]));
    all_b += static_cast<double>((b[0] + b[1]) + (b[2] + b[3]));
  }
  for (; row < rows; row += parts) {
    fn(row, &a[0], &b[0]);
    all_a += static_cast<double>(a[0]);
    all_b += static_cast<double>(b[0]);
  }
  *first = all_a;
  *second = all_b;
}

// The sum over the parts of one of the two numbers of a channel.
template <typename T>
COHORT_HD double SumOfParts(const Group& g, const Scratch<T>& scratch, const Parts& p, int number,
                            int64_t channel) {
  const double* sums = scratch.sums[number];
  return g.Sum<double>(p.parts, [&](int64_t i) { return sums[i * p.channels + channel]; });
}

// Sums of x - shift and of its square. `shift` is the channel's first value: differences from a
// value of the channel itself keep the variance exact if the mean is large.
template <typename T>
struct MomentsBody {
  const T* x;
  Scratch<T> scratch;
  Parts p;
  int64_t rows;

  COHORT_HD int64_t items() const { return p.parts * p.channels; }
  COHORT_HD void operator()(int64_t item) const {
    const int64_t channel = item % p.channels;
    const T shift = rows > 0 ? x[channel] : T{0};
    SumPart<T>(item / p.channels, p.parts, rows, &scratch.sums[0][item], &scratch.sums[1][item],
               [&](int64_t row, T* a, T* b) {
                 *a = x[row * p.channels + channel] - shift;
                 *b = *a * *a;
               });
  }
};

template <typename T>
struct StatisticsBody {
  const T* x;
  const T* gamma;
  const T* beta;
  T* mean;
  T* variance;
  Scratch<T> scratch;
  Parts p;
  int64_t rows;
  double epsilon;

  COHORT_HD int64_t items() const { return p.channels; }
  COHORT_HD void operator()(const Group& g, int64_t i) const {
    const double first = SumOfParts(g, scratch, p, 0, i);
    const double second = SumOfParts(g, scratch, p, 1, i);
    g.ForEach(1, [&](int64_t) {
      const double count = rows > 0 ? static_cast<double>(rows) : 1;
      const double shifted = first / count;
      const double difference = second / count - shifted * shifted;
      const double moment = difference < 0 ? 0 : difference;  // a NaN stays
      const double middle = rows > 0 ? static_cast<double>(x[i]) + shifted : 0;
      const double factor = static_cast<double>(gamma[i]) / std::sqrt(moment + epsilon);
      mean[i] = static_cast<T>(middle);
      variance[i] = static_cast<T>(moment);
      scratch.factors[0][i] = static_cast<T>(factor);
      scratch.factors[1][i] = static_cast<T>(static_cast<double>(beta[i]) - middle * factor);
    });
  }
};

// y = scale x + offset.
template <typename T>
struct ScaleBody {
  const T* x;
  T* y;
  Scratch<T> scratch;
  int64_t channels;
  int64_t n;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD void operator()(int64_t item) const {
    const int64_t i = item % channels;
    y[item] = x[item] * scratch.factors[0][i] + scratch.factors[1][i];
  }
};

// Sums of grad and of grad (x - mean).
template <typename T>
struct GradSumsBody {
  const T* grad;
  const T* x;
  const T* mean;
  Scratch<T> scratch;
  Parts p;
  int64_t rows;

  COHORT_HD int64_t items() const { return p.parts * p.channels; }
  COHORT_HD void operator()(int64_t item) const {
    const int64_t channel = item % p.channels;
    const T middle = mean[channel];
    SumPart<T>(item / p.channels, p.parts, rows, &scratch.sums[0][item], &scratch.sums[1][item],
               [&](int64_t row, T* a, T* b) {
                 const int64_t at = row * p.channels + channel;
                 *a = grad[at];
                 *b = *a * (x[at] - middle);
               });
  }
};

// dx = scale grad + slope (x - mean) + offset.
template <typename T>
struct GradFactorsBody {
  const T* gamma;
  const T* variance;
  T* dgamma;
  T* dbeta;
  Scratch<T> scratch;
  Parts p;
  int64_t rows;
  double epsilon;

  COHORT_HD int64_t items() const { return p.channels; }
  COHORT_HD void operator()(const Group& g, int64_t i) const {
    const double first = SumOfParts(g, scratch, p, 0, i);
    const double second = SumOfParts(g, scratch, p, 1, i);
    g.ForEach(1, [&](int64_t) {
      const double count = rows > 0 ? static_cast<double>(rows) : 1;
      const double inverse = 1 / std::sqrt(static_cast<double>(variance[i]) + epsilon);
      const double factor = static_cast<double>(gamma[i]) * inverse;
      dgamma[i] = static_cast<T>(second * inverse);
      dbeta[i] = static_cast<T>(first);
      scratch.factors[0][i] = static_cast<T>(factor);
      scratch.factors[1][i] = static_cast<T>(-factor * inverse * inverse * second / count);
      scratch.factors[2][i] = static_cast<T>(-factor * first / count);
    });
  }
};

template <typename T>
struct GradBody {
  const T* grad;
  const T* x;
  const T* mean;
  T* dx;
  Scratch<T> scratch;
  int64_t channels;
  int64_t n;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD void operator()(int64_t item) const {
    const int64_t i = item % channels;
    dx[item] = scratch.factors[0][i] * grad[item] +
               (scratch.factors[1][i] * (x[item] - mean[i]) + scratch.factors[2][i]);
  }
};

template <typename T>
DeviceKernelOr Train(const Parts& p, int64_t most, double epsilon) {
  return MakeSequence(
      {.scratch_bytes = p.scratch_bytes()},
      MakeGridKernel(
          p.threads(),
          [p](const KernelContext& c) {
            return MomentsBody<T>{c.in(0).as<T>(), Scratch<T>::Of(c, p), p, Rows(c.in(0), p)};
          }),
      MakeGridKernel(p.channels,
                     [p, epsilon](const KernelContext& c) {
                       return StatisticsBody<T>{c.in(0).as<T>(),
                                                c.in(1).as<T>(),
                                                c.in(2).as<T>(),
                                                c.out(1).as<T>(),
                                                c.out(2).as<T>(),
                                                Scratch<T>::Of(c, p),
                                                p,
                                                Rows(c.in(0), p),
                                                epsilon};
                     }),
      MakeGridKernel(most, [p](const KernelContext& c) {
        return ScaleBody<T>{c.in(0).as<T>(), c.out().as<T>(), Scratch<T>::Of(c, p), p.channels,
                            c.out().elements};
      }));
}

template <typename T>
DeviceKernelOr Grad(const Parts& p, int64_t most, double epsilon) {
  return MakeSequence(
      {.in_place = 1, .scratch_bytes = p.scratch_bytes()},
      MakeGridKernel(
          p.threads(),
          [p](const KernelContext& c) {
            return GradSumsBody<T>{
                c.in(0).as<T>(), c.in(1).as<T>(), c.in(3).as<T>(), Scratch<T>::Of(c, p), p,
                Rows(c.in(0), p)};
          }),
      MakeGridKernel(p.channels,
                     [p, epsilon](const KernelContext& c) {
                       return GradFactorsBody<T>{c.in(2).as<T>(),      c.in(4).as<T>(),
                                                 c.out(1).as<T>(),     c.out(2).as<T>(),
                                                 Scratch<T>::Of(c, p), p,
                                                 Rows(c.in(0), p),     epsilon};
                     }),
      MakeGridKernel(most, [p](const KernelContext& c) {
        return GradBody<T>{c.in(0).as<T>(),      c.in(1).as<T>(), c.in(3).as<T>(), c.out().as<T>(),
                           Scratch<T>::Of(c, p), p.channels,      c.out().elements};
      }));
}

}  // namespace

DeviceKernelOr CreateBatchNorm(const Node& node, const Program& program) {
  const ValueType& x = program.type(node.inputs[0]);
  const Parts parts = Parts::Of(x);
  const double epsilon = FloatAttr(node, "epsilon");
  const int64_t most = MostElements(node, program);
  return GridForFloating(node, x.dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    if (node.op == "batch_norm_grad") return Grad<T>(parts, most, epsilon);
    return Train<T>(parts, most, epsilon);
  });
}

}  // namespace cohort::COHORT_GRID

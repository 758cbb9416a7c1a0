// lstm, gru, simple_rnn and their gradients, as common/graph/ops/recurrence.cc has them. A group of
// threads walks through all steps of one example: first the products of the state, then the gates.
// The CPU runs float64 by these bodies.
#include "common/kernels/grid/grid.h"
#include "common/kernels/scalar_ops.h"

namespace cohort::COHORT_GRID {
namespace {

// The walk through a sequence.
struct StepWalk {
  int64_t n, steps, units;
  const bool* mask;  // null: none
  bool backwards;

  // The place of step s of the walk of an example among the steps of all examples.
  COHORT_HD int64_t At(int64_t item, int64_t s) const {
    return item * steps + (backwards ? steps - 1 - s : s);
  }
  // The place of the step before it; only for s > 0.
  COHORT_HD int64_t Before(int64_t at) const { return backwards ? at + 1 : at - 1; }
  COHORT_HD bool Keeps(int64_t at) const { return mask != nullptr && !mask[at]; }
};

// The sum of state[k] kernel[k, column].
template <typename T>
COHORT_HD T StateProduct(const T* state, const T* kernel, int64_t units, int64_t width,
                         int64_t column) {
  T sum = 0;
  for (int64_t k = 0; k < units; ++k) sum += state[k] * kernel[k * width + column];
  return sum;
}
// The sum of grad[j] kernel[row, j].
template <typename T>
COHORT_HD T GradProduct(const T* grad, const T* kernel, int64_t width, int64_t row) {
  T sum = 0;
  for (int64_t j = 0; j < width; ++j) sum += grad[j] * kernel[row * width + j];
  return sum;
}

template <typename T>
struct LstmBody {
  const T* x;
  const T* kernel;
  T* h;
  T* c;
  T* gates;
  StepWalk s;

  COHORT_HD int64_t items() const { return s.n; }
  COHORT_HD void operator()(const Group& g, int64_t item) const {
    const int64_t u = s.units;
    for (int64_t step = 0; step < s.steps; ++step) {
      const int64_t at = s.At(item, step), before = s.Before(at);
      T* const gate = gates + at * 4 * u;
      g.ForEach(4 * u, [&](int64_t j) {
        T sum = x[at * 4 * u + j];
        if (step > 0) sum += StateProduct(h + before * u, kernel, u, 4 * u, j);
        gate[j] = j / u == 2 ? scalar::Tanh::Of(sum) : scalar::Sigmoid::Of(sum);
      });
      g.ForEach(u, [&](int64_t j) {
        const T old = step > 0 ? c[before * u + j] : T{0};
        if (s.Keeps(at)) {
          c[at * u + j] = old;
          h[at * u + j] = step > 0 ? h[before * u + j] : T{0};
          return;
        }
        const T cell = gate[u + j] * old + gate[j] * gate[2 * u + j];
        c[at * u + j] = cell;
        h[at * u + j] = gate[3 * u + j] * scalar::Tanh::Of(cell);
      });
    }
  }
};

template <typename T>
struct LstmGradBody {
  const T* dh;
  const T* kernel;
  const T* gates;
  const T* c;
  T* dx;
  T* carried;  // [n, 2, units]: gradients of the state and of the cell of the step
  StepWalk s;

  COHORT_HD int64_t items() const { return s.n; }
  COHORT_HD void operator()(const Group& g, int64_t item) const {
    const int64_t u = s.units;
    T *const state = carried + item * 2 * u, *const cell = state + u;
    g.ForEach(2 * u, [&](int64_t j) { state[j] = 0; });
    for (int64_t step = s.steps; step-- > 0;) {
      const int64_t at = s.At(item, step), before = s.Before(at);
      T* const d = dx + at * 4 * u;
      const T* const gate = gates + at * 4 * u;
      const bool keeps = s.Keeps(at);
      g.ForEach(u, [&](int64_t j) {
        const T grad = dh[at * u + j] + state[j];
        if (keeps) {
          state[j] = grad;
          for (int64_t i = 0; i < 4; ++i) d[i * u + j] = 0;
          return;
        }
        const T i = gate[j], f = gate[u + j], z = gate[2 * u + j], o = gate[3 * u + j];
        const T t = scalar::Tanh::Of(c[at * u + j]);
        const T dc = cell[j] + grad * o * (1 - t * t);
        const T old = step > 0 ? c[before * u + j] : T{0};
        d[j] = dc * z * i * (1 - i);
        d[u + j] = dc * old * f * (1 - f);
        d[2 * u + j] = dc * i * (1 - z * z);
        d[3 * u + j] = grad * t * o * (1 - o);
        cell[j] = dc * f;
      });
      if (keeps || step == 0) continue;
      g.ForEach(u, [&](int64_t k) { state[k] = GradProduct(d, kernel, 4 * u, k); });
    }
  }
};

template <typename T>
struct GruBody {
  const T* x;
  const T* kernel;
  const T* bias;
  T* h;
  T* gates;  // update, reset, candidate, and the product of the state for the candidate
  StepWalk s;

  COHORT_HD int64_t items() const { return s.n; }
  COHORT_HD void operator()(const Group& g, int64_t item) const {
    const int64_t u = s.units;
    for (int64_t step = 0; step < s.steps; ++step) {
      const int64_t at = s.At(item, step), before = s.Before(at);
      T* const gate = gates + at * 4 * u;
      const T* const in = x + at * 3 * u;
      g.ForEach(3 * u, [&](int64_t j) {
        T sum = bias[j];
        if (step > 0) sum += StateProduct(h + before * u, kernel, u, 3 * u, j);
        gate[j < 2 * u ? j : j + u] = j < 2 * u ? scalar::Sigmoid::Of(in[j] + sum) : sum;
      });
      g.ForEach(u, [&](int64_t j) {
        const T old = step > 0 ? h[before * u + j] : T{0};
        const T candidate = scalar::Tanh::Of(in[2 * u + j] + gate[u + j] * gate[3 * u + j]);
        gate[2 * u + j] = candidate;
        h[at * u + j] = s.Keeps(at) ? old : gate[j] * old + (1 - gate[j]) * candidate;
      });
    }
  }
};

template <typename T>
struct GruGradBody {
  const T* dh;
  const T* kernel;
  const T* h;
  const T* gates;
  T* dx;
  T* dproduct;
  T* carried;  // [n, units]
  StepWalk s;

  COHORT_HD int64_t items() const { return s.n; }
  COHORT_HD void operator()(const Group& g, int64_t item) const {
    const int64_t u = s.units;
    T* const state = carried + item * u;
    g.ForEach(u, [&](int64_t j) { state[j] = 0; });
    for (int64_t step = s.steps; step-- > 0;) {
      const int64_t at = s.At(item, step), before = s.Before(at);
      T *const d = dx + at * 3 * u, *const p = dproduct + at * 3 * u;
      const T* const gate = gates + at * 4 * u;
      const bool keeps = s.Keeps(at);
      g.ForEach(u, [&](int64_t j) {
        const T grad = dh[at * u + j] + state[j];
        if (keeps) {
          state[j] = grad;
          for (int64_t i = 0; i < 3; ++i) d[i * u + j] = p[i * u + j] = 0;
          return;
        }
        const T z = gate[j], r = gate[u + j], candidate = gate[2 * u + j];
        const T old = step > 0 ? h[before * u + j] : T{0};
        const T dz = grad * (old - candidate) * z * (1 - z);
        const T dc = grad * (1 - z) * (1 - candidate * candidate);
        const T dr = dc * gate[3 * u + j] * r * (1 - r);
        d[j] = p[j] = dz;
        d[u + j] = p[u + j] = dr;
        d[2 * u + j] = dc;
        p[2 * u + j] = dc * r;
        state[j] = grad * z;
      });
      if (keeps || step == 0) continue;
      g.ForEach(u, [&](int64_t k) { state[k] += GradProduct(p, kernel, 3 * u, k); });
    }
  }
};

template <typename T>
struct SimpleRnnBody {
  const T* x;
  const T* kernel;
  T* h;
  StepWalk s;

  COHORT_HD int64_t items() const { return s.n; }
  COHORT_HD void operator()(const Group& g, int64_t item) const {
    const int64_t u = s.units;
    for (int64_t step = 0; step < s.steps; ++step) {
      const int64_t at = s.At(item, step), before = s.Before(at);
      g.ForEach(u, [&](int64_t j) {
        if (s.Keeps(at)) {
          h[at * u + j] = step > 0 ? h[before * u + j] : T{0};
          return;
        }
        T sum = x[at * u + j];
        if (step > 0) sum += StateProduct(h + before * u, kernel, u, u, j);
        h[at * u + j] = scalar::Tanh::Of(sum);
      });
    }
  }
};

template <typename T>
struct SimpleRnnGradBody {
  const T* dh;
  const T* kernel;
  const T* h;
  T* dx;
  T* carried;  // [n, units]
  StepWalk s;

  COHORT_HD int64_t items() const { return s.n; }
  COHORT_HD void operator()(const Group& g, int64_t item) const {
    const int64_t u = s.units;
    T* const state = carried + item * u;
    g.ForEach(u, [&](int64_t j) { state[j] = 0; });
    for (int64_t step = s.steps; step-- > 0;) {
      const int64_t at = s.At(item, step);
      T* const d = dx + at * u;
      const bool keeps = s.Keeps(at);
      g.ForEach(u, [&](int64_t j) {
        const T grad = dh[at * u + j] + state[j], value = h[at * u + j];
        if (keeps) state[j] = grad;
        d[j] = keeps ? T{0} : grad * (1 - value * value);
      });
      if (keeps || step == 0) continue;
      g.ForEach(u, [&](int64_t k) { state[k] = GradProduct(d, kernel, u, k); });
    }
  }
};

// The walk of a node; `mask` is the number of its input that may be the mask.
struct RecurrenceMaker {
  int64_t units, examples;
  size_t mask;
  bool masked, backwards;

  StepWalk Of(const KernelContext& c) const {
    return {c.in(0).dims[0], c.in(0).dims[1], units, masked ? c.in(mask).as<bool>() : nullptr,
            backwards};
  }
};

template <typename T>
std::unique_ptr<DeviceKernel> RecurrenceForward(const Node& node, const RecurrenceMaker& m) {
  if (node.op == "lstm") {
    return MakeGridKernel(m.examples, [m](const KernelContext& c) {
      return LstmBody<T>{c.in(0).as<T>(),  c.in(1).as<T>(),  c.out(0).as<T>(),
                         c.out(1).as<T>(), c.out(2).as<T>(), m.Of(c)};
    });
  }
  if (node.op == "gru") {
    return MakeGridKernel(m.examples, [m](const KernelContext& c) {
      return GruBody<T>{c.in(0).as<T>(),  c.in(1).as<T>(),  c.in(2).as<T>(),
                        c.out(0).as<T>(), c.out(1).as<T>(), m.Of(c)};
    });
  }
  return MakeGridKernel(m.examples, [m](const KernelContext& c) {
    return SimpleRnnBody<T>{c.in(0).as<T>(), c.in(1).as<T>(), c.out().as<T>(), m.Of(c)};
  });
}

template <typename T>
std::unique_ptr<DeviceKernel> RecurrenceBackward(const Node& node, const RecurrenceMaker& m) {
  const int64_t carried = m.examples * m.units * (node.op == "lstm_grad" ? 2 : 1);
  GridTraits traits{.scratch_bytes = static_cast<size_t>(carried) * sizeof(T)};
  if (node.op == "lstm_grad") {
    return MakeGridKernel(
        m.examples,
        [m](const KernelContext& c) {
          return LstmGradBody<T>{c.in(0).as<T>(), c.in(1).as<T>(), c.in(2).as<T>(),
                                 c.in(3).as<T>(), c.out().as<T>(), reinterpret_cast<T*>(c.scratch),
                                 m.Of(c)};
        },
        std::move(traits));
  }
  if (node.op == "gru_grad") {
    return MakeGridKernel(
        m.examples,
        [m](const KernelContext& c) {
          return GruGradBody<T>{c.in(0).as<T>(),
                                c.in(1).as<T>(),
                                c.in(2).as<T>(),
                                c.in(3).as<T>(),
                                c.out(0).as<T>(),
                                c.out(1).as<T>(),
                                reinterpret_cast<T*>(c.scratch),
                                m.Of(c)};
        },
        std::move(traits));
  }
  return MakeGridKernel(
      m.examples,
      [m](const KernelContext& c) {
        return SimpleRnnGradBody<T>{c.in(0).as<T>(),
                                    c.in(1).as<T>(),
                                    c.in(2).as<T>(),
                                    c.out().as<T>(),
                                    reinterpret_cast<T*>(c.scratch),
                                    m.Of(c)};
      },
      std::move(traits));
}

}  // namespace

DeviceKernelOr CreateRecurrence(const Node& node, const Program& program) {
  const ValueType &x = program.type(node.inputs[0]), &kernel = program.type(node.inputs[1]);
  RecurrenceMaker m{.units = kernel.dims[0].size,
                    .examples = x.dims[0].size,
                    .mask = node.inputs.size() - 1,
                    .masked = program.type(node.inputs.back()).dtype == DType::kBool,
                    .backwards = BoolAttr(node, "backwards")};
  const bool is_gradient = node.op.ends_with("_grad");
  return GridForFloating(node, x.dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    return is_gradient ? RecurrenceBackward<T>(node, m) : RecurrenceForward<T>(node, m);
  });
}

}  // namespace cohort::COHORT_GRID

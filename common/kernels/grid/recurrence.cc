// lstm, gru, simple_rnn and their gradients, as common/graph/ops/recurrence.cc has them. A group of
// threads walks through all steps of one example: first the products of the state, then the gates.
// The CPU runs float64 by these bodies.
#include "common/kernels/grid/grid.h"
#include "common/kernels/recurrence_inputs.h"
#include "common/kernels/scalar_ops.h"

namespace cohort::COHORT_GRID {
namespace {

// The walk through a sequence.
struct StepWalk {
  int64_t n, steps, units;
  const bool* mask;  // null: none
  bool backwards;
  bool has_first;  // there are states before the first step; else these are 0

  // The place of step s of the walk of an example among the steps of all examples.
  COHORT_HD int64_t At(int64_t item, int64_t s) const {
    return item * steps + (backwards ? steps - 1 - s : s);
  }
  COHORT_HD bool Keeps(int64_t at) const { return mask != nullptr && !mask[at]; }
  // True if the state before step s may differ from 0.
  COHORT_HD bool HasOld(int64_t s) const { return s > 0 || has_first; }
  // The state, or the cell, before step s, whose place is `at`; null if it is 0. `all` are those of
  // all steps, and `first` those before the first one.
  template <typename T>
  COHORT_HD const T* Old(const T* all, const T* first, int64_t item, int64_t s, int64_t at) const {
    if (s > 0) return all + (backwards ? at + 1 : at - 1) * units;
    return has_first ? first + item * units : nullptr;
  }
};

template <typename T>
COHORT_HD T ValueOr0(const T* values, int64_t j) {
  return values == nullptr ? T{0} : values[j];
}

// The sum of state[k] kernel[k, column]; 0 for no state.
template <typename T>
COHORT_HD T StateProduct(const T* state, const T* kernel, int64_t units, int64_t width,
                         int64_t column) {
  T sum = 0;
  if (state == nullptr) return sum;
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
  const T* first_h;
  const T* first_c;
  T* h;
  T* c;
  T* gates;
  StepWalk s;

  COHORT_HD int64_t items() const { return s.n; }
  COHORT_HD void operator()(const Group& g, int64_t item) const {
    const int64_t u = s.units;
    for (int64_t step = 0; step < s.steps; ++step) {
      const int64_t at = s.At(item, step);
      const T *const old_h = s.Old(h, first_h, item, step, at), *const old_c = s.Old(
                                                                    c, first_c, item, step, at);
      T* const gate = gates + at * 4 * u;
      g.ForEach(4 * u, [&](int64_t j) {
        const T sum = x[at * 4 * u + j] + StateProduct(old_h, kernel, u, 4 * u, j);
        gate[j] = j / u == 2 ? scalar::Tanh::Of(sum) : scalar::Sigmoid::Of(sum);
      });
      g.ForEach(u, [&](int64_t j) {
        const T old = ValueOr0(old_c, j);
        if (s.Keeps(at)) {
          c[at * u + j] = old;
          h[at * u + j] = ValueOr0(old_h, j);
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
struct GruBody {
  const T* x;
  const T* kernel;
  const T* bias;
  const T* first;
  T* h;
  T* gates;  // update, reset, candidate, and the product of the state for the candidate
  StepWalk s;

  COHORT_HD int64_t items() const { return s.n; }
  COHORT_HD void operator()(const Group& g, int64_t item) const {
    const int64_t u = s.units;
    for (int64_t step = 0; step < s.steps; ++step) {
      const int64_t at = s.At(item, step);
      const T* const old_h = s.Old(h, first, item, step, at);
      T* const gate = gates + at * 4 * u;
      const T* const in = x + at * 3 * u;
      g.ForEach(3 * u, [&](int64_t j) {
        const T sum = bias[j] + StateProduct(old_h, kernel, u, 3 * u, j);
        gate[j < 2 * u ? j : j + u] = j < 2 * u ? scalar::Sigmoid::Of(in[j] + sum) : sum;
      });
      g.ForEach(u, [&](int64_t j) {
        const T old = ValueOr0(old_h, j);
        const T candidate = scalar::Tanh::Of(in[2 * u + j] + gate[u + j] * gate[3 * u + j]);
        gate[2 * u + j] = candidate;
        h[at * u + j] = s.Keeps(at) ? old : gate[j] * old + (1 - gate[j]) * candidate;
      });
    }
  }
};

template <typename T>
struct SimpleRnnBody {
  const T* x;
  const T* kernel;
  const T* first;
  T* h;
  StepWalk s;

  COHORT_HD int64_t items() const { return s.n; }
  COHORT_HD void operator()(const Group& g, int64_t item) const {
    const int64_t u = s.units;
    for (int64_t step = 0; step < s.steps; ++step) {
      const int64_t at = s.At(item, step);
      const T* const old_h = s.Old(h, first, item, step, at);
      g.ForEach(u, [&](int64_t j) {
        h[at * u + j] =
            s.Keeps(at) ? ValueOr0(old_h, j)
                        : scalar::Tanh::Of(x[at * u + j] + StateProduct(old_h, kernel, u, u, j));
      });
    }
  }
};

// A step of the walk of a gradient, from the last step to the first.
template <typename T>
struct StateGradStep {
  int64_t item, s, at;
  bool keeps;
  T grad;  // with respect to the state after the step
};

// What the gradients of the cells have in common: how a gradient walks through the states. `Cell`
// sets the gradients of unit j of a step, and returns the part of that of the state before the step
// which does not flow through its product with the kernel. `Cell::grads` has those of the products.
template <typename Cell>
struct StateGradBody {
  using T = typename Cell::Number;
  const T* dh;
  const T* kernel;
  T* dfirst;  // [n, units], the state before the first step; before, the state of each step
  Cell cell;
  StepWalk s;

  COHORT_HD int64_t items() const { return s.n; }
  COHORT_HD void operator()(const Group& g, int64_t item) const {
    const int64_t u = s.units, width = Cell::kGates * u;
    T* const state = dfirst + item * u;
    const auto clear = [&](int64_t j) {
      state[j] = 0;
      cell.Clear(item * u + j);
    };
    g.ForEach(u, clear);
    for (int64_t step = s.steps; step-- > 0;) {
      const int64_t at = s.At(item, step);
      const bool keeps = s.Keeps(at);
      g.ForEach(u, [&](int64_t j) {
        const T grad = dh[at * u + j] + state[j];
        state[j] = cell.Step(s, StateGradStep<T>{item, step, at, keeps, grad}, j);
      });
      if (keeps || !s.HasOld(step)) continue;
      const T* const grads = cell.grads + at * width;
      g.ForEach(u, [&](int64_t k) { state[k] += GradProduct(grads, kernel, width, k); });
    }
    if (!s.has_first) g.ForEach(u, clear);
  }
};

template <typename T>
struct LstmGradCell {
  using Number = T;
  static constexpr int64_t kGates = 4;
  T* grads;  // dx
  const T* gates;
  const T* c;
  const T* first_c;
  const T* dc;  // the gradient at all steps; null: 0
  T* dfirst_c;  // [n, units]

  COHORT_HD void Clear(int64_t i) const { dfirst_c[i] = 0; }
  COHORT_HD T Step(const StepWalk& s, const StateGradStep<T>& step, int64_t j) const {
    const int64_t u = s.units, at = step.at;
    T* const d = grads + at * 4 * u;
    T& cell = dfirst_c[step.item * u + j];
    if (dc != nullptr) cell += dc[at * u + j];
    if (step.keeps) {
      for (int64_t i = 0; i < 4; ++i) d[i * u + j] = 0;
      return step.grad;
    }
    const T* const gate = gates + at * 4 * u;
    const T i = gate[j], f = gate[u + j], z = gate[2 * u + j], o = gate[3 * u + j];
    const T t = scalar::Tanh::Of(c[at * u + j]);
    const T dcell = cell + step.grad * o * (1 - t * t);
    const T old = ValueOr0(s.Old(c, first_c, step.item, step.s, at), j);
    d[j] = dcell * z * i * (1 - i);
    d[u + j] = dcell * old * f * (1 - f);
    d[2 * u + j] = dcell * i * (1 - z * z);
    d[3 * u + j] = step.grad * t * o * (1 - o);
    cell = dcell * f;
    return 0;
  }
};

template <typename T>
struct GruGradCell {
  using Number = T;
  static constexpr int64_t kGates = 3;
  T* grads;  // with respect to the products
  const T* h;
  const T* first;
  const T* gates;
  T* dx;

  COHORT_HD void Clear(int64_t) const {}
  COHORT_HD T Step(const StepWalk& s, const StateGradStep<T>& step, int64_t j) const {
    const int64_t u = s.units, at = step.at;
    T *const d = dx + at * 3 * u, *const p = grads + at * 3 * u;
    if (step.keeps) {
      for (int64_t i = 0; i < 3; ++i) d[i * u + j] = p[i * u + j] = 0;
      return step.grad;
    }
    const T* const gate = gates + at * 4 * u;
    const T z = gate[j], r = gate[u + j], candidate = gate[2 * u + j];
    const T old = ValueOr0(s.Old(h, first, step.item, step.s, at), j);
    const T dz = step.grad * (old - candidate) * z * (1 - z);
    const T dc = step.grad * (1 - z) * (1 - candidate * candidate);
    const T dr = dc * gate[3 * u + j] * r * (1 - r);
    d[j] = p[j] = dz;
    d[u + j] = p[u + j] = dr;
    d[2 * u + j] = dc;
    p[2 * u + j] = dc * r;
    return step.grad * z;
  }
};

template <typename T>
struct SimpleRnnGradCell {
  using Number = T;
  static constexpr int64_t kGates = 1;
  T* grads;  // dx
  const T* h;

  COHORT_HD void Clear(int64_t) const {}
  COHORT_HD T Step(const StepWalk& s, const StateGradStep<T>& step, int64_t j) const {
    const T value = h[step.at * s.units + j];
    grads[step.at * s.units + j] = step.keeps ? T{0} : step.grad * (1 - value * value);
    return step.keeps ? step.grad : T{0};
  }
};

struct RecurrenceMaker {
  int64_t units, examples;
  RecurrenceInputs optional;
  bool backwards;

  StepWalk Of(const KernelContext& c) const {
    const bool* const mask = optional.mask == 0 ? nullptr : c.in(optional.mask).as<bool>();
    return {c.in(0).dims[0], c.in(0).dims[1], units, mask, backwards, optional.state != 0};
  }
  // An optional input; null if the node has none.
  template <typename T>
  static const T* In(const KernelContext& c, size_t number) {
    return number == 0 ? nullptr : c.in(number).as<T>();
  }
};

template <typename T>
std::unique_ptr<DeviceKernel> RecurrenceForward(const Node& node, const RecurrenceMaker& m) {
  if (node.op == "lstm") {
    return MakeGridKernel(m.examples, [m](const KernelContext& c) {
      return LstmBody<T>{c.in(0).as<T>(),
                         c.in(1).as<T>(),
                         m.In<T>(c, m.optional.state),
                         m.In<T>(c, m.optional.cell),
                         c.out(0).as<T>(),
                         c.out(1).as<T>(),
                         c.out(2).as<T>(),
                         m.Of(c)};
    });
  }
  if (node.op == "gru") {
    return MakeGridKernel(m.examples, [m](const KernelContext& c) {
      return GruBody<T>{
          c.in(0).as<T>(),  c.in(1).as<T>(),  c.in(2).as<T>(), m.In<T>(c, m.optional.state),
          c.out(0).as<T>(), c.out(1).as<T>(), m.Of(c)};
    });
  }
  return MakeGridKernel(m.examples, [m](const KernelContext& c) {
    return SimpleRnnBody<T>{c.in(0).as<T>(), c.in(1).as<T>(), m.In<T>(c, m.optional.state),
                            c.out().as<T>(), m.Of(c)};
  });
}

// The body of a gradient, whose output `first` is that of the state before the first step.
template <typename Cell>
StateGradBody<Cell> StateGradBodyOf(const KernelContext& c, const RecurrenceMaker& m, size_t first,
                                    Cell cell) {
  using T = typename Cell::Number;
  return {c.in(0).as<T>(), c.in(1).as<T>(), c.out(first).as<T>(), cell, m.Of(c)};
}

template <typename T>
std::unique_ptr<DeviceKernel> RecurrenceBackward(const Node& node, const RecurrenceMaker& m) {
  if (node.op == "lstm_grad") {
    return MakeGridKernel(m.examples, [m](const KernelContext& c) {
      return StateGradBodyOf(c, m, 1,
                             LstmGradCell<T>{c.out(0).as<T>(), c.in(2).as<T>(), c.in(3).as<T>(),
                                             m.In<T>(c, m.optional.state),
                                             m.In<T>(c, m.optional.cell_grads), c.out(2).as<T>()});
    });
  }
  if (node.op == "gru_grad") {
    return MakeGridKernel(m.examples, [m](const KernelContext& c) {
      return StateGradBodyOf(
          c, m, 2,
          GruGradCell<T>{c.out(1).as<T>(), c.in(2).as<T>(), m.In<T>(c, m.optional.state),
                         c.in(3).as<T>(), c.out(0).as<T>()});
    });
  }
  return MakeGridKernel(m.examples, [m](const KernelContext& c) {
    return StateGradBodyOf(c, m, 1, SimpleRnnGradCell<T>{c.out(0).as<T>(), c.in(2).as<T>()});
  });
}

}  // namespace

DeviceKernelOr CreateRecurrence(const Node& node, const Program& program) {
  const ValueType &x = program.type(node.inputs[0]), &kernel = program.type(node.inputs[1]);
  const RecurrenceMaker m{.units = kernel.dims[0].size,
                          .examples = x.dims[0].size,
                          .optional = RecurrenceInputsOf(node, program),
                          .backwards = BoolAttr(node, "backwards")};
  const bool is_gradient = node.op.ends_with("_grad");
  return GridForFloating(node, x.dtype, [&](auto t) -> DeviceKernelOr {
    using T = decltype(t);
    return is_gradient ? RecurrenceBackward<T>(node, m) : RecurrenceForward<T>(node, m);
  });
}

}  // namespace cohort::COHORT_GRID

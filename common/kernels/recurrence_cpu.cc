// lstm, gru, simple_rnn and their gradients: float32 by recurrence_float.h, float64 by the bodies
// of devices. The kernel of the states is packed once for all steps. A thread walks through all
// steps of its examples, which do not depend on others.
#include <algorithm>

#include "common/base/thread_pool.h"
#include "common/kernels/convolution.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/float_math.h"
#include "common/kernels/recurrence_float.h"
#include "common/kernels/recurrence_inputs.h"

namespace cohort {
namespace {

// Multiplications below which examples are not split over threads.
constexpr int64_t kRecurrenceGrain = 1 << 19;

struct RecurrenceSizes {
  int64_t units = 0;
  int64_t gates = 0;     // the kernel is [units, gates units]
  int64_t examples = 0;  // at full capacity
  RecurrenceInputs optional;
  bool backwards = false;

  int64_t width() const { return gates * units; }
};

// The examples of a thread at one step of their walk.
struct RecurrenceStep {
  int64_t at = 0;       // the place of the first example's step
  int64_t before = 0;   // that of the step before; -1 for the first one
  int64_t example = 0;  // the first one
  int64_t rows = 0;
  int64_t steps = 0;     // places from one example to the next
  bool has_old = false;  // the states before the step may differ from 0
  const float* zeros = nullptr;
  const bool* mask = nullptr;

  bool keeps(int64_t row) const { return mask != nullptr && !mask[at + row * steps]; }
  int64_t place(int64_t row) const { return at + row * steps; }
  // The states, or the cells, before this step: of `all` steps, or those before the first one,
  // which are zeros unless they are given.
  FloatRows Old(const float* all, const float* first, int64_t units) const {
    if (before >= 0) return {all + before * units, steps * units};
    return first == nullptr ? FloatRows{zeros, 0} : FloatRows{first + example * units, units};
  }
};

// What the kernels share: the packed matrix, zeros, and `row_floats` of memory for each example.
class RecurrenceKernel : public Kernel {
 public:
  RecurrenceKernel(const RecurrenceSizes& s, bool is_gradient, int64_t row_floats)
      : s_(s), is_gradient_(is_gradient), row_floats_(row_floats) {}

  size_t scratch_bytes() const override {
    return AlignScratch(PackedBytes()) + AlignScratch(ZeroBytes()) +
           static_cast<size_t>(s_.examples * row_floats_) * sizeof(float);
  }

  absl::Status Run(const KernelContext& c) const override {
    float* const packed = reinterpret_cast<float*>(c.scratch);
    float* const zeros = reinterpret_cast<float*>(c.scratch + AlignScratch(PackedBytes()));
    float* const rows = reinterpret_cast<float*>(c.scratch + AlignScratch(PackedBytes()) +
                                                 AlignScratch(ZeroBytes()));
    // The gradient multiplies by the transposed kernel.
    const int64_t k = is_gradient_ ? s_.width() : s_.units;
    const int64_t n = is_gradient_ ? s_.units : s_.width();
    PackFloat(c.in(1).as<float>(), is_gradient_, k, n, packed);
    std::fill_n(zeros, s_.units, 0.0f);
    const int64_t steps = c.in(0).dims[1];
    c.pool->ParallelFor(c.in(0).dims[0], RowGrain(steps * s_.units * s_.width(), kRecurrenceGrain),
                        [&](int64_t begin, int64_t end) {
                          RecurrenceStep step{.example = begin,
                                              .rows = end - begin,
                                              .steps = steps,
                                              .zeros = zeros,
                                              .mask = s_.optional.mask == 0
                                                          ? nullptr
                                                          : c.in(s_.optional.mask).as<bool>()};
                          RunSteps(c, step, packed, rows + begin * row_floats_);
                        });
    return absl::OkStatus();
  }

 protected:
  virtual void RunStep(const KernelContext& c, const RecurrenceStep& step, const float* packed,
                       float* rows) const = 0;
  // The gradients with respect to the states before the first step, [n, units] each. They hold
  // those of each step before.
  virtual std::vector<float*> FirstGrads(const KernelContext&) const { return {}; }

  // An optional input; null if the node has none.
  static const float* In(const KernelContext& c, size_t number) {
    return number == 0 ? nullptr : c.in(number).as<float>();
  }
  // to = from + h b, of the states h before this step.
  void AddProducts(const RecurrenceStep& step, FloatRows h, const float* packed, FloatRows from,
                   float* to, int64_t to_step) const {
    MultiplyPackedFloat(step.rows, s_.width(), s_.units, h, packed, from, to, to_step);
  }
  // states += grads b', of the gradients of the products of this step.
  void AddProductsBack(const RecurrenceStep& step, const float* grads, const float* packed,
                       float* states) const {
    const FloatRows all = {grads + step.at * s_.width(), step.steps * s_.width()};
    MultiplyPackedFloat(step.rows, s_.units, s_.width(), all, packed, {states, s_.units}, states,
                        s_.units);
  }
  void Copy(const float* from, int64_t count, float* to) const { std::copy_n(from, count, to); }
  // Adds `units` numbers.
  void AddTo(const float* from, float* to) const {
    for (int64_t j = 0; j < s_.units; ++j) to[j] += from[j];
  }

  const RecurrenceSizes s_;

 private:
  void RunSteps(const KernelContext& c, RecurrenceStep step, const float* packed,
                float* rows) const {
    const auto clear = [&] {
      for (float* const all : FirstGrads(c)) {
        std::fill_n(all + step.example * s_.units, step.rows * s_.units, 0.0f);
      }
    };
    clear();
    for (int64_t i = 0; i < step.steps; ++i) {
      const int64_t number = is_gradient_ ? step.steps - 1 - i : i;
      const bool first = number == 0;
      step.at = step.example * step.steps + (s_.backwards ? step.steps - 1 - number : number);
      step.before = first ? -1 : s_.backwards ? step.at + 1 : step.at - 1;
      step.has_old = !first || s_.optional.state != 0;
      RunStep(c, step, packed, rows);
    }
    if (s_.optional.state == 0) clear();
  }
  size_t PackedBytes() const {
    const int64_t floats =
        std::max(PackedFloats(s_.units, s_.width()), PackedFloats(s_.width(), s_.units));
    return static_cast<size_t>(floats) * sizeof(float);
  }
  size_t ZeroBytes() const { return static_cast<size_t>(s_.units) * sizeof(float); }

  const bool is_gradient_;
  const int64_t row_floats_;
};

class LstmKernel : public RecurrenceKernel {
 public:
  explicit LstmKernel(const RecurrenceSizes& s) : RecurrenceKernel(s, false, 0) {}

 protected:
  void RunStep(const KernelContext& context, const RecurrenceStep& step, const float* packed,
               float*) const override {
    const int64_t u = s_.units;
    const float* const x = context.in(0).as<float>();
    float* const h = context.out(0).as<float>();
    float* const c = context.out(1).as<float>();
    float* const gates = context.out(2).as<float>();
    const FloatRows old_h = step.Old(h, In(context, s_.optional.state), u);
    const FloatRows old_c = step.Old(c, In(context, s_.optional.cell), u);
    if (step.has_old) {
      AddProducts(step, old_h, packed, {x + step.at * 4 * u, step.steps * 4 * u},
                  gates + step.at * 4 * u, step.steps * 4 * u);
    }
    for (int64_t row = 0; row < step.rows; ++row) {
      const int64_t at = step.place(row);
      if (!step.has_old) Copy(x + at * 4 * u, 4 * u, gates + at * 4 * u);
      LstmRowFloat(u, gates + at * 4 * u, old_c.row(row), c + at * u, h + at * u);
      if (!step.keeps(row)) continue;
      Copy(old_c.row(row), u, c + at * u);
      Copy(old_h.row(row), u, h + at * u);
    }
  }
};

class LstmGradKernel : public RecurrenceKernel {
 public:
  explicit LstmGradKernel(const RecurrenceSizes& s) : RecurrenceKernel(s, true, 0) {}

 protected:
  std::vector<float*> FirstGrads(const KernelContext& context) const override {
    return {context.out(1).as<float>(), context.out(2).as<float>()};
  }

  void RunStep(const KernelContext& context, const RecurrenceStep& step, const float* packed,
               float*) const override {
    const int64_t u = s_.units;
    const float* const dh = context.in(0).as<float>();
    const float* const gates = context.in(2).as<float>();
    const float* const c = context.in(3).as<float>();
    const float* const dc = In(context, s_.optional.cell_grads);
    float* const dx = context.out(0).as<float>();
    float* const states = context.out(1).as<float>() + step.example * u;
    float* const cells = context.out(2).as<float>() + step.example * u;
    const FloatRows old_c = step.Old(c, In(context, s_.optional.state), u);
    for (int64_t row = 0; row < step.rows; ++row) {
      const int64_t at = step.place(row);
      float *const state = states + row * u, *const cell = cells + row * u;
      if (dc != nullptr) AddTo(dc + at * u, cell);
      if (step.keeps(row)) {
        AddTo(dh + at * u, state);
        std::fill_n(dx + at * 4 * u, 4 * u, 0.0f);
        continue;
      }
      LstmGradRowFloat(u, dh + at * u, gates + at * 4 * u, c + at * u, old_c.row(row), state, cell,
                       dx + at * 4 * u);
    }
    if (step.has_old) AddProductsBack(step, dx, packed, states);
  }
};

class GruKernel : public RecurrenceKernel {
 public:
  explicit GruKernel(const RecurrenceSizes& s) : RecurrenceKernel(s, false, 3 * s.units) {}

 protected:
  void RunStep(const KernelContext& context, const RecurrenceStep& step, const float* packed,
               float* rows) const override {
    const int64_t u = s_.units;
    const float* const x = context.in(0).as<float>();
    const float* const bias = context.in(2).as<float>();
    float* const h = context.out(0).as<float>();
    float* const gates = context.out(1).as<float>();
    const FloatRows old = step.Old(h, In(context, s_.optional.state), u);
    if (step.has_old) AddProducts(step, old, packed, {bias, 0}, rows, 3 * u);
    for (int64_t row = 0; row < step.rows; ++row) {
      const int64_t at = step.place(row);
      const float* const product = step.has_old ? rows + row * 3 * u : bias;
      GruRowFloat(u, x + at * 3 * u, product, old.row(row), gates + at * 4 * u, h + at * u);
      if (step.keeps(row)) Copy(old.row(row), u, h + at * u);
    }
  }
};

class GruGradKernel : public RecurrenceKernel {
 public:
  explicit GruGradKernel(const RecurrenceSizes& s) : RecurrenceKernel(s, true, 0) {}

 protected:
  std::vector<float*> FirstGrads(const KernelContext& context) const override {
    return {context.out(2).as<float>()};
  }

  void RunStep(const KernelContext& context, const RecurrenceStep& step, const float* packed,
               float*) const override {
    const int64_t u = s_.units;
    const float* const dh = context.in(0).as<float>();
    const float* const h = context.in(2).as<float>();
    const float* const gates = context.in(3).as<float>();
    float* const dx = context.out(0).as<float>();
    float* const dproduct = context.out(1).as<float>();
    float* const states = context.out(2).as<float>() + step.example * u;
    const FloatRows old = step.Old(h, In(context, s_.optional.state), u);
    for (int64_t row = 0; row < step.rows; ++row) {
      const int64_t at = step.place(row);
      float* const state = states + row * u;
      if (step.keeps(row)) {
        AddTo(dh + at * u, state);
        std::fill_n(dx + at * 3 * u, 3 * u, 0.0f);
        std::fill_n(dproduct + at * 3 * u, 3 * u, 0.0f);
        continue;
      }
      GruGradRowFloat(u, dh + at * u, gates + at * 4 * u, old.row(row), state, dx + at * 3 * u,
                      dproduct + at * 3 * u);
    }
    if (step.has_old) AddProductsBack(step, dproduct, packed, states);
  }
};

class SimpleRnnKernel : public RecurrenceKernel {
 public:
  explicit SimpleRnnKernel(const RecurrenceSizes& s) : RecurrenceKernel(s, false, 0) {}

 protected:
  void RunStep(const KernelContext& context, const RecurrenceStep& step, const float* packed,
               float*) const override {
    const int64_t u = s_.units;
    const float* const x = context.in(0).as<float>();
    float* const h = context.out().as<float>();
    const FloatRows old = step.Old(h, In(context, s_.optional.state), u);
    if (step.has_old) {
      AddProducts(step, old, packed, {x + step.at * u, step.steps * u}, h + step.at * u,
                  step.steps * u);
    }
    for (int64_t row = 0; row < step.rows; ++row) {
      const int64_t at = step.place(row);
      if (step.keeps(row)) {
        Copy(old.row(row), u, h + at * u);
      } else {
        TanhFloat(step.has_old ? h + at * u : x + at * u, h + at * u, u);
      }
    }
  }
};

class SimpleRnnGradKernel : public RecurrenceKernel {
 public:
  explicit SimpleRnnGradKernel(const RecurrenceSizes& s) : RecurrenceKernel(s, true, 0) {}

 protected:
  std::vector<float*> FirstGrads(const KernelContext& context) const override {
    return {context.out(1).as<float>()};
  }

  void RunStep(const KernelContext& context, const RecurrenceStep& step, const float* packed,
               float*) const override {
    const int64_t u = s_.units;
    const float* const dh = context.in(0).as<float>();
    const float* const h = context.in(2).as<float>();
    float* const dx = context.out(0).as<float>();
    float* const states = context.out(1).as<float>() + step.example * u;
    for (int64_t row = 0; row < step.rows; ++row) {
      const int64_t at = step.place(row);
      float* const state = states + row * u;
      if (step.keeps(row)) {
        AddTo(dh + at * u, state);
        std::fill_n(dx + at * u, u, 0.0f);
        continue;
      }
      SimpleRnnGradRowFloat(u, dh + at * u, h + at * u, state, dx + at * u);
    }
    if (step.has_old) AddProductsBack(step, dx, packed, states);
  }
};

}  // namespace

KernelOr CreateRecurrenceCpu(const Node& node, const Program& program) {
  const ValueType &x = program.type(node.inputs[0]), &kernel = program.type(node.inputs[1]);
  if (x.dtype != DType::kFloat32) return CreateGridCpu(node, program);
  RecurrenceSizes s;
  s.units = kernel.dims[0].size;
  s.gates = kernel.dims[1].size / s.units;
  s.examples = x.dims[0].size;
  s.optional = RecurrenceInputsOf(node, program);
  s.backwards = BoolAttr(node, "backwards");
  if (node.op == "lstm") return std::make_unique<LstmKernel>(s);
  if (node.op == "lstm_grad") return std::make_unique<LstmGradKernel>(s);
  if (node.op == "gru") return std::make_unique<GruKernel>(s);
  if (node.op == "gru_grad") return std::make_unique<GruGradKernel>(s);
  if (node.op == "simple_rnn") return std::make_unique<SimpleRnnKernel>(s);
  return std::make_unique<SimpleRnnGradKernel>(s);
}

}  // namespace cohort

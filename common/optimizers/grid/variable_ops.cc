// Reading rows, the scale of gradients, and the pushes that are no gradients: one thread per
// element.
#include "common/optimizers/grid/variable_op.h"
#include "common/optimizers/moving_average.h"

namespace cohort::COHORT_GRID {
namespace {

template <typename T>
struct ReadRowsBody {
  const T* from;
  T* to;
  RowWalk walk;

  COHORT_HD int64_t items() const { return walk.items(); }
  COHORT_HD void operator()(int64_t i) const { to[i] = from[walk.At(i)]; }
};

template <typename T>
struct GradientScaleBody {
  const T* weight;
  double* to;

  COHORT_HD int64_t items() const { return 1; }
  COHORT_HD void operator()(int64_t) const {
    *to = *weight == 0 ? 0 : 1 / static_cast<double>(*weight);
  }
};

template <typename T>
struct Sum {
  COHORT_HD T operator()(T value, T pushed) const { return static_cast<T>(value + pushed); }
};

// Join: MovingAverage<T> or Sum<T>.
template <typename T, typename Join>
struct PushBody {
  T* value;
  const T* pushed;
  RowWalk walk;
  Join join;

  COHORT_HD int64_t items() const { return walk.items(); }
  COHORT_HD void operator()(int64_t i) const {
    const int64_t at = walk.At(i);
    value[at] = join(value[at], pushed[i]);
  }
};

// Calls fn with a value of the C++ type of a variable's dtype, or returns Unimplemented.
template <typename Fn>
VariableOpOr ForDType(DType dtype, std::string_view what, const Fn& fn) {
  switch (dtype) {
    case DType::kFloat32:
      return fn(float{});
    case DType::kFloat64:
      return fn(double{});
    case DType::kInt32:
      return fn(int32_t{});
    case DType::kInt64:
      return fn(int64_t{});
    default:
      return Unimplemented("{} has no kernel for {}", what, DTypeName(dtype));
  }
}

template <typename T, typename Join>
VariableOpOr MakePush(std::string_view what, const DeviceVariable& variable, const DevicePush& push,
                      Join join) {
  VariableOpPlan plan = {.name = fmt::format("{} {}", what, variable.name),
                         .most_items = MostItems(variable, push.rows),
                         .reads = {RangeOfRows(variable, push.rows, push.values)},
                         .writes = {RangeOfValue(variable)}};
  if (push.rows.keys != nullptr) plan.reads.push_back(RangeOfKeys(push.rows));
  return MakeVariableOp(std::move(plan), [=](const VariableRun& run) {
    return PushBody<T, Join>{static_cast<T*>(variable.value), static_cast<const T*>(push.values),
                             RowWalk::Of(variable, push.rows, run), join};
  });
}

class Ops final : public VariableOps {
 public:
  VariableOpOr ReadRows(const DeviceVariable& from, const DeviceKeys& rows,
                        void* to) const override {
    return ForDType(from.dtype, "reading rows", [&](auto t) -> VariableOpOr {
      using T = decltype(t);
      VariableOpPlan plan = {.name = "rows of " + from.name,
                             .most_items = MostItems(from, rows),
                             .reads = {RangeOfValue(from), RangeOfKeys(rows)},
                             .writes = {RangeOfRows(from, rows, to)}};
      return MakeVariableOp(std::move(plan), [=](const VariableRun& run) {
        return ReadRowsBody<T>{static_cast<const T*>(from.value), static_cast<T*>(to),
                               RowWalk::Of(from, rows, run)};
      });
    });
  }

  VariableOpOr GradientScale(const void* weight, DType dtype, double* to) const override {
    const VariableOpPlan plan = {.name = "scale of gradients",
                                 .most_items = 1,
                                 .reads = {{weight, SizeOf(dtype)}},
                                 .writes = {{to, sizeof(*to)}}};
    if (dtype == DType::kFloat64) return MakeScale<double>(plan, weight, to);
    if (dtype == DType::kFloat32) return MakeScale<float>(plan, weight, to);
    return Unimplemented("a weight of gradients is float32 or float64, not {}", DTypeName(dtype));
  }

  VariableOpOr Update(const OptimizerRule* rule, const DeviceVariable& variable,
                      const DevicePush& gradient, const double* scale) const override {
    return MakeUpdate(rule, variable, gradient, scale);
  }

  VariableOpOr Average(const DeviceVariable& variable, const DevicePush& push,
                       double momentum) const override {
    return ForDType(variable.dtype, "a moving average", [&](auto t) -> VariableOpOr {
      return MakePush<decltype(t)>("average of", variable, push,
                                   MovingAverage<decltype(t)>::Of(momentum));
    });
  }

  VariableOpOr AssignAdd(const DeviceVariable& variable, const DevicePush& push) const override {
    return ForDType(variable.dtype, "assign_add", [&](auto t) -> VariableOpOr {
      return MakePush<decltype(t)>("sum of", variable, push, Sum<decltype(t)>());
    });
  }

 private:
  template <typename T>
  static std::unique_ptr<VariableOp> MakeScale(const VariableOpPlan& plan, const void* weight,
                                               double* to) {
    return MakeVariableOp(plan, [=](const VariableRun&) {
      return GradientScaleBody<T>{static_cast<const T*>(weight), to};
    });
  }
};

}  // namespace

const VariableOps* GridVariableOps() {
  static const Ops ops;
  return &ops;
}

}  // namespace cohort::COHORT_GRID

// The rules of optimizers: one thread per element runs the rule's step (rules/rule_update.h).
#include "common/optimizers/grid/variable_op.h"
#include "common/optimizers/rules/rule_update.h"

namespace cohort::COHORT_GRID {
namespace {

template <typename T>
struct Pointers {
  T* value;
  T* slots[kMaxSlots];
};

template <typename T>
Pointers<T> PointersOf(const DeviceVariable& variable) {
  Pointers<T> to = {static_cast<T*>(variable.value), {}};
  for (int s = 0; s < kMaxSlots; ++s) to.slots[s] = static_cast<T*>(variable.slots[s]);
  return to;
}

template <int kForm = 0, typename T, typename Step>
COHORT_HD void UpdateAt(const Step& step, const Pointers<T>& to, int64_t at, T gradient) {
  if constexpr (kForm + 1 < Step::kForms) {
    if (step.form() != kForm) return UpdateAt<kForm + 1>(step, to, at, gradient);
  }
  constexpr int kSlots = Step::Slots(kForm);
  T w = to.value[at];
  T slots[kMaxSlots] = {};
  for (int s = 0; s < kSlots; ++s) slots[s] = to.slots[s][at];
  UpdateElement<kForm>(step, w, slots, gradient);
  to.value[at] = w;
  for (int s = 0; s < kSlots; ++s) to.slots[s][at] = slots[s];
}

// Element i of the gradient of the mean loss.
template <typename T>
COHORT_HD T ScaledGradient(const T* gradient, const double* scale, int64_t i) {
  return *scale == 0 ? T{0} : gradient[i] * static_cast<T>(*scale);
}

// The rows of the keys, or all rows if each of them has a gradient.
template <typename T, typename Step>
struct UpdateBody {
  Step step;
  Pointers<T> to;
  RowWalk walk;
  const T* gradient;
  const double* scale;

  COHORT_HD int64_t items() const { return walk.items(); }
  COHORT_HD void operator()(int64_t i) const {
    UpdateAt(step, to, walk.At(i), ScaledGradient(gradient, scale, i));
  }
};

// All rows: those without a key move, too, as by a gradient of zeros.
template <typename T, typename Step>
struct UpdateAllBody {
  Step step;
  Pointers<T> to;
  RowWalk walk;  // visits the rows with keys
  const T* gradient;
  const double* scale;
  int64_t elements;

  COHORT_HD int64_t items() const { return elements; }
  COHORT_HD void operator()(int64_t i) const {
    const int64_t key = walk.first_row + i / walk.row_elements;
    int64_t low = 0, high = walk.rows;  // the first key that is not smaller
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (walk.keys[middle] < key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    const bool found = low < walk.rows && walk.keys[low] == key;
    const int64_t at = low * walk.row_elements + i % walk.row_elements;
    UpdateAt(step, to, i, found ? ScaledGradient(gradient, scale, at) : T{0});
  }
};

VariableOpPlan PlanOf(const OptimizerRule& rule, const DeviceVariable& variable,
                      const DevicePush& gradient, const double* scale) {
  const bool all = !rule.touches_only_keys();
  VariableOpPlan plan = {
      .name = "update of " + variable.name,
      .most_items = all ? variable.elements() : MostItems(variable, gradient.rows),
      .reads = {RangeOfRows(variable, gradient.rows, gradient.values), {scale, sizeof(*scale)}},
      .writes = {RangeOfValue(variable)}};
  if (gradient.rows.keys != nullptr) plan.reads.push_back(RangeOfKeys(gradient.rows));
  for (size_t s = 0; s < rule.slots().size(); ++s) {
    plan.writes.push_back({variable.slots[s], variable.bytes()});
  }
  return plan;
}

// Step: that of the rule in the arithmetic T, which UpdateOfStep returns for each run.
template <typename T, typename Step>
VariableOpOr MakeUpdateOf(const OptimizerRule* rule, const DeviceVariable& variable,
                          const DevicePush& gradient, const double* scale) {
  VariableOpPlan plan = PlanOf(*rule, variable, gradient, scale);
  const auto step_at = [rule, dtype = variable.dtype](uint64_t step) {
    return std::get<Step>(rule->UpdateOfStep(dtype, step).of);
  };
  if (gradient.rows.keys == nullptr || rule->touches_only_keys()) {
    return MakeVariableOp(std::move(plan), [=](const VariableRun& run) {
      return UpdateBody<T, Step>{step_at(run.step), PointersOf<T>(variable),
                                 RowWalk::Of(variable, gradient.rows, run),
                                 static_cast<const T*>(gradient.values), scale};
    });
  }
  return MakeVariableOp(std::move(plan), [=](const VariableRun& run) {
    return UpdateAllBody<T, Step>{step_at(run.step),
                                  PointersOf<T>(variable),
                                  RowWalk::Of(variable, gradient.rows, run),
                                  static_cast<const T*>(gradient.values),
                                  scale,
                                  variable.elements()};
  });
}

}  // namespace

VariableOpOr MakeUpdate(const OptimizerRule* rule, const DeviceVariable& variable,
                        const DevicePush& gradient, const double* scale) {
  if (!IsFloating(variable.dtype)) {
    return Unimplemented("variable \"{}\": optimizers update float32 and float64, not {}",
                         variable.name, DTypeName(variable.dtype));
  }
  return std::visit(
      [&]<typename Step>(const Step& step) -> VariableOpOr {
        if constexpr (std::is_same_v<Step, std::monostate>) {
          return Unimplemented(
              "variable \"{}\": devices update element by element, and its optimizer or its "
              "constraint does more: leave the variables in the host's memory",
              variable.name);
        } else {
          using T = decltype(step.learning_rate);
          return MakeUpdateOf<T, Step>(rule, variable, gradient, scale);
        }
      },
      rule->UpdateOfStep(variable.dtype, 0).of);
}

}  // namespace cohort::COHORT_GRID

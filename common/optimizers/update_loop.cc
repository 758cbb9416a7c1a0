// The walk of an update over a range of elements: ApplyUpdate of common/optimizers/rules/rule.h.
// Highway compiles this file once for each instruction set, and the compiler makes vector code of
// the loop over a step's Update.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "common/optimizers/rules/rule.h"
#include "common/tensor/precision.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/optimizers/update_loop.cc"
#include <hwy/foreach_target.h>
// foreach_target.h first.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace cohort {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Updates elements [begin, end) to `out`. Returns the greatest bits of the gradient without the
// sign. Outputs lie where inputs do or nowhere near them, so elements do not depend on each other.
template <int kForm, bool kHasGradient, class Step, typename T, typename Bits>
HWY_FLATTEN Bits UpdateElements(const Step& given, const UpdateRange<T>& range, int64_t begin,
                                int64_t end, T* out) {
  constexpr int kSlots = Step::Slots(kForm);
  const Step step = given;
  const UpdateRange<T> r = range;
  Bits greatest = 0;
#if HWY_COMPILER_GCC && !HWY_COMPILER_CLANG
#pragma GCC ivdep
#endif
  for (int64_t i = begin; i < end; ++i) {
    T g = 0;
    if constexpr (kHasGradient) {
      Bits bits;
      std::memcpy(&g, r.gradient + i, sizeof(T));
      std::memcpy(&bits, r.gradient + i, sizeof(T));
      bits &= hwy::LimitsMax<Bits>();
      greatest = bits > greatest ? bits : greatest;
      g = g * r.gradient_scale;
    }
    T w = r.variable_in[i];
    T slots[kMaxSlots] = {};
    for (int s = 0; s < kSlots; ++s) slots[s] = r.slots_in[s][i];
    UpdateElement<kForm>(step, w, slots, g);
    out[i - begin] = w;
    for (int s = 0; s < kSlots; ++s) r.slots_out[s][i] = slots[s];
  }
  return greatest;
}

// Slots between memory, as halves, and the arithmetic of the variable.
template <typename T>
HWY_FLATTEN void Widen(const T* slot, int64_t begin, int64_t count, T* out) {
  const auto* const halves = reinterpret_cast<const uint16_t*>(slot) + begin;
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(FromBfloat16Bits(halves[i]));
}
template <typename T>
HWY_FLATTEN void Narrow(const T* from, int64_t count, uint32_t rounding, T* slot, int64_t begin) {
  auto* const halves = reinterpret_cast<uint16_t*>(slot) + begin;
  for (int64_t i = 0; i < count; ++i) {
    halves[i] = RoundedBfloat16(static_cast<float>(from[i]), rounding);
  }
}

// UpdateElements of a range whose slots are halves: they are widened a block after another.
template <int kForm, bool kHasGradient, class Step, typename T, typename Bits>
Bits UpdateHalves(const Step& step, const UpdateRange<T>& r) {
  constexpr int kSlots = Step::Slots(kForm);
  constexpr int64_t kBlock = 128;
  T wide[kMaxSlots][kBlock];
  UpdateRange<T> part = r;
  Bits greatest = 0;
  for (int64_t at = 0; at < r.elements; at += kBlock) {
    const int64_t count = std::min(kBlock, r.elements - at);
    part.variable_in = r.variable_in + at;
    if constexpr (kHasGradient) part.gradient = r.gradient + at;
    for (int s = 0; s < kSlots; ++s) {
      Widen(r.slots_in[s], at, count, wide[s]);
      part.slots_in[s] = wide[s];
      part.slots_out[s] = wide[s];
    }
    greatest = std::max(greatest, UpdateElements<kForm, kHasGradient, Step, T, Bits>(
                                      step, part, 0, count, r.variable_out + at));
    for (int s = 0; s < kSlots; ++s) Narrow(wide[s], count, r.rounding, r.slots_out[s], at);
  }
  return greatest;
}

// Updates a range. With past_caches the variable's new values are written past the caches, a block
// after another.
template <int kForm, bool kHasGradient, class Step, typename T>
void UpdateAll(const Step& step, const UpdateRange<T>& r) {
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  constexpr Bits kInfinity =
      sizeof(T) == 4 ? Bits{0x7F800000} : static_cast<Bits>(int64_t{0x7FF} << 52);
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kBlock = 128;
  Bits greatest = 0;
  int64_t at = 0;
  if (r.bfloat16_slots) {
    greatest = UpdateHalves<kForm, kHasGradient, Step, T, Bits>(step, r);
    at = r.elements;
  }
  if (at < r.elements && r.past_caches &&
      reinterpret_cast<uintptr_t>(r.variable_out) % (lanes * sizeof(T)) == 0) {
    HWY_ALIGN T block[kBlock];
    for (; at + kBlock <= r.elements; at += kBlock) {
      greatest = std::max(greatest, UpdateElements<kForm, kHasGradient, Step, T, Bits>(
                                        step, r, at, at + kBlock, block));
      for (int64_t i = 0; i < kBlock; i += lanes) {
        hn::Stream(hn::Load(d, block + i), d, r.variable_out + at + i);
      }
    }
    hwy::FlushStream();
  }
  greatest = std::max(greatest, UpdateElements<kForm, kHasGradient, Step, T, Bits>(
                                    step, r, at, r.elements, r.variable_out + at));
  // Without the sign, the bits of every other number are less than those of an infinity.
  if (r.non_finite != nullptr && greatest >= kInfinity) *r.non_finite = true;
}

// A row has few elements: the code of a range would take longer to begin than to work.
template <int kForm, class Step, typename T>
HWY_FLATTEN void UpdateEachRow(const Step& given, const UpdateRows<T>& rows) {
  constexpr int kSlots = Step::Slots(kForm);
  const Step step = given;
  const int64_t n = rows.row_elements;
  const T scale = rows.gradient_scale;
  const T* gradient = rows.gradient;
  for (const int64_t key : rows.keys) {
    const int64_t at = (key - rows.first_row) * n;
    T* const variable = rows.variable + at;
    T* slots_of[kMaxSlots];
    for (int s = 0; s < kSlots; ++s) slots_of[s] = rows.slots[s] + at;
#if HWY_COMPILER_GCC && !HWY_COMPILER_CLANG
#pragma GCC ivdep
#endif
    for (int64_t i = 0; i < n; ++i) {
      T g;
      std::memcpy(&g, gradient + i, sizeof(T));
      T w = variable[i];
      T slots[kMaxSlots] = {};
      for (int s = 0; s < kSlots; ++s) slots[s] = slots_of[s][i];
      UpdateElement<kForm>(step, w, slots, g * scale);
      variable[i] = w;
      for (int s = 0; s < kSlots; ++s) slots_of[s][i] = slots[s];
    }
    gradient += n;
  }
}

template <int kForm, class Step, typename T>
void UpdateEachRowWithHalves(const Step& step, const UpdateRows<T>& rows) {
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  const int64_t n = rows.row_elements;
  UpdateRange<T> row;
  row.gradient = rows.gradient;
  row.gradient_scale = rows.gradient_scale;
  row.elements = n;
  row.rounding = rows.rounding;
  for (const int64_t key : rows.keys) {
    const int64_t at = (key - rows.first_row) * n;
    row.variable_out = rows.variable + at;
    row.variable_in = row.variable_out;
    for (int s = 0; s < Step::Slots(kForm); ++s) {
      row.slots_out[s] = reinterpret_cast<T*>(reinterpret_cast<uint16_t*>(rows.slots[s]) + at);
      row.slots_in[s] = row.slots_out[s];
    }
    UpdateHalves<kForm, true, Step, T, Bits>(step, row);
    row.gradient += n;
  }
}

template <int kForm = 0, class Step, typename T>
void UpdateWith(const Step& step, const UpdateRows<T>& rows) {
  if constexpr (kForm + 1 < Step::kForms) {
    if (step.form() != kForm) return UpdateWith<kForm + 1>(step, rows);
  }
  if (rows.bfloat16_slots) return UpdateEachRowWithHalves<kForm>(step, rows);
  UpdateEachRow<kForm>(step, rows);
}

template <int kForm = 0, class Step, typename T>
void UpdateWith(const Step& step, const UpdateRange<T>& r) {
  if constexpr (kForm + 1 < Step::kForms) {
    if (step.form() != kForm) return UpdateWith<kForm + 1>(step, r);
  }
  r.gradient != nullptr ? UpdateAll<kForm, true>(step, r) : UpdateAll<kForm, false>(step, r);
}

#define COHORT_UPDATE(Rule)                                                              \
  void Rule##Float(const Rule##Update<float>& step, const UpdateRange<float>& r) {       \
    UpdateWith(step, r);                                                                 \
  }                                                                                      \
  void Rule##Double(const Rule##Update<double>& step, const UpdateRange<double>& r) {    \
    UpdateWith(step, r);                                                                 \
  }                                                                                      \
  void Rule##FloatRows(const Rule##Update<float>& step, const UpdateRows<float>& r) {    \
    UpdateWith(step, r);                                                                 \
  }                                                                                      \
  void Rule##DoubleRows(const Rule##Update<double>& step, const UpdateRows<double>& r) { \
    UpdateWith(step, r);                                                                 \
  }
COHORT_UPDATE_RULES(COHORT_UPDATE)
#undef COHORT_UPDATE

}  // namespace HWY_NAMESPACE
}  // namespace cohort
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort {

#define COHORT_UPDATE(Rule)                                                              \
  HWY_EXPORT(Rule##Float);                                                               \
  HWY_EXPORT(Rule##Double);                                                              \
  HWY_EXPORT(Rule##FloatRows);                                                           \
  HWY_EXPORT(Rule##DoubleRows);                                                          \
  void ApplyUpdate(const Rule##Update<float>& step, const UpdateRange<float>& range) {   \
    HWY_DYNAMIC_DISPATCH(Rule##Float)(step, range);                                      \
  }                                                                                      \
  void ApplyUpdate(const Rule##Update<double>& step, const UpdateRange<double>& range) { \
    HWY_DYNAMIC_DISPATCH(Rule##Double)(step, range);                                     \
  }                                                                                      \
  void ApplyUpdate(const Rule##Update<float>& step, const UpdateRows<float>& rows) {     \
    HWY_DYNAMIC_DISPATCH(Rule##FloatRows)(step, rows);                                   \
  }                                                                                      \
  void ApplyUpdate(const Rule##Update<double>& step, const UpdateRows<double>& rows) {   \
    HWY_DYNAMIC_DISPATCH(Rule##DoubleRows)(step, rows);                                  \
  }
COHORT_UPDATE_RULES(COHORT_UPDATE)
#undef COHORT_UPDATE

}  // namespace cohort
#endif  // HWY_ONCE

#include "common/exchange/local_access.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "common/base/status.h"

namespace cohort {
namespace {

// Elements of one row; of a scalar 1.
int64_t RowElements(const Tensor& t) {
  return t.dims().empty() ? 1 : NumElements(std::span(t.dims()).subspan(1));
}

absl::Status CheckKeys(std::span<const int64_t> keys, const LocalVariables::Variable& variable) {
  const int64_t rows = variable.value.dims().empty() ? 0 : variable.value.dims()[0];
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] < 0 || keys[i] >= rows) {
      return InvalidArgument(
          "row {} of variable '{}', which has {} rows: the data has ids beyond the table (its "
          "input_dim)",
          keys[i], variable.name, rows);
    }
    if (i > 0 && keys[i] <= keys[i - 1]) {
      return InvalidArgument("keys must ascend, but {} follows {}", keys[i], keys[i - 1]);
    }
  }
  return absl::OkStatus();
}

// variable = Op(variable, value), whole or by rows.
template <typename T, typename Op>
void Combine(const PushItem& item, Tensor* variable, const Op& op) {
  T* to = variable->mutable_values<T>().data();
  const T* from = static_cast<const T*>(item.value);
  const int64_t row = RowElements(*variable);
  if (!item.sparse) {
    for (int64_t i = 0; i < variable->num_elements(); ++i) to[i] = op(to[i], from[i]);
    return;
  }
  for (size_t k = 0; k < item.keys.size(); ++k, from += row) {
    T* target = to + item.keys[k] * row;
    for (int64_t i = 0; i < row; ++i) target[i] = op(target[i], from[i]);
  }
}

template <typename T>
void ApplyOther(const PushItem& item, Tensor* variable) {
  if (item.kind == PushKind::kAssignAdd) {
    Combine<T>(item, variable, [](T a, T b) { return static_cast<T>(a + b); });
  } else if (item.kind == PushKind::kEma) {
    // As common/tablet/shard_apply.cc.
    const T keep = static_cast<T>(item.momentum), take = static_cast<T>(1.0 - item.momentum);
    Combine<T>(item, variable,
               [keep, take](T a, T b) { return static_cast<T>(a * keep + b * take); });
  }
}

void ApplyOther(const PushItem& item, Tensor* variable) {
  switch (variable->dtype()) {
    case DType::kFloat32:
      return ApplyOther<float>(item, variable);
    case DType::kFloat64:
      return ApplyOther<double>(item, variable);
    case DType::kInt32:
      return ApplyOther<int32_t>(item, variable);
    case DType::kInt64:
      return ApplyOther<int64_t>(item, variable);
    default:
      return;
  }
}

void Pull(const PullItem& item, const Tensor& variable) {
  const auto* from = static_cast<const uint8_t*>(variable.raw());
  if (!item.rows) {
    std::memcpy(item.destination, from, variable.num_bytes());
    return;
  }
  const size_t bytes = static_cast<size_t>(RowElements(variable)) * SizeOf(variable.dtype());
  auto* to = static_cast<uint8_t*>(item.destination);
  for (int64_t key : item.keys) {
    std::memcpy(to, from + static_cast<size_t>(key) * bytes, bytes);
    to += bytes;
  }
}

bool SameDims(const ValueType& type, const Dims& dims) {
  return std::equal(type.dims.begin(), type.dims.end(), dims.begin(), dims.end(),
                    [](const Dim& a, int64_t b) { return a.size == b && !a.bounded(); });
}

}  // namespace

absl::Status LocalVariables::Add(std::string_view name, Tensor value, const OptimizerRule* rule) {
  Variable variable;
  variable.rule = rule;
  for (const SlotInfo& slot : rule != nullptr ? rule->slots() : std::span<const SlotInfo>{}) {
    Tensor t(value.dtype(), value.dims());
    if (t.dtype() == DType::kFloat32) {
      std::ranges::fill(t.mutable_values<float>(), static_cast<float>(slot.initial_value));
    } else if (t.dtype() == DType::kFloat64) {
      std::ranges::fill(t.mutable_values<double>(), slot.initial_value);
    } else {
      continue;  // integers take no gradient
    }
    variable.slots.push_back(std::move(t));
  }
  variable.value = std::move(value);
  variable.name = std::string(name);
  if (variables_.contains(name)) return AlreadyExists("variable \"{}\" is there already", name);
  variables_.emplace(name, std::move(variable));
  return absl::OkStatus();
}

LocalVariables::Variable* LocalVariables::Find(std::string_view name) {
  const auto it = variables_.find(name);
  return it == variables_.end() ? nullptr : &it->second;
}

absl::StatusOr<std::unique_ptr<LocalAccess>> LocalAccess::Create(LocalVariables* variables,
                                                                 const Program& program) {
  std::vector<LocalVariables::Variable*> bound;
  for (const VariableDecl& decl : program.variables) {
    LocalVariables::Variable* variable = variables->Find(decl.name);
    if (variable == nullptr) {
      return NotFound("program \"{}\" needs the variable \"{}\", which is not there", program.name,
                      decl.name);
    }
    if (variable->value.dtype() != decl.type.dtype ||
        !SameDims(decl.type, variable->value.dims())) {
      return InvalidArgument("program \"{}\" takes the variable \"{}\" for {}, but it is {}{}",
                             program.name, decl.name, TypeToString(decl.type),
                             DTypeName(variable->value.dtype()),
                             DimsToString(variable->value.dims()));
    }
    bound.push_back(variable);
  }
  return std::unique_ptr<LocalAccess>(new LocalAccess(std::move(bound)));
}

absl::Status LocalAccess::CheckPush(const PushItem& item) const {
  const LocalVariables::Variable& bound = *bound_[static_cast<size_t>(item.variable)];
  const Tensor& variable = bound.value;
  if (item.kind == PushKind::kGradient) {
    if (bound.rule == nullptr) {
      return FailedPrecondition("a gradient is pushed to a variable that is not trainable");
    }
    if (!IsFloating(variable.dtype())) {
      return InvalidArgument("a gradient is pushed to a {} variable", DTypeName(variable.dtype()));
    }
  }
  return item.sparse ? CheckKeys(item.keys, bound) : absl::OkStatus();
}

void LocalAccess::ApplyGradient(const PushItem& item, const PushStamp& stamp) const {
  LocalVariables::Variable& variable = *bound_[static_cast<size_t>(item.variable)];
  UpdateTarget target;
  target.dtype = variable.value.dtype();
  target.variable_in = target.variable_out = variable.value.raw();
  for (size_t i = 0; i < variable.slots.size(); ++i) {
    target.slots_in[i] = target.slots_out[i] = variable.slots[i].raw();
  }
  const uint64_t step = stamp.place + stamp.ordinal;
  if (!item.sparse) {
    DenseUpdate update;
    update.target = target;
    update.elements = variable.value.num_elements();
    update.gradient = item.value;
    update.weight = stamp.weight;
    update.step = step;
    variable.rule->ApplyDense(update);
    return;
  }
  RowsUpdate update;
  update.target = target;
  update.rows = variable.value.dims()[0];
  update.row_elements = RowElements(variable.value);
  update.keys = item.keys;
  update.gradient = item.value;
  update.weight = stamp.weight;
  update.step = step;
  variable.rule->ApplyRows(update);
}

absl::Status LocalAccess::Begin(const PushBatch* push, const PullBatch* pull) {
  if (interrupted_.load(std::memory_order_relaxed))
    return Cancelled("the exchange was interrupted");
  result_ = {};
  if (push != nullptr) {
    for (const PushItem& item : push->items) COHORT_RETURN_IF_ERROR(CheckPush(item));
    for (const PushItem& item : push->items) {
      if (item.kind == PushKind::kGradient) {
        ApplyGradient(item, push->stamp);
      } else {
        ApplyOther(item, &bound_[static_cast<size_t>(item.variable)]->value);
      }
    }
    result_.push.applied = 1;
    result_.pulled_timeline = push->stamp.timeline;
  }
  if (pull != nullptr) {
    for (const PullItem& item : pull->items) {
      const LocalVariables::Variable& variable = *bound_[static_cast<size_t>(item.variable)];
      if (item.rows) COHORT_RETURN_IF_ERROR(CheckKeys(item.keys, variable));
      Pull(item, variable.value);
    }
  }
  return absl::OkStatus();
}

}  // namespace cohort

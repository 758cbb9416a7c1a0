#include "common/tablet/shard_apply.h"

#include <absl/functional/function_ref.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>

#include "common/optimizers/moving_average.h"
#include "common/optimizers/vector_loops.h"
#include "common/tablet/value_reader.h"

namespace cohort {
namespace {

bool HasNonFinite(DType dtype, std::span<const uint8_t> values) {
  const size_t count = values.size() / SizeOf(dtype);
  return dtype == DType::kFloat32
             ? AnyNonFinite(reinterpret_cast<const float*>(values.data()), count)
             : AnyNonFinite(reinterpret_cast<const double*>(values.data()), count);
}

// ASSIGN_ADD and EMA on elements.
template <typename T>
void UpdateValues(PushKind kind, double momentum, const uint8_t* from, uint8_t* to, int64_t count) {
  const auto* value = reinterpret_cast<const T*>(from);
  auto* variable = reinterpret_cast<T*>(to);
  if (kind == PushKind::kAssignAdd) {
    for (int64_t i = 0; i < count; ++i) variable[i] += value[i];
    return;
  }
  const auto average = MovingAverage<T>::Of(momentum);
  for (int64_t i = 0; i < count; ++i) variable[i] = average(variable[i], value[i]);
}

// Moves the pointers of a whole block by `elements`, which are whole rows if a slot has one number
// for each.
UpdateTarget Offset(const ShardInfo& info, const UpdateTarget& target, int64_t elements) {
  if (elements == 0) return target;
  UpdateTarget moved = target;
  const auto move = [&](const void** in, void** out, size_t row_bytes) {
    const auto bytes =
        static_cast<size_t>(elements) * row_bytes / static_cast<size_t>(info.row_elements);
    *in = static_cast<const uint8_t*>(*in) + bytes;
    *out = static_cast<uint8_t*>(*out) + bytes;
  };
  move(&moved.variable_in, &moved.variable_out, info.row_bytes());
  for (size_t s = 0; s < info.slots.size(); ++s) {
    move(&moved.slots_in[s], &moved.slots_out[s], info.slot_row_bytes(s));
  }
  return moved;
}

// One push to one shard.
class ShardApply {
 public:
  ShardApply(double weight, uint64_t step, const OptimizerRule* rule, ShardBlocks* blocks)
      : info_(blocks->info()), weight_(weight), step_(step), rule_(rule), blocks_(blocks) {}

  // All return true if the gradient contained a NaN or an infinity.
  bool ApplyDense(std::span<const PushEntryView> parts);
  bool ApplyDenseBlock(ShardBlock* block, std::span<const PushEntryView> parts);
  bool ApplyDenseTo(const UpdateTarget& target, int64_t begin, int64_t end,
                    std::span<const PushEntryView> parts);
  // For rules that work on whole variables: calls `update` with all blocks as one range.
  void UpdateWhole(absl::FunctionRef<void(const UpdateTarget&)> update);
  void ApplySparse(std::span<const PushEntryView> parts, ApplyScratch* scratch);
  void ApplyRows(std::span<const int64_t> keys, const uint8_t* values);
  // The same for rules that change no other rows.
  void ApplyOnlyKeys(std::span<const int64_t> keys, const uint8_t* values);
  // The rows of one block.
  void ApplyRowsOf(const ShardBlock& block, std::span<const int64_t> keys, const uint8_t* values,
                   const UpdateTarget& target);
  // ASSIGN_ADD and EMA.
  void ApplyDirect(const PushEntryView& entry);
  void UpdateElements(const PushEntryView& entry, int64_t begin, int64_t end,
                      const uint8_t* values);

 private:
  const ShardInfo& info_;
  const double weight_;
  const uint64_t step_;
  const OptimizerRule* const rule_;  // null if the variable is not trainable
  ShardBlocks* const blocks_;
};

bool ShardApply::ApplyDense(std::span<const PushEntryView> parts) {
  if (rule_->scope() == UpdateScope::kVariable) {
    bool found = false;
    UpdateWhole([&](const UpdateTarget& target) {
      found = ApplyDenseTo(target, 0, info_.elements(), parts);
    });
    return found;
  }
  std::atomic<bool> non_finite = false;
  const size_t bytes = static_cast<size_t>(info_.elements()) * SizeOf(info_.dtype);
  blocks_->BeginWhole();
  blocks_->ForEach(bytes, [&](ShardBlock* block) {
    if (ApplyDenseBlock(block, parts)) non_finite = true;
  });
  return non_finite;
}

bool ShardApply::ApplyDenseBlock(ShardBlock* block, std::span<const PushEntryView> parts) {
  const int64_t begin = block->row_begin * info_.row_elements;
  const int64_t end = begin + block->rows * info_.row_elements;
  if (begin == end) return false;
  ShardBlock fresh;
  const bool non_finite = ApplyDenseTo(blocks_->TargetOf(*block, &fresh), begin, end, parts);
  blocks_->Replace(block, &fresh);
  return non_finite;
}

// A rule that works on rows or on a variable gets the gradient in one piece.
bool ShardApply::ApplyDenseTo(const UpdateTarget& target, int64_t begin, int64_t end,
                              std::span<const PushEntryView> parts) {
  uint8_t scratch[sizeof(double)];
  const size_t element = SizeOf(info_.dtype);
  const bool in_pieces = rule_->scope() == UpdateScope::kElement;
  std::vector<uint8_t> whole;
  const auto end_of = [](const PushEntryView& part) {
    return static_cast<int64_t>(part.begin + part.count);
  };
  auto part = std::partition_point(parts.begin(), parts.end(),
                                   [&](const PushEntryView& p) { return end_of(p) <= begin; });
  ValueReader values(*part);
  bool non_finite = false;
  const auto apply = [&](int64_t at, std::span<const uint8_t> gradient) {
    DenseUpdate update;
    update.target = Offset(info_, target, at - begin);
    update.elements = static_cast<int64_t>(gradient.size() / element);
    update.gradient = gradient.data();
    update.weight = weight_;
    update.step = step_;
    update.non_finite = &non_finite;
    if (weight_ == 0 && HasNonFinite(info_.dtype, gradient)) non_finite = true;
    rule_->ApplyDense(update);
  };
  for (int64_t at = begin; at < end;) {
    while (end_of(*part) <= at) values = ValueReader(*++part);
    const int64_t most = std::min(end, end_of(*part)) - at;
    const size_t offset = static_cast<size_t>(at - static_cast<int64_t>(part->begin)) * element;
    const std::span<const uint8_t> gradient =
        values.Read(offset, static_cast<size_t>(most) * element, element, scratch);
    const auto elements = static_cast<int64_t>(gradient.size() / element);
    if (in_pieces || elements == end - begin) {
      apply(at, gradient);
    } else {
      whole.insert(whole.end(), gradient.begin(), gradient.end());
    }
    at += elements;
  }
  if (!whole.empty()) apply(begin, whole);
  return non_finite;
}

// Most variables of such rules are one block.
void ShardApply::UpdateWhole(absl::FunctionRef<void(const UpdateTarget&)> update) {
  const size_t bytes = static_cast<size_t>(info_.elements()) * SizeOf(info_.dtype);
  if (bytes == 0) return;
  blocks_->BeginWhole();
  if (blocks_->all().size() == 1) {
    blocks_->ForEach(0, [&](ShardBlock* block) {
      ShardBlock fresh;
      update(blocks_->TargetOf(*block, &fresh));
      blocks_->Replace(block, &fresh);
    });
    return;
  }
  const size_t tensors = 1 + info_.slots.size();
  std::vector<BufferRef> whole(tensors);
  UpdateTarget target{.dtype = info_.dtype};
  const auto row_bytes = [this](size_t t) {
    return t == 0 ? info_.row_bytes() : info_.slot_row_bytes(t - 1);
  };
  for (size_t t = 0; t < tensors; ++t) {
    whole[t] = blocks_->pool()->Allocate(static_cast<size_t>(info_.rows) * row_bytes(t));
    void* const data = whole[t]->data();
    for (const ShardBlock& block : blocks_->all()) {
      const BufferRef& part = t == 0 ? block.values : block.slots[t - 1];
      const size_t offset = static_cast<size_t>(block.row_begin) * row_bytes(t);
      std::memcpy(whole[t]->data() + offset, part->data(), part->size());
    }
    (t == 0 ? target.variable_in : target.slots_in[t - 1]) = data;
    (t == 0 ? target.variable_out : target.slots_out[t - 1]) = data;
  }
  update(target);
  blocks_->ForEach(bytes, [&](ShardBlock* block) {
    ShardBlock fresh;
    const UpdateTarget to = blocks_->TargetOf(*block, &fresh);
    for (size_t t = 0; t < tensors; ++t) {
      const size_t offset = static_cast<size_t>(block->row_begin) * row_bytes(t);
      const size_t size = static_cast<size_t>(block->rows) * row_bytes(t);
      void* const out = t == 0 ? to.variable_out : to.slots_out[t - 1];
      std::memcpy(out, whole[t]->data() + offset, size);
    }
    blocks_->Replace(block, &fresh);
  });
}

// The rule needs ascending keys without duplicates, in one piece. Workers send them so; keys of
// another client are sorted and summed first, which is slower.
void ShardApply::ApplySparse(std::span<const PushEntryView> parts, ApplyScratch* scratch) {
  const auto keys_of = [](const PushEntryView& part) {
    return std::span(reinterpret_cast<const int64_t*>(part.keys.data()),
                     static_cast<size_t>(part.count));
  };
  const auto first_keys = keys_of(parts.front());
  if (parts.size() == 1 && std::adjacent_find(first_keys.begin(), first_keys.end(),
                                              std::greater_equal<>()) == first_keys.end()) {
    ApplyRows(first_keys, parts.front().values.data());
    return;
  }
  const size_t row_bytes = info_.row_bytes();
  scratch->rows.clear();
  for (const PushEntryView& part : parts) {
    const auto keys = keys_of(part);
    for (size_t i = 0; i < keys.size(); ++i) {
      scratch->rows.emplace_back(keys[i], part.values.data() + i * row_bytes);
    }
  }
  std::stable_sort(scratch->rows.begin(), scratch->rows.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  scratch->keys.clear();
  scratch->values = blocks_->pool()->Allocate(scratch->rows.size() * row_bytes);
  uint8_t* const values = scratch->values->data();
  for (const auto& [key, row] : scratch->rows) {
    if (scratch->keys.empty() || scratch->keys.back() != key) {
      std::memcpy(values + scratch->keys.size() * row_bytes, row, row_bytes);
      scratch->keys.push_back(key);
      continue;
    }
    uint8_t* const sum = values + (scratch->keys.size() - 1) * row_bytes;
    if (info_.dtype == DType::kFloat32) {
      UpdateValues<float>(PushKind::kAssignAdd, 0, row, sum, info_.row_elements);
    } else {
      UpdateValues<double>(PushKind::kAssignAdd, 0, row, sum, info_.row_elements);
    }
  }
  ApplyRows(scratch->keys, values);
  scratch->values = BufferRef();
}

void ShardApply::ApplyRows(std::span<const int64_t> keys, const uint8_t* values) {
  if (rule_->scope() == UpdateScope::kVariable) {
    return UpdateWhole([&](const UpdateTarget& target) {
      rule_->ApplyRows({.target = target,
                        .rows = info_.rows,
                        .row_elements = info_.row_elements,
                        .keys = keys,
                        .gradient = values,
                        .weight = weight_,
                        .step = step_});
    });
  }
  if (rule_->touches_only_keys()) return ApplyOnlyKeys(keys, values);
  blocks_->BeginWhole();
  const size_t bytes = static_cast<size_t>(blocks_->rows()) * info_.row_bytes();
  blocks_->ForEach(bytes, [&](ShardBlock* block) {
    const auto begin = std::lower_bound(keys.begin(), keys.end(), block->row_begin);
    const auto end = std::lower_bound(begin, keys.end(), block->row_begin + block->rows);
    ShardBlock fresh;
    ApplyRowsOf(*block, {begin, end},
                values + static_cast<size_t>(begin - keys.begin()) * info_.row_bytes(),
                blocks_->TargetOf(*block, &fresh));
    blocks_->Replace(block, &fresh);
  });
}

void ShardApply::ApplyRowsOf(const ShardBlock& block, std::span<const int64_t> keys,
                             const uint8_t* values, const UpdateTarget& target) {
  rule_->ApplyRows({.target = target,
                    .first_row = block.row_begin,
                    .rows = block.rows,
                    .row_elements = info_.row_elements,
                    .keys = keys,
                    .gradient = values,
                    .weight = weight_,
                    .step = step_});
}

// Rows of a large table are far apart, so the memory of later ones is asked for before the first of
// some rows are updated. Threads share no block.
void ShardApply::ApplyOnlyKeys(std::span<const int64_t> keys, const uint8_t* values) {
  constexpr size_t kRowsAtOnce = 32;
  const auto same_block = [&](size_t i) {
    return &blocks_->BlockOf(keys[i]) == &blocks_->BlockOf(keys[i - 1]);
  };
  blocks_->ForEachPart(keys.size(), info_.row_bytes(), [&](size_t begin, size_t end) {
    // A part begins with the first key of a block.
    while (begin > 0 && begin < end && same_block(begin)) ++begin;
    while (end > begin && end < keys.size() && same_block(end)) ++end;
    size_t asked = begin;
    for (size_t at = begin; at < end;) {
      for (; asked < std::min(end, at + 2 * kRowsAtOnce); ++asked) blocks_->Prefetch(keys[asked]);
      ShardBlock* const block = blocks_->MutableBlockOf(keys[at]);
      const int64_t block_end = block->row_begin + block->rows;
      size_t next = at + 1;
      while (next < end && next < at + kRowsAtOnce && keys[next] < block_end) ++next;
      ApplyRowsOf(*block, keys.subspan(at, next - at), values + at * info_.row_bytes(),
                  blocks_->TargetInPlace(block, keys.subspan(at, next - at)));
      at = next;
    }
  });
}

void ShardApply::ApplyDirect(const PushEntryView& entry) {
  if (!entry.sparse) {
    const auto begin = static_cast<int64_t>(entry.begin);
    UpdateElements(entry, begin, begin + static_cast<int64_t>(entry.count), entry.values.data());
    return;
  }
  const auto* keys = reinterpret_cast<const int64_t*>(entry.keys.data());
  for (uint64_t i = 0; i < entry.count; ++i) {
    const int64_t begin = keys[i] * info_.row_elements;
    UpdateElements(entry, begin, begin + info_.row_elements,
                   entry.values.data() + i * info_.row_bytes());
  }
}

// Updates elements [begin, end) of the shard, which may lie in several blocks.
void ShardApply::UpdateElements(const PushEntryView& entry, int64_t begin, int64_t end,
                                const uint8_t* values) {
  const auto element = static_cast<int64_t>(SizeOf(info_.dtype));
  for (int64_t at = begin; at < end;) {
    ShardBlock* block = blocks_->MutableBlockOf(at / info_.row_elements);
    const int64_t block_begin = block->row_begin * info_.row_elements;
    const int64_t count = std::min(end, block_begin + block->rows * info_.row_elements) - at;
    const int64_t first = at / info_.row_elements;
    const int64_t rows = (at + count + info_.row_elements - 1) / info_.row_elements - first;
    uint8_t* to = blocks_->MakeWritable(block, first, rows) + (at - block_begin) * element;
    const uint8_t* from = values + (at - begin) * element;
    switch (info_.dtype) {
      case DType::kFloat32:
        UpdateValues<float>(entry.kind, entry.momentum, from, to, count);
        break;
      case DType::kFloat64:
        UpdateValues<double>(entry.kind, entry.momentum, from, to, count);
        break;
      case DType::kInt32:
        UpdateValues<int32_t>(entry.kind, entry.momentum, from, to, count);
        break;
      default:
        UpdateValues<int64_t>(entry.kind, entry.momentum, from, to, count);
    }
    at += count;
  }
}

}  // namespace

bool ApplyPush(std::span<const PushEntryView> entries, double weight, uint64_t step,
               const OptimizerRule* rule, ShardBlocks* blocks, ApplyScratch* scratch) {
  const PushEntryView& first = entries.front();
  if (first.kind == PushKind::kRecordOnly) return false;
  ShardApply apply(weight, step, rule, blocks);
  if (first.kind == PushKind::kGradient && !first.sparse) return apply.ApplyDense(entries);
  const DType dtype = blocks->info().dtype;
  bool non_finite = false;
  for (const PushEntryView& entry : entries) {
    if (IsFloating(dtype) && HasNonFinite(dtype, entry.values)) non_finite = true;
    if (first.kind != PushKind::kGradient) apply.ApplyDirect(entry);
  }
  if (first.kind == PushKind::kGradient) apply.ApplySparse(entries, scratch);
  return non_finite;
}

}  // namespace cohort

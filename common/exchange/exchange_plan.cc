#include "common/exchange/exchange_plan.h"

#include <algorithm>
#include <cstring>

#include "common/base/status.h"
#include "common/exchange/row_check.h"

namespace cohort {
namespace {

template <typename T>
void GrowTo(std::vector<T>* v, size_t size) {
  if (v->size() < size) v->resize(size);
}

absl::Status CheckVariable(const ProgramRoutes& routes, int variable) {
  if (variable >= 0 && static_cast<size_t>(variable) < routes.variables.size()) {
    return absl::OkStatus();
  }
  return InvalidArgument("variable {} of a program with {} variables", variable,
                         routes.variables.size());
}

// Null: another push brings it.
const void* SumOf(const PushBatch& push, uint32_t shard) {
  const auto found =
      std::lower_bound(push.sums.begin(), push.sums.end(), shard,
                       [](const ShardSum& sum, uint32_t number) { return sum.shard < number; });
  return found != push.sums.end() && found->shard == shard ? found->values : nullptr;
}

}  // namespace

absl::Status ExchangePlan::Make(const ProgramRoutes& routes, const PushBatch* push,
                                const PullBatch* pull) {
  pushes_.clear();
  pulls_.clear();
  lists_.assign(routes.tablets.size(), TabletLists{});
  COHORT_RETURN_IF_ERROR(CheckItems(routes, push, pull));
  size_t keyed = 0;
  if (push != nullptr) {
    for (const PushItem& item : push->items) {
      AddPush(routes, *push, item, item.sparse && sorted_[keyed++] != 0);
    }
  }
  if (pull != nullptr) {
    for (const PullItem& item : pull->items) {
      AddPull(routes, item, item.rows && sorted_[keyed++] != 0);
    }
  }
  return absl::OkStatus();
}

// Looks at every item before the first piece is made, so that scratch never moves afterwards.
absl::Status ExchangePlan::CheckItems(const ProgramRoutes& routes, const PushBatch* push,
                                      const PullBatch* pull) {
  sorted_.clear();
  keys_needed_ = order_needed_ = values_needed_ = 0;
  keys_used_ = order_used_ = values_used_ = 0;
  if (push != nullptr) {
    for (const PushItem& item : push->items) {
      COHORT_RETURN_IF_ERROR(CheckVariable(routes, item.variable));
      const VariableRoute& variable = routes.variables[static_cast<size_t>(item.variable)];
      if (item.sparse) {
        COHORT_RETURN_IF_ERROR(CheckKeys(variable, item.keys, variable.row_bytes()));
      } else if (variable.hashed.has_value() && item.kind != PushKind::kRecordOnly) {
        NeedAllRows(variable, variable.row_bytes());
      }
    }
  }
  if (pull != nullptr) {
    for (const PullItem& item : pull->items) {
      COHORT_RETURN_IF_ERROR(CheckVariable(routes, item.variable));
      const VariableRoute& variable = routes.variables[static_cast<size_t>(item.variable)];
      if (item.rows) {
        COHORT_RETURN_IF_ERROR(CheckKeys(variable, item.keys, 0));
      } else if (variable.hashed.has_value()) {
        NeedAllRows(variable, 0);
      }
    }
  }
  GrowTo(&keys_, keys_needed_);
  GrowTo(&order_, order_needed_);
  GrowTo(&values_, values_needed_);
  return absl::OkStatus();
}

void ExchangePlan::NeedAllRows(const VariableRoute& variable, uint64_t value_bytes) {
  keys_needed_ += variable.rows;
  order_needed_ += variable.rows;
  values_needed_ += variable.rows * value_bytes;
}

absl::Status ExchangePlan::CheckKeys(const VariableRoute& variable, std::span<const int64_t> keys,
                                     uint64_t value_bytes) {
  bool sorted = true;
  int64_t previous = -1;
  for (const int64_t key : keys) {
    if (key < 0 || static_cast<uint64_t>(key) >= variable.rows) {
      return RowBeyondVariable(key, variable.name, static_cast<int64_t>(variable.rows));
    }
    sorted = sorted && key > previous;
    previous = key;
  }
  sorted = sorted && !variable.hashed.has_value();  // those of a shard are not together
  sorted_.push_back(sorted || variable.shards.size() == 1 ? 1 : 0);
  if (variable.shards.size() > 1) {
    keys_needed_ += keys.size();
    if (!sorted) {
      order_needed_ += keys.size();
      values_needed_ += keys.size() * value_bytes;
    }
  }
  return absl::OkStatus();
}

ExchangePlan::Grouped ExchangePlan::GroupKeys(const VariableRoute& variable,
                                              std::span<const int64_t> keys, bool sorted) {
  const size_t shards = variable.shards.size();
  bounds_.assign(shards + 1, 0);
  if (shards == 1) {
    bounds_[1] = keys.size();
    return {keys.data(), nullptr};
  }
  int64_t* local = keys_.data() + keys_used_;
  keys_used_ += keys.size();
  if (sorted) {
    size_t shard = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      const uint64_t row = static_cast<uint64_t>(keys[i]);
      while (row >= variable.shards[shard].row_begin + variable.shards[shard].rows) {
        bounds_[++shard] = i;
      }
      local[i] = static_cast<int64_t>(row - variable.shards[shard].row_begin);
    }
    while (shard < shards) bounds_[++shard] = keys.size();
    return {local, nullptr};
  }
  for (const int64_t key : keys) {
    ++bounds_[static_cast<size_t>(variable.PlaceOf(static_cast<uint64_t>(key)).shard) + 1];
  }
  for (size_t s = 0; s < shards; ++s) bounds_[s + 1] += bounds_[s];
  cursor_.assign(bounds_.begin(), bounds_.end());
  uint32_t* order = order_.data() + order_used_;
  order_used_ += keys.size();
  for (size_t i = 0; i < keys.size(); ++i) {
    const HashedRows::Place place = variable.PlaceOf(static_cast<uint64_t>(keys[i]));
    const uint64_t at = cursor_[static_cast<size_t>(place.shard)]++;
    local[at] = place.row;
    order[at] = static_cast<uint32_t>(i);
  }
  return {local, order};
}

ExchangePlan::Grouped ExchangePlan::GroupAllRows(const VariableRoute& variable) {
  int64_t* local = keys_.data() + keys_used_;
  uint32_t* order = order_.data() + order_used_;
  keys_used_ += variable.rows;
  order_used_ += variable.rows;
  bounds_.assign(1, 0);
  uint64_t at = 0;
  for (int64_t shard = 0; shard < variable.hashed->shards(); ++shard) {
    for (int64_t row = 0; row < variable.hashed->RowsOf(shard); ++row, ++at) {
      local[at] = row;
      order[at] = static_cast<uint32_t>(variable.hashed->RowAt({shard, row}));
    }
    bounds_.push_back(at);
  }
  return {local, order};
}

const uint8_t* ExchangePlan::Gather(const Grouped& grouped, const uint8_t* values, size_t rows,
                                    uint64_t row_bytes) {
  if (grouped.order == nullptr) return values;
  uint8_t* gathered = values_.data() + values_used_;
  values_used_ += rows * row_bytes;
  for (size_t i = 0; i < rows; ++i) {
    std::memcpy(gathered + i * row_bytes, values + grouped.order[i] * row_bytes, row_bytes);
  }
  return gathered;
}

void ExchangePlan::AddPush(const ProgramRoutes& routes, const PushBatch& push, const PushItem& item,
                           bool sorted) {
  const VariableRoute& variable = routes.variables[static_cast<size_t>(item.variable)];
  const auto* values = static_cast<const uint8_t*>(item.value);
  PushPiece piece;
  piece.kind = item.kind;
  piece.sparse = item.sparse;
  piece.momentum = item.momentum;
  piece.unit_bytes = item.sparse ? variable.row_bytes() : variable.element_bytes;
  Grouped grouped;
  if (item.sparse) {
    grouped = GroupKeys(variable, item.keys, sorted);
    values = Gather(grouped, values, item.keys.size(), piece.unit_bytes);
  } else if (variable.hashed.has_value() && item.kind != PushKind::kRecordOnly) {
    values = Gather(GroupAllRows(variable), values, variable.rows, variable.row_bytes());
  }
  for (size_t s = 0; s < variable.shards.size(); ++s) {
    const ShardRoute& shard = variable.shards[s];
    piece.shard = shard.shard;
    if (item.kind == PushKind::kRecordOnly) {
      piece.count = 0;
    } else if (push.sums_dense && item.kind == PushKind::kGradient && !item.sparse) {
      const void* const sum = SumOf(push, shard.shard);
      piece.kind = sum != nullptr ? item.kind : PushKind::kRecordOnly;
      piece.summed_elsewhere = sum == nullptr;
      piece.values = static_cast<const uint8_t*>(sum);
      piece.count = sum != nullptr ? shard.rows * variable.row_elements : 0;
    } else if (item.sparse) {
      piece.keys = grouped.keys + bounds_[s];
      piece.values = values + bounds_[s] * piece.unit_bytes;
      piece.count = bounds_[s + 1] - bounds_[s];
    } else {
      piece.values = values + shard.row_begin * variable.row_bytes();
      piece.count = shard.rows * variable.row_elements;
    }
    Append(shard.tablet, piece);
  }
}

void ExchangePlan::AddPull(const ProgramRoutes& routes, const PullItem& item, bool sorted) {
  const VariableRoute& variable = routes.variables[static_cast<size_t>(item.variable)];
  auto* destination = static_cast<uint8_t*>(item.destination);
  PullPiece piece;
  piece.rows = item.rows || variable.hashed.has_value();
  piece.average = variable.reads_average;
  piece.unit_bytes = piece.rows ? variable.row_bytes() : variable.element_bytes;
  if (item.lent != nullptr) *item.lent = nullptr;
  if (!piece.rows && variable.shards.size() == 1) piece.lent = item.lent;
  Grouped grouped;
  if (item.rows) {
    grouped = GroupKeys(variable, item.keys, sorted);
  } else if (piece.rows) {
    grouped = GroupAllRows(variable);
  }
  for (size_t s = 0; s < variable.shards.size(); ++s) {
    const ShardRoute& shard = variable.shards[s];
    piece.shard = shard.shard;
    if (piece.rows) {
      piece.count = bounds_[s + 1] - bounds_[s];
      piece.keys = grouped.keys + bounds_[s];
      if (grouped.order != nullptr) {
        piece.scatter = grouped.order + bounds_[s];
        piece.destination = destination;
      } else {
        piece.destination = destination + bounds_[s] * piece.unit_bytes;
      }
    } else {
      piece.count = shard.rows * variable.row_elements;
      piece.destination = destination + shard.row_begin * variable.row_bytes();
    }
    if (piece.count > 0) Append(shard.tablet, piece);
  }
}

uint64_t ExchangePlan::push_bytes(int tablet) const {
  uint64_t bytes = 0;
  for (int i = first_push(tablet); i >= 0; i = push(i).next) {
    const PushPiece& piece = push(i);
    if (piece.kind == PushKind::kRecordOnly) continue;
    bytes += piece.count * (piece.unit_bytes + (piece.sparse ? sizeof(int64_t) : 0));
  }
  return bytes;
}

uint64_t ExchangePlan::pull_bytes(int tablet) const {
  uint64_t bytes = 0;
  for (int i = first_pull(tablet); i >= 0; i = pull(i).next) {
    bytes += pull(i).count * pull(i).unit_bytes;
  }
  return bytes;
}

void ExchangePlan::Append(int tablet, const PushPiece& piece) {
  TabletLists& lists = lists_[static_cast<size_t>(tablet)];
  const int index = static_cast<int>(pushes_.size());
  pushes_.push_back(piece);
  (lists.push_tail < 0 ? lists.push_head : pushes_[static_cast<size_t>(lists.push_tail)].next) =
      index;
  lists.push_tail = index;
}

void ExchangePlan::Append(int tablet, const PullPiece& piece) {
  TabletLists& lists = lists_[static_cast<size_t>(tablet)];
  const int index = static_cast<int>(pulls_.size());
  pulls_.push_back(piece);
  (lists.pull_tail < 0 ? lists.pull_head : pulls_[static_cast<size_t>(lists.pull_tail)].next) =
      index;
  lists.pull_tail = index;
}

}  // namespace cohort

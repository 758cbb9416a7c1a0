#include "common/exchange/hot_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/graph/op_registry.h"

namespace cohort {

HotRows::HotRows(uint64_t rows, size_t row_bytes)
    : row_bytes_(row_bytes),
      places_(std::bit_ceil(std::max<uint64_t>(rows, kWays))),
      rows_(std::make_unique_for_overwrite<uint8_t[]>(places_.size() * row_bytes)),
      notes_(places_.size() * 4) {}

// Neighboring keys, and keys that are multiples of a power of two, must not share their places:
// the mix of splitmix64 (Steele et al., 2014).
uint64_t HotRows::Mix(int64_t key) {
  uint64_t x = static_cast<uint64_t>(key) + 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

bool HotRows::CameBefore(uint64_t mixed) {
  uint32_t& note = notes_[mixed & (notes_.size() - 1)];
  const auto part = static_cast<uint32_t>(mixed >> 32) | 1;
  return std::exchange(note, part) == part;
}

const uint8_t* HotRows::Find(int64_t key, uint64_t oldest) {
  const size_t first = FirstPlace(Mix(key));
  for (size_t i = first; i < first + kWays; ++i) {
    Place& place = places_[i];
    if (place.pull == 0 || place.key != key) continue;
    place.uses = std::min(place.uses + 1, kMaxUses);
    return place.pull < oldest ? nullptr : rows_.get() + i * row_bytes_;
  }
  return nullptr;
}

void HotRows::Keep(int64_t key, uint64_t pull, const uint8_t* row) {
  const uint64_t mixed = Mix(key);
  const size_t first = FirstPlace(mixed);
  size_t chosen = first;
  for (size_t i = first; i < first + kWays; ++i) {
    const Place& place = places_[i];
    if (place.pull != 0 && place.key == key) {
      chosen = i;
      break;
    }
    const uint64_t taken = places_[chosen].pull;
    if (taken != 0 && (place.pull == 0 || place.uses < places_[chosen].uses)) chosen = i;
  }
  Place& place = places_[chosen];
  if (place.pull == 0 || place.key != key) {
    if (place.pull != 0) {
      if (!CameBefore(mixed)) return;
      if (place.uses > 0) {
        --place.uses;
        return;
      }
    }
    place.key = key;
    place.uses = 0;
  }
  place.pull = pull;
  std::memcpy(rows_.get() + chosen * row_bytes_, row, row_bytes_);
}

void HotRows::Clear() { std::ranges::fill(places_, Place()); }

namespace {

class HotRowsAccess : public VariableAccess {
 public:
  struct Variable {
    std::unique_ptr<HotRows> rows;  // null: none are kept
    uint64_t max_age = 0;           // in pulls
  };

  HotRowsAccess(std::vector<Variable> variables, std::unique_ptr<VariableAccess> access,
                HotRowCounters counters)
      : variables_(std::move(variables)), access_(std::move(access)), counters_(counters) {}

  absl::Status Begin(const PushBatch* push, const PullBatch* pull) override {
    if (pull != nullptr) ++pull_;
    keeps_ = pull != nullptr && pull->step == 0;
    if (!keeps_) return access_->Begin(push, pull);
    TakeKept(*pull);
    const absl::Status begun = access_->Begin(push, &batch_);
    if (!begun.ok()) keeps_ = false;
    return begun;
  }

  absl::StatusOr<ExchangeResult> Finish() override {
    absl::StatusOr<ExchangeResult> result = access_->Finish();
    if (!std::exchange(keeps_, false)) return result;
    if (!result.ok()) {
      if (absl::IsAborted(result.status())) Clear();
      return result;
    }
    if (result->pulled_timeline != timeline_) {
      Clear();
      const uint64_t before = std::exchange(timeline_, result->pulled_timeline);
      if (kept_rows_ > 0) {
        return Aborted("the servers are on timeline {}, and rows that the worker kept are of {}",
                       timeline_, before);
      }
    }
    TakePulled();
    counters_.rows->Increment(kept_rows_);
    counters_.bytes->Increment(kept_bytes_);
    return result;
  }

  void Poll() override { access_->Poll(); }
  bool on_device() const override { return access_->on_device(); }
  void Interrupt() override { access_->Interrupt(); }

 private:
  // What one item asks of the servers. `keys` is empty if it asks for all: then the item is as it
  // was.
  struct Missing {
    std::vector<int64_t> keys;
    std::vector<uint32_t> positions;  // where the item has the keys
    std::vector<uint8_t> rows;
    uint8_t* destination = nullptr;  // where the step reads the item
    bool kept_some = false;
  };

  HotRows* RowsOf(const PullItem& item) {
    return item.rows ? variables_[static_cast<size_t>(item.variable)].rows.get() : nullptr;
  }

  // Copies the rows that are kept to their destinations, and makes `batch_` of the rest.
  void TakeKept(const PullBatch& pull) {
    kept_rows_ = kept_bytes_ = 0;
    batch_ = pull;
    items_.assign(pull.items.begin(), pull.items.end());
    batch_.items = items_;
    if (missing_.size() < items_.size()) missing_.resize(items_.size());
    bool asks = false;
    for (size_t i = 0; i < items_.size(); ++i) {
      if (RowsOf(items_[i]) != nullptr) TakeKept(&items_[i], &missing_[i]);
      asks = asks || !items_[i].rows || !items_[i].keys.empty();
    }
    if (!asks) AskForOne(pull);
  }

  // The timeline comes with an answer, so a pull of which all rows are kept asks for one of them.
  void AskForOne(const PullBatch& pull) {
    for (size_t i = 0; i < items_.size(); ++i) {
      if (pull.items[i].keys.empty()) continue;
      missing_[i].keys = {pull.items[i].keys[0]};
      missing_[i].positions = {0};
      const size_t bytes = RowsOf(items_[i])->row_bytes();
      missing_[i].rows.resize(std::max(missing_[i].rows.size(), bytes));
      items_[i].keys = missing_[i].keys;
      items_[i].destination = missing_[i].rows.data();
      kept_rows_ -= 1;
      kept_bytes_ -= bytes + sizeof(int64_t);
      return;
    }
  }

  void TakeKept(PullItem* item, Missing* missing) {
    const Variable& variable = variables_[static_cast<size_t>(item->variable)];
    const size_t bytes = variable.rows->row_bytes();
    const uint64_t oldest = pull_ - std::min(pull_, variable.max_age);
    missing->keys.clear();
    missing->positions.clear();
    missing->destination = static_cast<uint8_t*>(item->destination);
    for (size_t k = 0; k < item->keys.size(); ++k) {
      const uint8_t* const row = variable.rows->Find(item->keys[k], oldest);
      if (row == nullptr) {
        missing->keys.push_back(item->keys[k]);
        missing->positions.push_back(static_cast<uint32_t>(k));
      } else {
        std::memcpy(missing->destination + k * bytes, row, bytes);
      }
    }
    const size_t kept = item->keys.size() - missing->keys.size();
    missing->kept_some = kept > 0;
    if (!missing->kept_some) return;
    kept_rows_ += kept;
    kept_bytes_ += kept * (bytes + sizeof(int64_t));
    missing->rows.resize(std::max(missing->rows.size(), missing->keys.size() * bytes));
    item->keys = missing->keys;
    item->destination = missing->rows.data();
  }

  // Keeps the rows that have come, and copies them to where the step reads them.
  void TakePulled() {
    for (size_t i = 0; i < items_.size(); ++i) {
      HotRows* const rows = RowsOf(items_[i]);
      if (rows == nullptr) continue;
      const PullItem& item = items_[i];
      const auto* const pulled = static_cast<const uint8_t*>(item.destination);
      const size_t bytes = rows->row_bytes();
      for (size_t k = 0; k < item.keys.size(); ++k) {
        rows->Keep(item.keys[k], pull_, pulled + k * bytes);
        if (!missing_[i].kept_some) continue;
        std::memcpy(missing_[i].destination + missing_[i].positions[k] * bytes, pulled + k * bytes,
                    bytes);
      }
    }
  }

  void Clear() {
    for (const Variable& variable : variables_) {
      if (variable.rows != nullptr) variable.rows->Clear();
    }
  }

  const std::vector<Variable> variables_;  // by their number in the program
  const std::unique_ptr<VariableAccess> access_;
  const HotRowCounters counters_;
  uint64_t pull_ = 0;      // the number of the last one, of synchronous steps, too
  uint64_t timeline_ = 0;  // all kept rows belong to it

  // The exchange that has begun.
  bool keeps_ = false;  // its pull uses kept rows, and keeps what comes
  PullBatch batch_;
  std::vector<PullItem> items_;   // those that batch_ has
  std::vector<Missing> missing_;  // by item; those of items that keep rows are used
  uint64_t kept_rows_ = 0;
  uint64_t kept_bytes_ = 0;
};

}  // namespace

std::unique_ptr<VariableAccess> KeepHotRows(const Program& program,
                                            std::unique_ptr<VariableAccess> access,
                                            HotRowCounters counters) {
  if (access->on_device()) return access;
  std::vector<HotRowsAccess::Variable> variables(program.variables.size());
  bool keeps = false;
  for (const Node& node : program.nodes) {
    if (node.op != "read_rows") continue;
    const auto max_age = static_cast<uint64_t>(IntAttr(node, "max_age", 0));
    if (max_age == 0) continue;
    keeps = true;
    const auto index = static_cast<size_t>(IntAttr(node, "variable"));
    ValueType row = program.variables[index].type;
    row.dims[0].size = 1;
    variables[index].max_age = max_age;
    variables[index].rows =
        std::make_unique<HotRows>(static_cast<uint64_t>(IntAttr(node, "kept_rows")),
                                  static_cast<size_t>(CapacityElements(row)) * SizeOf(row.dtype));
  }
  if (!keeps) return access;
  return std::make_unique<HotRowsAccess>(std::move(variables), std::move(access), counters);
}

}  // namespace cohort

#ifndef COHORT_COMMON_EXCHANGE_EXCHANGE_PLAN_H_
#define COHORT_COMMON_EXCHANGE_EXCHANGE_PLAN_H_

#include <absl/status/status.h>

#include <cstdint>
#include <span>
#include <vector>

#include "common/exchange/exchange_message.h"
#include "common/exchange/exchange_routes.h"
#include "common/exchange/variable_access.h"

namespace cohort {

// The part of one push item for one shard. References the step's buffers, or the plan's scratch.
struct PushPiece {
  int next = -1;  // piece of the same tablet, in the order of the items
  uint32_t shard = 0;
  PushKind kind = PushKind::kGradient;
  bool sparse = false;
  const int64_t* keys = nullptr;    // sparse: `count` shard-local rows
  const uint8_t* values = nullptr;  // count * unit_bytes
  uint64_t count = 0;               // dense: elements of the shard. Sparse: rows, may be 0
  uint64_t unit_bytes = 0;          // size of an element, or of a row
  double momentum = 0;
  bool summed_elsewhere = false;  // kRecordOnly: PushBatch::sums_dense without its sum
};

// The part of one pull item that one shard answers.
struct PullPiece {
  int next = -1;
  uint32_t shard = 0;
  bool rows = false;
  bool average = false;           // VariableDecl::reads_average
  const int64_t* keys = nullptr;  // rows: `count` shard-local rows, at least one
  uint64_t count = 0;             // dense: elements of the shard. Rows: rows
  uint64_t unit_bytes = 0;
  uint8_t* destination = nullptr;     // place of the shard's first unit; scattered: of the item's
  const uint32_t* scatter = nullptr;  // rows: unit i goes to destination + scatter[i] * unit_bytes
  uint64_t received = 0;              // units in place
  // Dense, the whole variable: PullItem::lent. Null: the value is copied.
  const void** lent = nullptr;
};

// One step's items cut along the shards, listed by tablet. The plan references rows whose keys are
// sorted in place, and gathers others into scratch memory once. It reuses its memory: repeated
// calls of Make allocate nothing.
class ExchangePlan {
 public:
  // Either may be null. Errors: InvalidArgument that names the variable and the key or index.
  absl::Status Make(const ProgramRoutes& routes, const PushBatch* push, const PullBatch* pull);

  // Pieces of a tablet (index into ProgramRoutes::tablets): start at first_*(), follow `next` to
  // -1.
  int first_push(int tablet) const { return lists_[static_cast<size_t>(tablet)].push_head; }
  int first_pull(int tablet) const { return lists_[static_cast<size_t>(tablet)].pull_head; }
  const PushPiece& push(int index) const { return pushes_[static_cast<size_t>(index)]; }
  PullPiece& pull(int index) { return pulls_[static_cast<size_t>(index)]; }
  const PullPiece& pull(int index) const { return pulls_[static_cast<size_t>(index)]; }
  // The payload of a tablet's pieces: pushed values with their keys, pulled values.
  uint64_t push_bytes(int tablet) const;
  uint64_t pull_bytes(int tablet) const;

 private:
  struct TabletLists {
    int push_head = -1;
    int push_tail = -1;
    int pull_head = -1;
    int pull_tail = -1;
  };
  // Keys of one item, grouped by shard: those of shard s are [bounds_[s], bounds_[s + 1]).
  struct Grouped {
    const int64_t* keys = nullptr;    // shard-local
    const uint32_t* order = nullptr;  // each key's position in the item; null: the item's own order
  };

  absl::Status CheckItems(const ProgramRoutes& routes, const PushBatch* push,
                          const PullBatch* pull);
  absl::Status CheckKeys(const VariableRoute& variable, std::span<const int64_t> keys,
                         uint64_t value_bytes);
  // Makes room for GroupAllRows and, for a push, Gather.
  void NeedAllRows(const VariableRoute& variable, uint64_t value_bytes);
  Grouped GroupKeys(const VariableRoute& variable, std::span<const int64_t> keys, bool sorted);
  // All rows of a variable whose shards share them by hash.
  Grouped GroupAllRows(const VariableRoute& variable);
  // The item's rows, copied in the order of the groups.
  const uint8_t* Gather(const Grouped& grouped, const uint8_t* values, size_t rows,
                        uint64_t row_bytes);
  void AddPush(const ProgramRoutes& routes, const PushBatch& push, const PushItem& item,
               bool sorted);
  void AddPull(const ProgramRoutes& routes, const PullItem& item, bool sorted);
  void Append(int tablet, const PushPiece& piece);
  void Append(int tablet, const PullPiece& piece);

  std::vector<TabletLists> lists_;
  std::vector<PushPiece> pushes_;
  std::vector<PullPiece> pulls_;

  // By keyed item in the order push, pull: 1 if its keys ascend.
  std::vector<uint8_t> sorted_;
  std::vector<uint64_t> bounds_;
  std::vector<uint64_t> cursor_;
  // Scratch that pieces reference; its size is set before the first piece is made.
  std::vector<int64_t> keys_;
  std::vector<uint32_t> order_;
  std::vector<uint8_t> values_;
  size_t keys_needed_ = 0;
  size_t order_needed_ = 0;
  size_t values_needed_ = 0;
  size_t keys_used_ = 0;
  size_t order_used_ = 0;
  size_t values_used_ = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_EXCHANGE_PLAN_H_

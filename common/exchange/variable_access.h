#ifndef COHORT_COMMON_EXCHANGE_VARIABLE_ACCESS_H_
#define COHORT_COMMON_EXCHANGE_VARIABLE_ACCESS_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/graph/program.h"
#include "common/graph/step_membership.h"

namespace cohort {

// What one step reads from one variable. The memory belongs to the caller and stays valid until the
// exchange ends.
struct PullItem {
  int variable = 0;               // index into the program's variables
  bool rows = false;              // only the rows named by `keys`
  std::span<const int64_t> keys;  // unique; logical rows of the variable, or hash keys
  void* destination = nullptr;    // dense: the whole variable. Rows: keys.size() rows
  // Dense, if not null: the access may lend the value instead of copying it. It then sets `*lent`
  // to the whole variable, aligned to kLentAlignment, in memory that nobody writes until the next
  // Begin whose push or pull names this pull's lane, or until the access is destroyed. It sets null
  // if the value is in `destination`.
  const void** lent = nullptr;

  static constexpr size_t kLentAlignment = 64;
};

// What one step writes to one variable.
struct PushItem {
  int variable = 0;
  PushKind kind = PushKind::kGradient;
  bool sparse = false;
  std::span<const int64_t> keys;  // unique
  const void* value = nullptr;    // dense: the variable's shape. Sparse: keys.size() rows
  double momentum = 0;
};

// Names an update, and the place and timeline at which its gradient was computed.
struct PushStamp {
  uint64_t closure = 0;
  uint32_t ordinal = 0;
  uint32_t attempt = 0;
  uint64_t place = 0;     // place of the closure's first step; the step is place + ordinal
  uint64_t timeline = 0;  // timeline of the pull
  double weight = 0;      // divisor of the summed gradient
  StepMembership step;
  int64_t iteration_offset = 0;  // async: the optimizer sees place + ordinal + this
};

// The sum of a dense gradient over all places of a synchronous step, for one shard.
struct ShardSum {
  uint32_t shard = 0;            // its number in the job
  const void* values = nullptr;  // its rows
};

struct PushBatch {
  PushStamp stamp;
  std::span<const PushItem> items;
  // The replicas sum dense gradients themselves: only the sums below are pushed, and not the values
  // of the items. The servers then expect the sum of each shard from one push of the step.
  bool sums_dense = false;
  std::span<const ShardSum> sums;  // those that this push brings; ascending by shard
  uint32_t lane = 0;               // that of the pull from which it was computed
};

struct PullBatch {
  uint64_t place = 0;
  uint32_t ordinal = 0;
  std::span<const PullItem> items;
  uint64_t step = 0;  // sync mode: waits until all steps before this one are closed; 0: async
  // Identifies the pull until its push: pulls that wait for their pushes have different lanes.
  uint32_t lane = 0;
};

// The outcome of a push, over all tablets of the program.
struct PushOutcome {
  uint32_t applied = 0;
  uint32_t duplicates = 0;  // applied before
  uint32_t settled = 0;     // refused: the closure is settled there, applied or not
  uint32_t staged = 0;      // sync mode: kept until the step is closed
  bool dropped = false;     // sync mode: a step was closed without it, or was abandoned
  bool mixed = false;       // tablets hold different attempts of this update
  uint64_t max_staleness = 0;
  uint64_t sum_staleness = 0;  // the sum over the sections that were applied
};

struct ExchangeResult {
  PushOutcome push;
  uint64_t pulled_timeline = 0;
};

// Connects a step to its variables: on parameter servers (RemoteAccess), on the device where the
// step runs, or in one tablet of this process (LocalVariables). The executor knows only this
// interface.
//
// Only the step loop's thread uses it.
class VariableAccess {
 public:
  virtual ~VariableAccess() = default;

  // Applies `push` (unless null), then reads `pull` (unless null), so that the pull sees the push.
  // Returns when both are done: every tablet of the program has acknowledged the push, and the
  // values are in place. Retries lost requests under the same update id. Errors: Aborted if the
  // push or the pull was fenced (it belongs to an older timeline: the caller gives the closure
  // back); Cancelled after Interrupt; others that the implementation documents.
  absl::StatusOr<ExchangeResult> Exchange(const PushBatch* push, const PullBatch* pull) {
    const absl::Status begun = Begin(push, pull);
    if (!begun.ok()) return begun;
    return Finish();
  }

  // The two halves of Exchange; the caller may compute between them. One exchange at a time, also
  // for all programs of one thread. Begin reads the batches, and the memory of their items stays
  // valid until Finish has returned. An error of Begin is one of Exchange; then nothing has begun.
  virtual absl::Status Begin(const PushBatch* push, const PullBatch* pull) = 0;
  virtual absl::StatusOr<ExchangeResult> Finish() = 0;
  // Between the two: does what is due for the exchange, and does not wait. The caller who computes
  // after it knows that the requests are on their way, as far as the sockets take them.
  virtual void Poll() {}

  // True if steps push and read in the memory of a device: a push ends before the next step runs.
  virtual bool on_device() const { return false; }

  // Makes a running exchange return Cancelled soon. Thread-safe.
  virtual void Interrupt() = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_VARIABLE_ACCESS_H_

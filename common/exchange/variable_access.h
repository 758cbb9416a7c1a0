#ifndef COHORT_COMMON_EXCHANGE_VARIABLE_ACCESS_H_
#define COHORT_COMMON_EXCHANGE_VARIABLE_ACCESS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "common/graph/program.h"

namespace cohort {

// What one step wants of one variable. Memory belongs to the caller and stays until the exchange
// ends.
struct PullItem {
  int variable = 0;               // index into the program's variables
  bool rows = false;              // only the rows named by `keys`
  std::span<const int64_t> keys;  // unique; logical rows of the variable, or hash keys
  void* destination = nullptr;    // dense: the whole variable. Rows: keys.size() rows
};

// What one step gives to one variable.
struct PushItem {
  int variable = 0;
  PushKind kind = PushKind::kGradient;
  bool sparse = false;
  std::span<const int64_t> keys;  // unique
  const void* value = nullptr;    // dense: the variable's shape. Sparse: keys.size() rows
  double momentum = 0;
};

// Names an update, and the time that its gradient was computed at.
struct PushStamp {
  uint64_t closure = 0;
  uint32_t ordinal = 0;
  uint32_t attempt = 0;
  uint64_t place = 0;     // of the closure's first step; the step is place + ordinal
  uint64_t timeline = 0;  // of the pull
  double weight = 0;      // divisor of the summed gradient
  uint32_t closures_in_step = 0;
};

struct PushBatch {
  PushStamp stamp;
  std::span<const PushItem> items;
};

struct PullBatch {
  uint64_t place = 0;
  uint32_t ordinal = 0;
  std::span<const PullItem> items;
};

// What became of a push, over all tablets of the program.
struct PushOutcome {
  uint32_t applied = 0;
  uint32_t duplicates = 0;  // applied before
  uint32_t settled = 0;     // refused: the closure is settled there, applied or not
  bool mixed = false;       // tablets hold different attempts of this update
  uint64_t max_staleness = 0;
};

struct ExchangeResult {
  PushOutcome push;
  uint64_t pulled_timeline = 0;
};

// How a step reaches its variables. Three implementations: *remote* (parameter servers), *local*
// (this process), *mirrored* (a replica per device kept equal by all-reduce). A strategy is a
// choice of VariableAccess and of schedule; the executor knows only this.
//
// Used by one thread at a time: the step loop's.
class VariableAccess {
 public:
  virtual ~VariableAccess() = default;

  // Applies `push` (unless null), then reads `pull` (unless null) so that the pull sees the push,
  // and returns when both are done: the push acknowledged by every tablet of the program, the
  // values in place. Retries what is lost under the same update id. Errors: Aborted where the push
  // or the pull was fenced (an older timeline: the closure is to be given back); Cancelled after
  // Interrupt; others as the implementation says.
  virtual absl::StatusOr<ExchangeResult> Exchange(const PushBatch* push, const PullBatch* pull) = 0;

  // Makes an Exchange under way return Cancelled soon. Thread-safe.
  virtual void Interrupt() = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_VARIABLE_ACCESS_H_

#ifndef COHORT_COMMON_EXCHANGE_HOT_ROWS_H_
#define COHORT_COMMON_EXCHANGE_HOT_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/metrics.h"
#include "common/exchange/variable_access.h"
#include "common/graph/program.h"

namespace cohort {

// Copies of the rows of one variable that are read most often, by key. Memory is bounded: a key
// has four places. A row that finds them taken gets none at first. If it comes again soon, it
// lowers the uses of the row that has the fewest, and takes the place of a row without uses. So
// rows that come once, of which a batch has many, do not drive out the hot ones.
class HotRows {
 public:
  // Room for at least `rows` rows of `row_bytes` bytes.
  HotRows(uint64_t rows, size_t row_bytes);

  // Returns the row, as it was at pull `oldest` or later, or null. The memory is valid until Keep
  // or Clear. Pulls are numbered from 1.
  const uint8_t* Find(int64_t key, uint64_t oldest);
  // Takes a row that the servers had at `pull`.
  void Keep(int64_t key, uint64_t pull, const uint8_t* row);
  void Clear();

  size_t row_bytes() const { return row_bytes_; }

 private:
  struct Place {
    int64_t key = 0;
    uint64_t pull = 0;  // 0: empty
    uint32_t uses = 0;
  };
  static constexpr size_t kWays = 4;
  static constexpr uint32_t kMaxUses = 15;

  static uint64_t Mix(int64_t key);
  size_t FirstPlace(uint64_t mixed) const { return (mixed & (places_.size() - 1)) / kWays * kWays; }
  // Notes the key. Returns true if it came before, and since then no other that shares its note.
  bool CameBefore(uint64_t mixed);

  const size_t row_bytes_;
  std::vector<Place> places_;
  std::unique_ptr<uint8_t[]> rows_;  // in the order of the places
  std::vector<uint32_t> notes_;      // parts of mixed keys that found no place
};

// Counts what steps did not pull because the worker had it.
struct HotRowCounters {
  Counter* rows = nullptr;
  Counter* bytes = nullptr;  // those rows and their keys have
};

// Returns `access`, or, if `read_rows` of the program has the attribute `max_age`, an access that
// keeps the rows which the program reads most often, each for `max_age` pulls, and asks `access`
// for the others. Pushes travel as before, and no kept row changes with them. So a step reads rows
// that lack the updates of at most `max_age` steps of this worker, and those that others made
// meanwhile.
//
// Pulls of synchronous steps (PullBatch::step) read everything from `access`. A rollback ends all
// kept rows: a pull that has read some of them returns Aborted, like one that was fenced.
std::unique_ptr<VariableAccess> KeepHotRows(const Program& program,
                                            std::unique_ptr<VariableAccess> access,
                                            HotRowCounters counters);

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_HOT_ROWS_H_

#ifndef COHORT_COMMON_TABLET_ROW_TIER_H_
#define COHORT_COMMON_TABLET_ROW_TIER_H_

#include <absl/status/statusor.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cohort {

class Counter;

// A row of a table on disk: a byte of flags (0; for marks that a row keeps on its way), the clock
// of its last update (uint64, little-endian), its values, its slots.
namespace row_record {

inline constexpr size_t kFlagsAt = 0;
inline constexpr size_t kClockAt = 1;
inline constexpr size_t kTensorsAt = 9;

inline uint64_t ClockOf(const uint8_t* record) {
  uint64_t clock = 0;
  std::memcpy(&clock, record + kClockAt, sizeof(clock));
  return clock;
}

}  // namespace row_record

// Rows in ascending order. Used by one thread.
class RowCursor {
 public:
  virtual ~RowCursor() = default;
  // Moves to the next row; first to the first one. Returns false behind the last one, or after an
  // error (status).
  virtual bool Next() = 0;
  virtual int64_t row() const = 0;
  // Valid until Next.
  virtual const uint8_t* record() const = 0;
  virtual absl::Status status() const = 0;
};

// The rows that a tier had at one moment. Keeps what it needs. Thread-safe.
class RowView {
 public:
  virtual ~RowView() = default;
  virtual uint64_t rows() const = 0;
  // The rows whose clock is lower. Needs a tier that knows clocks.
  virtual absl::StatusOr<uint64_t> CountOlder(uint64_t clock) const = 0;
  virtual std::unique_ptr<RowCursor> Rows() const = 0;
};

// The rows of one shard that do not lie in memory. A row is there once. Errors of all functions:
// ResourceExhausted for a full disk, DataLoss, Unavailable; all name the directory and the server.
// Nothing has changed after an error. Not thread-safe, except for rows().
class RowTier {
 public:
  virtual ~RowTier() = default;

  // Reads rows into `records`, one after another. `found`: by row; 0 if it is not there.
  virtual absl::Status Read(std::span<const int64_t> rows, std::vector<uint8_t>* records,
                            std::vector<uint8_t>* found) = 0;
  // Adds rows that are not there.
  virtual absl::Status Put(std::span<const int64_t> rows, std::span<const uint8_t> records) = 0;
  // Removes rows that are there, with their clocks.
  virtual absl::Status Remove(std::span<const int64_t> rows, std::span<const uint64_t> clocks) = 0;
  // At most `most` rows with the lowest clocks, ascending: (clock, row). None has a clock below
  // `from`. Needs a tier that knows clocks.
  virtual absl::StatusOr<std::vector<std::pair<uint64_t, int64_t>>> Oldest(uint64_t from,
                                                                           size_t most) = 0;
  virtual std::shared_ptr<const RowView> View() = 0;
  virtual uint64_t rows() const = 0;
};

// The memory that tables of one server share: a limit, and which table has to shrink. Thread-safe.
class TableMemory {
 public:
  explicit TableMemory(uint64_t limit) : limit_(limit) {}

  void AddTable() { ++tables_; }
  // A table's bytes have changed.
  void Note(uint64_t before, uint64_t now) { used_ += now - before; }
  // A table with `own` bytes may take more. One below its equal part may always.
  bool MayGrow(uint64_t own, uint64_t more) const {
    return used_ + more <= limit_ || own + more <= part();
  }
  // The tables have more than the limit, and this one more than its equal part.
  bool MustShrink(uint64_t own) const { return used_ > limit_ && own > part(); }
  uint64_t limit() const { return limit_; }

 private:
  uint64_t part() const { return limit_ / std::max<uint64_t>(tables_, 1); }

  const uint64_t limit_;
  std::atomic<uint64_t> used_{0};
  std::atomic<uint64_t> tables_{0};
};

// A directory of one server for the rows of its tables that do not lie in memory. It is scratch:
// new and empty, and removed at the end; a checkpoint has the rows. Directories that killed servers
// of this host have left beside it since the host has started are removed, too. Thread-safe.
class RowDisk {
 public:
  struct Options {
    // Is created if it is missing. "": $TMPDIR or /tmp, or /var/tmp if that is in memory.
    std::string parent;
    uint64_t memory_bytes = 0;  // for rows in memory and for what the disk needs
    std::string server;         // named in errors
    // Rows that reads and updates found in memory, and on disk. May be null; they outlive this.
    Counter* found_in_memory = nullptr;
    Counter* found_on_disk = nullptr;
  };

  // Errors: Unimplemented (exit code 78) if this build has no RocksDB; those of the directory.
  static absl::StatusOr<std::shared_ptr<RowDisk>> Create(const Options& options);
  virtual ~RowDisk() = default;

  // The tier of a table's shard. `keeps_clocks`: it can tell the oldest rows. The disk outlives it.
  virtual std::unique_ptr<RowTier> AddTable(uint32_t shard, size_t record_bytes,
                                            bool keeps_clocks) = 0;
  virtual TableMemory* memory() = 0;
  // Bytes of blocks of a table in memory: small enough for the limit.
  size_t block_bytes() { return std::max<size_t>(4096, memory()->limit() / 256); }
  // Memory that the disk itself takes.
  virtual uint64_t memory_bytes() const = 0;
  // Rows on disk, and the bytes of the files.
  virtual uint64_t rows() const = 0;
  virtual uint64_t file_bytes() const = 0;
  // Rows in memory of all tables, which tables count.
  std::atomic<int64_t>* rows_in_memory() { return &rows_in_memory_; }
  virtual void CountFound(uint64_t in_memory, uint64_t on_disk) = 0;
  virtual const std::string& directory() const = 0;
  // The directory lies in memory, so the limit limits nothing.
  virtual bool in_memory() const = 0;

 private:
  std::atomic<int64_t> rows_in_memory_{0};
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_ROW_TIER_H_

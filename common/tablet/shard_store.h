#ifndef COHORT_COMMON_TABLET_SHARD_STORE_H_
#define COHORT_COMMON_TABLET_SHARD_STORE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/applied_merge.h"
#include "common/tablet/snapshot_job.h"
#include "common/tablet/tablet.h"
#include "common/tensor/dtype.h"

namespace cohort {

namespace v1 {
class SnapshotFile;
}

// A cut to restore from. Used by one thread at a time.
class ShardSource {
 public:
  virtual ~ShardSource() = default;
  // Reads rows [row_begin, row_begin + rows) of a variable (slot "") or of one of its slots.
  virtual absl::Status ReadRows(const std::string& variable, const std::string& slot, DType dtype,
                                uint64_t row_begin, uint64_t rows, std::span<uint8_t> out) = 0;
  // Reads rows [row, row + rows) of a shard whose variable is partitioned by hash.
  virtual absl::Status ReadHashedRows(const ShardInfo& shard, const std::string& /*slot*/,
                                      int64_t /*row*/, int64_t /*rows*/,
                                      std::span<uint8_t> /*out*/) {
    return absl::UnimplementedError("this store has no rows by hash: " + shard.variable);
  }
  // Gives the rows that a shard of a table without bounds has to `add`, in pieces, and what is
  // known of others to `add_counts`; see Tablet::FillTables.
  virtual absl::Status ReadTable(const ShardInfo& shard, cohort::Tablet::RowAdder /*add*/,
                                 cohort::Tablet::RowAdder /*add_counts*/) {
    return absl::UnimplementedError("this store has no tables: " + shard.variable);
  }
  // The updates that a tablet of `layout` has applied.
  virtual absl::StatusOr<RestoredTablet> Tablet(const v1::Layout& layout, uint32_t tablet) = 0;
};

// Values that variables begin with. Used by one thread at a time.
class InitialValues {
 public:
  virtual ~InitialValues() = default;
  // Reads rows [row, row + rows) of the shard, if the values have its variable, and leaves `out` as
  // it is if not. Errors: DataLoss if the variable has another shape or type there.
  virtual absl::Status ReadRows(const ShardInfo& shard, int64_t row, int64_t rows,
                                std::span<uint8_t> out) = 0;
  // Gives the rows that a shard of a table without bounds begins with to `add`, in pieces, with
  // their values alone. Errors: as for ReadRows, and those of `add`.
  virtual absl::Status ReadTable(const ShardInfo& /*shard*/, cohort::Tablet::RowAdder /*add*/) {
    return absl::OkStatus();
  }
};

// Writes and reads snapshots. It is injected, so that the protocol runs without a disk. The core
// calls it on its background executor, never while it handles a message.
class ShardStore {
 public:
  virtual ~ShardStore() = default;
  // Writes the job's shards; the files are durable when this returns. Errors: Cancelled if the job
  // was cancelled; others of the storage.
  virtual absl::StatusOr<std::vector<v1::SnapshotFile>> Write(SnapshotJob* job) = 0;
  virtual absl::StatusOr<std::unique_ptr<ShardSource>> Open(const std::string& manifest) = 0;
  // `path`: a safetensors file (AssignTablets.initial_values).
  virtual absl::StatusOr<std::unique_ptr<InitialValues>> OpenValues(const std::string& path) {
    return absl::UnimplementedError("this store cannot read initial values: " + path);
  }
  // Returns OK if this task sees the chief's token in the checkpoint directory.
  virtual absl::Status CheckDirectory(const std::string& directory, const std::string& token) = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_SHARD_STORE_H_

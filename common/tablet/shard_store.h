#ifndef COHORT_COMMON_TABLET_SHARD_STORE_H_
#define COHORT_COMMON_TABLET_SHARD_STORE_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/applied_merge.h"
#include "common/tablet/tablet.h"
#include "common/tensor/dtype.h"

namespace cohort {

namespace v1 {
class SnapshotFile;
}

// What is to be written of one cut: references to memory, so it may take its time.
struct SnapshotJob {
  uint64_t cut = 0;
  uint32_t ps = 0;
  std::string directory;  // of this checkpoint
  std::vector<TabletSnapshot> tablets;
  std::atomic<bool> cancelled{false};
};

// A cut to restore from. Used by one thread at a time.
class ShardSource {
 public:
  virtual ~ShardSource() = default;
  // Rows [row_begin, row_begin + rows) of a variable (slot "") or of a slot of it.
  virtual absl::Status ReadRows(const std::string& variable, const std::string& slot, DType dtype,
                                uint64_t row_begin, uint64_t rows, std::span<uint8_t> out) = 0;
  // What a tablet of `layout` has applied.
  virtual absl::StatusOr<RestoredTablet> Tablet(const v1::Layout& layout, uint32_t tablet) = 0;
};

// Where snapshots go and come from: injected, so that the protocol runs without a disk. Called on
// the core's executors, never where a message is handled.
class ShardStore {
 public:
  virtual ~ShardStore() = default;
  // Writes the job's shards; the files are durable when this returns. Cancelled where the job was.
  virtual absl::StatusOr<std::vector<v1::SnapshotFile>> Write(const SnapshotJob& job) = 0;
  virtual absl::StatusOr<std::unique_ptr<ShardSource>> Open(const std::string& manifest) = 0;
  // OK where this task sees the chief's token in the checkpoint directory.
  virtual absl::Status CheckDirectory(const std::string& directory, const std::string& token) = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_SHARD_STORE_H_

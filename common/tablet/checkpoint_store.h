#ifndef COHORT_COMMON_TABLET_CHECKPOINT_STORE_H_
#define COHORT_COMMON_TABLET_CHECKPOINT_STORE_H_

#include <memory>
#include <string>
#include <vector>

#include "common/tablet/shard_store.h"

namespace cohort {

// Shard files in a directory that chief and servers share: "ps-<index>.safetensors", one of each
// server that has shards; tensors are named by common/checkpoint/shard_names.h.
class CheckpointStore : public ShardStore {
 public:
  // Errors: Cancelled; ResourceExhausted (disk full) and others of writing, naming the file. What
  // was begun is removed.
  absl::StatusOr<std::vector<v1::SnapshotFile>> Write(const SnapshotJob& job) override;
  // Errors: NotFound, DataLoss naming the file. Checksums of whole files are not compared again:
  // the chief has done so when it chose the cut.
  absl::StatusOr<std::unique_ptr<ShardSource>> Open(const std::string& manifest) override;
  absl::Status CheckDirectory(const std::string& directory, const std::string& token) override;
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_CHECKPOINT_STORE_H_

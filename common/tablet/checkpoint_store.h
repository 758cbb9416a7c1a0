#ifndef COHORT_COMMON_TABLET_CHECKPOINT_STORE_H_
#define COHORT_COMMON_TABLET_CHECKPOINT_STORE_H_

#include <memory>
#include <string>
#include <vector>

#include "common/tablet/shard_store.h"

namespace cohort {

// Shard files in a directory that the chief and the servers share. Each server that has shards
// writes one file "ps-<index>.safetensors"; common/checkpoint/shard_names.h names its tensors.
class CheckpointStore : public ShardStore {
 public:
  // Errors: Cancelled; ResourceExhausted (disk full) and other write errors, which name the file.
  // After an error an unfinished file is removed.
  absl::StatusOr<std::vector<v1::SnapshotFile>> Write(SnapshotJob* job) override;
  // Errors: NotFound; DataLoss that names the file. Does not compare the checksums of whole files
  // again: the chief has done so when it chose the cut.
  absl::StatusOr<std::unique_ptr<ShardSource>> Open(const std::string& manifest) override;
  // Errors: NotFound; DataLoss that names the file.
  absl::StatusOr<std::unique_ptr<InitialValues>> OpenValues(const std::string& path) override;
  absl::Status CheckDirectory(const std::string& directory, const std::string& token) override;
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_CHECKPOINT_STORE_H_

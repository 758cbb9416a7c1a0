#ifndef COHORT_CHIEF_JOB_CHECKPOINT_CATALOG_H_
#define COHORT_CHIEF_JOB_CHECKPOINT_CATALOG_H_

#include <absl/status/statusor.h>

#include <optional>
#include <string>

#include "common/checkpoint/best_checkpoint.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "proto/checkpoint.pb.h"

namespace cohort {

// The stored checkpoints, as the job's walk reads them. There are two implementations: JobDirectory
// reads a directory; the simulator reads its own disk.
class CheckpointCatalog {
 public:
  virtual ~CheckpointCatalog() = default;

  // Returns true if a checkpoint is committed.
  virtual absl::StatusOr<bool> HasCheckpoint() const = 0;
  // Reads the manifest of a checkpoint, by the checkpoint's directory.
  virtual absl::StatusOr<v1::Manifest> Read(const std::string& checkpoint) const = 0;
  // Reads the newest readable manifest; nullopt: there is none.
  virtual absl::StatusOr<std::optional<v1::Manifest>> NewestManifest() const = 0;
  // Calls BestOf (common/checkpoint/best_checkpoint.h) for this directory.
  virtual absl::StatusOr<std::optional<v1::BestCheckpoint>> BestUpTo(
      const v1::Manifest& last, const BestRule& rule, const RefusedCallback& refused) const = 0;
  // Returns the directory of the checkpoint with this name.
  virtual std::string PathOf(const std::string& name) const = 0;
  // Returns true if the checkpoint with this name certainly no longer exists.
  virtual bool IsGone(const std::string& name) const = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_CHECKPOINT_CATALOG_H_

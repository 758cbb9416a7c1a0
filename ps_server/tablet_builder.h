#ifndef COHORT_PS_SERVER_TABLET_BUILDER_H_
#define COHORT_PS_SERVER_TABLET_BUILDER_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/tablet/shard_store.h"
#include "common/tablet/tablet.h"
#include "common/tensor/buffer.h"
#include "ps_server/data_path.h"
#include "ps_server/ps_metrics.h"
#include "ps_server/server_memory.h"

namespace cohort {

namespace v1 {
class AssignTablets;
}

// Makes the tablets that a chief assigns to this server, from their initializers, from a file of
// initial values, or from a cut. It
// has no state, so builds may run on any thread.
class TabletBuilder {
 public:
  struct Options {
    AppliedSet::Limits applied_limits;
    ShardOptions shard;
    TabletTestFaults test_faults;
  };
  // What the builder uses; all outlive it and its tablets.
  struct Environment {
    ShardStore* store = nullptr;
    MetricsRegistry* registry = nullptr;
    PsMetrics* metrics = nullptr;
    Logger* log = nullptr;
    BufferPool* pool = nullptr;
    std::atomic<uint64_t>* early_bytes = nullptr;  // see Tablet::Options
    ServerMemory* memory = nullptr;                // an assignment that needs more is refused
  };

  TabletBuilder(const Options& options, const Environment& environment)
      : options_(options), env_(environment) {}

  // Called with the bytes that are ready so far. An error ends the build.
  using Progress = std::function<absl::Status(uint64_t bytes)>;

  // The tablets of `assign` that this server has, with their values. They depend only on what
  // ContentsOf returns. Errors: ResourceExhausted if they need more memory than there is;
  // InvalidArgument if the layout contradicts itself; those of ShardStore for a cut that cannot be
  // read, and of `progress`.
  absl::StatusOr<std::shared_ptr<TabletSet>> Build(const v1::AssignTablets& assign,
                                                   const Progress& progress) const;
  // The tablets of `assign` whose copies this server has, without their state. Errors: those of
  // Build.
  absl::StatusOr<std::shared_ptr<TabletSet>> MakeCopies(const v1::AssignTablets& assign) const;
  // Equal for two assignments whose tablets have the same values.
  static std::string ContentsOf(const v1::AssignTablets& assign);
  // Makes built tablets those of an assignment with these contents, ready to be served to chiefs of
  // `generation` and later ones. Errors: those of Tablet::Restore.
  static absl::Status Finish(const v1::AssignTablets& assign, uint64_t generation, TabletSet* set);

 private:
  // Makes the disk of tables if the assignment limits their memory, and this server has any.
  absl::Status MakeDisk(const v1::AssignTablets& assign, TabletSet* set) const;
  absl::StatusOr<std::shared_ptr<Tablet>> Make(const v1::Layout& layout,
                                               const std::shared_ptr<const LayoutRules>& rules,
                                               uint32_t number, RowDisk* disk) const;
  absl::Status CheckMemory(const v1::AssignTablets& assign, const LayoutRules& rules) const;
  absl::Status Restore(const v1::AssignTablets& assign, TabletSet* tablets,
                       const Progress& progress) const;
  // Replaces the values of the variables that the file of initial values has.
  absl::Status ReadInitialValues(const std::string& path, const TabletSet& tablets,
                                 const Progress& progress) const;

  const Options options_;
  const Environment env_;
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_TABLET_BUILDER_H_

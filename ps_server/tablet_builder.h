#ifndef COHORT_PS_SERVER_TABLET_BUILDER_H_
#define COHORT_PS_SERVER_TABLET_BUILDER_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/tablet/shard_store.h"
#include "common/tablet/tablet.h"
#include "common/tensor/buffer.h"
#include "ps_server/data_path.h"
#include "ps_server/ps_metrics.h"

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
    uint64_t memory_bytes = 0;  // an assignment that needs more is refused; 0: no limit
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
  };

  TabletBuilder(const Options& options, const Environment& environment)
      : options_(options), env_(environment) {}

  // The tablets of `assign` that this server has, ready to be served to chiefs of `generation` and
  // later ones. Errors: ResourceExhausted if they need more memory than there is; InvalidArgument
  // if the layout contradicts itself; those of ShardStore for a cut that cannot be read.
  absl::StatusOr<std::shared_ptr<TabletSet>> Build(const v1::AssignTablets& assign,
                                                   uint64_t generation) const;

 private:
  absl::Status CheckMemory(const v1::AssignTablets& assign, const LayoutRules& rules) const;
  absl::Status Restore(const v1::AssignTablets& assign, TabletSet* tablets) const;
  // Replaces the values of the variables that the file of initial values has.
  absl::Status ReadInitialValues(const std::string& path, const TabletSet& tablets) const;

  const Options options_;
  const Environment env_;
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_TABLET_BUILDER_H_

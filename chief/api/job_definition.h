#ifndef COHORT_CHIEF_API_JOB_DEFINITION_H_
#define COHORT_CHIEF_API_JOB_DEFINITION_H_

#include <absl/status/statusor.h>

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chief/api/locked_core.h"
#include "chief/core/closure_spec.h"
#include "common/graph/program.h"
#include "proto/checkpoint.pb.h"

namespace cohort {

struct DatasetOptions;

// What the client has defined: the layout of the variables, the programs and the datasets. It
// checks definitions and gives them to the core. Every function takes the core's lock.
class JobDefinition {
 public:
  // `closures_hash`: see JobSettings. `former`: CoordinatorOptions::former_layout.
  explicit JobDefinition(LockedCore* core, uint64_t closures_hash = 0,
                         std::shared_ptr<const v1::Layout> former = nullptr)
      : core_(core), closures_hash_(closures_hash), former_(std::move(former)) {}

  // The functions of ClusterCoordinator; see there.
  absl::StatusOr<StepFunction> RegisterStep(const Program& program);
  absl::StatusOr<PerWorkerDataset> CreatePerWorkerDataset(const v1::DatasetSpec& spec,
                                                          const DatasetOptions& options);
  // Sets the layout of the variables; it does not make the servers serve it. Errors: those of
  // MakeLayout; Unavailable if a server is missing whose cores and host decide the layout.
  absl::Status SetVariables(std::span<const v1::VariableSpec> variables,
                            std::span<const v1::OptimizerSpec> optimizers,
                            const v1::PartitionerSpec& partitioner, std::string_view placement);
  v1::Layout layout() const;

 private:
  absl::StatusOr<v1::Layout> LayoutOf(std::span<const v1::VariableSpec> variables,
                                      std::span<const v1::OptimizerSpec> optimizers,
                                      const v1::PartitionerSpec& partitioner,
                                      std::string_view placement) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->mu());
  // True if workers clip gradients, and not the servers.
  bool WorkersClip() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->mu());

  LockedCore* const core_;
  const uint64_t closures_hash_;
  const std::shared_ptr<const v1::Layout> former_;              // may be null
  v1::Layout layout_ ABSL_GUARDED_BY(core_->mu());              // empty until SetVariables
  std::vector<Program> programs_ ABSL_GUARDED_BY(core_->mu());  // registered
  // The number of datasets by the name that their spec gives.
  std::map<std::string, int> datasets_ ABSL_GUARDED_BY(core_->mu());
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_JOB_DEFINITION_H_

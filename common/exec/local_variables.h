#ifndef COHORT_COMMON_EXEC_LOCAL_VARIABLES_H_
#define COHORT_COMMON_EXEC_LOCAL_VARIABLES_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/exchange/variable_access.h"
#include "common/graph/program.h"
#include "common/optimizers/device_copies.h"
#include "common/tablet/tablet.h"
#include "common/tensor/buffer.h"

namespace cohort {

namespace v1 {
class OptimizerSpec;
class VariableSpec;
}  // namespace v1

// The variables of a model in one tablet of this process: what parameter servers do with pushes and
// pulls, without servers and requests. Not thread-safe.
class LocalVariables {
 public:
  // Each variable is one shard, with the values of its initializer and fresh slots. `optimizers`:
  // those that VariableSpec.optimizer counts. Errors: those of LayoutRules::Create, Tablet::Create
  // and Tablet::Initialize.
  static absl::StatusOr<std::unique_ptr<LocalVariables>> Create(
      std::span<const v1::VariableSpec> variables, std::span<const v1::OptimizerSpec> optimizers);

  // The access of one program, which must not outlive this object. An exchange copies values,
  // unless `device` says where the program's steps read and update them, and Begin does all of it.
  // No caller retries a push, so the access numbers its updates itself. Errors: NotFound for a
  // variable that is not there, InvalidArgument for one of another dtype or shape; both name it.
  // Those of an exchange: InvalidArgument (a row that is not there, or a push
  // that the tablet refuses, which then changes nothing), Cancelled after Interrupt.
  absl::StatusOr<std::unique_ptr<VariableAccess>> ForProgram(const Program& program,
                                                             const DeviceParts& device = {});

  Tablet* tablet() const { return tablet_.get(); }

 private:
  struct Bound;
  class Access;

  explicit LocalVariables(std::unique_ptr<Tablet> tablet, BufferPool::Handle pool);

  const BufferPool::Handle pool_;
  const std::unique_ptr<Tablet> tablet_;
  std::vector<std::shared_ptr<const ShardInfo>> shards_;  // in the order of the variables
  uint64_t updates_ = 0;                                  // those that were pushed
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_LOCAL_VARIABLES_H_

#ifndef COHORT_COMMON_EXCHANGE_LOCAL_ACCESS_H_
#define COHORT_COMMON_EXCHANGE_LOCAL_ACCESS_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/exchange/variable_access.h"
#include "common/optimizers/optimizer_rules.h"
#include "common/tensor/tensor.h"

namespace cohort {

// The variables of a model in this process, by name, with their optimizer slots. Not thread-safe.
class LocalVariables {
 public:
  struct Variable {
    std::string name;
    Tensor value;
    const OptimizerRule* rule = nullptr;  // null: not trainable
    std::vector<Tensor> slots;            // in the order of OptimizerRule::slots()
  };

  // Adds a variable with fresh slots. This object writes to the tensor's memory from now on, so no
  // other object may hold its buffer. `rule` outlives this object; null if the variable is not
  // trained. Errors: AlreadyExists.
  absl::Status Add(std::string_view name, Tensor value, const OptimizerRule* rule);
  // Null if the name is unknown. The pointer stays valid.
  Variable* Find(std::string_view name);

 private:
  std::map<std::string, Variable, std::less<>> variables_;
};

// VariableAccess over LocalVariables, for one program: the one-device strategy and the evaluator
// use it. An exchange copies the pulled values and applies the pushed ones in place; it allocates
// nothing. No caller retries an update, so update ids are not looked up.
class LocalAccess : public VariableAccess {
 public:
  // `variables` outlives the access. Errors: NotFound for a variable that is not there,
  // InvalidArgument for one of another dtype or shape; both name it.
  static absl::StatusOr<std::unique_ptr<LocalAccess>> Create(LocalVariables* variables,
                                                             const Program& program);

  // Errors: InvalidArgument (keys out of range, not ascending), FailedPrecondition (a gradient
  // for a variable that is not trainable), Cancelled after Interrupt. A refused push changes nothing.
  // Begin does all of it.
  absl::Status Begin(const PushBatch* push, const PullBatch* pull) override;
  absl::StatusOr<ExchangeResult> Finish() override { return result_; }
  void Interrupt() override { interrupted_.store(true, std::memory_order_relaxed); }

 private:
  explicit LocalAccess(std::vector<LocalVariables::Variable*> bound) : bound_(std::move(bound)) {}

  absl::Status CheckPush(const PushItem& item) const;
  void ApplyGradient(const PushItem& item, const PushStamp& stamp) const;

  const std::vector<LocalVariables::Variable*> bound_;  // by index of the program's variables
  std::atomic<bool> interrupted_{false};
  ExchangeResult result_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_LOCAL_ACCESS_H_

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
    std::vector<Tensor> slots;  // in the order of OptimizerRule::slots()
  };

  // `rule` may be null if nothing is trained (an evaluator).
  explicit LocalVariables(std::unique_ptr<OptimizerRule> rule) : rule_(std::move(rule)) {}

  // Adds a variable with fresh slots. This object writes to the tensor's memory from now on, so no
  // other object may hold its buffer. Errors: AlreadyExists.
  absl::Status Add(std::string_view name, Tensor value);
  // Null if the name is unknown. The pointer stays valid.
  Variable* Find(std::string_view name);
  const OptimizerRule* rule() const { return rule_.get(); }

 private:
  const std::unique_ptr<OptimizerRule> rule_;
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

  // Errors: InvalidArgument (keys out of range, not ascending), FailedPrecondition (a gradient, but
  // no optimizer), Cancelled after Interrupt. A refused push changes nothing.
  absl::StatusOr<ExchangeResult> Exchange(const PushBatch* push, const PullBatch* pull) override;
  void Interrupt() override { interrupted_.store(true, std::memory_order_relaxed); }

 private:
  LocalAccess(LocalVariables* variables, std::vector<LocalVariables::Variable*> bound)
      : variables_(variables), bound_(std::move(bound)) {}

  absl::Status CheckPush(const PushItem& item) const;
  void ApplyGradient(const PushItem& item, const PushStamp& stamp) const;

  LocalVariables* const variables_;
  const std::vector<LocalVariables::Variable*> bound_;  // by index of the program's variables
  std::atomic<bool> interrupted_{false};
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_LOCAL_ACCESS_H_

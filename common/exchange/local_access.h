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
    Tensor value;
    std::vector<Tensor> slots;  // in the order of OptimizerRule::slots()
  };

  // `rule` may be null where nothing is trained (an evaluator).
  explicit LocalVariables(std::unique_ptr<OptimizerRule> rule) : rule_(std::move(rule)) {}

  // Adds a variable with fresh slots. The tensor's memory is written from now on, so nobody else
  // may hold its buffer. Errors: AlreadyExists.
  absl::Status Add(std::string_view name, Tensor value);
  // Null of an unknown name. Stays valid.
  Variable* Find(std::string_view name);
  const OptimizerRule* rule() const { return rule_.get(); }

 private:
  const std::unique_ptr<OptimizerRule> rule_;
  std::map<std::string, Variable, std::less<>> variables_;
};

// VariableAccess over LocalVariables, for one program: the strategy of one device, and the
// evaluator. An exchange copies what is pulled and applies what is pushed in place; it allocates
// nothing. There is nobody to retry, so an update id is not looked up.
class LocalAccess : public VariableAccess {
 public:
  // `variables` outlives the access. Errors: NotFound for a variable that is not there,
  // InvalidArgument for one of another dtype or shape; both name it.
  static absl::StatusOr<std::unique_ptr<LocalAccess>> Create(LocalVariables* variables,
                                                             const Program& program);

  // Errors: InvalidArgument (keys out of range, not ascending), FailedPrecondition (a gradient, but
  // no optimizer), Cancelled after Interrupt. Nothing of a refused push is applied.
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

#ifndef COHORT_COMMON_OPTIMIZERS_LEARNING_RATES_H_
#define COHORT_COMMON_OPTIMIZERS_LEARNING_RATES_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>

#include "common/base/mutex.h"

namespace cohort {

namespace v1 {
class LearningRates;
}

// Returns the rate that was set for an iteration; nullopt: the optimizer has its own.
std::optional<double> RateAt(const v1::LearningRates& rates, uint64_t iteration);

// The learning rates that were set while a job runs (v1.LearningRates), for the rules of a layout.
// They are a function of the iteration, so an update that is repeated has the same rate.
// Thread-safe.
class LearningRates {
 public:
  void Set(const v1::LearningRates& rates);
  // Costs nothing while no rate was set.
  std::optional<double> At(uint64_t iteration) const;

 private:
  std::atomic<bool> any_{false};
  mutable Mutex mu_;
  std::map<uint64_t, double> rates_ ABSL_GUARDED_BY(mu_);  // by their first iteration
};

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_LEARNING_RATES_H_

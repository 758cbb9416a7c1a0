#include "common/optimizers/learning_rates.h"

#include <iterator>

#include "proto/parameter_server.pb.h"

namespace cohort {

std::optional<double> RateAt(const v1::LearningRates& rates, uint64_t iteration) {
  std::optional<double> found;
  for (const v1::LearningRate& rate : rates.rates()) {
    if (rate.iteration() > iteration) break;
    found = rate.rate();
  }
  if (found.has_value() && *found < 0) return std::nullopt;
  return found;
}

void LearningRates::Set(const v1::LearningRates& rates) {
  MutexLock lock(&mu_);
  rates_.clear();
  for (const v1::LearningRate& rate : rates.rates()) rates_[rate.iteration()] = rate.rate();
  any_.store(!rates_.empty(), std::memory_order_release);
}

std::optional<double> LearningRates::At(uint64_t iteration) const {
  if (!any_.load(std::memory_order_acquire)) return std::nullopt;
  MutexLock lock(&mu_);
  const auto after = rates_.upper_bound(iteration);
  if (after == rates_.begin()) return std::nullopt;
  const double rate = std::prev(after)->second;
  return rate < 0 ? std::nullopt : std::optional<double>(rate);
}

}  // namespace cohort

#include "common/model/batch_text.h"

#include <fmt/format.h>

#include "common/graph/consistency_mode.h"

namespace cohort {
namespace {

std::string Closures(uint64_t count) {
  return fmt::format("{} closure{}", count, count == 1 ? "" : "s");
}

std::string SynchronousBatch(const v1::StrategySpec& strategy, uint64_t batch, uint64_t closures) {
  const uint64_t used = strategy.replicas_to_aggregate();  // 0: all of them
  if (closures == 0 && used == 0) {
    return fmt::format(
        "a synchronous step has as many closures as the cluster has workers at the first start, so "
        "the global batch is {} records per worker",
        batch);
  }
  if (used == 0) {
    return fmt::format("a synchronous step has {}, so the global batch is {}", Closures(closures),
                       closures * batch);
  }
  const std::string all = closures == 0 ? "" : fmt::format("{} ", closures);
  return fmt::format(
      "a synchronous step uses the first {} of its {}closures, so the global batch is {}", used,
      all, used * batch);
}

std::string ScaleText(const v1::StrategySpec& strategy, uint32_t closures) {
  if (strategy.scale_learning_rate() != "linear") return "";
  const uint32_t used = UsedClosures(strategy, closures);
  return used == 0 ? "; the learning rate is multiplied by the number of closures"
                   : fmt::format("; the learning rate is multiplied by {}", used);
}

}  // namespace

uint32_t UsedClosures(const v1::StrategySpec& strategy, uint32_t closures_per_step) {
  const uint32_t used = strategy.replicas_to_aggregate();
  return used > 0 ? used : closures_per_step;
}

std::string BatchText(const v1::JobSpec& job, uint32_t closures_per_step) {
  const v1::StrategySpec& strategy = job.strategy();
  const uint64_t batch = job.data().batch_size();
  const auto mode = ModeNamed(strategy.mode());
  if (mode == ConsistencyMode::kSync) {
    return fmt::format("batch: {} records per closure; {}", batch,
                       SynchronousBatch(strategy, batch, closures_per_step)) +
           ScaleText(strategy, closures_per_step);
  }
  std::string text = fmt::format(
      "batch: {} records; each update is of one batch, so the effective batch is {}", batch, batch);
  if (mode == ConsistencyMode::kBounded && closures_per_step > 0) {
    text += fmt::format("; workers are at most {} step{} of {} apart", strategy.staleness(),
                        strategy.staleness() == 1 ? "" : "s", Closures(closures_per_step));
  }
  return text;
}

}  // namespace cohort

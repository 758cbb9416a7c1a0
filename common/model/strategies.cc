#include "common/model/strategies.h"

#include <algorithm>
#include <array>

namespace cohort {
namespace {

constexpr auto kStrategies = std::to_array<StrategyClass>({
    {"parameter_server", {"ParameterServerStrategy"}, "async", /*local=*/false, /*mirrored=*/false},
    {"one_device", {"OneDeviceStrategy"}, "async", /*local=*/true, /*mirrored=*/false},
    {"central_storage", {"CentralStorageStrategy"}, "sync", /*local=*/true, /*mirrored=*/false},
    {"mirrored", {"MirroredStrategy"}, "sync", /*local=*/true, /*mirrored=*/true},
    {"multi_worker_mirrored",
     {"MultiWorkerMirroredStrategy", "CollectiveAllReduceStrategy"},
     "sync",
     /*local=*/false,
     /*mirrored=*/true},
});

}  // namespace

std::span<const StrategyClass> Strategies() { return kStrategies; }

const StrategyClass* FindStrategy(std::string_view name) {
  std::string_view last = name.substr(name.find_last_of('.') + 1);  // npos + 1 is 0
  if (last.ends_with("StrategyV2")) last.remove_suffix(2);
  for (const StrategyClass& strategy : kStrategies) {
    if (name == strategy.name) return &strategy;
    for (const std::string_view known : strategy.tensorflow) {
      if (!known.empty() && last == known) return &strategy;
    }
  }
  return nullptr;
}

std::vector<std::string> StrategyNames() {
  std::vector<std::string> names;
  for (const StrategyClass& strategy : kStrategies) names.emplace_back(strategy.name);
  return names;
}

}  // namespace cohort

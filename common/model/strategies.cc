#include "common/model/strategies.h"

#include <absl/strings/ascii.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "common/base/suggest.h"

namespace cohort {
namespace {

constexpr auto kStrategies = std::to_array<StrategyClass>({
    {"parameter_server", {"ParameterServerStrategy"}, "async", OwnerCalls::kSockets},
    {"one_device", {"OneDeviceStrategy"}, "async", OwnerCalls::kDirect, /*one_replica=*/true},
    {"central_storage", {"CentralStorageStrategy"}, "sync", OwnerCalls::kDirect},
    {"mirrored", {"MirroredStrategy"}, "sync", OwnerCalls::kDirect, false, /*replicas_own=*/true},
    {"multi_worker_mirrored",
     {"MultiWorkerMirroredStrategy", "CollectiveAllReduceStrategy"},
     "sync",
     OwnerCalls::kReplicas,
     false,
     /*replicas_own=*/true},
});

std::string_view WithoutModule(std::string_view name) {
  return name.substr(name.find_last_of('.') + 1);  // npos + 1 is 0
}

}  // namespace

std::span<const StrategyClass> Strategies() { return kStrategies; }

const StrategyClass& DefaultStrategy(OwnerCalls calls) {
  return *std::ranges::find(kStrategies, calls, &StrategyClass::calls);
}

const StrategyClass* FindStrategy(std::string_view name) {
  std::string_view last = WithoutModule(name);
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

std::string NamesOfStrategies(bool local) {
  std::vector<std::string_view> names;
  for (const StrategyClass& strategy : kStrategies) {
    if (strategy.local() == local) names.push_back(strategy.name);
  }
  const std::string_view last = names.back();
  names.pop_back();
  return fmt::format("{} or {}", fmt::join(names, ", "), last);
}

namespace {

struct CrossDeviceOps {
  std::string_view name;
  std::string_view communication;
};
// The hierarchy of HierarchicalCopyAllReduce is that of the links of one machine (DGX-1), which
// "auto" knows.
constexpr CrossDeviceOps kCrossDeviceOps[] = {
    {"ReductionToOneDevice", kDirectCommunication},
    {"HierarchicalCopyAllReduce", kAutoCommunication},
    {"NcclAllReduce", kNcclCommunication},
};

}  // namespace

std::vector<std::string> CommunicationNames() {
  return {kAutoCommunication, kRingCommunication, kDirectCommunication, kNcclCommunication};
}

std::string FindCommunication(std::string_view name) {
  std::string lower(WithoutModule(name));
  absl::AsciiStrToLower(&lower);
  for (std::string known : CommunicationNames()) {
    if (known == lower) return known;
  }
  return "";
}

std::vector<std::string> CrossDeviceOpsNames() {
  std::vector<std::string> names;
  for (const CrossDeviceOps& ops : kCrossDeviceOps) names.emplace_back(ops.name);
  return names;
}

std::string CommunicationOf(std::string_view cross_device_ops) {
  for (const CrossDeviceOps& ops : kCrossDeviceOps) {
    if (ops.name == WithoutModule(cross_device_ops)) return std::string(ops.communication);
  }
  return "";
}

std::string NoStrategyText(std::string_view name) {
  if (name == "tpu" || name.ends_with("TPUStrategy")) {
    return "there is no strategy tpu, because Cohort runs on CPUs and CUDA GPUs: choose mirrored "
           "for "
           "the devices of one machine, or multi_worker_mirrored for several";
  }
  const std::vector<std::string> names = StrategyNames();
  return fmt::format("there is no strategy \"{}\"; there are {}{}", name.substr(0, 60),
                     fmt::join(names, ", "), DidYouMean(name, names));
}

}  // namespace cohort

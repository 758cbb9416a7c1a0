#ifndef COHORT_COMMON_MODEL_STRATEGIES_H_
#define COHORT_COMMON_MODEL_STRATEGIES_H_

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/cluster/cluster_spec.h"

namespace cohort {

// A strategy of tf.distribute: which processes train, and which of them own the variables. What a
// step computes does not depend on it.
struct StrategyClass {
  std::string_view name;                       // in the job file
  std::array<std::string_view, 2> tensorflow;  // TensorFlow's classes; the second may be ""
  std::string_view mode;                       // the default of strategy.mode
  OwnerCalls calls = OwnerCalls::kSockets;
  bool one_replica = false;
  // Every replica owns a part of the variables: steps are synchronous, and all replicas take part.
  bool replicas_own = false;

  // One process: `cohort train`.
  constexpr bool local() const { return calls == OwnerCalls::kDirect; }
};

// All strategies, in the order of docs/strategies.md.
std::span<const StrategyClass> Strategies();
// The strategy of a job that names none, if its workers reach the owners like this.
const StrategyClass& DefaultStrategy(OwnerCalls calls);
// Null for an unknown name. `name` is one of ours or of TensorFlow's, also with its module
// ("tf.distribute.experimental.ParameterServerStrategyV2").
const StrategyClass* FindStrategy(std::string_view name);
std::vector<std::string> StrategyNames();
// The names of the strategies that are `local` or not, for texts: "a, b or c".
std::string NamesOfStrategies(bool local);
// The error for a name that FindStrategy does not know: what there is instead.
std::string NoStrategyText(std::string_view name);

// How replicas that own the variables exchange gradients and values.
inline constexpr char kAutoCommunication[] = "auto";      // by the sizes and the number of replicas
inline constexpr char kDirectCommunication[] = "direct";  // every replica sends to the owners
inline constexpr char kRingCommunication[] = "ring";      // replicas add and pass on partial sums
inline constexpr char kNcclCommunication[] = "nccl";
// "auto", "ring", "direct", "nccl".
std::vector<std::string> CommunicationNames();
// One of the names above; "" for an unknown name. `name` is one of them, or of TensorFlow's
// CommunicationImplementation: "RING", "CommunicationImplementation.NCCL".
std::string FindCommunication(std::string_view name);
// "ReductionToOneDevice", ...: the classes of tf.distribute.CrossDeviceOps.
std::vector<std::string> CrossDeviceOpsNames();
// The communication that such a class, also with its module, stands for; "" for an unknown one.
std::string CommunicationOf(std::string_view cross_device_ops);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_STRATEGIES_H_

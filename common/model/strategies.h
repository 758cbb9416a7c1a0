#ifndef COHORT_COMMON_MODEL_STRATEGIES_H_
#define COHORT_COMMON_MODEL_STRATEGIES_H_

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

// A strategy of tf.distribute: which processes train, and which of them own the variables. What a
// step computes does not depend on it.
struct StrategyClass {
  std::string_view name;                       // in the job file: "mirrored"
  std::array<std::string_view, 2> tensorflow;  // "MirroredStrategy"; the second may be ""
  std::string_view mode;                       // the default of strategy.mode
  bool local = false;                          // one process: `cohort train`
  // Every replica owns a part of the variables: steps are synchronous, and all replicas take part.
  bool mirrored = false;
};

// All strategies, in the order of docs/strategies.md.
std::span<const StrategyClass> Strategies();
// Null for an unknown name. `name` is one of ours or of TensorFlow's, also with its module
// ("tf.distribute.experimental.ParameterServerStrategyV2").
const StrategyClass* FindStrategy(std::string_view name);
// "parameter_server", "one_device", ...
std::vector<std::string> StrategyNames();
// The error for a name that FindStrategy does not know: what there is instead.
std::string NoStrategyText(std::string_view name);

// How the replicas of a mirrored strategy exchange gradients and values.
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

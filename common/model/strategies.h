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

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_STRATEGIES_H_

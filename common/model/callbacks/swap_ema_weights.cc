// keras/src/callbacks/swap_ema_weights.py
#include "common/model/callbacks/averages.h"
#include "common/model/callbacks/callback.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

constexpr char kName[] = "SwapEMAWeights";

bool IsSet(const v1::ClassConfig& callback, const char* argument) {
  const auto found = callback.config().find(argument);
  return found != callback.config().end() && found->second.b();
}

}  // namespace

// Nothing is swapped: programs of the evaluation pull averages (VariableDecl::reads_average).
CallbackClass SwapEMAWeightsCallback() {
  return {.schema = {.name = kName,
                     .doc = "Validations and evaluations of checkpoints use the averages that "
                            "`use_ema` of an optimizer keeps. Checkpoints have both.",
                     .arguments = {Bool("swap_on_epoch",
                                        "`restore_best_weights` of EarlyStopping and the exports "
                                        "of the evaluator use the averages, too.")
                                       .Default(false)}}};
}

UsesOfAverages UsesOfAveragesIn(const v1::JobSpec& job) {
  UsesOfAverages uses;
  bool restores_best = false;
  for (const v1::ClassConfig& callback : job.fit().callbacks()) {
    uses.evaluation |= callback.class_name() == kName;
    uses.exports |= IsSet(callback, "swap_on_epoch");
    restores_best |= IsSet(callback, "restore_best_weights");
  }
  uses.last_checkpoint = !restores_best || uses.exports;
  return uses;
}

}  // namespace cohort

#ifndef COHORT_COMMON_MODEL_CALLBACKS_AVERAGES_H_
#define COHORT_COMMON_MODEL_CALLBACKS_AVERAGES_H_

namespace cohort {

namespace v1 {
class JobSpec;
}

// Where a job uses the averages of its variables (`use_ema`) instead of their values, by its
// callbacks. Training itself never does.
struct UsesOfAverages {
  bool evaluation = false;  // SwapEMAWeights: validations, and evaluations of checkpoints
  bool exports = false;     // its swap_on_epoch: what the evaluator exports
  // The last checkpoint has them as its values, as the weights after Keras' fit. Without
  // swap_on_epoch, restore_best_weights restores values.
  bool last_checkpoint = true;
};

UsesOfAverages UsesOfAveragesIn(const v1::JobSpec& job);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_CALLBACKS_AVERAGES_H_

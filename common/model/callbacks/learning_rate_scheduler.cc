// keras/src/callbacks/learning_rate_scheduler.py
#include <cmath>
#include <utility>

#include "common/model/callbacks/callback.h"

namespace cohort {
namespace {

// The rates of a complete config, by the epoch from which they count.
std::map<uint64_t, double> TableOf(const Config& config) {
  const std::vector<double> pairs = config.Floats("schedule");
  std::map<uint64_t, double> table;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    table[static_cast<uint64_t>(pairs[i])] = pairs[i + 1];
  }
  return table;
}

class LearningRateScheduler : public Callback {
 public:
  explicit LearningRateScheduler(const Config& config) : table_(TableOf(config)) {}

  void OnEpochEnd(const EpochValues&, EpochDecision*) override {}
  void OnEpochBegin(uint64_t epoch, EpochDecision* decision) override {
    const auto rate = table_.find(epoch);
    if (rate == table_.end() || rate->second == decision->learning_rate) return;
    decision->learning_rate = rate->second;
    decision->news.push_back(
        fmt::format("LearningRateScheduler: the learning rate is {:.4g} now", rate->second));
  }

 private:
  const std::map<uint64_t, double> table_;
};

absl::Status Check(const Config& config) {
  const std::vector<double> pairs = config.Floats("schedule");
  if (pairs.empty()) {
    return InvalidArgument(
        "LearningRateScheduler: `schedule` has no rates; write the epoch from which each counts: "
        "`schedule: {{0: 0.1, 5: 0.01}}`");
  }
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (pairs[i] < 0 || pairs[i] != std::floor(pairs[i]) || pairs[i] > 1e15) {
      return InvalidArgument(
          "LearningRateScheduler: `schedule` has the epoch {}; epochs are 0, 1, 2, ...", pairs[i]);
    }
    if (!(pairs[i + 1] >= 0 && pairs[i + 1] <= 1e30)) {
      return InvalidArgument("LearningRateScheduler: `schedule` has the learning rate {}",
                             pairs[i + 1]);
    }
  }
  return absl::OkStatus();
}

}  // namespace

CallbackClass LearningRateSchedulerCallback() {
  return {.schema = {.name = "LearningRateScheduler",
                     .doc = "Learning rates by epoch, in place of Keras' function. A schedule of "
                            "the optimizer changes the rate at every step.",
                     .arguments = {Floats("schedule",
                                          "Epochs, from 0, and the rates from then on: `{0: 0.1, "
                                          "5: 0.01}`; or a rate for each epoch.")
                                       .Table(),
                                   Int("verbose", "Has no effect.").Default(0)}},
          .make = [](const Config& config) -> std::unique_ptr<Callback> {
            return std::make_unique<LearningRateScheduler>(config);
          },
          .sets_learning_rate = true,
          .check = Check};
}

}  // namespace cohort

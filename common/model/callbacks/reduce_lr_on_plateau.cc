// keras/src/callbacks/reduce_lr_on_plateau.py and monitor_callback.py
#include <algorithm>
#include <cmath>

#include "common/model/callbacks/callback.h"

namespace cohort {
namespace {

class ReduceLROnPlateau : public Callback {
 public:
  explicit ReduceLROnPlateau(const Config& config)
      : monitor_(config.String("monitor")),
        factor_(config.Float("factor")),
        patience_(static_cast<uint64_t>(config.Int("patience"))),
        highest_(config.String("mode") == "max"),
        least_(std::abs(config.Float("min_delta"))),
        cooldown_(static_cast<uint64_t>(config.Int("cooldown"))),
        min_rate_(config.Float("min_lr")) {}

  void OnEpochEnd(const EpochValues& epoch, EpochDecision* decision) override {
    const auto found = epoch.values.find(monitor_);
    if (found == epoch.values.end()) return;
    if (cooling_ > 0) {
      --cooling_;
      waited_ = 0;
    }
    if (!best_.has_value() || IsBetter(found->second)) {
      best_ = found->second;
      waited_ = 0;
    } else if (cooling_ == 0 && ++waited_ >= patience_) {
      Reduce(decision);
    }
  }

 private:
  bool IsBetter(double value) const {
    return highest_ ? value - least_ > *best_ : value + least_ < *best_;
  }

  void Reduce(EpochDecision* decision) {
    if (!decision->learning_rate.has_value()) return;
    const double rate = *decision->learning_rate;
    if (rate <= static_cast<double>(static_cast<float>(min_rate_))) return;
    decision->learning_rate = std::max(rate * factor_, min_rate_);
    decision->news.push_back(
        fmt::format("ReduceLROnPlateau: the learning rate is {:.4g} now; {} "
                    "was best at {:.4g}",
                    *decision->learning_rate, monitor_, *best_));
    cooling_ = cooldown_;
    waited_ = 0;
  }

  const std::string monitor_;
  const double factor_;
  const uint64_t patience_;
  const bool highest_;
  const double least_;
  const uint64_t cooldown_;
  const double min_rate_;

  std::optional<double> best_;
  uint64_t waited_ = 0;   // epochs since the best one
  uint64_t cooling_ = 0;  // epochs that do not count after a reduction
};

}  // namespace

CallbackClass ReduceLROnPlateauCallback() {
  return {
      .schema = {.name = "ReduceLROnPlateau",
                 .doc =
                     "The learning rate is reduced when a metric has not improved for some epochs.",
                 .arguments =
                     {String("monitor", "The metric: loss, val_loss, val_ and a metric.")
                          .Default("val_loss"),
                      Float("factor", "Of the new rate to the old one.").Default(0.1).Below(0, 1),
                      Int("patience", "Epochs without an improvement after which it is reduced.")
                          .Default(10)
                          .AtLeast(0),
                      Int("verbose", "Has no effect.").Default(0),
                      String("mode", "Which values are better.")
                          .Default("auto")
                          .OneOf({"auto", "min", "max"}),
                      Float("min_delta", "The least change that is an improvement.").Default(1e-4),
                      Int("cooldown", "Epochs after a reduction that do not count.")
                          .Default(0)
                          .AtLeast(0),
                      Float("min_lr", "The least rate.").Default(0.0).AtLeast(0)}},
      .make = [](const Config& config) -> std::unique_ptr<Callback> {
        return std::make_unique<ReduceLROnPlateau>(config);
      },
      .sets_learning_rate = true};
}

}  // namespace cohort

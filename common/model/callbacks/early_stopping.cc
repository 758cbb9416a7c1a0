// keras/src/callbacks/early_stopping.py and monitor_callback.py
#include <cmath>

#include "common/model/callbacks/callback.h"

namespace cohort {
namespace {

class EarlyStopping : public Callback {
 public:
  explicit EarlyStopping(const Config& config)
      : monitor_(config.String("monitor")),
        least_(std::abs(config.Float("min_delta"))),
        patience_(static_cast<uint64_t>(config.Int("patience"))),
        highest_(config.String("mode") == "max"),
        first_(static_cast<uint64_t>(config.Int("start_from_epoch"))) {
    if (!config.IsNone("baseline")) baseline_ = config.Float("baseline");
  }

  std::optional<std::string> OnEpochEnd(const EpochValues& epoch) override {
    const auto found = epoch.values.find(monitor_);
    // Keras counts epochs from 0.
    if (found == epoch.values.end() || epoch.epoch <= first_) return std::nullopt;
    const double value = found->second;
    ++waited_;
    if (!best_.has_value() || IsBetter(value, *best_)) {
      best_ = value;
      best_epoch_ = epoch.epoch;
      if (!baseline_.has_value() || IsBetter(value, *baseline_)) waited_ = 0;
      return std::nullopt;
    }
    if (waited_ < patience_ || epoch.epoch == 1) return std::nullopt;
    return fmt::format("EarlyStopping: {} was best at epoch {} ({:.4g})", monitor_, best_epoch_,
                       *best_);
  }

 private:
  bool IsBetter(double value, double than) const {
    return highest_ ? value - least_ > than : value + least_ < than;
  }

  const std::string monitor_;
  const double least_;
  const uint64_t patience_;
  const bool highest_;
  const uint64_t first_;
  std::optional<double> baseline_;

  std::optional<double> best_;
  uint64_t best_epoch_ = 0;
  uint64_t waited_ = 0;  // epochs since the best one
};

}  // namespace

CallbackClass EarlyStoppingCallback() {
  return {
      .schema =
          {.name = "EarlyStopping",
           .doc = "Training ends when a metric has not improved for some epochs. The checkpoint of "
                  "`keep_best` has the best weights.",
           .arguments =
               {String("monitor", "The metric: loss, val_loss, val_ and a metric.")
                    .Default("val_loss"),
                Float("min_delta", "The least change that is an improvement.").Default(0.0),
                Int("patience", "Epochs without an improvement after which training ends.")
                    .Default(0)
                    .AtLeast(0),
                Int("verbose", "Has no effect.").Default(0),
                String("mode", "Which values are better.")
                    .Default("auto")
                    .OneOf({"auto", "min", "max"}),
                Float("baseline", "Values that are no better than this do not end the wait.")
                    .Optional(),
                Planned(Bool("restore_best_weights", "").Default(false)),
                Int("start_from_epoch", "Epochs that do not count at the begin.")
                    .Default(0)
                    .AtLeast(0)}},
      .make = [](const Config& config) -> std::unique_ptr<Callback> {
        return std::make_unique<EarlyStopping>(config);
      }};
}

}  // namespace cohort

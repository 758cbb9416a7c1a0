// keras/src/callbacks/early_stopping.py and monitor_callback.py
#include <cmath>

#include "common/model/callbacks/callback.h"
#include "proto/job.pb.h"

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

  void OnEpochEnd(const EpochValues& epoch, EpochDecision* decision) override {
    const auto found = epoch.values.find(monitor_);
    // Keras counts epochs from 0.
    if (found == epoch.values.end() || epoch.epoch <= first_) return;
    const double value = found->second;
    ++waited_;
    if (!best_.has_value() || IsBetter(value, *best_)) {
      best_ = value;
      best_epoch_ = epoch.epoch;
      if (!baseline_.has_value() || IsBetter(value, *baseline_)) waited_ = 0;
      return;
    }
    if (waited_ < patience_ || epoch.epoch == 1) return;
    decision->stop = fmt::format("EarlyStopping: {} was best at epoch {} ({:.4g})", monitor_,
                                 best_epoch_, *best_);
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

// A job has one best checkpoint, and ModelCheckpoint knows neither argument.
absl::Status CheckOneBest(const Config& config, const v1::JobSpec& job) {
  const double min_delta = config.Float("min_delta");
  const int64_t first = config.Int("start_from_epoch");
  if (min_delta == 0 && first == 0) return absl::OkStatus();
  for (const v1::ClassConfig& other : job.fit().callbacks()) {
    if (other.class_name() != "ModelCheckpoint" || !Config(other).Bool("save_best_only")) continue;
    return InvalidArgument(
        "EarlyStopping: with `min_delta: {}` and `start_from_epoch: {}` the best epoch may be "
        "another than that of ModelCheckpoint with `save_best_only`, and a job keeps one best "
        "checkpoint: leave out `save_best_only`, because `restore_best_weights` keeps it, or leave "
        "out the two arguments",
        min_delta, first);
  }
  return absl::OkStatus();
}

// The best checkpoint has the weights to restore.
absl::Status KeepBest(const Config& config, v1::JobSpec* job) {
  if (!config.Bool("restore_best_weights")) return absl::OkStatus();
  v1::CheckpointSpec* const checkpoint = job->mutable_checkpoint();
  const std::string& monitor = config.String("monitor");
  if (!checkpoint->keep_best().empty() && checkpoint->keep_best() != monitor) {
    return InvalidArgument(
        "EarlyStopping: restore_best_weights restores the checkpoint with the best \"{}\", and "
        "`checkpoint.keep_best` is \"{}\": they must be the same",
        monitor, checkpoint->keep_best());
  }
  if (!monitor.starts_with("val_")) {
    return InvalidArgument(
        "EarlyStopping: restore_best_weights needs a metric of the validation as its monitor, such "
        "as val_loss, and not \"{}\": training metrics are means over an epoch, and not of the "
        "weights at its end",
        monitor);
  }
  COHORT_RETURN_IF_ERROR(CheckOneBest(config, *job));
  checkpoint->set_keep_best(monitor);
  if (checkpoint->mode().empty()) checkpoint->set_mode(config.String("mode"));
  return absl::OkStatus();
}

}  // namespace

CallbackClass EarlyStoppingCallback() {
  return {
      .schema = {.name = "EarlyStopping",
                 .doc = "Training ends when a metric has not improved for some epochs.",
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
                      Bool("restore_best_weights",
                           "The job ends with the checkpoint of the best epoch: it sets "
                           "`checkpoint.keep_best`.")
                          .Default(false),
                      Int("start_from_epoch", "Epochs that do not count at the begin.")
                          .Default(0)
                          .AtLeast(0)}},
      .make = [](const Config& config) -> std::unique_ptr<Callback> {
        return std::make_unique<EarlyStopping>(config);
      },
      .apply = KeepBest};
}

}  // namespace cohort

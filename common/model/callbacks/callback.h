#ifndef COHORT_COMMON_MODEL_CALLBACKS_CALLBACK_H_
#define COHORT_COMMON_MODEL_CALLBACKS_CALLBACK_H_

#include <absl/status/status.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/schema/class_registry.h"
#include "common/schema/class_schema.h"

namespace cohort {

namespace v1 {
class JobSpec;
}

// What an epoch gave.
struct EpochValues {
  uint64_t epoch = 0;  // counted from 1
  // Metrics by name, those of the validation as "val_loss". Without one that is not known.
  std::map<std::string, double> values;
  std::optional<double> learning_rate;  // that of its last update; nullopt: unknown
};

// What callbacks decide at the end of an epoch.
struct EpochDecision {
  std::string stop;  // why the training must end; "": it need not
  // The learning rate of the next epoch. Callbacks find that of the epoch that has ended; nullopt:
  // the optimizer has a schedule.
  std::optional<double> learning_rate;
  std::vector<std::string> news;  // one line each, for people
};

// A text file that a callback writes.
struct CallbackFile {
  std::string path;
  std::string text;
};

// A callback of Keras that decides at the end of epochs. A plain state machine: it sees every epoch
// of the job once and in order, also after a restart or a rollback, when it is recreated. So its
// decisions do not depend on what was killed.
class Callback {
 public:
  virtual ~Callback() = default;
  virtual void OnEpochEnd(const EpochValues& epoch, EpochDecision* decision) = 0;
  // An epoch begins, counted from 0 as in Keras. All callbacks have seen the end of the one before.
  virtual void OnEpochBegin(uint64_t /*epoch*/, EpochDecision* /*decision*/) {}
  // The file after the epochs that it has seen.
  virtual std::optional<CallbackFile> File() const { return std::nullopt; }
};

// A callback: its arguments and what makes it. Each has a file of its own, with the line of
// callback_list.h that names it.
struct CallbackClass {
  ClassSchema schema;
  // `config` is complete, and its `mode` is min or max (job_defaults.cc). Null: it
  // decides nothing at the end of epochs.
  std::unique_ptr<Callback> (*make)(const Config& config) = nullptr;
  // The job ends with an error at the first value that is not finite.
  bool needs_finite_values = false;
  // It changes the learning rate, which must be a number then, as in Keras.
  bool sets_learning_rate = false;
  // Sets keys of the job that do what the callback does in Keras. `config` is complete. Errors:
  // InvalidArgument if the job has another value for one.
  absl::Status (*apply)(const Config& config, v1::JobSpec* job) = nullptr;
  // Refuses arguments that do not suit each other.
  absl::Status (*check)(const Config& config) = nullptr;
  std::string refused;  // why no job can have it, and what to use; "": it is supported
};

const ClassRegistry<CallbackClass>& Callbacks();
const SchemaSet& CallbackSchemas();

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_CALLBACKS_CALLBACK_H_

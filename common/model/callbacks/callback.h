#ifndef COHORT_COMMON_MODEL_CALLBACKS_CALLBACK_H_
#define COHORT_COMMON_MODEL_CALLBACKS_CALLBACK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/schema/class_registry.h"
#include "common/schema/class_schema.h"

namespace cohort {

// What an epoch gave.
struct EpochValues {
  uint64_t epoch = 0;  // counted from 1
  // Metrics by name, those of the validation as "val_loss". Without one that is not known.
  std::map<std::string, double> values;
};

// A callback of Keras that decides at the end of epochs. A plain state machine: it sees every epoch
// of the job once and in order, also after a restart or a rollback, when it is recreated. So its
// decisions do not depend on what was killed.
class Callback {
 public:
  virtual ~Callback() = default;
  // Returns why the training must stop; nullopt: it need not.
  virtual std::optional<std::string> OnEpochEnd(const EpochValues& epoch) = 0;
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
};

const ClassRegistry<CallbackClass>& Callbacks();
const SchemaSet& CallbackSchemas();

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_CALLBACKS_CALLBACK_H_

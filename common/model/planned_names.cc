#include "common/model/planned_names.h"

#include <fmt/format.h>

namespace cohort {
namespace {

struct Names {
  std::string_view kind;
  std::string_view names;  // separated by spaces
};

// The strategies and modes of tf.distribute, keras/src/optimizers/schedules, and further keys of
// parameter server jobs.
constexpr Names kPlannedNames[] = {
    {"strategy", "central_storage mirrored multi_worker_mirrored one_device tpu"},
    {"mode",
     "bounded_staleness central_storage collective mirrored multi_worker_mirrored one_device sync"},
    {"schedule",
     "CosineDecay CosineDecayRestarts ExponentialDecay InverseTimeDecay PiecewiseConstantDecay "
     "PolynomialDecay"},
    {"key",
     "all_reduce bounded_staleness callbacks class_weight clipnorm clipvalue closures_per_step "
     "collective collectives cuda deterministic device devices drop export global_clipnorm gpu "
     "gpus hash_table incremental jit_compile mixed_precision replicas "
     "replicas_to_aggregate sample_weight save_best_only speculative tls trace weighted_metrics"},
};

}  // namespace

bool IsPlannedName(std::string_view kind, std::string_view name) {
  for (const Names& known : kPlannedNames) {
    if (known.kind != kind || name.empty() || name.find(' ') != name.npos) continue;
    return fmt::format(" {} ", known.names).find(fmt::format(" {} ", name)) != std::string::npos;
  }
  return false;
}

}  // namespace cohort

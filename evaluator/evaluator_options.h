#ifndef COHORT_EVALUATOR_EVALUATOR_OPTIONS_H_
#define COHORT_EVALUATOR_EVALUATOR_OPTIONS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/cluster/role_flags.h"

namespace cohort {

class FlagSet;

// The command line of cohort-evaluator.
struct EvaluatorFlags {
  RoleFlags role;
  std::string checkpoint_dir;
  std::string log_dir;  // "": results are only printed
  std::string data_dir;
  std::string launch;  // "": any chief's checkpoints
  bool latest_only = false;
  bool once = false;
  uint64_t max_evaluations = 0;  // 0: no limit
  double poll_s = 1;
  double start_delay_s = 0;  // before the first evaluation
  double throttle_s = 0;     // from the begin of an evaluation to that of the next
  std::string exporters;     // "latest,best,final"; "": none
  uint64_t exports_to_keep = 5;
  double wait_s = 0;  // how long the task waits for a new checkpoint; 0: forever
};

// The names in --exporters. Errors: InvalidArgument (exit 64) for another name.
absl::StatusOr<std::vector<std::string>> ExportersOf(const std::string& list);

// Errors: InvalidArgument (exit 64) for an invalid value.
absl::Status CheckEvaluatorFlags(const EvaluatorFlags& flags);

void AddEvaluatorFlags(FlagSet* flags, EvaluatorFlags* out);

}  // namespace cohort

#endif  // COHORT_EVALUATOR_EVALUATOR_OPTIONS_H_

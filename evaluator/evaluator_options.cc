#include "evaluator/evaluator_options.h"

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"

namespace cohort {

absl::Status CheckEvaluatorFlags(const EvaluatorFlags& flags) {
  if (!(flags.poll_s > 0)) {
    return UsageError("--poll_s: {} must be more than 0 seconds", flags.poll_s);
  }
  return absl::OkStatus();
}

void AddEvaluatorFlags(FlagSet* flags, EvaluatorFlags* out) {
  AddRoleFlags(flags, &out->role);
  flags->Add("checkpoint_dir", &out->checkpoint_dir, "directory where the job's checkpoints are");
  flags->Add("log_dir", &out->log_dir,
             "directory of metrics.jsonl and TensorBoard files; empty: results are only printed");
  flags->Add("data_dir", &out->data_dir,
             "base directory of relative dataset paths (default: $COHORT_DATA_DIR)");
  flags->Add("launch", &out->launch,
             "wait until the chief with the same --launch has made the directory ready");
  flags->Add("latest_only", &out->latest_only, "skip all but the newest checkpoint");
  flags->Add("once", &out->once,
             "evaluate the newest checkpoint (or --checkpoint_dir itself, if it is one), then end");
  flags->Add("max_evaluations", &out->max_evaluations,
             "number of evaluations after which this task ends; 0: it ends with the job");
  flags->AddSeconds("poll_s", &out->poll_s, "seconds between two scans of the directory");
  flags->AddSeconds(
      "wait_s", &out->wait_s,
      "seconds without a new checkpoint after which this task ends; 0: it waits forever, because "
      "the first one may take hours");
}

}  // namespace cohort

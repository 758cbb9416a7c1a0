#include "evaluator/evaluator_options.h"

#include "common/base/flags.h"

namespace cohort {

void AddEvaluatorFlags(FlagSet* flags, EvaluatorFlags* out) {
  AddRoleFlags(flags, &out->role);
  flags->Add("checkpoint_dir", &out->checkpoint_dir, "directory where the job's checkpoints are");
  flags->Add("log_dir", &out->log_dir,
             "directory of metrics.jsonl and TensorBoard files; empty: figures are only printed");
  flags->Add("data_dir", &out->data_dir,
             "directory where relative paths of datasets start (default: $COHORT_DATA_DIR)");
  flags->Add("latest_only", &out->latest_only, "skip all but the newest checkpoint");
  flags->Add("once", &out->once, "evaluate the newest checkpoint, then end");
  flags->Add("max_evaluations", &out->max_evaluations, "end after so many; 0: with the job");
  flags->Add("poll_s", &out->poll_s, "seconds between two looks at the directory");
  flags->Add("wait_s", &out->wait_s,
             "seconds without a new checkpoint after which this task ends; 0: it waits for ever");
}

}  // namespace cohort

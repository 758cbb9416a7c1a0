#include "evaluator/evaluator_options.h"

#include <absl/strings/str_split.h>

#include <algorithm>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/base/suggest.h"

namespace cohort {

absl::Status CheckEvaluatorFlags(const EvaluatorFlags& flags) {
  if (!(flags.poll_s > 0)) {
    return UsageError("--poll_s: {} must be more than 0 seconds", flags.poll_s);
  }
  COHORT_ASSIGN_OR_RETURN(const auto exporters, ExportersOf(flags.exporters));
  if (!exporters.empty() && flags.log_dir.empty()) {
    return UsageError("--exporters: exports are written below --log_dir, which is missing");
  }
  if (flags.exports_to_keep == 0) return UsageError("--exports_to_keep must be 1 or more");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ExportersOf(const std::string& list) {
  const std::vector<std::string> known = {"latest", "best", "final"};
  std::vector<std::string> exporters;
  const std::vector<std::string> names = absl::StrSplit(list, ',', absl::SkipEmpty());
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return UsageError("--exporters: \"{}\" is none of latest, best, final{}", name,
                        DidYouMean(name, known));
    }
    exporters.push_back(name);
  }
  return exporters;
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
  flags->AddSeconds("start_delay_s", &out->start_delay_s,
                    "seconds before the first evaluation, unless the job is finished");
  flags->AddSeconds("throttle_s", &out->throttle_s,
                    "seconds from the begin of an evaluation to that of the next, which is of the "
                    "newest checkpoint; the last one of the job does not wait");
  flags->Add("exporters", &out->exporters,
             "which evaluated weights to export below --log_dir: a list of latest, best, final");
  flags->Add("exports_to_keep", &out->exports_to_keep,
             "how many exports of latest, and of best, are kept");
  flags->AddSeconds(
      "wait_s", &out->wait_s,
      "seconds without a new checkpoint after which this task ends; 0: it waits forever, because "
      "the first one may take hours");
}

}  // namespace cohort

#include "common/base/status.h"
#include "common/model/model_reader.h"
#include "common/model/summary.h"
#include "common/model/traced_model.h"
#include "deploy/launcher/inspect_checkpoint.h"
#include "proto/job.pb.h"

namespace cohort {

absl::StatusOr<std::string> InspectModel(const std::string& path) {
  COHORT_ASSIGN_OR_RETURN(const TracedModel traced, ReadTracedModel(path));
  COHORT_ASSIGN_OR_RETURN(const v1::ModelSpec model, ReadModelJson(traced.layers, path));
  const auto summary = SummarizeModel(model);
  if (!summary.ok()) return Annotate(summary.status(), path);
  return FormatSummary(*summary);
}

}  // namespace cohort

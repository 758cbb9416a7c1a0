#include "deploy/predict/predict.h"

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/checkpoint/find_checkpoint.h"
#include "common/plugin/load_plugins.h"
#include "deploy/predict/part_processes.h"
#include "deploy/predict/prediction_part.h"
#include "deploy/predict/predictor.h"

namespace cohort {
namespace {

constexpr int kMostWorkers = 1024;

absl::Status CheckOptions(const PredictOptions& options) {
  if (options.join && !options.checkpoint.empty()) {
    return UsageError("--join takes no CHECKPOINT: the parts have their predictions");
  }
  if (!options.join && options.checkpoint.empty()) {
    return UsageError("CHECKPOINT is missing: name a checkpoint, or a directory of them");
  }
  if (options.workers != 1 && (options.join || !options.part.empty())) {
    return UsageError("--workers starts the parts itself: omit --part and --join");
  }
  COHORT_RETURN_IF_ERROR(CheckBetween("--workers", options.workers, 1, kMostWorkers));
  COHORT_RETURN_IF_ERROR(CheckBetween("--threads", options.threads, 0, kMostThreads));
  return PredictionFormat::CheckName(options.out);
}

// One part, in this process.
absl::StatusOr<std::string> PredictPart(const PredictOptions& options) {
  COHORT_ASSIGN_OR_RETURN(const PartNumber number, ParsePartNumber(options.part));
  COHORT_RETURN_IF_ERROR(LoadPlugins(options.plugins, /*log=*/nullptr));
  const PartFolder folder(options.out);
  COHORT_RETURN_IF_ERROR(RemoveFile(folder.Description(number.index)));  // until it is whole again
  std::string refused;
  COHORT_ASSIGN_OR_RETURN(const std::string checkpoint,
                          FindCheckpoint(options.checkpoint, &refused));
  COHORT_ASSIGN_OR_RETURN(const auto predictor, Predictor::Open(checkpoint, options));
  const PartDescription part = predictor->Describe(number);
  COHORT_ASSIGN_OR_RETURN(const auto writer, PartWriter::Create(options.out, part));
  COHORT_RETURN_IF_ERROR(predictor->Predict(part, writer.get()));
  COHORT_RETURN_IF_ERROR(writer->Finish());
  return fmt::format("{}{}: part {} of {}, records {} to {} of {}, by {}\n", refused, folder.path(),
                     number.index, number.count, part.begin, part.end, part.records, checkpoint);
}

absl::StatusOr<std::string> Join(const std::string& out) {
  COHORT_ASSIGN_OR_RETURN(const PartDescription whole, JoinParts(out));
  return fmt::format("{}: predictions for {} records by {}\n", out, whole.records,
                     whole.checkpoint);
}

absl::StatusOr<std::string> RunAndJoin(const PredictOptions& options) {
  std::string refused;
  COHORT_ASSIGN_OR_RETURN(const std::string checkpoint,
                          FindCheckpoint(options.checkpoint, &refused));
  COHORT_ASSIGN_OR_RETURN(const auto processes, PartProcesses::Create(options, checkpoint));
  COHORT_RETURN_IF_ERROR(processes->Run());
  COHORT_ASSIGN_OR_RETURN(const std::string text, Join(options.out));
  return refused + text;
}

}  // namespace

absl::StatusOr<std::string> Predict(const PredictOptions& options) {
  COHORT_RETURN_IF_ERROR(CheckOptions(options));
  if (!options.part.empty()) return PredictPart(options);
  if (options.join) return Join(options.out);
  const PartFolder folder(options.out);
  COHORT_RETURN_IF_ERROR(folder.Remove());  // those of a run that was killed
  COHORT_RETURN_IF_ERROR(folder.Create());
  absl::StatusOr<std::string> text = RunAndJoin(options);
  if (!text.ok()) {
    const absl::Status removed = folder.Remove();
    if (!removed.ok()) return Annotate(text.status(), std::string(removed.message()));
  }
  return text;
}

}  // namespace cohort

// cohort-predict: what `cohort predict` becomes.
#include <cstdlib>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/prepare_process.h"
#include "common/base/printable.h"
#include "deploy/predict/predict.h"
#include "deploy/predict/predict_options.h"

int main(int argc, char** argv) {
  using namespace cohort;
  PrepareProcess("cohort");
  PredictOptions options;
  FlagSet flags("cohort-predict", "Writes what the model of a checkpoint predicts for records.");
  AddPredictFlags(&flags, &options);
  if (const auto exit = flags.ParseOrExit(argc, argv)) return *exit;
  if (const char* data_dir = std::getenv("COHORT_DATA_DIR")) options.data_dir = data_dir;
  const absl::StatusOr<std::string> text = Predict(options);
  if (!text.ok()) return ExitWith("cohort", text.status());
  return ExitWith("cohort", WriteToStdout(*text));
}

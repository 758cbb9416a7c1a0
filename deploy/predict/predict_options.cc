#include "deploy/predict/predict_options.h"

#include "common/base/flags.h"

namespace cohort {

void AddPredictFlags(FlagSet* flags, PredictOptions* options) {
  flags->Add("out", &options->out, "the file to write: .csv, .jsonl or .npz");
  flags->Add("threads", &options->threads, "threads that work; 0: the cores");
  flags->Add("plugin", &options->plugins,
             "shared library with classes of your own (docs/plugins.md); repeatable");
  flags->AddPositional("CHECKPOINT", &options->checkpoint,
                       "a checkpoint, DIRECTORY of them, or DIRECTORY/best", true);
  flags->AddPositional("DATA", &options->data,
                       "a file or folder of records; default: the validation set of the job",
                       false);
}

}  // namespace cohort

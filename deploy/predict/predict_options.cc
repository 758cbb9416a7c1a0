#include "deploy/predict/predict_options.h"

#include "common/base/flags.h"

namespace cohort {

void AddPredictFlags(FlagSet* flags, PredictOptions* options) {
  flags->Add("out", &options->out, "the file to write: .csv, .jsonl, .npz or .parquet");
  flags->Add("workers", &options->workers, "processes that predict a part of the records each");
  flags->Add("threads", &options->threads,
             "threads of each process; 0: the cores, which the processes share");
  flags->Add("part", &options->part,
             "INDEX/COUNT: predict only this part of the records, into the folder OUT.parts");
  flags->Add("join", &options->join,
             "write OUT from the whole parts in OUT.parts, and remove them");
  flags->Add("plugin", &options->plugins,
             "shared library with classes of your own (docs/plugins.md); repeatable");
  flags->AddPositional("CHECKPOINT", &options->checkpoint,
                       "a checkpoint, DIRECTORY of them, or DIRECTORY/best", false);
  flags->AddPositional("DATA", &options->data,
                       "a file or folder of records; default: the validation set of the job",
                       false);
}

}  // namespace cohort

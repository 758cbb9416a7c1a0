#ifndef COHORT_DEPLOY_PREDICT_PREDICT_OPTIONS_H_
#define COHORT_DEPLOY_PREDICT_PREDICT_OPTIONS_H_

#include <string>
#include <vector>

namespace cohort {

class FlagSet;

// The flags of `cohort predict`.
struct PredictOptions {
  std::string checkpoint;  // as FindCheckpoint takes it
  std::string data;        // a file or folder; "": the validation set of the job
  std::string out = "predictions.csv";
  std::string data_dir;  // COHORT_DATA_DIR; no flag
  int threads = 0;       // each process has as many; 0: the processes share the cores
  int workers = 1;       // processes
  std::string part;      // "2/8": this process predicts one part of the records; "": all
  bool join = false;     // only joins parts
  std::vector<std::string> plugins;
};

void AddPredictFlags(FlagSet* flags, PredictOptions* options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_PREDICT_PREDICT_OPTIONS_H_

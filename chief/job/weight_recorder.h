#ifndef COHORT_CHIEF_JOB_WEIGHT_RECORDER_H_
#define COHORT_CHIEF_JOB_WEIGHT_RECORDER_H_

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/serial_thread.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/report/event_file.h"

namespace cohort {

// Writes what TensorBoard shows of the weights (`histogram_freq` and `embeddings_freq` of the
// callback), from the checkpoints at the ends of epochs, on a thread of its own:
//
//   LOG_DIR/train/events.out.tfevents...   a histogram of each variable, as Keras names it
//   LOG_DIR/projector_config.pbtxt         names the other two, for each table of embeddings
//   LOG_DIR/NAME.tsv                       the rows of the newest checkpoint, at most 100,000
//
// A checkpoint that is deleted before its turn is left out.
class WeightRecorder {
 public:
  struct Options {
    std::string log_dir;
    uint64_t histograms_every = 0;  // epochs; 0: none
    uint64_t embeddings_every = 0;
    std::vector<std::string> embeddings;  // the variables of layers Embedding
    std::string metadata;                 // a file with a line for each row; "": none
    const Clock* clock = nullptr;
    Logger* log = nullptr;
  };
  explicit WeightRecorder(Options options);
  // Waits until everything is written.
  ~WeightRecorder() { Finish(); }

  // A checkpoint is committed. `epochs`: that are finished; it lies at the end of the last one.
  // Must not block: the caller holds a lock.
  void Committed(const std::string& checkpoint, uint64_t epochs, uint64_t step);
  // Waits until everything is written. Later calls of Committed do nothing.
  void Finish() { thread_.Finish(); }

 private:
  // True if something that is written each `every` epochs has its turn.
  static bool TakeDue(uint64_t every, uint64_t epochs, uint64_t* last);
  absl::Status WriteHistograms(const CheckpointReader& reader, uint64_t step);
  absl::Status WriteEmbeddings(const CheckpointReader& reader) const;

  const Options options_;
  uint64_t last_histograms_ = 0;  // epochs
  uint64_t last_embeddings_ = 0;
  EventFileWriter events_;  // used by the thread
  SerialThread thread_{"weights"};
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_WEIGHT_RECORDER_H_

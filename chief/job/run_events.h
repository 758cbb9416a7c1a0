#ifndef COHORT_CHIEF_JOB_RUN_EVENTS_H_
#define COHORT_CHIEF_JOB_RUN_EVENTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "chief/job/job_keys.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/model/summary.h"
#include "common/report/event_file.h"

namespace cohort {

// What the callback TensorBoard of a job asks for besides metrics.
struct TensorBoardSettings {
  bool graph = true;
  uint64_t histograms_every = 0;  // epochs; 0: none
  uint64_t embeddings_every = 0;
  std::string metadata;  // a file with a line for each row of the embeddings; "": none
};
// nullopt: the job has no such callback.
std::optional<TensorBoardSettings> TensorBoardOf(const v1::JobSpec& job);

// Writes what TensorBoard shows of a whole run: its hyper-parameters (log_dir) and the graph of its
// layers (log_dir/train). What cannot be written is logged, and the job continues.
class RunEvents {
 public:
  RunEvents(const std::string& log_dir, const Clock* clock, Logger* log)
      : log_dir_(log_dir), clock_(clock), log_(log), run_(log_dir, clock) {}

  // The job begins with these settings.
  void Begin(const JobKeys& keys);
  void WriteGraph(const ModelSummary& model);
  // The job is finished.
  void End();

 private:
  void Note(const absl::Status& status) const;

  const std::string log_dir_;
  const Clock* const clock_;
  Logger* const log_;
  EventFileWriter run_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_RUN_EVENTS_H_

#ifndef COHORT_CHIEF_JOB_CHECKPOINT_NEWS_H_
#define COHORT_CHIEF_JOB_CHECKPOINT_NEWS_H_

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <utility>

#include "chief/job/job_console.h"

namespace cohort {

// Shows failed checkpoints on the console: the 1st, 2nd, 4th, 8th, ... of a row with the reason and
// what to do, and the one that ends the row. One thread at a time may use it.
class CheckpointNews {
 public:
  explicit CheckpointNews(JobConsole* console) : console_(console) {}

  // `directory`: of the checkpoints. `status`: how one has ended. Does not count those that a lost
  // server or a rollback has ended, because the job reports these itself.
  void Note(const std::string& directory, const absl::Status& status);

 private:
  JobConsole* const console_;
  uint64_t failed_ = 0;  // in a row
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_CHECKPOINT_NEWS_H_

#ifndef COHORT_CHIEF_JOB_ROLLBACK_LIMIT_H_
#define COHORT_CHIEF_JOB_ROLLBACK_LIMIT_H_

#include <absl/status/status.h>

#include <string>

#include "chief/core/core_state.h"

namespace cohort {

// Ends a job that goes back to one checkpoint again and again: a server that the system kills for
// its memory in each epoch would otherwise train the same steps forever.
class RollbackLimit {
 public:
  static constexpr int kMost = 5;

  // Counts a rollback to this checkpoint ("" = the initial state); another one starts the count
  // again. `error` names the server whose loss is the reason, and `state` is that of the cluster
  // when it was noticed. Errors: Unavailable at the fifth rollback, with the server, its end and
  // its memory.
  absl::Status Count(const std::string& checkpoint, const absl::Status& error,
                     const CoreState& state);

 private:
  std::string checkpoint_;
  int count_ = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_ROLLBACK_LIMIT_H_

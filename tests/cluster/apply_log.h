#ifndef COHORT_TESTS_CLUSTER_APPLY_LOG_H_
#define COHORT_TESTS_CLUSTER_APPLY_LOG_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace cohort {

// One verdict of a server on one push section: a line of `--apply_log`, or a step of the simulator.
struct ApplyEvent {
  int ps = 0;
  uint64_t closure = 0;
  uint32_t ordinal = 0;
  uint32_t attempt = 0;
  uint64_t place = 0;
  uint64_t timeline = 0;
  uint64_t generation = 0;
  uint32_t tablet = 0;
  std::string verdict;  // "applied", "duplicate", "settled", "fenced", ...
};

// What must hold of the events of one job, and what of it was seen to happen.
struct ApplyReport {
  uint64_t applied = 0;
  uint64_t duplicates_refused = 0;  // duplicate and settled
  uint64_t fenced = 0;
  uint64_t recomputed_closures = 0;  // ids with more than one attempt in the log
  uint64_t partial_pushes = 0;       // (id, attempt) applied on some tablets and not on others
  uint64_t timelines = 0;
  std::vector<std::string> violations;  // of "each id once per tablet and timeline"
};

// Reads logs as ps_server/apply_log.h writes them; log i is of server i. A torn last line of a life
// that was killed is passed over. Errors: DataLoss (file, line).
absl::StatusOr<std::vector<ApplyEvent>> ReadApplyLogs(const std::vector<std::string>& files);

// Checks, over the events of every server:
//  - each update id is applied at most once per tablet and timeline;
//  - timelines never go back on a tablet;
//  - of a finished job: every id that was applied on one tablet in the last timeline
//    was applied on all of them.
ApplyReport CheckApplyEvents(const std::vector<ApplyEvent>& events, bool finished);

}  // namespace cohort

#endif  // COHORT_TESTS_CLUSTER_APPLY_LOG_H_

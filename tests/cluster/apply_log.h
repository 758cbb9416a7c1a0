#ifndef COHORT_TESTS_CLUSTER_APPLY_LOG_H_
#define COHORT_TESTS_CLUSTER_APPLY_LOG_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

// One verdict of a server on one push section: a line of `--apply_log`, in a file of a daemon or of
// a simulated server. The simulator adds what a chief publishes: the verdict "published" means that
// every closure below `closure` is settled in `timeline`.
struct ApplyEvent {
  int ps = 0;
  uint64_t closure = 0;
  uint32_t ordinal = 0;
  uint32_t attempt = 0;
  uint64_t place = 0;
  uint64_t timeline = 0;
  uint64_t generation = 0;
  uint32_t tablet = 0;
  std::string verdict;  // "applied", "duplicate", "settled", "fenced", ..., "published"
};

// Counts of the events of one job, and the rules that they violate.
struct ApplyReport {
  uint64_t applied = 0;
  uint64_t duplicates_refused = 0;  // duplicate and settled
  uint64_t settled_refused = 0;     // settled
  uint64_t fenced = 0;
  uint64_t recomputed_closures = 0;  // ids with more than one attempt in the log
  uint64_t partial_pushes = 0;       // (id, attempt) applied on some tablets and not on others
  uint64_t mixed_closures = 0;       // those of them that another attempt completed
  uint64_t timelines = 0;
  std::vector<std::string> violations;  // against "each id once per tablet and timeline"
};

// Appends the events of these lines of one server's log, without comments. Errors: DataLoss (line).
absl::Status ParseApplyLines(std::string_view lines, int ps, std::vector<ApplyEvent>* events);

// Reads logs as common/tablet/apply_log.h writes them; log i belongs to server i. Skips a torn last
// line, which a killed process leaves. Errors: DataLoss (file, line).
absl::StatusOr<std::vector<ApplyEvent>> ReadApplyLogs(const std::vector<std::string>& files);

// Checks, over the events of every server (those of one server in their order):
//  - each update id is applied at most once per tablet and timeline;
//  - an id that a tablet has reported as settled is not applied to it in that timeline, and no id
//    that was published as settled is applied anywhere;
//  - the timeline of a tablet never decreases on a server;
//  - in a finished job, every id that was applied on one tablet in the last timeline was applied on
//    all tablets, in that timeline or in the history that it was restored from.
ApplyReport CheckApplyEvents(const std::vector<ApplyEvent>& events, bool finished);

}  // namespace cohort

#endif  // COHORT_TESTS_CLUSTER_APPLY_LOG_H_

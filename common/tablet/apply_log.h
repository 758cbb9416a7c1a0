#ifndef COHORT_COMMON_TABLET_APPLY_LOG_H_
#define COHORT_COMMON_TABLET_APPLY_LOG_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "common/tablet/push_pull_views.h"

namespace cohort {

// In which a parameter server notes what became of every push section, for the invariant checker: a
// text file of a daemon, memory in the simulator. One line each, numbers in decimal, verdicts
// applied, duplicate, settled, fenced, moved, invalid:
//
//   # cohort apply log 1 <incarnation>
//   <closure> <ordinal> <attempt> <place> <timeline> <generation> <tablet> <verdict>
//
// The lines of one request are appended by one write before its answer is sent: what a client was
// told is in the file, whatever then kills the process. A restarted server appends to the same
// file, after a first line of its own. Thread-safe.
class ApplyLog {
 public:
  // In a file. Errors: those of opening it for appending, with exit code 73.
  static absl::StatusOr<std::unique_ptr<ApplyLog>> Open(const std::string& path,
                                                        uint64_t incarnation);
  virtual ~ApplyLog() = default;

  // Appends one line to `lines`. `verdict` is a v1.SectionStatus.
  static void AddLine(const PushHeaderView& push, uint64_t generation, uint32_t tablet, int verdict,
                      std::string* lines);
  // Takes the lines of one request down and empties the string.
  virtual absl::Status Write(std::string* lines) = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_APPLY_LOG_H_

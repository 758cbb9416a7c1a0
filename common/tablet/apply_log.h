#ifndef COHORT_COMMON_TABLET_APPLY_LOG_H_
#define COHORT_COMMON_TABLET_APPLY_LOG_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "common/tablet/push_pull_views.h"

namespace cohort {

// A parameter server records the outcome of every push section here, for the invariant checker. A
// daemon writes a text file, the simulator uses memory. Each section has one line, with decimal
// numbers and the verdict applied, duplicate, settled, fenced, moved, invalid, staged or dropped.
// What a copy has applied as its primary did has the verdict replayed; what it got with the state
// of its primary, held.
// When a synchronous step is closed, each member has another line, with the verdict applied:
//
//   # cohort apply log 1 <incarnation>
//   <closure> <ordinal> <attempt> <place> <timeline> <generation> <tablet> <verdict>
//
// One write appends the lines of a request before its answer is sent. So the file has every verdict
// that a client has received, even if the process is killed later. A restarted server appends to
// the same file, and starts with another first line. Thread-safe.
class ApplyLog {
 public:
  // Opens a log in a file. Errors: those of opening it for appending, with exit code 73.
  static absl::StatusOr<std::unique_ptr<ApplyLog>> Open(const std::string& path,
                                                        uint64_t incarnation);
  virtual ~ApplyLog() = default;

  // Appends one line to `lines`. `verdict` is a v1.SectionStatus, or one of these.
  static constexpr int kReplayed = -1;
  static constexpr int kHeld = -2;
  static void AddLine(const PushHeaderView& push, uint64_t generation, uint32_t tablet, int verdict,
                      std::string* lines);
  // Records the lines of one request and empties the string.
  virtual absl::Status Write(std::string* lines) = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_APPLY_LOG_H_

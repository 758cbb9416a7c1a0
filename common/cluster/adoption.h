#ifndef COHORT_COMMON_CLUSTER_ADOPTION_H_
#define COHORT_COMMON_CLUSTER_ADOPTION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/clock.h"

namespace cohort {

// How the connection to a chief ended.
enum class ChiefLoss {
  kClosed,  // on purpose, or the system closed the sockets of a dead process
  kSilent,  // without a close: the network may be cut and the chief alive
};

// Tracks which chief a worker or a parameter server works for. A state machine; the caller passes
// the time.
//
//                    (1) Adopt                         (4) Closed
//     kNone ────────────────────────► kConnected ────────────────► kGone
//       ▲                             │  ▲    │                      │
//       │                      (2)    │  │    │ (5) lost silently    │ (1)
//       │                     newer ──┘  │    ▼                      │
//       │                                └── kLost ── chief_timeout ─┤
//       └──── (3) another job, unless a chief is heard ──────────────┘
//
// (1) Any generation above those heard, or the same chief again. (2) A newer generation takes over
// at once, because its chief has probed every task before. An older generation, or another chief
// with the same generation, is fenced. (3) A chief of another job takes over and resets the task,
// if no chief is heard or the user allows it (takeover). (4)(5) In kConnected and kLost the task
// "hears" its chief. A second chief asks for that before it takes a generation, and stays away.
//
// Not thread-safe.
class Adoption {
 public:
  using Connection = uint64_t;
  struct Request {
    Connection connection = 0;
    uint64_t generation = 0;
    uint64_t chief_incarnation = 0;
    std::string job;
    bool takeover = false;
  };
  enum class Verdict {
    kAdopted,
    kAdoptedNewJob,  // adopted; the state of the previous job is void
    kFenced,         // an older generation, or one that another chief has
    kBusy,           // works for another job and hears its chief
  };

  explicit Adoption(Duration chief_timeout) : chief_timeout_(chief_timeout) {}

  Verdict Adopt(const Request& request, TimePoint now);
  void OnClosed(Connection connection, ChiefLoss loss, TimePoint now);

  // True if a chief other than `chief_incarnation` is or may be alive: its stream is open, or the
  // stream was lost without a close less than chief_timeout ago.
  bool Hears(uint64_t chief_incarnation, TimePoint now) const;
  // True if the stream of the adopted chief was lost. The task stops hearing that chief after
  // chief_timeout.
  bool HasLost() const { return !connection_.has_value() && lost_at_.has_value(); }

  uint64_t generation() const { return generation_; }
  uint64_t chief_incarnation() const { return chief_incarnation_; }
  const std::string& job() const { return job_; }
  // The open connection of the adopted chief.
  std::optional<Connection> connection() const { return connection_; }

 private:
  const Duration chief_timeout_;
  uint64_t generation_ = 0;  // the highest adopted; 0: none
  uint64_t chief_incarnation_ = 0;
  std::string job_;
  std::optional<Connection> connection_;
  std::optional<TimePoint> lost_at_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_ADOPTION_H_

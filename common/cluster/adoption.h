#ifndef COHORT_COMMON_CLUSTER_ADOPTION_H_
#define COHORT_COMMON_CLUSTER_ADOPTION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/clock.h"

namespace cohort {

// How a chief's connection ended.
enum class ChiefLoss {
  kClosed,  // on purpose, or its sockets were closed by the death of its process
  kSilent,  // without a sign: the network may be cut and the chief alive
};

// Which chief a worker or a parameter server works for. A state machine; time is given.
//
//                    (1) Adopt                         (4) Closed
//     kNone ────────────────────────► kConnected ────────────────► kGone
//       ▲                             │  ▲    │                      │
//       │                      (2)    │  │    │ (5) lost silently    │ (1)
//       │                     newer ──┘  │    ▼                      │
//       │                                └── kLost ── chief_timeout ─┤
//       └──── (3) another job, unless a chief is heard ──────────────┘
//
// (1) any generation above those heard, or the same chief again. (2) a newer generation takes over
// at once: its chief has probed every task first. An older one, or another chief with the same
// generation, is fenced. (3) a chief of another job starts the task anew, where no chief is heard
// or with the user's word (takeover). (4)(5) in kConnected and kLost the task "hears" its chief,
// so that a second chief, which asks before it takes a generation, stays away.
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
    kAdoptedNewJob,  // adopted; whatever was served before is void
    kFenced,         // an older generation, or one that is taken
    kBusy,           // works for another job whose chief it hears
  };

  explicit Adoption(Duration chief_timeout) : chief_timeout_(chief_timeout) {}

  Verdict Adopt(const Request& request, TimePoint now);
  void OnClosed(Connection connection, ChiefLoss loss, TimePoint now);

  // Whether a chief other than `chief_incarnation` is or may be alive: its stream is open, or was
  // lost without a close less than chief_timeout ago.
  bool Hears(uint64_t chief_incarnation, TimePoint now) const;
  // Of a chief that it hears: whether its stream was lost. Without news it is heard no more when
  // chief_timeout has passed.
  bool HasLost() const { return !connection_.has_value() && lost_at_.has_value(); }

  uint64_t generation() const { return generation_; }
  uint64_t chief_incarnation() const { return chief_incarnation_; }
  const std::string& job() const { return job_; }
  // The adopted chief's open connection.
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

#ifndef COHORT_WORKER_ADOPTION_H_
#define COHORT_WORKER_ADOPTION_H_

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

// Which chief a worker works for. A state machine; time is given. Not thread-safe.
//
//                (1) Adopt                      (4) closed
//     kNone ───────────────────► kConnected ──────────────────► kGone
//                                 │ ▲   │ (5) lost silently        │
//                        (2) newer└─┘   └──► kLost ── timeout ─────┤
//                                                                  │ (1)
//
// (1)(2) a generation above those heard, or the same chief again; one of an older generation, or
// another chief of the same one, is fenced. (3) a chief of another job starts the worker anew where no
// chief is heard, or with the user's word (takeover). (4)(5) in kConnected and kLost the worker
// *hears* its chief, so that a second one, which asks before it takes a generation, stays away.
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
    kAdoptedNewJob,  // what was in hand is void
    kFenced,
    kBusy,  // works for another job whose chief it hears
  };

  explicit Adoption(Duration chief_timeout) : chief_timeout_(chief_timeout) {}

  Verdict Adopt(const Request& request, TimePoint now);
  void OnClosed(Connection connection, ChiefLoss loss, TimePoint now);

  // Whether a chief other than this one is or may be alive.
  bool Hears(uint64_t chief_incarnation, TimePoint now) const;

  uint64_t generation() const { return generation_; }  // the highest adopted; 0: none
  uint64_t chief_incarnation() const { return chief_incarnation_; }
  const std::string& job() const { return job_; }
  // The adopted chief's, where it is open.
  std::optional<Connection> connection() const { return connection_; }

 private:
  const Duration chief_timeout_;
  uint64_t generation_ = 0;
  uint64_t chief_incarnation_ = 0;
  std::string job_;
  std::optional<Connection> connection_;
  std::optional<TimePoint> lost_at_;
};

}  // namespace cohort

#endif  // COHORT_WORKER_ADOPTION_H_

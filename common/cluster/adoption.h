#ifndef COHORT_COMMON_CLUSTER_ADOPTION_H_
#define COHORT_COMMON_CLUSTER_ADOPTION_H_

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/cluster/cluster_spec.h"

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

  // How a claim of a chief ends.
  struct Outcome {
    Verdict verdict = Verdict::kAdopted;
    std::string refusal;                   // why the claimant is fenced; "": it is adopted
    std::optional<Connection> superseded;  // the open connection of the former chief, to be fenced
  };

  explicit Adoption(Duration chief_timeout) : chief_timeout_(chief_timeout) {}

  Verdict Adopt(const Request& request, TimePoint now);
  // Adopt, with what the task sends to the claimant and to the former chief.
  Outcome Claim(const Request& request, TimePoint now);
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

// Error: FailedPrecondition if a chief expects another task at this address than `own`.
absl::Status CheckExpectedTask(const Task& own, std::string_view expected_type, int expected_index);

// Why a former chief is fenced.
inline constexpr char kTakenOver[] = "a newer chief has taken over";

// Returns the message that fences a chief. `Message` is PsToChief or WorkerToChief.
template <typename Message>
Message FencedMessage(const Adoption& adoption, const Task& own, uint64_t request,
                      const std::string& why) {
  Message message;
  message.set_request(request);
  message.set_generation(adoption.generation());
  message.mutable_fenced()->set_current_generation(adoption.generation());
  message.mutable_fenced()->set_chief_incarnation(adoption.chief_incarnation());
  message.mutable_fenced()->set_why(own.ToString() + ": " + why);
  return message;
}

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_ADOPTION_H_

#ifndef COHORT_COMMON_CLUSTER_ADOPTION_H_
#define COHORT_COMMON_CLUSTER_ADOPTION_H_

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/cluster/cluster_spec.h"
#include "common/cluster/protocol_version.h"

namespace cohort {

// How the connection to a chief ended.
enum class ChiefLoss {
  kClosed,  // on purpose, or the system closed the sockets of a dead process
  kSilent,  // without a close: the network may be cut and the chief alive
};

// Tasks report generations and timelines that a chief's journal may not know, because another
// journal issued them. Each incarnation of a chief and each rollback uses one number. A number that
// is further ahead than this is corrupt. Nobody continues above it: the numbers are finite.
inline constexpr uint64_t kMostAhead = uint64_t{1} << 16;
inline bool TooFarAhead(uint64_t heard, uint64_t known) {
  return heard > known && heard - known > kMostAhead;
}

// Tracks which chief a worker or a parameter server works for. A state machine; the caller passes
// the time.
//
//                    (1) Handle                        (4) Closed
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
  // The first message of a connection: AdoptPs or AdoptWorker.
  struct Request {
    Connection connection = 0;
    uint64_t generation = 0;
    uint64_t chief_incarnation = 0;
    std::string job;
    bool takeover = false;
    bool probe = false;  // adopts nothing
    ProtocolVersion version;
    std::string expected;  // the task for which the chief takes this one; "": any

    // `Message` is ChiefToPs or ChiefToWorker.
    template <typename Message>
    static Request Of(Connection connection, const Message& message) {
      const auto& adopt = message.adopt();
      Request request{.connection = connection,
                      .generation = message.generation(),
                      .chief_incarnation = adopt.chief_incarnation(),
                      .job = adopt.job(),
                      .takeover = adopt.takeover(),
                      .probe = adopt.probe(),
                      .version = ProtocolVersion::Of(adopt)};
      if (adopt.has_expected() && !adopt.renumbered()) {
        request.expected = adopt.expected().type() + ":" + std::to_string(adopt.expected().index());
      }
      return request;
    }
  };
  // What the task does with it. Unless it is refused or fenced, the chief gets a hello.
  struct Answer {
    absl::Status refused;                  // the hello carries it
    std::string fenced;                    // why the claimant is fenced; "": it is not
    std::optional<Connection> superseded;  // the open connection of the former chief, to be fenced
    bool adopted = false;
    bool new_job = false;  // adopted; the state of the previous job is void
  };

  explicit Adoption(Duration chief_timeout) : chief_timeout_(chief_timeout) {}

  // `own`: this task. Logs a chief of another major version.
  Answer Handle(const Request& request, const Task& own, TimePoint now, Logger* log);
  // Fills in what every task reports about itself. `options` are those of PsCore or WorkerCore.
  template <typename Adopt, typename Options, typename Hello>
  void FillHello(const Adopt& adopt, Role role, const Options& options, TimePoint now,
                 Hello* hello) const {
    SetProtocolVersion(hello);
    hello->mutable_task()->set_type(std::string(RoleName(role)));
    hello->mutable_task()->set_index(adopt.renumbered() ? adopt.expected().index()
                                                        : static_cast<int>(options.index));
    hello->set_incarnation(options.incarnation);
    hello->set_heard_generation(generation_);
    hello->set_hears_chief(Hears(adopt.chief_incarnation(), now));
    hello->set_chief_lost(HasLost());
    hello->set_cores(options.cores);
    hello->set_host_id(options.host_id);
    hello->mutable_fingerprint()->set_instruction_set(options.instruction_set);
    hello->mutable_fingerprint()->set_libraries(options.libraries);
  }
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
  // The greatest generation that a task accepts if it knows none of the job.
  static constexpr uint64_t kLastFirstGeneration = uint64_t{1} << 48;

  // Error: OutOfRange.
  absl::Status CheckGeneration(const Request& request) const;
  // Why the claimant is fenced; "": it is adopted.
  std::string Claim(const Request& request, TimePoint now, bool new_job);

  const Duration chief_timeout_;
  uint64_t generation_ = 0;  // the highest adopted; 0: none
  uint64_t chief_incarnation_ = 0;
  std::string job_;
  std::optional<Connection> connection_;
  std::optional<TimePoint> lost_at_;
};

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

#ifndef COHORT_COMMON_EXCHANGE_EXCHANGE_H_
#define COHORT_COMMON_EXCHANGE_EXCHANGE_H_

#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/exchange/exchange_message.h"
#include "common/exchange/exchange_plan.h"
#include "common/exchange/exchange_routes.h"
#include "common/exchange/request_watch.h"
#include "common/exchange/variable_access.h"
#include "common/tensor/compact_bytes.h"

namespace cohort {

struct ExchangeOptions {
  // Without a byte that moves, an answer or a promise of one: the request counts as lost.
  int64_t request_timeout_us = 10'000'000;
  int64_t unreachable_after_us = 20'000'000;  // the exchange fails if a server is lost for longer
  int64_t hold_timeout_us = 60'000'000;  // longest wait of fenced or moved tablets for new routes
  int64_t backoff_min_us = 10'000;       // before the first re-send; doubles
  int64_t backoff_max_us = 1'000'000;
  uint64_t chunk_bytes = 2 << 20;  // payload of one message; larger pushes are cut
};

// Counts the answer of one tablet to a push of this attempt. `attempt_seen`: an attempt that a
// tablet has applied, 0: none known. Returns false if the push was not looked at.
bool CountPush(const v1::PushResult& result, uint32_t attempt, uint32_t* attempt_seen,
               PushOutcome* outcome);

// Sends the messages of an Exchange.
class ExchangeSink {
 public:
  virtual ~ExchangeSink() = default;
  // Sends one request: the messages in this order, on one connection. The payload stays unchanged
  // until the exchange ends, the headers only during the call. The sink reports a failure later,
  // through OnLost.
  virtual void Send(const ServerRoute& server, std::span<const ExchangeMessage> messages) = 0;
  // The server did not answer in time. The sink drops what it has not yet delivered to the server,
  // as far as it can.
  virtual void Reset(const ServerRoute& server) = 0;
  // What has moved between this process and the server since the last Send to it. The exchange asks
  // only for requests that take long.
  virtual BytesMoved Moved(const ServerRoute& server) = 0;
  // True if a network carries the bytes, and the server reads compact ones (PsRoute.compact).
  virtual bool Compacts(const ServerRoute& server) { return false; }
  // A request takes longer than request_timeout_us, although its bytes move. Once per request.
  // `progress`: "the push to ps:0 has sent 40.0 of 160.0 MB in 10 s (4.0 MB/s)".
  virtual void OnSlow(const ServerRoute& server, const std::string& progress) {}
};

// One step's push and pull with all servers of a program: a state machine without network, threads
// or clock. One request goes to each server: a section per tablet, pushes before pulls.
//
//            Begin                      all sections of all tablets done
//   kIdle ──────────► kRunning ────────────────────────────────────────────► kDone
//                      │  │  │
//                      │  │  └─ fenced by a newer timeline; a fence that no new route or chief
//                      │  │     lifted in time; Cancel ────────────────────────────► kAborted
//                      │  └─── a section is INVALID; a server is unreachable ─────────► kFailed
//                      │
//       per server:  due ── Poll ──► in flight ── every section done ──► idle
//                     ▲                 │
//                     └─ back-off ──────┘  lost, no answer in time, fenced by term or generation,
//                                          moved; at once when new routes or a new generation come
//
// A request that is sent again has the same update id, attempt, place, timeline and payload. It has
// only the sections that were not answered, a new sequence number, and the current generation, term
// and watermark. The exchange ignores an answer to an older sequence: the ids make that safe.
class Exchange {
 public:
  enum class State { kIdle, kRunning, kDone, kAborted, kFailed };

  explicit Exchange(const ExchangeOptions& options) : options_(options) {}

  // Begins an exchange; no other one may be running. Either part may be null, but not both. The
  // memory that the items reference stays until the exchange has ended *and* the sink has released
  // what it was given. Errors (nothing begins): InvalidArgument about an item; Aborted if the push
  // belongs to an older timeline than the routes.
  absl::Status Begin(std::shared_ptr<const ProgramRoutes> routes, const PushBatch* push,
                     const PullBatch* pull, int64_t now_us);

  // Sends the requests that are due, and handles those whose answers are overdue.
  void Poll(int64_t now_us, ExchangeSink* sink);
  // The caller has received no answers for this time: it does not count as the servers' silence.
  void Unattended(int64_t us);
  // The time at which Poll has work next; INT64_MAX if the exchange has ended.
  int64_t NextPoll() const;

  // Handles one response message; `payload` has one element per payload field. `lent`: by field,
  // not 0 if its memory stays valid and unchanged until a request to this server no longer names
  // the response's sequence among those that the client reads (PushPullHeader.reading). Empty: all
  // 0.
  void OnResponse(uint32_t ps, const v1::PushPullResponseHeader& header,
                  std::span<const PayloadPieces> payload, int64_t now_us,
                  std::span<const uint8_t> lent = {});
  // To be called before OnResponse. Returns how long the server has let the caller wait, if this is
  // the first part of its answer to the request in flight: since the request was sent, without the
  // time that was Unattended. -1: it is not the first part, or it says nothing about the server. A
  // pull for a synchronous step alone waits for other workers; beside a push it does not, because
  // the push is answered at once.
  int64_t TakeWait(uint32_t ps, const v1::PushPullResponseHeader& header, int64_t now_us);
  // The connection to a server broke: the request in flight on it is lost, or its answer is.
  void OnLost(uint32_t ps, const absl::Status& why, int64_t now_us);

  // Takes new routes of the same program. Another timeline or other shards abort the exchange.
  void OnRoutes(std::shared_ptr<const ProgramRoutes> routes, int64_t now_us);
  // The generation of the chief that this process works for now.
  void SetGeneration(uint64_t generation, int64_t now_us);
  void SetWatermark(uint64_t watermark) { watermark_ = watermark; }
  // No step reads lent values any more.
  void EndAllLoans() { loans_.clear(); }
  // Ends a running exchange as aborted with this status.
  void Cancel(absl::Status why);

  State state() const { return state_; }
  // The reason why the exchange ended, unless it is kDone. A FailureInfo of role "ps" names a
  // server that is unreachable.
  const absl::Status& status() const { return status_; }
  const ExchangeResult& result() const { return result_; }

  struct Counters {
    uint64_t requests = 0;
    uint64_t resends = 0;
    uint64_t ignored_responses = 0;
    uint64_t bytes_copied = 0;  // pulled values, copied to where the step reads them
    uint64_t bytes_lent = 0;    // pulled values that the step reads where the server has them
  };
  const Counters& counters() const { return counters_; }

 private:
  enum class Phase : uint8_t { kIdle, kDue, kInFlight };
  enum class Hold : uint8_t { kNone, kTerm, kGeneration, kMoved };

  struct Server {
    Phase phase = Phase::kIdle;
    bool later = false;      // the server promised to answer a pull later
    bool life_sign = false;  // it has said that it keeps the request
    bool measured = true;    // TakeWait has no more to return for the request
    uint64_t sequence = 0;
    int64_t due_us = 0;
    RequestWatch watch;             // watches the request in flight
    int64_t failing_since_us = -1;  // time of the first failure without an answer since; -1: none
    int64_t backoff_us = 0;
    absl::Status last_error;
  };
  struct Tablet {
    bool push_done = false;
    bool pull_done = false;
    bool pull_started = false;  // some of its values have come
    Hold hold = Hold::kNone;
    int64_t held_since_us = -1;
    uint64_t pushed_version = 0;  // version of the pull that the push was computed from
    uint64_t version = 0;         // version of this pull
    std::string why;
  };

  // A request whose answer lent values that the step in this lane reads.
  struct Loan {
    uint32_t lane;
    uint32_t ps;
    uint64_t sequence;
  };

  void Build(size_t server, bool compact);
  void NextMessage();
  Bytes KeysToSend(const int64_t* keys, uint64_t begin, uint64_t count, uint32_t* key_bytes);
  Bytes ValuesToSend(Bytes values, bool* halves);
  void AddPushes(size_t tablet);
  void AddPushPiece(size_t tablet, const PushPiece& piece);
  void AddPulls(size_t tablet);
  v1::PushSection* OpenSection(size_t tablet);

  // The tablet has answered its push.
  void EndPush(size_t tablet);
  void OnPush(size_t tablet, const v1::PushPullResponseHeader& header, const v1::PushResult& result,
              int64_t now_us);
  // `payload` and `lent`: of this section's entries.
  void OnPull(size_t tablet, const v1::PushPullResponseHeader& header, const v1::PullResult& result,
              std::span<const PayloadPieces> payload, std::span<const uint8_t> lent,
              int64_t now_us);
  absl::Status TakeEntry(size_t tablet, const v1::PulledEntry& entry, const PayloadPieces& pieces,
                         bool lent);
  bool Lend(const PullPiece& piece, const v1::PulledEntry& entry, const PayloadPieces& pieces,
            bool lent);
  void NoteLoan(size_t tablet, uint64_t sequence);
  void EndLoans(uint32_t lane);
  void OnFenced(size_t tablet, uint64_t generation, uint64_t timeline, uint64_t term,
                uint64_t sent_timeline, int64_t now_us);
  void HoldTablet(size_t tablet, Hold hold, std::string why, int64_t now_us);
  void Look(size_t server, int64_t now_us, ExchangeSink* sink);
  std::string Progress(size_t server, const BytesMoved& moved, int64_t now_us) const;
  void Retry(size_t server, int64_t now_us);
  void EndRequest(size_t server, int64_t now_us);
  void CheckHolds(int64_t now_us);
  void CheckDone();
  void End(State state, absl::Status status);

  bool Pending(size_t tablet) const {
    return !tablets_[tablet].push_done || !tablets_[tablet].pull_done;
  }
  bool ServerPending(size_t server) const;
  bool PushPending(size_t server) const;
  int FindServer(uint32_t ps) const;
  int FindTablet(uint32_t tablet, int server) const;
  uint64_t& KnownVersion(uint32_t lane, uint32_t tablet);

  const ExchangeOptions options_;
  State state_ = State::kIdle;
  absl::Status status_;
  ExchangeResult result_;
  Counters counters_;
  uint64_t generation_ = 0;
  uint64_t watermark_ = 0;
  uint64_t next_sequence_ = 1;
  // By lane and tablet number: the version of the last pull.
  std::vector<std::vector<uint64_t>> versions_;
  std::vector<Loan> loans_;

  // State of the running exchange.
  std::shared_ptr<const ProgramRoutes> routes_;
  ExchangePlan plan_;
  bool has_push_ = false;
  bool has_pull_ = false;
  PushStamp stamp_;
  uint64_t pull_place_ = 0;
  uint32_t pull_ordinal_ = 0;
  uint64_t pull_step_ = 0;
  uint32_t pull_lane_ = 0;
  std::vector<Server> servers_;  // by routes_->servers
  std::vector<Tablet> tablets_;  // by routes_->tablets
  uint32_t attempt_seen_ = 0;    // an attempt that a tablet has applied; 0: none known
  bool timeline_seen_ = false;

  // The request being built.
  std::vector<ExchangeMessage> messages_;
  size_t used_ = 0;
  uint64_t room_ = 0;
  bool compact_ = false;
  StableMemory compact_bytes_;  // what the requests of the exchange have narrowed
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_EXCHANGE_H_

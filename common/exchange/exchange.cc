#include "common/exchange/exchange.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "common/base/status.h"
#include "common/tensor/past_caches.h"

namespace cohort {
namespace {

// True if a repetition may help after a server has refused a request as a whole.
bool WorthRetrying(int code) {
  return code == static_cast<int>(absl::StatusCode::kUnavailable) ||
         code == static_cast<int>(absl::StatusCode::kResourceExhausted) ||
         code == static_cast<int>(absl::StatusCode::kDeadlineExceeded);
}

constexpr size_t kKeptCompactBytes = size_t{64} << 20;

size_t TotalBytes(const PayloadPieces& pieces) {
  size_t bytes = 0;
  for (const Bytes& piece : pieces) bytes += piece.size();
  return bytes;
}

// Reads through pieces as if they were one run of bytes.
class PieceReader {
 public:
  explicit PieceReader(const PayloadPieces& pieces) : pieces_(pieces) {}

  // Reads `bytes` bytes, past the caches if they belong to a value of `value_bytes` that they
  // cannot hold. The caller has checked that they are left.
  void Read(uint8_t* to, size_t bytes, size_t value_bytes) {
    const bool past_caches = value_bytes >= kPastCachesBytes;
    while (bytes > 0) {
      const Bytes& piece = pieces_[piece_];
      const size_t n = std::min(bytes, piece.size() - offset_);
      const uint8_t* const from = piece.data() + offset_;
      past_caches ? CopyPastCaches(to, from, n) : static_cast<void>(std::memcpy(to, from, n));
      to += n;
      bytes -= n;
      offset_ += n;
      if (offset_ == piece.size()) {
        ++piece_;
        offset_ = 0;
      }
    }
  }

 private:
  const PayloadPieces& pieces_;
  size_t piece_ = 0;
  size_t offset_ = 0;
};

}  // namespace

bool CountPush(const v1::PushResult& result, uint32_t attempt, uint32_t* attempt_seen,
               PushOutcome* outcome) {
  switch (result.status()) {
    case v1::APPLIED:
      ++outcome->applied;
      outcome->max_staleness = std::max(outcome->max_staleness, result.staleness());
      outcome->sum_staleness += result.staleness();
      break;
    case v1::DUPLICATE:
      ++outcome->duplicates;
      attempt = result.applied_attempt();
      break;
    case v1::SETTLED:
      ++outcome->settled;
      attempt = result.applied_attempt();
      break;
    case v1::STAGED:
      ++outcome->staged;
      return true;
    case v1::DROPPED:
      outcome->dropped = true;
      return true;
    default:
      return false;
  }
  if (attempt == 0) return true;
  if (*attempt_seen != 0 && attempt != *attempt_seen) outcome->mixed = true;
  *attempt_seen = attempt;
  return true;
}

absl::Status Exchange::Begin(std::shared_ptr<const ProgramRoutes> routes, const PushBatch* push,
                             const PullBatch* pull, int64_t now_us) {
  if (push != nullptr) EndLoans(push->lane);
  if (pull != nullptr) EndLoans(pull->lane);
  if (push != nullptr && push->stamp.timeline != routes->timeline) {
    return Aborted("closure {} was pulled on timeline {}, the job is on {}", push->stamp.closure,
                   push->stamp.timeline, routes->timeline);
  }
  compact_bytes_.Reset(kKeptCompactBytes);
  COHORT_RETURN_IF_ERROR(plan_.Make(*routes, push, pull));
  routes_ = std::move(routes);
  has_push_ = push != nullptr;
  has_pull_ = pull != nullptr;
  if (has_push_) stamp_ = push->stamp;
  pull_place_ = has_pull_ ? pull->place : 0;
  pull_ordinal_ = has_pull_ ? pull->ordinal : 0;
  pull_step_ = has_pull_ ? pull->step : 0;
  pull_lane_ = has_pull_ ? pull->lane : 0;
  result_ = {};
  status_ = absl::OkStatus();
  attempt_seen_ = 0;
  timeline_seen_ = false;
  state_ = State::kRunning;
  tablets_.resize(routes_->tablets.size());
  for (size_t t = 0; t < tablets_.size(); ++t) {
    Tablet& tablet = tablets_[t];
    tablet.push_done = !has_push_;
    tablet.pull_done = !has_pull_;
    tablet.hold = Hold::kNone;
    tablet.held_since_us = -1;
    tablet.pushed_version =
        has_push_ ? KnownVersion(push->lane, routes_->tablets[t].tablet) : uint64_t{0};
    tablet.version = 0;
  }
  servers_.resize(routes_->servers.size());
  for (size_t s = 0; s < servers_.size(); ++s) {
    servers_[s] = {};
    if (!ServerPending(s)) continue;
    servers_[s].phase = Phase::kDue;
    servers_[s].due_us = now_us;
  }
  CheckDone();
  return absl::OkStatus();
}

void Exchange::Poll(int64_t now_us, ExchangeSink* sink) {
  for (size_t s = 0; s < servers_.size() && state_ == State::kRunning; ++s) {
    Server& server = servers_[s];
    if (server.phase == Phase::kInFlight && now_us >= server.watch.next_look_us()) {
      Look(s, now_us, sink);
    }
    if (state_ == State::kRunning && server.phase == Phase::kDue && now_us >= server.due_us) {
      Build(s, sink->Compacts(routes_->servers[s]));
      ++counters_.requests;
      server.phase = Phase::kInFlight;
      server.watch.Begin(now_us, options_.request_timeout_us);
      server.measured = pull_step_ > 0 && !PushPending(s);
      sink->Send(routes_->servers[s], {messages_.data(), used_});
    }
  }
  CheckHolds(now_us);
}

// Asks the sink whether a request that takes long is slow or lost.
void Exchange::Look(size_t s, int64_t now_us, ExchangeSink* sink) {
  const ServerRoute& route = routes_->servers[s];
  RequestWatch& watch = servers_[s].watch;
  const BytesMoved moved = sink->Moved(route);
  const RequestWatch::Verdict verdict = watch.Look(moved, now_us);
  if (verdict == RequestWatch::Verdict::kSlow) sink->OnSlow(route, Progress(s, moved, now_us));
  if (verdict != RequestWatch::Verdict::kSilent) return;
  sink->Reset(route);
  // An older server keeps the pull of a step without a sign of life until the step before is
  // closed.
  const bool signals = servers_[s].later || servers_[s].life_sign;
  if (pull_step_ > 0 && !PushPending(s) && !signals) return Retry(s, now_us);
  OnLost(route.ps,
         DeadlineExceeded("no answer for {} ms; {}", watch.quiet_us(now_us) / 1000,
                          Progress(s, moved, now_us)),
         now_us);
}

std::string Exchange::Progress(size_t s, const BytesMoved& moved, int64_t now_us) const {
  const bool pushes = PushPending(s);
  uint64_t whole = 0;
  for (size_t t = 0; t < tablets_.size(); ++t) {
    if (routes_->tablets[t].server != static_cast<int>(s)) continue;
    const int tablet = static_cast<int>(t);
    whole += pushes ? plan_.push_bytes(tablet) : plan_.pull_bytes(tablet);
  }
  const uint64_t part = std::min(whole, pushes ? moved.sent : moved.received);
  const double seconds = static_cast<double>(servers_[s].watch.age_us(now_us)) / 1e6;
  return fmt::format("the {} ps:{} has {} {:.1f} of {:.1f} MB in {:.3g} s ({:.1f} MB/s)",
                     pushes ? "push to" : "pull from", routes_->servers[s].ps,
                     pushes ? "sent" : "received", static_cast<double>(part) / 1e6,
                     static_cast<double>(whole) / 1e6, seconds,
                     static_cast<double>(part) / 1e6 / std::max(seconds, 1e-6));
}

void Exchange::Unattended(int64_t us) {
  for (Server& server : servers_) {
    if (server.phase == Phase::kInFlight) server.watch.Unattended(us);
  }
}

int64_t Exchange::NextPoll() const {
  int64_t next = std::numeric_limits<int64_t>::max();
  if (state_ != State::kRunning) return next;
  for (const Server& server : servers_) {
    if (server.phase == Phase::kDue) next = std::min(next, server.due_us);
    if (server.phase == Phase::kInFlight) next = std::min(next, server.watch.next_look_us());
  }
  for (const Tablet& tablet : tablets_) {
    if (tablet.held_since_us >= 0) {
      next = std::min(next, tablet.held_since_us + options_.hold_timeout_us);
    }
  }
  return next;
}

int64_t Exchange::TakeWait(uint32_t ps, const v1::PushPullResponseHeader& header, int64_t now_us) {
  const int s = FindServer(ps);
  if (state_ != State::kRunning || s < 0) return -1;
  Server& server = servers_[static_cast<size_t>(s)];
  if (server.phase != Phase::kInFlight || server.sequence != header.sequence()) return -1;
  return std::exchange(server.measured, true) ? -1 : server.watch.age_us(now_us);
}

void Exchange::OnResponse(uint32_t ps, const v1::PushPullResponseHeader& header,
                          std::span<const PayloadPieces> payload, int64_t now_us,
                          std::span<const uint8_t> lent) {
  const int s = FindServer(ps);
  if (state_ != State::kRunning || s < 0 ||
      servers_[static_cast<size_t>(s)].phase != Phase::kInFlight ||
      servers_[static_cast<size_t>(s)].sequence != header.sequence()) {
    ++counters_.ignored_responses;
    return;
  }
  Server& server = servers_[static_cast<size_t>(s)];
  server.failing_since_us = -1;
  if (header.has_error() && header.error().code() != 0) {
    absl::Status error = MakeStatus(static_cast<absl::StatusCode>(header.error().code()),
                                    "ps:{}: {}", ps, header.error().message());
    if (!WorthRetrying(header.error().code())) return End(State::kFailed, std::move(error));
    return OnLost(ps, error, now_us);
  }
  for (const v1::PushResult& result : header.pushes()) {
    const int t = FindTablet(result.tablet(), s);
    if (t >= 0) OnPush(static_cast<size_t>(t), header, result, now_us);
    if (state_ != State::kRunning) return;
  }
  for (const v1::PullResult& result : header.pulls()) {
    const size_t fields = static_cast<size_t>(result.entries_size());
    if (fields > payload.size()) {
      return End(State::kFailed, Internal("ps:{}: an answer with {} payload fields too few", ps,
                                          fields - payload.size()));
    }
    const int t = FindTablet(result.tablet(), s);
    const std::span<const uint8_t> lent_fields = lent.first(lent.empty() ? 0 : fields);
    if (t >= 0) {
      OnPull(static_cast<size_t>(t), header, result, payload.first(fields), lent_fields, now_us);
    }
    if (state_ != State::kRunning) return;
    payload = payload.subspan(fields);
  }
  server.watch.Heard(now_us);
  if (header.more() && header.pushes().empty() && header.pulls().empty()) server.life_sign = true;
  if (!ServerPending(static_cast<size_t>(s))) {
    server.phase = Phase::kIdle;
    server.backoff_us = 0;
    CheckDone();
  } else if (!header.more()) {
    EndRequest(static_cast<size_t>(s), now_us);
  }
}

// The last answer of a request came and not everything is done: fenced, moved, promised for later.
void Exchange::EndRequest(size_t server, int64_t now_us) {
  bool held = false;
  for (size_t t = 0; t < tablets_.size(); ++t) {
    if (routes_->tablets[t].server != static_cast<int>(server)) continue;
    held = held || tablets_[t].hold != Hold::kNone;
  }
  if (!held && servers_[server].later) return;
  Retry(server, now_us);
}

void Exchange::OnPush(size_t t, const v1::PushPullResponseHeader& header,
                      const v1::PushResult& result, int64_t now_us) {
  Tablet& tablet = tablets_[t];
  if (tablet.push_done) return;
  if (CountPush(result, stamp_.attempt, &attempt_seen_, &result_.push)) return EndPush(t);
  switch (result.status()) {
    case v1::FENCED:
      return OnFenced(t, header.generation(), result.timeline(), result.term(), stamp_.timeline,
                      now_us);
    case v1::MOVED:
      return HoldTablet(t, Hold::kMoved, "it is not served there", now_us);
    case v1::INVALID:
      return End(State::kFailed,
                 InvalidArgument("push of closure {} to tablet {}: {}", stamp_.closure,
                                 result.tablet(), result.message()));
    default:
      return End(State::kFailed, Internal("push to tablet {}: status {}", result.tablet(),
                                          static_cast<int>(result.status())));
  }
}

void Exchange::EndPush(size_t t) {
  Tablet& tablet = tablets_[t];
  tablet.push_done = true;
  tablet.hold = Hold::kNone;
  tablet.held_since_us = -1;
}

void Exchange::OnPull(size_t t, const v1::PushPullResponseHeader& header,
                      const v1::PullResult& result, std::span<const PayloadPieces> payload,
                      std::span<const uint8_t> lent, int64_t now_us) {
  Tablet& tablet = tablets_[t];
  if (tablet.pull_done) return;
  const uint32_t number = routes_->tablets[t].tablet;
  switch (result.status()) {
    case v1::APPLIED:
      break;
    case v1::LATER:
      servers_[static_cast<size_t>(routes_->tablets[t].server)].later = true;
      return;
    case v1::FENCED:
      return OnFenced(t, header.generation(), result.timeline(), result.term(), routes_->timeline,
                      now_us);
    case v1::MOVED:
      return HoldTablet(t, Hold::kMoved, "it is not served there", now_us);
    case v1::DROPPED:
      return End(State::kAborted, Aborted("pull of tablet {}: step {} is closed or was abandoned",
                                          number, pull_step_));
    case v1::INVALID:
      return End(State::kFailed,
                 InvalidArgument("pull of tablet {}: {}", number, result.message()));
    default:
      return End(State::kFailed, Internal("pull of tablet {}: status {}", number,
                                          static_cast<int>(result.status())));
  }
  if (timeline_seen_ && result.timeline() != result_.pulled_timeline) {
    return End(State::kAborted, Aborted("tablet {} is on timeline {}, another on {}", number,
                                        result.timeline(), result_.pulled_timeline));
  }
  // An answer that was doubled on its way may show another version: values of one only are taken.
  if (tablet.pull_started && result.version() != tablet.version) return;
  tablet.pull_started = true;
  timeline_seen_ = true;
  result_.pulled_timeline = result.timeline();
  tablet.version = result.version();
  for (int i = 0; i < result.entries_size(); ++i) {
    const size_t field = static_cast<size_t>(i);
    const absl::Status taken =
        TakeEntry(t, result.entries(i), payload[field], !lent.empty() && lent[field] != 0);
    if (!taken.ok()) {
      return End(State::kFailed, Annotate(taken, fmt::format("pull of tablet {}", number)));
    }
  }
  tablet.pull_done = true;
  for (int i = plan_.first_pull(static_cast<int>(t)); i >= 0; i = plan_.pull(i).next) {
    if (plan_.pull(i).received < plan_.pull(i).count) tablet.pull_done = false;
  }
  if (tablet.pull_done) {
    NoteLoan(t, header.sequence());
    tablet.hold = tablet.push_done ? Hold::kNone : tablet.hold;
    if (tablet.hold == Hold::kNone) tablet.held_since_us = -1;
  }
}

void Exchange::NoteLoan(size_t t, uint64_t sequence) {
  for (int i = plan_.first_pull(static_cast<int>(t)); i >= 0; i = plan_.pull(i).next) {
    const PullPiece& piece = plan_.pull(i);
    if (piece.lent == nullptr || *piece.lent == nullptr) continue;
    const size_t server = static_cast<size_t>(routes_->tablets[t].server);
    loans_.push_back({pull_lane_, routes_->servers[server].ps, sequence});
    return;
  }
}

void Exchange::EndLoans(uint32_t lane) {
  std::erase_if(loans_, [lane](const Loan& loan) { return loan.lane == lane; });
}

// Takes the piece's next units where they are, if all of its units so far lie in one run of lent
// memory. If they do not, copies those that were taken before, and returns false.
bool Exchange::Lend(const PullPiece& piece, const v1::PulledEntry& entry,
                    const PayloadPieces& pieces, bool lent) {
  if (piece.lent == nullptr) return false;
  const size_t taken = piece.received * piece.unit_bytes;
  const uint8_t* const data = lent && pieces.size() == 1 ? pieces[0].data() : nullptr;
  const auto* const begin = static_cast<const uint8_t*>(*piece.lent);
  const bool first =
      piece.received == 0 && reinterpret_cast<uintptr_t>(data) % PullItem::kLentAlignment == 0;
  if (data != nullptr && (begin == nullptr ? first : data == begin + taken)) {
    if (begin == nullptr) *piece.lent = data;
    counters_.bytes_lent += entry.count() * piece.unit_bytes;
    return true;
  }
  if (begin == nullptr) return false;
  std::memcpy(piece.destination, begin, taken);
  counters_.bytes_lent -= taken;
  counters_.bytes_copied += taken;
  *piece.lent = nullptr;
  return false;
}

absl::Status Exchange::TakeEntry(size_t t, const v1::PulledEntry& entry,
                                 const PayloadPieces& pieces, bool lent) {
  bool known = false;
  for (int i = plan_.first_pull(static_cast<int>(t)); i >= 0; i = plan_.pull(i).next) {
    PullPiece& piece = plan_.pull(i);
    if (piece.shard != entry.shard()) continue;
    known = true;
    if (piece.received == piece.count) continue;
    if (entry.begin() + entry.count() <= piece.received) return absl::OkStatus();
    if (entry.begin() != piece.received || entry.count() > piece.count - piece.received ||
        TotalBytes(pieces) != entry.count() * piece.unit_bytes) {
      return Internal("shard {}: {} bytes for units [{}, +{}), where {} of {} had come",
                      piece.shard, TotalBytes(pieces), entry.begin(), entry.count(), piece.received,
                      piece.count);
    }
    if (Lend(piece, entry, pieces, lent)) {
      piece.received += entry.count();
      return absl::OkStatus();
    }
    PieceReader reader(pieces);
    if (piece.scatter == nullptr) {
      reader.Read(piece.destination + piece.received * piece.unit_bytes,
                  entry.count() * piece.unit_bytes, piece.count * piece.unit_bytes);
    } else {
      for (uint64_t u = piece.received; u < piece.received + entry.count(); ++u) {
        reader.Read(piece.destination + piece.scatter[u] * piece.unit_bytes, piece.unit_bytes,
                    piece.unit_bytes);
      }
    }
    piece.received += entry.count();
    counters_.bytes_copied += entry.count() * piece.unit_bytes;
    return absl::OkStatus();
  }
  if (known) return absl::OkStatus();  // a doubled answer
  return Internal("values of shard {}, which were not asked for", entry.shard());
}

void Exchange::OnFenced(size_t t, uint64_t generation, uint64_t timeline, uint64_t term,
                        uint64_t sent_timeline, int64_t now_us) {
  const TabletRoute& route = routes_->tablets[t];
  if (timeline > sent_timeline) {
    return End(State::kAborted,
               Aborted("tablet {} is on timeline {}, the closure's is {}: the job was rolled back",
                       route.tablet, timeline, sent_timeline));
  }
  // A server that has not heard of our chief yet will.
  if (generation != generation_) {
    return HoldTablet(t, Hold::kGeneration,
                      fmt::format("its chief's generation is {}, ours {}", generation, generation_),
                      now_us);
  }
  HoldTablet(t, Hold::kTerm, fmt::format("its term is {}, the route's {}", term, route.term),
             now_us);
}

void Exchange::HoldTablet(size_t t, Hold hold, std::string why, int64_t now_us) {
  Tablet& tablet = tablets_[t];
  if (tablet.hold == Hold::kNone) tablet.held_since_us = now_us;
  tablet.hold = hold;
  tablet.why = std::move(why);
}

void Exchange::CheckHolds(int64_t now_us) {
  if (state_ != State::kRunning) return;
  for (size_t t = 0; t < tablets_.size(); ++t) {
    const Tablet& tablet = tablets_[t];
    if (tablet.held_since_us < 0 || now_us < tablet.held_since_us + options_.hold_timeout_us) {
      continue;
    }
    const ServerRoute& server = routes_->servers[static_cast<size_t>(routes_->tablets[t].server)];
    return End(State::kAborted,
               Aborted("tablet {} of ps:{} ({}): {}, and no new route came for {} s",
                       routes_->tablets[t].tablet, server.ps, server.address, tablet.why,
                       options_.hold_timeout_us / 1'000'000));
  }
}

void Exchange::Retry(size_t s, int64_t now_us) {
  Server& server = servers_[s];
  server.backoff_us =
      std::clamp(server.backoff_us * 2, options_.backoff_min_us, options_.backoff_max_us);
  server.phase = Phase::kDue;
  server.due_us = now_us + server.backoff_us;
  ++counters_.resends;
}

void Exchange::OnLost(uint32_t ps, const absl::Status& why, int64_t now_us) {
  const int s = FindServer(ps);
  if (state_ != State::kRunning || s < 0) return;
  Server& server = servers_[static_cast<size_t>(s)];
  if (server.phase != Phase::kInFlight) return;
  server.last_error = why;
  if (server.failing_since_us < 0) server.failing_since_us = now_us;
  if (now_us - server.failing_since_us < options_.unreachable_after_us) {
    return Retry(static_cast<size_t>(s), now_us);
  }
  const ServerRoute& route = routes_->servers[static_cast<size_t>(s)];
  absl::Status status =
      Annotate(Unavailable("{}", std::string_view(why.message().data(), why.message().size())),
               fmt::format("ps:{} ({}) unreachable for {} ms", ps, route.address,
                           (now_us - server.failing_since_us) / 1000));
  SetFailure(&status, {.role = "ps",
                       .index = static_cast<int>(ps),
                       .incarnation = route.incarnation,
                       .retryable = true});
  End(State::kFailed, std::move(status));
}

void Exchange::OnRoutes(std::shared_ptr<const ProgramRoutes> routes, int64_t now_us) {
  if (state_ != State::kRunning || routes == routes_) return;
  if (routes->timeline != routes_->timeline || !routes->SameShards(*routes_)) {
    return End(State::kAborted,
               Aborted("the job went from timeline {} to {}", routes_->timeline, routes->timeline));
  }
  std::vector<Server> servers(routes->servers.size());
  for (size_t s = 0; s < servers.size(); ++s) {
    const ServerRoute& route = routes->servers[s];
    const int old = FindServer(route.ps);
    bool same = old >= 0 && route.address == routes_->servers[static_cast<size_t>(old)].address &&
                route.incarnation == routes_->servers[static_cast<size_t>(old)].incarnation;
    bool pending = false;
    for (size_t t = 0; t < tablets_.size(); ++t) {
      if (routes->tablets[t].server != static_cast<int>(s) || !Pending(t)) continue;
      pending = true;
      same = same && routes_->tablets[t].server == old &&
             routes_->tablets[t].term == routes->tablets[t].term;
    }
    if (same) {
      servers[s] = servers_[static_cast<size_t>(old)];
    } else if (pending) {
      servers[s].phase = Phase::kDue;
      servers[s].due_us = now_us;
      ++counters_.resends;
    }
  }
  servers_ = std::move(servers);
  routes_ = std::move(routes);
}

void Exchange::SetGeneration(uint64_t generation, int64_t now_us) {
  if (generation == generation_) return;
  generation_ = generation;
  if (state_ != State::kRunning) return;
  for (size_t t = 0; t < tablets_.size(); ++t) {
    if (tablets_[t].hold != Hold::kGeneration) continue;
    Server& server = servers_[static_cast<size_t>(routes_->tablets[t].server)];
    if (server.phase == Phase::kDue) server.due_us = now_us;
  }
}

void Exchange::Cancel(absl::Status why) {
  if (state_ == State::kRunning) End(State::kAborted, std::move(why));
}

void Exchange::CheckDone() {
  for (size_t t = 0; t < tablets_.size(); ++t) {
    if (Pending(t)) return;
  }
  if (has_pull_) {
    for (size_t t = 0; t < tablets_.size(); ++t) {
      KnownVersion(pull_lane_, routes_->tablets[t].tablet) = tablets_[t].version;
    }
  }
  End(State::kDone, absl::OkStatus());
}

void Exchange::End(State state, absl::Status status) {
  state_ = state;
  status_ = std::move(status);
}

bool Exchange::PushPending(size_t server) const {
  for (size_t t = 0; t < tablets_.size(); ++t) {
    if (routes_->tablets[t].server == static_cast<int>(server) && !tablets_[t].push_done) {
      return true;
    }
  }
  return false;
}

bool Exchange::ServerPending(size_t server) const {
  for (size_t t = 0; t < tablets_.size(); ++t) {
    if (routes_->tablets[t].server == static_cast<int>(server) && Pending(t)) return true;
  }
  return false;
}

int Exchange::FindServer(uint32_t ps) const {
  if (routes_ == nullptr) return -1;
  for (size_t s = 0; s < routes_->servers.size(); ++s) {
    if (routes_->servers[s].ps == ps) return static_cast<int>(s);
  }
  return -1;
}

// Returns -1 also if the tablet belongs to another server now: the exchange asks that one.
int Exchange::FindTablet(uint32_t tablet, int server) const {
  const auto& tablets = routes_->tablets;
  const auto it = std::lower_bound(
      tablets.begin(), tablets.end(), tablet,
      [](const TabletRoute& route, uint32_t number) { return route.tablet < number; });
  const bool found = it != tablets.end() && it->tablet == tablet && it->server == server;
  return found ? static_cast<int>(it - tablets.begin()) : -1;
}

uint64_t& Exchange::KnownVersion(uint32_t lane, uint32_t tablet) {
  if (versions_.size() <= lane) versions_.resize(lane + 1);
  std::vector<uint64_t>& versions = versions_[lane];
  if (versions.size() <= tablet) versions.resize(tablet + 1, 0);
  return versions[tablet];
}

}  // namespace cohort

#include "common/collective/collective_group.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/status.h"
#include "common/collective/choose.h"
#include "common/collective/operation.h"
#include "common/collective/peer_streams.h"

namespace cohort {
namespace {

// The most bytes that one rank may keep here for operations that are not started.
constexpr uint64_t kMostEarlyBytes = uint64_t{64} << 20;
// How long the thread polls without sleeping, if it has a core to itself.
constexpr Duration kSpin = std::chrono::microseconds(50);
// Between looks at memory that gRPC has not released yet.
constexpr Duration kReleasePoll = std::chrono::microseconds(200);
// How long a failed group waits until the other ranks have read why.
constexpr Duration kFailGrace = std::chrono::milliseconds(500);

absl::Status CheckOptions(const CollectiveGroupOptions& options) {
  const int ranks = static_cast<int>(options.ranks.size());
  if (options.rank < 0 || options.rank >= ranks) {
    return InvalidArgument("a collective group of {} ranks has no rank {}", ranks, options.rank);
  }
  for (const CollectiveRank& rank : options.ranks) {
    if (rank.incarnation == 0) {
      return InvalidArgument("{} has no incarnation", rank.ToString());
    }
  }
  if (options.window_bytes < options.early_bytes || options.window_bytes < options.chunk_bytes) {
    return InvalidArgument("a window of {} bytes is less than what is sent early, or than a chunk",
                           options.window_bytes);
  }
  return absl::OkStatus();
}

OperationKey KeyOf(const v1::CollectiveHeader& header) {
  return {{header.step(), header.step_try(), header.bucket()},
          static_cast<CollectiveKind>(header.operation())};
}

}  // namespace

std::string CollectiveRank::ToString() const {
  return fmt::format("{}:{} ({})", role, index, address);
}

class CollectiveGroup::Impl : public PeerStreams::Receiver {
 public:
  explicit Impl(const CollectiveGroupOptions& options);
  ~Impl() override;
  absl::Status Connect(PeerService* service);

  absl::StatusOr<Ticket> Start(const CollectiveCall& call);
  absl::Status Wait(Ticket ticket);
  void Poll();
  void Abandon(uint64_t step, uint64_t step_try);
  CollectiveCounters counters() const;
  const CollectiveGroupOptions& options() const { return options_; }
  bool SharesMemoryWith(int rank) const { return streams_->SharesMemoryWith(rank); }
  uint32_t SignatureOf(Ticket ticket) const;
  int ranks() const { return static_cast<int>(options_.ranks.size()); }

 private:
  // What the other ranks have answered to the newest probe.
  enum class Presence : uint8_t { kSilent, kNotStarted, kStarted };
  // How long the waiting thread has seen no progress.
  struct Watch {
    TimePoint base;      // when the newest progress was seen
    TimePoint last;      // when the thread looked last
    uint64_t progress;   // progress_ at `base`
    TimePoint probed{};  // when the other ranks were asked; never: the default
  };

  uint8_t* PlaceOf(int from, const v1::CollectiveHeader& header, uint64_t bytes) override;
  void OnFrame(std::unique_ptr<ReceivedFrame> frame) override;
  void OnSlotFree(int rank, uint64_t ticket) override;
  void OnLeft(int rank) override;
  void OnLost(int rank, const absl::Status& why) override { Fail(why, rank); }

  absl::Status CheckStart(const CollectiveCall& call) const;
  Operation* Find(const OperationKey& key);
  bool IsOver(const OperationKey& key) const;
  void UseOrDrop(Operation* operation, std::unique_ptr<ReceivedFrame> frame);
  void KeepEarly(std::unique_ptr<ReceivedFrame> frame);
  void UseEarly(Operation* operation);
  void Drop(std::unique_ptr<ReceivedFrame> frame);
  void Finish(Operation* operation);
  void MarkOldest();

  void PollUntilEvent(TimePoint spin_until, TimePoint deadline);
  void Look(const Operation& operation, Watch* watch);
  v1::CollectiveHeader* NewHeader(v1::CollectiveFrameKind kind, const OperationKey& key);
  void Probe(const OperationKey& key);
  void FailFor(const Operation& operation);
  void Fail(const absl::Status& status, int blamed);
  void AwaitRelease(const Operation& operation);

  const CollectiveGroupOptions options_;
  const RealClock real_clock_;
  const Clock* const clock_;
  const Duration spin_;
  std::unique_ptr<PeerStreams> streams_;

  absl::Status failed_;                              // why; OK: the group works
  std::vector<bool> left_;                           // by rank
  std::vector<std::unique_ptr<Operation>> running_;  // in the order of their start
  std::vector<std::unique_ptr<Operation>> idle_;
  std::vector<std::unique_ptr<ReceivedFrame>> early_;
  std::vector<std::unique_ptr<ReceivedFrame>> using_;  // in UseEarly
  std::vector<uint64_t> early_bytes_;                  // by rank
  std::array<OperationKey, 64> over_{};                // the newest names that have ended
  size_t over_count_ = 0;
  std::array<std::pair<uint64_t, uint64_t>, 16> abandoned_{};  // step and try
  size_t abandoned_count_ = 0;
  Ticket next_ticket_ = 1;
  uint64_t progress_ = 0;  // chunks that were used
  OperationKey probed_;
  std::vector<Presence> presence_;  // by rank
  CollectiveCounters counters_;
};

CollectiveGroup::Impl::Impl(const CollectiveGroupOptions& options)
    : options_(options),
      clock_(options.clock != nullptr ? options.clock : &real_clock_),
      spin_(options.own_core ? kSpin : Duration(0)),
      left_(options.ranks.size()),
      early_bytes_(options.ranks.size()),
      presence_(options.ranks.size()) {}

// What is in flight is given up, and its buffers are free again.
CollectiveGroup::Impl::~Impl() {
  if (streams_ == nullptr) return;
  if (!running_.empty()) {
    Fail(Cancelled("this rank leaves the group"), -1);
    streams_->Abort();
  }
  for (const auto* operations : {&running_, &idle_}) {
    for (const auto& operation : *operations) AwaitRelease(*operation);
  }
}

absl::Status CollectiveGroup::Impl::Connect(PeerService* service) {
  streams_ = std::make_unique<PeerStreams>(options_, service, this);
  return streams_->Connect(options_.chunk_bytes);
}

// ---------------------------------------------------------------- operations

absl::Status CollectiveGroup::Impl::CheckStart(const CollectiveCall& call) const {
  COHORT_RETURN_IF_ERROR(failed_);
  COHORT_RETURN_IF_ERROR(CheckCollectiveCall(call, ranks(), options_.rank));
  for (int rank = 0; rank < ranks(); ++rank) {
    if (!left_[static_cast<size_t>(rank)]) continue;
    const CollectiveRank& gone = options_.ranks[static_cast<size_t>(rank)];
    return WithRank(Unavailable("rank {}, {}, has left the group", rank, gone.ToString()), gone);
  }
  for (const auto& operation : running_) {
    if (operation->key() != OperationKey{call.name, call.kind}) continue;
    return AlreadyExists("{} is in flight", call.name.ToString());
  }
  if (IsOver({call.name, call.kind})) {
    return FailedPrecondition("{} has ended, or its try was abandoned", call.name.ToString());
  }
  return absl::OkStatus();
}

absl::StatusOr<Collective::Ticket> CollectiveGroup::Impl::Start(const CollectiveCall& call) {
  if (!running_.empty()) Poll();
  COHORT_RETURN_IF_ERROR(CheckStart(call));
  COHORT_ASSIGN_OR_RETURN(const AlgorithmKind algorithm, ChooseAlgorithm(call, ranks()));
  if (idle_.empty()) {
    idle_.push_back(std::make_unique<Operation>(
        streams_.get(), Operation::Limits{options_.early_bytes, options_.window_bytes}));
    ++counters_.allocations;
  }
  running_.push_back(std::move(idle_.back()));
  idle_.pop_back();
  Operation* const operation = running_.back().get();
  MarkOldest();
  operation->ticket = next_ticket_++;
  ++counters_.operations;
  const Ticket ticket = operation->ticket;
  operation->Begin(call, algorithm, options_.rank, ranks(), options_.chunk_bytes);
  UseEarly(operation);
  return ticket;
}

Operation* CollectiveGroup::Impl::Find(const OperationKey& key) {
  for (const auto& operation : running_) {
    if (operation->key() == key) return operation.get();
  }
  return nullptr;
}

uint32_t CollectiveGroup::Impl::SignatureOf(Ticket ticket) const {
  for (const auto& operation : running_) {
    if (operation->ticket == ticket) return operation->signature();
  }
  return 0;
}

// True if the operation has ended here, or will never start.
bool CollectiveGroup::Impl::IsOver(const OperationKey& key) const {
  const auto end = over_.begin() + static_cast<std::ptrdiff_t>(std::min(over_count_, over_.size()));
  if (std::find(over_.begin(), end, key) != end) return true;
  for (size_t i = 0; i < std::min(abandoned_count_, abandoned_.size()); ++i) {
    const auto& [step, step_try] = abandoned_[i];
    if (key.name.step == step && key.name.step_try <= step_try) return true;
  }
  return false;
}

void CollectiveGroup::Impl::MarkOldest() {
  for (const auto& operation : running_) {
    operation->set_oldest(operation.get() == running_.front().get());
  }
}

void CollectiveGroup::Impl::Finish(Operation* operation) {
  if (operation->status().ok()) over_[over_count_++ % over_.size()] = operation->key();
  operation->ticket = 0;
  const auto found = std::find_if(running_.begin(), running_.end(),
                                  [&](const auto& held) { return held.get() == operation; });
  idle_.push_back(std::move(*found));
  running_.erase(found);
  MarkOldest();
  // The oldest one does not wait for slots any more.
  if (running_.empty()) return;
  for (int rank = 0; rank < ranks(); ++rank) running_.front()->Pump(rank);
}

void CollectiveGroup::Impl::Abandon(uint64_t step, uint64_t step_try) {
  abandoned_[abandoned_count_++ % abandoned_.size()] = {step, step_try};
  for (const auto& operation : running_) {
    const OperationName& name = operation->key().name;
    if (name.step != step || name.step_try > step_try || operation->done()) continue;
    operation->End(Cancelled("{} was abandoned", name.ToString()));
  }
  std::vector<std::unique_ptr<ReceivedFrame>> kept;
  for (std::unique_ptr<ReceivedFrame>& frame : early_) {
    if (!IsOver(KeyOf(frame->header))) {
      kept.push_back(std::move(frame));
    } else {
      early_bytes_[static_cast<size_t>(frame->from)] -= frame->decoder.frame_bytes();
      Drop(std::move(frame));
    }
  }
  early_.swap(kept);
}

CollectiveCounters CollectiveGroup::Impl::counters() const {
  CollectiveCounters all = counters_;
  const PeerStreams::Counters& streams = streams_->counters();
  all.bytes_sent = streams.bytes_sent;
  all.bytes_shared = streams.bytes_shared;
  all.frames_dropped += streams.frames_dropped;
  all.allocations += streams.frames_allocated;
  return all;
}

// ---------------------------------------------------------------- frames

uint8_t* CollectiveGroup::Impl::PlaceOf(int from, const v1::CollectiveHeader& header,
                                        uint64_t bytes) {
  const Operation* const operation = Find(KeyOf(header));
  return operation == nullptr ? nullptr : operation->PlaceOf(from, header, bytes);
}

void CollectiveGroup::Impl::OnFrame(std::unique_ptr<ReceivedFrame> frame) {
  const OperationKey key = KeyOf(frame->header);
  Operation* const operation = Find(key);
  switch (frame->header.kind()) {
    case v1::PROBE: {
      NewHeader(v1::PRESENCE, key)->set_started(operation != nullptr || IsOver(key));
      streams_->Send(frame->from);
      return streams_->Recycle(std::move(frame));
    }
    case v1::PRESENCE:
      if (key == probed_) {
        presence_[static_cast<size_t>(frame->from)] =
            frame->header.started() ? Presence::kStarted : Presence::kNotStarted;
      }
      return streams_->Recycle(std::move(frame));
    case v1::CHUNK:
    case v1::CREDIT:
      if (!failed_.ok() || IsOver(key)) return Drop(std::move(frame));
      if (operation == nullptr) {
        const bool credit = frame->header.kind() == v1::CREDIT;
        if (credit && options_.test_faults.drops_early_credit) return Drop(std::move(frame));
        return KeepEarly(std::move(frame));
      }
      return UseOrDrop(operation, std::move(frame));
    default:
      return Drop(std::move(frame));
  }
}

void CollectiveGroup::Impl::Drop(std::unique_ptr<ReceivedFrame> frame) {
  ++counters_.frames_dropped;
  streams_->Recycle(std::move(frame));
}

void CollectiveGroup::Impl::UseOrDrop(Operation* operation, std::unique_ptr<ReceivedFrame> frame) {
  if (operation->ended()) return Drop(std::move(frame));
  const int from = frame->from;
  if (frame->header.kind() == v1::CREDIT) {
    const uint64_t limit = frame->header.limit();
    streams_->Recycle(std::move(frame));
    return operation->OnCredit(from, limit);
  }
  ++progress_;
  counters_.bytes_received += frame->what.range.size() * operation->item_bytes();
  const absl::Status used = operation->OnChunk(std::move(frame));
  if (!used.ok()) Fail(WithRank(used, options_.ranks[static_cast<size_t>(from)]), from);
}

void CollectiveGroup::Impl::KeepEarly(std::unique_ptr<ReceivedFrame> frame) {
  const size_t from = static_cast<size_t>(frame->from);
  early_bytes_[from] += frame->decoder.frame_bytes();
  if (early_bytes_[from] > kMostEarlyBytes) {
    const absl::Status why = ResourceExhausted(
        "rank {} has sent {} bytes for operations that are not started", from, early_bytes_[from]);
    Drop(std::move(frame));
    return Fail(WithRank(why, options_.ranks[from]), static_cast<int>(from));
  }
  counters_.chunks_early += frame->header.kind() == v1::CHUNK ? 1 : 0;
  early_.push_back(std::move(frame));
}

void CollectiveGroup::Impl::UseEarly(Operation* operation) {
  using_.clear();
  size_t kept = 0;
  for (std::unique_ptr<ReceivedFrame>& frame : early_) {
    if (KeyOf(frame->header) != operation->key()) {
      early_[kept++].swap(frame);
      continue;
    }
    early_bytes_[static_cast<size_t>(frame->from)] -= frame->decoder.frame_bytes();
    using_.push_back(std::move(frame));
  }
  early_.resize(kept);
  for (std::unique_ptr<ReceivedFrame>& frame : using_) UseOrDrop(operation, std::move(frame));
}

void CollectiveGroup::Impl::OnSlotFree(int rank, uint64_t ticket) {
  for (const auto& operation : running_) {
    if (operation->ticket == ticket) operation->OnSlotFree(rank);
    if (!operation->ended()) operation->Pump(rank);
  }
}

void CollectiveGroup::Impl::OnLeft(int rank) {
  left_[static_cast<size_t>(rank)] = true;
  const CollectiveRank& gone = options_.ranks[static_cast<size_t>(rank)];
  for (const auto& operation : running_) {
    if (operation->ended() || !operation->IsWaitingForRank(rank)) continue;
    return Fail(WithRank(Unavailable("rank {}, {}, left the group in {}", rank, gone.ToString(),
                                     operation->key().name.ToString()),
                         gone),
                rank);
  }
}

// ---------------------------------------------------------------- waiting

void CollectiveGroup::Impl::Poll() {
  while (streams_->Poll(streams_->Now())) {
  }
}

void CollectiveGroup::Impl::PollUntilEvent(TimePoint spin_until, TimePoint deadline) {
  for (TimePoint now = streams_->Now(); now < spin_until; now = streams_->Now()) {
    if (streams_->Poll(now)) return;
  }
  streams_->Poll(deadline);
}

absl::Status CollectiveGroup::Impl::Wait(Ticket ticket) {
  const auto found = std::find_if(running_.begin(), running_.end(),
                                  [&](const auto& held) { return held->ticket == ticket; });
  if (ticket == 0 || found == running_.end()) {
    return InvalidArgument("no operation has the ticket {}", ticket);
  }
  Operation* const operation = found->get();
  const Duration slice =
      std::clamp<Duration>(operation->deadline() / 8, std::chrono::milliseconds(1),
                           options_.should_stop ? kStopPoll : std::chrono::seconds(1));
  const TimePoint begin = clock_->Now();
  Watch watch{.base = begin, .last = begin, .progress = progress_};
  while (!operation->ended() && !operation->done()) {
    const TimePoint now = streams_->Now();
    PollUntilEvent(now + spin_, now + slice);
    Look(*operation, &watch);
    if (!options_.should_stop || !options_.should_stop()) continue;
    Fail(Cancelled("{} was stopped on rank {}", operation->key().name.ToString(), options_.rank),
         -1);
  }
  if (!options_.test_faults.returns_lent_buffers) AwaitRelease(*operation);
  const absl::Status status = operation->status();
  Finish(operation);
  return status;
}

// Judges the other ranks by the clock, after everything that has arrived was read.
void CollectiveGroup::Impl::Look(const Operation& operation, Watch* watch) {
  const TimePoint now = clock_->Now();
  // This process was stopped itself: what the others have sent meanwhile is read first.
  const bool paused = now - watch->last > operation.deadline() / 2;
  watch->last = now;
  if (paused || watch->progress != progress_) {
    *watch = {.base = now, .last = now, .progress = progress_};
    return;
  }
  const Duration silent = now - watch->base;
  if (watch->probed == TimePoint()) {
    if (silent <= operation.deadline() / 2) return;
    watch->probed = now;
    return Probe(operation.key());
  }
  // The others have time to answer, also if this process came late to ask them.
  if (silent > operation.deadline() && now - watch->probed > operation.deadline() / 4) {
    FailFor(operation);
  }
}

v1::CollectiveHeader* CollectiveGroup::Impl::NewHeader(v1::CollectiveFrameKind kind,
                                                       const OperationKey& key) {
  v1::CollectiveHeader* header = streams_->NewHeader(kind);
  key.Stamp(header);
  return header;
}

void CollectiveGroup::Impl::Probe(const OperationKey& key) {
  probed_ = key;
  std::fill(presence_.begin(), presence_.end(), Presence::kSilent);
  for (int rank = 0; rank < ranks(); ++rank) {
    if (rank == options_.rank || left_[static_cast<size_t>(rank)]) continue;
    NewHeader(v1::PROBE, key);
    streams_->Send(rank);
  }
}

// The missing rank: one that is silent, else one that has not started the operation, else the one
// whose chunks are missing.
void CollectiveGroup::Impl::FailFor(const Operation& operation) {
  int missing = -1;
  const char* what = "sends nothing more";
  for (const auto& [presence, text] :
       {std::pair(Presence::kSilent, "does not answer"),
        std::pair(Presence::kNotStarted, "has not started the operation")}) {
    if (options_.test_faults.names_its_sender) break;
    for (int rank = 0; rank < ranks() && missing < 0; ++rank) {
      if (rank == options_.rank || left_[static_cast<size_t>(rank)]) continue;
      if (presence_[static_cast<size_t>(rank)] != presence) continue;
      missing = rank;
      what = text;
    }
  }
  if (missing < 0) missing = std::max(operation.WaitingFor(), 0);
  const CollectiveRank& rank = options_.ranks[static_cast<size_t>(missing)];
  Fail(WithRank(DeadlineExceeded("{}: no progress for {:.1f} s: rank {}, {}, {}",
                                 operation.key().name.ToString(), ToSeconds(operation.deadline()),
                                 missing, rank.ToString(), what),
                rank),
       missing);
}

void CollectiveGroup::Impl::Fail(const absl::Status& status, int blamed) {
  if (!failed_.ok()) return;
  failed_ = status;
  if (options_.log != nullptr) {
    options_.log->Failure(LogLevel::kWarning, "collective_group_failed", status);
  }
  for (const auto& operation : running_) {
    if (!operation->done()) operation->End(status);
  }
  for (std::unique_ptr<ReceivedFrame>& frame : early_) Drop(std::move(frame));
  early_.clear();
  streams_->Close(status, blamed);
}

// The streams may still read the buffers, also after an early end. And the caller may do something else
// for long, so what only Poll can send is sent first: the other ranks wait for it.
void CollectiveGroup::Impl::AwaitRelease(const Operation& operation) {
  TimePoint base = streams_->Now();
  TimePoint asked = base;
  size_t queued = SIZE_MAX;
  while (!operation.released() || (failed_.ok() && !streams_->sends_without_poll())) {
    const TimePoint now = streams_->Now();
    const auto [reader, bytes] = streams_->SlowestReader();
    if (failed_.ok() && bytes != queued) {
      queued = bytes;
      base = now;
    }
    if (!failed_.ok() && now - base > kFailGrace) streams_->Abort();
    if (failed_.ok() && now - base > operation.deadline()) {
      const CollectiveRank& rank = options_.ranks[static_cast<size_t>(reader)];
      Fail(WithRank(DeadlineExceeded("{}: rank {}, {}, does not read what was sent",
                                     operation.key().name.ToString(), reader, rank.ToString()),
                    rank),
           reader);
      base = now;
    }
    if (failed_.ok() && options_.should_stop && now - asked >= kStopPoll) {
      asked = now;
      if (options_.should_stop()) {
        Fail(Cancelled("{} was stopped on rank {}", operation.key().name.ToString(), options_.rank),
             -1);
      }
    }
    streams_->Poll(now + kReleasePoll);
  }
}

// ---------------------------------------------------------------- CollectiveGroup

CollectiveGroup::CollectiveGroup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CollectiveGroup::~CollectiveGroup() = default;

absl::StatusOr<std::unique_ptr<CollectiveGroup>> CollectiveGroup::Start(
    const CollectiveGroupOptions& options, PeerService* service) {
  COHORT_RETURN_IF_ERROR(CheckOptions(options));
  auto impl = std::make_unique<Impl>(options);
  COHORT_RETURN_IF_ERROR(impl->Connect(service));
  return std::unique_ptr<CollectiveGroup>(new CollectiveGroup(std::move(impl)));
}

int CollectiveGroup::rank() const { return impl_->options().rank; }
int CollectiveGroup::ranks() const { return impl_->ranks(); }
absl::StatusOr<Collective::Ticket> CollectiveGroup::Start(const CollectiveCall& call) {
  return impl_->Start(call);
}
absl::Status CollectiveGroup::Wait(Ticket ticket) { return impl_->Wait(ticket); }
void CollectiveGroup::Poll() { impl_->Poll(); }
void CollectiveGroup::Abandon(uint64_t step, uint64_t step_try) { impl_->Abandon(step, step_try); }
CollectiveCounters CollectiveGroup::counters() const { return impl_->counters(); }
bool CollectiveGroup::SharesMemoryWith(int rank) const { return impl_->SharesMemoryWith(rank); }
uint32_t CollectiveGroup::SignatureOf(Ticket ticket) const { return impl_->SignatureOf(ticket); }

}  // namespace cohort

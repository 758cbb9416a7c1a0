#include "common/collective/collective_group.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace cohort {
namespace {

// The most bytes that one rank may keep here for operations that are not started.
constexpr uint64_t kMostEarlyBytes = uint64_t{64} << 20;
// Between looks at memory that gRPC has not released yet.
constexpr Duration kReleasePoll = std::chrono::microseconds(200);
// How long a failed group waits until the other ranks have read why.
constexpr Duration kFailGrace = std::chrono::milliseconds(500);
// How many names of ended operations are kept. Frames of older ones do not come.
constexpr size_t kKeptNames = 64;

absl::Status CheckOptions(const CollectiveGroupOptions& options) {
  if (options.rank < 0 || options.rank >= options.count()) {
    return InvalidArgument("a collective group of {} ranks has no rank {}", options.count(),
                           options.rank);
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

}  // namespace

std::string CollectiveRank::ToString() const {
  return fmt::format("worker:{} ({})", index, address);
}

absl::StatusOr<std::unique_ptr<CollectiveGroup>> CollectiveGroup::Start(
    const CollectiveGroupOptions& options, PeerService* service) {
  COHORT_RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<CollectiveGroup> group(new CollectiveGroup(options, service));
  COHORT_RETURN_IF_ERROR(group->streams_.Connect());
  return group;
}

CollectiveGroup::CollectiveGroup(const CollectiveGroupOptions& options, PeerService* service)
    : options_(options),
      streams_(options_, service, this, &counters_),
      left_(options.ranks.size()),
      early_bytes_(options.ranks.size()),
      presence_(options.ranks.size()) {}

CollectiveGroup::~CollectiveGroup() {
  if (!running_.empty()) {
    Fail(Cancelled("this rank leaves the group"), -1);
    streams_.Abort();
  }
  for (const auto* operations : {&running_, &lent_}) {
    for (const auto& operation : *operations) AwaitRelease(*operation);
  }
}

// ---------------------------------------------------------------- operations

absl::Status CollectiveGroup::CheckBegin(const ReduceScatterCall& call) const {
  COHORT_RETURN_IF_ERROR(failed_);
  COHORT_RETURN_IF_ERROR(CheckCall(call, ranks()));
  for (int rank = 0; rank < ranks(); ++rank) {
    if (!left_[static_cast<size_t>(rank)]) continue;
    return WithRank(Unavailable("rank {}, {}, has left the group", rank, of(rank).ToString()),
                    of(rank));
  }
  if (Find(call.name) != nullptr) return AlreadyExists("{} is in flight", call.name.ToString());
  if (IsOver(call.name)) return FailedPrecondition("{} has ended", call.name.ToString());
  return absl::OkStatus();
}

absl::Status CollectiveGroup::Begin(const ReduceScatterCall& call) {
  if (!running_.empty()) Poll();
  COHORT_RETURN_IF_ERROR(CheckBegin(call));
  running_.push_back(std::make_unique<ReduceScatter>(options_, &streams_, call));
  ReduceScatter* const operation = running_.back().get();
  operation->Start();
  UseEarly(operation);
  return absl::OkStatus();
}

ReduceScatter* CollectiveGroup::Find(const OperationName& name) const {
  for (const auto& operation : running_) {
    if (operation->name() == name) return operation.get();
  }
  return nullptr;
}

bool CollectiveGroup::IsOver(const OperationName& name) const {
  return std::find(over_.begin(), over_.end(), name) != over_.end();
}

void CollectiveGroup::Finish(const ReduceScatter& operation) {
  if (operation.status().ok()) over_.push_back(operation.name());
  if (over_.size() > kKeptNames) over_.pop_front();
  const auto found = std::find_if(running_.begin(), running_.end(),
                                  [&](const auto& held) { return held.get() == &operation; });
  if (!operation.released()) lent_.push_back(std::move(*found));
  running_.erase(found);
}

// ---------------------------------------------------------------- frames

void CollectiveGroup::OnFrame(std::unique_ptr<ReceivedFrame> frame) {
  const OperationName name = OperationName::Of(frame->header);
  ReduceScatter* const operation = Find(name);
  switch (frame->header.kind()) {
    case v1::PROBE:
      return OnProbe(frame->from, name);
    case v1::PRESENCE:
      if (name == probed_) {
        presence_[static_cast<size_t>(frame->from)] =
            frame->header.started() ? Presence::kStarted : Presence::kNotStarted;
      }
      return;
    case v1::CHUNK:
    case v1::CREDIT:
      if (!failed_.ok() || IsOver(name)) return Drop(std::move(frame));
      if (operation != nullptr) return UseOrDrop(operation, std::move(frame));
      if (frame->header.kind() == v1::CREDIT && options_.test_faults.drops_early_credit) {
        return Drop(std::move(frame));
      }
      return KeepEarly(std::move(frame));
    default:
      return Drop(std::move(frame));
  }
}

void CollectiveGroup::OnProbe(int from, const OperationName& name) {
  v1::CollectiveHeader* const header = streams_.NewHeader(v1::PRESENCE);
  name.Stamp(header);
  header->set_started(Find(name) != nullptr || IsOver(name));
  streams_.Send(from);
}

void CollectiveGroup::Drop(std::unique_ptr<ReceivedFrame> frame) {
  ++counters_.frames_dropped;
  streams_.Release(std::move(frame));
}

void CollectiveGroup::UseOrDrop(ReduceScatter* operation, std::unique_ptr<ReceivedFrame> frame) {
  const int from = frame->from;
  const bool credit = frame->header.kind() == v1::CREDIT;
  if (operation->ended() || (credit && from != options_.right())) return Drop(std::move(frame));
  if (credit) return operation->OnCredit(frame->header.limit());
  const uint64_t before = operation->received();
  const absl::Status used = operation->OnChunk(std::move(frame));
  counters_.bytes_received += operation->received() - before;
  if (!used.ok()) Fail(WithRank(used, of(from)), from);
}

void CollectiveGroup::KeepEarly(std::unique_ptr<ReceivedFrame> frame) {
  const int from = frame->from;
  uint64_t& bytes = early_bytes_[static_cast<size_t>(from)];
  bytes += frame->decoder.frame_bytes();
  if (bytes > kMostEarlyBytes) {
    Drop(std::move(frame));
    return Fail(
        WithRank(ResourceExhausted("rank {} has sent {} bytes for operations that are not started",
                                   from, bytes),
                 of(from)),
        from);
  }
  counters_.chunks_early += frame->header.kind() == v1::CHUNK ? 1 : 0;
  early_.push_back(std::move(frame));
}

void CollectiveGroup::UseEarly(ReduceScatter* operation) {
  // A chunk that does not fit fails the group, which drops all that is early.
  for (std::unique_ptr<ReceivedFrame>& frame : std::exchange(early_, {})) {
    if (OperationName::Of(frame->header) != operation->name()) {
      early_.push_back(std::move(frame));
      continue;
    }
    early_bytes_[static_cast<size_t>(frame->from)] -= frame->decoder.frame_bytes();
    UseOrDrop(operation, std::move(frame));
  }
}

void CollectiveGroup::OnLeft(int rank) {
  left_[static_cast<size_t>(rank)] = true;
  if (rank != options_.left()) return;
  for (const auto& operation : running_) {
    if (operation->ended() || !operation->IsWaitingForChunks()) continue;
    return Fail(WithRank(Unavailable("rank {}, {}, left the group in {}", rank, of(rank).ToString(),
                                     operation->name().ToString()),
                         of(rank)),
                rank);
  }
}

// ---------------------------------------------------------------- waiting

void CollectiveGroup::Poll() {
  while (streams_.Poll(streams_.Now())) {
  }
}

absl::Status CollectiveGroup::Wait(const OperationName& name) {
  ReduceScatter* const operation = Find(name);
  if (operation == nullptr) return InvalidArgument("{} is not in flight", name.ToString());
  const Duration slice =
      std::clamp<Duration>(options_.deadline / 8, std::chrono::milliseconds(1),
                           options_.should_stop ? kStopPoll : std::chrono::seconds(1));
  const TimePoint begin = streams_.Now();
  Watch watch{.base = begin, .last = begin, .progress = counters_.bytes_received};
  while (!operation->ended() && !operation->done()) {
    streams_.Poll(streams_.Now() + slice);
    Look(*operation, &watch);
    FailIfStopped(name);
  }
  if (!options_.test_faults.returns_lent_buffers) AwaitRelease(*operation);
  const absl::Status status = operation->status();
  Finish(*operation);
  return status;
}

// Judges the other ranks by the clock, after everything that has arrived was read.
void CollectiveGroup::Look(const ReduceScatter& operation, Watch* watch) {
  const TimePoint now = streams_.Now();
  // This process was stopped itself: what the others have sent meanwhile is read first.
  const bool paused = now - watch->last > options_.deadline / 2;
  watch->last = now;
  if (paused || watch->progress != counters_.bytes_received) {
    *watch = {.base = now,
              .last = now,
              .progress = counters_.bytes_received,
              .reported = watch->reported};
    return;
  }
  const Duration silent = now - watch->base;
  if (watch->probed == TimePoint()) {
    if (silent <= options_.deadline / 2) return;
    watch->probed = now;
    return Probe(operation.name());
  }
  // The others have time to answer, also if this process came late to ask them.
  if (silent <= options_.deadline || now - watch->probed <= options_.deadline / 4) return;
  const auto [missing, what] = FindMissing(operation, watch->probed);
  if (missing >= 0) {
    return Fail(WithRank(DeadlineExceeded("{}: no progress for {:.1f} s: rank {}, {}, {}",
                                          operation.name().ToString(), ToSeconds(options_.deadline),
                                          missing, of(missing).ToString(), what),
                         of(missing)),
                missing);
  }
  if (!std::exchange(watch->reported, true)) ReportSlow(operation);
  watch->base = now;
  watch->probed = TimePoint();
}

void CollectiveGroup::Probe(const OperationName& name) {
  probed_ = name;
  std::fill(presence_.begin(), presence_.end(), Presence::kSilent);
  for (int rank = 0; rank < ranks(); ++rank) {
    if (rank == options_.rank || left_[static_cast<size_t>(rank)]) continue;
    name.Stamp(streams_.NewHeader(v1::PROBE));
    streams_.Send(rank);
    streams_.Ask(rank);  // the thread of its group may be busy
  }
}

// The rank has answered since it was asked.
bool CollectiveGroup::IsAlive(int rank, TimePoint probed) const {
  return presence_[static_cast<size_t>(rank)] != Presence::kSilent ||
         streams_.alive_at(rank) >= probed;
}

// One that is silent. If all say that they take part and yet nothing comes, the one whose chunks
// are missing.
std::pair<int, const char*> CollectiveGroup::FindMissing(const ReduceScatter& operation,
                                                         TimePoint probed) const {
  bool all_started = true;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (options_.test_faults.names_its_sender) break;
    if (rank == options_.rank || left_[static_cast<size_t>(rank)]) continue;
    if (!IsAlive(rank, probed)) return {rank, "does not answer"};
    all_started &= presence_[static_cast<size_t>(rank)] == Presence::kStarted;
  }
  if (!all_started) return {-1, ""};
  return {std::max(operation.WaitingFor(), 0), "sends nothing more"};
}

void CollectiveGroup::ReportSlow(const ReduceScatter& operation) const {
  if (options_.log == nullptr) return;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (rank == options_.rank || left_[static_cast<size_t>(rank)]) continue;
    if (presence_[static_cast<size_t>(rank)] == Presence::kStarted) continue;
    options_.log->Warning("collective_waits", {{"for", of(rank).ToString()},
                                               {"to", "begin " + operation.name().ToString()},
                                               {"seconds", ToSeconds(options_.deadline)}});
  }
}

void CollectiveGroup::FailIfStopped(const OperationName& name) {
  if (!options_.should_stop || !options_.should_stop()) return;
  Fail(Cancelled("{} was stopped on rank {}", name.ToString(), options_.rank), -1);
}

void CollectiveGroup::Fail(const absl::Status& status, int blamed) {
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
  streams_.Close(status, blamed);
}

// The streams may still read the buffers, also after an early end. And the caller may do something
// else for long, so what only Poll can send is sent first: the other ranks wait for it.
void CollectiveGroup::AwaitRelease(const ReduceScatter& operation) {
  TimePoint base = streams_.Now();
  TimePoint asked = base;
  size_t queued = SIZE_MAX;
  while (!operation.released() || (failed_.ok() && !streams_.sends_without_poll())) {
    const TimePoint now = streams_.Now();
    const auto [reader, bytes] = streams_.SlowestReader();
    if (failed_.ok() && bytes != queued) {
      queued = bytes;
      base = now;
    }
    if (!failed_.ok() && now - base > kFailGrace) streams_.Abort();
    // A rank that computes for long does not read meanwhile.
    if (reader != options_.rank) {
      if (failed_.ok() && now - base > options_.deadline / 2) streams_.Ask(reader);
      base = std::max(base, streams_.alive_at(reader));
    }
    if (failed_.ok() && now - base > options_.deadline) {
      Fail(WithRank(DeadlineExceeded("{}: rank {}, {}, does not read what was sent",
                                     operation.name().ToString(), reader, of(reader).ToString()),
                    of(reader)),
           reader);
      base = now;
    }
    if (failed_.ok() && now - asked >= kStopPoll) {
      asked = now;
      FailIfStopped(operation.name());
    }
    streams_.Poll(now + kReleasePoll);
  }
}

}  // namespace cohort

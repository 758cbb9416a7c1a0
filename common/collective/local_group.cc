#include "common/collective/local_group.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/collective/choose.h"
#include "common/collective/fold.h"

namespace cohort {
namespace {

// What one rank has done for an operation, in order:
//
//   absent ──► started ──► summed ──► gathered ──► gone
//
// A rank sums its part when all have started, gathers when all have summed, and leaves when all have
// gathered. An all-gather skips `summed`, a reduce-scatter `gathered`.
enum class Progress : uint8_t { kAbsent, kStarted, kSummed, kGathered, kGone };

// An operation as all ranks see it.
struct LocalOperation {
  OperationName name;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  uint64_t elements = 0;
  DType dtype = DType::kFloat32;
  std::vector<int> order;
  std::vector<uint64_t> part_ends;
  std::vector<ElementSpan> buffers;                     // by rank
  std::vector<std::vector<ElementSpan>> contributions;  // by rank
  std::vector<Progress> progress;                       // by rank
  int readers = 0;                                      // ranks that read buffers right now
  absl::Status status;  // why it will not end well; nobody begins to read then

  ElementRange part(int rank) const {
    return PartAmong(part_ends, elements, static_cast<int>(buffers.size()), rank);
  }
};

// True if all ranks have started the operation.
bool Complete(const LocalOperation& operation) {
  return std::none_of(operation.progress.begin(), operation.progress.end(),
                      [](Progress progress) { return progress == Progress::kAbsent; });
}

}  // namespace

// The operations in flight. An operation's buffers are written before their rank's progress is
// published under the lock, and read after it was seen there.
class LocalGroup::State {
 public:
  State(std::vector<std::string> names, const Clock* clock)
      : names_(std::move(names)), clock_(clock != nullptr ? clock : &real_clock_) {}

  int ranks() const { return static_cast<int>(names_.size()); }
  absl::StatusOr<LocalOperation*> Join(int rank, const CollectiveCall& call);
  // Does what this rank can do for the operation now. True if the operation has ended for it.
  bool Advance(int rank, LocalOperation* operation);
  // Waits until a rank makes progress after `seen`. Error: the operation has failed, also because
  // nothing has happened until `until`.
  absl::Status AwaitProgress(LocalOperation* operation, uint64_t seen, Duration deadline);
  uint64_t version();
  // Ends the operation for this rank, when nobody reads its buffers.
  void Release(int rank, LocalOperation* operation);
  void Abandon(uint64_t step, uint64_t step_try);
  void Leave(int rank);

 private:
  // The next step of a rank. kAbsent: it has to wait for others.
  static Progress Next(int rank, const LocalOperation& operation);
  void Fail(LocalOperation* operation, absl::Status status, int missing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Changed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    ++version_;
    changed_.SignalAll();
  }
  static void SumPart(int rank, const LocalOperation& operation);
  static void GatherParts(int rank, const LocalOperation& operation);

  const std::vector<std::string> names_;
  const RealClock real_clock_;
  const Clock* const clock_;

  Mutex mu_;
  CondVar changed_;
  uint64_t version_ ABSL_GUARDED_BY(mu_) = 0;  // counts what happens
  absl::Status failed_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<LocalOperation>> running_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<LocalOperation>> idle_ ABSL_GUARDED_BY(mu_);
  std::vector<std::pair<uint64_t, uint64_t>> abandoned_ ABSL_GUARDED_BY(mu_);  // step and try
};

absl::StatusOr<LocalOperation*> LocalGroup::State::Join(int rank, const CollectiveCall& call) {
  COHORT_RETURN_IF_ERROR(CheckCollectiveCall(call, ranks(), rank));
  COHORT_RETURN_IF_ERROR(CheckCommunication(call.communication));
  MutexLock lock(&mu_);
  COHORT_RETURN_IF_ERROR(failed_);
  for (const auto& [step, step_try] : abandoned_) {
    if (call.name.step != step || call.name.step_try > step_try) continue;
    return FailedPrecondition("the try of {} was abandoned", call.name.ToString());
  }
  LocalOperation* operation = nullptr;
  for (const auto& running : running_) {
    const Progress own = running->progress[static_cast<size_t>(rank)];
    if (running->name != call.name || running->kind != call.kind) continue;
    if (own == Progress::kAbsent) operation = running.get();
    if (own != Progress::kAbsent && own != Progress::kGone) {
      return AlreadyExists("{} is in flight", call.name.ToString());
    }
  }
  if (operation == nullptr) {
    if (idle_.empty()) idle_.push_back(std::make_unique<LocalOperation>());
    running_.push_back(std::move(idle_.back()));
    idle_.pop_back();
    operation = running_.back().get();
    operation->name = call.name;
    operation->kind = call.kind;
    operation->elements = call.buffer.elements();
    operation->dtype = call.buffer.dtype();
    operation->status = absl::OkStatus();
    operation->readers = 0;
    operation->part_ends.assign(call.part_ends.begin(), call.part_ends.end());
    operation->order.assign(call.order.begin(), call.order.end());
    for (int i = 0; i < ranks() && call.order.empty(); ++i) operation->order.push_back(i);
    operation->buffers.assign(names_.size(), {});
    operation->contributions.resize(names_.size());
    operation->progress.assign(names_.size(), Progress::kAbsent);
  }
  const bool same_order =
      call.order.empty() || std::equal(call.order.begin(), call.order.end(),
                                       operation->order.begin(), operation->order.end());
  const bool same_parts = std::equal(call.part_ends.begin(), call.part_ends.end(),
                                     operation->part_ends.begin(), operation->part_ends.end());
  if (!same_parts || operation->elements != call.buffer.elements() ||
      operation->dtype != call.buffer.dtype() || !same_order) {
    return InvalidArgument("rank {} has started {} with other arguments than another rank", rank,
                           call.name.ToString());
  }
  const size_t own = static_cast<size_t>(rank);
  operation->buffers[own] = call.buffer;
  operation->contributions[own].assign(call.contributions.begin(), call.contributions.end());
  if (operation->contributions[own].empty()) operation->contributions[own].push_back(call.buffer);
  operation->progress[own] = Progress::kStarted;
  Changed();
  return operation;
}

Progress LocalGroup::State::Next(int rank, const LocalOperation& operation) {
  const Progress own = operation.progress[static_cast<size_t>(rank)];
  const Progress least = *std::min_element(operation.progress.begin(), operation.progress.end());
  if (least < own) return Progress::kAbsent;
  switch (own) {
    case Progress::kStarted:
      return operation.kind == CollectiveKind::kAllGather ? Progress::kGathered : Progress::kSummed;
    case Progress::kSummed:
      return operation.kind == CollectiveKind::kReduceScatter ? Progress::kGone
                                                              : Progress::kGathered;
    default:
      return Progress::kGone;
  }
}

bool LocalGroup::State::Advance(int rank, LocalOperation* operation) {
  while (true) {
    Progress next = Progress::kAbsent;
    {
      MutexLock lock(&mu_);
      if (operation->status.ok()) next = Next(rank, *operation);
      if (next == Progress::kAbsent) return false;
      if (next == Progress::kGone) return true;
      ++operation->readers;
    }
    if (next == Progress::kSummed) {
      SumPart(rank, *operation);
    } else {
      GatherParts(rank, *operation);
    }
    MutexLock lock(&mu_);
    --operation->readers;
    operation->progress[static_cast<size_t>(rank)] = next;
    Changed();
  }
}

uint64_t LocalGroup::State::version() {
  MutexLock lock(&mu_);
  return version_;
}

absl::Status LocalGroup::State::AwaitProgress(LocalOperation* operation, uint64_t seen,
                                              Duration deadline) {
  MutexLock lock(&mu_);
  const TimePoint until = clock_->Now() + deadline;
  while (version_ == seen && operation->status.ok()) {
    if (changed_.WaitUntil(&mu_, until) || clock_->Now() < until) continue;
    const auto late = std::min_element(operation->progress.begin(), operation->progress.end());
    const int missing = static_cast<int>(late - operation->progress.begin());
    Fail(operation,
         DeadlineExceeded("{}: no progress for {:.1f} s: rank {}, {}, {}",
                          operation->name.ToString(), ToSeconds(deadline), missing,
                          names_[static_cast<size_t>(missing)],
                          *late == Progress::kAbsent ? "has not started the operation"
                                                     : "does not wait for the operation"),
         missing);
  }
  return operation->status;
}

// The group has failed: operations that a rank has not joined end with the same error.
void LocalGroup::State::Fail(LocalOperation* operation, absl::Status status, int missing) {
  SetFailure(&status, {.role = names_[static_cast<size_t>(missing)],
                       .index = missing,
                       .incarnation = 0,
                       .retryable = true});
  if (failed_.ok()) failed_ = status;
  operation->status = status;
  for (const auto& other : running_) {
    if (Complete(*other) || !other->status.ok()) continue;
    other->status = status;
  }
  Changed();
}

void LocalGroup::State::Release(int rank, LocalOperation* operation) {
  MutexLock lock(&mu_);
  while (operation->readers > 0 && !operation->status.ok()) changed_.Wait(&mu_);
  operation->progress[static_cast<size_t>(rank)] = Progress::kGone;
  Changed();
  const bool last =
      std::all_of(operation->progress.begin(), operation->progress.end(), [](Progress progress) {
        return progress == Progress::kGone || progress == Progress::kAbsent;
      });
  if (!last || (operation->status.ok() && !Complete(*operation))) return;
  const auto found = std::find_if(running_.begin(), running_.end(),
                                  [&](const auto& held) { return held.get() == operation; });
  idle_.push_back(std::move(*found));
  running_.erase(found);
}

void LocalGroup::State::SumPart(int rank, const LocalOperation& operation) {
  const ElementRange part = operation.part(rank);
  if (part.size() == 0) return;
  PieceFolder folder;
  std::vector<size_t> next(operation.buffers.size());
  for (const int from : operation.order) {
    const size_t of = static_cast<size_t>(from);
    folder.Add(operation.contributions[of][next[of]++].at(part.begin));
  }
  const ElementSpan& own = operation.buffers[static_cast<size_t>(rank)];
  folder.Fold(operation.dtype, own.at(part.begin), part.size());
}

void LocalGroup::State::GatherParts(int rank, const LocalOperation& operation) {
  const ElementSpan& own = operation.buffers[static_cast<size_t>(rank)];
  for (int owner = 0; owner < static_cast<int>(operation.buffers.size()); ++owner) {
    const ElementRange part = operation.part(owner);
    if (owner == rank || part.size() == 0) continue;
    std::memcpy(own.at(part.begin), operation.buffers[static_cast<size_t>(owner)].at(part.begin),
                part.size() * SizeOf(operation.dtype));
  }
}

void LocalGroup::State::Abandon(uint64_t step, uint64_t step_try) {
  MutexLock lock(&mu_);
  const std::pair<uint64_t, uint64_t> abandoned(step, step_try);
  if (std::find(abandoned_.begin(), abandoned_.end(), abandoned) == abandoned_.end()) {
    if (abandoned_.size() == 16) abandoned_.erase(abandoned_.begin());
    abandoned_.push_back(abandoned);
  }
  for (const auto& operation : running_) {
    if (operation->name.step != step || operation->name.step_try > step_try) continue;
    if (Complete(*operation)) continue;  // every rank has what it needs
    operation->status = Cancelled("{} was abandoned", operation->name.ToString());
  }
  Changed();
}

// The end of a rank's object. What waits for the rank fails.
void LocalGroup::State::Leave(int rank) {
  MutexLock lock(&mu_);
  for (const auto& operation : running_) {
    if (operation->progress[static_cast<size_t>(rank)] == Progress::kGone) continue;
    Fail(operation.get(),
         Unavailable("{}: rank {}, {}, has left the group", operation->name.ToString(), rank,
                     names_[static_cast<size_t>(rank)]),
         rank);
  }
}

class LocalGroup::Rank final : public Collective {
 public:
  Rank(std::shared_ptr<State> state, int rank) : state_(std::move(state)), rank_(rank) {}
  ~Rank() override { state_->Leave(rank_); }

  int rank() const override { return rank_; }
  int ranks() const override { return state_->ranks(); }

  absl::StatusOr<Ticket> Start(const CollectiveCall& call) override {
    COHORT_ASSIGN_OR_RETURN(LocalOperation* const operation, state_->Join(rank_, call));
    started_.push_back({next_ticket_, operation, call.deadline});
    ++counters_.operations;
    return next_ticket_++;
  }

  absl::Status Wait(Ticket ticket) override {
    const auto found = std::find_if(started_.begin(), started_.end(),
                                    [&](const Started& one) { return one.ticket == ticket; });
    if (found == started_.end()) return InvalidArgument("no operation has the ticket {}", ticket);
    const Started one = *found;
    absl::Status status;
    while (status.ok()) {
      const uint64_t version = state_->version();
      // The others may wait for another operation first, and need this rank's part of it.
      Poll();
      if (state_->Advance(rank_, one.operation)) break;
      status = state_->AwaitProgress(one.operation, version, one.deadline);
    }
    state_->Release(rank_, one.operation);
    started_.erase(std::find_if(started_.begin(), started_.end(),
                                [&](const Started& held) { return held.ticket == ticket; }));
    return status;
  }

  void Poll() override {
    for (const Started& one : started_) state_->Advance(rank_, one.operation);
  }
  void Abandon(uint64_t step, uint64_t step_try) override { state_->Abandon(step, step_try); }
  CollectiveCounters counters() const override { return counters_; }

 private:
  struct Started {
    Ticket ticket;
    LocalOperation* operation;
    Duration deadline;
  };

  const std::shared_ptr<State> state_;
  const int rank_;
  std::vector<Started> started_;
  Ticket next_ticket_ = 1;
  CollectiveCounters counters_;
};

std::vector<std::unique_ptr<Collective>> LocalGroup::Create(const std::vector<std::string>& names,
                                                            const Clock* clock) {
  auto state = std::make_shared<State>(names, clock);
  std::vector<std::unique_ptr<Collective>> ranks;
  for (int rank = 0; rank < static_cast<int>(names.size()); ++rank) {
    ranks.push_back(std::make_unique<Rank>(state, rank));
  }
  return ranks;
}

}  // namespace cohort

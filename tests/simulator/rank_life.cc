#include "tests/simulator/rank_life.h"

#include <algorithm>
#include <cstring>

#include "common/base/status.h"

namespace cohort::simulator {
namespace {

// How long the end of a group may take (peer_streams.cc), and what the simulated transport adds.
constexpr int64_t kCloseUs = 3'000'000;
// A call of Wait ends one deadline after the last progress or sign of life. More than this number
// is never needed: each rank may calculate for several deadlines before it begins an operation.
constexpr int64_t kMostDeadlines = 20;
// The same for starts.
constexpr int64_t kMostStartDeadlines = 6;
// A process that has two announcements usually takes the newer one.
constexpr uint64_t kOldEpochPercent = 30;
// Their memory is written when they have ended, and freed later: who still reads it sees other
// bytes.
constexpr size_t kKeptOperations = 16;

}  // namespace

// One operation, and the memory that it uses.
struct RankLife::InFlight {
  OperationName name;
  BucketPlan bucket;
  std::vector<float> buffer;
};

RankLife::RankLife(RankWorld* around, Node* node)
    : around_(around),
      node_(node),
      rank_(node->task().index),
      ledger_(around->ledger()),
      process_(node, around->network(), around->plan().bug == CollectiveBug::kTakesAnyEpoch) {
  process_.find_node = [around](int index) { return around->NodeOf(index); };
  process_.violate = [this](const std::string& what) {
    ledger_->Violate("rank {}: {}", rank_, what);
  };
  ledger_->Started(rank_, node->incarnation());
  process_.thread.Start([this] { Body(); });
}

RankLife::~RankLife() {
  process_.thread.End();
  process_.DropStreams();
  ledger_->statistics.refused_streams += process_.service.refused();
  ledger_->statistics.lent_frames += process_.lent_frames;
}

void RankLife::OnAnnouncement(EpochAnnouncement announcement) {
  announced_.push_back(std::move(announcement));
  process_.thread.Wake();
}

void RankLife::Body() {
  around_->OnIdle(rank_, 0);
  EpochAnnouncement announcement;
  while (AwaitAnnouncement(&announcement)) {
    Join(announcement);
    if (process_.thread.dead()) return;
    around_->OnIdle(rank_, announcement.epoch);
  }
}

// Returns false if the process is dead.
bool RankLife::AwaitAnnouncement(EpochAnnouncement* announcement) {
  doing_ = "waits for an epoch";
  std::erase_if(announced_, [&](const auto& one) { return one.epoch <= last_epoch_; });
  while (announced_.empty()) {
    if (!process_.thread.SleepUntil(now_us() + 1'000'000)) return false;
  }
  const bool old = announced_.size() > 1 && around_->world()->chance.Percent(kOldEpochPercent);
  *announcement = old ? announced_.front() : announced_.back();
  last_epoch_ = announcement->epoch;
  if (last_epoch_ < around_->newest_epoch()) ++ledger_->statistics.old_epochs;
  return true;
}

CollectiveGroupOptions RankLife::OptionsOf(const EpochAnnouncement& announcement) {
  const CollectivePlan& plan = around_->plan();
  CollectiveGroupOptions options;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    CollectiveRank one;
    one.index = rank;
    one.address = std::to_string(rank);
    one.incarnation = announcement.incarnations[static_cast<size_t>(rank)];
    options.ranks.push_back(one);
  }
  options.rank = rank_;
  options.group = {1, 1, announcement.epoch};
  options.start_deadline = plan.start_deadline;
  options.deadline = plan.deadline;
  options.chunk_bytes = plan.chunk_bytes;
  options.early_bytes = plan.early_bytes;
  options.window_bytes = plan.window_bytes;
  options.transport = [this] { return std::make_unique<SimulatedPeerTransport>(&process_); };
  options.test_faults.takes_any_epoch = plan.bug == CollectiveBug::kTakesAnyEpoch;
  options.test_faults.drops_early_credit = plan.bug == CollectiveBug::kDropsEarlyCredit;
  options.test_faults.names_its_sender = plan.bug == CollectiveBug::kNamesItsSender;
  options.test_faults.returns_lent_buffers = plan.bug == CollectiveBug::kReturnsLentBuffers;
  return options;
}

void RankLife::Join(const EpochAnnouncement& announcement) {
  const uint64_t epoch = announcement.epoch;
  around_->world()->Trace("{} enters epoch {}", node_->name(), epoch);
  doing_ = fmt::format("starts the group of epoch {}", epoch);
  ledger_->Enters(rank_, epoch, now_us());
  const int64_t begin_us = now_us();
  auto group = CollectiveGroup::Start(OptionsOf(announcement), &process_.service);
  if (process_.thread.dead()) return;
  CheckTime("the start", begin_us,
            kMostStartDeadlines * MicrosOf(around_->plan().start_deadline) + kCloseUs);
  if (!group.ok()) {
    ++ledger_->statistics.failed_starts;
    around_->world()->Trace("{}: {}", node_->name(), group.status().ToString());
    CheckFailure(epoch, nullptr, group.status());
    return ledger_->Leaves(rank_, epoch, now_us());
  }
  ++ledger_->statistics.groups;
  ledger_->CheckComplete(rank_, epoch);
  Train(group->get(), announcement);
  if (process_.thread.dead()) return;
  ledger_->statistics.early_chunks += (*group)->counters().chunks_early;
  ledger_->statistics.dropped_frames += (*group)->counters().frames_dropped;
  ledger_->Leaves(rank_, epoch, now_us());
  doing_ = fmt::format("leaves epoch {}", epoch);
  const int64_t end_us = now_us();
  group->reset();
  // Nobody may read them any more.
  for (const auto& one : given_up_) std::fill(one->buffer.begin(), one->buffer.end(), -1.0F);
  for (auto& one : std::exchange(given_up_, {})) KeepEnded(std::move(one));
  if (!process_.thread.dead()) CheckTime("the end of a group", end_us, kCloseUs);
}

void RankLife::Train(CollectiveGroup* group, const EpochAnnouncement& announcement) {
  const uint64_t epoch = announcement.epoch;
  for (uint64_t step = announcement.first_step; !around_->IsOver(step); ++step) {
    if (!Exchange(group, epoch, step, announcement.step_try)) return;
    around_->OnStep(rank_, step);
  }
}

void RankLife::Pause() {
  const int64_t begin_us = now_us();
  const int64_t until_us = begin_us + around_->PauseOf(rank_);
  if (until_us - begin_us > around_->plan().compute_us) ledger_->Busy(rank_, begin_us, until_us);
  while (now_us() < until_us && process_.thread.SleepUntil(until_us)) {
  }
}

void RankLife::KeepEnded(std::unique_ptr<InFlight> one) {
  ended_.push_back(std::move(one));
  if (ended_.size() > kKeptOperations) ended_.pop_front();
}

// Runs the buckets of a try. Returns false if the group has failed, this rank leaves it, or the
// process is dead.
bool RankLife::Exchange(CollectiveGroup* group, uint64_t epoch, uint64_t step, uint64_t step_try) {
  const CollectivePlan& plan = around_->plan();
  Chance& chance = around_->world()->chance;
  std::vector<std::unique_ptr<InFlight>> all;
  const bool leaves = !around_->faults_over() && chance.Percent(plan.leave_percent);
  bool works = true;
  for (uint32_t bucket = 0; bucket < plan.buckets && works; ++bucket) {
    Pause();
    if (process_.thread.dead()) return false;
    if (chance.Percent(30)) group->Poll();
    auto one = std::make_unique<InFlight>();
    one->name = {step, step_try, bucket};
    one->bucket = BucketOf(plan, one->name);
    works = Begin(group, epoch, one.get());
    if (works) all.push_back(std::move(one));
  }
  if (leaves && works) {
    ledger_->statistics.given_up += all.size();
    given_up_ = std::move(all);
    return false;
  }
  // In any order.
  while (!all.empty()) {
    const size_t next = chance.Below(all.size());
    std::unique_ptr<InFlight> one = std::move(all[next]);
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(next));
    works = Finish(group, epoch, one.get()) && works;
    KeepEnded(std::move(one));
    if (process_.thread.dead()) return false;
  }
  return works;
}

bool RankLife::Begin(CollectiveGroup* group, uint64_t epoch, InFlight* one) {
  one->buffer = ContributionOf(epoch, one->name, rank_, one->bucket.elements);
  const absl::Status begun = group->Begin(
      {.name = one->name, .buffer = std::span(one->buffer), .part_ends = one->bucket.part_ends});
  if (!begun.ok() && !process_.thread.dead()) CheckFailure(epoch, one, begun);
  return begun.ok();
}

// Returns false if the group has failed or the process is dead.
bool RankLife::Finish(CollectiveGroup* group, uint64_t epoch, InFlight* one) {
  doing_ = fmt::format("epoch {}, waits for {}", epoch, one->name.ToString());
  const int64_t begin_us = now_us();
  const absl::Status status = group->Wait(one->name);
  if (process_.thread.dead()) return false;
  CheckTime("a wait", begin_us, kMostDeadlines * MicrosOf(around_->plan().deadline));
  if (status.ok()) CheckResult(epoch, *one);
  // Nobody may read it any more.
  std::fill(one->buffer.begin(), one->buffer.end(), -1.0F);
  if (!status.ok()) CheckFailure(epoch, one, status);
  return status.ok();
}

void RankLife::CheckResult(uint64_t epoch, const InFlight& one) {
  ++ledger_->statistics.operations;
  const auto expected = ExpectedOf(around_->plan(), one.bucket, epoch, one.name, rank_);
  const size_t rank = static_cast<size_t>(rank_);
  const std::vector<uint64_t>& ends = one.bucket.part_ends;
  for (uint64_t i = rank == 0 ? 0 : ends[rank - 1]; i < ends[rank]; ++i) {
    if (std::memcmp(&expected[i], &one.buffer[i], sizeof(float)) == 0) continue;
    return ledger_->Violate("rank {}, epoch {}, {}: element {} of {} is {}, not {}", rank_, epoch,
                            one.name.ToString(), i, one.buffer.size(), one.buffer[i], expected[i]);
  }
}

void RankLife::CheckFailure(uint64_t epoch, const InFlight* one, const absl::Status& status) {
  around_->world()->Trace("{}: {}", node_->name(), status.ToString());
  ledger_->statistics.late += one != nullptr && absl::IsDeadlineExceeded(status) ? 1 : 0;
  ledger_->statistics.lost += one != nullptr && absl::IsUnavailable(status) ? 1 : 0;
  FailureSeen seen;
  seen.by = rank_;
  seen.epoch = epoch;
  seen.name = one == nullptr ? nullptr : &one->name;
  seen.at_us = now_us();
  ledger_->CheckFailure(seen, status);
}

void RankLife::CheckTime(const char* call, int64_t since_us, int64_t most_us) {
  const int64_t taken = now_us() - since_us - ledger_->AwayIn(rank_, since_us, now_us());
  if (taken <= most_us) return;
  ledger_->Violate("rank {}: {} took {} ms", rank_, call, taken / 1000);
}

}  // namespace cohort::simulator

#include "worker/gradient_ring.h"

#include <algorithm>
#include <utility>

#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "common/collective/collective_group.h"
#include "proto/worker.pb.h"

namespace cohort {
namespace {

// The servers of the routes by rank: in the order of their numbers.
std::vector<v1::PsRoute> ServersByRank(const v1::Routes& routes) {
  std::vector<v1::PsRoute> servers(routes.servers().begin(), routes.servers().end());
  std::sort(servers.begin(), servers.end(),
            [](const v1::PsRoute& a, const v1::PsRoute& b) { return a.ps() < b.ps(); });
  return servers;
}

absl::StatusOr<int> RankOf(const std::vector<v1::PsRoute>& servers, uint64_t incarnation) {
  for (size_t i = 0; i < servers.size(); ++i) {
    if (servers[i].incarnation() == incarnation) return static_cast<int>(i);
  }
  return InvalidArgument("this worker owns no variables, so it has no part in a ring");
}

// The chief's tries contain its generation (OpenStep).
GroupId GroupOf(uint64_t timeline, uint64_t step_try) {
  return {.generation = step_try >> 32, .timeline = timeline, .epoch = step_try & UINT32_MAX};
}

}  // namespace

GradientRing::GradientRing(Options options) : options_(std::move(options)) {}
GradientRing::~GradientRing() = default;

void GradientRing::SetRoutes(std::shared_ptr<const v1::Routes> routes) {
  MutexLock lock(&mu_);
  routes_ = std::move(routes);
}

bool GradientRing::IsOf(const Step& step, const v1::Closure& closure) const {
  return step.timeline == closure.timeline() && step.place.step == closure.step().step() &&
         step.place.step_try == closure.step().step_try();
}

absl::Status GradientRing::Begin(const v1::Closure& closure, const Program& program,
                                 std::span<const PushItem> pushes) {
  if (summing_ > 0) Leave();  // the last closure of another step has failed
  if (!step_.has_value() || !IsOf(*step_, closure)) {
    COHORT_RETURN_IF_ERROR(BeginStep(closure, program));
  }
  const uint32_t index = closure.step().index();
  const auto& had = step_->indices;
  if (step_->program != closure.program() || had.size() == step_->closures ||
      std::find(had.begin(), had.end(), index) != had.end()) {
    return Aborted(
        "the sums of step {} have gradients of closure {} already, or of another program",
        closure.step().step(), closure.id());
  }
  step_->indices.push_back(index);
  closure_ = closure.id();
  pushes_ = pushes;
  in_run_ = true;
  status_ = absl::OkStatus();
  next_bucket_ = 0;
  missing_.clear();
  for (size_t bucket = 0; bucket < open_->size(); ++bucket) {
    missing_.push_back(open_->pushes(bucket).size());
  }
  return absl::OkStatus();
}

absl::Status GradientRing::BeginStep(const v1::Closure& closure, const Program& program) {
  step_.reset();
  std::shared_ptr<const v1::Routes> routes;
  {
    MutexLock lock(&mu_);
    routes = routes_;
  }
  if (routes == nullptr) return FailedPrecondition("no routes to parameter servers yet");
  if (routes->timeline() != closure.timeline()) {
    return Aborted("closure {} is of timeline {}, the job is on {}", closure.id(),
                   closure.timeline(), routes->timeline());
  }
  if (routes != buckets_routes_) buckets_.clear();
  buckets_routes_ = routes;
  std::unique_ptr<RingBuckets>& buckets = buckets_[closure.program()];
  if (buckets == nullptr) {
    const std::vector<v1::PsRoute> servers = ServersByRank(*routes);
    COHORT_ASSIGN_OR_RETURN(const int rank, RankOf(servers, options_.incarnation));
    std::vector<uint32_t> numbers;
    for (const v1::PsRoute& server : servers) numbers.push_back(server.ps());
    COHORT_ASSIGN_OR_RETURN(
        buckets, RingBuckets::Make(program, *routes, numbers, rank, options_.bucket_bytes));
    ranks_ = static_cast<int>(servers.size());
  }
  open_ = buckets.get();
  step_ = Step{.timeline = closure.timeline(),
               .place = StepMembership::Of(closure.step()),
               .program = closure.program(),
               .routes = std::move(routes),
               .indices = {},
               .closures = closure.ring_places()};
  return absl::OkStatus();
}

void GradientRing::OnPushReady(size_t push) {
  const int of = open_->bucket_of(push);
  if (of < 0) return;
  --missing_[static_cast<size_t>(of)];
  while (status_.ok() && next_bucket_ < missing_.size() && missing_[next_bucket_] == 0) {
    status_ = Use(next_bucket_++);
  }
  if (summing_ > 0) group_->Poll();
}

absl::Status GradientRing::Use(size_t bucket) {
  open_->Add(bucket, pushes_, /*first=*/step_->indices.size() == 1);
  return last() && ranks_ > 1 ? StartSum(bucket) : absl::OkStatus();
}

OperationName GradientRing::NameOf(size_t bucket) const {
  return {.step = step_->place.step,
          .step_try = step_->place.step_try,
          .bucket = static_cast<uint32_t>(bucket)};
}

absl::Status GradientRing::StartSum(size_t bucket) {
  COHORT_RETURN_IF_ERROR(EnterGroup());
  if (summing_ > 0) COHORT_CRASH_POINT("replica.ring.partial");
  COHORT_RETURN_IF_ERROR(group_->Begin({.name = NameOf(bucket),
                                        .buffer = open_->buffer(bucket),
                                        .part_ends = open_->part_ends(bucket)}));
  ++summing_;
  sums_.fetch_add(1, std::memory_order_relaxed);
  const bool early = in_run_ && std::any_of(missing_.begin(), missing_.end(),
                                            [](size_t pushes) { return pushes > 0; });
  if (early) early_sums_.fetch_add(1, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status GradientRing::EnterGroup() {
  const GroupId id = GroupOf(step_->timeline, step_->place.step_try);
  if (group_ != nullptr && group_id_ == id) return absl::OkStatus();
  Leave();
  const std::vector<v1::PsRoute> servers = ServersByRank(*step_->routes);
  CollectiveGroupOptions group;
  for (const v1::PsRoute& server : servers) {
    group.ranks.push_back({.index = static_cast<int>(server.ps()),
                           .address = server.address(),
                           .unix_socket = server.unix_socket(),
                           .host_id = server.host_id(),
                           .incarnation = server.incarnation()});
  }
  COHORT_ASSIGN_OR_RETURN(group.rank, RankOf(servers, options_.incarnation));
  group.group = id;
  group.security = options_.security;
  group.log = options_.log;
  group.start_deadline = options_.deadline;
  group.deadline = options_.deadline;
  if (options_.should_stop) {
    group.should_stop = [this] {
      turns_.fetch_add(1, std::memory_order_relaxed);
      return options_.should_stop(closure_);
    };
  }
  COHORT_CRASH_POINT("replica.ring.entering");
  COHORT_ASSIGN_OR_RETURN(group_, CollectiveGroup::Start(group, options_.service));
  COHORT_CRASH_POINT("replica.ring.entered");
  group_id_ = id;
  counted_ = {};
  if (options_.log != nullptr) {
    options_.log->Info("ring_entered", {{"rank", group.rank},
                                        {"ranks", group.ranks.size()},
                                        {"timeline", id.timeline},
                                        {"try", id.epoch}});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::span<const ShardSum>> GradientRing::Finish() {
  in_run_ = false;
  for (; status_.ok() && next_bucket_ < open_->size(); ++next_bucket_) status_ = Use(next_bucket_);
  const uint32_t begun = std::exchange(summing_, 0);
  for (uint32_t bucket = 0; bucket < begun; ++bucket) {
    const absl::Status summed = group_->Wait(NameOf(bucket));
    if (status_.ok()) status_ = summed;
  }
  CountBytes();
  if (!status_.ok()) {
    COHORT_CRASH_POINT("replica.ring.failed");
    step_.reset();
    Leave();
    return status_;
  }
  if (!last()) return std::span<const ShardSum>();
  if (ranks_ > 1) COHORT_CRASH_POINT("replica.ring.summed");
  return open_->own_sums();
}

void GradientRing::Leave() {
  if (group_ != nullptr && options_.log != nullptr) {
    const Counters all = counters();
    options_.log->Info("ring_left", {{"sums", all.sums},
                                     {"early_sums", all.early_sums},
                                     {"bytes_sent", all.bytes_sent},
                                     {"bytes_received", all.bytes_received}});
  }
  summing_ = 0;
  group_.reset();
  group_id_.reset();
}

void GradientRing::CountBytes() {
  if (group_ == nullptr) return;
  const CollectiveCounters now = group_->counters();
  bytes_sent_.fetch_add(now.bytes_sent - counted_.bytes_sent, std::memory_order_relaxed);
  bytes_received_.fetch_add(now.bytes_received - counted_.bytes_received,
                            std::memory_order_relaxed);
  counted_ = now;
}

GradientRing::Counters GradientRing::counters() const {
  return {.sums = sums_.load(std::memory_order_relaxed),
          .bytes_sent = bytes_sent_.load(std::memory_order_relaxed),
          .bytes_received = bytes_received_.load(std::memory_order_relaxed),
          .early_sums = early_sums_.load(std::memory_order_relaxed)};
}

}  // namespace cohort

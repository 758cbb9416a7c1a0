#include "common/exec/resident_access.h"

#include <algorithm>

#include "common/base/status.h"

namespace cohort {
namespace {

constexpr int64_t kIdleWaitUs = 1'000'000;

std::span<const uint8_t> BytesOf(const int64_t* keys, uint64_t count) {
  return {reinterpret_cast<const uint8_t*>(keys), count * sizeof(int64_t)};
}

// The plan would gather other rows, but values are in the memory of a device.
absl::Status CheckOrder(const PushBatch& push, const std::vector<VariableDecl>& variables) {
  for (const PushItem& item : push.items) {
    if (!item.sparse || std::ranges::is_sorted(item.keys)) continue;
    return InvalidArgument("the rows of '{}' are on a device, and their keys do not ascend",
                           variables[static_cast<size_t>(item.variable)].name);
  }
  return absl::OkStatus();
}

absl::Status NotHere(const ServerRoute& route, bool ended) {
  absl::Status status =
      ended ? Unavailable("ps:{} ({}) is unreachable: it has ended", route.ps, route.address)
            : Unavailable(
                  "ps:{} ({}) is unreachable: it is not in this process, but the variables lie on "
                  "a device of this one",
                  route.ps, route.address);
  SetFailure(&status, {.role = "ps",
                       .index = static_cast<int>(route.ps),
                       .incarnation = route.incarnation,
                       .retryable = true});
  return status;
}

}  // namespace

ResidentAccess::ResidentAccess(const Options& options, std::span<const VariableDecl> variables,
                               const DeviceParts& device)
    : options_(options), device_(device) {
  program_.variables.assign(variables.begin(), variables.end());
}

ResidentAccess::~ResidentAccess() {
  for (const auto& [ps, found] : servers_) {
    if (found.server != nullptr) found.server->Watch(this, nullptr);
  }
}

absl::Status ResidentAccess::Begin(const PushBatch* push, const PullBatch* pull) {
  COHORT_RETURN_IF_ERROR(options_.thread->Refresh(&program_));
  const ProgramRoutes& routes = *program_.routes;
  if (push != nullptr) {
    if (push->stamp.timeline != routes.timeline) {
      return Aborted("closure {} was pulled on timeline {}, the job is on {}", push->stamp.closure,
                     push->stamp.timeline, routes.timeline);
    }
    COHORT_RETURN_IF_ERROR(CheckOrder(*push, program_.variables));
  }
  COHORT_RETURN_IF_ERROR(plan_.Make(routes, push, pull));
  result_ = {};
  attempt_seen_ = 0;
  timeline_seen_ = false;
  waits_since_us_ = -1;
  request_.pull_step = pull != nullptr ? pull->step : 0;
  pull_lane_ = pull != nullptr ? pull->lane : 0;
  if (push != nullptr) {
    const PushStamp& stamp = push->stamp;
    request_.push = {.id = {stamp.closure, stamp.ordinal},
                     .attempt = stamp.attempt,
                     .place = stamp.place,
                     .timeline = stamp.timeline,
                     .weight = stamp.weight,
                     .step = stamp.step,
                     .iteration_offset = stamp.iteration_offset};
    push_lane_ = push->lane;
  }
  tablets_.resize(routes.tablets.size());
  for (size_t t = 0; t < tablets_.size(); ++t) {
    tablets_[t].push_done = push == nullptr;
    tablets_[t].pull_done = pull == nullptr;
    tablets_[t].entries.clear();
    if (push != nullptr) MakeEntries(t);
  }
  status_ = Ask();
  return absl::OkStatus();
}

// Every tablet of a program that pushes gets an entry, so that its set of applied ids stays dense.
void ResidentAccess::MakeEntries(size_t tablet) {
  std::vector<PushEntryView>& entries = tablets_[tablet].entries;
  for (int i = plan_.first_push(static_cast<int>(tablet)); i >= 0; i = plan_.push(i).next) {
    const PushPiece& piece = plan_.push(i);
    PushEntryView entry{
        .shard = piece.shard, .kind = piece.kind, .summed_elsewhere = piece.summed_elsewhere};
    if (piece.kind != PushKind::kRecordOnly) {
      entry.sparse = piece.sparse;
      entry.count = piece.count;
      entry.momentum = piece.momentum;
      if (piece.sparse) entry.keys = BytesOf(piece.keys, piece.count);
      entry.values = {piece.values, piece.count * piece.unit_bytes};
    }
    entries.push_back(entry);
  }
  if (entries.empty()) entries.push_back({.shard = program_.routes->tablets[tablet].shard});
}

absl::StatusOr<ExchangeResult> ResidentAccess::Finish() {
  while (status_.ok() && !IsDone()) {
    options_.thread->WaitForInput(options_.thread->NowUs() + patience_us_);
    status_ = Ask();
  }
  COHORT_RETURN_IF_ERROR(status_);
  for (size_t t = 0; t < tablets_.size() && timeline_seen_; ++t) {
    versions_[{pull_lane_, program_.routes->tablets[t].tablet}] = tablets_[t].version;
  }
  return result_;
}

bool ResidentAccess::IsDone() const {
  return std::ranges::all_of(tablets_, [](const Tablet& t) { return t.push_done && t.pull_done; });
}

// Takes what other threads have set.
absl::Status ResidentAccess::TakeInput() {
  if (options_.thread->TakeInterrupt()) return Cancelled("interrupted");
  const std::shared_ptr<const ProgramRoutes> before = program_.routes;
  COHORT_RETURN_IF_ERROR(options_.thread->Refresh(&program_));
  const ProgramRoutes& now = *program_.routes;
  if (now.timeline == before->timeline && now.SameShards(*before)) return absl::OkStatus();
  return Aborted("the job went from timeline {} to {}", before->timeline, now.timeline);
}

absl::Status ResidentAccess::Ask() {
  COHORT_RETURN_IF_ERROR(TakeInput());
  const ProgramRoutes& routes = *program_.routes;
  waits_for_ = absl::OkStatus();
  request_.generation = options_.thread->generation();
  request_.settled_watermark = options_.thread->watermark();
  for (size_t s = 0; s < routes.servers.size(); ++s) {
    if (!MakeRequest(s)) continue;
    LocalServer* const server = Find(routes.servers[s]);
    answer_.Clear();
    if (server == nullptr || !server->Handle(request_, device_, &answer_)) {
      if (server == nullptr || server->ended()) {
        waits_for_ = NotHere(routes.servers[s], server != nullptr);
      }
      continue;
    }
    size_t next = 0;
    for (const v1::PushResult& result : answer_.pushes()) {
      COHORT_RETURN_IF_ERROR(TakePush(asked_[next++], result));
    }
    for (const v1::PullResult& result : answer_.pulls()) {
      COHORT_RETURN_IF_ERROR(TakePull(asked_[next++], result));
    }
  }
  if (waits_for_.ok()) {
    waits_since_us_ = -1;
    patience_us_ = kIdleWaitUs;
    return absl::OkStatus();
  }
  const int64_t now_us = options_.thread->NowUs();
  const ExchangeOptions& limits = options_.exchange;
  patience_us_ = waits_since_us_ < 0 ? limits.backoff_min_us
                                     : std::min(2 * patience_us_, limits.backoff_max_us);
  if (waits_since_us_ < 0) waits_since_us_ = now_us;
  const int64_t most_us =
      absl::IsUnavailable(waits_for_) ? limits.unreachable_after_us : limits.hold_timeout_us;
  return now_us - waits_since_us_ < most_us ? absl::OkStatus() : waits_for_;
}

// Returns false if the server has nothing to do.
bool ResidentAccess::MakeRequest(size_t server) {
  const ProgramRoutes& routes = *program_.routes;
  request_.push_sections.clear();
  request_.pull_sections.clear();
  asked_.clear();
  const auto is_its = [&](size_t t) {
    return routes.tablets[t].server == static_cast<int>(server);
  };
  for (size_t t = 0; t < tablets_.size(); ++t) {
    if (tablets_[t].push_done || !is_its(t)) continue;
    const TabletRoute& route = routes.tablets[t];
    const auto pulled = versions_.find({push_lane_, route.tablet});
    request_.push_sections.push_back(
        {.tablet = route.tablet,
         .term = route.term,
         .pulled_version = pulled == versions_.end() ? 0 : pulled->second,
         .entries = tablets_[t].entries});
    asked_.push_back(t);
  }
  request_.has_push = !asked_.empty();
  for (size_t t = 0; t < tablets_.size(); ++t) {
    if (tablets_[t].pull_done || !is_its(t)) continue;
    request_.pull_sections.push_back(
        {.tablet = routes.tablets[t].tablet, .term = routes.tablets[t].term, .entries = {}});
    asked_.push_back(t);
  }
  return !asked_.empty();
}

LocalServer* ResidentAccess::Find(const ServerRoute& route) {
  Server& found = servers_[route.ps];
  if (found.server == nullptr || found.incarnation != route.incarnation) {
    if (found.server != nullptr) found.server->Watch(this, nullptr);
    found = {route.incarnation, options_.servers->Find(route.incarnation)};
    if (found.server != nullptr) {
      found.server->Watch(this, [thread = options_.thread] { thread->WakeUp(); });
    }
  }
  return found.server.get();
}

absl::Status ResidentAccess::TakePush(size_t tablet, const v1::PushResult& result) {
  if (CountPush(result, request_.push.attempt, &attempt_seen_, &result_.push)) {
    tablets_[tablet].push_done = true;
    return absl::OkStatus();
  }
  if (result.status() != v1::INVALID) return TakeRefusal(result);
  return InvalidArgument("push of closure {} to tablet {}: {}", request_.push.id.closure,
                         result.tablet(), result.message());
}

absl::Status ResidentAccess::TakePull(size_t tablet, const v1::PullResult& result) {
  if (result.status() == v1::LATER) return absl::OkStatus();
  if (result.status() == v1::DROPPED) {
    return Aborted("pull of tablet {}: step {} is closed or was abandoned", result.tablet(),
                   request_.pull_step);
  }
  if (result.status() == v1::INVALID) {
    return InvalidArgument("pull of tablet {}: {}", result.tablet(), result.message());
  }
  if (result.status() != v1::APPLIED) return TakeRefusal(result);
  if (timeline_seen_ && result.timeline() != result_.pulled_timeline) {
    return Aborted("tablet {} is on timeline {}, another on {}", result.tablet(), result.timeline(),
                   result_.pulled_timeline);
  }
  timeline_seen_ = true;
  result_.pulled_timeline = result.timeline();
  tablets_[tablet].version = result.version();
  tablets_[tablet].pull_done = true;
  return absl::OkStatus();
}

// The tablet is fenced, or is not there.
template <typename Result>
absl::Status ResidentAccess::TakeRefusal(const Result& result) {
  const uint64_t timeline = program_.routes->timeline;
  if (result.status() == v1::FENCED && result.timeline() > timeline) {
    return Aborted("tablet {} is on timeline {}, the closure's is {}: the job was rolled back",
                   result.tablet(), result.timeline(), timeline);
  }
  if (result.status() == v1::MOVED) {
    waits_for_ = Aborted("tablet {} is not served there, and no new route came", result.tablet());
    return absl::OkStatus();
  }
  if (result.status() != v1::FENCED) {
    return Internal("tablet {} answers with status {}", result.tablet(),
                    static_cast<int>(result.status()));
  }
  waits_for_ = Aborted(
      "tablet {} of timeline {}, term {} and generation {} refuses generation {}, and no new route "
      "came",
      result.tablet(), result.timeline(), result.term(), answer_.generation(), request_.generation);
  return absl::OkStatus();
}

}  // namespace cohort

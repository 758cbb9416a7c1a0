#include "chief/job/elastic_replicas.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <system_error>
#include <utility>

#include "chief/job/job_walk.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/cluster/replica_cluster.h"

namespace cohort {
namespace {

// A run that waited for a server without success, or whose cluster did not start.
bool LacksReplica(const ElasticReplicas::End& end, bool repeats_start) {
  if (absl::IsCancelled(end.status)) return false;
  if (end.in_start) return repeats_start;
  const auto info = GetFailure(end.status);
  return absl::IsDeadlineExceeded(end.status) && info.has_value() && info->role == "ps";
}

std::set<int> Without(const std::set<int>& all, const std::set<int>& removed) {
  std::set<int> left;
  std::ranges::set_difference(all, removed, std::inserter(left, left.end()));
  return left;
}

int NumberAt(const std::set<int>& used, int index) { return *std::next(used.begin(), index); }

}  // namespace

absl::StatusOr<std::unique_ptr<ElasticReplicas>> ElasticReplicas::Start(
    Options options, const ReplicaWatch::Options& watch_options) {
  COHORT_ASSIGN_OR_RETURN(auto started, ReplicaWatch::Start(options.all, watch_options));
  const std::shared_ptr<ReplicaWatch> watch = std::move(started);
  options.answers = [watch] { return watch->answers(); };
  options.leaving = [watch] { return watch->leaving(); };
  options.ask = [watch] { watch->Ask(); };
  options.roll_call = [watch](const std::set<int>& replicas, Duration limit) {
    return watch->RollCall(replicas, limit);
  };
  return std::make_unique<ElasticReplicas>(std::move(options));
}

ElasticReplicas::ElasticReplicas(Options options) : options_(std::move(options)) {
  for (const auto& [number, address] : options_.all.tasks(Role::kWorker)) {
    used_.insert(number);
    rules_.emplace(number, ReturnRule(options_.clock->Now()));
  }
}

ClusterSpec ElasticReplicas::cluster() const {
  ClusterSpec used;
  for (const int number : used_) {
    used.Set({Role::kWorker, used.count(Role::kWorker)},
             *options_.all.Find({Role::kWorker, number}));
  }
  return WithOwners(std::move(used));
}

std::string ElasticReplicas::Recall(const std::string& directory) {
  restarted_ = true;
  const auto noted = ReadFile(JoinPath(directory, kFile), /*max_bytes=*/1 << 20);
  if (!noted.ok()) return "";
  std::istringstream lines(*noted);
  std::set<std::string> addresses;
  for (std::string line; std::getline(lines, line);) addresses.insert(line);
  std::set<int> left;
  for (const auto& [number, address] : options_.all.tasks(Role::kWorker)) {
    if (addresses.contains(address.ToString())) left.insert(number);
  }
  if (left.empty() || left == used_) return "";
  const std::string line =
      fmt::format("continuing on the {} of {} replicas that were left", left.size(), used_.size());
  Use(left);
  return line;
}

void ElasticReplicas::Note(const std::string& directory) const {
  const std::string path = JoinPath(directory, kFile);
  absl::Status noted;
  if (static_cast<int>(used_.size()) == options_.all.count(Role::kWorker)) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  } else {
    std::string text;
    for (const int number : used_) {
      text += options_.all.Find({Role::kWorker, number})->ToString() + "\n";
    }
    noted = WriteFileAtomically(path, text);
  }
  if (!noted.ok()) options_.log->Failure(LogLevel::kWarning, "replicas_left_not_noted", noted);
}

void ElasticReplicas::OnStarted() {
  const TimePoint now = options_.clock->Now();
  const Duration cost = now - change_began_.value_or(now);
  next_due_ = now + kTrainingPerChange * cost;
  change_began_.reset();
  joined_.clear();
  options_.ask();  // so that replicas know from now on that they are watched
}

bool ElasticReplicas::GivesUp(int index, bool is_back) {
  if (index == 0) return false;
  const TimePoint now = options_.clock->Now();
  ReturnRule& rule = rules_.at(NumberAt(used_, index));
  if (!is_back || !rule.IsFirstLoss(now)) return true;
  rule.OnLost(now);
  rule.OnUsed(now);
  return false;
}

bool ElasticReplicas::IsDue() {
  const TimePoint now = options_.clock->Now();
  const ReplicaWatch::Answers answers = options_.answers();
  for (auto& [number, rule] : rules_) {
    if (used_.contains(number)) continue;
    const auto answer = answers.find(number);
    rule.OnAnswer(answer == answers.end() ? std::nullopt : std::optional(answer->second), now);
  }
  const bool leave = now >= next_leave_ && Leave();
  if (!leave && (now < next_due_ || Back().empty())) return false;
  next_leave_ = now + kRetryLeave;
  next_due_ = now + kRetry;
  change_began_ = now;
  return true;
}

bool ElasticReplicas::Leave() const {
  const std::set<int> leaving = options_.leaving();
  return std::ranges::any_of(leaving, [this](int number) { return used_.contains(number); });
}

std::set<int> ElasticReplicas::Back() const {
  std::set<int> back;
  for (const auto& [number, rule] : rules_) {
    if (!used_.contains(number) && rule.IsReady(options_.clock->Now())) back.insert(number);
  }
  return back;
}

std::set<int> ElasticReplicas::Wanted(const End& end) const {
  std::set<int> wanted = used_;
  if (JobWalk::EndedForReplicas(end.status)) {
    wanted.merge(Back());
    return wanted;
  }
  if (JobWalk::NamesLostServer(end.status)) {
    const int lost = GetFailure(end.status)->index;
    if (lost > 0 && lost < static_cast<int>(used_.size())) {
      wanted.erase(NumberAt(used_, lost));
      return wanted;
    }
  }
  return LacksReplica(end, repeats_start()) ? wanted : std::set<int>();
}

std::optional<std::string> ElasticReplicas::Change(const End& end) {
  const std::set<int> wanted = Wanted(end);
  if (wanted.empty()) return std::nullopt;
  if (!JobWalk::EndedForReplicas(end.status)) change_began_ = options_.clock->Now();
  const ReplicaWatch::Answers there = options_.roll_call(wanted, kRollCall);
  std::set<int> next = {0};
  for (const auto& [number, process] : there) next.insert(number);
  if (!JobWalk::EndedForReplicas(end.status) && next == used_) {
    // All answer, so one that joined is the reason.
    if (joined_.empty()) return std::nullopt;
    for (const int number : joined_) rules_.at(number).OnRefused(there.at(number));
    next = Without(next, joined_);
  }
  for (auto& [number, rule] : rules_) {
    const bool called = wanted.contains(number) || used_.contains(number);
    if (called && !next.contains(number)) rule.OnLost(options_.clock->Now());
  }
  std::string line = Describe(end, wanted, next);
  Use(next);
  options_.log->Info("replicas_changed", {{"why", std::string(end.status.message())},
                                          {"used", Names(used_)},
                                          {"away", Names(Away())}});
  return line;
}

std::set<int> ElasticReplicas::Away() const {
  std::set<int> away;
  for (const auto& [number, rule] : rules_) {
    if (!used_.contains(number)) away.insert(number);
  }
  return away;
}

void ElasticReplicas::Use(const std::set<int>& next) {
  for (const int number : Without(next, used_)) {
    rules_.at(number).OnUsed(options_.clock->Now());
    joined_.insert(number);
  }
  for (const int number : Without(joined_, next)) joined_.erase(number);
  used_ = next;
  changed_ = true;
}

std::string ElasticReplicas::Names(const std::set<int>& replicas) const {
  std::string text;
  for (const int number : replicas) {
    text += fmt::format("{}worker:{} ({})", text.empty() ? "" : ", ", number,
                        options_.all.Find({Role::kWorker, number})->ToString());
  }
  return text;
}

std::string ElasticReplicas::Describe(const End& end, const std::set<int>& wanted,
                                      const std::set<int>& next) const {
  const std::set<int> gone = Without(used_, next);
  const std::set<int> back = Without(next, used_);
  const std::set<int> gone_again = Without(Without(wanted, used_), next);
  std::string text;
  const auto say = [&text](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  const bool left = JobWalk::EndedForReplicas(end.status);
  const auto is = [](const std::set<int>& replicas) { return replicas.size() == 1 ? "is" : "are"; };
  if (!left) say(std::string(end.status.message()));
  if (!back.empty()) say(fmt::format("{} {} back", Names(back), is(back)));
  if (!gone_again.empty()) say(fmt::format("{} {} lost again", Names(gone_again), is(gone_again)));
  std::string without;
  if (left && !gone.empty()) {
    say(fmt::format("{} {} gone", Names(gone), is(gone)));
  } else if (!gone.empty()) {
    without = fmt::format(" without {},", Names(gone));
  }
  say(fmt::format("continuing{} on {} replica{}", without, next.size(),
                  next.size() == 1 ? "" : "s"));
  return text;
}

}  // namespace cohort

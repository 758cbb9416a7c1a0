#ifndef COHORT_CHIEF_JOB_ELASTIC_REPLICAS_H_
#define COHORT_CHIEF_JOB_ELASTIC_REPLICAS_H_

#include <absl/status/statusor.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "chief/job/replica_watch.h"
#include "chief/job/return_rule.h"
#include "common/base/clock.h"
#include "common/cluster/cluster_spec.h"

namespace cohort {

class Logger;

// The replicas of an elastic job (docs/design/replicas.md): which of them the job uses, which are
// away, and what follows when a run has ended.
//
//              (1) Change: lost, silent or refused, or after IsDue: leaving
//     used ─────────────────────────────────────────► away
//      ▲                                               │
//      └───────────────────────────────────────────────┘
//              (2) Change, after IsDue: back
//
// The first replica is always used: its task runs the chief. For the thread that runs the job.
class ElasticReplicas {
 public:
  struct Options {
    ClusterSpec all;  // as workers 0, 1, ...
    const Clock* clock = nullptr;
    Logger* log = nullptr;
    // Functions of a ReplicaWatch, which Start sets. Tests replace the network.
    std::function<ReplicaWatch::Answers()> answers;
    std::function<std::set<int>()> leaving;
    std::function<void()> ask;
    std::function<ReplicaWatch::Answers(const std::set<int>&, Duration)> roll_call;
  };
  // How a run has ended.
  struct End {
    absl::Status status;
    bool in_start = false;  // the cluster did not have its variables yet
  };

  // Watches the replicas over the network. Errors: those of ReplicaWatch.
  static absl::StatusOr<std::unique_ptr<ElasticReplicas>> Start(Options options,
                                                                const ReplicaWatch::Options& watch);
  explicit ElasticReplicas(Options options);

  // The replicas that the job uses, as workers and owners 0, 1, ...
  ClusterSpec cluster() const;
  // True if the cluster is not that of TF_CONFIG, or was not at some time: its tasks have numbers
  // that are not theirs.
  bool changed() const { return changed_; }
  // True if a run that does not start is repeated with those that answer. A job that a user starts
  // waits for all.
  bool repeats_start() const { return changed_ || restarted_; }
  // True if the next run begins with replicas that the run before did not use.
  bool has_joined() const { return !joined_.empty(); }

  // In the checkpoint directory: the addresses of the replicas in use, one per line. The
  // job deletes it when it uses all.
  static constexpr char kFile[] = "replicas_left";
  // A supervisor has restarted this chief: uses the replicas that the former one has noted. Returns
  // the line for the console; "": all.
  std::string Recall(const std::string& directory);
  // Notes the replicas in use, for a chief that a supervisor restarts. It logs a failure.
  void Note(const std::string& directory) const;

  // The run has variables, and trains.
  void OnStarted();
  // For JobWalk. The replica with this number in the cluster is lost, or a new process of it is
  // there already (`is_back`). Returns true if the job continues without it.
  bool GivesUp(int index, bool is_back);
  // For JobWalk. Returns true if the run should end now, because replicas are back or leave. If it
  // does not end, the next time is kRetry later, or kRetryLeave.
  bool IsDue();

  // Chooses the replicas of the next run. Returns the line for the console; nullopt: there is no
  // next run, and the job ends with the status. Waits up to kRollCall.
  std::optional<std::string> Change(const End& end);

 private:
  static constexpr Duration kRollCall = std::chrono::seconds(5);
  static constexpr Duration kRetry = std::chrono::seconds(30);
  static constexpr Duration kRetryLeave = std::chrono::seconds(2);  // machines go after seconds
  // A run trains for at least this multiple of what the change before it has cost.
  static constexpr int kTrainingPerChange = 4;

  // The replicas that the next run would use if all of them answer; empty: there is no next run.
  std::set<int> Wanted(const End& end) const;
  std::set<int> Away() const;
  bool Leave() const;          // a replica in use wants to
  std::set<int> Back() const;  // those that are away and may come back now
  void Use(const std::set<int>& next);
  std::string Names(const std::set<int>& replicas) const;
  // The line for the console. `wanted`: those that were called.
  std::string Describe(const End& end, const std::set<int>& wanted,
                       const std::set<int>& next) const;

  const Options options_;
  std::set<int> used_;    // by number in TF_CONFIG
  std::set<int> joined_;  // those of used_ that were away before, until OnStarted
  std::map<int, ReturnRule> rules_;
  bool changed_ = false;
  bool restarted_ = false;
  std::optional<TimePoint> change_began_;  // until OnStarted
  TimePoint next_due_;
  TimePoint next_leave_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_ELASTIC_REPLICAS_H_

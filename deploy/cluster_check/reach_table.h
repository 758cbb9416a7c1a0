#ifndef COHORT_DEPLOY_CLUSTER_CHECK_REACH_TABLE_H_
#define COHORT_DEPLOY_CLUSTER_CHECK_REACH_TABLE_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/cluster/cluster_spec.h"
#include "deploy/cluster_check/tcp_probe.h"
#include "proto/cluster_check.pb.h"

namespace cohort {

// Which tasks of a cluster reach which others: this task's own row, and those that other tasks
// report. Every task of TF_CONFIG with an address is tried, except for evaluators, which nobody
// dials. One thread at a time.
class ReachTable {
 public:
  // `own`: the row of this task, without peers. A chief without an address only dials.
  ReachTable(const ClusterSpec& cluster, Task self, v1::CheckedTask own);

  // The tasks that this one tries.
  const std::vector<Task>& peers() const { return peers_; }
  const Address& address(Task task) const { return addresses_.at(task); }

  // Records an attempt of this task. A task that was reached once counts as reached: it may have
  // ended, because it knew all.
  void Record(v1::CheckedPeer peer);
  // Takes the newer rows of another task's report.
  void Merge(const v1::CheckReport& report);
  v1::CheckReport Report() const;

  // True if every task has reported that it reaches every other one. From then on Report
  // contains that.
  bool AllReached();
  // True if all other tasks know the same, or have ended: this one may end.
  bool AllComplete() const;

  // True if a chief without an address may still report. It dials only, so no other task notices that
  // it is missing. Parameter servers have such a chief.
  bool AwaitsChief() const;

  // The tasks that have not reported, or that one of the others cannot reach: "worker:1 (host:2222), ps:0
  // (host:2223)". "" if there is none.
  std::string Waiting() const;
  // The table, with a line for each pair that does not work.
  std::string Text() const;

 private:
  using Row = std::map<Task, v1::CheckedPeer>;

  v1::CheckedTask& own();
  // The row of a task; null if it has not reported.
  const v1::CheckedTask* Find(Task task) const;
  // What a task has found out about another one.
  v1::CheckedPeer Pair(Task from, Task to) const;
  // The tasks with a row in the table.
  std::vector<Task> Sources() const;
  std::string Name(Task task) const;
  std::string Problem(Task from, Task to, const v1::CheckedPeer& pair) const;

  const Task self_;
  std::map<Task, Address> addresses_;  // the tasks that are tried
  std::vector<Task> peers_;
  std::map<Task, v1::CheckedTask> rows_;
  std::set<Task> ended_;  // reached once, and then no longer
};

Task TaskOf(const v1::TaskId& id);
v1::TaskId TaskIdOf(Task task);

}  // namespace cohort

#endif  // COHORT_DEPLOY_CLUSTER_CHECK_REACH_TABLE_H_

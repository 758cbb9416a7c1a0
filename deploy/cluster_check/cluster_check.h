#ifndef COHORT_DEPLOY_CLUSTER_CHECK_CLUSTER_CHECK_H_
#define COHORT_DEPLOY_CLUSTER_CHECK_CLUSTER_CHECK_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/mutex.h"
#include "common/cluster/security.h"
#include "common/cluster/tf_config.h"
#include "common/rpc/stream/stream_server.h"
#include "deploy/cluster_check/cluster_check_flags.h"
#include "deploy/cluster_check/reach_table.h"

namespace cohort {

// One task's part of `cohort cluster-check`: it listens where the task would, tries the addresses of
// all other tasks, and exchanges reports with those that it reaches. So each task learns of all
// pairs, also of a pair between two others.
//
//   peer's thread    TCP ─► Exchange ─► unix socket, on the same host ─► pause ─► again
//   server's thread  Exchange: takes the report of another task, and answers with this one's
class ClusterCheck {
 public:
  // Listens when this returns. `runtime_dir`: $XDG_RUNTIME_DIR, or null. Errors: exit 78 if the task
  // is an evaluator or has no address where it needs one; those of StreamServer.
  static absl::StatusOr<std::unique_ptr<ClusterCheck>> Start(const ClusterCheckFlags& flags,
                                                             const TfConfig& config,
                                                             const char* runtime_dir);
  ~ClusterCheck();

  // Returns when every task reaches every other one and all know it, or after `limit`. `report` gets
  // a line every few seconds that names the tasks that are missing. Returns true if all pairs work.
  bool Run(std::chrono::milliseconds limit, const std::function<void(std::string_view)>& report);
  // The table of pairs, and what does not work.
  std::string Text() const;

 private:
  class Served;
  class Dialed;

  ClusterCheck(Task self, const ClusterSpec& cluster, std::shared_ptr<const Security> security,
               ReachTable table)
      : self_(self), cluster_(cluster), security_(std::move(security)), table_(std::move(table)) {}

  absl::Status Listen(const ClusterCheckFlags& flags, const TfConfig& config,
                      const std::string& unix_socket);
  // Tries a peer again and again until Run ends.
  void TryPeer(Task peer);
  // Tries a peer once: everything that this task can find out about it.
  v1::CheckedPeer Try(Task peer);
  // Exchanges reports with the program at an address. `answer`: what it has sent.
  Reach Exchange(Task peer, const std::string& address, v1::CheckReport* answer);
  v1::CheckReport Report() const;
  // Takes the report that a client has sent. Error: also PermissionDenied, if the certificate is that
  // of another task.
  absl::Status TakeFrom(const Stream& stream, const v1::CheckReport& report);
  // Takes a report of another task. Error: FailedPrecondition if that has another major version.
  absl::Status Take(const v1::CheckReport& report);

  const Task self_;
  const ClusterSpec cluster_;
  const std::shared_ptr<const Security> security_;
  std::string host_id_;
  mutable Mutex mu_;
  CondVar changed_;  // the table
  CondVar stopped_;  // Run ends
  ReachTable table_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::unique_ptr<StreamServer> server_;  // ends first
};

}  // namespace cohort

#endif  // COHORT_DEPLOY_CLUSTER_CHECK_CLUSTER_CHECK_H_

#ifndef COHORT_CHIEF_API_JOIN_SERVICE_H_
#define COHORT_CHIEF_API_JOIN_SERVICE_H_

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>

#include "common/base/log.h"
#include "common/cluster/cluster_spec.h"
#include "common/cluster/security.h"
#include "common/rpc/stream/stream_server.h"
#include "proto/chief.pb.h"

namespace cohort {

// Serves proto/chief.proto: the port at which tasks ask to join the cluster of a running chief.
class JoinService {
 public:
  struct Options {
    std::string listen;  // "host:port"
    std::shared_ptr<const Security> security = Security::LoopbackOnly();
    Logger* log = nullptr;
    // Makes the task at `address` a member, and returns what it is. May wait for the journal.
    // Called on the thread of the service. Errors: those that the asking task gets.
    std::function<absl::StatusOr<Task>(Role role, const std::string& address)> join;
    // The workers and servers of the cluster.
    std::function<ClusterSpec()> peers;
  };
  // Errors: those of StreamServer::Start.
  static absl::StatusOr<std::unique_ptr<JoinService>> Start(Options options);

 private:
  explicit JoinService(Options options) : options_(std::move(options)) {}
  v1::JoinAnswer Answer(const v1::JoinRequest& request, const Stream& stream) const;

  class Handler;
  const Options options_;
  std::unique_ptr<StreamServer> server_;  // ends before the rest
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_JOIN_SERVICE_H_

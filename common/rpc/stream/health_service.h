#ifndef COHORT_COMMON_RPC_STREAM_HEALTH_SERVICE_H_
#define COHORT_COMMON_RPC_STREAM_HEALTH_SERVICE_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/rpc/stream/stream.h"

namespace cohort {

// gRPC's health protocol (grpc.health.v1, the GRPC Health Checking Protocol: Check and Watch) on
// the server's own streams. gRPC's default service is not used because its callback API has threads
// that poll beside the completion queues. Every event of the data path would then wake two threads.
//
// Thread-safe. Must outlive its streams.
class HealthService {
 public:
  // Reports `services` and "" (the server as a whole).
  explicit HealthService(const std::vector<std::string>& services);

  // Sets the answer from now on and notifies the watchers.
  void SetServing(bool serving);

  // The handlers by method: .../Check and .../Watch.
  std::map<std::string, StreamHandlerFactory> Methods();

 private:
  class Handler;

  // HealthCheckResponse.ServingStatus.
  enum Status : uint8_t { kServing = 1, kNotServing = 2, kServiceUnknown = 3 };

  Status StatusLocked(const std::string& service) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::set<std::string> services_;

  Mutex mu_;
  bool serving_ ABSL_GUARDED_BY(mu_) = false;
  std::map<Handler*, std::pair<std::shared_ptr<Stream>, std::string>> watchers_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_HEALTH_SERVICE_H_

#ifndef COHORT_PS_SERVER_PARAMETER_SERVER_H_
#define COHORT_PS_SERVER_PARAMETER_SERVER_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/serial_thread.h"
#include "common/cluster/task_run.h"
#include "common/tablet/apply_log.h"
#include "common/tablet/apply_pool.h"
#include "common/tablet/checkpoint_store.h"
#include "ps_server/ps_core.h"
#include "ps_server/ps_service.h"

namespace cohort {

class AdminServer;
class StreamServer;
struct PsFlags;
struct RoleContext;

// A parameter server as a whole: cohort-ps has one, an in-process cluster has several.
class ParameterServer : public ServingTask {
 public:
  struct Options {
    std::vector<std::string> listen;  // "host:port", "unix:/path"
    std::string admin_address;        // "": no admin port
    bool allow_insecure = false;
    int threads = 1;
    bool own_core = false;  // TransportOptions::SetOwnCore
    uint32_t index = 0;
    uint64_t incarnation = 0;
    std::string host_id;
    std::string unix_socket;    // the path among `listen`, for the chief to hand on; "": none
    std::string apply_log;      // file; "": none
    std::string chief_address;  // to be named while it is waited for; may be ""
    Duration chief_timeout = std::chrono::seconds(10);
    Duration chief_wait = std::chrono::seconds(300);
    // For what is under way on the threads that wait for storage, once they are to stop.
    Duration stop_wait = std::chrono::seconds(5);
    Logger* log = nullptr;          // outlives the server
    std::function<void()> on_done;  // the chief has ended the job; on a thread of the server
  };
  // Serves when it returns. Errors: those of StreamServer, AdminServer and ApplyLog.
  static absl::StatusOr<std::unique_ptr<ParameterServer>> Start(Options options);
  // Ends at once, as a kill would for its peers.
  ~ParameterServer() override;

  int port() const;
  int admin_port() const;

  // Says whom it waits for. Errors: DeadlineExceeded when no chief has been there for chief_wait.
  absl::Status Tick() override;
  std::optional<TaskEnd> end() const override;
  // Lets snapshots under way be written for at most `grace`, drops them, closes all streams with
  // `why` (OK: the job is done), stops. Idempotent. Error: DeadlineExceeded where the storage does
  // not answer in stop_wait.
  absl::Status Shutdown(const absl::Status& why, std::chrono::milliseconds grace) override;

  PsCore* core() { return core_.get(); }
  const CodecCounters& codec_counters() const { return service_.codec_counters(); }
  const MetricsRegistry& metrics() const { return registry_; }

 private:
  explicit ParameterServer(Options options);
  PsCore::Options CoreOptions();
  absl::Status Listen();

  // In the order in which they depend on each other.
  const Options options_;
  RealClock clock_;
  MetricsRegistry registry_;
  std::unique_ptr<ApplyLog> apply_log_;  // may be null
  CheckpointStore store_;                // snapshot files
  PsService service_;                    // streams to the core and back
  mutable Mutex mu_;
  std::optional<TaskEnd> end_ ABSL_GUARDED_BY(mu_);
  ApplyPool apply_pool_;          // helps with large applies
  std::unique_ptr<PsCore> core_;  // the protocol
  // Makes tablets and writes snapshots, so that no completion queue waits for a disk.
  SerialThread background_{"background"};
  std::unique_ptr<StreamServer> server_;
  std::unique_ptr<AdminServer> admin_;  // may be null
  WaitList waiting_;                    // for the chief; of the thread that ticks
};

// The options of a task as flags and TF_CONFIG say.
// `runtime_dir`: $XDG_RUNTIME_DIR, or nullptr. Where no directory for its socket can be had that no
// flag named, says so in the log: workers of this host come over TCP then.
ParameterServer::Options MakeServerOptions(const PsFlags& flags, const RoleContext& context,
                                           const char* runtime_dir);

}  // namespace cohort

#endif  // COHORT_PS_SERVER_PARAMETER_SERVER_H_

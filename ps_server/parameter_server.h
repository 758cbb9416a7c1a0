#ifndef COHORT_PS_SERVER_PARAMETER_SERVER_H_
#define COHORT_PS_SERVER_PARAMETER_SERVER_H_

#include <absl/status/statusor.h>

#include <atomic>
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
#include "common/base/thread_pool.h"
#include "common/cluster/security.h"
#include "common/cluster/task_run.h"
#include "common/exchange/local_server.h"
#include "common/tablet/apply_log.h"
#include "common/tablet/checkpoint_store.h"
#include "ps_server/local_requests.h"
#include "ps_server/ps_core.h"
#include "ps_server/ps_service.h"

namespace cohort {

class AdminServer;
struct PsFlags;
struct RoleContext;

// A parameter server as a whole: cohort-ps has one, an in-process cluster has several.
class ParameterServer : public ServingTask {
 public:
  struct Options {
    std::vector<std::string>
        listen;                 // "host:port", "unix:/path"; empty: another server shares its own
    std::string admin_address;  // "": no admin port
    std::shared_ptr<const Security> security = Security::LoopbackOnly();
    int threads = 1;
    uint32_t index = 0;
    uint64_t incarnation = 0;
    std::string host_id;
    std::string unix_socket;    // the path in `listen` that the chief reports to workers; "": none
    std::string apply_log;      // file; "": none
    std::string address;        // the one in TF_CONFIG that the chief dials; for messages
    std::string chief_address;  // named in messages while the server waits for the chief; may be ""
    Duration chief_timeout = std::chrono::seconds(10);
    Duration chief_wait = std::chrono::seconds(300);
    // Time for running work on the threads that wait for storage, once they are to stop.
    Duration stop_wait = std::chrono::seconds(5);
    std::shared_ptr<LocalServers>
        local_servers;              // where workers of this process find it; may be null
    Logger* log = nullptr;          // outlives the server
    std::function<void()> on_done;  // called when the chief ends the job, on a thread of the server
  };
  // Starts a server, which serves when this returns. Errors: those of StreamServer, AdminServer and
  // ApplyLog.
  static absl::StatusOr<std::unique_ptr<ParameterServer>> Start(Options options);
  // Ends at once, as a kill would for its peers.
  ~ParameterServer() override;

  // For a server without addresses: the methods that another server of this process serves.
  StreamServer::Methods Methods() { return service_.Methods(core_.get(), &clock_); }

  int port() const;
  int admin_port() const;

  // Logs which task it is waiting for. Errors: DeadlineExceeded if no chief has been connected for
  // chief_wait.
  absl::Status Tick() override;
  std::optional<TaskEnd> end() const override;
  std::string StatusLine() const override;
  // The loops are the tablet thread and the threads of the server.
  std::vector<uint64_t> Turns() override;
  // Waits at most `grace` for running snapshots, drops the rest, closes all streams with `why` (OK:
  // the job is done), and stops. Idempotent. Error: DeadlineExceeded if the storage does not answer
  // within stop_wait.
  absl::Status Shutdown(const absl::Status& why, std::chrono::milliseconds grace) override;

  PsCore* core() { return core_.get(); }
  const CodecCounters& codec_counters() const { return service_.codec_counters(); }
  const MetricsRegistry& metrics() const { return registry_; }
  // PsCore::Readiness.
  std::string Readiness() const { return core_->Readiness(); }

 private:
  explicit ParameterServer(Options options);
  PsCore::Options CoreOptions();
  v1::TaskFigures Figures() const;
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
  ThreadPool apply_pool_;                 // helps with large applies
  std::unique_ptr<PsCore> core_;          // the protocol
  std::shared_ptr<LocalRequests> local_;  // serves the workers of this process
  // Makes tablets and writes snapshots, so that no completion queue waits for a disk.
  SerialThread tablet_work_{"tablet_work"};
  SerialThread background_{"background"};
  std::unique_ptr<StreamServer> server_;  // null without addresses
  std::unique_ptr<AdminServer> admin_;    // may be null
  WaitList waiting_;                      // for the chief; used by the thread that calls Tick
  uint64_t tablet_asked_ = 0;             // by Turns, which the tablet thread answers
  const std::shared_ptr<std::atomic<uint64_t>> tablet_answered_ =
      std::make_shared<std::atomic<uint64_t>>(0);
};

// The options of a task from its flags and TF_CONFIG. `runtime_dir`: $XDG_RUNTIME_DIR, or nullptr.
// If no flag names a directory for the socket and none can be created, logs the reason; workers of
// this host then connect over TCP.
ParameterServer::Options MakeServerOptions(const PsFlags& flags, const RoleContext& context,
                                           const char* runtime_dir);

}  // namespace cohort

#endif  // COHORT_PS_SERVER_PARAMETER_SERVER_H_

#ifndef COHORT_WORKER_WORKER_SERVER_H_
#define COHORT_WORKER_WORKER_SERVER_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/cluster/security.h"
#include "common/cluster/task_run.h"
#include "common/collective/peer_service.h"
#include "common/device/devices.h"
#include "common/exchange/remote_access.h"
#include "common/exec/local_devices.h"
#include "common/rpc/stream/stream_server.h"
#include "worker/gradient_ring.h"
#include "worker/peer_devices.h"
#include "worker/segment_service.h"
#include "worker/step_loop.h"
#include "worker/worker_core.h"
#include "worker/worker_service.h"

namespace cohort {

class AdminServer;
struct RoleContext;
struct WorkerFlags;

// A server of the same process, which has no addresses of its own.
struct SharedService {
  StreamServer::Methods methods;
  std::vector<std::string> control_methods;  // StreamServer::Options::control_methods
  std::string health_service;
  int threads = 1;                       // that serve its other methods
  std::function<std::string()> metrics;  // its part of /metrics
  // Its part of /readyz; null: always ready. A worker alone is ready when it listens.
  std::function<std::string()> readiness;
};

// A complete worker: cohort-worker has one, an in-process cluster has several. It has two threads:
// the control thread (the stream of the chief) and the step thread.
class WorkerServer : public ServingTask, private WorkerEffects, private StepVariables {
 public:
  struct Options {
    std::vector<std::string> listen;      // "host:port", "unix:/path"
    std::optional<SharedService> shared;  // served on the same addresses
    std::string admin_address;            // "": no admin port
    std::shared_ptr<const Security> security = Security::LoopbackOnly();
    int threads = 1;        // for the kernels of a step
    DeviceOptions devices;  // on which they run
    int index = 0;
    uint64_t incarnation = 0;
    std::string host_id;
    std::string data_dir;
    std::map<int, std::string> worker_addresses;       // all workers in TF_CONFIG, by index
    Duration peer_timeout = std::chrono::seconds(60);  // PeerDevices::Options::timeout
    std::string address;        // the one in TF_CONFIG that the chief dials; for messages
    std::string chief_address;  // named in the log while the worker waits for it; may be ""
    Duration chief_timeout = std::chrono::seconds(10);
    Duration chief_wait = std::chrono::seconds(300);  // zero: no deadline
    // How long the step thread may take to stop: it stops between steps.
    Duration stop_wait = std::chrono::seconds(5);
    ExchangeOptions exchange;
    ClosuresInHand::Options closures;
    std::shared_ptr<LocalServers> local_servers;  // in this process; may be null
    Logger* log = nullptr;                        // outlives the server
    std::function<void()> on_done;  // called on a thread of the server when the chief ends the job
  };
  // The worker serves when this returns. Errors: those of StreamServer and AdminServer (a taken
  // port); those of OpenDevices and TestDevice.
  static absl::StatusOr<std::unique_ptr<WorkerServer>> Start(Options options);
  // Ends at once; for the peers this looks like a kill.
  ~WorkerServer() override;

  int port() const;
  int admin_port() const;

  // Logs which task it is waiting for, and reports results that have waited long enough. Call it
  // every few hundred milliseconds. Errors: DeadlineExceeded if there was no chief for chief_wait.
  absl::Status Tick() override;
  std::optional<TaskEnd> end() const override;
  std::string StatusLine() const override;
  // The loops are the step thread and the threads of the server. The step thread makes no turn while
  // it runs a step, compiles a program or reads data.
  std::vector<uint64_t> Turns() override;
  // Gives back queued closures, waits for the current step (stops it after `grace`), reports the
  // results, closes all streams with `why` (OK: the job is done), and stops. Idempotent. Errors:
  // DeadlineExceeded if the step does not end in stop_wait.
  absl::Status Shutdown(const absl::Status& why, std::chrono::milliseconds grace) override;

  WorkerCore* core() { return core_.get(); }
  const MetricsRegistry& metrics() const { return registry_; }
  std::optional<uint64_t> steps() const override { return step_metrics_.steps->value(); }
  RemoteAccess::Counters exchange_counters() const { return remote_->counters(); }

 private:
  explicit WorkerServer(Options options);
  absl::Status Listen();
  void MakeSegmentDevices();
  void ExportMetrics();
  void StepThread();
  // Stops the step thread. Returns false if it has not ended `patience` after the request. nullopt
  // waits without a limit.
  bool StopStepThread(std::chrono::milliseconds grace, std::optional<Duration> patience);
  bool WaitForStepThread(TimePoint deadline);

  absl::Status OpenDevices();
  template <typename T>
  double SumOfUsage(T DeviceUsage::*field) const;

  // WorkerEffects, called with the lock of the core held.
  void Send(Adoption::Connection connection, const v1::WorkerToChief& message) override;
  void RoutesChanged(std::shared_ptr<const v1::Routes> routes) override;
  void GenerationChanged(uint64_t generation) override;
  void WatermarkChanged(uint64_t watermark) override;
  void Interrupt() override;
  void WakeStep() override;
  void Shutdown(bool job_finished, const std::string& reason) override;
  v1::TaskFigures Figures() override;
  // StepVariables, called on the step thread.
  std::unique_ptr<VariableAccess> ForProgram(std::span<const VariableDecl> variables) override;
  DenseSums* dense_sums() override { return ring_.get(); }
  absl::StatusOr<const ResidentVariables*> resident(uint64_t job) override;
  void Wait(TimePoint deadline) override;

  // In order of dependency.
  const Options options_;
  std::vector<std::shared_ptr<Device>> devices_;  // none: the CPU
  // The variables of the servers of this process, on the device; null: not there. Only the step
  // thread uses them.
  std::shared_ptr<ResidentVariables> resident_;
  std::optional<uint64_t> resident_job_;  // theirs
  RealClock clock_;
  MetricsRegistry registry_;
  StepMetrics step_metrics_;
  // Where layers run that name devices: here or on other workers. Layers of other workers run here, too.
  std::unique_ptr<LocalDevices> local_devices_;
  std::unique_ptr<PeerDevices> peer_devices_;
  std::unique_ptr<SegmentService> segments_;
  WorkerService service_;                 // connects the streams of chiefs with the core
  std::unique_ptr<RemoteAccess> remote_;  // the parameter servers
  PeerService peers_;                     // streams of other replicas
  std::unique_ptr<GradientRing> ring_;    // null: the worker is no replica
  mutable Mutex mu_;
  CondVar step_ended_;
  bool step_running_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<TaskEnd> end_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<WorkerCore> core_;  // the protocol
  std::unique_ptr<StreamServer> server_;
  std::unique_ptr<AdminServer> admin_;  // may be null
  std::thread step_thread_;
  WaitList waiting_;  // for the chief; used by the thread that calls Tick
};

// Derives the options of a task from flags and TF_CONFIG. `data_dir`: $COHORT_DATA_DIR, or null.
WorkerServer::Options MakeServerOptions(const WorkerFlags& flags, const RoleContext& context,
                                        const char* data_dir);

}  // namespace cohort

#endif  // COHORT_WORKER_WORKER_SERVER_H_

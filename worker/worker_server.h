#ifndef COHORT_WORKER_WORKER_SERVER_H_
#define COHORT_WORKER_WORKER_SERVER_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <functional>
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
#include "common/exchange/remote_access.h"
#include "worker/step_loop.h"
#include "worker/worker_core.h"
#include "worker/worker_service.h"

namespace cohort {

class AdminServer;
struct RoleContext;
struct WorkerFlags;

// A worker as a whole: cohort-worker has one, an in-process cluster has several. Two threads:
// control (the chief's stream), and the step thread.
class WorkerServer : public ServingTask, private WorkerEffects, private StepVariables {
 public:
  struct Options {
    std::vector<std::string> listen;  // "host:port"
    std::string admin_address;        // "": no admin port
    std::shared_ptr<const Security> security = Security::LoopbackOnly();
    int threads = 1;        // of the step's kernels
    bool own_core = false;  // TransportOptions::SetOwnCore
    int index = 0;
    uint64_t incarnation = 0;
    std::string host_id;
    std::string data_dir;
    std::string chief_address;  // to be named while it is waited for; may be ""
    Duration chief_timeout = std::chrono::seconds(10);
    Duration chief_wait = std::chrono::seconds(300);  // zero: no deadline
    // For the step thread, once it was told to stop: it does so between steps.
    Duration stop_wait = std::chrono::seconds(5);
    ExchangeOptions exchange;
    Hands::Options hands;
    Logger* log = nullptr;          // outlives the server
    std::function<void()> on_done;  // the chief has ended the job; on a thread of the server
  };
  // Serves when it returns. Errors: those of StreamServer and AdminServer (a taken port).
  static absl::StatusOr<std::unique_ptr<WorkerServer>> Start(Options options);
  // Ends at once, as a kill would for its peers.
  ~WorkerServer() override;

  int port() const;
  int admin_port() const;

  // Says whom it waits for, and tells results that have waited. Call every few hundred
  // milliseconds. Errors: DeadlineExceeded when no chief has been there for chief_wait.
  absl::Status Tick() override;
  std::optional<TaskEnd> end() const override;
  // Gives back what is queued, ends the step under way (stopped after `grace`), tells the results,
  // closes all streams with `why` (OK: the job is done), stops. Idempotent. Error: DeadlineExceeded
  // where the step does not end in stop_wait.
  absl::Status Shutdown(const absl::Status& why, std::chrono::milliseconds grace) override;

  WorkerCore* core() { return core_.get(); }
  const MetricsRegistry& metrics() const { return registry_; }
  std::optional<uint64_t> steps() const override { return step_metrics_.steps->value(); }
  RemoteAccess::Counters exchange_counters() const { return remote_->counters(); }

 private:
  explicit WorkerServer(Options options);
  absl::Status Listen();
  void ExportMetrics();
  void StepThread();
  // Asks it to stop; false where it has not ended `patience` after it was told to (nullopt: waits).
  bool StopStepThread(std::chrono::milliseconds grace, std::optional<Duration> patience);
  bool WaitForStepThread(TimePoint deadline);

  // WorkerEffects, under the core's lock.
  void Send(Adoption::Connection connection, const v1::WorkerToChief& message) override;
  void RoutesChanged(std::shared_ptr<const v1::Routes> routes) override;
  void GenerationChanged(uint64_t generation) override;
  void WatermarkChanged(uint64_t watermark) override;
  void Interrupt() override;
  void WakeStep() override;
  void Shutdown(bool job_finished, const std::string& reason) override;
  // StepVariables, on the step thread.
  std::unique_ptr<VariableAccess> ForProgram(std::span<const VariableDecl> variables) override;
  void Wait(TimePoint deadline) override;

  // In the order in which they depend on each other.
  const Options options_;
  RealClock clock_;
  MetricsRegistry registry_;
  StepMetrics step_metrics_;
  WorkerService service_;                 // the chief's streams to the core and back
  std::unique_ptr<RemoteAccess> remote_;  // the parameter servers
  mutable Mutex mu_;
  CondVar step_ended_;
  bool step_running_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<TaskEnd> end_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<WorkerCore> core_;  // the protocol
  std::unique_ptr<StreamServer> server_;
  std::unique_ptr<AdminServer> admin_;  // may be null
  std::thread step_thread_;
  WaitList waiting_;  // for the chief; of the thread that ticks
};

// The options of a task as flags and TF_CONFIG say. `data_dir`: of the environment, or "".
WorkerServer::Options MakeServerOptions(const WorkerFlags& flags, const RoleContext& context,
                                        const char* data_dir);

}  // namespace cohort

#endif  // COHORT_WORKER_WORKER_SERVER_H_

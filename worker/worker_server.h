#ifndef COHORT_WORKER_WORKER_SERVER_H_
#define COHORT_WORKER_WORKER_SERVER_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/cluster/task_run.h"
#include "common/collective/peer_service.h"
#include "common/device/devices.h"
#include "common/exchange/remote_access.h"
#include "common/exec/local_devices.h"
#include "common/optimizers/device_copies.h"
#include "common/rpc/task/served_task.h"
#include "worker/gradient_ring.h"
#include "worker/peer_devices.h"
#include "worker/segment_service.h"
#include "worker/step_loop.h"
#include "worker/worker_core.h"
#include "worker/worker_service.h"

namespace cohort {

struct WorkerFlags;

// A complete worker: cohort-worker has one, an in-process cluster has several. It has two threads:
// the control thread (the stream of the chief) and the step thread.
class WorkerServer : public ServingTask, private WorkerEffects, private StepVariables {
 public:
  struct Options : ServedTaskOptions {
    // A server of the same process, which is served at the same addresses: the worker is a replica.
    std::optional<ServedPart> owner;
    DeviceOptions devices;  // on which the kernels of a step run
    std::string data_dir;
    std::map<int, std::string> worker_addresses;       // all workers in TF_CONFIG, by index
    Duration peer_timeout = std::chrono::seconds(60);  // PeerDevices::Options::timeout
    ExchangeOptions exchange;
    ClosuresInHand::Options closures;
  };
  // The worker serves when this returns. Errors: those of StreamServer and AdminServer (a taken
  // port); those of OpenDevices and TestDevice.
  static absl::StatusOr<std::unique_ptr<WorkerServer>> Start(Options options);
  // Ends at once; for the peers this looks like a kill.
  ~WorkerServer() override;

  int port() const override { return served_.port(); }
  int admin_port() const { return served_.admin_port(); }

  // Logs which task it is waiting for, and reports results that have waited long enough. Call it
  // every few hundred milliseconds. Errors: DeadlineExceeded if there was no chief for chief_wait;
  // Unauthenticated (exit code 78) if a server has refused this worker for its secret.
  absl::Status Tick() override;
  std::optional<TaskEnd> end() const override { return served_.end(); }
  std::string StatusLine() const override;
  // The loops are the step thread and the threads of the server. The step thread makes no turn
  // while it runs a step, compiles a program or reads data.
  std::vector<uint64_t> Turns() override;
  void SetHang(const std::string& why) override { served_.SetHang(why); }
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
  // Stops the step thread. The running closure may take `grace`, but not without a chief, which
  // gets its results, unless `without_chief`. Returns false if the thread has not ended `patience`
  // after that. nullopt waits without a limit.
  bool StopStepThread(std::chrono::milliseconds grace, std::optional<Duration> patience,
                      bool without_chief);
  bool WaitForStepThread(TimePoint deadline);

  absl::Status OpenDevices();
  // Moves the variables of a job to devices. Errors: Aborted: that is not possible now.
  absl::Status PlaceVariables(uint64_t job);
  // Returns false if the program works on variables in the host's memory. Errors: those of Compile.
  absl::StatusOr<bool> CompileOnDevice(const Work& work, CompileOptions options,
                                       StepProgram* program);
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
  absl::Status Compile(const Work& work, const CompileOptions& options,
                       StepProgram* program) override;
  void Wait(TimePoint deadline) override;

  // In order of dependency.
  const Options options_;
  std::vector<std::shared_ptr<Device>> devices_;  // none: the CPU
  // The variables of a job on this worker's device; null: they lie in the host's memory. Only the
  // step thread uses them.
  DeviceReader reader_;
  std::optional<uint64_t> reader_job_;  // the job that has them
  RealClock clock_;
  MetricsRegistry registry_;
  StepMetrics step_metrics_;
  // Where layers run that name devices: here or on other workers. Layers of other workers run here,
  // too.
  std::unique_ptr<LocalDevices> local_devices_;
  std::unique_ptr<PeerDevices> peer_devices_;
  std::unique_ptr<SegmentService> segments_;
  WorkerService service_;                    // connects the streams of chiefs with the core
  std::unique_ptr<RemoteAccess> remote_;     // the parameter servers
  PeerService peers_{options_.incarnation};  // streams of other replicas
  std::unique_ptr<GradientRing> ring_;       // null: the worker is no replica
  mutable Mutex mu_;
  CondVar step_ended_;
  bool step_running_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status refused_ ABSL_GUARDED_BY(mu_);  // by a server, for its secret
  std::unique_ptr<WorkerCore> core_;           // the protocol
  std::thread step_thread_;
  ServedTask served_;  // ends first, because its streams use the core
};

WorkerServer::Options MakeServerOptions(const WorkerFlags& flags, const RoleContext& context,
                                        const TaskEnvironment& environment);

}  // namespace cohort

#endif  // COHORT_WORKER_WORKER_SERVER_H_

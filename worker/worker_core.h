#ifndef COHORT_WORKER_WORKER_CORE_H_
#define COHORT_WORKER_WORKER_CORE_H_

#include <absl/status/status.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/cluster/adoption.h"
#include "common/graph/program.h"
#include "proto/worker.pb.h"
#include "worker/closures_in_hand.h"
#include "worker/resource_registry.h"

namespace cohort {

// The effects of the core. It calls them with its lock held, in order; they must not call back.
class WorkerEffects {
 public:
  virtual ~WorkerEffects() = default;
  virtual void Send(Adoption::Connection connection, const v1::WorkerToChief& message) = 0;
  virtual void RoutesChanged(std::shared_ptr<const v1::Routes> routes) = 0;
  virtual void GenerationChanged(uint64_t generation) = 0;
  virtual void WatermarkChanged(uint64_t watermark) = 0;
  // The running step, or one of the closures in it, may be unwanted now: the step thread must stop
  // waiting and check ShouldStop.
  virtual void Interrupt() = 0;
  // There is work, and the step thread sleeps because NextWork had none.
  virtual void WakeStep() = 0;
  // The chief has ended the job.
  virtual void Shutdown(bool job_finished, const std::string& reason) = 0;
  // What this task reports with a Pong.
  virtual v1::TaskFigures Figures() { return {}; }
};

// What the step thread does next.
struct Work {
  enum class Kind {
    kNone,      // wait until WakeStep
    kResource,  // make it, then call OnResource
    kClosure,   // run it, then call Finish
    kStop,      // drained: there will be no more work
  };
  Kind kind = Kind::kNone;
  uint64_t job = 0;  // counts the jobs of this process: resources of an older one are void
  uint64_t seed = 0;
  uint32_t pull_ahead = 0;               // how many steps ahead values may be pulled
  const v1::Closure* closure = nullptr;  // valid until Finish
  // The leases of the closure after it, so that their batches can be made ahead. Empty if none is
  // queued.
  uint64_t next_closure = 0;
  std::string next_resource;
  std::vector<v1::Lease> next_leases;
  std::shared_ptr<const Program> program;  // null if the program of the closure is not registered
  std::shared_ptr<const v1::CreateResource> resource;
};

// The protocol of a worker as a plain state machine: no network, no threads, no clock of its own.
// Inputs are the messages of each connection, calls of the step thread, and time. Outputs are
// messages.
//
//   chief ─► OnMessage ─► Adoption: which chief ─┬─► Dispatch, CancelClosures ─► ClosuresInHand
//                                                ├─► RegisterProgram: validated, kept
//                                                ├─► CreateResource ─► ResourceRegistry
//                                                └─► Routes, shutdown, ping
//   step thread ─► NextWork, ShouldStop, Finish ─► ClosuresInHand ─► Results, in batches
//
// The core never wakes a step thread that is running: it asks for work by itself. Thread-safe. With
// one thread (a simulator) everything is deterministic.
class WorkerCore {
 public:
  struct Options {
    int index = 0;
    uint64_t incarnation = 0;
    uint32_t cores = 1;
    std::string host_id;
    std::string instruction_set;  // for the numeric fingerprint
    std::string libraries;
    std::string device_kind = "cpu";
    std::vector<std::string> classes;  // those that plugins add: "source Waves"
    Duration chief_timeout = std::chrono::seconds(10);
    ClosuresInHand::Options closures;
  };

  // All pointers outlive this object.
  WorkerCore(const Options& options, const Clock* clock, Logger* log, WorkerEffects* effects);

  // ------------------------------------------------------------- from the chief
  // A message of a chief. The first one of a connection is AdoptWorker. May move parts out of it.
  void OnMessage(Adoption::Connection connection, v1::ChiefToWorker* message);
  void OnClosed(Adoption::Connection connection, ChiefLoss loss);

  // ------------------------------------------------------------- from the step thread
  // `may_wait`: the caller sleeps if there is no work, until WakeStep.
  Work NextWork(bool may_wait);
  // Returns true if the running closure is cancelled or rolled back.
  bool ShouldStop(uint64_t closure) const;
  // The running closure has ended; `read` is the position of its reader at that time.
  void Finish(v1::ClosureResult result, const ReadPosition& read = {});
  // The step thread has made `resource` of Work, or failed to.
  void OnResource(const v1::CreateResource& resource, const absl::Status& status);
  // This worker cannot reach a server; the FailureInfo of `status` names it.
  void OnUnreachable(const absl::Status& status);

  // ------------------------------------------------------------- from the owner
  // Reports results that have waited long enough.
  void Tick();
  // Gives back the queued closures and takes no more; NextWork ends with kStop. For SIGTERM.
  void Drain(const std::string& why);
  // From now on, tells who asks that this replica will end, and works on. Returns false if nobody
  // asks: only the chief of an elastic job watches the replicas that it uses, except the first one.
  bool Leave();
  // Returns true if no chief uses this worker. Waits for that until `deadline`.
  bool AwaitRelease(TimePoint deadline);
  // Stops the running closure too and gives it back.
  void StopRunning();
  // Reports all results that are not reported yet.
  void Flush();

  // Returns a failure with which the chief runs the closure elsewhere.
  absl::Status GivenBack(absl::StatusCode code, const std::string& why) const;

  bool adopted() const;  // the stream of a chief is open
  // A chief has asked lately, without adopting this worker: it may soon.
  bool probed() const;
  bool idle() const;  // no closure is queued or running
  std::string StatusText() const;

 private:
  using Connection = Adoption::Connection;

  void OnAdopt(Connection connection, const v1::ChiefToWorker& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendFenced(Connection connection, uint64_t request, const std::string& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FillHello(const v1::AdoptWorker& adopt, v1::WorkerHello* hello)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnProgram(uint64_t request, const v1::ChiefToWorker& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnCreateResource(uint64_t request, v1::ChiefToWorker* message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnDispatch(v1::ChiefToWorker* message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnCancel(const v1::ChiefToWorker& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnRoutes(v1::ChiefToWorker* message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool RaiseTimeline(uint64_t timeline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void StartNewJob() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void GiveBackQueued() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WakeIfIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Answer(uint64_t request, const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendResultsIf(bool due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int64_t NowUs() const;
  bool CountsStill(std::optional<TimePoint> probe) const;

  const Options options_;
  const Clock* const clock_;
  Logger* const log_;
  WorkerEffects* const effects_;

  mutable Mutex mu_;
  Adoption adoption_ ABSL_GUARDED_BY(mu_);
  std::optional<TimePoint> probed_at_ ABSL_GUARDED_BY(mu_);
  std::optional<TimePoint> watched_at_ ABSL_GUARDED_BY(mu_);  // probed while a chief uses it
  ClosuresInHand closures_ ABSL_GUARDED_BY(mu_);
  uint64_t job_ ABSL_GUARDED_BY(mu_) = 1;
  uint64_t seed_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t pull_ahead_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t timeline_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, std::shared_ptr<const Program>> programs_ ABSL_GUARDED_BY(mu_);
  ResourceRegistry resources_ ABSL_GUARDED_BY(mu_);
  bool step_idle_ ABSL_GUARDED_BY(mu_) = false;
  bool leaving_ ABSL_GUARDED_BY(mu_) = false;
  CondVar closed_;                             // the stream of a chief has
  std::string draining_ ABSL_GUARDED_BY(mu_);  // the reason; "": it is not draining
};

}  // namespace cohort

#endif  // COHORT_WORKER_WORKER_CORE_H_

#ifndef COHORT_WORKER_WORKER_CORE_H_
#define COHORT_WORKER_WORKER_CORE_H_

#include <absl/status/status.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/cluster/adoption.h"
#include "common/graph/program.h"
#include "proto/worker.pb.h"
#include "worker/hands.h"
#include "worker/read_to.h"

namespace cohort {

// What the core wants done. Called with its lock held, in order: must not call back.
class WorkerEffects {
 public:
  virtual ~WorkerEffects() = default;
  virtual void Send(Adoption::Connection connection, const v1::WorkerToChief& message) = 0;
  virtual void RoutesChanged(std::shared_ptr<const v1::Routes> routes) = 0;
  virtual void GenerationChanged(uint64_t generation) = 0;
  virtual void WatermarkChanged(uint64_t watermark) = 0;
  // What the step thread waits for inside a step is not wanted any more (or not by all): look
  // again.
  virtual void Interrupt() = 0;
  // There is work, and the step thread has been told that there is none.
  virtual void WakeStep() = 0;
  // The chief has ended the job.
  virtual void Shutdown(bool job_finished, const std::string& reason) = 0;
};

// What the step thread does next.
struct Work {
  enum class Kind {
    kNone,      // wait until WakeStep
    kResource,  // make it, then OnResource
    kClosure,   // run it, then Finish
    kStop,      // drained: nothing more will come
  };
  Kind kind = Kind::kNone;
  uint64_t job = 0;  // counts the jobs of this process: resources of an older one are void
  uint64_t seed = 0;
  const v1::Closure* closure = nullptr;  // valid until Finish
  // What the closure after it will read, where there is one: to be made ahead.
  uint64_t next_closure = 0;
  std::string next_resource;
  std::vector<v1::Lease> next_leases;
  std::shared_ptr<const Program> program;  // of the closure; null where it was never registered
  std::shared_ptr<const v1::CreateResource> resource;
};

// The protocol of a worker as a plain state machine: no network, no threads, no clock of its own.
// Inputs are the chief's messages per connection, what the step thread has done, and time; outputs
// are messages.
//
//   chief ─► OnMessage ─► Adoption: who is the chief ─┬─► Dispatch, CancelClosures ─► Hands
//                                                     ├─► RegisterProgram: validated, kept
//                                                     ├─► CreateResource: made by the step thread
//                                                     └─► Routes, shutdown, ping
//   step thread ─► NextWork, ShouldStop, Finish ──────► Hands ─► Results, in batches
//
// A step thread that is at work is never woken: it asks again by itself. Thread-safe; in one thread
// (a simulator) everything is deterministic.
class WorkerCore {
 public:
  struct Options {
    int index = 0;
    uint64_t incarnation = 0;
    uint32_t cores = 1;
    std::string host_id;
    std::string instruction_set;  // of the numeric fingerprint
    std::string libraries;
    std::string device_kind = "cpu";
    Duration chief_timeout = std::chrono::seconds(10);
    Hands::Options hands;
  };

  // All outlive this.
  WorkerCore(const Options& options, const Clock* clock, Logger* log, WorkerEffects* effects);

  // ------------------------------------------------------------- from the chief
  // A message of a chief. The first of a connection is AdoptWorker. May take what it wants out of
  // it.
  void OnMessage(Adoption::Connection connection, v1::ChiefToWorker* message);
  void OnClosed(Adoption::Connection connection, ChiefLoss loss);

  // ------------------------------------------------------------- from the step thread
  // `may_wait`: the caller sleeps when there is nothing, and is to be woken.
  Work NextWork(bool may_wait);
  // Whether the running closure is cancelled or rolled back.
  bool ShouldStop(uint64_t closure) const;
  // The running closure has ended; its reader was at `read` then.
  void Finish(v1::ClosureResult result, const ReadTo& read = {});
  // `resource` of Work was made, or not.
  void OnResource(const v1::CreateResource& resource, const absl::Status& status);
  // A server cannot be reached from here; `status` names it in its FailureInfo.
  void OnUnreachable(const absl::Status& status);

  // ------------------------------------------------------------- from the owner
  // Tells results that have waited long enough.
  void Tick();
  // Gives back what is queued and takes nothing more; NextWork ends with kStop. For SIGTERM.
  void Drain(const std::string& why);
  // Stops what runs, too: it is given back.
  void StopRunning();
  // Tells everything that was not told.
  void Flush();

  // A failure that sends a closure elsewhere.
  absl::Status GivenBack(absl::StatusCode code, const std::string& why) const;

  bool adopted() const;  // a chief's stream is open
  bool idle() const;     // nothing queued or running
  std::string StatusText() const;

 private:
  using Connection = Adoption::Connection;

  void OnAdopt(Connection connection, const v1::ChiefToWorker& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendFenced(Connection connection, uint64_t request, const std::string& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FillHello(const v1::AdoptWorker& adopt, v1::WorkerToChief* answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnProgram(uint64_t request, const v1::ChiefToWorker& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnCreateResource(uint64_t request, const v1::ChiefToWorker& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnDispatch(v1::ChiefToWorker* message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnCancel(const v1::ChiefToWorker& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnRoutes(v1::ChiefToWorker* message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool RaiseTimeline(uint64_t timeline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void StartNewJob() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void GiveBackQueued() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WakeIfIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Answer(uint64_t request, const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void MoveReader(const ReadTo& read) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FillReaders(v1::Results* results) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TellIf(bool due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int64_t NowUs() const;

  const Options options_;
  const Clock* const clock_;
  Logger* const log_;
  WorkerEffects* const effects_;

  struct Resource {
    std::shared_ptr<const v1::CreateResource> spec;
    uint64_t request = 0;  // to be answered; 0: is answered
    bool made = false;
    uint64_t read = 0;  // batches of an independent reader, to the end of those of good results
    uint64_t told = 0;  // of these
  };

  mutable Mutex mu_;
  Adoption adoption_ ABSL_GUARDED_BY(mu_);
  Hands hands_ ABSL_GUARDED_BY(mu_);
  uint64_t job_ ABSL_GUARDED_BY(mu_) = 1;
  uint64_t seed_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t timeline_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, std::shared_ptr<const Program>> programs_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Resource, std::less<>> resources_ ABSL_GUARDED_BY(mu_);
  std::deque<std::string> to_make_ ABSL_GUARDED_BY(mu_);  // resources
  bool step_idle_ ABSL_GUARDED_BY(mu_) = false;
  std::string draining_ ABSL_GUARDED_BY(mu_);  // why; "": it is not
};

}  // namespace cohort

#endif  // COHORT_WORKER_WORKER_CORE_H_

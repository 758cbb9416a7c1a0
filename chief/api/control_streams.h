#ifndef COHORT_CHIEF_API_CONTROL_STREAMS_H_
#define COHORT_CHIEF_API_CONTROL_STREAMS_H_

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>

#include "chief/api/locked_core.h"
#include "chief/api/task_links.h"
#include "common/base/log.h"
#include "common/cluster/cluster_spec.h"
#include "common/rpc/stream/completion_loop.h"

namespace cohort {

struct CoordinatorOptions;

// Connects the core with its tasks: turns frames of the control streams into inputs of the core,
// and messages of the core into frames. It owns the control thread, which polls the streams.
// Functions are thread-safe unless they say otherwise.
class ControlStreams {
 public:
  // Errors: those of TaskLinks::Create.
  static absl::StatusOr<std::unique_ptr<ControlStreams>> Create(const CoordinatorOptions& options,
                                                                LockedCore* core);
  // Calls Shutdown.
  ~ControlStreams();

  // Starts the control thread, which also calls `tick` every 10 ms, and dials all tasks. Once.
  void Start(std::function<void()> tick);

  // Send a message on the open stream to the task, or drop it if there is none.
  void SendToWorker(int worker, const v1::ChiefToWorker& message);
  void SendToPs(int ps, const v1::ChiefToPs& message);
  // Ends the stream and dials again.
  void Reconnect(Task task) { links_->Reconnect(task); }

  // Stops dialing. Streams that are open stay open.
  void StopDialing() { links_->Stop(); }
  // Waits until the tasks have closed their streams. Returns how many are still open at the
  // deadline. Takes the core's lock. Errors: Cancelled (Interrupt).
  absl::StatusOr<int> WaitUntilClosed(TimePoint deadline);
  // Ends the control thread and all streams. Idempotent; for one thread.
  void Shutdown();

 private:
  ControlStreams(const CoordinatorOptions& options, LockedCore* core);
  TaskLinks::Callbacks LinkCallbacks();
  void OnFrame(Task task, const Frame& frame);
  void Tick();

  const ClusterSpec cluster_;
  Logger* const log_;
  LockedCore* const core_;
  std::function<void()> tick_;                 // set by Start
  int open_ ABSL_GUARDED_BY(core_->mu()) = 0;  // streams that have connected

  // The links run on the loop, so they end first.
  CompletionLoop loop_;
  std::unique_ptr<TaskLinks> links_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_CONTROL_STREAMS_H_

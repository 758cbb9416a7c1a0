#ifndef COHORT_CHIEF_API_CONTROL_STREAMS_H_
#define COHORT_CHIEF_API_CONTROL_STREAMS_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chief/api/locked_core.h"
#include "common/base/log.h"
#include "common/cluster/cluster_spec.h"
#include "common/rpc/stream/completion_loop.h"
#include "common/rpc/stream/frame.h"

namespace cohort {

class Security;
struct CoordinatorOptions;

// Connects the core with its tasks: one control stream to every worker and ps, which is dialed
// again when it ends. Turns frames into inputs of the core, and messages of the core into frames.
// It owns the control thread, which polls the streams. Functions are thread-safe unless they say
// otherwise.
class ControlStreams {
 public:
  // `workers`, `ps`: addresses by index; "": none yet. Errors: InvalidArgument (an address),
  // FailedPrecondition (plaintext beyond loopback).
  static absl::StatusOr<std::unique_ptr<ControlStreams>> Create(
      const CoordinatorOptions& options, const std::vector<std::string>& workers,
      const std::vector<std::string>& ps, LockedCore* core);
  // Calls Shutdown.
  ~ControlStreams();

  // Starts the control thread, which also calls `tick` every 10 ms, and dials all tasks. Once.
  void Start(std::function<void()> tick);

  // Send a message on the open stream to the task, or drop it if there is none.
  void SendToWorker(int worker, const v1::ChiefToWorker& message);
  // The message is merged from both; `rest` is referenced until it is sent.
  void SendToWorker(int worker, const v1::ChiefToWorker& message,
                    std::shared_ptr<const std::string> rest);
  void SendToPs(int ps, const v1::ChiefToPs& message);
  // Ends the stream and dials again.
  void Reconnect(Task task);
  // Dials a task that has had no address. HangUp: it has none any more.
  void Dial(Task task, const std::string& address);
  void HangUp(Task task);

  // Stops dialing: streams that end from now on are not lost tasks. Open streams stay open.
  void StopDialing() { stopped_ = true; }
  // Waits until the tasks have closed their streams. Returns how many are still open at the
  // deadline. Takes the core's lock. Errors: Cancelled (Interrupt).
  absl::StatusOr<int> WaitUntilClosed(TimePoint deadline);
  // Ends the control thread and all streams. Idempotent; for one thread.
  void Shutdown() { loop_.Shutdown(); }

 private:
  class Link;
  using Links = std::vector<std::unique_ptr<Link>>;  // by index

  ControlStreams(std::shared_ptr<const Security> security, Logger* log, LockedCore* core);
  Link* Find(Task task) const;
  void OnConnected(Task task);
  void OnFrame(Task task, const Frame& frame);
  // One end of a stream cannot parse a frame of the other.
  void Fail(Task task, std::string_view what, const absl::Status& status);
  // `was_connected`: OnConnected has been called for this stream.
  void OnClosed(Task task, const std::string& why, bool was_connected, bool left = false);
  void Tick();
  // Tells the core which tasks a long message is moving to or from: they may be busy with it for
  // longer than a task may be silent.
  void NoteMoving();

  const std::shared_ptr<const Security> security_;
  Logger* const log_;
  LockedCore* const core_;
  std::function<void()> tick_;                 // set by Start
  int open_ ABSL_GUARDED_BY(core_->mu()) = 0;  // streams that have connected
  std::atomic<bool> stopped_{false};

  // The links run on the loop. The destructor ends its thread first.
  CompletionLoop loop_;
  Links workers_;
  Links ps_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_CONTROL_STREAMS_H_

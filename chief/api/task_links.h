#ifndef COHORT_CHIEF_API_TASK_LINKS_H_
#define COHORT_CHIEF_API_TASK_LINKS_H_

#include <absl/status/status.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/cluster/cluster_spec.h"
#include "common/cluster/security.h"
#include "common/rpc/stream/completion_loop.h"
#include "common/rpc/stream/frame.h"
#include "common/rpc/stream/stream.h"
#include "common/rpc/stream/stream_client.h"

namespace cohort {

// The chief's streams: one control stream to every worker and ps. When a stream ends, it is dialed
// again. Callbacks run on the loop's thread.
class TaskLinks {
 public:
  struct Callbacks {
    std::function<void(Task)> on_connected;
    std::function<void(Task, Frame)> on_frame;
    // The stream has ended or could not be opened; `was_connected`: on_connected had been called.
    std::function<void(Task, const absl::Status&, bool was_connected)> on_closed;
  };
  struct Options {
    std::vector<std::string> workers;  // addresses by index
    std::vector<std::string> ps;
    std::shared_ptr<const Security> security = Security::LoopbackOnly();
    std::chrono::milliseconds redial_after{100};
  };

  // Errors: InvalidArgument (an address), FailedPrecondition (plaintext beyond loopback).
  static absl::StatusOr<std::unique_ptr<TaskLinks>> Create(const Options& options,
                                                           CompletionLoop* loop,
                                                           Callbacks callbacks);
  // Must run after the loop's Shutdown.
  ~TaskLinks();

  // Dials all tasks.
  void Start();
  // Sends the frame, or drops it if no stream is open. Thread-safe, as are the functions below.
  void Send(Task task, Frame frame);
  // Ends the stream and dials again.
  void Reconnect(Task task);
  // Stops dialing: the chief ends, and streams that end from now on are not lost tasks.
  void Stop();
  bool stopped() const { return stopped_; }

 private:
  class Link;
  TaskLinks(const Options& options, CompletionLoop* loop, Callbacks callbacks);
  Link* Find(Task task) const;

  const Options options_;
  CompletionLoop* const loop_;
  const Callbacks callbacks_;
  std::atomic<bool> stopped_{false};
  std::vector<std::unique_ptr<Link>> workers_;
  std::vector<std::unique_ptr<Link>> ps_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_TASK_LINKS_H_

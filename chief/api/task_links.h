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

// The chief's streams: one control stream to every worker and ps, dialled again whenever it ends.
// Callbacks come on the loop's thread.
class TaskLinks {
 public:
  struct Callbacks {
    std::function<void(Task)> on_connected;
    std::function<void(Task, Frame)> on_frame;
    // The stream ended, or could not be made; `was_connected`: on_connected had come.
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
  // After the loop's Shutdown.
  ~TaskLinks();

  // Dials all.
  void Start();
  // Dropped where no stream is open. Thread-safe, as are the following.
  void Send(Task task, Frame frame);
  // Ends the stream and dials again.
  void Reconnect(Task task);
  // Dials no more.
  void Stop();

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

#ifndef COHORT_COMMON_RPC_STREAM_COMPLETION_LOOP_H_
#define COHORT_COMMON_RPC_STREAM_COMPLETION_LOOP_H_

#include <absl/functional/function_ref.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mutex.h"

namespace grpc {
class Alarm;
class CompletionQueue;
}  // namespace grpc

namespace cohort {

class Stream;

// The tag of an operation on a completion queue; receives its completion.
class CompletionTag {
 public:
  virtual void OnCompletion(bool ok) = 0;
  // Returns the tag for gRPC. Call it right before the operation starts.
  void* Arm();

 protected:
  ~CompletionTag() = default;
};

// One gRPC completion queue and the one thread that polls it: either the loop's own thread (Start)
// or the caller's (PollOnce, RunUntil), never both. Everything that a loop runs (handlers of its
// streams, posted functions, timers) therefore runs one after another. A worker's step thread polls
// its own loop while it waits, which avoids a thread hop.
//
//   CompletionLoop loop;                    // polled by this thread
//   auto stream = client->Open(method, &handler, &loop);
//   loop.RunUntil([&] { return handler.done(); }, deadline);
//
//   CompletionLoop loop;
//   loop.Start("control");                  // polled by its own thread
//   loop.Post([&] { core.Tick(); });        // from any thread
//
// The destructor (or Shutdown) aborts the loop's streams and returns after each handler has had its
// OnClosed.
class CompletionLoop {
 public:
  using Clock = std::chrono::steady_clock;
  using TimerId = uint64_t;
  static constexpr Clock::time_point kForever = Clock::time_point::max();

  CompletionLoop();
  // Polls the queue of a server.
  explicit CompletionLoop(std::unique_ptr<grpc::CompletionQueue> queue);
  ~CompletionLoop();
  CompletionLoop(const CompletionLoop&) = delete;
  CompletionLoop& operator=(const CompletionLoop&) = delete;

  // Starts the loop's own thread, named `name` (15 characters are seen). At most once.
  void Start(const std::string& name);

  // Handles one event, or the timers and posted functions that are due. Returns false if `deadline`
  // came first or after Shutdown, true also after Wake. Never call it from a callback of this loop.
  bool PollOnce(Clock::time_point deadline);
  // Polls until `done` (checked before each poll) or `deadline`. Returns done().
  bool RunUntil(absl::FunctionRef<bool()> done, Clock::time_point deadline);

  // Makes the polling thread return from its poll soon. Thread-safe. Cheap while another Wake is
  // pending.
  void Wake();
  // Runs `function` on the polling thread, in the order of the calls. Thread-safe. Destroyed
  // without running once Shutdown has begun.
  void Post(std::function<void()> function);
  // Runs `function` on the polling thread after `delay` (resolution 1 ms). Thread-safe.
  TimerId After(std::chrono::nanoseconds delay, std::function<void()> function);
  // True if the timer will not run. That is certain on the polling thread; on another thread false
  // may mean that it runs right now.
  bool CancelTimer(TimerId id);
  // How often the polling thread has begun to wait for an event. Thread-safe.
  uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }
  // True if the caller is the thread that polls right now.
  bool OnPollingThread() const {
    return polling_thread_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

  // Aborts all streams, drops timers and posted functions, and returns when no event is left; joins
  // the loop's thread. Not from inside a callback. Idempotent.
  void Shutdown();

  // The rest is for the streams and servers of this folder.
  grpc::CompletionQueue* queue() { return queue_.get(); }
  // Keeps a stream alive until RemoveStream. Returns false once Shutdown has begun.
  bool AddStream(std::shared_ptr<Stream> stream);
  void RemoveStream(Stream* stream);
  std::vector<std::shared_ptr<Stream>> streams() const;
  // See FrameJoiner.
  std::atomic<size_t>* unfinished_bytes() { return &unfinished_bytes_; }

 private:
  class WakeTag final : public CompletionTag {
   public:
    explicit WakeTag(CompletionLoop* loop) : loop_(loop) {}
    void OnCompletion(bool ok) override;

   private:
    CompletionLoop* loop_;
  };

  void WakeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Clock::time_point EarlierOf(Clock::time_point deadline);
  bool RunDueTimers();
  void RunPosted();
  bool Drained() const;

  const std::unique_ptr<grpc::CompletionQueue> queue_;
  const std::unique_ptr<grpc::Alarm> alarm_;
  WakeTag wake_tag_{this};
  std::thread thread_;
  std::atomic<std::thread::id> polling_thread_{};
  std::atomic<uint64_t> turns_{0};
  std::atomic<size_t> unfinished_bytes_{0};        // outlives the streams
  std::atomic<int64_t> next_timer_ns_{INT64_MAX};  // the earliest timer's; read without the lock

  mutable Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;  // accepts nothing new
  bool closed_ ABSL_GUARDED_BY(mu_) = false;    // no operation may be started on the queue
  bool wake_pending_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::function<void()>> posted_ ABSL_GUARDED_BY(mu_);
  std::vector<std::function<void()>> running_;  // polling thread only; keeps its capacity
  uint64_t next_timer_id_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<std::pair<Clock::time_point, TimerId>, std::function<void()>> timers_
      ABSL_GUARDED_BY(mu_);
  std::map<TimerId, Clock::time_point> timer_times_ ABSL_GUARDED_BY(mu_);
  std::map<Stream*, std::shared_ptr<Stream>> streams_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_COMPLETION_LOOP_H_

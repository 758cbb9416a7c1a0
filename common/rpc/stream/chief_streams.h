#ifndef COHORT_COMMON_RPC_STREAM_CHIEF_STREAMS_H_
#define COHORT_COMMON_RPC_STREAM_CHIEF_STREAMS_H_

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/cluster/adoption.h"
#include "common/rpc/stream/frame.h"
#include "common/rpc/stream/stream_server.h"

namespace cohort {

// The control streams that chiefs open to a task, numbered. `In` is the message from a chief, `Out`
// the answer, with one protobuf message per frame. Long frames travel in pieces. Decides nothing.
template <typename In, typename Out>
class ChiefStreams {
 public:
  using Connection = Adoption::Connection;
  // Called on the thread that polls the stream. They must outlive the streams.
  struct Callbacks {
    std::function<void(Connection, In*)> on_message;
    std::function<void(Connection, ChiefLoss)> on_closed;  // the last call
  };

  // Returns the handler factory for the method that the chief calls. `clock` must outlive the
  // streams.
  StreamHandlerFactory Serve(const Clock* clock, Callbacks callbacks) {
    auto shared = std::make_shared<const Callbacks>(std::move(callbacks));
    return [this, clock, shared](std::shared_ptr<Stream> stream, CompletionLoop*) {
      return std::make_unique<Handler>(this, clock, shared, std::move(stream));
    };
  }

  // Sends to a chief if it is still connected. Thread-safe.
  void Send(Connection connection, const Out& message) {
    std::shared_ptr<Stream> stream;
    {
      MutexLock lock(&mu_);
      const auto it = streams_.find(connection);
      if (it == streams_.end()) return;
      stream = it->second;
    }
    stream->Send(SerializeToFrame(message));
  }

 private:
  // A stream that breaks after a longer silence may belong to a live chief behind a cut network.
  // After a shorter silence the break means that the chief's sockets were closed. Chiefs ping every
  // second.
  static constexpr Duration kSilence = std::chrono::seconds(4);

  // The memory of a message that is longer is freed when it was handled.
  static constexpr size_t kKeptBytes = 1 << 20;

  class Handler : public StreamHandler {
   public:
    Handler(ChiefStreams* owner, const Clock* clock, std::shared_ptr<const Callbacks> callbacks,
            std::shared_ptr<Stream> stream)
        : owner_(owner),
          clock_(clock),
          callbacks_(std::move(callbacks)),
          stream_(stream),
          connection_(owner->Add(std::move(stream))),
          heard_(clock->Now()) {}

    void OnFrame(Frame frame) override {
      heard_ = clock_->Now();
      if (const absl::Status status = ParseFromFrame(frame, &message_); !status.ok()) {
        stream_->Close(status);
        return;
      }
      const bool large = frame.size() > kKeptBytes;
      frame.Clear();
      callbacks_->on_message(connection_, &message_);
      if (large) In().Swap(&message_);  // it would keep the memory for the next one
    }

    bool JoinsPieces() const override { return true; }

    void OnClosed(const absl::Status& status) override {
      const bool silent = !status.ok() && clock_->Now() - heard_ >= kSilence;
      callbacks_->on_closed(connection_, silent ? ChiefLoss::kSilent : ChiefLoss::kClosed);
      owner_->Remove(connection_);
    }

   private:
    ChiefStreams* const owner_;
    const Clock* const clock_;
    const std::shared_ptr<const Callbacks> callbacks_;
    const std::shared_ptr<Stream> stream_;
    const Connection connection_;
    TimePoint heard_;
    In message_;
  };

  Connection Add(std::shared_ptr<Stream> stream) {
    MutexLock lock(&mu_);
    streams_[next_] = std::move(stream);
    return next_++;
  }
  void Remove(Connection connection) {
    MutexLock lock(&mu_);
    streams_.erase(connection);
  }

  Mutex mu_;
  Connection next_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<Connection, std::shared_ptr<Stream>> streams_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_CHIEF_STREAMS_H_

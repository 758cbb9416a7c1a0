#ifndef COHORT_COMMON_RPC_STREAM_STREAM_BASE_H_
#define COHORT_COMMON_RPC_STREAM_STREAM_BASE_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/rpc/stream/completion_loop.h"
#include "common/rpc/stream/frame.h"
#include "common/rpc/stream/frame_pieces.h"
#include "common/rpc/stream/stream.h"
#include "common/rpc/stream/transport_options.h"

namespace cohort {

// A first-in, first-out queue in one block of memory that it keeps. A steady state allocates
// nothing, unlike a deque.
class FrameQueue {
 public:
  bool empty() const { return head_ == frames_.size(); }
  size_t bytes() const { return bytes_; }

  void Push(Frame frame) {
    bytes_ += frame.size();
    if (frames_.size() == frames_.capacity() && head_ > frames_.size() / 2) {
      frames_.erase(frames_.begin(), frames_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
    frames_.push_back(std::move(frame));
  }

  // The queue must not be empty.
  Frame Pop() {
    Frame frame = std::move(frames_[head_++]);
    bytes_ -= frame.size();
    if (empty()) Clear();
    return frame;
  }

  void Clear() {
    frames_.clear();
    head_ = 0;
    bytes_ = 0;
  }

 private:
  std::vector<Frame> frames_;
  size_t head_ = 0;
  size_t bytes_ = 0;
};

// The common part of both ends of a stream: the queue of frames, one send operation in flight, and
// the order of the end. The two ends (stream_client.cc, server_stream.cc) add the gRPC calls.
//
//        Open/accept       queue empty and it should end      all events delivered
//   idle ───────────► open ─────────────────────────────► ending ─────────────────► closed
//                      1                2                              3
//   1 OnOpen: reads begin, and queued frames are sent.
//   2 The stream should end because Close was called, the peer has ended its side, or the call is
//     broken (Abort, a failed write, a limit). A broken stream drops its queue. A client first
//     half-closes or cancels, and then waits for the end of the server.
//   3 The finish operation, the last read and (server) the notice of the end were delivered.
//     OnClosed is called, and the loop releases the stream.
//
// NextSend chooses an operation under the lock, and Run starts it outside the lock. `sending_`
// keeps the stream open meanwhile. Events come on the loop's thread only, one at a time.
class StreamBase : public Stream, public std::enable_shared_from_this<StreamBase> {
 public:
  void Send(Frame frame) override;
  size_t queued_bytes() const override;
  Moved moved() const override { return moved_; }
  void Close(absl::Status status) override;
  void Abort() override;

 protected:
  // A tag that calls a method of its stream.
  class Event final : public CompletionTag {
   public:
    using Method = void (StreamBase::*)(bool ok);
    Event(StreamBase* stream, Method method) : stream_(stream), method_(method) {}
    void OnCompletion(bool ok) override { (stream_->*method_)(ok); }

   private:
    StreamBase* const stream_;
    const Method method_;
  };

  enum class SendOp { kNone, kWrite, kHalfClose, kCancel, kFinish };

  StreamBase(CompletionLoop* loop, const TransportOptions& options)
      : loop_(loop), options_(options) {}

  // The gRPC calls. StartWrite takes its references before it returns.
  virtual void StartRead(Frame* frame, void* tag) = 0;
  virtual void StartWrite(const Frame& frame, void* tag) = 0;
  virtual void StartHalfClose(void* tag) = 0;
  virtual void StartFinish(const absl::Status& status, void* tag) = 0;
  virtual void CancelCall() = 0;
  // As in peer(). Any thread may call it, also while a server is still deciding about the peer.
  virtual std::string PeerAddress() const = 0;
  // The next operation if the queue is empty.
  virtual SendOp NextWhenFlushed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) = 0;
  // True if the end of the reads also drops what is queued: at a client the call is over then.
  virtual bool EndOfReadsBreaks() const = 0;
  // True if the peer joins pieces. Asked at a client when the first frame has come.
  virtual bool PeerJoinsPieces() const = 0;
  // The status for OnClosed if this end did not break the stream.
  virtual absl::Status PeerStatus() = 0;
  virtual void ReleaseHandler() {}

  // Opens the stream. `ok` starts its reads; otherwise it is broken.
  void OnOpen(bool ok);
  // This end joins pieces. Before OnOpen.
  void JoinPieces();
  // Ends a stream that has no handler, with `status`. Server only.
  void Reject(const absl::Status& status);
  // Breaks the stream. OnClosed will get `why`.
  void Break(absl::Status why);
  // Starts the next send operation, if there is one.
  void SendNext();
  // Calls OnClosed once every event has been delivered.
  void CloseIfDone();

  CompletionLoop* const loop_;
  const TransportOptions options_;
  StreamHandler* handler_ = nullptr;

  mutable Mutex mu_;
  bool open_ ABSL_GUARDED_BY(mu_) = false;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;      // Close was called
  bool half_closed_ ABSL_GUARDED_BY(mu_) = false;  // client: our side has ended
  bool broken_ ABSL_GUARDED_BY(mu_) = false;       // nothing more is sent
  bool sending_ ABSL_GUARDED_BY(mu_) = false;      // a send operation is in flight
  size_t sending_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // size of its frame
  bool finishing_ ABSL_GUARDED_BY(mu_) = false;    // the operation is the last one
  bool finished_ ABSL_GUARDED_BY(mu_) = false;     // the last one was delivered
  bool finish_ok_ ABSL_GUARDED_BY(mu_) = false;    // server: our status was sent
  bool read_ended_ ABSL_GUARDED_BY(mu_) = false;
  bool read_delayed_ ABSL_GUARDED_BY(mu_) = false;    // until the next send, or the end
  bool stay_open_ ABSL_GUARDED_BY(mu_) = false;       // server: although the client half-closed
  bool notice_pending_ ABSL_GUARDED_BY(mu_) = false;  // server: the notice of the end is pending
  bool cuts_ ABSL_GUARDED_BY(mu_) = false;            // long frames are sent in pieces
  absl::Status close_status_ ABSL_GUARDED_BY(mu_);
  absl::Status break_status_ ABSL_GUARDED_BY(mu_);  // OK: this end did not break it
  FrameQueue queue_ ABSL_GUARDED_BY(mu_);

 private:
  struct Step {
    SendOp op = SendOp::kNone;
    Frame frame{};
    bool read = false;  // start the delayed read
  };
  Step NextStep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  SendOp NextSend(Frame* frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run(Step step);
  absl::Status CheckLimits(size_t bytes, bool cut) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Join(Frame* frame);
  bool DelayRead();
  void EndReads();
  void OnRead(bool ok);
  void OnSent(bool ok);
  void OnFinished(bool ok);

  // True if frames are no longer wanted: aborted, or closed at a server.
  std::atomic<bool> muted_{false};
  Frame read_frame_;                     // loop's thread only
  std::unique_ptr<FrameJoiner> joiner_;  // loop's thread only; null: frames come whole
  bool knows_peer_ = false;              // loop's thread only: PeerJoinsPieces was asked
  Moved moved_;                          // loop's thread only
  Event read_event_{this, &StreamBase::OnRead};
  Event sent_event_{this, &StreamBase::OnSent};
  Event finished_event_{this, &StreamBase::OnFinished};

 protected:
  void Mute() { muted_.store(true, std::memory_order_relaxed); }
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_STREAM_BASE_H_

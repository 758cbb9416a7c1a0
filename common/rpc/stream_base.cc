#include "common/rpc/stream_base.h"

#include <utility>

#include "common/base/status.h"

namespace cohort {

void StreamBase::Send(Frame frame) {
  const size_t bytes = frame.size();
  absl::Status over;
  SendOp op = SendOp::kNone;
  bool read = false;
  {
    MutexLock lock(&mu_);
    if (closing_ || broken_ || finishing_) return;
    if (bytes > options_.max_frame_bytes) {
      over = ResourceExhausted("a frame of {} bytes to {} is over the limit of {}", bytes, peer(),
                               options_.max_frame_bytes);
    } else if (queue_.bytes() + bytes > options_.max_queued_bytes) {
      over = ResourceExhausted("{} does not read: {} bytes are queued, over the limit of {}",
                               peer(), queue_.bytes(), options_.max_queued_bytes);
    } else {
      queue_.Push(std::move(frame));
      op = NextSend(&frame);
      read = std::exchange(read_put_off_, false);
    }
  }
  if (!over.ok()) return Break(std::move(over));
  Run(op, std::move(frame));
  if (read) StartRead(&read_frame_, read_event_.Arm());
}

size_t StreamBase::queued_bytes() const {
  MutexLock lock(&mu_);
  return queue_.bytes();
}

void StreamBase::Close(absl::Status status) {
  SendOp op = SendOp::kNone;
  Frame frame;
  bool read = false;
  {
    MutexLock lock(&mu_);
    if (closing_ || broken_ || finishing_) return;
    closing_ = true;
    close_status_ = std::move(status);
    if (!EndOfReadsBreaks()) Mute();
    op = NextSend(&frame);
    read = std::exchange(read_put_off_, false);
  }
  Run(op, std::move(frame));
  if (read) StartRead(&read_frame_, read_event_.Arm());
}

void StreamBase::Abort() { Break(Cancelled("the stream with {} was aborted here", peer())); }

void StreamBase::Break(absl::Status why) {
  SendOp op = SendOp::kNone;
  Frame frame;
  bool read = false;
  {
    MutexLock lock(&mu_);
    if (finished_ || !break_status_.ok()) return;
    // A last word that is on its way stays the last word; the cancel only hurries it.
    if (!finishing_) break_status_ = std::move(why);
    broken_ = true;
    queue_.Clear();
    Mute();
    op = NextSend(&frame);
    read = std::exchange(read_put_off_, false);
  }
  CancelCall();
  Run(op, std::move(frame));
  if (read) StartRead(&read_frame_, read_event_.Arm());
}

StreamBase::SendOp StreamBase::NextSend(Frame* frame) {
  if (!open_ || sending_ || finishing_) return SendOp::kNone;
  SendOp op = SendOp::kNone;
  if (!broken_ && !queue_.empty()) {
    *frame = queue_.Pop();
    op = SendOp::kWrite;
  } else {
    op = NextWhenFlushed();
  }
  finishing_ = op == SendOp::kFinish;
  sending_ = op != SendOp::kNone && op != SendOp::kCancel;
  return op;
}

void StreamBase::Run(SendOp op, Frame frame) {
  switch (op) {
    case SendOp::kNone:
      return;
    case SendOp::kWrite:
      return StartWrite(frame, sent_event_.Arm());
    case SendOp::kHalfClose:
      return StartHalfClose(sent_event_.Arm());
    case SendOp::kCancel:
      return CancelCall();
    case SendOp::kFinish: {
      absl::Status status;
      {
        MutexLock lock(&mu_);
        status = break_status_.ok() ? close_status_ : break_status_;
      }
      return StartFinish(status, finished_event_.Arm());
    }
  }
}

void StreamBase::OnOpen(bool ok) {
  SendOp op = SendOp::kNone;
  Frame frame;
  {
    MutexLock lock(&mu_);
    open_ = true;
    if (!ok) {
      broken_ = true;
      read_ended_ = true;
      queue_.Clear();
    }
    op = NextSend(&frame);
  }
  if (ok) StartRead(&read_frame_, read_event_.Arm());
  Run(op, std::move(frame));
}

void StreamBase::Reject(const absl::Status& status) {
  SendOp op = SendOp::kNone;
  Frame frame;
  {
    MutexLock lock(&mu_);
    open_ = true;
    closing_ = true;
    read_ended_ = true;
    close_status_ = status;
    op = NextSend(&frame);
  }
  Run(op, std::move(frame));
}

void StreamBase::OnRead(bool ok) {
  if (!ok) return EndReads();
  Frame frame = std::move(read_frame_);
  if (!muted_.load(std::memory_order_relaxed)) {
    // Before the next read: that tells the peer at once how much it may send now, in a write of its
    // own that wakes the peer for nothing. An answer that is sent here takes it along.
    handler_->OnFrame(std::move(frame));
    if (!handler_->ExpectsMore() && PutReadOff()) return;
  }
  // A server that has closed reads no further; a client drains what comes until the end.
  if (muted_.load(std::memory_order_relaxed) && !EndOfReadsBreaks()) return EndReads();
  StartRead(&read_frame_, read_event_.Arm());
}

// False where the stream is ending: the end is noticed by a read.
bool StreamBase::PutReadOff() {
  MutexLock lock(&mu_);
  if (closing_ || broken_ || finishing_) return false;
  read_put_off_ = true;
  return true;
}

void StreamBase::EndReads() {
  SendOp op = SendOp::kNone;
  Frame frame;
  const bool stay = !EndOfReadsBreaks() && handler_ != nullptr && !handler_->OnPeerHalfClosed();
  {
    MutexLock lock(&mu_);
    read_ended_ = true;
    stay_open_ = stay;
    if (EndOfReadsBreaks()) {
      broken_ = true;
      queue_.Clear();
    }
    op = NextSend(&frame);
  }
  Run(op, std::move(frame));
  CloseIfDone();
}

void StreamBase::OnSent(bool ok) {
  SendOp op = SendOp::kNone;
  Frame frame;
  {
    MutexLock lock(&mu_);
    sending_ = false;
    if (!ok) {
      broken_ = true;
      queue_.Clear();
    }
    op = NextSend(&frame);
  }
  Run(op, std::move(frame));
}

void StreamBase::SendNext() {
  SendOp op = SendOp::kNone;
  Frame frame;
  {
    MutexLock lock(&mu_);
    op = NextSend(&frame);
  }
  Run(op, std::move(frame));
}

void StreamBase::OnFinished(bool ok) {
  {
    MutexLock lock(&mu_);
    sending_ = false;
    finished_ = true;
    finish_ok_ = ok;
  }
  CloseIfDone();
}

void StreamBase::CloseIfDone() {
  absl::Status status;
  {
    MutexLock lock(&mu_);
    if (!finished_ || !read_ended_ || notice_pending_) return;
    status = break_status_;
  }
  if (status.ok()) status = PeerStatus();
  const std::shared_ptr<StreamBase> self = shared_from_this();
  if (StreamHandler* handler = std::exchange(handler_, nullptr)) handler->OnClosed(status);
  ReleaseHandler();
  loop_->RemoveStream(this);
}

}  // namespace cohort

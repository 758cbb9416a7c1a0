#include "common/rpc/stream/stream_base.h"

#include <utility>

#include "common/base/status.h"

namespace cohort {

void StreamBase::Send(Frame frame) {
  const size_t bytes = frame.size();
  absl::Status over;
  Step step;
  {
    MutexLock lock(&mu_);
    if (closing_ || broken_ || finishing_) return;
    const bool cut = cuts_ && bytes > options_.piece_bytes;
    over = CheckLimits(bytes, cut);
    if (over.ok()) {
      if (cut) {
        for (Frame& piece : CutFrame(frame, options_.piece_bytes)) queue_.Push(std::move(piece));
      } else {
        queue_.Push(std::move(frame));
      }
      step = NextStep();
    }
  }
  if (!over.ok()) return Break(std::move(over));
  Run(std::move(step));
}

absl::Status StreamBase::CheckLimits(size_t bytes, bool cut) const {
  const size_t most = cut ? options_.max_message_bytes : options_.max_frame_bytes;
  if (bytes > most) {
    return ResourceExhausted("a frame of {} bytes to {} is over the limit of {}", bytes,
                             PeerAddress(), most);
  }
  if (bytes > options_.max_queued_bytes || queue_.bytes() > options_.max_queued_bytes - bytes) {
    return ResourceExhausted("{} does not read: {} bytes are queued, over the limit of {}",
                             PeerAddress(), queue_.bytes(), options_.max_queued_bytes);
  }
  return absl::OkStatus();
}

size_t StreamBase::queued_bytes() const {
  MutexLock lock(&mu_);
  return queue_.bytes();
}

void StreamBase::Close(absl::Status status) {
  Step step;
  {
    MutexLock lock(&mu_);
    if (closing_ || broken_ || finishing_) return;
    closing_ = true;
    close_status_ = std::move(status);
    if (!EndOfReadsBreaks()) Mute();
    step = NextStep();
  }
  Run(std::move(step));
}

void StreamBase::Abort() { Break(Cancelled("this end aborted the stream with {}", PeerAddress())); }

void StreamBase::Break(absl::Status why) {
  Step step;
  {
    MutexLock lock(&mu_);
    if (finished_ || !break_status_.ok()) return;
    // If a finish operation is in flight, its status stays; the cancel only speeds it up.
    if (!finishing_) break_status_ = std::move(why);
    broken_ = true;
    queue_.Clear();
    Mute();
    step = NextStep();
  }
  CancelCall();
  Run(std::move(step));
}

// Starts a delayed read together with the next write, or at the end of the stream, which only a
// read notices.
StreamBase::Step StreamBase::NextStep() {
  Step step;
  step.op = NextSend(&step.frame);
  if (step.op == SendOp::kWrite || closing_ || broken_) {
    step.read = std::exchange(read_delayed_, false);
  }
  return step;
}

StreamBase::SendOp StreamBase::NextSend(Frame* frame) {
  if (!open_ || sending_ || finishing_) return SendOp::kNone;
  SendOp op = SendOp::kNone;
  if (!broken_ && !queue_.empty()) {
    *frame = queue_.Pop();
    sending_bytes_ = frame->size();
    op = SendOp::kWrite;
  } else {
    op = NextWhenFlushed();
  }
  finishing_ = op == SendOp::kFinish;
  sending_ = op != SendOp::kNone && op != SendOp::kCancel;
  return op;
}

void StreamBase::Run(Step step) {
  switch (step.op) {
    case SendOp::kNone:
      break;
    case SendOp::kWrite:
      StartWrite(step.frame, sent_event_.Arm());
      break;
    case SendOp::kHalfClose:
      StartHalfClose(sent_event_.Arm());
      break;
    case SendOp::kCancel:
      CancelCall();
      break;
    case SendOp::kFinish: {
      absl::Status status;
      {
        MutexLock lock(&mu_);
        status = break_status_.ok() ? close_status_ : break_status_;
      }
      StartFinish(status, finished_event_.Arm());
      break;
    }
  }
  if (step.read) StartRead(&read_frame_, read_event_.Arm());
}

void StreamBase::JoinPieces() {
  joiner_ = std::make_unique<FrameJoiner>(
      FrameJoiner::Limits{.piece_bytes = options_.piece_bytes,
                          .message_bytes = options_.max_message_bytes,
                          .unfinished_bytes = options_.max_unfinished_bytes},
      loop_->unfinished_bytes());
}

// Returns true if `frame` is one for the handler: as it came, or joined with its last piece. Ends
// the stream after a bad piece; a server tells the client why.
bool StreamBase::Join(Frame* frame) {
  if (!std::exchange(knows_peer_, true) && PeerJoinsPieces()) {
    MutexLock lock(&mu_);
    cuts_ = true;
  }
  if (!joiner_->Takes(*frame)) return true;
  const absl::StatusOr<bool> whole = joiner_->Add(std::move(*frame));
  if (whole.ok()) {
    if (*whole) *frame = joiner_->Finish();
    return *whole;
  }
  EndOfReadsBreaks() ? Break(whole.status()) : Close(whole.status());
  return false;
}

void StreamBase::OnOpen(bool ok) {
  Step step;
  {
    MutexLock lock(&mu_);
    open_ = true;
    if (!ok) {
      broken_ = true;
      read_ended_ = true;
      queue_.Clear();
    }
    step = NextStep();
  }
  if (ok) StartRead(&read_frame_, read_event_.Arm());
  Run(std::move(step));
}

void StreamBase::Reject(const absl::Status& status) {
  Step step;
  {
    MutexLock lock(&mu_);
    open_ = true;
    closing_ = true;
    read_ended_ = true;
    close_status_ = status;
    step = NextStep();
  }
  Run(std::move(step));
}

void StreamBase::OnRead(bool ok) {
  if (!ok) return EndReads();
  Frame frame = std::move(read_frame_);
  moved_.received += frame.size();
  const bool whole = joiner_ == nullptr || Join(&frame);
  if (whole && !muted_.load(std::memory_order_relaxed)) {
    handler_->OnFrame(std::move(frame));
    // A read tells the peer at once how much it may send. A delayed one does so with the answer.
    if (!handler_->ExpectsMore() && DelayRead()) return;
  }
  // A server that has closed stops reading. A client drains frames until the end.
  if (muted_.load(std::memory_order_relaxed) && !EndOfReadsBreaks()) return EndReads();
  StartRead(&read_frame_, read_event_.Arm());
}

// Returns false if the stream is ending, because only a read notices the end.
bool StreamBase::DelayRead() {
  MutexLock lock(&mu_);
  if (closing_ || broken_ || finishing_) return false;
  read_delayed_ = true;
  return true;
}

void StreamBase::EndReads() {
  Step step;
  const bool stay = !EndOfReadsBreaks() && handler_ != nullptr && !handler_->OnPeerHalfClosed();
  {
    MutexLock lock(&mu_);
    read_ended_ = true;
    stay_open_ = stay;
    if (EndOfReadsBreaks()) {
      broken_ = true;
      queue_.Clear();
    }
    step = NextStep();
  }
  Run(std::move(step));
  CloseIfDone();
}

void StreamBase::OnSent(bool ok) {
  Step step;
  {
    MutexLock lock(&mu_);
    sending_ = false;
    if (ok) moved_.sent += sending_bytes_;
    sending_bytes_ = 0;
    if (!ok) {
      broken_ = true;
      queue_.Clear();
    }
    step = NextStep();
  }
  Run(std::move(step));
}

void StreamBase::SendNext() {
  Step step;
  {
    MutexLock lock(&mu_);
    step = NextStep();
  }
  Run(std::move(step));
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

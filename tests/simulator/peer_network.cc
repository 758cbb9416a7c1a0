#include "tests/simulator/peer_network.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace cohort::simulator {
namespace {

// What gRPC takes between a call of Send and the end of its write, at most.
constexpr int64_t kWriteUs = 60;
constexpr int64_t kSlowWriteUs = 3'000;
constexpr uint64_t kSlowWritePercent = 3;
// How long a stream that was aborted reads its frames, at most.
constexpr int64_t kReleaseUs = 1'000;
// Lent memory makes frames of several slices.
constexpr size_t kLentBytes = 2 << 10;
// In a dead process each look at the clock takes this time, so that every deadline passes.
constexpr std::chrono::milliseconds kLookOfDead{10};

std::string BytesOf(const Frame& frame) {
  std::vector<grpc::Slice> slices;
  (void)frame.bytes().Dump(&slices);
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// In two slices, as a socket may deliver them.
Frame FrameOf(const std::string& bytes, Chance* chance) {
  const size_t cut = chance->Below(bytes.size() + 1);
  const grpc::Slice slices[] = {grpc::Slice(bytes.data(), cut),
                                grpc::Slice(bytes.data() + cut, bytes.size() - cut)};
  return Frame(slices, 2);
}

}  // namespace

// ------------------------------------------------------------------ ProcessThread

void ProcessThread::Start(std::function<void()> body) {
  fiber_ = std::make_unique<Fiber>(std::move(body));
  node_->After(0, [this] { fiber_->Resume(); });
}

void ProcessThread::End() {
  dead_ = true;
  fiber_.reset();
}

bool ProcessThread::SleepUntil(int64_t us) {
  if (dead_) return false;
  const uint64_t number = ++number_;
  waiting_ = true;
  node_->After(us - world_->now_us(), [this, number] { Resume(number); });
  // The end of the process throws. Destructors that wait are on this stack too, so the code above
  // ends by itself instead.
  try {
    Fiber::Suspend();
  } catch (...) {
    dead_ = true;
  }
  waiting_ = false;
  return !dead_;
}

void ProcessThread::Wake() {
  if (!waiting_ || dead_) return;
  node_->After(0, [this, number = number_] { Resume(number); });
}

void ProcessThread::Resume(uint64_t number) {
  if (!waiting_ || number != number_) return;
  waiting_ = false;
  fiber_->Resume();
}

// ------------------------------------------------------------------ PeerProcess

void PeerProcess::Accept(const std::shared_ptr<Stream>& wire) {
  auto stream = std::make_shared<PeerServerStream>(this, wire);
  accepted.push_back(stream);
  const std::weak_ptr<PeerServerStream> weak = stream;
  wire->Set(Stream::kAcceptor, {.on_message =
                                    [weak](Message message) {
                                      const auto self = weak.lock();
                                      if (self != nullptr)
                                        self->OnMessage(std::get<PeerMessage>(std::move(message)));
                                    },
                                .on_closed =
                                    [weak](bool) {
                                      if (const auto self = weak.lock()) self->OnWireClosed();
                                    }});
}

void PeerProcess::DropStreams() {
  const auto streams = std::exchange(accepted, {});
  for (const auto& stream : streams) stream->Drop();
}

// ------------------------------------------------------------------ PeerServerStream

std::string PeerServerStream::metadata(const std::string& key) const {
  return key == PeerStreamName::kKey ? name_ : "";
}

void PeerServerStream::OnMessage(PeerMessage message) {
  switch (message.kind) {
    case PeerMessage::Kind::kOpen: {
      name_ = std::move(message.bytes);
      const auto methods = process_->service.Methods();
      handler_ = methods.at(PeerService::kMethod)(shared_from_this(), nullptr);
      if (handler_ == nullptr) Abort();
      return;
    }
    case PeerMessage::Kind::kRead:
      unread_ -= message.read;
      return Write();
    case PeerMessage::Kind::kHalfClose:
      return Close(absl::OkStatus());
    default:
      return;
  }
}

void PeerServerStream::OnWireClosed() {
  ReleaseLater();
  ended_ = true;
  EndHandler(Unavailable("the connection was lost"));
}

void PeerServerStream::Drop() {
  queue_.clear();
  dying_.clear();
  ended_ = true;
  EndHandler(Cancelled("the process is dead"));
}

void PeerServerStream::Send(Frame frame) {
  if (ended_ || closing_ || process_->thread.dead()) return;
  std::string bytes = BytesOf(frame);
  queue_.push_back({std::move(frame), std::move(bytes)});
  Write();
}

size_t PeerServerStream::queued_bytes() const {
  size_t bytes = 0;
  for (const Queued& queued : queue_) bytes += queued.bytes.size();
  return bytes;
}

void PeerServerStream::Write() {
  if (writing_ || ended_ || process_->thread.dead()) return;
  if (queue_.empty()) {
    if (closing_) SendEnd();
    return;
  }
  if (unread_ > 0 && unread_ + queue_.front().bytes.size() > kWindowBytes) return;
  writing_ = true;
  Chance& chance = process_->network->world()->chance;
  const bool slow = chance.Percent(kSlowWritePercent);
  process_->node->After(chance.Between(0, slow ? kSlowWriteUs : kWriteUs),
                        [self = shared_from_this()] { self->WriteFront(); });
}

void PeerServerStream::WriteFront() {
  writing_ = false;
  if (ended_ || queue_.empty()) return;
  CheckUnchanged(queue_.front());
  PeerMessage message;
  message.bytes = std::move(queue_.front().bytes);
  queue_.pop_front();
  unread_ += message.bytes.size();
  wire_->Send(simulator::Stream::kAcceptor, std::move(message));
  Write();
}

void PeerServerStream::CheckUnchanged(const Queued& queued) const {
  if (queued.bytes.size() >= kLentBytes) ++process_->lent_frames;
  if (BytesOf(queued.frame) == queued.bytes) return;
  process_->violate("a buffer was written while the transport read it");
}

void PeerServerStream::Close(absl::Status status) {
  if (closing_ || ended_) return;
  closing_ = true;
  end_ = std::move(status);
  Write();
}

void PeerServerStream::SendEnd() {
  ended_ = true;
  PeerMessage message;
  message.kind = PeerMessage::Kind::kEnd;
  message.status = end_;
  wire_->Send(simulator::Stream::kAcceptor, std::move(message));
  // On a thread of the server.
  process_->node->After(0, [self = shared_from_this()] { self->EndHandler(absl::OkStatus()); });
}

void PeerServerStream::Abort() {
  if (ended_) return;
  ended_ = true;
  ReleaseLater();
  wire_->Close(simulator::Stream::kAcceptor);
  EndHandler(Cancelled("aborted"));
}

// The transport still reads the frames for a while.
void PeerServerStream::ReleaseLater() {
  if (process_->thread.dead()) return queue_.clear();
  for (Queued& queued : queue_) dying_.push_back(std::move(queued));
  queue_.clear();
  if (dying_.empty()) return;
  process_->node->After(process_->network->world()->chance.Between(0, kReleaseUs),
                        [self = shared_from_this()] {
                          for (const Queued& queued : self->dying_) self->CheckUnchanged(queued);
                          self->dying_.clear();
                          // It may be kept only for its frames.
                          if (self->handler_ == nullptr) {
                            self->process_->accepted.remove(self);
                          }
                        });
}

void PeerServerStream::EndHandler(const absl::Status& status) {
  const auto self = shared_from_this();
  if (handler_ != nullptr) std::exchange(handler_, nullptr)->OnClosed(status);
  // A stream that was closed waits for its end to arrive.
  if (dying_.empty() && !wire_->open(simulator::Stream::kAcceptor)) process_->accepted.remove(self);
}

// ------------------------------------------------------------------ SimulatedPeerTransport

// The end of a stream at the process that has dialed.
class SimulatedPeerTransport::Dialed final : public cohort::Stream,
                                             public std::enable_shared_from_this<Dialed> {
 public:
  Dialed(SimulatedPeerTransport* owner, StreamHandler* handler)
      : owner_(owner), handler_(handler) {}

  void Open(Node* to, const PeerStreamName& name) {
    const std::weak_ptr<Dialed> weak = weak_from_this();
    wire_ = owner_->process_->network->Dial(
        owner_->process_->node, to, StreamKind::kData,
        {.on_open =
             [weak, text = name.ToString()] {
               const auto self = weak.lock();
               if (self == nullptr) return;
               PeerMessage message;
               message.kind = PeerMessage::Kind::kOpen;
               message.bytes = text;
               self->wire_->Send(simulator::Stream::kDialler, std::move(message));
             },
         .on_message =
             [weak](Message message) {
               const auto self = weak.lock();
               if (self != nullptr) self->OnMessage(std::get<PeerMessage>(std::move(message)));
             },
         .on_closed =
             [weak](bool) {
               if (const auto self = weak.lock()) self->End(Unavailable("the connection was lost"));
             }});
  }

  // Later events of the stream are dropped.
  void End(absl::Status status) {
    if (ended_) return;
    ended_ = true;
    if (wire_ != nullptr) wire_->Close(simulator::Stream::kDialler);
    if (owner_ == nullptr) return;
    owner_->Push(
        {.stream = shared_from_this(), .closed = true, .bytes = "", .status = std::move(status)});
  }

  // On the thread of the group.
  void Handle(Event event) {
    if (event.closed) {
      owner_ = nullptr;
      if (handler_ != nullptr) std::exchange(handler_, nullptr)->OnClosed(event.status);
      return;
    }
    if (aborted_ || handler_ == nullptr) return;
    PeerMessage read;
    read.kind = PeerMessage::Kind::kRead;
    read.read = event.bytes.size();
    wire_->Send(simulator::Stream::kDialler, std::move(read));
    handler_->OnFrame(FrameOf(event.bytes, &owner_->process_->network->world()->chance));
  }
  // The process is dead.
  void Drop() {
    ended_ = aborted_ = true;
    owner_ = nullptr;
    if (handler_ != nullptr) std::exchange(handler_, nullptr)->OnClosed(Cancelled("dead"));
  }

  void Send(Frame) override {}  // clients send nothing
  size_t queued_bytes() const override { return 0; }
  void Close(absl::Status status) override {
    if (!status.ok()) return Abort();
    if (ended_ || wire_ == nullptr) return;
    PeerMessage message;
    message.kind = PeerMessage::Kind::kHalfClose;
    wire_->Send(simulator::Stream::kDialler, std::move(message));
  }
  void Abort() override {
    aborted_ = true;
    End(Cancelled("aborted"));
  }
  StreamPeer peer() const override { return {"simulated"}; }

 private:
  void OnMessage(PeerMessage message) {
    if (ended_) return;
    if (message.kind == PeerMessage::Kind::kEnd) return End(message.status);
    if (message.kind != PeerMessage::Kind::kFrame) return;
    owner_->Push({.stream = shared_from_this(),
                  .closed = false,
                  .bytes = std::move(message.bytes),
                  .status = absl::OkStatus()});
  }

  SimulatedPeerTransport* owner_;  // null: OnClosed was called
  StreamHandler* handler_;
  std::shared_ptr<simulator::Stream> wire_;
  bool ended_ = false;    // nothing more is queued for the thread
  bool aborted_ = false;  // frames that are queued are dropped
};

SimulatedPeerTransport::~SimulatedPeerTransport() { Shutdown(); }

TimePoint SimulatedPeerTransport::Now() const {
  const TimePoint now = process_->network->world()->Now();
  return process_->thread.dead() ? now + kLookOfDead * ++looks_of_dead_ : now;
}

void SimulatedPeerTransport::Push(Event event) {
  events_.push_back(std::move(event));
  process_->thread.Wake();
}

bool SimulatedPeerTransport::HandleOne() {
  if (events_.empty()) return std::exchange(woken_, false);
  Event event = std::move(events_.front());
  events_.pop_front();
  if (event.closed) open_.remove(event.stream);
  const std::shared_ptr<Dialed> stream = event.stream;
  stream->Handle(std::move(event));
  return true;
}

void SimulatedPeerTransport::CloseAll() {
  events_.clear();
  const auto streams = std::exchange(open_, {});
  for (const auto& stream : streams) stream->Drop();
}

bool SimulatedPeerTransport::Poll(TimePoint deadline) {
  if (!process_->thread.dead()) {
    if (HandleOne()) return true;
    const int64_t until_us =
        std::chrono::duration_cast<std::chrono::microseconds>(deadline.time_since_epoch()).count();
    if (until_us <= process_->network->world()->now_us()) return false;
    if (process_->thread.SleepUntil(until_us)) return HandleOne();
  }
  CloseAll();
  process_->DropStreams();
  return false;
}

void SimulatedPeerTransport::Wake() {
  woken_ = true;
  process_->thread.Wake();
}

absl::Status SimulatedPeerTransport::Prepare(int rank, int /*worker*/, const std::string& address) {
  nodes_.resize(std::max(nodes_.size(), static_cast<size_t>(rank) + 1));
  nodes_[static_cast<size_t>(rank)] = process_->find_node(std::stoi(address));
  return absl::OkStatus();
}

std::shared_ptr<cohort::Stream> SimulatedPeerTransport::Dial(int rank, const PeerStreamName& name,
                                                             StreamHandler* handler) {
  auto stream = std::make_shared<Dialed>(this, handler);
  open_.push_back(stream);
  if (!process_->thread.dead()) stream->Open(nodes_[static_cast<size_t>(rank)], name);
  return stream;
}

void SimulatedPeerTransport::Shutdown() {
  for (const auto& stream : std::list(open_)) stream->Abort();
  while (HandleOne()) {
  }
  CloseAll();
}

}  // namespace cohort::simulator

#include "common/rpc/stream/socket_stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "common/cluster/address.h"
#include "common/cluster/security.h"
#include "common/rpc/stream/connection_acceptor.h"
#include "common/rpc/stream/frame.h"
#include "common/rpc/stream/listen_address.h"
#include "common/rpc/stream/socket_owner.h"
#include "common/rpc/stream/transport_options.h"
#include "proto/types.pb.h"

namespace cohort {
namespace {

// Longer frames lie in buffers that are used again.
constexpr size_t kSmallFrame = 4096;
// Attempts to reach a host that does not answer: they take 7 s.
constexpr int kConnectAttempts = 3;
// A silent peer is lost after 20 s without an answer.
constexpr int kProbeSeconds = 5;
constexpr int kProbes = 3;

void SetOption(const UniqueFd& fd, int level, int name, int value) {
  setsockopt(fd.get(), level, name, &value, sizeof(value));
}

// Those of TCP have no effect on a unix socket.
void SetOptions(const UniqueFd& fd) {
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, kProbeSeconds);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  // The kernel would also count the time in which the peer does not read, because it is busy.
  SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 0);
}

absl::Status Lost(const std::string& address, int error) {
  return Unavailable("{}: {}", address,
                     error == 0 ? "the connection was closed" : std::strerror(error));
}

// A slice over a buffer, which it owns.
grpc::Slice SliceOf(BufferRef buffer) {
  uint8_t* const data = buffer->data();
  const size_t size = buffer->size();
  return grpc::Slice(
      data, size, [](void* owned) { BufferRef::Adopt(static_cast<Buffer*>(owned)); },
      buffer.Detach());
}

Frame FrameOfStatus(const absl::Status& status) {
  v1::StatusProto proto;
  StatusToProto(status, &proto);
  return SerializeToFrame(proto);
}

}  // namespace

// ---------------------------------------------------------------- both ends

void SocketStream::OnReady(uint32_t events) {
  if (connecting_) return FinishConnect();
  if ((events & EPOLLOUT) != 0) Flush();
  if (!ended_ && (events & ~uint32_t{EPOLLOUT}) != 0) Read();
}

void SocketStream::UpdateEvents() {
  if (ended_) return;
  const bool writes = connecting_ || first_pending_ < pending_.size();
  const uint32_t events = (peer_ended_ ? 0 : uint32_t{EPOLLIN}) | (writes ? uint32_t{EPOLLOUT} : 0);
  if (events == events_) return;
  loop_->Watch(this, fd_.get(), events, /*known=*/true);
  events_ = events;
}

void SocketStream::Read() {
  if (dialed_) return ReadFrames();
  AwaitPeerEnd();
}

void SocketStream::Abort() { End(Cancelled("this end aborted the stream with {}", address_)); }

// Drops what is queued.
void SocketStream::End(absl::Status status) {
  if (std::exchange(ended_, true)) return;
  end_status_ = std::move(status);
  pending_.clear();
  first_pending_ = first_offset_ = queued_bytes_ = 0;
  fd_.Close();
  loop_->EndLater(this);
}

void SocketStream::DeliverEnd() {
  if (StreamHandler* handler = std::exchange(handler_, nullptr)) handler->OnClosed(end_status_);
  owned_handler_ = nullptr;
}

// ---------------------------------------------------------------- the dialing end

std::shared_ptr<SocketStream> SocketStream::Dial(SocketLoop* loop, const std::string& address,
                                                 const Hello& hello, StreamHandler* handler) {
  std::shared_ptr<SocketStream> stream(new SocketStream(loop, /*dialed=*/true));
  loop->Add(stream);
  stream->address_ = address;
  stream->handler_ = handler;
  std::string begin(1, static_cast<char>(ConnectionAcceptor::kSocketByte));
  for (const std::string* field : {&hello.token, &hello.name}) {
    begin += static_cast<char>(field->size());
    begin += *field;
  }
  stream->pending_.emplace_back(begin.data(), begin.size());
  stream->queued_bytes_ = begin.size();
  if (address.starts_with("unix:")) {
    sockaddr_un path = {};
    path.sun_family = AF_UNIX;
    const std::string text = UnixPath(address);
    std::memcpy(path.sun_path, text.data(), std::min(text.size(), sizeof(path.sun_path) - 1));
    stream->ConnectTo(AF_UNIX, reinterpret_cast<const sockaddr*>(&path), sizeof(path));
    return stream;
  }
  const absl::StatusOr<Address> parsed = ParseAddress(address);
  if (!parsed.ok()) {
    stream->End(parsed.status());
    return stream;
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error =
      getaddrinfo(parsed->host.c_str(), std::to_string(parsed->port).c_str(), &hints, &list);
  if (error != 0) {
    stream->End(Unavailable("{}: {}", address, gai_strerror(error)));
    return stream;
  }
  stream->resolved_.reset(list);
  stream->next_address_ = list;
  stream->Connect(Lost(address, EADDRNOTAVAIL));
  return stream;
}

// Tries the next address of the host; `last_error` is the end if there is none.
void SocketStream::Connect(absl::Status last_error) {
  if (next_address_ == nullptr) return End(std::move(last_error));
  const addrinfo* const to = std::exchange(next_address_, next_address_->ai_next);
  ConnectTo(to->ai_family, to->ai_addr, to->ai_addrlen);
}

void SocketStream::ConnectTo(int family, const sockaddr* address, socklen_t size) {
  fd_ = UniqueFd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd_.ok()) {
    SetOptions(fd_);
    SetOption(fd_, IPPROTO_TCP, TCP_SYNCNT, kConnectAttempts - 1);
  }
  if (!fd_.ok() || (connect(fd_.get(), address, size) != 0 && errno != EINPROGRESS)) {
    return Connect(Lost(address_, errno));
  }
  connecting_ = true;
  events_ = EPOLLOUT;
  loop_->Watch(this, fd_.get(), events_, /*known=*/false);
}

void SocketStream::FinishConnect() {
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  connecting_ = false;
  if (error != 0) return Connect(Lost(address_, error));
  handler_->OnConnected();
  if (!ended_) Flush();
}

// Reads once, so that all sockets get their turn.
void SocketStream::ReadFrames() {
  iovec to[2];
  int parts = 0;
  size_t own = 0;
  if (in_frame_) {
    own = body_.size() - body_filled_;
    to[parts++] = {const_cast<uint8_t*>(body_.begin()) + body_filled_, own};
  }
  to[parts++] = {stage_.data() + stage_end_, stage_.size() - stage_end_};
  const ssize_t got = readv(fd_.get(), to, parts);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return End(Lost(address_, got == 0 ? 0 : errno));
  const size_t filled = std::min(own, static_cast<size_t>(got));
  TakeBody(filled);
  stage_end_ += static_cast<size_t>(got) - filled;
  if (in_frame_ && body_filled_ == body_.size()) FinishFrame();
  if (!ended_ && !in_frame_) UseStage();
}

// The stage begins with the head of a frame.
void SocketStream::UseStage() {
  Head head = {};
  while (!ended_ && !in_frame_ && stage_end_ - stage_begin_ >= sizeof(head)) {
    std::memcpy(&head, &stage_[stage_begin_], sizeof(head));
    if (!BeginFrame(head)) break;
    if (body_filled_ == body_.size()) FinishFrame();
  }
  std::memmove(stage_.data(), stage_.data() + stage_begin_, stage_end_ - stage_begin_);
  stage_end_ -= std::exchange(stage_begin_, 0);
}

// Begins the frame at the begin of the stage. Returns false if the stream has ended because the
// frame is too long.
bool SocketStream::BeginFrame(const Head& head) {
  const size_t size = head.word & ~kEnd;
  const size_t most = TransportOptions().max_frame_bytes;
  if (size > most) {
    End(ResourceExhausted("{} sends a frame of {} bytes, over the limit of {}", address_, size,
                          most));
    return false;
  }
  const uint8_t* const bytes = stage_.data() + stage_begin_ + sizeof(head);
  const size_t present = std::min(size, stage_end_ - stage_begin_ - sizeof(head));
  body_ = size <= kSmallFrame ? grpc::Slice(size) : SliceOf(loop_->pool()->Allocate(size));
  is_end_ = (head.word & kEnd) != 0;
  in_frame_ = true;
  frame_crc_ = head.crc;
  body_filled_ = body_crc_ = 0;
  std::copy_n(bytes, present, const_cast<uint8_t*>(body_.begin()));
  TakeBody(present);
  stage_begin_ += sizeof(head) + present;
  return true;
}

// `bytes` more lie in the body. They are summed while they are in a core's cache.
void SocketStream::TakeBody(size_t bytes) {
  body_crc_ =
      ExtendCrc32c(body_crc_, {reinterpret_cast<const char*>(body_.begin()) + body_filled_, bytes});
  body_filled_ += bytes;
}

void SocketStream::FinishFrame() {
  in_frame_ = false;
  const grpc::Slice body = std::exchange(body_, {});
  if (body_crc_ != frame_crc_) {
    return End(
        Unavailable("{}: a frame of {} bytes was damaged on its way (CRC32C {:08x} instead "
                    "of {:08x})",
                    address_, body.size(), body_crc_, frame_crc_));
  }
  Frame frame(&body, 1);
  if (!is_end_) return handler_->OnFrame(std::move(frame));
  v1::StatusProto proto;
  const absl::Status parsed = ParseFromFrame(frame, &proto);
  End(parsed.ok() ? StatusFromProto(proto) : parsed);
}

// ---------------------------------------------------------------- the accepting end

std::shared_ptr<SocketStream> SocketStream::Accept(SocketLoop* loop, UniqueFd connection) {
  std::shared_ptr<SocketStream> stream(new SocketStream(loop, /*dialed=*/false));
  loop->Add(stream);
  stream->address_ = "the peer";
  stream->fd_ = std::move(connection);
  SetOptions(stream->fd_);
  stream->events_ = EPOLLIN;
  loop->Watch(stream.get(), stream->fd_.get(), stream->events_, /*known=*/false);
  return stream;
}

void SocketStream::Serve(std::unique_ptr<StreamHandler> handler) {
  owned_handler_ = std::move(handler);
  handler_ = owned_handler_.get();
}

bool SocketStream::Admit(const Security& security, UniqueFd* connection) {
  char begin = 0;
  if (recv(connection->get(), &begin, 1, MSG_DONTWAIT) != 1) return false;
  const std::optional<std::string> token = TakeName(*connection);
  if (!token.has_value()) return false;
  const std::optional<TcpEnds> ends = EndsOf(connection->get());
  const absl::Status admitted =
      security.CheckSecret(*token, ends.has_value() ? PeerName(*ends) : "unix:", "");
  if (!admitted.ok()) Refuse(std::move(*connection), admitted);
  return admitted.ok();
}

std::optional<std::string> SocketStream::TakeName(const UniqueFd& connection) {
  uint8_t size = 0;
  if (recv(connection.get(), &size, 1, MSG_DONTWAIT) != 1) return std::nullopt;
  std::string name(size, '\0');
  if (size == 0) return name;
  const ssize_t got = recv(connection.get(), name.data(), name.size(), MSG_DONTWAIT);
  if (got != static_cast<ssize_t>(name.size())) return std::nullopt;
  return name;
}

void SocketStream::Refuse(UniqueFd connection, const absl::Status& status) {
  const Frame frame = FrameOfStatus(status);
  grpc::Slice slice;
  if (!frame.bytes().TrySingleSlice(&slice).ok()) return;
  const std::string_view text(reinterpret_cast<const char*>(slice.begin()), slice.size());
  const Head head = {static_cast<uint32_t>(slice.size()) | kEnd, Crc32c(text)};
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof(head));
  bytes += text;
  // Fits into the buffer of a new socket.
  [[maybe_unused]] const ssize_t sent =
      send(connection.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

// The dialing end sends nothing more until it shuts its side down.
void SocketStream::AwaitPeerEnd() {
  std::array<char, 64> ignored;
  const ssize_t got = recv(fd_.get(), ignored.data(), ignored.size(), MSG_DONTWAIT);
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return;
  if (got < 0 || peer_ended_) return End(Lost(address_, got < 0 ? errno : 0));
  peer_ended_ = true;
  UpdateEvents();
  Close(absl::OkStatus());
}

// ---------------------------------------------------------------- writing

void SocketStream::Send(Frame frame) {
  if (closing_ || ended_) return;
  Queue(frame, 0);
  Flush();
}

void SocketStream::Close(absl::Status status) {
  if (closing_ || ended_) return;
  if (dialed_ && (connecting_ || !status.ok())) return End(std::move(status));
  closing_ = true;
  if (!dialed_) Queue(FrameOfStatus(status), kEnd);
  Flush();
}

void SocketStream::Queue(const Frame& frame, uint32_t flags) {
  if (first_pending_ > pending_.size() / 2 && pending_.size() == pending_.capacity()) {
    pending_.erase(pending_.begin(),
                   pending_.begin() + static_cast<std::ptrdiff_t>(first_pending_));
    first_pending_ = 0;
  }
  slices_.clear();
  if (frame.size() > 0 && !frame.bytes().Dump(&slices_).ok()) slices_.clear();
  Head head = {static_cast<uint32_t>(frame.size()) | flags, 0};
  for (const grpc::Slice& slice : slices_) {
    head.crc = ExtendCrc32c(head.crc, {reinterpret_cast<const char*>(slice.begin()), slice.size()});
  }
  pending_.emplace_back(&head, sizeof(head));
  for (grpc::Slice& slice : slices_) pending_.push_back(std::move(slice));
  slices_.clear();
  queued_bytes_ += sizeof(head) + frame.size();
}

// Writes what the socket takes.
void SocketStream::Flush() {
  if (connecting_) return;
  std::array<iovec, 64> parts;
  while (first_pending_ < pending_.size()) {
    msghdr message = {};
    message.msg_iov = parts.data();
    message.msg_iovlen = GatherPending(&parts);
    const ssize_t sent = sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) return End(Lost(address_, errno));
    DropSent(static_cast<size_t>(sent));
  }
  UpdateEvents();
  if (!closing_ || first_pending_ < pending_.size()) return;
  if (!dialed_) return End(absl::OkStatus());
  if (!std::exchange(shut_down_, true)) shutdown(fd_.get(), SHUT_WR);
}

size_t SocketStream::GatherPending(std::array<iovec, 64>* to) const {
  size_t count = 0;
  size_t offset = first_offset_;
  for (size_t i = first_pending_; i < pending_.size() && count < to->size(); ++i) {
    const grpc::Slice& slice = pending_[i];
    (*to)[count++] = {const_cast<uint8_t*>(slice.begin()) + offset, slice.size() - offset};
    offset = 0;
  }
  return count;
}

void SocketStream::DropSent(size_t bytes) {
  queued_bytes_ -= bytes;
  first_offset_ += bytes;
  while (first_pending_ < pending_.size() && first_offset_ >= pending_[first_pending_].size()) {
    first_offset_ -= pending_[first_pending_].size();
    pending_[first_pending_++] = grpc::Slice();  // its owner may write the memory again
  }
  if (first_pending_ < pending_.size()) return;
  pending_.clear();
  first_pending_ = 0;
}

}  // namespace cohort

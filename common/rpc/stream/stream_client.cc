#include "common/rpc/stream/stream_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/channel_arguments.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/cluster/address.h"
#include "common/rpc/stream/credentials.h"
#include "common/rpc/stream/grpc_status.h"
#include "common/rpc/stream/grpc_tuning.h"
#include "common/rpc/stream/listen_address.h"
#include "common/rpc/stream/peer_admission.h"
#include "common/rpc/stream/stream_base.h"

namespace cohort {
namespace {

// IP literals bypass the resolver with its caches and delays.
std::string ToTarget(const std::string& address) {
  if (address.starts_with("unix:")) return address;
  if (address.starts_with('[')) return "ipv6:" + address;
  if (address.find_first_not_of("0123456789.:") == std::string::npos) return "ipv4:" + address;
  return "dns:///" + address;
}

class ClientStream final : public StreamBase {
 public:
  ClientStream(std::string address, std::shared_ptr<grpc::Channel> channel, StreamHandler* handler,
               CompletionLoop* loop, const TransportOptions& options)
      : StreamBase(loop, options), address_(std::move(address)), channel_(std::move(channel)) {
    handler_ = handler;
  }

  void Start(const std::string& method, const StreamClient::OpenOptions& options,
             const std::string& secret_token) {
    context_.set_wait_for_ready(options.wait_for_ready);
    if (!secret_token.empty()) context_.AddMetadata(kSecretKey, secret_token);
    for (const auto& [key, value] : options.metadata) context_.AddMetadata(key, value);
    if (options.joins_pieces) {
      context_.AddMetadata(kPiecesKey, "1");
      JoinPieces();
    }
    call_ = grpc::GenericStub(channel_).PrepareCall(&context_, method, loop_->queue());
    if (options.wait_for_ready && options.connect_timeout.count() > 0) {
      const std::weak_ptr<StreamBase> weak = weak_from_this();
      timer_ = loop_->After(options.connect_timeout, [weak, limit = options.connect_timeout] {
        if (const auto self = weak.lock()) static_cast<ClientStream*>(self.get())->GiveUp(limit);
      });
    }
    call_->StartCall(started_event_.Arm());
  }

  StreamPeer peer() const override { return {.address = address_, .identity = std::nullopt}; }

 protected:
  void StartRead(Frame* frame, void* tag) override { call_->Read(&frame->bytes(), tag); }
  void StartWrite(const Frame& frame, void* tag) override { call_->Write(frame.bytes(), tag); }
  void StartHalfClose(void* tag) override { call_->WritesDone(tag); }
  void StartFinish(const absl::Status&, void* tag) override { call_->Finish(&final_status_, tag); }
  void CancelCall() override { context_.TryCancel(); }
  std::string PeerAddress() const override { return address_; }
  bool EndOfReadsBreaks() const override { return true; }
  bool PeerJoinsPieces() const override {
    return context_.GetServerInitialMetadata().count(kPiecesKey) > 0;
  }

  SendOp NextWhenFlushed() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (read_ended_) return SendOp::kFinish;
    if (!closing_ || broken_ || half_closed_) return SendOp::kNone;
    half_closed_ = true;
    if (close_status_.ok()) return SendOp::kHalfClose;
    // gRPC cannot tell a server why.
    broken_ = true;
    return SendOp::kCancel;
  }

  absl::Status PeerStatus() override {
    {
      MutexLock lock(&mu_);
      if (closing_ && !close_status_.ok()) return close_status_;
    }
    const auto& trailers = context_.GetServerTrailingMetadata();
    const auto found = trailers.find(kFailureMetadataKey);
    const std::string failure = found == trailers.end()
                                    ? std::string()
                                    : std::string(found->second.data(), found->second.size());
    return Annotate(FromGrpcStatus(final_status_, failure), address_);
  }

 private:
  void OnStarted(bool ok) {
    if (timer_ != 0) loop_->CancelTimer(std::exchange(timer_, 0));
    connected_ = true;
    if (ok) handler_->OnConnected();
    OnOpen(ok);
  }

  void GiveUp(std::chrono::milliseconds limit) {
    timer_ = 0;
    if (connected_) return;
    Break(DeadlineExceeded("no connection to {} within {} ms", address_, limit.count()));
  }

  const std::string address_;
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  grpc::Status final_status_;
  Event started_event_{this, static_cast<Event::Method>(&ClientStream::OnStarted)};
  // Used by the loop's thread only.
  CompletionLoop::TimerId timer_ = 0;
  bool connected_ = false;
};

// Does not wait.
absl::StatusOr<UniqueFd> ConnectUnix(const std::string& address, int send_buffer_bytes) {
  const std::string path = UnixPath(address);
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.data(), std::min(path.size(), sizeof(name.sun_path) - 1));
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.ok()) {
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUF, &send_buffer_bytes, sizeof(send_buffer_bytes));
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0) return fd;
  }
  return Unavailable("{}: {}", address, std::strerror(errno));
}

absl::Status CheckAddress(const std::string& address) {
  if (address.starts_with("unix:")) {
    if (address.size() > 5) return absl::OkStatus();
    return InvalidArgument("\"{}\" has no path", address);
  }
  return Annotate(ParseAddress(address).status(), "dialing");
}

}  // namespace

absl::StatusOr<std::unique_ptr<StreamClient>> StreamClient::Create(std::string address,
                                                                   const Options& options) {
  COHORT_RETURN_IF_ERROR(CheckAddress(address));
  std::unique_ptr<StreamClient> client(new StreamClient(std::move(address), options));
  MutexLock lock(&client->mu_);
  COHORT_RETURN_IF_ERROR(client->Connect());
  return client;
}

absl::Status StreamClient::Connect() {
  const Security& security = *options_.security;
  const uint64_t material = security.uses_tls(address_) ? security.Material()->version : 0;
  COHORT_ASSIGN_OR_RETURN(const auto credentials,
                          ChannelCredentialsFor(options_.security, address_, options_.task));
  grpc::ChannelArguments arguments;
  ApplyTransportOptions(options_.transport, &arguments);
  if (options_.send_buffer_bytes > 0 && address_.starts_with("unix:")) {
    COHORT_ASSIGN_OR_RETURN(UniqueFd fd, ConnectUnix(address_, options_.send_buffer_bytes));
    channel_ = grpc::CreateCustomInsecureChannelFromFd(address_, fd.Release(), arguments);
    return absl::OkStatus();
  }
  channel_ = grpc::CreateCustomChannel(ToTarget(address_), credentials, arguments);
  material_ = material;
  return absl::OkStatus();
}

std::shared_ptr<grpc::Channel> StreamClient::Channel() {
  const Security& security = *options_.security;
  MutexLock lock(&mu_);
  if (security.uses_tls(address_) && security.Material()->version != material_) {
    Connect().IgnoreError();  // the address was accepted before
  }
  return channel_;
}

StreamClient::~StreamClient() = default;

std::shared_ptr<Stream> StreamClient::Open(const std::string& method, StreamHandler* handler,
                                           CompletionLoop* loop, const OpenOptions& open_options) {
  auto stream =
      std::make_shared<ClientStream>(address_, Channel(), handler, loop, options_.transport);
  if (loop->AddStream(stream)) {
    stream->Start(method, open_options, options_.security->secret_token());
  } else {
    handler->OnClosed(Cancelled("no stream to {}: the loop has been shut down", address_));
  }
  return stream;
}

}  // namespace cohort

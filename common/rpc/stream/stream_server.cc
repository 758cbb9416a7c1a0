#include "common/rpc/stream/stream_server.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <utility>

#include "common/base/status.h"
#include "common/rpc/stream/connection_acceptor.h"
#include "common/rpc/stream/credentials.h"
#include "common/rpc/stream/grpc_tuning.h"
#include "common/rpc/stream/health_service.h"
#include "common/rpc/stream/listen_address.h"
#include "common/rpc/stream/peer_admission.h"
#include "common/rpc/stream/pending_peers.h"
#include "common/rpc/stream/server_stream.h"
#include "common/rpc/stream/socket_stream.h"

namespace cohort {

class StreamServer::Impl {
 public:
  Impl(const Options& options, Methods methods)
      : options_(options), health_(options.health_services), methods_(std::move(methods)) {
    methods_.merge(health_.Methods());
  }

  absl::Status Listen(std::vector<int>* ports);
  void Shutdown(const absl::Status& status, std::chrono::milliseconds grace);
  std::vector<uint64_t> Turns();

  // Constant after Listen.
  const Options options_;
  HealthService health_;
  Methods methods_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<RegisteredMethods> control_methods_;  // null: there is no control thread
  std::vector<std::unique_ptr<CompletionLoop>> loops_;
  std::unique_ptr<CompletionLoop> control_loop_;  // null: as above
  const std::shared_ptr<PendingPeers> pending_ = std::make_shared<PendingPeers>();
  ConnectionAcceptor acceptor_{options_.security->refusals(), pending_.get()};
  std::unique_ptr<grpc::Server> server_;

 private:
  absl::Status AddPorts(grpc::ServerBuilder* builder, std::vector<int>* ports);
  ConnectionAcceptor::Take TakerFor(grpc::ServerBuilder* builder,
                                    std::shared_ptr<grpc::ServerCredentials> credentials);
  ConnectionAcceptor::Takers TakersFor(ConnectionAcceptor::Take grpc) const;
  ConnectionAcceptor::Peers PeersOf(const std::string& address) const;
  void AddControlLoop(grpc::ServerBuilder* builder);
  void Accept(CompletionLoop* loop);
  void AcceptControl(size_t method);
  void OnAccept(const std::shared_ptr<ServerStream>& stream);

  // What one loop was asked by Turns, and what it has answered.
  struct Question {
    uint64_t asked = 0;
    std::shared_ptr<std::atomic<uint64_t>> answered = std::make_shared<std::atomic<uint64_t>>(0);
  };

  std::vector<Question> questions_;  // used by the thread that calls Turns
  std::atomic<bool> stopped_{false};
};

absl::Status StreamServer::Impl::AddPorts(grpc::ServerBuilder* builder, std::vector<int>* ports) {
  if (options_.listen.empty()) return InvalidArgument("no address to listen on");
  ports->assign(options_.listen.size(), 0);
  for (size_t i = 0; i < options_.listen.size(); ++i) {
    const std::string& address = options_.listen[i];
    COHORT_ASSIGN_OR_RETURN(const auto credentials,
                            ServerCredentialsFor(options_.security, address, pending_));
    const ConnectionAcceptor::Take grpc = TakerFor(builder, credentials);
    if (address.starts_with("unix:")) {
      COHORT_RETURN_IF_ERROR(CheckCanListen(address));
      const std::string path = UnixPath(address);
      COHORT_ASSIGN_OR_RETURN(UniqueFd listener, ListenOnUnix(path));
      acceptor_.AddUnix(std::move(listener), path, TakersFor(grpc));
      continue;
    }
    COHORT_ASSIGN_OR_RETURN(std::vector<UniqueFd> listeners, ListenOnAll(address, &(*ports)[i]));
    for (UniqueFd& listener : listeners) {
      SetUserTimeout(listener, options_.transport.server_keepalive_timeout);
      acceptor_.AddTcp(std::move(listener), PeersOf(address),
                       options_.security->uses_tls(address)
                           ? ConnectionAcceptor::Takers{.tls = grpc}
                           : TakersFor(grpc));
    }
  }
  return absl::OkStatus();
}

ConnectionAcceptor::Peers StreamServer::Impl::PeersOf(const std::string& address) const {
  const Security& security = *options_.security;
  if (security.uses_tls(address) || !IsLoopbackAddress(address)) {
    return ConnectionAcceptor::Peers::kAll;
  }
  return security.secret_token().empty() ? ConnectionAcceptor::Peers::kOwnUser
                                         : ConnectionAcceptor::Peers::kOwnUserIfKnown;
}

// Passes connections to the server that `builder` will build.
ConnectionAcceptor::Take StreamServer::Impl::TakerFor(
    grpc::ServerBuilder* builder, std::shared_ptr<grpc::ServerCredentials> credentials) {
  std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor =
      builder->experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
          std::move(credentials));
  return [acceptor](UniqueFd connection, int listener) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = listener;
    parameters.fd = connection.Release();
    acceptor->HandleNewConnection(&parameters);
  };
}

// Who gets plaintext connections: gRPC, and Options::take_socket if there is one.
ConnectionAcceptor::Takers StreamServer::Impl::TakersFor(ConnectionAcceptor::Take grpc) const {
  ConnectionAcceptor::Takers takers;
  takers.other = std::move(grpc);
  if (options_.take_socket != nullptr) {
    takers.socket = [take = options_.take_socket, security = options_.security](UniqueFd connection,
                                                                                int) {
      if (SocketStream::Admit(*security, &connection)) take(std::move(connection));
    };
  }
  return takers;
}

absl::Status StreamServer::Impl::Listen(std::vector<int>* ports) {
  grpc::ServerBuilder builder;
  ApplyTransportOptions(options_.transport, &builder);
  COHORT_RETURN_IF_ERROR(AddPorts(&builder, ports));
  builder.RegisterAsyncGenericService(&service_);
  for (int i = 0; i < options_.threads; ++i) {
    loops_.push_back(std::make_unique<CompletionLoop>(builder.AddCompletionQueue()));
  }
  AddControlLoop(&builder);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    return Unavailable("gRPC cannot serve {}", options_.listen.front());
  }
  health_.SetServing(true);
  acceptor_.Start();
  for (size_t i = 0; i < loops_.size(); ++i) {
    Accept(loops_[i].get());
    loops_[i]->Start(fmt::format("{}-{}", options_.thread_name, i));
  }
  if (control_loop_ == nullptr) return absl::OkStatus();
  for (size_t i = 0; i < control_methods_->size(); ++i) AcceptControl(i);
  control_loop_->Start(options_.thread_name + "-control");
  return absl::OkStatus();
}

// A queue that does not listen gets no connections of its own: gRPC adds only those that carry a
// control call to it. So the control thread does not wake up for frames of other streams.
void StreamServer::Impl::AddControlLoop(grpc::ServerBuilder* builder) {
  if (options_.control_methods.empty()) return;
  std::vector<std::string> names = options_.control_methods;
  for (const auto& [name, factory] : health_.Methods()) names.push_back(name);
  control_methods_ = std::make_unique<RegisteredMethods>(std::move(names));
  builder->RegisterService(control_methods_.get());
  control_loop_ =
      std::make_unique<CompletionLoop>(builder->AddCompletionQueue(/*is_frequently_polled=*/false));
}

void StreamServer::Impl::Accept(CompletionLoop* loop) {
  auto stream = std::make_shared<ServerStream>(
      loop, options_.transport, [this, loop](const std::shared_ptr<ServerStream>& accepted) {
        Accept(loop);
        OnAccept(accepted);
      });
  if (!loop->AddStream(stream)) return;
  stream->Accept(&service_, static_cast<grpc::ServerCompletionQueue*>(loop->queue()));
}

void StreamServer::Impl::AcceptControl(size_t method) {
  auto stream =
      std::make_shared<ServerStream>(control_loop_.get(), options_.transport,
                                     [this, method](const std::shared_ptr<ServerStream>& accepted) {
                                       AcceptControl(method);
                                       OnAccept(accepted);
                                     });
  if (!control_loop_->AddStream(stream)) return;
  stream->Accept(control_methods_.get(), method,
                 static_cast<grpc::ServerCompletionQueue*>(control_loop_->queue()));
}

void StreamServer::Impl::OnAccept(const std::shared_ptr<ServerStream>& stream) {
  absl::StatusOr<StreamPeer> peer =
      AdmitPeer(*options_.security, stream->context(), stream->method());
  if (!peer.ok()) return stream->Refuse(peer.status());
  pending_->Admit(peer->address);
  stream->Admit(std::move(peer->identity), options_.security.get());
  const auto method = methods_.find(stream->method());
  if (method == methods_.end()) {
    return stream->Refuse(Unimplemented("unknown method {}", stream->method()));
  }
  if (stopped_.load(std::memory_order_acquire)) {
    return stream->Refuse(Unavailable("the server is shutting down"));
  }
  std::unique_ptr<StreamHandler> handler = method->second(stream, stream->loop());
  if (handler == nullptr)
    return stream->Refuse(
        Unavailable("the stream is for another server, or for another incarnation of this one"));
  stream->Serve(std::move(handler));
}

std::vector<uint64_t> StreamServer::Impl::Turns() {
  std::vector<CompletionLoop*> loops;
  for (const auto& loop : loops_) loops.push_back(loop.get());
  if (control_loop_ != nullptr) loops.push_back(control_loop_.get());
  questions_.resize(loops.size());
  std::vector<uint64_t> turns;
  for (size_t i = 0; i < loops.size(); ++i) {
    Question& question = questions_[i];
    turns.push_back(question.answered->load());
    if (turns.back() != question.asked) continue;  // it is asked already
    ++question.asked;
    loops[i]->Post([answered = question.answered] { ++*answered; });
  }
  return turns;
}

void StreamServer::Impl::Shutdown(const absl::Status& status, std::chrono::milliseconds grace) {
  if (stopped_.exchange(true) || server_ == nullptr) return;
  acceptor_.Stop();
  for (const auto& loop : loops_) {
    for (const auto& stream : loop->streams()) stream->Close(status);
  }
  if (control_loop_ != nullptr) {
    for (const auto& stream : control_loop_->streams()) stream->Close(status);
  }
  // Returns when every call has ended; ends them by force after `grace`.
  server_->Shutdown(std::chrono::system_clock::now() + grace);
  if (control_loop_ != nullptr) control_loop_->Shutdown();
  for (const auto& loop : loops_) loop->Shutdown();
}

absl::StatusOr<std::unique_ptr<StreamServer>> StreamServer::Start(const Options& options,
                                                                  Methods methods) {
  auto impl = std::make_unique<Impl>(options, std::move(methods));
  std::vector<int> ports;
  COHORT_RETURN_IF_ERROR(impl->Listen(&ports));
  std::unique_ptr<StreamServer> server(new StreamServer(std::move(impl)));
  for (size_t i = 0; i < ports.size(); ++i) {
    std::string address = options.listen[i];
    if (!address.starts_with("unix:")) {
      if (server->port_ == 0) server->port_ = ports[i];
      address = fmt::format("{}:{}", address.substr(0, address.rfind(':')), ports[i]);
    }
    server->addresses_.push_back(std::move(address));
  }
  return server;
}

StreamServer::StreamServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

StreamServer::~StreamServer() {
  Shutdown(Unavailable("the server has shut down"), std::chrono::milliseconds(500));
}

std::vector<CompletionLoop*> StreamServer::loops() const {
  std::vector<CompletionLoop*> loops;
  for (const auto& loop : impl_->loops_) loops.push_back(loop.get());
  return loops;
}

std::vector<uint64_t> StreamServer::Turns() { return impl_->Turns(); }

void StreamServer::SetServing(bool serving) { impl_->health_.SetServing(serving); }

void StreamServer::Shutdown(absl::Status status, std::chrono::milliseconds grace) {
  impl_->Shutdown(status, grace);
}

}  // namespace cohort

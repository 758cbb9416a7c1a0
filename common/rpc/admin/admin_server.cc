#include "common/rpc/admin/admin_server.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/os/open_file.h"
#include "common/os/process_start.h"
#include "common/os/process_usage.h"
#include "common/rpc/admin/control_socket.h"
#include "common/rpc/stream/listen_address.h"

namespace cohort {
namespace {

constexpr unsigned kThreads = 4;
constexpr size_t kConnectionBytes = 16 << 10;  // memory; this limits the head of a request
constexpr size_t kMostBodyBytes = 1 << 20;
constexpr std::string_view kControlPath = "/control/";

// A request from the end of its head until its reply is sent.
struct Request {
  TimePoint read_by;
  bool refused = false;
  bool is_command = false;
  bool has_answer = false;  // the control handler makes one
  std::string body;
};

struct Reply {
  unsigned code = MHD_HTTP_OK;
  const char* type = "text/plain; charset=utf-8";
  std::string body;
};

int PortOf(int fd) {
  sockaddr_storage name = {};
  socklen_t size = sizeof(name);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) return 0;
  // The port lies at the same offset in both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&name)->sin_port);
}

// The answer to a probe. `problem` returns "" if there is none, and may be null.
Reply Probe(const std::function<std::string()>& problem) {
  const std::string why = problem ? problem() : "";
  if (why.empty()) return {.body = "ok\n"};
  return {.code = MHD_HTTP_SERVICE_UNAVAILABLE, .body = why + "\n"};
}

Reply ControlReply(const absl::StatusOr<std::string>& answer) {
  if (answer.ok()) return {.type = "application/json", .body = *answer + "\n"};
  const nlohmann::json error = {{"code", answer.status().raw_code()},
                                {"message", std::string(answer.status().message())}};
  return {.code = MHD_HTTP_BAD_REQUEST,
          .type = "application/json",
          .body = error.dump(-1, ' ', /*ensure_ascii=*/false,
                             nlohmann::json::error_handler_t::replace) +
                  "\n"};
}

// Errors: PermissionDenied if the peer is not `user`.
absl::Status CheckPeer(MHD_Connection* connection, uid_t user) {
  const MHD_ConnectionInfo* const info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(info->connect_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return ErrnoStatus("no credentials of", "the peer", errno);
  }
  if (peer.uid == user) return absl::OkStatus();
  return PermissionDenied("this job belongs to the user {}, not to the user {}", user, peer.uid);
}

MHD_Result Send(MHD_Connection* connection, const Reply& reply) {
  MHD_Response* const response = MHD_create_response_from_buffer(
      reply.body.size(), const_cast<char*>(reply.body.data()), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply.type);
  MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  const MHD_Result queued = MHD_queue_response(connection, reply.code, response);
  MHD_destroy_response(response);
  return queued;
}

}  // namespace

class AdminServer::Impl {
 public:
  explicit Impl(Options options);
  ~Impl();

  // Returns the port, 0 for a control socket.
  absl::StatusOr<int> Listen();

 private:
  static MHD_Result OnRequest(void* self, MHD_Connection* connection, const char* path,
                              const char* method, const char* version, const char* body,
                              size_t* body_bytes, void** seen);
  static void OnSent(void* self, MHD_Connection* connection, void** seen,
                     MHD_RequestTerminationCode why);

  MHD_Result OnHead(MHD_Connection* connection, std::string_view method, std::string_view path,
                    Request* request) const;
  Reply Answer(std::string_view path) const;
  absl::StatusOr<std::string> Control(MHD_Connection* connection, std::string_view path,
                                      Request* request);

  const Options options_;
  MetricsRegistry process_;
  std::unique_ptr<ControlSocket> control_socket_;  // null: a port
  MHD_Daemon* daemon_ = nullptr;
  Mutex mu_;
  CondVar sent_;
  int answers_ ABSL_GUARDED_BY(mu_) = 0;  // the control handler's: requested, and not sent
};

// The names are those of Prometheus' own clients.
AdminServer::Impl::Impl(Options options) : options_(std::move(options)) {
  process_.AddCallback("process_resident_memory_bytes", "Memory of the process.",
                       [] { return static_cast<double>(ReadProcessUsage().memory_bytes); });
  process_.AddCallback("process_cpu_seconds_total", "CPU time of the process.",
                       [] { return ReadProcessUsage().cpu_seconds; });
  process_.AddCallback("process_open_fds", "Open descriptors of the process.",
                       [] { return static_cast<double>(ReadProcessUsage().open_files); });
  const auto age = std::chrono::steady_clock::now() - ProcessStart();
  const auto started = std::chrono::system_clock::now().time_since_epoch() - age;
  process_.AddGauge("process_start_time_seconds", "Start of the process, in Unix time.")
      ->Set(ToSeconds(started));
}

absl::StatusOr<int> AdminServer::Impl::Listen() {
  UniqueFd opened;
  unsigned mode = MHD_USE_EPOLL_INTERNAL_THREAD;
  unsigned threads = kThreads;
  if (options_.control_socket.empty()) {
    COHORT_RETURN_IF_ERROR(CheckCanListen(options_.address));
    COHORT_ASSIGN_OR_RETURN(opened, ListenOn(options_.address));
  } else {
    COHORT_ASSIGN_OR_RETURN(control_socket_, ControlSocket::Listen(options_.control_socket));
    opened = control_socket_->TakeListener();
    mode = MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_THREAD_PER_CONNECTION;
    threads = 0;  // no pool
  }
  const int listener = opened.Release();  // the library owns it
  const int port = control_socket_ == nullptr ? PortOf(listener) : 0;
  const auto timeout_s = static_cast<unsigned>(options_.request_timeout.count());
  daemon_ = MHD_start_daemon(
      mode | MHD_USE_ITC, 0, nullptr, nullptr, &OnRequest, this, MHD_OPTION_LISTEN_SOCKET, listener,
      MHD_OPTION_NOTIFY_COMPLETED, &OnSent, this, MHD_OPTION_THREAD_POOL_SIZE, threads,
      MHD_OPTION_CONNECTION_LIMIT, options_.most_connections, MHD_OPTION_CONNECTION_TIMEOUT,
      timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionBytes, MHD_OPTION_END);
  if (daemon_ != nullptr) return port;
  // The library may have closed the listener. Closing it again could close another descriptor.
  return ResourceExhausted("cannot serve on {}: no thread or descriptor is available",
                           options_.address + options_.control_socket);
}

AdminServer::Impl::~Impl() {
  {
    MutexLock lock(&mu_);
    while (answers_ > 0) sent_.Wait(&mu_);
  }
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
}

// Called when the head of a request is complete, for each piece of its body, and at its end.
MHD_Result AdminServer::Impl::OnRequest(void* self, MHD_Connection* connection, const char* path,
                                        const char* method, const char*, const char* body,
                                        size_t* body_bytes, void** seen) {
  auto* const server = static_cast<Impl*>(self);
  const TimePoint now = std::chrono::steady_clock::now();
  if (*seen == nullptr) {
    auto* const request = new Request{.read_by = now + server->options_.request_timeout};
    *seen = request;
    return server->OnHead(connection, method, path, request);
  }
  auto* const request = static_cast<Request*>(*seen);
  if (*body_bytes > 0) {
    if (request->is_command && request->body.size() <= kMostBodyBytes) {
      request->body.append(body, *body_bytes);
    }
    *body_bytes = 0;
    return now < request->read_by ? MHD_YES : MHD_NO;
  }
  if (request->refused) return MHD_YES;
  return Send(connection, request->is_command
                              ? ControlReply(server->Control(connection, path, request))
                              : server->Answer(path));
}

// Accepts a request, or refuses it before its body.
MHD_Result AdminServer::Impl::OnHead(MHD_Connection* connection, std::string_view method,
                                     std::string_view path, Request* request) const {
  if (control_socket_ != nullptr) {
    const absl::Status allowed = CheckPeer(connection, options_.user);
    request->refused = !allowed.ok();
    if (request->refused) return Send(connection, ControlReply(allowed));
    request->is_command = options_.control != nullptr && method == MHD_HTTP_METHOD_POST &&
                          path.starts_with(kControlPath);
  }
  request->refused =
      !request->is_command && method != MHD_HTTP_METHOD_GET && method != MHD_HTTP_METHOD_HEAD;
  if (!request->refused) return MHD_YES;
  return Send(connection, {.code = MHD_HTTP_METHOD_NOT_ALLOWED, .body = "only GET and HEAD\n"});
}

absl::StatusOr<std::string> AdminServer::Impl::Control(MHD_Connection* connection,
                                                       std::string_view path, Request* request) {
  if (request->body.size() > kMostBodyBytes) {
    return InvalidArgument("a message of more than {} bytes", kMostBodyBytes);
  }
  {
    MutexLock lock(&mu_);
    ++answers_;
  }
  request->has_answer = true;
  // The command may take longer than the limit, which counts again for the answer.
  MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, 0U);
  auto answer = options_.control(std::string(path.substr(kControlPath.size())), request->body);
  MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
                            static_cast<unsigned>(options_.request_timeout.count()));
  return answer;
}

// Called when a reply is sent, and when a connection is closed before.
void AdminServer::Impl::OnSent(void* self, MHD_Connection*, void** seen,
                               MHD_RequestTerminationCode) {
  const std::unique_ptr<Request> request(static_cast<Request*>(*seen));
  if (request == nullptr || !request->has_answer) return;
  auto* const server = static_cast<Impl*>(self);
  MutexLock lock(&server->mu_);
  if (--server->answers_ == 0) server->sent_.SignalAll();
}

Reply AdminServer::Impl::Answer(std::string_view path) const {
  if (path == "/healthz") return Probe(options_.health);
  if (path == "/readyz") return Probe(options_.readiness);
  if (path == "/metrics") {
    Reply reply{.type = "text/plain; version=0.0.4; charset=utf-8"};
    if (options_.metrics) reply.body = options_.metrics();
    reply.body += process_.Text();
    return reply;
  }
  if (path == "/statusz") return {.body = options_.status ? options_.status() : ""};
  if (path == "/status.json" && options_.status_json) {
    return {.type = "application/json", .body = options_.status_json() + "\n"};
  }
  return {.code = MHD_HTTP_NOT_FOUND, .body = "try /metrics, /healthz, /readyz or /statusz\n"};
}

absl::StatusOr<std::unique_ptr<AdminServer>> AdminServer::Start(Options options) {
  if (options.address.starts_with("unix:")) {
    return InvalidArgument("the admin port needs host:port, not {}", options.address);
  }
  auto impl = std::make_unique<Impl>(std::move(options));
  COHORT_ASSIGN_OR_RETURN(const int port, impl->Listen());
  return std::unique_ptr<AdminServer>(new AdminServer(std::move(impl), port));
}

AdminServer::AdminServer(std::unique_ptr<Impl> impl, int port)
    : impl_(std::move(impl)), port_(port) {}

AdminServer::~AdminServer() = default;

}  // namespace cohort

#include "common/rpc/admin/admin_server.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string_view>
#include <utility>

#include "common/base/metrics.h"
#include "common/base/status.h"
#include "common/os/process_start.h"
#include "common/os/process_usage.h"
#include "common/rpc/stream/listen_address.h"

namespace cohort {
namespace {

constexpr unsigned kThreads = 4;
constexpr size_t kConnectionBytes = 16 << 10;  // memory; this limits the head of a request

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
  ~Impl() {
    if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
  }

  // Returns the port.
  absl::StatusOr<int> Listen();

 private:
  static MHD_Result OnRequest(void* self, MHD_Connection* connection, const char* path,
                              const char* method, const char* version, const char* body,
                              size_t* body_bytes, void** seen);

  Reply Answer(std::string_view path) const;

  const Options options_;
  MetricsRegistry process_;
  MHD_Daemon* daemon_ = nullptr;
};

// The names are those of Prometheus' own clients.
AdminServer::Impl::Impl(Options options) : options_(std::move(options)) {
  process_.AddCallback("process_resident_memory_bytes", "Memory of the process.",
                       [] { return static_cast<double>(ReadProcessUsage().resident_bytes); });
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
  COHORT_RETURN_IF_ERROR(CheckCanListen(options_.address));
  COHORT_ASSIGN_OR_RETURN(UniqueFd opened, ListenOn(options_.address));
  const int listener = opened.Release();  // the library owns it
  const int port = PortOf(listener);
  const auto timeout_s = static_cast<unsigned>(options_.request_timeout.count());
  daemon_ = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC, 0, nullptr, nullptr,
                             &OnRequest, this, MHD_OPTION_LISTEN_SOCKET, listener,
                             MHD_OPTION_THREAD_POOL_SIZE, kThreads, MHD_OPTION_CONNECTION_LIMIT,
                             options_.most_connections, MHD_OPTION_CONNECTION_TIMEOUT, timeout_s,
                             MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionBytes, MHD_OPTION_END);
  if (daemon_ != nullptr) return port;
  // The library may have closed the listener. Closing it again could close another descriptor.
  return ResourceExhausted("cannot serve metrics on {}: no thread or descriptor is available",
                           options_.address);
}

// Called when the head of a request is complete, for each piece of its body, and at its end.
MHD_Result AdminServer::Impl::OnRequest(void* self, MHD_Connection* connection, const char* path,
                                        const char* method, const char*, const char*,
                                        size_t* body_bytes, void** seen) {
  const std::string_view name = method;
  const bool first = *seen == nullptr;
  *seen = self;
  if (name != MHD_HTTP_METHOD_GET && name != MHD_HTTP_METHOD_HEAD) {
    if (first) {
      return Send(connection, {.code = MHD_HTTP_METHOD_NOT_ALLOWED, .body = "only GET and HEAD\n"});
    }
    *body_bytes = 0;
    return MHD_YES;
  }
  if (first || *body_bytes > 0) {
    *body_bytes = 0;
    return MHD_YES;
  }
  return Send(connection, static_cast<const Impl*>(self)->Answer(path));
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

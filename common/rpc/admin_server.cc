#include "common/rpc/admin_server.h"

#include <CivetServer.h>
#include <netdb.h>
#include <prometheus/collectable.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/rpc/credentials.h"
#include "common/rpc/listen_address.h"

namespace cohort {
namespace {

// Each serves one connection at a time, also one that says nothing.
constexpr char kThreads[] = "8";

struct Reply {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

void Write(mg_connection* connection, const Reply& reply, bool with_body) {
  const char* reason = reply.code == 200   ? "OK"
                       : reply.code == 404 ? "Not Found"
                       : reply.code == 405 ? "Method Not Allowed"
                                           : "Service Unavailable";
  const std::string head = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n"
      "Connection: close\r\n\r\n",
      reply.code, reason, reply.type, reply.body.size());
  mg_write(connection, head.data(), head.size());
  if (with_body) mg_write(connection, reply.body.data(), reply.body.size());
}

// Connects to the port and leaves again.
void WakeListener(const std::string& address, int port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* info = nullptr;
  std::string host = address.substr(0, address.rfind(':'));
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  if (host.empty() || host == "localhost") host = "127.0.0.1";
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &info) != 0) return;
  const int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0) {
    (void)connect(fd, info->ai_addr, info->ai_addrlen);
    close(fd);
  }
  freeaddrinfo(info);
}

}  // namespace

// One handler for every path, so that an unknown one never reaches the file server of the library.
class AdminServer::Impl : public CivetHandler {
 public:
  explicit Impl(Options options) : options_(std::move(options)) {}
  ~Impl() override { Stop(); }

  absl::StatusOr<int> Listen();

  bool handleGet(CivetServer*, mg_connection* connection) override {
    Write(connection, Answer(connection), true);
    return true;
  }
  bool handleHead(CivetServer*, mg_connection* connection) override {
    Write(connection, Answer(connection), false);
    return true;
  }
  bool handlePost(CivetServer*, mg_connection* connection) override { return Refuse(connection); }
  bool handlePut(CivetServer*, mg_connection* connection) override { return Refuse(connection); }
  bool handleDelete(CivetServer*, mg_connection* connection) override { return Refuse(connection); }
  bool handleOptions(CivetServer*, mg_connection* connection) override {
    return Refuse(connection);
  }
  bool handlePatch(CivetServer*, mg_connection* connection) override { return Refuse(connection); }

 private:
  bool Refuse(mg_connection* connection) {
    Write(connection, {.code = 405, .body = "only GET and HEAD\n"}, true);
    return true;
  }

  Reply Answer(mg_connection* connection) const {
    const std::string_view path = mg_get_request_info(connection)->local_uri;
    if (path == "/healthz") {
      const std::string why = options_.health ? options_.health() : "";
      if (why.empty()) return {.body = "ok\n"};
      return {.code = 503, .body = why + "\n"};
    }
    if (path == "/metrics") {
      Reply reply{.type = "text/plain; version=0.0.4; charset=utf-8"};
      if (options_.registry != nullptr) {
        reply.body = prometheus::TextSerializer().Serialize(options_.registry->Collect());
      } else if (options_.metrics) {
        reply.body = options_.metrics();
      }
      return reply;
    }
    if (path == "/statusz") return {.body = options_.status ? options_.status() : ""};
    return {.code = 404, .body = "here are /metrics, /healthz and /statusz\n"};
  }

  void Stop();

  const Options options_;
  int port_ = 0;
  std::unique_ptr<CivetServer> server_;
};

// The library's listener looks whether it should stop only after a poll of up to two seconds:
// connections wake it.
void AdminServer::Impl::Stop() {
  if (server_ == nullptr) return;
  std::future<void> stopped = std::async(std::launch::async, [this] { server_.reset(); });
  while (stopped.wait_for(std::chrono::milliseconds(2)) != std::future_status::ready) {
    WakeListener(options_.address, port_);
  }
}

absl::StatusOr<int> AdminServer::Impl::Listen() {
  const std::string& address = options_.address;
  COHORT_RETURN_IF_ERROR(
      CheckPlaintextAllowed("serving metrics on", address, options_.allow_insecure));
  COHORT_RETURN_IF_ERROR(CheckCanListen(address));
  try {
    server_ = std::make_unique<CivetServer>(std::vector<std::string>{
        "listening_ports", address, "num_threads", kThreads, "keep_alive_timeout_ms", "0",
        "request_timeout_ms", std::to_string(options_.request_timeout.count())});
    server_->addHandler("/", *this);
    const std::vector<int> ports = server_->getListeningPorts();
    if (!ports.empty()) return port_ = ports.front();
  } catch (const std::exception&) {
    // Taken between the check and now, or refused by the library, which does not say why.
    COHORT_RETURN_IF_ERROR(CheckCanListen(address));
  }
  return Unavailable("cannot serve metrics on {}", address);
}

absl::StatusOr<std::unique_ptr<AdminServer>> AdminServer::Start(Options options) {
  if (options.address.starts_with("unix:")) {
    return InvalidArgument("the admin port wants host:port, not {}", options.address);
  }
  auto impl = std::make_unique<Impl>(std::move(options));
  COHORT_ASSIGN_OR_RETURN(const int port, impl->Listen());
  return std::unique_ptr<AdminServer>(new AdminServer(std::move(impl), port));
}

AdminServer::AdminServer(std::unique_ptr<Impl> impl, int port)
    : impl_(std::move(impl)), port_(port) {}

AdminServer::~AdminServer() = default;

}  // namespace cohort

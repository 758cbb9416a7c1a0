#include "common/rpc/admin_server.h"

#include <prometheus/collectable.h>
#include <prometheus/text_serializer.h>

#include <utility>

#include "common/base/status.h"
#include "common/rpc/credentials.h"
#include "common/rpc/http_port.h"

namespace cohort {
namespace {

HttpReply Answer(const AdminServer::Options& options, const HttpRequest& request) {
  if (request.method != "GET" && request.method != "HEAD") {
    return {.code = 405, .body = "only GET and HEAD\n"};
  }
  if (request.path == "/healthz") {
    const std::string why = options.health ? options.health() : "";
    if (why.empty()) return {.body = "ok\n"};
    return {.code = 503, .body = why + "\n"};
  }
  if (request.path == "/metrics") {
    HttpReply reply{.type = "text/plain; version=0.0.4; charset=utf-8"};
    if (options.registry != nullptr) {
      reply.body = prometheus::TextSerializer().Serialize(options.registry->Collect());
    } else if (options.metrics) {
      reply.body = options.metrics();
    }
    return reply;
  }
  if (request.path == "/statusz") return {.body = options.status ? options.status() : ""};
  return {.code = 404, .body = "here are /metrics, /healthz and /statusz\n"};
}

}  // namespace

absl::StatusOr<std::unique_ptr<AdminServer>> AdminServer::Start(Options options) {
  if (options.address.starts_with("unix:")) {
    return InvalidArgument("the admin port wants host:port, not {}", options.address);
  }
  COHORT_RETURN_IF_ERROR(
      CheckPlaintextAllowed("serving metrics on", options.address, options.allow_insecure));
  HttpPort::Options http;
  http.address = options.address;
  http.timeout = options.request_timeout;
  http.most_connections = options.most_connections;
  http.answer = [options = std::move(options)](const HttpRequest& request) {
    return Answer(options, request);
  };
  COHORT_ASSIGN_OR_RETURN(std::unique_ptr<HttpPort> port, HttpPort::Listen(std::move(http)));
  return std::unique_ptr<AdminServer>(new AdminServer(std::move(port)));
}

AdminServer::AdminServer(std::unique_ptr<HttpPort> port) : port_(std::move(port)) {}

AdminServer::~AdminServer() = default;

int AdminServer::port() const { return port_->port(); }

}  // namespace cohort

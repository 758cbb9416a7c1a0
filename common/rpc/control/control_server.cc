#include "common/rpc/control/control_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "common/base/status.h"
#include "common/os/open_file.h"
#include "common/rpc/control/control_message.h"
#include "common/rpc/control/control_socket.h"

namespace cohort {
namespace {

constexpr int kThreads = 3;
constexpr int kPauseMs = 200;  // after a connection that the system refuses

TimePoint In(Duration time) { return std::chrono::steady_clock::now() + time; }

}  // namespace

ControlServer::ControlServer(Options options, std::unique_ptr<ControlSocket> socket, UniqueFd end)
    : options_(std::move(options)), end_(std::move(end)), socket_(std::move(socket)) {}

absl::StatusOr<std::unique_ptr<ControlServer>> ControlServer::Start(Options options) {
  UniqueFd end(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!end.ok()) return ErrnoStatus("no eventfd for", options.path, errno);
  COHORT_ASSIGN_OR_RETURN(auto socket, ControlSocket::Listen(options.path));
  std::unique_ptr<ControlServer> server(
      new ControlServer(std::move(options), std::move(socket), std::move(end)));
  for (int i = 0; i < kThreads; ++i) {
    server->threads_.emplace_back([s = server.get()] { s->Run(); });
  }
  return server;
}

ControlServer::~ControlServer() {
  eventfd_write(end_.get(), 1);  // nobody reads it, so it ends every wait
  for (std::thread& thread : threads_) thread.join();
}

void ControlServer::Run() {
  while (true) {
    pollfd fds[] = {{end_.get(), POLLIN, 0}, {socket_->fd(), POLLIN, 0}};
    poll(fds, 2, /*timeout_ms=*/-1);
    if (fds[0].revents != 0) return;
    const UniqueFd connection(
        accept4(socket_->fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.ok()) {
      Serve(connection.get());
    } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
      poll(fds, 1, kPauseMs);  // too many open files, for example
    }
  }
}

void ControlServer::Serve(int connection) const {
  const absl::StatusOr<std::string> answer = Answer(connection);
  // A client that has gone does not matter. The answer is still sent while the server ends.
  WriteControlLine(connection, EncodeControlAnswer(answer), In(options_.request_timeout),
                   /*cancel=*/-1)
      .IgnoreError();
}

absl::StatusOr<std::string> ControlServer::Answer(int connection) const {
  COHORT_ASSIGN_OR_RETURN(const uid_t user, PeerUser(connection));
  if (user != options_.user) {
    return PermissionDenied("this job belongs to the user {}, not to the user {}", options_.user,
                            user);
  }
  COHORT_ASSIGN_OR_RETURN(const std::string request,
                          ReadControlLine(connection, In(options_.request_timeout), end_.get()));
  return options_.handler(request);
}

}  // namespace cohort

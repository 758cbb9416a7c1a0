#ifndef COHORT_COMMON_RPC_HTTP_PORT_H_
#define COHORT_COMMON_RPC_HTTP_PORT_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "common/base/clock.h"

namespace cohort {

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // "/metrics", without what stands behind a '?'
};

struct HttpReply {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

// Small answers to small requests over HTTP/1.1, one to each connection. One thread polls them all,
// so that a client that sends half a request, or does not read, keeps nobody waiting: it has until
// its deadline, or until so many others came after it that its place is needed.
class HttpPort {
 public:
  struct Options {
    std::string address;  // "127.0.0.1:9100"; port 0: any
    // For a request to come; and again for its reply to be taken.
    std::chrono::milliseconds timeout{2000};
    size_t most_connections = 128;  // beyond, the oldest is closed
    // Called on the port's thread, which meanwhile does nothing else. The body is left out of what
    // answers a HEAD.
    std::function<HttpReply(const HttpRequest&)> answer;
  };

  // Errors: CheckCanListen's.
  static absl::StatusOr<std::unique_ptr<HttpPort>> Listen(Options options);
  // Waits for the answer under way; closes all connections.
  ~HttpPort();
  HttpPort(const HttpPort&) = delete;
  HttpPort& operator=(const HttpPort&) = delete;

  int port() const { return port_; }

 private:
  // One connection: READING until the request's head is there, WRITING until the reply is with the
  // kernel, then DRAINING until the client has closed: bytes of it that nobody has read would make
  // the kernel take the reply back.
  enum class State { kReading, kWriting, kDraining };
  struct Connection {
    int fd;
    TimePoint deadline;
    State state = State::kReading;
    std::string in{};
    std::string out{};
    size_t sent = 0;
  };

  HttpPort(Options options, int listener, int wake, int port);
  void Run();
  // Returns when something can be done, or a deadline has passed. False: the port closes.
  bool Wait();
  void Accept();
  // Each returns false where the connection is at its end.
  bool Serve(Connection* connection);
  bool Read(Connection* connection);
  bool Write(Connection* connection);
  std::string Answer(const std::string& head) const;

  const Options options_;
  const int listener_;
  const int wake_;  // an eventfd: the end
  const int port_;

  // The thread's own.
  RealClock clock_;
  std::list<Connection> connections_;  // in the order of their coming
  bool can_accept_ = false;
  TimePoint accept_after_{};  // while there are no descriptors

  std::thread thread_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_HTTP_PORT_H_

#ifndef COHORT_TESTS_BENCHMARKS_TRANSPORT_PEER_H_
#define COHORT_TESTS_BENCHMARKS_TRANSPORT_PEER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cohort::bench {

// The largest payload. Every server holds weights, and memory for gradients, of this size.
inline constexpr size_t kLargest = size_t{64} << 20;
// Larger payloads travel in messages of this size (plain gRPC: in one).
inline constexpr size_t kChunk = size_t{1} << 20;

enum class Op { kPull, kPush };

// The client's end of one way to move tensors. A pull brings the payload into the application's
// memory; a push is done when the server has it in its own memory and has acknowledged it.
class Client {
 public:
  virtual ~Client() = default;
  // Makes `count` exchanges of `bytes` each, `in_flight` at a time. Exits the process on an error.
  virtual void Run(Op op, size_t bytes, int count, int in_flight) = 0;
  // What the client has to say about its copies and allocations since the last call; "" = nothing.
  virtual std::string Account() { return ""; }
};

// A server runs in a process of its own until it is killed.
class Server {
 public:
  virtual ~Server() = default;
  virtual int port() const = 0;
};

// The ways. A server listens on one address, "127.0.0.1:0" or "unix:/path", for one client.
std::unique_ptr<Server> ServePlain(const std::string& address);
std::unique_ptr<Server> ServeBare(const std::string& address);
std::unique_ptr<Server> ServeCohort(const std::string& address);
std::unique_ptr<Client> DialPlain(const std::string& address);
std::unique_ptr<Client> DialBare(const std::string& address);
// A real parameter server: a tablet with one float variable of each size, SGD; pushes are applied.
std::unique_ptr<Server> ServePs(const std::string& address, const std::vector<size_t>& sizes);
// Connects to ServeCohort or ServePs. The position of a payload's size in `sizes` is its shard and
// tablet.
std::unique_ptr<Client> DialCohort(const std::string& address, const std::vector<size_t>& sizes);

// Ends the process with a message.
[[noreturn]] void Die(const std::string& what);

}  // namespace cohort::bench

#endif  // COHORT_TESTS_BENCHMARKS_TRANSPORT_PEER_H_

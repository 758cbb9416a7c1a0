#ifndef COHORT_TESTS_BENCHMARKS_TRANSPORT_ENDS_H_
#define COHORT_TESTS_BENCHMARKS_TRANSPORT_ENDS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tests/benchmarks/transport/child.h"
#include "tests/benchmarks/transport/peer.h"

namespace cohort::bench {

// One end of one way: the arguments of its process.
struct End {
  std::string serve;    // the way, at a server
  std::string dial;     // the way, at a client
  std::string address;  // to listen on, or to dial
  std::vector<size_t> sizes;
  int core = -1;                // that it is kept on; -1: any
  bool control_thread = false;  // a client polls a second, idle queue on another thread

  std::vector<std::string> Arguments() const;
};

// The processes. A server prints its port and serves until it is killed. A client prints "ready"
// and then runs what its parent requests.
int Serve(const End& end);
int Dial(const End& end);

// What is to be run: exchanges until `ms` is over, `batch` of them at a time; those that have begun
// then are finished.
struct Order {
  Op op = Op::kPull;
  size_t bytes = 0;
  int batch = 1;
  int in_flight = 1;
  int ms = 0;
};
struct Done {
  int exchanges = 0;
  double seconds = 0;
  double cpu_seconds = 0;  // both ends', for one exchange more: it runs first, untimed
};

// A server and its client, in processes of their own.
class Pair {
 public:
  // `server` and `client` without addresses; `transport` is "tcp" or "unix".
  Pair(const std::string& transport, End server, End client);
  ~Pair();

  Done Run(const Order& order);
  std::string Account();

 private:
  std::string address_;
  std::unique_ptr<Child> server_, client_;
};

}  // namespace cohort::bench

#endif  // COHORT_TESTS_BENCHMARKS_TRANSPORT_ENDS_H_

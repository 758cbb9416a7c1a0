#include "tests/benchmarks/transport/ends.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <sstream>

#include "common/rpc/stream/completion_loop.h"
#include "common/rpc/stream/grpc_tuning.h"

namespace cohort::bench {
namespace {

// Keeps this thread, and those that it starts, on one core; a negative one: does nothing.
void StayOn(int core) {
  if (core < 0) return;
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(core, &only);
  if (sched_setaffinity(0, sizeof(only), &only) != 0) Die("cannot be kept on a core");
}

// Plain gRPC is as it comes.
void Prepare(const std::string& way) {
  if (way != "plain") PrepareTransportProcess();
}

void Say(const std::string& line) {
  std::cout << line << std::endl;  // and flush
}

Done RunHere(Client* client, const Order& order) {
  client->Run(order.op, order.bytes, 1, 1);  // what ran before had the caches
  Done done;
  const auto begin = std::chrono::steady_clock::now();
  do {
    client->Run(order.op, order.bytes, order.batch, order.in_flight);
    done.exchanges += order.batch;
    done.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  } while (done.seconds < 1e-3 * order.ms);
  return done;
}

}  // namespace

std::vector<std::string> End::Arguments() const {
  return {serve.empty() ? "--dial" : "--serve",
          serve.empty() ? dial : serve,
          "--address",
          address,
          "--sizes",
          fmt::format("{}", fmt::join(sizes, ",")),
          "--core",
          std::to_string(core),
          "--control_thread",
          control_thread ? "true" : "false"};
}

int Serve(const End& end) {
  StayOn(end.core);
  Prepare(end.serve);
  const std::unique_ptr<Server> server = end.serve == "plain"  ? ServePlain(end.address)
                                         : end.serve == "bare" ? ServeBare(end.address)
                                         : end.serve == "ps"   ? ServePs(end.address, end.sizes)
                                                               : ServeCohort(end.address);
  Say(std::to_string(server->port()));
  while (true) pause();
}

int Dial(const End& end) {
  Prepare(end.dial);
  const std::unique_ptr<Client> client = end.dial == "plain"  ? DialPlain(end.address)
                                         : end.dial == "bare" ? DialBare(end.address)
                                                              : DialCohort(end.address, end.sizes);
  CompletionLoop control;
  if (end.control_thread) control.Start("control");
  StayOn(end.core);  // this thread alone: gRPC's own have started
  Say("ready");
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string verb, op;
    Order order;
    if (words >> verb >> op >> order.bytes >> order.batch >> order.in_flight >> order.ms) {
      order.op = op == "pull" ? Op::kPull : Op::kPush;
      const Done done = RunHere(client.get(), order);
      Say(fmt::format("{} {}", done.exchanges, done.seconds));
    } else {
      Say(client->Account());
    }
  }
  control.Shutdown();
  return 0;
}

Pair::Pair(const std::string& transport, End server, End client) {
  static int pairs = 0;
  server.address = transport == "unix"
                       ? fmt::format("unix:/tmp/cohort-bench-{}-{}.sock", getpid(), ++pairs)
                       : "127.0.0.1:0";
  server_ = std::make_unique<Child>(server.Arguments());
  const std::string port = server_->Hear();
  address_ = client.address = transport == "unix" ? server.address : "127.0.0.1:" + port;
  client_ = std::make_unique<Child>(client.Arguments());
  if (client_->Hear() != "ready") Die("a client did not start");
}

Pair::~Pair() {
  if (address_.starts_with("unix:")) unlink(address_.c_str() + 5);
}

Done Pair::Run(const Order& order) {
  const double before = client_->CpuSeconds() + server_->CpuSeconds();
  client_->Say(fmt::format("run {} {} {} {} {}", order.op == Op::kPull ? "pull" : "push",
                           order.bytes, order.batch, order.in_flight, order.ms));
  std::istringstream words(client_->Hear());
  Done done;
  if (!(words >> done.exchanges >> done.seconds)) Die("a client does not say what it did");
  done.cpu_seconds = client_->CpuSeconds() + server_->CpuSeconds() - before;
  return done;
}

std::string Pair::Account() {
  client_->Say("account");
  return client_->Hear();
}

}  // namespace cohort::bench

// Pull and push over Cohort's data path, beside plain gRPC (protobuf `bytes`, synchronous) and a
// bare echo of slices on completion queues, in short interleaved runs; both ends in processes of
// their own.
//   transport_bench                      all sizes, TCP and unix sockets
//   transport_bench --transport tcp --sizes 4096,1048576 --rounds 15
//   transport_bench --check              exit 1 where a goal is missed
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "common/rpc/completion_loop.h"
#include "common/rpc/transport_options.h"
#include "tests/benchmarks/transport/child.h"
#include "tests/benchmarks/transport/peer.h"
#include "tests/benchmarks/transport/report.h"

namespace cohort::bench {

void Die(const std::string& what) {
  std::fprintf(stderr, "transport_bench: %s\n", what.c_str());
  std::exit(69);
}

namespace {

struct Settings {
  std::string serve;
  std::string listen;
  std::vector<std::string> transports = {"tcp", "unix"};
  std::vector<size_t> sizes = {4 << 10, 64 << 10, 1 << 20, 4 << 20, 64 << 20};
  std::vector<std::string> ops = {"pull", "push"};
  std::vector<std::string> ways = {"plain", "bare", "cohort", "ps"};
  int launches = 3;
  int rounds = 40;
  int run_ms = 10;
  int limit_ms = 1500;
  int in_flight = 1;
  bool check = false;
  bool control_thread = false;
  bool pin = true;
  int core = -1;  // of a server
  bool own_core = true;
};

// The cores that the client and the servers are kept on; -1: anywhere.
struct Cores {
  int client = -1;
  int server = -1;
  cpu_set_t allowed;  // to this process
};

// Two cores of those that this process may use. A scheduler puts two ends that wait for each other
// now on one core and now on two, which makes a round trip of a small payload two to four times as
// long, and sticks to it for seconds: that would be measured instead of the ways. Whether they are
// threads of one core is not looked at.
Cores ChooseCores() {
  Cores cores;
  CPU_ZERO(&cores.allowed);
  if (sched_getaffinity(0, sizeof(cores.allowed), &cores.allowed) != 0) Die("knows no cores");
  if (CPU_COUNT(&cores.allowed) < 2) return cores;
  while (!CPU_ISSET(++cores.client, &cores.allowed)) {
  }
  cores.server = cores.client;
  while (!CPU_ISSET(++cores.server, &cores.allowed)) {
  }
  return cores;
}

void StayWithin(const cpu_set_t& cores) {
  if (sched_setaffinity(0, sizeof(cores), &cores) != 0) Die("cannot be kept on these cores");
}

// Keeps this thread, and those that it starts, on one core; a negative one: does nothing.
void StayOn(int core) {
  if (core < 0) return;
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(core, &only);
  StayWithin(only);
}

// Plain gRPC has several threads at both ends, and stalls where they share a core. So it is kept on
// none: it may also have both ends on one, which is the faster way for small payloads.
bool HasOneThread(Way way) { return way != kPlain; }

// The client's thread is this one.
void KeepClient(Way way, const Cores& cores) {
  HasOneThread(way) ? StayOn(cores.client) : StayWithin(cores.allowed);
}

int Serve(const Settings& settings) {
  StayOn(settings.core);
  cohort::PrepareTransportProcess();
  std::unique_ptr<Server> server = settings.serve == "plain"  ? ServePlain(settings.listen)
                                   : settings.serve == "bare" ? ServeBare(settings.listen)
                                   : settings.serve == "ps"
                                       ? ServePs(settings.listen, settings.sizes, settings.own_core)
                                       : ServeCohort(settings.listen, settings.own_core);
  std::printf("%d\n", server->port());
  std::fflush(stdout);
  while (true) pause();
}

struct Pair {
  std::unique_ptr<Child> server;
  std::unique_ptr<Client> client;
};

Pair Start(Way way, const std::string& transport, const Settings& settings, int core) {
  const std::string address =
      transport == "unix"
          ? "unix:/tmp/cohort-bench-" + std::to_string(getpid()) + "-" + kWayNames[way] + ".sock"
          : "127.0.0.1:0";
  Pair pair;
  pair.server = std::make_unique<Child>(
      address, std::vector<std::string>{"--serve", kWayNames[way], "--listen", address, "--sizes",
                                        fmt::format("{}", fmt::join(settings.sizes, ",")), "--core",
                                        std::to_string(core), "--own_core",
                                        settings.own_core ? "true" : "false"});
  const std::string& listening = pair.server->address();
  pair.client = way == kPlain  ? DialPlain(listening)
                : way == kBare ? DialBare(listening)
                               : DialCohort(listening, settings.sizes, settings.own_core);
  return pair;
}

// Makes exchanges until `run_ms` is over; those that have begun then are finished.
Sample Measure(Pair* pair, Op op, size_t bytes, const Settings& settings) {
  pair->client->Run(op, bytes, 1, 1);  // what ran before had the caches
  // Many more than are in flight, so that a batch's end is not noticed.
  const int batch = settings.in_flight > 1 ? 16 * settings.in_flight : 1;
  const double cpu = OwnCpuSeconds() + pair->server->CpuSeconds();
  const auto begin = std::chrono::steady_clock::now();
  double seconds = 0;
  int done = 0;
  do {
    pair->client->Run(op, bytes, batch, settings.in_flight);
    done += batch;
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  } while (seconds < 1e-3 * settings.run_ms);
  const double gigabytes = 1e-9 * static_cast<double>(bytes) * done;
  return {.gb_per_second = gigabytes / seconds,
          .cpu_per_gb = (OwnCpuSeconds() + pair->server->CpuSeconds() - cpu) / gigabytes};
}

// Adds the samples of one launch to `result`. What is slow has fewer of them: plain gRPC stalls
// over unix sockets for seconds.
void RunCase(std::vector<Pair>* pairs, const Settings& settings, const Cores& cores, Case* result) {
  using Clock = std::chrono::steady_clock;
  Clock::duration spent[kWays] = {};
  for (int round = -1; round < settings.rounds; ++round) {  // the first warms up
    for (int step = 0; step < kWays; ++step) {
      // Nobody is always the first, or always behind the same one.
      const int turn = (step + round + 1) % kWays;
      const Way way = static_cast<Way>(round % 2 == 0 ? turn : kWays - 1 - turn);
      Pair* pair = &(*pairs)[static_cast<size_t>(way)];
      if (pair->client == nullptr) continue;
      Sample sample;
      if (round < 1 || spent[way] < std::chrono::milliseconds(settings.limit_ms)) {
        KeepClient(way, cores);
        const auto begin = Clock::now();
        sample = Measure(pair, result->op, result->bytes, settings);
        spent[way] += Clock::now() - begin;
      }
      if (round >= 0) result->samples[way].push_back(sample);
    }
  }
}

// All cases of one transport, from several launches: a process is faster or slower than another of
// its kind for its life.
std::vector<Case> RunTransport(const Settings& settings, const Cores& cores,
                               const std::string& transport) {
  std::vector<Case> cases;
  for (const std::string& op : settings.ops) {
    for (size_t bytes : settings.sizes) {
      cases.push_back({.transport = transport,
                       .op = op == "pull" ? Op::kPull : Op::kPush,
                       .bytes = bytes,
                       .samples = {}});
    }
  }
  for (int launch = 0; launch < settings.launches; ++launch) {
    fmt::print(stderr, "{}: launch {} of {}\n", transport, launch + 1, settings.launches);
    std::vector<Pair> pairs(kWays);
    StayWithin(cores.allowed);  // what is started here begins with these
    for (int way = 0; way < kWays; ++way) {
      const bool wanted = std::find(settings.ways.begin(), settings.ways.end(), kWayNames[way]) !=
                          settings.ways.end();
      if (!wanted) continue;
      const int core = HasOneThread(static_cast<Way>(way)) ? cores.server : -1;
      pairs[static_cast<size_t>(way)] = Start(static_cast<Way>(way), transport, settings, core);
    }
    for (Case& one : cases) {
      RunCase(&pairs, settings, cores, &one);
      const bool last_of_op = &one == &cases.back() || (&one)[1].op != one.op;
      for (Way way : {kCohort, kPs}) {
        if (!last_of_op || launch > 0 || pairs[way].client == nullptr) continue;
        std::printf("  client of %s, %s, %s\n", kWayNames[way],
                    one.op == Op::kPull ? "pull" : "push", pairs[way].client->Account().c_str());
      }
    }
  }
  for (const Case& one : cases) PrintCase(one);
  return cases;
}

int RunAll(Settings settings) {
  cohort::PrepareTransportProcess();
  Cores cores = ChooseCores();
  settings.own_core &= CPU_COUNT(&cores.allowed) > 1;
  // More threads of a client would be unfairly kept on one.
  if (!settings.pin || settings.in_flight > 1 || settings.control_thread) {
    cores.client = cores.server = -1;
  }
  std::printf(
      "%d launches of %d rounds of %d ms (fewer where they take over %d), %d in flight; "
      "payload over %zu MB in chunks; ",
      settings.launches, settings.rounds, settings.run_ms, settings.limit_ms, settings.in_flight,
      kChunk >> 20);
  if (cores.client < 0) {
    std::printf("all on any core");
  } else {
    std::printf("clients on core %d, servers on core %d, plain on any", cores.client, cores.server);
  }
  std::printf("; cohort and ps read %s\n",
              settings.own_core ? "early where they answer soon" : "late");
  PrintHead();
  CompletionLoop control;
  if (settings.control_thread) control.Start("control");
  std::vector<Case> results;
  for (const std::string& transport : settings.transports) {
    for (Case& one : RunTransport(settings, cores, transport)) results.push_back(std::move(one));
  }
  control.Shutdown();
  const bool met = PrintGoals(results);
  return settings.check && !met ? 1 : 0;
}

}  // namespace
}  // namespace cohort::bench

int main(int argc, char** argv) {
  using namespace cohort::bench;
  Settings settings;
  CLI::App app("Transport benchmark");
  app.add_option("--serve", settings.serve)->group("");
  app.add_option("--listen", settings.listen)->group("");
  app.add_option("--transport", settings.transports, "tcp, unix")->delimiter(',');
  app.add_option("--sizes", settings.sizes, "bytes of payload, multiples of 4, at most 64 MB")
      ->delimiter(',')
      ->check(CLI::Range(size_t{4}, kLargest));
  app.add_option("--ops", settings.ops, "pull, push")->delimiter(',');
  app.add_option("--ways", settings.ways, "plain, bare, cohort, ps")->delimiter(',');
  app.add_option("--launches", settings.launches)->check(CLI::PositiveNumber);
  app.add_option("--rounds", settings.rounds, "of each launch")->check(CLI::PositiveNumber);
  app.add_option("--run_ms", settings.run_ms, "length of one run")->check(CLI::PositiveNumber);
  app.add_option(
         "--limit_ms", settings.limit_ms,
         "of a way's runs in one case and launch: after so long it sits out the other rounds")
      ->check(CLI::PositiveNumber);
  app.add_option("--in_flight", settings.in_flight)->check(CLI::PositiveNumber);
  app.add_flag("--control_thread", settings.control_thread,
               "the client polls a second, idle queue on another thread, as a worker does");
  app.add_option("--pin", settings.pin,
                 "keep both ends on a core each (default true; with one request in flight and no "
                 "control thread)");
  app.add_option("--core", settings.core)->group("");
  app.add_option("--own_core", settings.own_core,
                 "cohort and ps may read early, as tasks do that share no core (default true)");
  app.add_flag("--check", settings.check, "exit 1 where a goal is missed");
  CLI11_PARSE(app, argc, argv);
  return settings.serve.empty() ? RunAll(settings) : Serve(settings);
}

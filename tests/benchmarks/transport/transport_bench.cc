// Pull and push over Cohort's data path, beside plain gRPC (protobuf `bytes`, synchronous) and a
// bare echo of slices on completion queues, in short interleaved runs; both ends in processes of
// their own.
//   transport_bench                      all sizes, TCP and unix sockets
//   transport_bench --transport tcp --sizes 4096,1048576 --rounds 15
//   transport_bench --check              exit 1 if a goal is missed
#include <fmt/format.h>
#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "tests/benchmarks/transport/ends.h"
#include "tests/benchmarks/transport/report.h"

namespace cohort::bench {

void Die(const std::string& what) {
  std::fprintf(stderr, "transport_bench: %s\n", what.c_str());
  std::exit(69);
}

namespace {

struct Settings {
  std::vector<std::string> transports = {"tcp", "unix"};
  std::vector<size_t> sizes = {4 << 10, 64 << 10, 1 << 20, 4 << 20, 64 << 20};
  std::vector<std::string> ops = {"pull", "push"};
  std::vector<std::string> ways = {"plain", "bare", "cohort", "ps"};
  int launches = 6;
  int rounds = 20;
  int run_ms = 10;
  int limit_ms = 1000;
  int in_flight = 1;
  bool check = false;
  bool control_thread = false;
  bool pin = true;
};

// The cores that the clients and the servers are kept on; -1: any.
struct Cores {
  int allowed = 1;  // how many this process may use
  int client = -1;
  int server = -1;
};

// Two cores of those that this process may use. A scheduler puts two ends that wait for each other
// now on one core and now on two, which makes a round trip of a small payload two to four times as
// long, and sticks to it for seconds: that would be measured instead of the ways. Whether they are
// threads of one core is not looked at.
Cores ChooseCores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) Die("knows no cores");
  Cores cores{.allowed = CPU_COUNT(&allowed)};
  if (cores.allowed < 2) return cores;
  while (!CPU_ISSET(++cores.client, &allowed)) {
  }
  cores.server = cores.client;
  while (!CPU_ISSET(++cores.server, &allowed)) {
  }
  return cores;
}

// Plain gRPC has several threads at both ends, and stalls if they share a core. So it is not bound
// to a core: both ends may then also share one, which is faster for small payloads.
bool HasOneThread(Way way) { return way != kPlain; }

std::unique_ptr<Pair> Start(Way way, const std::string& transport, const Settings& settings,
                            const Cores& cores) {
  End server{.serve = kWayNames[way], .sizes = settings.sizes};
  End client{
      .dial = kWayNames[way], .sizes = settings.sizes, .control_thread = settings.control_thread};
  if (HasOneThread(way)) {
    server.core = cores.server;
    client.core = cores.client;
  }
  return std::make_unique<Pair>(transport, server, client);
}

Sample Measure(Pair* pair, Op op, size_t bytes, const Settings& settings) {
  // Many more than are in flight, so that a batch's end is not noticed.
  const int batch = settings.in_flight > 1 ? 16 * settings.in_flight : 1;
  const Done done = pair->Run({.op = op,
                               .bytes = bytes,
                               .batch = batch,
                               .in_flight = settings.in_flight,
                               .ms = settings.run_ms});
  const double gigabytes = 1e-9 * static_cast<double>(bytes);
  return {.gb_per_second = gigabytes * done.exchanges / done.seconds,
          .cpu_per_gb = done.cpu_seconds / (gigabytes * (done.exchanges + 1))};
}

using Pairs = std::unique_ptr<Pair>[kWays];

// In four rounds each way has each place once, and each other one right before it once.
constexpr Way kTurns[4][kWays] = {{kPlain, kBare, kPs, kCohort},
                                  {kBare, kCohort, kPlain, kPs},
                                  {kCohort, kPs, kBare, kPlain},
                                  {kPs, kPlain, kCohort, kBare}};

// Adds the samples of one launch to `result`. What is slow has fewer of them, one at least: plain
// gRPC was seen to stall for seconds.
void RunCase(const Pairs& pairs, const Settings& settings, int launch, Case* result) {
  using Clock = std::chrono::steady_clock;
  Clock::duration spent[kWays] = {};
  for (int round = -1; round < settings.rounds; ++round) {  // the first warms up
    for (const Way way : kTurns[(round + 1) % 4]) {
      if (pairs[way] == nullptr) continue;
      Sample sample;
      if (round < 1 || spent[way] < std::chrono::milliseconds(settings.limit_ms)) {
        const auto begin = Clock::now();
        sample = Measure(pairs[way].get(), result->op, result->bytes, settings);
        spent[way] += Clock::now() - begin;
      }
      sample.launch = launch;
      if (round >= 0) result->samples[way].push_back(sample);
    }
  }
}

// All cases of one transport.
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
    Pairs pairs;
    for (const Way way : {kPlain, kBare, kCohort, kPs}) {
      const bool wanted = std::find(settings.ways.begin(), settings.ways.end(), kWayNames[way]) !=
                          settings.ways.end();
      if (wanted) pairs[way] = Start(way, transport, settings, cores);
    }
    for (Case& one : cases) {
      RunCase(pairs, settings, launch, &one);
      const bool last_of_op = &one == &cases.back() || (&one)[1].op != one.op;
      for (Way way : {kCohort, kPs}) {
        if (!last_of_op || launch > 0 || pairs[way] == nullptr) continue;
        std::printf("  client of %s, %s, %s\n", kWayNames[way],
                    one.op == Op::kPull ? "pull" : "push", pairs[way]->Account().c_str());
      }
    }
  }
  for (const Case& one : cases) PrintCase(one);
  return cases;
}

int RunAll(Settings settings) {
  Cores cores = ChooseCores();
  // More threads of a client would be unfairly kept on one.
  if (!settings.pin || settings.in_flight > 1 || settings.control_thread) {
    cores.client = cores.server = -1;
  }
  std::printf(
      "%d launches of %d rounds of %d ms (fewer rounds where they take over %d), %d in flight; "
      "payload over %zu MB in chunks; ",
      settings.launches, settings.rounds, settings.run_ms, settings.limit_ms, settings.in_flight,
      kChunk >> 20);
  if (cores.client < 0) {
    std::printf("all on any core");
  } else {
    std::printf("clients on core %d, servers on core %d, plain on any", cores.client, cores.server);
  }
  std::printf("\n");
  PrintHead();
  std::vector<Case> results;
  for (const std::string& transport : settings.transports) {
    for (Case& one : RunTransport(settings, cores, transport)) results.push_back(std::move(one));
  }
  const bool met = PrintGoals(results);
  return settings.check && !met ? 1 : 0;
}

}  // namespace
}  // namespace cohort::bench

int main(int argc, char** argv) {
  using namespace cohort::bench;
  Settings settings;
  End end;
  CLI::App app("Transport benchmark");
  app.add_option("--serve", end.serve)->group("");
  app.add_option("--dial", end.dial)->group("");
  app.add_option("--address", end.address)->group("");
  app.add_option("--core", end.core)->group("");
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
  app.add_option("--control_thread", settings.control_thread,
                 "the client polls a second, idle queue on another thread, as a worker does");
  app.add_option("--pin", settings.pin,
                 "keep both ends on a core each (default true; with one request in flight and no "
                 "control thread)");
  app.add_flag("--check", settings.check, "exit 1 if a goal is missed");
  CLI11_PARSE(app, argc, argv);
  end.sizes = settings.sizes;
  end.control_thread = settings.control_thread;
  if (!end.serve.empty()) return Serve(end);
  if (!end.dial.empty()) return Dial(end);
  return RunAll(settings);
}

// The exchange against model servers over a network that loses, doubles, delays and reorders: every
// id is applied once per tablet, and a worker reads what it wrote.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <queue>
#include <random>

#include "common/base/status.h"
#include "common/exchange/exchange_test_world.h"

namespace cohort::exchange_test {
namespace {

class Network : public ExchangeSink {
 public:
  Network(World* world, Exchange* exchange, uint64_t seed)
      : world_(world), exchange_(exchange), random_(seed) {}

  void Send(const ServerRoute& server, std::span<const ExchangeMessage> messages) override {
    auto request = std::make_shared<std::vector<Request>>();
    for (const ExchangeMessage& message : messages) request->push_back(Copy(message));
    const uint32_t ps = server.ps;
    const uint64_t life = life_[ps];
    const int copies = Chance(0.1) ? 2 : 1;
    for (int c = 0; c < copies; ++c) {
      if (Chance(0.08)) return Break(ps);
      At(Delay(), [=, this] { Arrive(ps, life, *request); });
    }
  }
  void Reset(const ServerRoute& server) override { ++life_[server.ps]; }
  BytesMoved Moved(const ServerRoute&) override { return {}; }

  // Until the exchange ends.
  void Run() {
    exchange_->Poll(now_, this);
    while (exchange_->state() == Exchange::State::kRunning) {
      const int64_t poll = exchange_->NextPoll();
      if (!events_.empty() && events_.top().at <= poll) {
        Event event = events_.top();
        events_.pop();
        now_ = std::max(now_, event.at);
        event.run();
      } else {
        now_ = std::max(now_, poll);
      }
      exchange_->Poll(now_, this);
    }
  }

  void At(int64_t delay, std::function<void()> run) {
    events_.push({now_ + delay, order_++, std::move(run)});
  }
  bool Chance(double p) { return std::uniform_real_distribution<>(0, 1)(random_) < p; }
  int64_t now() const { return now_; }
  std::mt19937_64& random() { return random_; }

 private:
  struct Event {
    int64_t at;
    uint64_t order;
    std::function<void()> run;
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  int64_t Delay() { return std::uniform_int_distribution<int64_t>(10, 2000)(random_); }
  void Break(uint32_t ps) {
    const uint64_t life = ++life_[ps];
    At(Delay(), [=, this] {
      if (life == life_[ps]) exchange_->OnLost(ps, Unavailable("cut"), now_);
    });
  }
  // A request arrives even if its connection has been lost since: the bytes were on the way.
  void Arrive(uint32_t ps, uint64_t life, const std::vector<Request>& request) {
    auto responses = std::make_shared<std::vector<Response>>(world_->servers[ps].Handle(request));
    if (life != life_[ps]) return;
    if (Chance(0.08)) return Break(ps);
    int64_t delay = 0;
    for (size_t i = 0; i < responses->size(); ++i) {
      delay += Delay();
      At(delay, [=, this] {
        if (life == life_[ps]) Deliver(exchange_, ps, (*responses)[i], now_);
      });
    }
  }

  World* const world_;
  Exchange* const exchange_;
  std::mt19937_64 random_;
  std::priority_queue<Event> events_;
  std::map<uint32_t, uint64_t> life_;
  int64_t now_ = 0;
  uint64_t order_ = 0;
};

std::vector<int64_t> RandomKeys(std::mt19937_64* random) {
  std::vector<int64_t> keys(50);
  for (size_t i = 0; i < 50; ++i) keys[i] = static_cast<int64_t>(i);
  std::shuffle(keys.begin(), keys.end(), *random);
  keys.resize((*random)() % 12);
  if ((*random)() % 2 == 0) std::sort(keys.begin(), keys.end());
  return keys;
}

// Moves tablet 0 or 2 to the other server under a new term, and tells the exchange some time later.
void MoveTablet(World* world, Network* network, Exchange* exchange) {
  const uint32_t tablet = network->Chance(0.5) ? 0 : 2;
  const uint32_t from = world->routes.layout().tablets(static_cast<int>(tablet)).ps();
  world->servers[1 - from].tablets[tablet] = &world->tablets[tablet];
  world->servers[from].tablets.erase(tablet);
  ++world->tablets[tablet].term;
  world->routes.mutable_layout()->mutable_tablets(static_cast<int>(tablet))->set_ps(1 - from);
  world->routes.set_terms(static_cast<int>(tablet), world->tablets[tablet].term);
  network->At(3000, [=] { exchange->OnRoutes(world->MakeRoutes(), network->now()); });
}

struct Totals {
  int duplicates = 0;
  uint64_t resends = 0;
};

void RunSeed(uint64_t seed, Totals* totals) {
  INFO("seed " << seed);
  World world;
  // The rows of "dense", which steps read as a whole, and of "table".
  for (const int variable : {0, 1}) {
    world.routes.mutable_layout()->mutable_variables(variable)->set_hashed_rows(seed % 5 < 2);
  }
  ExchangeOptions options;
  options.request_timeout_us = 50'000;
  options.chunk_bytes = seed % 3 == 0 ? 64 : 1 << 20;
  world.servers[0].chunk_elements = seed % 2 == 0 ? 3 : 1000;
  Exchange exchange(options);
  exchange.SetGeneration(1, 0);
  Network network(&world, &exchange, seed);
  std::vector<float> dense(21, 0), table(200, 0);
  float bias = 0;
  constexpr uint64_t kSteps = 40;
  std::unique_ptr<Step> previous;
  for (uint64_t closure = 1; closure <= kSteps + 1; ++closure) {
    auto step = std::make_unique<Step>(RandomKeys(&network.random()));
    const PullBatch pull = step->Pull();
    PushBatch push;
    if (previous != nullptr) push = previous->Push(closure - 1);
    REQUIRE(
        exchange.Begin(world.MakeRoutes(), previous ? &push : nullptr, &pull, network.now()).ok());
    if (network.Chance(0.1)) {
      network.At(100, [&] { MoveTablet(&world, &network, &exchange); });
    }
    network.Run();
    INFO(exchange.status().ToString());
    REQUIRE(exchange.state() == Exchange::State::kDone);
    const PushOutcome& outcome = exchange.result().push;
    if (previous != nullptr) REQUIRE(outcome.applied + outcome.duplicates == 3);
    REQUIRE(step->dense == dense);
    REQUIRE(step->bias == bias);
    for (size_t i = 0; i < step->keys.size(); ++i) {
      for (size_t j = 0; j < 4; ++j) {
        REQUIRE(step->table[4 * i + j] == table[static_cast<size_t>(step->keys[i]) * 4 + j]);
      }
    }
    const auto gradient = [&] { return static_cast<float>(network.random()() % 16); };
    for (size_t i = 0; i < 21; ++i) dense[i] += step->dense_gradient[i] = gradient();
    for (size_t i = 0; i < step->table_gradient.size(); ++i) {
      step->table_gradient[i] = gradient();
      table[static_cast<size_t>(step->keys[i / 4]) * 4 + i % 4] += step->table_gradient[i];
    }
    bias += step->bias_gradient = gradient();
    previous = std::move(step);
  }
  for (const ModelTablet& tablet : world.tablets) {
    REQUIRE(tablet.log.size() == kSteps);
    for (uint64_t i = 0; i < kSteps; ++i) REQUIRE(std::get<0>(tablet.log[i]) == i + 1);
  }
  totals->duplicates += world.servers[0].duplicates + world.servers[1].duplicates;
  totals->resends += exchange.counters().resends;
}

TEST_CASE("each id once and values right over a bad network") {
  Totals totals;
  for (uint64_t seed = 1; seed <= 500; ++seed) RunSeed(seed, &totals);
  // Else the run has shown nothing.
  CHECK(totals.duplicates > 100);
  CHECK(totals.resends > 100);
}

}  // namespace
}  // namespace cohort::exchange_test

#include "common/exchange/exchange.h"

#include <array>
#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "common/exchange/exchange_test_world.h"
#include "common/testing/counted_test_calls.h"

namespace cohort::exchange_test {
namespace {

using State = Exchange::State;

TEST_CASE("a pull assembles the shards of all servers") {
  World world;
  for (size_t i = 0; i < 9; ++i) world.tablets[0].shards[0][i] = static_cast<float>(i);
  for (size_t i = 0; i < 6; ++i) world.tablets[2].shards[2][i] = 100 + static_cast<float>(i);
  for (size_t i = 0; i < 4; ++i) world.tablets[2].shards[4][20 + i] = 7 + static_cast<float>(i);
  world.tablets[0].shards[3][4] = 3;
  Step step({30, 1});  // not sorted: row 30 is row 5 of shard 4
  const PullBatch pull = step.Pull();
  Exchange exchange{ExchangeOptions{}};
  REQUIRE(exchange.Begin(world.MakeRoutes(), nullptr, &pull, 0).ok());
  Serve(&world, &exchange, 0);
  REQUIRE(exchange.state() == State::kDone);
  CHECK(exchange.result().pulled_timeline == 1);
  CHECK(step.dense[8] == 8);
  CHECK(step.dense[9] == 0);
  CHECK(step.dense[20] == 105);
  CHECK(step.table == std::vector<float>{7, 8, 9, 10, 3, 0, 0, 0});
  CHECK(step.bias == 0);
  CHECK(exchange.counters().requests == 2);  // one per server
}

TEST_CASE("the push of a step and the pull of the next travel in one request per server") {
  World world;
  Exchange exchange{ExchangeOptions{}};
  Step first({3, 40});
  first.dense_gradient.assign(21, 2);
  first.table_gradient = {1, 1, 1, 1, 5, 5, 5, 5};
  Step second({40});
  const PushBatch push = first.Push(17);
  const PullBatch pull = second.Pull();
  REQUIRE(exchange.Begin(world.MakeRoutes(), &push, &pull, 0).ok());
  Serve(&world, &exchange, 0);
  REQUIRE(exchange.state() == State::kDone);
  CHECK(exchange.counters().requests == 2);
  CHECK(exchange.result().push.applied == 3);
  CHECK(exchange.result().push.max_staleness == 0);
  CHECK(exchange.result().push.sum_staleness == 0);
  CHECK(second.dense == std::vector<float>(21, 2));
  CHECK(second.table == std::vector<float>(4, 5));
  for (const ModelTablet& tablet : world.tablets) CHECK(tablet.log.size() == 1);
}

TEST_CASE("a compact request has keys of 32 bits, and values of 16 if nothing is lost") {
  World world;
  Exchange exchange{ExchangeOptions{}};
  Step step({3, 40});
  step.dense_gradient.assign(21, 1.5f);
  step.bias_gradient = 1.0000001f;
  step.table_gradient = {1, 2, 3, 4, 0.1f, 6, 7, 8};
  const PushBatch push = step.Push(17);
  const PullBatch pull = step.Pull();
  REQUIRE(exchange.Begin(world.MakeRoutes(), &push, &pull, 0).ok());
  RecordingSink sink;
  sink.compacts = 0;
  exchange.Poll(0, &sink);
  const Request& compact = sink.sent[0][0][0];
  const Request& whole = sink.sent[1][0][0];
  size_t field = 0;
  const auto next = [&](const Request& request) { return request.payload[field++].size(); };
  for (const v1::PushSection& section : compact.header.push().sections()) {
    for (const v1::PushEntry& entry : section.entries()) {
      CAPTURE(entry.DebugString());
      const bool halves = entry.shard() != 5;  // the bias
      CHECK(entry.bfloat16() == halves);
      CHECK(entry.key_bytes() == (entry.sparse() ? 4 : 0));
      if (entry.sparse()) CHECK(next(compact) == 4);
      CHECK(next(compact) == (entry.sparse() ? 4 : entry.count()) * (halves ? 2 : 4));
    }
  }
  for (const v1::PullSection& section : compact.header.pull().sections()) {
    for (const v1::PullEntry& entry : section.entries()) {
      CHECK(entry.key_bytes() == (entry.rows() ? 4 : 0));
      if (entry.rows()) CHECK(next(compact) == 4);
    }
  }
  CHECK(field == compact.payload.size());
  for (const v1::PushSection& section : whole.header.push().sections()) {
    for (const v1::PushEntry& entry : section.entries()) {
      CHECK(!entry.bfloat16());
      CHECK(entry.key_bytes() == 0);
    }
  }
  // The same request again has the same bytes.
  exchange.OnLost(0, Unavailable("lost"), 1);
  exchange.Poll(exchange.NextPoll(), &sink);
  REQUIRE(sink.sent[0].size() == 2);
  CHECK(sink.sent[0][1][0].payload == compact.payload);
}

TEST_CASE("the staleness of a push counts from the pull in its lane") {
  World world;
  Exchange exchange{ExchangeOptions{}};
  const auto routes = world.MakeRoutes();
  Step step({3, 40});
  constexpr uint32_t kAhead = 2;
  for (uint32_t s = 0; s < kAhead; ++s) {  // two pulls before the first push
    PullBatch pull = step.Pull();
    pull.lane = s;
    REQUIRE(exchange.Begin(routes, nullptr, &pull, 0).ok());
    Serve(&world, &exchange, 0);
  }
  for (uint64_t closure = 1; closure <= 5; ++closure) {
    PushBatch push = step.Push(closure);
    PullBatch pull = step.Pull();
    push.lane = pull.lane = static_cast<uint32_t>((closure - 1) % kAhead);
    REQUIRE(exchange.Begin(routes, &push, &pull, 0).ok());
    Serve(&world, &exchange, 0);
    REQUIRE(exchange.state() == State::kDone);
    CHECK(exchange.result().push.max_staleness == std::min<uint64_t>(closure - 1, kAhead - 1));
  }
}

// A server whose values stay where they are until a request does not name them any more: one
// variable of 64 floats in one shard, and one cut into two shards.
struct LendingWorld {
  LendingWorld() {
    world.tablets[0].shards.clear();
    world.decls.clear();
    world.routes.mutable_layout()->clear_variables();
    world.routes.mutable_layout()->clear_shards();
    world.AddVariable("whole", {64}, {{64, 0}});
    world.AddVariable("cut", {64}, {{32, 0}, {32, 0}});
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
    copied.assign(128, -1);
  }

  PullBatch Pull(uint32_t lane) {
    items = {{.variable = 0, .destination = copied.data(), .lent = &lent[0]},
             {.variable = 1, .destination = copied.data() + 64, .lent = &lent[1]}};
    return {.items = items, .lane = lane};
  }
  // Begins a pull and returns its request.
  v1::PushPullHeader Begin(const PullBatch& pull, const PushBatch* push = nullptr) {
    RecordingSink sink;
    REQUIRE(exchange.Begin(world.MakeRoutes(), push, &pull, 0).ok());
    exchange.Poll(0, &sink);
    REQUIRE(sink.sent[0].size() == 1);
    return sink.sent[0][0].back().header;
  }
  // Answers with the values in pieces: shard, first element, elements, where, whether they are
  // lent.
  struct Piece {
    uint32_t shard;
    uint64_t begin;
    uint64_t count;
    const float* at;
    bool lent;
  };
  void Answer(const v1::PushPullHeader& request, const std::vector<Piece>& pieces) {
    v1::PushPullResponseHeader header;
    header.set_sequence(request.sequence());
    header.set_generation(1);
    for (const v1::PushSection& section : request.push().sections()) {
      v1::PushResult* const pushed = header.add_pushes();
      pushed->set_tablet(section.tablet());
      pushed->set_status(v1::APPLIED);
    }
    v1::PullResult* const result = header.add_pulls();
    result->set_status(v1::APPLIED);
    result->set_timeline(1);
    std::vector<Bytes> bytes;
    std::vector<uint8_t> flags;
    for (const Piece& piece : pieces) {
      v1::PulledEntry* const entry = result->add_entries();
      entry->set_shard(piece.shard);
      entry->set_begin(piece.begin);
      entry->set_count(piece.count);
      bytes.emplace_back(reinterpret_cast<const uint8_t*>(piece.at), 4 * piece.count);
      flags.push_back(piece.lent ? 1 : 0);
    }
    std::vector<PayloadPieces> payload;
    for (const Bytes& b : bytes) payload.emplace_back(&b, 1);
    exchange.OnResponse(0, header, payload, 0, flags);
  }
  // The whole variable in two pieces, and the two shards of the other one.
  std::vector<Piece> AllLent() const {
    const float* const m = memory.data();
    return {{0, 0, 16, m, true},
            {0, 16, 48, m + 16, true},
            {1, 0, 32, m + 64, true},
            {2, 0, 32, m + 96, true}};
  }

  World world;
  Exchange exchange{ExchangeOptions{}};
  alignas(64) std::array<float, 192> memory;
  std::vector<float> copied;
  const void* lent[2] = {&lent, &lent};
  std::vector<PullItem> items;
};

TEST_CASE("a variable in one run of lent memory is read there; one in several shards is copied") {
  LendingWorld w;
  const v1::PushPullHeader request = w.Begin(w.Pull(0));
  CHECK(w.lent[0] == nullptr);
  w.Answer(request, w.AllLent());
  REQUIRE(w.exchange.state() == State::kDone);
  CHECK(w.lent[0] == w.memory.data());
  CHECK(w.lent[1] == nullptr);
  CHECK(w.copied[0] == -1);
  CHECK(std::equal(w.copied.begin() + 64, w.copied.end(), w.memory.begin() + 64));
  CHECK(w.exchange.counters().bytes_lent == 64 * 4);
  CHECK(w.exchange.counters().bytes_copied == 64 * 4);
}

TEST_CASE("values that are not in one run of lent memory are copied as a whole") {
  LendingWorld w;
  const float* const m = w.memory.data();
  auto pieces = w.AllLent();
  SECTION("the second piece is not lent") { pieces[1].lent = false; }
  SECTION("the first piece is not lent") { pieces[0].lent = false; }
  SECTION("the second piece lies elsewhere") {
    std::copy_n(m + 16, 48, w.memory.begin() + 128);
    pieces[1].at = m + 128;
  }
  SECTION("the run is not aligned") {
    std::copy_n(m, 64, w.memory.begin() + 127);
    pieces[0].at = m + 127;
    pieces[1].at = m + 127 + 16;
  }
  w.Answer(w.Begin(w.Pull(0)), pieces);
  REQUIRE(w.exchange.state() == State::kDone);
  CHECK(w.lent[0] == nullptr);
  CHECK(std::equal(w.copied.begin(), w.copied.begin() + 64, m));
  CHECK(w.exchange.counters().bytes_lent == 0);
  CHECK(w.exchange.counters().bytes_copied == 128 * 4);
}

TEST_CASE("requests name the answers whose values are still read, until the lane is used again") {
  LendingWorld w;
  const auto reading = [](const v1::PushPullHeader& request) {
    return std::vector<uint64_t>(request.reading().begin(), request.reading().end());
  };
  const auto pull = [&](uint32_t lane) {
    const v1::PushPullHeader request = w.Begin(w.Pull(lane));
    w.Answer(request, w.AllLent());
    REQUIRE(w.exchange.state() == State::kDone);
    return request;
  };
  const v1::PushPullHeader first = pull(0);
  CHECK(reading(first).empty());
  const v1::PushPullHeader second = pull(1);
  CHECK(reading(second) == std::vector<uint64_t>{first.sequence()});
  const v1::PushPullHeader third = pull(0);  // the lane is used again
  CHECK(reading(third) == std::vector<uint64_t>{second.sequence()});
  // A push ends what its step has read.
  float gradient[64] = {};
  const PushItem item{0, PushKind::kGradient, false, {}, gradient, 0};
  PushBatch push{{}, {&item, 1}};
  push.stamp = {.closure = 1, .attempt = 1, .timeline = 1};
  push.lane = 0;
  const PullBatch pulled = w.Pull(2);
  const v1::PushPullHeader fourth = w.Begin(pulled, &push);
  CHECK(reading(fourth) == std::vector<uint64_t>{second.sequence()});
}

TEST_CASE("an answer that is lost leaves no value lent") {
  LendingWorld w;
  const v1::PushPullHeader request = w.Begin(w.Pull(0));
  w.Answer(request, {w.AllLent()[0]});
  CHECK(w.lent[0] == w.memory.data());
  w.exchange.OnLost(0, absl::UnavailableError("lost"), 0);
  RecordingSink sink;
  w.exchange.Poll(1'000'000, &sink);
  REQUIRE(sink.sent[0].size() == 1);
  CHECK(w.lent[0] == nullptr);
  w.Answer(sink.sent[0][0].back().header, w.AllLent());
  REQUIRE(w.exchange.state() == State::kDone);
  CHECK(w.lent[0] == w.memory.data());
}

TEST_CASE("time in which nobody receives answers is not the silence of a server") {
  World world;
  ExchangeOptions options;
  options.request_timeout_us = 100'000;
  Exchange exchange(options);
  Step step({1});
  const PullBatch pull = step.Pull();
  REQUIRE(exchange.Begin(world.MakeRoutes(), nullptr, &pull, 0).ok());
  RecordingSink sink;
  exchange.Poll(0, &sink);
  exchange.Unattended(5'000'000);
  CHECK(exchange.NextPoll() == 5'025'000);
  exchange.Poll(5'099'999, &sink);
  CHECK(exchange.counters().resends == 0);
  exchange.Poll(5'100'000, &sink);
  CHECK(exchange.counters().resends == 2);
}

TEST_CASE("a tablet without a gradient records the id") {
  World world;
  Exchange exchange{ExchangeOptions{}};
  float gradient = 4;
  const PushItem bias{2, PushKind::kGradient, false, {}, &gradient, 0};
  PushBatch push{{}, {&bias, 1}};
  push.stamp = {.closure = 5, .attempt = 1, .timeline = 1};
  REQUIRE(exchange.Begin(world.MakeRoutes(), &push, nullptr, 0).ok());
  RecordingSink sink;
  exchange.Poll(0, &sink);
  const Request& to_second = sink.sent[1][0][0];
  REQUIRE(to_second.header.push().sections_size() == 1);
  CHECK(to_second.header.push().sections(0).entries(0).kind() == v1::RECORD_ONLY);
  CHECK(to_second.payload.empty());
  for (uint32_t ps = 0; ps < 2; ++ps) {
    for (const Response& r : world.servers[ps].Handle(sink.sent[ps][0]))
      Deliver(&exchange, ps, r, 0);
  }
  REQUIRE(exchange.state() == State::kDone);
  for (const ModelTablet& tablet : world.tablets) CHECK(tablet.applied.size() == 1);
  CHECK(world.tablets[0].shards[5][0] == 4);
}

TEST_CASE("dense gradients that the workers sum: only the sums are pushed") {
  World world;
  Exchange exchange{ExchangeOptions{}};
  Step step({30});
  PushBatch push = step.Push(5);
  push.stamp.step = {.step = 1, .step_try = 1};
  push.sums_dense = true;
  // This worker owns shards 2 (dense, of ps:1) and 5 (bias, of ps:0).
  const std::vector<float> dense_sum = {1, 2, 3, 4, 5, 6};
  const float bias_sum = 7;
  const std::vector<ShardSum> sums = {{2, dense_sum.data()}, {5, &bias_sum}};
  push.sums = sums;
  REQUIRE(exchange.Begin(world.MakeRoutes(), &push, nullptr, 0).ok());
  RecordingSink sink;
  exchange.Poll(0, &sink);
  const auto entries = [&](uint32_t ps) {
    std::map<uint32_t, v1::PushEntry> found;
    for (const v1::PushSection& section : sink.sent[ps][0][0].header.push().sections()) {
      for (const v1::PushEntry& entry : section.entries()) found[entry.shard()] = entry;
    }
    return found;
  };
  const auto first = entries(0);
  CHECK(first.at(0).kind() == v1::RECORD_ONLY);
  CHECK(first.at(0).summed_elsewhere());
  CHECK(first.at(1).summed_elsewhere());
  CHECK(first.at(5).kind() == v1::GRADIENT);
  CHECK(!first.at(5).summed_elsewhere());
  const auto second = entries(1);
  CHECK(second.at(2).kind() == v1::GRADIENT);
  CHECK(second.at(2).count() == 6);
  CHECK(second.at(4).sparse());
  CHECK(!second.at(4).summed_elsewhere());
  const std::string& payload = sink.sent[1][0][0].payload[0];
  CHECK(payload == std::string(reinterpret_cast<const char*>(dense_sum.data()), 24));
  CHECK(sink.sent[0][0][0].payload.size() == 3);  // the sum of bias; no row of the table
}

TEST_CASE("after the mode has changed to async, a push names no step") {
  World world;
  Exchange exchange{ExchangeOptions{}};
  float gradient = 4;
  const PushItem bias{2, PushKind::kGradient, false, {}, &gradient, 0};
  PushBatch push{{}, {&bias, 1}};
  push.stamp = {.closure = 5, .attempt = 1, .timeline = 1};
  for (const uint64_t step : {7, 0}) {
    push.stamp.step.step = step;
    ++push.stamp.closure;
    REQUIRE(exchange.Begin(world.MakeRoutes(), &push, nullptr, 0).ok());
    RecordingSink sink;
    exchange.Poll(0, &sink);
    CHECK(sink.sent[0][0][0].header.push().has_step() == (step > 0));
    CHECK(sink.sent[0][0][0].header.push().step().step() == step);
    exchange.Cancel(Cancelled("enough"));
  }
}

TEST_CASE("a lost answer is asked for again under the same id, with the generation of now") {
  World world;
  Exchange exchange{ExchangeOptions{}};
  exchange.SetGeneration(1, 0);
  Step step({1, 2, 30});
  step.dense_gradient.assign(21, 1);
  const PushBatch push = step.Push(9);
  REQUIRE(exchange.Begin(world.MakeRoutes(), &push, nullptr, 0).ok());
  RecordingSink sink;
  exchange.Poll(0, &sink);
  for (const Response& r : world.servers[0].Handle(sink.sent[0][0])) Deliver(&exchange, 0, r, 0);
  world.servers[1].Handle(sink.sent[1][0]);  // applied, and the answer is lost
  exchange.SetGeneration(2, 0);
  exchange.SetWatermark(4);
  exchange.OnLost(1, Unavailable("socket closed"), 100);
  exchange.Poll(100, &sink);
  CHECK(sink.sent[1].size() == 1);  // it backs off
  exchange.Poll(exchange.NextPoll(), &sink);
  REQUIRE(sink.sent[1].size() == 2);
  const v1::PushPullHeader& before = sink.sent[1][0][0].header;
  const v1::PushPullHeader& again = sink.sent[1][1][0].header;
  CHECK(again.push().SerializeAsString() == before.push().SerializeAsString());
  CHECK(again.sequence() != before.sequence());
  CHECK(again.generation() == 2);
  CHECK(again.settled_watermark() == 4);
  CHECK(sink.sent[1][1][0].payload == sink.sent[1][0][0].payload);
  for (const Response& r : world.servers[1].Handle(sink.sent[1][1])) Deliver(&exchange, 1, r, 0);
  REQUIRE(exchange.state() == State::kDone);
  CHECK(exchange.result().push.applied == 2);
  CHECK(exchange.result().push.duplicates == 1);
  CHECK_FALSE(exchange.result().push.mixed);
  CHECK(world.tablets[2].shards[2][0] == 1);
}

TEST_CASE("another attempt that some tablets have is reported as mixed") {
  World world;
  world.tablets[1].applied[{9, 0}] = 1;
  Exchange exchange{ExchangeOptions{}};
  Step step({1});
  const PushBatch push = step.Push(9, 2);
  REQUIRE(exchange.Begin(world.MakeRoutes(), &push, nullptr, 0).ok());
  Serve(&world, &exchange, 0);
  REQUIRE(exchange.state() == State::kDone);
  CHECK(exchange.result().push.applied == 2);
  CHECK(exchange.result().push.duplicates == 1);
  CHECK(exchange.result().push.mixed);
}

TEST_CASE("a newer timeline ends the exchange as aborted") {
  World world;
  Exchange exchange{ExchangeOptions{}};
  Step step({1});
  const PushBatch push = step.Push(9);
  for (ModelTablet& tablet : world.tablets) {
    tablet.term = 2;
    tablet.timeline = 2;
  }
  REQUIRE(exchange.Begin(world.MakeRoutes(), &push, nullptr, 0).ok());
  Serve(&world, &exchange, 0);
  CHECK(exchange.state() == State::kAborted);
  CHECK(absl::IsAborted(exchange.status()));
  CHECK(world.tablets[0].log.empty());

  // Nor does one begin whose gradient is older than the routes.
  world.routes.set_timeline(2);
  CHECK(absl::IsAborted(exchange.Begin(world.MakeRoutes(), &push, nullptr, 0)));
}

TEST_CASE("tablets on unequal timelines are never mixed into one pull") {
  World world;
  world.tablets[2].timeline = 2;  // as a server that was rolled back, under the same term
  Exchange exchange{ExchangeOptions{}};
  Step step({1});
  const PullBatch pull = step.Pull();
  REQUIRE(exchange.Begin(world.MakeRoutes(), nullptr, &pull, 0).ok());
  Serve(&world, &exchange, 0);
  CHECK(exchange.state() == State::kAborted);
}

TEST_CASE("a request that a newer chief fences continues once this process hears of that chief") {
  World world;
  Exchange exchange{ExchangeOptions{}};
  exchange.SetGeneration(1, 0);
  world.servers[1].generation = 2;
  Step step({1});
  const PushBatch push = step.Push(9);
  REQUIRE(exchange.Begin(world.MakeRoutes(), &push, nullptr, 0).ok());
  Serve(&world, &exchange, 0);
  CHECK(exchange.state() == State::kRunning);
  exchange.SetGeneration(2, 10);
  CHECK(exchange.NextPoll() == 10);
  Serve(&world, &exchange, 10);
  CHECK(exchange.state() == State::kDone);
  CHECK(world.tablets[2].log.size() == 1);
}

TEST_CASE(
    "a push to a server that has not heard of this process's chief is sent again until it has") {
  World world;
  Exchange exchange{ExchangeOptions{}};
  exchange.SetGeneration(2, 0);
  Step step({1});
  const PushBatch push = step.Push(9);
  REQUIRE(exchange.Begin(world.MakeRoutes(), &push, nullptr, 0).ok());
  RecordingSink sink;
  exchange.Poll(0, &sink);
  for (int ps = 0; ps < 2; ++ps) {
    Response fenced;
    fenced.header.set_sequence(sink.sent[ps][0][0].header.sequence());
    fenced.header.set_generation(1);
    for (const v1::PushSection& section : sink.sent[ps][0][0].header.push().sections()) {
      v1::PushResult* result = fenced.header.add_pushes();
      result->set_tablet(section.tablet());
      result->set_status(v1::FENCED);
      result->set_timeline(1);
      result->set_term(section.term());
    }
    Deliver(&exchange, static_cast<uint32_t>(ps), fenced, 0);
  }
  REQUIRE(exchange.state() == State::kRunning);
  SECTION("it has") {
    Serve(&world, &exchange, exchange.NextPoll());
    CHECK(exchange.state() == State::kDone);
    CHECK(exchange.result().push.applied == 3);
  }
  SECTION("it does not: the end says why") {
    exchange.Poll(ExchangeOptions{}.hold_timeout_us, &sink);
    CHECK(absl::IsAborted(exchange.status()));
    CHECK_THAT(exchange.status().ToString(),
               Catch::Contains("its chief's generation is 1, ours 2"));
  }
}

TEST_CASE("what a server refuses as settled is no duplicate") {
  World world;
  Exchange exchange{ExchangeOptions{}};
  Step step({1});
  const PushBatch push = step.Push(9);
  REQUIRE(exchange.Begin(world.MakeRoutes(), &push, nullptr, 0).ok());
  RecordingSink sink;
  exchange.Poll(0, &sink);
  for (uint32_t ps = 0; ps < 2; ++ps) {
    for (Response& r : world.servers[ps].Handle(sink.sent[ps][0])) {
      if (ps == 1) r.header.mutable_pushes(0)->set_status(v1::SETTLED);
      Deliver(&exchange, ps, r, 0);
    }
  }
  REQUIRE(exchange.state() == State::kDone);
  CHECK(exchange.result().push.applied == 2);
  CHECK(exchange.result().push.settled == 1);
  CHECK(exchange.result().push.duplicates == 0);
}

TEST_CASE("a moved tablet is found by the next routes; without any the exchange is aborted") {
  World world;
  ExchangeOptions options;
  Exchange exchange(options);
  Step step({1});
  step.dense_gradient.assign(21, 1);
  const PushBatch push = step.Push(9);
  const PullBatch pull = step.Pull();
  world.servers[1].tablets[0] = &world.tablets[0];
  world.servers[0].tablets.erase(0);
  world.tablets[0].term = 2;
  REQUIRE(exchange.Begin(world.MakeRoutes(), &push, &pull, 0).ok());
  Serve(&world, &exchange, 0);
  REQUIRE(exchange.state() == State::kRunning);

  SECTION("found") {
    world.routes.mutable_layout()->mutable_tablets(0)->set_ps(1);
    world.routes.set_terms(0, 2);
    exchange.OnRoutes(world.MakeRoutes(), 5);
    CHECK(exchange.NextPoll() == 5);
    Serve(&world, &exchange, 5);
    REQUIRE(exchange.state() == State::kDone);
    CHECK(exchange.result().push.applied == 3);
    CHECK(step.dense == std::vector<float>(21, 1));
    for (const ModelTablet& tablet : world.tablets) CHECK(tablet.log.size() == 1);
  }
  SECTION("not found") {
    while (exchange.state() == State::kRunning) Serve(&world, &exchange, exchange.NextPoll());
    CHECK(exchange.state() == State::kAborted);
    CHECK(std::string(exchange.status().message()).find("ps:0 (model:0)") != std::string::npos);
  }
  SECTION("rolled back") {
    world.routes.set_timeline(2);
    exchange.OnRoutes(world.MakeRoutes(), 5);
    CHECK(exchange.state() == State::kAborted);
  }
}

TEST_CASE("a server that stays away is named in the typed failure") {
  World world;
  ExchangeOptions options;
  options.unreachable_after_us = 1'000'000;
  options.request_timeout_us = 100'000;
  Exchange exchange(options);
  Step step({1});
  const PullBatch pull = step.Pull();
  REQUIRE(exchange.Begin(world.MakeRoutes(), nullptr, &pull, 0).ok());
  RecordingSink sink;
  int64_t now = 0;
  while (exchange.state() == State::kRunning) {
    now = exchange.NextPoll();
    exchange.Poll(now, &sink);
    if (sink.sent[0].size() == 1 && now == 0) {
      for (const Response& r : world.servers[0].Handle(sink.sent[0][0]))
        Deliver(&exchange, 0, r, 0);
    }
  }
  CHECK(exchange.state() == State::kFailed);
  CHECK(now >= 1'000'000);
  CHECK(now <= 2'500'000);
  CHECK(sink.sent[0].size() == 1);
  CHECK(sink.sent[1].size() >= 3);
  CHECK(sink.resets.size() == sink.sent[1].size());
  const auto failure = GetFailure(exchange.status());
  REQUIRE(failure.has_value());
  CHECK(failure->role == "ps");
  CHECK(failure->index == 1);
  CHECK(failure->incarnation == 101);
  CHECK(failure->retryable);
}

TEST_CASE("a pull that is promised for later is waited for") {
  World world;
  world.servers[1].later = true;
  Exchange exchange{ExchangeOptions{}};
  Step step({1});
  const PushBatch push = step.Push(3);
  const PullBatch pull = step.Pull();
  REQUIRE(exchange.Begin(world.MakeRoutes(), &push, &pull, 0).ok());
  RecordingSink sink;
  exchange.Poll(0, &sink);
  for (const Response& r : world.servers[0].Handle(sink.sent[0][0])) Deliver(&exchange, 0, r, 0);
  const auto responses = world.servers[1].Handle(sink.sent[1][0]);
  REQUIRE(responses.size() == 2);
  Deliver(&exchange, 1, responses[0], 0);
  CHECK(exchange.state() == State::kRunning);
  Deliver(&exchange, 1, responses[1], 0);
  CHECK(exchange.state() == State::kDone);
}

// One server's requests, with the time limits of ExchangeOptions.
struct WatchedPush {
  WatchedPush() {
    const PushBatch push = step.Push(3);
    const PullBatch pull = step.Pull();
    REQUIRE(exchange.Begin(world.MakeRoutes(), &push, &pull, 0).ok());
    exchange.Poll(0, &sink);
    for (const Response& r : world.servers[1].Handle(sink.sent[1][0])) Deliver(&exchange, 1, r, 0);
  }
  // Lets time pass, looking whenever the exchange wants to.
  void PassUntil(int64_t us) {
    while (exchange.state() == State::kRunning && exchange.NextPoll() <= us) {
      now = exchange.NextPoll();
      exchange.Poll(now, &sink);
    }
    now = us;
  }

  World world;
  Exchange exchange{ExchangeOptions{}};
  Step step{{1}};
  RecordingSink sink;
  int64_t now = 0;
};

TEST_CASE("a push that is slow but moves is never sent again, and is reported once") {
  WatchedPush w;
  for (int second = 1; second <= 100; ++second) {
    w.sink.moved[0] = {.sent = static_cast<uint64_t>(second)};
    w.PassUntil(second * 1'000'000);
  }
  CHECK(w.exchange.counters().resends == 0);
  CHECK(w.sink.resets.empty());
  REQUIRE(w.sink.slow.size() == 1);
  CHECK(w.sink.slow[0] == "the push to ps:0 has sent 0.0 of 0.0 MB in 10 s (0.0 MB/s)");
  for (const Response& r : w.world.servers[0].Handle(w.sink.sent[0][0])) {
    Deliver(&w.exchange, 0, r, w.now);
  }
  CHECK(w.exchange.state() == State::kDone);
  CHECK(w.world.servers[0].duplicates == 0);
}

TEST_CASE("a request is lost once nothing has moved for the timeout") {
  WatchedPush w;
  w.PassUntil(2'000'000);
  w.sink.moved[0] = {.sent = 40};
  SECTION("from the last look that saw bytes move") {
    w.PassUntil(12'499'999);
    CHECK(w.sink.resets.empty());
    w.PassUntil(12'500'000);
    CHECK(w.sink.resets == std::vector<uint32_t>{0});
  }
  SECTION("or an answer or a promise come") {
    w.PassUntil(9'000'000);
    Response promise;
    promise.header.set_sequence(w.sink.sent[0][0][0].header.sequence());
    promise.header.set_more(true);
    v1::PullResult* const later = promise.header.add_pulls();
    later->set_tablet(0);
    later->set_status(v1::LATER);
    Deliver(&w.exchange, 0, promise, w.now);
    w.PassUntil(18'999'999);
    CHECK(w.sink.resets.empty());
    w.PassUntil(19'000'000);
    CHECK(w.sink.resets == std::vector<uint32_t>{0});
  }
  CHECK(w.exchange.counters().resends == (w.sink.resets.empty() ? 0 : 1));
}

TEST_CASE("the wait for a server ends with the first part of its answer") {
  WatchedPush w;
  v1::PushPullResponseHeader first;
  first.set_sequence(w.sink.sent[0][0][0].header.sequence());
  w.exchange.Unattended(400);  // the step computed
  first.set_sequence(first.sequence() + 9);
  CHECK(w.exchange.TakeWait(0, first, 1'000) == -1);  // another request's
  first.set_sequence(first.sequence() - 9);
  CHECK(w.exchange.TakeWait(7, first, 1'000) == -1);
  CHECK(w.exchange.TakeWait(0, first, 1'000) == 600);
  CHECK(w.exchange.TakeWait(0, first, 2'000) == -1);
  w.PassUntil(11'000'000);  // it is silent, so the request is sent again
  REQUIRE(w.sink.sent[0].size() == 2);
  first.set_sequence(w.sink.sent[0][1][0].header.sequence());
  CHECK(w.exchange.TakeWait(0, first, w.now) >= 0);
}

TEST_CASE("a pull that waits for the close of a step blames no server") {
  World world;
  Step step({1});
  PullBatch pull = step.Pull();
  pull.step = 4;
  const PushBatch push = step.Push(3);
  const bool pushes = GENERATE(false, true);
  Exchange exchange{ExchangeOptions{}};
  REQUIRE(exchange.Begin(world.MakeRoutes(), pushes ? &push : nullptr, &pull, 0).ok());
  RecordingSink sink;
  exchange.Poll(0, &sink);
  v1::PushPullResponseHeader first;
  first.set_sequence(sink.sent[1][0][0].header.sequence());
  CHECK(exchange.TakeWait(1, first, 700) == (pushes ? 700 : -1));
}

TEST_CASE("the failure of a silent server says what had moved, and how fast") {
  WatchedPush w;
  w.sink.moved[0] = {.sent = 40};
  w.PassUntil(100'000'000);
  REQUIRE(w.exchange.state() == State::kFailed);
  CHECK_THAT(std::string(w.exchange.status().message()),
             Catch::Contains("no answer for 10000 ms; the push to ps:0 has sent 0.0 of 0.0 MB in"));
}

TEST_CASE("what gRPC and the sockets hold may drain at the rate of the request") {
  RequestWatch watch;
  watch.Begin(0, 10'000'000);
  // 160 MB at 0.4 MB/s: the last 8 MiB are in transit when everything has left the stream.
  const int64_t sent_us = 380'000'000;
  for (int64_t now = watch.next_look_us(); now < sent_us; now = watch.next_look_us()) {
    const uint64_t sent = 8'000'000 + static_cast<uint64_t>(now) * 4 / 10;
    REQUIRE(watch.Look({.sent = sent}, now) != RequestWatch::Verdict::kSilent);
  }
  int64_t silent_us = sent_us;
  while (watch.Look({.sent = 160'000'000}, silent_us) != RequestWatch::Verdict::kSilent) {
    silent_us = watch.next_look_us();
  }
  CHECK(silent_us - sent_us > 20'000'000);
  CHECK(silent_us - sent_us < 40'000'000);
}

TEST_CASE("an input that makes no sense ends with an error that names it") {
  World world;
  Exchange exchange{ExchangeOptions{}};
  SECTION("a row that the variable does not have") {
    Step step({1, 50});
    const PullBatch pull = step.Pull();
    const absl::Status status = exchange.Begin(world.MakeRoutes(), nullptr, &pull, 0);
    CHECK(absl::IsInvalidArgument(status));
    CHECK(std::string(status.message()) ==
          "row 50 of variable 'table', which has 50 rows: the data has ids beyond the table (its "
          "input_dim)");
  }
  Step step({1});
  const PushBatch push = step.Push(3);
  const PullBatch pull = step.Pull();
  Response response;
  SECTION("INVALID") {
    REQUIRE(exchange.Begin(world.MakeRoutes(), &push, &pull, 0).ok());
    RecordingSink sink;
    exchange.Poll(0, &sink);
    response.header.set_sequence(sink.sent[0][0][0].header.sequence());
    auto* result = response.header.add_pushes();
    result->set_tablet(0);
    result->set_status(v1::INVALID);
    result->set_message("shard 3: 7 bytes");
    Deliver(&exchange, 0, response, 0);
    CHECK(exchange.state() == State::kFailed);
    CHECK(absl::IsInvalidArgument(exchange.status()));
  }
  SECTION("an answer of the wrong size") {
    REQUIRE(exchange.Begin(world.MakeRoutes(), nullptr, &pull, 0).ok());
    RecordingSink sink;
    exchange.Poll(0, &sink);
    auto responses = world.servers[0].Handle(sink.sent[0][0]);
    responses[0].payload[0].pop_back();
    Deliver(&exchange, 0, responses[0], 0);
    CHECK(exchange.state() == State::kFailed);
    CHECK(absl::IsInternal(exchange.status()));
  }
  SECTION("an answer with too few fields") {
    REQUIRE(exchange.Begin(world.MakeRoutes(), nullptr, &pull, 0).ok());
    RecordingSink sink;
    exchange.Poll(0, &sink);
    auto responses = world.servers[0].Handle(sink.sent[0][0]);
    responses[0].payload.clear();
    Deliver(&exchange, 0, responses[0], 0);
    CHECK(exchange.state() == State::kFailed);
  }
  SECTION("a program that the routes do not know") {
    world.decls.push_back({"nobody", {DType::kFloat32, {}}});
    const auto routes = ProgramRoutes::Make(world.routes, world.decls);
    CHECK(absl::IsInvalidArgument(routes.status()));
  }
  SECTION("routes with a hole") {
    world.routes.mutable_layout()->mutable_shards(1)->set_row_begin(4);
    const auto routes = ProgramRoutes::Make(world.routes, world.decls);
    CHECK(std::string(routes.status().message()) ==
          "shards of variable 'dense': row 3 expected, shard 1 begins at 4");
  }
}

TEST_CASE("big pushes and pulls travel in chunks") {
  World world;
  ExchangeOptions options;
  options.chunk_bytes = 40;
  world.servers[0].chunk_elements = 4;
  world.servers[1].chunk_elements = 2;
  Exchange exchange(options);
  Step step({1, 2, 3, 4, 28, 29, 30});
  for (size_t i = 0; i < 21; ++i) step.dense_gradient[i] = static_cast<float>(i);
  for (size_t i = 0; i < 28; ++i) step.table_gradient[i] = static_cast<float>(i);
  const PushBatch push = step.Push(3);
  const PullBatch pull = step.Pull();
  REQUIRE(exchange.Begin(world.MakeRoutes(), &push, &pull, 0).ok());
  RecordingSink sink;
  exchange.Poll(0, &sink);
  REQUIRE(sink.sent[0][0].size() > 3);
  for (const Request& message : sink.sent[0][0]) {
    size_t bytes = 0;
    for (const std::string& field : message.payload) bytes += field.size();
    if (message.header.more()) CHECK(bytes <= 40);
    CHECK(message.header.has_pull() == !message.header.more());
  }
  for (uint32_t ps = 0; ps < 2; ++ps) {
    for (const Response& r : world.servers[ps].Handle(sink.sent[ps][0]))
      Deliver(&exchange, ps, r, 0);
  }
  REQUIRE(exchange.state() == State::kDone);
  CHECK(step.dense == step.dense_gradient);
  CHECK(step.table == step.table_gradient);
}

TEST_CASE("the steady state allocates nothing") {
  World world;
  Exchange exchange{ExchangeOptions{}};
  const auto routes = world.MakeRoutes();
  Step step({3, 40, 7, 8, 30});
  const PullBatch pull = step.Pull();
  int64_t counted = -1;
  for (uint64_t closure = 1; closure <= 20; ++closure) {
    const PushBatch push = step.Push(closure);
    RecordingSink sink;
    const int64_t before = testing::CountedAllocations();
    testing::ResumeCounting();
    const absl::Status begun = exchange.Begin(routes, &push, &pull, 0);
    testing::StopCounting();
    REQUIRE(begun.ok());
    // The recording is not the exchange's.
    struct PassingSink : ExchangeSink {
      explicit PassingSink(RecordingSink* to) : to_(to) {}
      void Send(const ServerRoute& server, std::span<const ExchangeMessage> messages) override {
        testing::StopCounting();
        to_->Send(server, messages);
        testing::ResumeCounting();
      }
      void Reset(const ServerRoute&) override {}
      BytesMoved Moved(const ServerRoute&) override { return {}; }
      RecordingSink* to_;
    } passing(&sink);
    testing::ResumeCounting();
    exchange.Poll(0, &passing);
    testing::StopCounting();
    for (uint32_t ps = 0; ps < 2; ++ps) {
      const Response r = world.servers[ps].Handle(sink.sent[ps][0])[0];
      std::vector<Bytes> fields;
      for (const std::string& field : r.payload) {
        fields.emplace_back(reinterpret_cast<const uint8_t*>(field.data()), field.size());
      }
      std::vector<PayloadPieces> payload;
      for (const Bytes& field : fields) payload.emplace_back(&field, 1);
      testing::ResumeCounting();
      exchange.OnResponse(ps, r.header, payload, 0);
      testing::StopCounting();
    }
    REQUIRE(exchange.state() == State::kDone);
    counted = testing::CountedAllocations() - before;
  }
  CHECK(counted == 0);
}

}  // namespace
}  // namespace cohort::exchange_test

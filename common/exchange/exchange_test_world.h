#ifndef COHORT_COMMON_EXCHANGE_EXCHANGE_TEST_WORLD_H_
#define COHORT_COMMON_EXCHANGE_EXCHANGE_TEST_WORLD_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/exchange/exchange.h"
#include "common/exchange/exchange_test_server.h"

namespace cohort::exchange_test {

// Three variables on three tablets of two servers:
//   dense  float32[7, 3]    shards 0 (rows 0..2, tablet 0), 1 (3..4, tablet 1), 2 (5..6, tablet 2)
//   table  float32[50, 4]   shards 3 (rows 0..24, tablet 0), 4 (25..49, tablet 2)
//   bias   float32[]        shard 5 (tablet 0)
// Tablets 0 and 1 are on ps:0, tablet 2 on ps:1.
struct World {
  World() {
    for (uint32_t t = 0; t < 3; ++t) servers[t == 2].tablets[t] = &tablets[t];
    AddVariable("dense", {7, 3}, {{3, 0}, {2, 1}, {2, 2}});
    AddVariable("table", {50, 4}, {{25, 0}, {25, 2}});
    AddVariable("bias", {}, {{1, 0}});
    for (uint32_t t = 0; t < 3; ++t) {
      v1::TabletSpec* tablet = routes.mutable_layout()->add_tablets();
      tablet->set_tablet(t);
      tablet->set_ps(t == 2);
      routes.add_terms(1);
    }
    routes.set_timeline(1);
    for (uint32_t ps = 0; ps < 2; ++ps) {
      v1::PsRoute* route = routes.add_servers();
      route->set_ps(ps);
      route->set_incarnation(100 + ps);
      route->set_address("model:" + std::to_string(ps));
    }
  }

  void AddVariable(const std::string& name, std::vector<int64_t> dims,
                   std::vector<std::pair<uint64_t, uint32_t>> shards) {
    VariableDecl decl{name, {DType::kFloat32, {}}};
    v1::VariableSpec* variable = routes.mutable_layout()->add_variables();
    variable->set_name(name);
    variable->set_dtype(v1::FLOAT32);
    size_t width = 1;
    for (size_t i = 0; i < dims.size(); ++i) {
      variable->add_dims(dims[i]);
      decl.type.dims.push_back({dims[i], 0});
      if (i > 0) width *= static_cast<size_t>(dims[i]);
    }
    uint64_t row = 0;
    for (const auto& [rows, tablet] : shards) {
      v1::ShardSpec* shard = routes.mutable_layout()->add_shards();
      shard->set_shard(static_cast<uint32_t>(routes.layout().shards_size() - 1));
      shard->set_variable(static_cast<uint32_t>(routes.layout().variables_size() - 1));
      shard->set_row_begin(row);
      shard->set_rows(rows);
      shard->set_tablet(tablet);
      row += rows;
      tablets[tablet].shards[shard->shard()].assign(rows * width, 0.0f);
      tablets[tablet].row_elements[shard->shard()] = width;
    }
    decls.push_back(decl);
  }

  std::shared_ptr<const ProgramRoutes> MakeRoutes() const {
    auto made = ProgramRoutes::Make(routes, decls);
    if (!made.ok()) throw std::runtime_error(made.status().ToString());
    return *made;
  }

  ModelTablet tablets[3];
  ModelServer servers[2];
  v1::Routes routes;
  std::vector<VariableDecl> decls;
};

// Buffers of one step: pulls `dense` whole, `rows` of table, bias; pushes to all three.
struct Step {
  explicit Step(std::vector<int64_t> rows) : keys(std::move(rows)) {
    table.assign(keys.size() * 4, -1);
    table_gradient.assign(keys.size() * 4, 0);
  }
  PullBatch Pull() {
    pulls = {{0, false, {}, dense.data()}, {1, true, keys, table.data()}, {2, false, {}, &bias}};
    return {7, 0, pulls};
  }
  PushBatch Push(uint64_t closure, uint32_t attempt = 1) {
    pushes = {{0, PushKind::kGradient, false, {}, dense_gradient.data(), 0},
              {1, PushKind::kGradient, true, keys, table_gradient.data(), 0},
              {2, PushKind::kGradient, false, {}, &bias_gradient, 0}};
    PushStamp stamp;
    stamp.closure = closure;
    stamp.attempt = attempt;
    stamp.timeline = 1;
    stamp.weight = 32;
    return {stamp, pushes};
  }

  std::vector<int64_t> keys;
  std::vector<float> dense = std::vector<float>(21, -1);
  std::vector<float> table;
  float bias = -1;
  std::vector<float> dense_gradient = std::vector<float>(21, 0);
  std::vector<float> table_gradient;
  float bias_gradient = 0;
  std::vector<PullItem> pulls;
  std::vector<PushItem> pushes;
};

// Keeps what the exchange sends, by server.
class RecordingSink : public ExchangeSink {
 public:
  void Send(const ServerRoute& server, std::span<const ExchangeMessage> messages) override {
    std::vector<Request>& request = sent[server.ps].emplace_back();
    for (const ExchangeMessage& message : messages) request.push_back(Copy(message));
  }
  void Reset(const ServerRoute& server) override { resets.push_back(server.ps); }
  BytesMoved Moved(const ServerRoute& server) override { return moved[server.ps]; }
  bool Compacts(const ServerRoute& server) override { return server.ps == compacts; }
  void OnSlow(const ServerRoute&, const std::string& progress) override {
    slow.push_back(progress);
  }

  std::map<uint32_t, std::vector<std::vector<Request>>> sent;
  std::vector<uint32_t> resets;
  uint32_t compacts = UINT32_MAX;        // the server that reads compact requests
  std::map<uint32_t, BytesMoved> moved;  // a test sets it
  std::vector<std::string> slow;
};

// Delivers a response with its payload fields broken into pieces of `piece_bytes`.
inline void Deliver(Exchange* exchange, uint32_t ps, const Response& response, int64_t now_us,
                    size_t piece_bytes = 5) {
  std::vector<std::vector<Bytes>> pieces;
  for (const std::string& field : response.payload) {
    std::vector<Bytes>& list = pieces.emplace_back();
    for (size_t at = 0; at < field.size(); at += piece_bytes) {
      list.emplace_back(reinterpret_cast<const uint8_t*>(field.data()) + at,
                        std::min(piece_bytes, field.size() - at));
    }
  }
  std::vector<PayloadPieces> payload(pieces.begin(), pieces.end());
  exchange->OnResponse(ps, response.header, payload, now_us);
}

// Sends what is due and lets the model servers answer it at once.
inline void Serve(World* world, Exchange* exchange, int64_t now_us) {
  RecordingSink sink;
  exchange->Poll(now_us, &sink);
  for (const auto& [ps, requests] : sink.sent) {
    for (const auto& request : requests) {
      for (const Response& response : world->servers[ps].Handle(request)) {
        Deliver(exchange, ps, response, now_us);
      }
    }
  }
}

}  // namespace cohort::exchange_test

#endif  // COHORT_COMMON_EXCHANGE_EXCHANGE_TEST_WORLD_H_

#include "ps_server/local_requests.h"

#include <catch2/catch.hpp>

#include "ps_server/core_test_util.h"

namespace cohort::ps_test {
namespace {

// A server with one variable of two elements, and a step thread of its process.
struct LocalPair {
  LocalPair() {
    core.Adopt(1, 1);
    core.Assign(1, Layout({Variable("w", {2}, 5)}, Sgd(1)));
    core.RunBackground();
    server = std::make_shared<LocalRequests>(core.core->data_path());
    connection = server->Connect([this] { ++wakes; });
  }

  void Send(std::optional<uint64_t> push, uint64_t pull_step, const StepMembership& step = {}) {
    ExchangeMessage message;
    message.header.set_sequence(++sequence);
    message.header.set_generation(1);
    if (push.has_value()) {
      v1::PushPart* const part = message.push();
      if (step.sync()) step.ToProto(part->mutable_step());
      part->mutable_id()->set_closure(*push);
      part->set_timeline(1);
      part->set_weight(1);
      v1::PushSection* const section = part->add_sections();
      section->set_term(1);
      section->add_entries()->set_kind(v1::GRADIENT);
      section->mutable_entries(0)->set_count(2);
      message.payload.emplace_back(reinterpret_cast<const uint8_t*>(gradient), sizeof(gradient));
    } else {
      message.pull()->set_step(pull_step);
      v1::PullSection* const section = message.pull()->add_sections();
      section->set_term(1);
      section->add_entries();
    }
    connection->Send({&message, 1});
  }
  // The status of a push; -1 without an answer.
  int TakePush() {
    int status = -1;
    connection->Take([&](const v1::PushPullResponseHeader& header, std::span<const PayloadPieces>,
                         std::span<const uint8_t>) {
      REQUIRE(header.pushes_size() == 1);
      status = header.pushes(0).status();
    });
    return status;
  }
  // The first value of a pull; -1 without an answer.
  float Take() {
    float value = -1;
    connection->Take([&](const v1::PushPullResponseHeader& header,
                         std::span<const PayloadPieces> payload, std::span<const uint8_t>) {
      CHECK(header.sequence() == sequence);
      REQUIRE(payload.size() == 1);
      REQUIRE(payload[0].size() == 1);
      std::memcpy(&value, payload[0][0].data(), sizeof(value));
    });
    return value;
  }

  TestCore core;
  std::shared_ptr<LocalRequests> server;
  std::unique_ptr<LocalConnection> connection;
  float gradient[2] = {1, 2};
  uint64_t sequence = 0;
  int wakes = 0;
};

TEST_CASE("a step thread pushes and pulls by calls") {
  LocalPair pair;
  pair.Send({}, 0);
  CHECK(pair.Take() == 5);
  CHECK(pair.Take() == -1);  // taken
  pair.Send(1, 0);
  CHECK(pair.TakePush() == v1::APPLIED);
  pair.Send(1, 0);
  CHECK(pair.TakePush() == v1::DUPLICATE);
  pair.Send({}, 0);
  CHECK(pair.Take() == 4);
}

TEST_CASE("a pull of a step waits until the steps before it are closed") {
  LocalPair pair;
  pair.Send(1, 0, {.step = 1, .step_try = 1, .index = 0});
  CHECK(pair.TakePush() == v1::STAGED);
  pair.Send({}, 2);
  CHECK(pair.Take() == -1);
  CHECK(pair.connection->pending());
  pair.server->Release();  // another change: the pull waits on
  CHECK(pair.wakes == 1);
  CHECK(pair.Take() == -1);
  v1::ChiefToPs close;
  close.set_generation(1);
  close.mutable_close_step()->set_step(1);
  close.mutable_close_step()->set_step_try(1);
  close.mutable_close_step()->set_timeline(1);
  close.mutable_close_step()->add_members()->set_closure(1);
  pair.core.Deliver(1, close);
  pair.server->Release();
  CHECK(pair.wakes == 2);
  CHECK(pair.Take() == 4);
  pair.server->Release();
  CHECK(pair.wakes == 2);  // nothing waits
}

TEST_CASE("a server that has ended answers nothing, and wakes who waits") {
  LocalPair pair;
  pair.Send({}, 2);
  CHECK(pair.Take() == -1);
  pair.server->End();
  CHECK(pair.wakes == 1);
  CHECK(pair.Take() == -1);
  CHECK(pair.server->ended());
  CHECK(pair.server->Connect([] {}) == nullptr);
  pair.Send({}, 0);
  CHECK(pair.Take() == -1);
}

}  // namespace
}  // namespace cohort::ps_test

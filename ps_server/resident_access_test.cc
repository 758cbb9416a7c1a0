// Steps on a device, which reach the tablets of a server of this process by ResidentAccess.
#include "common/exec/resident_access.h"

#include <catch2/catch.hpp>
#include <functional>

#include "common/device/device.h"
#include "common/optimizers/resident_variables.h"
#include "proto/worker.pb.h"
#include "ps_server/core_test_util.h"
#include "ps_server/local_requests.h"

namespace cohort::ps_test {
namespace {

// A step thread whose waits take no time.
class TestThread : public ExchangeThread {
 public:
  void WakeUp() override { ++wakes; }
  int64_t NowUs() const override { return now_us; }
  void WaitForInput(int64_t deadline_us) override {
    ++waits;
    now_us = deadline_us;
    if (on_wait != nullptr) on_wait();
  }

  int64_t now_us = 0;
  int waits = 0, wakes = 0;
  std::function<void()> on_wait;
};

class CountedUpdate : public ResidentUpdate {
 public:
  absl::Status Apply(uint32_t /*group*/, uint64_t step) override {
    steps.push_back(step);
    return absl::OkStatus();
  }
  std::vector<uint64_t> steps;
};

// A server with the variable "w" of two elements, 5 each, which lies on a device.
struct DeviceServer {
  DeviceServer() {
    core.Adopt(1, 1);
    core.Assign(1, layout);
    core.RunBackground();
    auto opened = OpenDevice("simulated:0");
    REQUIRE(opened.ok());
    device = *std::move(opened);
    server = std::make_shared<LocalRequests>(core.core->data_path());
    servers->Add(1000, 0, server);
    servers->AddDevice(0, device);
    auto placed = servers->PlaceVariables(0, 1);
    REQUIRE(placed.ok());
    REQUIRE(*placed != nullptr);
    reader = *std::move(placed);
    SetRoutes(1);
    thread.SetGeneration(1);
  }

  void SetRoutes(uint64_t timeline, uint64_t incarnation = 1000) {
    v1::Routes routes;
    *routes.mutable_layout() = layout;
    routes.set_timeline(timeline);
    routes.add_terms(timeline);
    routes.add_servers()->set_incarnation(incarnation);
    thread.SetRoutes(std::make_shared<const v1::Routes>(std::move(routes)));
  }

  std::unique_ptr<ResidentAccess> Access(ResidentUpdate* update) {
    const VariableDecl w{"w", {DType::kFloat32, {{2}}}};
    return std::make_unique<ResidentAccess>(
        ResidentAccess::Options{&thread, servers, {}}, std::span(&w, 1),
        DeviceParts{.update = update, .gradients = device.get(), .reader = reader.get()});
  }

  // The value on the device.
  float Value() const {
    float values[2] = {};
    const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(values), sizeof(values));
    REQUIRE(reader->ReadRows("w", -1, 0, bytes).ok());
    return values[0];
  }

  void CloseStep(uint64_t step) {
    v1::ChiefToPs close;
    close.set_generation(1);
    close.mutable_close_step()->set_step(step);
    close.mutable_close_step()->set_step_try(1);
    close.mutable_close_step()->set_timeline(1);
    close.mutable_close_step()->add_members()->set_closure(1);
    core.Deliver(1, close);
    server->Release();
  }

  const v1::Layout layout = Layout({Variable("w", {2}, 5)}, Sgd(1));
  TestCore core;
  std::shared_ptr<Device> device;
  std::shared_ptr<LocalRequests> server;
  std::shared_ptr<LocalServers> servers = std::make_shared<LocalServers>(/*homes=*/1);
  std::shared_ptr<ResidentVariables> reader;
  TestThread thread;
};

PushBatch PushOf(uint64_t closure, uint64_t timeline = 1) {
  PushBatch push;
  push.stamp.closure = closure;
  push.stamp.place = closure;
  push.stamp.timeline = timeline;
  push.stamp.weight = 1;
  return push;
}

TEST_CASE("an update on a device is applied once, after the values were brought there") {
  DeviceServer s;
  CountedUpdate update;
  const auto access = s.Access(&update);
  const PullBatch pull;
  const auto pulled = access->Exchange(nullptr, &pull);
  REQUIRE(pulled.ok());
  CHECK(pulled->pulled_timeline == 1);
  CHECK(s.Value() == 5);
  const PushBatch push = PushOf(7);
  auto pushed = access->Exchange(&push, &pull);
  REQUIRE(pushed.ok());
  CHECK(pushed->push.applied == 1);
  CHECK(pushed->push.max_staleness == 0);
  pushed = access->Exchange(&push, nullptr);
  REQUIRE(pushed.ok());
  CHECK(pushed->push.duplicates == 1);
  CHECK(update.steps == std::vector<uint64_t>{7});
  CHECK(s.thread.waits == 0);
}

TEST_CASE("gradients on a device are staged, and the pull of the next step waits for the close") {
  DeviceServer s;
  const auto access = s.Access(nullptr);
  PullBatch pull{.step = 1};
  REQUIRE(access->Exchange(nullptr, &pull).ok());
  auto gradient = s.device->Allocate(2 * sizeof(float), "a test");
  REQUIRE(gradient.ok());
  const float values[2] = {2, 3};
  REQUIRE(s.device->CopyToDevice(gradient->data(), values, sizeof(values)).ok());
  const PushItem item{.variable = 0, .kind = PushKind::kGradient, .value = gradient->data()};
  PushBatch push = PushOf(1);
  push.stamp.step = {.step = 1, .step_try = 1, .index = 0};
  push.items = {&item, 1};
  const auto staged = access->Exchange(&push, nullptr);
  REQUIRE(staged.ok());
  CHECK(staged->push.staged == 1);
  s.thread.on_wait = [&] {
    if (s.thread.waits == 2) s.CloseStep(1);
  };
  pull.step = 2;
  REQUIRE(access->Exchange(nullptr, &pull).ok());
  CHECK(s.thread.waits == 2);
  CHECK(s.thread.wakes > 0);
  CHECK(s.Value() == 3);
  pull.step = 1;  // closed
  CHECK(absl::IsAborted(access->Exchange(nullptr, &pull).status()));
}

TEST_CASE("what is fenced waits for a newer generation, and not forever") {
  DeviceServer s;
  CountedUpdate update;
  const auto access = s.Access(&update);
  s.thread.SetGeneration(2);
  const PushBatch push = PushOf(1);
  s.thread.on_wait = [&] {
    if (s.thread.waits == 3) s.thread.SetGeneration(1);
  };
  const auto pushed = access->Exchange(&push, nullptr);
  REQUIRE(pushed.ok());
  CHECK(pushed->push.applied == 1);
  CHECK(s.thread.waits == 3);
  s.thread.SetGeneration(2);
  s.thread.on_wait = nullptr;
  CHECK(absl::IsAborted(access->Exchange(&push, nullptr).status()));
  CHECK(s.thread.now_us > 60'000'000);
}

TEST_CASE("an exchange on a device ends with the timeline, or when it is interrupted") {
  DeviceServer s;
  const auto access = s.Access(nullptr);
  const PushBatch late = PushOf(1, /*timeline=*/2);
  CHECK(absl::IsAborted(access->Exchange(&late, nullptr).status()));
  const PullBatch pull{.step = 2};
  s.thread.on_wait = [&] { access->Interrupt(); };
  CHECK(absl::IsCancelled(access->Exchange(nullptr, &pull).status()));
  s.thread.on_wait = [&] { s.SetRoutes(2); };
  CHECK(absl::IsAborted(access->Exchange(nullptr, &pull).status()));
}

TEST_CASE("a server that is not in the process of the device is reported as unreachable") {
  DeviceServer s;
  const auto access = s.Access(nullptr);
  const PullBatch pull;
  s.SetRoutes(1, /*incarnation=*/1001);
  const absl::Status other = access->Exchange(nullptr, &pull).status();
  CHECK(absl::IsUnavailable(other));
  REQUIRE(GetFailure(other).has_value());
  CHECK(GetFailure(other)->role == "ps");
  s.SetRoutes(1);
  REQUIRE(access->Exchange(nullptr, &pull).ok());
  s.server->End();
  CHECK(absl::IsUnavailable(access->Exchange(nullptr, &pull).status()));
}

}  // namespace
}  // namespace cohort::ps_test

#include "common/device/simulated_device.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <utility>

#include "common/testing/status_test_util.h"

namespace cohort {
namespace {

using testing::Message;

// Memory of a device or of the host, as floats.
struct Floats {
  DeviceMemory memory;

  float* data() const { return reinterpret_cast<float*>(memory.data()); }
  float& operator[](size_t i) const { return data()[i]; }
  MemoryRange range() const { return {memory.data(), memory.bytes()}; }
};

Floats OnDevice(Device* device, size_t n) {
  auto memory = device->Allocate(n * sizeof(float), "test");
  REQUIRE(memory.ok());
  return {*std::move(memory)};
}
Floats OnHost(Device* device, size_t n) {
  auto memory = device->AllocatePinned(n * sizeof(float), "test");
  REQUIRE(memory.ok());
  return {*std::move(memory)};
}

void Upload(GraphPlan* plan, const Floats& to, const Floats& from) {
  plan->AddCopy("upload", {to.data(), from.data(), from.memory.bytes(), /*to_device=*/true});
}
void Download(GraphPlan* plan, const Floats& to, const Floats& from) {
  plan->AddCopy("download", {to.data(), from.data(), from.memory.bytes(), /*to_device=*/false});
}

void Run(Device* device, const GraphPlan& plan) {
  auto graph = device->Instantiate(plan);
  REQUIRE(graph.ok());
  REQUIRE((*graph)->Launch().ok());
  REQUIRE((*graph)->Wait().ok());
}

TEST_CASE("it has a name and reports its memory") {
  const auto device = MakeSimulatedDevice(3, /*seed=*/1, /*memory_bytes=*/4096);
  CHECK(device->name() == "simulated:3");
  CHECK(device->info().model == "simulated on the CPU");
  CHECK(device->info().memory_bytes == 4096);
  CHECK(device->info().free_bytes == 4096);
}

TEST_CASE("memory is aligned and begins as NaN") {
  const auto device = MakeSimulatedDevice(0);
  const Floats a = OnDevice(device.get(), 3), b = OnHost(device.get(), 3);
  for (const Floats* floats : {&a, &b}) {
    CHECK(reinterpret_cast<uintptr_t>(floats->data()) % 256 == 0);
    for (size_t i = 0; i < 3; ++i) CHECK(std::isnan((*floats)[i]));
  }
}

TEST_CASE("what a graph downloads is NaN from its launch until Wait returns") {
  const auto device = MakeSimulatedDevice(0);
  const Floats in = OnHost(device.get(), 1), out = OnHost(device.get(), 1);
  const Floats memory = OnDevice(device.get(), 1);
  GraphPlan plan;
  Upload(&plan, memory, in);
  Download(&plan, out, memory);
  auto graph = device->Instantiate(plan);
  REQUIRE(graph.ok());
  for (const float value : {7.0F, 8.0F}) {
    in[0] = value;
    REQUIRE((*graph)->Launch().ok());
    CHECK(std::isnan(out[0]));
    REQUIRE((*graph)->Wait().ok());
    CHECK(out[0] == value);
  }
}

TEST_CASE("a graph runs once at a time") {
  const auto device = MakeSimulatedDevice(0);
  auto graph = device->Instantiate(GraphPlan());
  REQUIRE(graph.ok());
  CHECK(Message((*graph)->Wait()) == "the graph was not launched");
  CHECK((*graph)->Launch().ok());
  CHECK(Message((*graph)->Launch()) == "the graph runs already");
  CHECK((*graph)->Wait().ok());
}

TEST_CASE("it multiplies matrices that are stored transposed or in batches") {
  const auto device = MakeSimulatedDevice(0);
  const bool transpose_a = GENERATE(false, true), transpose_b = GENERATE(false, true);
  const Floats a = OnDevice(device.get(), 2 * 6), b = OnDevice(device.get(), 2 * 3);
  const Floats c = OnDevice(device.get(), 2 * 2);
  // Two times [1 2 3; 4 5 6] times [1 10 100]^T, the second pair doubled.
  const std::array<float, 6> straight = {1, 2, 3, 4, 5, 6}, transposed = {1, 4, 2, 5, 3, 6};
  for (size_t batch = 0; batch < 2; ++batch) {
    const float factor = batch == 0 ? 1 : 2;
    for (size_t i = 0; i < 6; ++i) {
      a[batch * 6 + i] = factor * (transpose_a ? transposed : straight)[i];
    }
    const std::array<float, 3> column = {1, 10, 100};  // the same either way
    for (size_t i = 0; i < 3; ++i) b[batch * 3 + i] = column[i];
  }
  GraphPlan plan;
  plan.Begin("multiply", {a.range(), b.range()}, {c.range()});
  plan.Add(MatrixProduct{.dtype = DType::kFloat32,
                         .a = a.data(),
                         .b = b.data(),
                         .c = c.data(),
                         .batch = 2,
                         .m = 2,
                         .n = 1,
                         .k = 3,
                         .transpose_a = transpose_a,
                         .transpose_b = transpose_b});
  Run(device.get(), plan);
  const std::array<float, 4> expected = {321, 654, 642, 1308};
  for (size_t i = 0; i < 4; ++i) CHECK(c[i] == expected[i]);
}

TEST_CASE("a product of no terms is zero") {
  const auto device = MakeSimulatedDevice(0);
  const Floats c = OnDevice(device.get(), 2);
  GraphPlan plan;
  plan.Begin("multiply", {}, {c.range()});
  plan.Add(MatrixProduct{.dtype = DType::kFloat32, .c = c.data(), .m = 1, .n = 2, .k = 0});
  Run(device.get(), plan);
  CHECK(c[0] == 0);
  CHECK(c[1] == 0);
}

// Runs "x = 1; y = x" as host calls and returns y. Without `declared`, the second op hides that it
// reads x.
float RunInOrder(uint64_t seed, bool declared) {
  const auto device = MakeSimulatedDevice(0, seed);
  float x = 0, y = 0;
  GraphPlan plan;
  plan.Begin("write x", {}, {{&x, sizeof(x)}});
  plan.Add(HostCall{[&x] { x = 1; }});
  const std::vector<MemoryRange> reads = {{&x, sizeof(x)}};
  plan.Begin("read x", declared ? reads : std::vector<MemoryRange>(), {{&y, sizeof(y)}});
  plan.Add(HostCall{[&x, &y] { y = x; }});
  Run(device.get(), plan);
  return y;
}

TEST_CASE("the wrong order happens if an edge lacks, and never otherwise") {
  int wrong = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CHECK(RunInOrder(seed, /*declared=*/true) == 1);
    wrong += RunInOrder(seed, /*declared=*/false) != 1;
  }
  CHECK(wrong > 0);
  CHECK(wrong < 20);
}

TEST_CASE("a lack of memory names the purpose, the device and what is free") {
  const auto device = MakeSimulatedDevice(1, /*seed=*/1, /*memory_bytes=*/1000);
  const auto first = device->Allocate(600, "the weights");
  REQUIRE(first.ok());
  CHECK(device->info().free_bytes == 400);
  const auto second = device->Allocate(401, "the batch");
  CHECK(absl::IsResourceExhausted(second.status()));
  CHECK(Message(second.status()) ==
        "the batch needs 401 bytes of the memory of simulated:1, which has 400 of 1000 free");
  CHECK(device->info().free_bytes == 400);
  CHECK(device->Allocate(400, "the batch").ok());
}

TEST_CASE("memory is given back with its object, even after the device") {
  auto device = MakeSimulatedDevice(0, /*seed=*/1, /*memory_bytes=*/1000);
  {
    const Floats used = OnDevice(device.get(), 100);
    CHECK(device->info().free_bytes == 600);
    const Floats pinned = OnHost(device.get(), 1000);  // not of the device
    CHECK(device->info().free_bytes == 600);
  }
  CHECK(device->info().free_bytes == 1000);
  const Floats last = OnDevice(device.get(), 1);
  device.reset();
  last[0] = 1;
}

TEST_CASE("a copy to or from the device has happened when the call returns") {
  const auto device = MakeSimulatedDevice(0);
  const Floats memory = OnDevice(device.get(), 1);
  const float value = 5;
  REQUIRE(device->CopyToDevice(memory.data(), &value, sizeof(value)).ok());
  float back = 0;
  REQUIRE(device->CopyToHost(&back, memory.data(), sizeof(back)).ok());
  REQUIRE(back == value);
  CHECK(memory[0] == 5);
}

}  // namespace
}  // namespace cohort

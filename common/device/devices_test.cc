#include "common/device/devices.h"

#include <catch2/catch.hpp>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/device/check_device.h"
#include "common/testing/status_test_util.h"

namespace cohort {
namespace {

using Catch::Contains;
using testing::Message;

std::vector<std::string> Names(std::string devices) {
  const auto names = ParseDeviceNames({.devices = std::move(devices)});
  REQUIRE(names.ok());
  return *names;
}

TEST_CASE("names of devices get ordinals, and the CPU is no device") {
  CHECK(Names("cpu").empty());
  CHECK(Names("cpu:0").empty());
  CHECK(Names("cuda") == std::vector<std::string>{"cuda:0"});
  CHECK(Names("cuda:1,simulated,cuda") ==
        std::vector<std::string>{"cuda:1", "simulated:0", "cuda:0"});
}

TEST_CASE("what is no name of a device is refused as a flag") {
  const std::string devices = GENERATE("gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:+1", "cuda:99999",
                                       "cuda:0,", ",", "cuda:0 ");
  const auto names = ParseDeviceNames({.devices = devices});
  CHECK(absl::IsInvalidArgument(names.status()));
  CHECK(ExitCodeOf(names.status()) == ExitCode::kUsage);
  CHECK_THAT(Message(names.status()),
             Contains("--devices: \"") && Contains("is not the name of a device; there are: cpu"));
}

TEST_CASE("a device stands in the list once, and the CPU alone") {
  CHECK(Message(ParseDeviceNames({.devices = "simulated,simulated:0"}).status()) ==
        "--devices: simulated:0 stands there twice");
  CHECK_THAT(Message(ParseDeviceNames({.devices = "cpu,simulated:0"}).status()),
             Contains("the CPU cannot compute beside other devices"));
  CHECK_THAT(Message(ParseDeviceNames({.virtual_gpus = 0}).status()), Contains("--virtual_gpus"));
  CHECK_THAT(Message(ParseDeviceNames({.memory_limit_mb = -1}).status()),
             Contains("--gpu_memory_limit_mb"));
}

TEST_CASE("each replica has a device of its own, and the CPU may be several") {
  const auto devices_of = [](const std::string& devices) {
    const auto names = ParseReplicaDevices({.devices = devices});
    CHECK(names.ok());
    return names.value_or(std::vector<std::string>());
  };
  CHECK(devices_of("cpu,cpu:1") == std::vector<std::string>{"cpu:0", "cpu:1"});
  CHECK(devices_of("cpu:3") == std::vector<std::string>{"cpu:3"});
  CHECK(devices_of("cuda:1,cuda") == std::vector<std::string>{"cuda:1", "cuda:0"});
  CHECK(Message(ParseReplicaDevices({.devices = "cpu,cpu:0"}).status()) ==
        "--devices: cpu:0 stands there twice");
  CHECK_THAT(Message(ParseReplicaDevices({.devices = "cpu:x,cpu"}).status()),
             Contains("is not the name of a device"));
  CHECK_THAT(Message(ParseReplicaDevices({.devices = "cpu:0,simulated:0"}).status()),
             Contains("the CPU cannot compute beside other devices"));
}

TEST_CASE("the flags of a task choose its device") {
  DeviceOptions options;
  FlagSet flags("test", "");
  AddDeviceFlags(&flags, &options);
  REQUIRE(flags.Parse(DeviceFlags("cuda:1", {.memory_limit_mb = 5, .allow_growth = false})).run);
  CHECK(options.devices == "cuda:1");
  CHECK(options.memory_limit_mb == 5);
  CHECK_FALSE(options.allow_growth);
  CHECK(DeviceFlags("cpu:1", {}) == std::vector<std::string>{"--devices=cpu"});
}

TEST_CASE("the flags fill the options") {
  DeviceOptions options;
  FlagSet flags("test", "");
  AddDeviceFlags(&flags, &options);
  const ParsedFlags parsed =
      flags.Parse({"--devices=cuda:1", "--gpu_memory_limit_mb=512", "--gpu_allow_growth=false",
                   "--virtual_gpus=2", "--gpu_tensor_float"});
  REQUIRE(parsed.run);
  CHECK(options.devices == "cuda:1");
  CHECK(options.memory_limit_mb == 512);
  CHECK_FALSE(options.allow_growth);
  CHECK(options.virtual_gpus == 2);
  CHECK(options.allow_tf32);
}

TEST_CASE("simulated devices always work, within their limit") {
  const auto devices = OpenDevices({.devices = "simulated:1,simulated", .memory_limit_mb = 2});
  REQUIRE(devices.ok());
  REQUIRE(devices->size() == 2);
  CHECK((*devices)[0]->name() == "simulated:1");
  CHECK((*devices)[1]->name() == "simulated:0");
  CHECK((*devices)[0]->info().memory_bytes == size_t{2} << 20);
  for (const auto& device : *devices) CHECK(CheckDevice(device.get()).ok());
  CHECK_FALSE(UsageOf(*devices->front()).has_value());
}

TEST_CASE("the test of a device fails if it lacks memory") {
  const auto devices = OpenDevices({.devices = "simulated", .memory_limit_mb = 1});
  REQUIRE(devices.ok());
  Device* const device = devices->front().get();
  const auto all = device->Allocate(size_t{1} << 20, "everything");
  REQUIRE(all.ok());
  CHECK_THAT(Message(CheckDevice(device)),
             Contains("the test of the device needs 64 bytes of the memory of simulated:0"));
}

TEST_CASE("without a choice all GPUs compute, and the CPU if there is none") {
  std::vector<std::string> all = DeviceNames();
  REQUIRE(all.front() == "cpu");
  all.erase(all.begin());
  CHECK(Names("") == all);
}

TEST_CASE("the CPU is not opened") {
  const auto devices = OpenDevices({.devices = "cpu"});
  REQUIRE(devices.ok());
  CHECK(devices->empty());
  CHECK(absl::IsInvalidArgument(OpenDevice("cpu").status()));
}

TEST_CASE("a GPU works, or its error says what lacks") {
  const GpuSupport support = FindGpuSupport();
  const auto device = OpenDevice("cuda");
  if (device.ok()) {
    CHECK((*device)->name() == "cuda:0");
    CHECK((*device)->info().memory_bytes > 0);
    CHECK(Message(CheckDevice(device->get())) == "");
  } else if (support.toolkit.empty()) {
    CHECK(absl::IsUnimplemented(device.status()));
    CHECK_THAT(Message(device.status()), Contains("use --devices=cpu"));
  } else {
    CHECK(absl::IsNotFound(device.status()));
    CHECK_THAT(Message(device.status()), Contains("run `cohort doctor`"));
  }
}

}  // namespace
}  // namespace cohort

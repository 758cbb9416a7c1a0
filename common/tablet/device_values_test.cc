// A tablet whose values also lie in the memory of a device, beside a tablet without one.
#include "common/device/device.h"
#include "common/optimizers/resident_variables.h"
#include "common/tablet/tablet_test_util.h"

namespace cohort::ps_test {
namespace {

using Floats = std::vector<float>;

// The value of a variable on a device, then its slots.
std::vector<Floats> Read(const ResidentVariables& variables, const std::string& name) {
  const auto variable = variables.Find(name);
  REQUIRE(variable.ok());
  std::vector<Floats> tensors((*variable)->slots + 1);
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].resize((*variable)->at.bytes() / sizeof(float));
    const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(tensors[i].data()),
                                   (*variable)->at.bytes());
    REQUIRE(variables.ReadRows(name, static_cast<int>(i) - 1, 0, bytes).ok());
  }
  return tensors;
}

// Adds 1 to all elements of values and slots on the device. Counts its calls.
class AddOne : public ResidentUpdate {
 public:
  AddOne(ResidentVariables* variables, std::vector<std::string> names)
      : variables_(variables), names_(std::move(names)) {}

  absl::Status Apply(uint32_t group, uint64_t step) override {
    if (!error.ok()) return error;
    groups.push_back(group);
    steps.push_back(step);
    for (const std::string& name : names_) {
      std::vector<Floats> tensors = Read(*variables_, name);
      for (size_t i = 0; i < tensors.size(); ++i) {
        for (float& value : tensors[i]) value += 1;
        const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(tensors[i].data()),
                                             tensors[i].size() * sizeof(float));
        const absl::Status written = variables_->WriteRows(name, static_cast<int>(i) - 1, 0, bytes);
        if (!written.ok()) return written;
      }
    }
    return absl::OkStatus();
  }

  absl::Status error;
  std::vector<uint32_t> groups;
  std::vector<uint64_t> steps;

 private:
  ResidentVariables* const variables_;
  const std::vector<std::string> names_;
};

std::shared_ptr<ResidentVariables> OnDevice() {
  auto device = OpenDevice("simulated:0");
  REQUIRE(device.ok());
  return std::make_shared<ResidentVariables>(*std::move(device));
}

v1::SectionStatus PushResident(TestTablet& tablet, uint64_t closure, ResidentUpdate* update) {
  TestPush push(closure);
  push.RecordOnly(0);
  const DeviceParts device{.update = update};
  return tablet.Push(push, 1, 0, &device).status();
}

v1::SectionStatus PushDense(TestTablet& tablet, uint64_t closure, const Floats& values) {
  TestPush push(closure);
  push.Dense<float>(0, values);
  return tablet.Push(push).status();
}

DeviceCopies OnlyAt(const std::shared_ptr<ResidentVariables>& variables) {
  return {.readers = {variables}};
}

v1::SectionStatus PullResident(TestTablet& tablet, const ResidentVariables* reader) {
  const PullSectionView section{.term = 1};
  const DeviceParts device{.reader = reader};
  v1::PullResult result;
  std::vector<PayloadSlice> payload;
  tablet->Pull(1, 0, section, &result, &payload, &device);
  CHECK(payload.empty());
  return result.status();
}

TEST_CASE("a device takes no variable whose rule does more than to update elements") {
  TestTablet tablet(Layout({Variable("w", {4, 2}, 1)}, OptimizerOf("Lamb", {})));
  const absl::Status moved = tablet->Reside(OnlyAt(OnDevice()));
  CHECK(absl::IsUnimplemented(moved));
  CHECK(moved.message().find("variable \"w\": devices update element by element") !=
        absl::string_view::npos);
  CHECK(PushDense(tablet, 0, Floats(8, 1)) == v1::APPLIED);
}

// Blocks of 4 elements, so that the variables have several.
TEST_CASE("pushes of values and updates on a device follow one another") {
  TestTablet tablet(Layout({Variable("w", {6, 2}, 10)}, Sgd(1, 0.5)), 16);
  const auto variables = OnDevice();
  REQUIRE(tablet->Reside(OnlyAt(variables)).ok());
  AddOne update(variables.get(), {"w"});

  CHECK(PushDense(tablet, 1, Floats(12, 2)) == v1::APPLIED);  // the momentum is -2
  CHECK(PushResident(tablet, 2, &update) == v1::APPLIED);     // it is on the device first
  CHECK(PushResident(tablet, 3, &update) == v1::APPLIED);
  CHECK(tablet.Pull(0) == Floats(12, 10));
  CHECK(PushDense(tablet, 4, Floats(12, 1)) == v1::APPLIED);  // the momentum was 0
  CHECK(tablet.Pull(0) == Floats(12, 9));
  CHECK(PullResident(tablet, variables.get()) == v1::APPLIED);
  CHECK(Read(*variables, "w")[0][11] == 9);
  CHECK(Read(*variables, "w")[1][11] == -1);
  CHECK(tablet->version() == 4);
  CHECK(update.steps == std::vector<uint64_t>{2, 3});
}

TEST_CASE("an update on a device is applied once, and not for a chief that was replaced") {
  TestTablet tablet(Layout({Variable("w", {3}, 0)}, Sgd(1)));
  const auto variables = OnDevice();
  REQUIRE(tablet->Reside(OnlyAt(variables)).ok());
  AddOne update(variables.get(), {"w"});
  CHECK(PushResident(tablet, 1, &update) == v1::APPLIED);
  CHECK(PushResident(tablet, 1, &update) == v1::DUPLICATE);
  tablet->Fence(2);
  CHECK(PushResident(tablet, 2, &update) == v1::FENCED);
  CHECK(update.groups == std::vector<uint32_t>{tablet->number()});
  tablet->Retire();
  CHECK(PullResident(tablet, variables.get()) == v1::MOVED);
}

TEST_CASE("a snapshot has the values of the device, and keeps them") {
  TestTablet tablet(Layout({Variable("w", {5, 2}, 1)}, Sgd(1, 0.9)), 16);
  const auto variables = OnDevice();
  REQUIRE(tablet->Reside(OnlyAt(variables)).ok());
  AddOne update(variables.get(), {"w"});
  CHECK(PushResident(tablet, 1, &update) == v1::APPLIED);
  const auto first = tablet->Snapshot(0);
  REQUIRE(first.ok());
  CHECK(PushResident(tablet, 2, &update) == v1::APPLIED);
  const auto second = tablet->Snapshot(0);
  REQUIRE(second.ok());
  CHECK(PushDense(tablet, 3, Floats(10, 5)) == v1::APPLIED);
  CHECK(SnapshotValues(first->shards[0]) == Floats(10, 2));
  CHECK(SnapshotValues(first->shards[0], 0) == Floats(10, 1));
  CHECK(first->cut->applied().applied_size() == 1);
  CHECK(SnapshotValues(second->shards[0]) == Floats(10, 3));
  CHECK(second->cut->applied().applied_size() == 2);
}

TEST_CASE("the shards of a variable lie in one variable on the device") {
  TestTablet tablet(Layout({Variable("w", {4}, 3)}, Sgd(1), /*shards=*/2));
  const auto variables = OnDevice();
  REQUIRE(tablet->Reside(OnlyAt(variables)).ok());
  TestPush push(1);
  push.Dense<float>(0, {1, 2}).Dense<float>(1, {3, 4});
  CHECK(tablet.Push(push).status() == v1::APPLIED);
  CHECK(PullResident(tablet, variables.get()) == v1::APPLIED);
  CHECK(Read(*variables, "w")[0] == Floats{2, 1, 0, -1});
  AddOne update(variables.get(), {"w"});
  CHECK(PushResident(tablet, 2, &update) == v1::APPLIED);
  CHECK(tablet.Pull(1) == Floats{1, 0});
}

TEST_CASE("what cannot be done on a device is refused and changes nothing") {
  TestTablet cut(Layout({Variable("w", {4}, 3)}, Sgd(1), /*shards=*/2, /*cores=*/{2}));
  const auto variables = OnDevice();
  AddOne update(variables.get(), {"w"});
  CHECK(PullResident(cut, variables.get()) == v1::INVALID);
  CHECK(PushResident(cut, 1, &update) == v1::INVALID);
  CHECK(cut->Reside(OnlyAt(variables)).ok());
  CHECK(PullResident(cut, OnDevice().get()) == v1::INVALID);
  CHECK(PushResident(cut, 1, &update) == v1::INVALID);
  CHECK(update.groups.empty());
  CHECK(cut->version() == 0);

  TestTablet tablet(Layout({Variable("w", {4}, 3)}, Sgd(1)));
  REQUIRE(tablet->Reside(OnlyAt(OnDevice())).ok());
  TestPush staged(1);
  staged.RecordOnly(0);
  staged.header().step = {.step = 1};
  const DeviceParts device{.update = &update};
  CHECK(tablet.Push(staged, 1, 0, &device).status() == v1::INVALID);
  CHECK(update.groups.empty());
}

// The values are undefined then, and must not reach a checkpoint.
TEST_CASE("nothing is read from a device whose update has failed") {
  TestTablet tablet(Layout({Variable("w", {3}, 0)}, Sgd(1)));
  const auto variables = OnDevice();
  REQUIRE(tablet->Reside(OnlyAt(variables)).ok());
  AddOne update(variables.get(), {"w"});
  CHECK(PushResident(tablet, 1, &update) == v1::APPLIED);
  update.error = Internal("the device is gone");
  CHECK(PushResident(tablet, 2, &update) == v1::INVALID);
  CHECK(tablet->version() == 1);
  CHECK(tablet->Snapshot(0).status().code() == absl::StatusCode::kInternal);
  CHECK(PushDense(tablet, 3, {1, 1, 1}) == v1::INVALID);
  CHECK(PullResident(tablet, variables.get()) == v1::INVALID);
}

// A gradient of 1, 2, 3, ... times `factor` in the memory of a device.
DeviceMemory Gradient(Device* device, size_t elements, float factor) {
  Floats values(elements);
  for (size_t i = 0; i < elements; ++i) values[i] = factor * static_cast<float>(i + 1);
  auto memory = device->Allocate(elements * sizeof(float), "a test");
  REQUIRE(memory.ok());
  REQUIRE(device->CopyToDevice(memory->data(), values.data(), elements * sizeof(float)).ok());
  return *std::move(memory);
}

// What three closures of a step leave behind, which come in this order. Some of their gradients may
// be on devices.
struct Step {
  std::vector<uint32_t> order = {0, 1, 2};
  std::vector<bool> on_device = {true, true, true};
  bool partial = false;
  std::vector<uint32_t> members = {0, 1, 2};
  bool resident = true;
  bool rows = false;  // the gradient of "w" is one of rows
};
std::vector<Floats> Close(const Step& step, const v1::OptimizerSpec& optimizer) {
  TestTablet tablet(Layout({Variable("w", {5, 2}, 1), Variable("b", {3}, 0.5)}, optimizer), 16);
  auto second = OpenDevice("simulated:1");
  REQUIRE(second.ok());
  const auto home = OnDevice(), other = std::make_shared<ResidentVariables>(*std::move(second));
  if (step.resident) REQUIRE(tablet->Reside({.readers = {other, home}, .home = 1}).ok());
  const std::vector<Device*> devices = {home->device().get(), other->device().get(),
                                        other->device().get()};
  for (uint64_t number = 1; number <= 2; ++number) {
    if (step.resident) CHECK(PullResident(tablet, other.get()) == v1::APPLIED);
    for (const uint32_t index : step.order) {
      TestPush push(number * 10 + index);
      std::vector<DeviceMemory> memory;
      for (uint32_t shard = 0; shard < 2; ++shard) {
        const size_t elements = shard == 0 ? 10 : 3;
        const float factor = 0.125f * static_cast<float>((index + 1) * (index + 1) + number);
        Floats values(elements);
        memory.push_back(Gradient(devices[index], elements, factor));
        REQUIRE(devices[index]->CopyToHost(values.data(), memory.back().data(), elements * 4).ok());
        if (step.rows && shard == 0) {
          // Two elements for each row; the closures share some rows.
          push.Sparse<float>(shard, {index, index + 1, 4},
                             Floats(values.begin(), values.begin() + 6));
        } else {
          push.Dense<float>(shard, values);
        }
        if (step.resident && step.on_device[index]) {
          push.last().values = {memory.back().data(), push.last().values.size()};
        }
      }
      push.header().weight = 4;
      push.header().step = {.step = number, .step_try = 1, .index = index, .partial = step.partial};
      const bool on_device = step.resident && step.on_device[index];
      const DeviceParts device{.gradients = on_device ? devices[index] : nullptr};
      CHECK(tablet.Push(push, 1, 0, &device).status() == v1::STAGED);
      CHECK(tablet.Push(push, 1, 0, &device).status() == v1::STAGED);  // its answer was lost
    }
    PushEffect effect;
    std::vector<StagedStep::Member> applied;
    const absl::Status closed = tablet->Close(
        {.step = number, .step_try = 1, .iteration = number - 1, .members = step.members}, &effect,
        &applied);
    INFO(closed);
    REQUIRE(closed.ok());
    CHECK(applied.size() == step.members.size());
  }
  if (step.resident) {
    CHECK(PullResident(tablet, other.get()) == v1::APPLIED);
    CHECK(Read(*other, "w")[0] == tablet.Pull(0));
  }
  const auto snapshot = tablet->Snapshot(0);
  REQUIRE(snapshot.ok());
  std::vector<Floats> found;
  for (const ShardSnapshot& shard : snapshot->shards) {
    for (int slot = -1; slot < static_cast<int>(shard.info->slots.size()); ++slot) {
      found.push_back(SnapshotValues(shard, slot));
    }
  }
  return found;
}

TEST_CASE("gradients of a synchronous step are summed on a device to the bits of the host") {
  const auto close = [](Step step, bool rows, const v1::OptimizerSpec& optimizer) {
    step.rows = rows;
    return Close(step, optimizer);
  };
  for (const bool rows : {false, true}) {
    for (const v1::OptimizerSpec& optimizer : {Sgd(0.3, 0.9), Sgd(0.3, 0.9, "lazy"), Adam()}) {
      const auto expected = close({.resident = false}, rows, optimizer);
      CHECK(expected[0] != Floats(10, 1));
      CHECK(close({}, rows, optimizer) == expected);
      CHECK(close({.order = {2, 0, 1}}, rows, optimizer) == expected);
      CHECK(close({.order = {1, 2, 0}, .partial = true}, rows, optimizer) == expected);
      CHECK(close({.on_device = {true, false, true}}, rows, optimizer) == expected);
      CHECK(close({.order = {1, 0, 2}, .on_device = {false, true, false}}, rows, optimizer) ==
            expected);
      const auto without_one =
          close({.partial = true, .members = {0, 2}, .resident = false}, rows, optimizer);
      CHECK(without_one != expected);
      CHECK(close({.order = {2, 1, 0}, .partial = true, .members = {0, 2}}, rows, optimizer) ==
            without_one);
    }
  }
}

}  // namespace
}  // namespace cohort::ps_test

#include "common/exec/push_observer.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <map>

#include "common/exec/kernel_observer.h"
#include "common/exec/step_test_util.h"
#include "common/exec/test_device.h"

namespace cohort {
namespace {

// Keeps what each push was when it was reported, and how many kernels had run.
struct Seen : public PushObserver, public KernelObserver {
  void OnPushReady(size_t push) override {
    CHECK(!values.contains(push));
    const PushItem& item = executable->next_pushes()[push];
    std::vector<float>& copy = values[push];
    if (!item.sparse) {
      const Program& program = executable->program();
      const auto variable = static_cast<size_t>(item.variable);
      copy.resize(static_cast<size_t>(CapacityElements(program.variables[variable].type)));
      std::memcpy(copy.data(), item.value, copy.size() * sizeof(float));
    }
    first = std::min(first, kernels);
  }
  void OnBegin(int) override {}
  void OnEnd(int) override { ++kernels; }

  Executable* executable = nullptr;
  std::map<size_t, std::vector<float>> values;
  int kernels = 0;
  int first = INT32_MAX;
};

void CheckPushes(absl::StatusOr<Program> program, const std::vector<Tensor>& batch) {
  REQUIRE(program.ok());
  const auto options = testing::OnTestDevice({});
  auto executable = Executable::Compile(*std::move(program), options);
  REQUIRE(executable.ok());
  Seen seen;
  seen.executable = executable->get();
  (*executable)->SetObserver(&seen);
  for (uint64_t step = 0; step < 3; ++step) {
    REQUIRE((*executable)->Bind(batch).ok());
    REQUIRE((*executable)->Prepare({7, step, 0}).ok());
    testing::FillPulls<float>(executable->get());
    seen.values.clear();
    seen.kernels = 0;
    seen.first = INT32_MAX;
    REQUIRE((*executable)->Run(&seen).ok());
    const auto pushes = (*executable)->pushes();
    REQUIRE(seen.values.size() == pushes.size());
    for (const auto& [push, values] : seen.values) {
      CHECK((values.empty() ||
             std::memcmp(values.data(), pushes[push].value, values.size() * sizeof(float)) == 0));
    }
    if (options.devices.empty()) CHECK(seen.first < seen.kernels);
  }
}

TEST_CASE("a push is reported when its value is final, and the last layers' before the end") {
  CheckPushes(testing::MlpProgram(DType::kFloat32, 16, 20, 12, 0.3),
              testing::MlpBatch<float>(16, 20, 1));
  CheckPushes(testing::RecommenderProgram(DType::kFloat32, 32, 50, 4),
              testing::RecommenderBatch<float>(32, 50, 1));
}

}  // namespace
}  // namespace cohort

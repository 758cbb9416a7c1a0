// Steps that are prepared ahead in lanes of their own.
#include <algorithm>
#include <catch2/catch.hpp>

#include "common/exec/step_test_util.h"
#include "common/exec/test_device.h"

namespace cohort {
namespace {

std::unique_ptr<Executable> CompileLanes(absl::StatusOr<Program> program, int lanes) {
  REQUIRE(program.ok());
  auto executable =
      Executable::Compile(*std::move(program), testing::OnTestDevice({.lanes = lanes}));
  INFO(executable.status());
  REQUIRE(executable.ok());
  return *std::move(executable);
}

// All that a step leaves behind, as numbers.
struct StepResult {
  std::vector<std::vector<int64_t>> keys;
  std::vector<std::vector<float>> values;
  std::vector<double> metrics;
  std::vector<float> output;
  double weight = 0;
  int64_t records = 0;
  bool operator==(const StepResult&) const = default;
};

// The pushes alone: they outlive the rest.
StepResult PushesOf(const Program& program, std::span<const PushItem> pushes) {
  StepResult result;
  for (const PushItem& item : pushes) {
    const ValueType& type = program.variables[static_cast<size_t>(item.variable)].type;
    const int64_t all = CapacityElements(type);
    const int64_t n =
        item.sparse ? all / type.dims[0].size * static_cast<int64_t>(item.keys.size()) : all;
    const float* values = static_cast<const float*>(item.value);
    result.keys.emplace_back(item.keys.begin(), item.keys.end());
    result.values.emplace_back(values, values + n);
  }
  return result;
}

StepResult ResultOf(const Executable& e) {
  StepResult result = PushesOf(e.program(), e.pushes());
  result.metrics.assign(e.metric_values().begin(), e.metric_values().end());
  const Tensor output = e.output(0);
  result.output.assign(output.values<float>().begin(), output.values<float>().end());
  result.weight = e.weight();
  result.records = e.batch_count();
  return result;
}

using Batches = std::vector<std::vector<Tensor>>;

void PrepareStep(Executable* e, int lane, const std::vector<Tensor>& batch, uint64_t step) {
  e->UseLane(lane);
  REQUIRE(e->Bind(batch).ok());
  REQUIRE(e->Prepare({7, step, 0}).ok());
}

// The results of steps that follow each other.
std::vector<StepResult> OneAfterAnother(const absl::StatusOr<Program>& program,
                                        const Batches& batches) {
  const auto e = CompileLanes(program, 1);
  std::vector<StepResult> results;
  for (size_t step = 0; step < batches.size(); ++step) {
    PrepareStep(e.get(), 0, batches[step], step);
    testing::FillPulls<float>(e.get());
    REQUIRE(e->Run().ok());
    results.push_back(ResultOf(*e));
  }
  return results;
}

// Step k runs when step k + ahead is prepared and pulled. The pushes of a step are compared again
// before the next Prepare after the next Run.
void CheckAhead(const absl::StatusOr<Program>& program, const Batches& batches, int ahead) {
  INFO(ahead << " steps ahead");
  const std::vector<StepResult> expected = OneAfterAnother(program, batches);
  const int lanes = ahead + 1;
  const auto e = CompileLanes(program, lanes);
  std::span<const PushItem> sent;
  for (int step = 0; step < static_cast<int>(batches.size()) + ahead; ++step) {
    const size_t at = static_cast<size_t>(step);
    if (at < batches.size()) {
      PrepareStep(e.get(), step % lanes, batches[at], at);
      testing::FillPulls<float>(e.get());
    }
    const int runs = step - ahead;
    if (runs < 0) continue;
    e->UseLane(runs % lanes);
    REQUIRE(e->Run().ok());
    REQUIRE(ResultOf(*e) == expected[static_cast<size_t>(runs)]);
    if (runs > 0) {
      const StepResult& before = expected[static_cast<size_t>(runs) - 1];
      const StepResult kept = PushesOf(e->program(), sent);
      REQUIRE(kept.keys == before.keys);
      REQUIRE(kept.values == before.values);
    }
    sent = e->pushes();
  }
}

Batches RecommenderBatches() {
  Batches batches;
  for (int64_t i = 0; i < 12; ++i) {
    batches.push_back(testing::RecommenderBatch<float>(32 - 5 * (i % 4), 50, i));
  }
  return batches;
}

TEST_CASE("steps that are prepared ahead compute what they compute one after another") {
  Batches mlp;
  for (int64_t i = 0; i < 8; ++i) mlp.push_back(testing::MlpBatch<float>(16 - i % 3, 20, i));
  for (const int ahead : {0, 1, 2, 5}) {
    CheckAhead(testing::RecommenderProgram(DType::kFloat32, 32, 50, 4), RecommenderBatches(),
               ahead);
    CheckAhead(testing::MlpProgram(DType::kFloat32, 16, 20, 12, 0.3), mlp, ahead);
  }
}

TEST_CASE("a step that is prepared and does not run changes no push") {
  const auto program = testing::RecommenderProgram(DType::kFloat32, 32, 50, 4);
  const Batches batches = RecommenderBatches();
  const std::vector<StepResult> expected = OneAfterAnother(program, batches);
  for (const int lanes : {1, 2}) {
    const auto e = CompileLanes(program, lanes);
    PrepareStep(e.get(), 0, batches[0], 0);
    testing::FillPulls<float>(e.get());
    REQUIRE(e->Run().ok());
    const std::span<const PushItem> sent = e->pushes();
    for (size_t given_up = 1; given_up < 5; ++given_up) {
      PrepareStep(e.get(), 0, batches[given_up], given_up);
      testing::FillPulls<float>(e.get());
      const StepResult kept = PushesOf(e->program(), sent);
      REQUIRE(kept.keys == expected[0].keys);
      REQUIRE(kept.values == expected[0].values);
    }
  }
}

TEST_CASE("a lane costs the values that live across the pull") {
  const auto program = testing::MlpProgram(DType::kFloat32, 16, 20, 12, 0);
  const size_t weights = (20 * 12 + 12 + 12 * 10 + 10) * sizeof(float);
  const auto bytes = [&](int lanes) {
    return (*Executable::Compile(*program, {.lanes = lanes}))->memory_bytes();
  };
  const size_t lane = bytes(4) - bytes(3);
  CHECK(lane == bytes(3) - bytes(2));
  CHECK(lane >= 2 * weights);  // what it pulls, and what it pushes
  CHECK(lane < 2 * weights + 4 * 2 * 64);
}

}  // namespace
}  // namespace cohort

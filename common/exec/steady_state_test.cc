// After the first steps, Bind, Prepare and Run allocate nothing and take no lock.
#include <catch2/catch.hpp>
#include <memory>
#include <mutex>

#include "common/exec/step_test_util.h"
#include "common/graph/mixed_precision.h"
#include "common/testing/counted_test_calls.h"

namespace cohort {
namespace {

using testing::CountedAllocations;
using testing::CountedLocks;
using testing::StartCounting;
using testing::StopCounting;

// Runs steps of all the batches' sizes, by turns; returns after `steps`. With several lanes each
// step is prepared and pulled as far ahead as they allow.
void RunSteps(Executable* e, int lanes, const std::vector<std::vector<Tensor>>& batches,
              uint64_t steps) {
  const uint64_t ahead = static_cast<uint64_t>(lanes) - 1;
  for (uint64_t step = 0; step < steps; ++step) {
    e->UseLane(static_cast<int>((step + ahead) % (ahead + 1)));
    bool ok = e->Bind(batches[step % batches.size()]).ok();
    ok = ok && e->Prepare({1, step, 0}).ok();
    testing::FillPulls<float>(e);
    if (step < ahead) continue;
    e->UseLane(static_cast<int>(step % (ahead + 1)));
    ok = ok && e->Run().ok();
    if (!ok) FAIL("step " << step);
  }
}

void CheckSteady(absl::StatusOr<Program> program, const std::vector<std::vector<Tensor>>& batches,
                 int lanes = 1) {
  REQUIRE(program.ok());
  auto e = Executable::Compile(*std::move(program), {.lanes = lanes});
  REQUIRE(e.ok());
  RunSteps(e->get(), lanes, batches, 4);
  StartCounting();
  RunSteps(e->get(), lanes, batches, 50);
  StopCounting();
  REQUIRE(CountedAllocations() == 0);
  REQUIRE(CountedLocks() == 0);
  REQUIRE(testing::CountedOneDnnLocks() <= 50 * 8);  // at most one per matrix product
}

TEST_CASE("the counters count") {
  StartCounting();
  {
    std::mutex mutex;
    const std::lock_guard<std::mutex> lock(mutex);
    auto p = std::make_unique<std::vector<int>>(3);
    p->push_back(1);
  }
  StopCounting();
  REQUIRE(CountedAllocations() == 3);
  REQUIRE(CountedLocks() >= 1);
}

TEST_CASE("a recommender step allocates nothing and takes no lock") {
  CheckSteady(
      testing::RecommenderProgram(DType::kFloat32, 32, 100, 20),
      {testing::RecommenderBatch<float>(32, 100, 1), testing::RecommenderBatch<float>(17, 100, 2)});
}

TEST_CASE("steps that are prepared ahead allocate nothing and take no lock") {
  CheckSteady(
      testing::RecommenderProgram(DType::kFloat32, 32, 100, 20),
      {testing::RecommenderBatch<float>(32, 100, 1), testing::RecommenderBatch<float>(17, 100, 2)},
      /*lanes=*/3);
}

TEST_CASE("a step with vectors as metrics allocates nothing and takes no lock") {
  const auto batch = [](std::vector<float> x) {
    const Dims dims{static_cast<int64_t>(x.size()), 1};
    return std::vector<Tensor>{Tensor::FromValues<float>(dims, x)};
  };
  CheckSteady(testing::CountsProgram(DType::kFloat32, 4), {batch({1, 2, 3}), batch({0.5, -1})});
}

TEST_CASE("an MLP step with dropout allocates nothing and takes no lock") {
  CheckSteady(testing::MlpProgram(DType::kFloat32, 32, 784, 128, 0.2),
              {testing::MlpBatch<float>(32, 784, 1), testing::MlpBatch<float>(9, 784, 2)});
}

TEST_CASE("a step in mixed precision allocates nothing and takes no lock") {
  auto program = testing::MlpProgram(DType::kFloat32, 32, 784, 128, 0.2);
  REQUIRE(program.ok());
  for (const Precision precision : {Precision::kBfloat16, Precision::kFloat16}) {
    CheckSteady(WithPrecision(*program, precision, {""}),
                {testing::MlpBatch<float>(32, 784, 1), testing::MlpBatch<float>(9, 784, 2)});
  }
}

}  // namespace
}  // namespace cohort

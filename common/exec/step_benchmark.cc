// Times a training step of the two small models in one process and one thread: Bind, Prepare and
// Run alone, and with the exchange with variables in this process. Prints the best and the median
// of many short runs, in microseconds.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "common/exchange/local_access.h"
#include "common/exec/step_test_util.h"
#include "common/optimizers/optimizers.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

using Clock = std::chrono::steady_clock;

absl::StatusOr<std::unique_ptr<LocalVariables>> MakeVariables(const Program& program,
                                                              const OptimizerRule* rule) {
  auto variables = std::make_unique<LocalVariables>();
  for (size_t v = 0; v < program.variables.size(); ++v) {
    Dims dims;
    for (const Dim& dim : program.variables[v].type.dims) dims.push_back(dim.size);
    Tensor t(DType::kFloat32, dims);
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      t.mutable_values<float>()[static_cast<size_t>(i)] = static_cast<float>(testing::Weight(v, i));
    }
    COHORT_RETURN_IF_ERROR(variables->Add(program.variables[v].name, std::move(t), rule));
  }
  return variables;
}

// One step; the time of everything but the exchange.
absl::StatusOr<Clock::duration> Step(Executable* e, LocalAccess* access,
                                     const std::vector<Tensor>& batch, uint64_t step) {
  const auto begin = Clock::now();
  COHORT_RETURN_IF_ERROR(e->Bind(batch));
  COHORT_RETURN_IF_ERROR(e->Prepare({1, step, 0}));
  const auto prepared = Clock::now();
  const PullBatch pull{step, 0, e->pulls()};
  COHORT_RETURN_IF_ERROR(access->Exchange(nullptr, &pull).status());
  const auto pulled = Clock::now();
  COHORT_RETURN_IF_ERROR(e->Run());
  const auto ran = Clock::now();
  PushBatch push;
  push.stamp.place = step;
  push.stamp.weight = e->weight();
  push.items = e->pushes();
  COHORT_RETURN_IF_ERROR(access->Exchange(&push, nullptr).status());
  return prepared - begin + (ran - pulled);
}

absl::Status Measure(const std::string& name, absl::StatusOr<Program> traced,
                     const std::string& optimizer,
                     const std::vector<std::vector<Tensor>>& batches) {
  COHORT_RETURN_IF_ERROR(traced.status());
  COHORT_ASSIGN_OR_RETURN(auto e, Executable::Compile(*std::move(traced), {}));
  COHORT_ASSIGN_OR_RETURN(auto rule, OptimizerRule::Create(OptimizerOf(
                                         optimizer, {{"learning_rate", ConfigOf(1e-4)}})));
  COHORT_ASSIGN_OR_RETURN(auto variables, MakeVariables(e->program(), rule.get()));
  COHORT_ASSIGN_OR_RETURN(auto access, LocalAccess::Create(variables.get(), e->program()));
  constexpr int kRuns = 40, kSteps = 50;
  std::vector<double> compute, whole;
  uint64_t step = 0;
  for (int run = 0; run < kRuns; ++run) {
    Clock::duration computing{};
    const auto begin = Clock::now();
    for (int i = 0; i < kSteps; ++i, ++step) {
      COHORT_ASSIGN_OR_RETURN(const auto took,
                              Step(e.get(), access.get(), batches[step % batches.size()], step));
      computing += took;
    }
    const auto micros = [](Clock::duration d) {
      return std::chrono::duration<double, std::micro>(d).count() / kSteps;
    };
    compute.push_back(micros(computing));
    whole.push_back(micros(Clock::now() - begin));
  }
  std::ranges::sort(compute);
  std::ranges::sort(whole);
  fmt::print(
      "{:12} {:8}  step {:8.2f} / {:8.2f} us   with exchange {:8.2f} / {:8.2f} us   {} bytes\n",
      name, optimizer, compute[0], compute[kRuns / 2], whole[0], whole[kRuns / 2],
      e->memory_bytes());
  return absl::OkStatus();
}

absl::Status MeasureAll() {
  fmt::print("best / median of 40 runs of 50 steps, float32, batch 32, one thread\n");
  std::vector<std::vector<Tensor>> mlp, recommender;
  for (int64_t i = 0; i < 4; ++i) {
    mlp.push_back(testing::MlpBatch<float>(32, 784, i));
    recommender.push_back(testing::RecommenderBatch<float>(32, 8, i));
  }
  COHORT_RETURN_IF_ERROR(Measure("recommender",
                                 testing::RecommenderProgram(DType::kFloat32, 32, 8, 20), "RMSprop",
                                 recommender));
  COHORT_RETURN_IF_ERROR(
      Measure("mlp", testing::MlpProgram(DType::kFloat32, 32, 784, 128, 0.2), "Adam", mlp));
  return Measure("mlp", testing::MlpProgram(DType::kFloat32, 32, 784, 128, 0.2), "SGD", mlp);
}

}  // namespace
}  // namespace cohort

int main() {
  const absl::Status status = cohort::MeasureAll();
  if (status.ok()) return 0;
  fmt::print(stderr, "{}\n", status.ToString());
  return 1;
}

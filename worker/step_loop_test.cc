#include "worker/step_loop.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <thread>

#include "common/graph/mixed_precision.h"
#include "worker/step_loop_test_fixture.h"

namespace cohort {
namespace {

TEST_CASE_METHOD(StepLoopFixture, "the push of a step travels with the pull of the next") {
  Dispatch({Closure(1, {1, 2}), Closure(2, {3}), Closure(3, {10, 20, 30, 40})});
  RunAll();
  REQUIRE(effects.results.size() == 3);
  REQUIRE(variables.calls.size() == 4);  // three steps, and the last push alone
  CHECK_FALSE(variables.calls[0].pushed.has_value());
  CHECK(variables.calls[1].pushed == 100);
  CHECK(variables.calls[1].pulled);
  CHECK(variables.calls[3].pushed == 300);
  CHECK_FALSE(variables.calls[3].pulled);
  CHECK(variables.w == 106);
  CHECK(Output(effects.results[0]) == 0);
  CHECK(Output(effects.results[1]) == 3);  // a worker reads its own writes
  CHECK(Output(effects.results[2]) == 6);
  CHECK(effects.results[2].metrics(0).name() == "mean");
  CHECK(effects.results[2].metrics(0).total() == 100);
  CHECK(effects.results[2].metrics(0).count() == 4);
  CHECK(effects.results[2].applied() == 3);
  CHECK(effects.results[2].max_staleness() == 3);
  CHECK(effects.results[2].sum_staleness() == 6);
  CHECK(effects.results[2].examples() == 4);
  CHECK(effects.results[2].steps() == 1);
  CHECK(metrics.steps->value() == 3);
}

TEST_CASE_METHOD(StepLoopFixture, "a closure of several steps has ordinals and folds its metrics") {
  v1::Closure closure = Closure(4, {1, 2});
  closure.set_steps(3);
  Dispatch({closure});
  RunAll();
  REQUIRE(effects.results.size() == 1);
  CHECK(effects.results[0].steps() == 3);
  CHECK(effects.results[0].metrics(0).total() == 9);
  CHECK(effects.results[0].metrics(0).count() == 6);
  CHECK(effects.results[0].applied() == 9);
  CHECK(Output(effects.results[0]) == 6);  // what the last step pulled
  CHECK(variables.calls[1].pushed == 400);
  CHECK(variables.calls[2].pushed == 401);
  CHECK(variables.calls[3].pushed == 402);
}

TEST_CASE_METHOD(StepLoopFixture,
                 "closures that do not train only pull; another program's push goes first") {
  Dispatch({Closure(1, {5}), Closure(2, {7}, false), Closure(3, {1}, true, 1), Closure(4, {1})});
  RunAll();
  REQUIRE(effects.results.size() == 4);
  CHECK(effects.results[0].id() == 1);
  CHECK(Output(effects.results[1]) == 5);
  CHECK(effects.results[1].applied() == 0);
  CHECK(variables.w == 7);
  bool alone = false;
  for (const auto& call : variables.calls) alone = alone || (call.pushed == 300 && !call.pulled);
  CHECK(alone);
}

TEST_CASE_METHOD(StepLoopFixture,
                 "a closure with an update that was refused as settled is not done") {
  const auto check = [this](std::vector<v1::Closure> closures, size_t refused) {
    Dispatch(std::move(closures));
    RunAll();
    for (size_t i = 0; i < effects.results.size(); ++i) {
      const absl::Status status = StatusFromProto(effects.results[i].status());
      CHECK(status.ok() == (i != refused));
      if (i != refused) continue;
      CHECK(absl::IsInternal(status));
      CHECK_FALSE(IsRetryable(status));
      CHECK_THAT(status.ToString(), Catch::Contains("refused 3 of its pushes as settled"));
    }
  };
  SECTION("its last, whose push goes with the next one's pull") {
    variables.settled = 100;
    check({Closure(1, {5}), Closure(2, {7})}, 0);
    CHECK(effects.results.size() == 2);
  }
  SECTION("one of several steps") {
    variables.settled = 400;
    check({Closure(4, {1, 2, 3})}, 0);
    CHECK(effects.results.size() == 1);
  }
}

TEST_CASE_METHOD(StepLoopFixture, "an exchange that is fenced gives the closures back") {
  SECTION("with a push: the next closure still pulls") {
    variables.fail = [](const FakeVariables::Call& call) {
      return call.pushed == 100 ? Aborted("fenced") : absl::OkStatus();
    };
    Dispatch({Closure(1, {5}), Closure(2, {7})});
    RunAll();
    REQUIRE(effects.results.size() == 2);
    const absl::Status status = StatusFromProto(effects.results[0].status());
    CHECK(absl::IsAborted(status));
    CHECK(IsRetryable(status));
    CHECK(effects.results[1].status().code() == 0);
    CHECK(variables.w == 7);
  }
  SECTION("pulled values of another timeline") {
    variables.timeline = 2;
    Dispatch({Closure(1, {5})});
    RunAll();
    REQUIRE(effects.results.size() == 1);
    CHECK(absl::IsAborted(StatusFromProto(effects.results[0].status())));
    CHECK(variables.calls.size() == 1);  // nothing is pushed
  }
}

TEST_CASE_METHOD(StepLoopFixture,
                 "a server that cannot be reached is reported with both closures") {
  variables.fail = [](const FakeVariables::Call& call) -> absl::Status {
    if (!call.pushed.has_value()) return absl::OkStatus();
    absl::Status status = Unavailable("ps:1");
    SetFailure(&status, {.role = "ps", .index = 1, .retryable = true});
    return status;
  };
  Dispatch({Closure(1, {5}), Closure(2, {7})});
  RunAll();
  REQUIRE(effects.results.size() == 2);
  CHECK(effects.unreachable == 1);
  for (const auto& result : effects.results) {
    const absl::Status status = StatusFromProto(result.status());
    REQUIRE(GetFailure(status).has_value());
    CHECK(GetFailure(status)->role == "ps");
  }
}

TEST_CASE_METHOD(StepLoopFixture,
                 "a cancelled closure stops; the push of the one before is still sent") {
  // Closure 2 is cancelled while its pull is under way; closure 3 must not write over closure 1's
  // gradient before that is sent.
  int cancelled = 0;
  variables.fail = [&](const FakeVariables::Call& call) -> absl::Status {
    if (call.pushed != 100 || cancelled++ > 0) return absl::OkStatus();
    v1::ChiefToWorker message;
    message.set_generation(1);
    message.mutable_cancel()->add_ids(2);
    core.OnMessage(1, &message);
    return Cancelled("interrupted");
  };
  Dispatch({Closure(1, {5}), Closure(2, {1000}), Closure(3, {7})});
  RunAll();
  REQUIRE(effects.results.size() == 3);
  std::map<uint64_t, int> codes;
  for (const auto& result : effects.results) codes[result.id()] = result.status().code();
  CHECK(codes[1] == 0);
  CHECK(codes[2] == static_cast<int>(absl::StatusCode::kCancelled));
  CHECK(codes[3] == 0);
  CHECK(variables.w == 12);
}

TEST_CASE_METHOD(StepLoopFixture, "an interrupt that means nobody changes nothing") {
  int interrupts = 0;
  variables.fail = [&](const FakeVariables::Call&) {
    return interrupts++ < 3 ? Cancelled("interrupted") : absl::OkStatus();
  };
  Dispatch({Closure(1, {5}), Closure(2, {7})});
  RunAll();
  REQUIRE(effects.results.size() == 2);
  CHECK(effects.results[0].status().code() == 0);
  CHECK(variables.w == 12);
}

TEST_CASE_METHOD(StepLoopFixture, "what the program or its data do wrong comes back typed") {
  v1::Closure unknown = Closure(1, {1});
  unknown.set_program("beef");
  v1::Closure resource = Closure(3, {1});
  resource.set_resource("nowhere");
  Dispatch({unknown, Closure(2, {1, 2, 3, 4, 5}), resource});
  RunAll();
  REQUIRE(effects.results.size() == 3);
  const auto status = [&](size_t i) { return StatusFromProto(effects.results[i].status()); };
  CHECK(absl::IsFailedPrecondition(status(0)));
  CHECK(absl::IsInvalidArgument(status(1)));
  CHECK(std::string(status(1).message()).find("closure 2 of program 'train'") == 0);
  CHECK(absl::IsNotFound(status(2)));
  for (size_t i = 0; i < 3; ++i) CHECK_FALSE(IsRetryable(status(i)));
}

TEST_CASE_METHOD(DatasetFixture, "an independent dataset feeds steps until its end") {
  Make(/*repeat=*/1);
  Dispatch({Reading(1), Reading(2), Reading(3), Reading(4)});
  RunAll();
  INFO(effects.resource_status);
  REQUIRE(effects.resource_status.ok());
  REQUIRE(effects.results.size() == 4);
  uint64_t examples = 0;
  for (const auto& result : effects.results) examples += result.examples();
  CHECK(examples == 10);
  const v1::ClosureResult& last =
      effects.results[3].id() == 4 ? effects.results[3] : effects.results[2];
  CHECK(last.end_of_data());
  CHECK(absl::IsOutOfRange(StatusFromProto(last.status())));
  CHECK(effects.readers.back().batches() == 3);  // at its end
}

TEST_CASE_METHOD(DatasetFixture, "with the results goes how far they have read") {
  Make(/*repeat=*/0);
  Dispatch({Reading(1), Reading(2, /*steps=*/3), Closure(3, {1})});
  RunAll();
  REQUIRE(effects.results.size() == 3);
  REQUIRE(!effects.readers.empty());
  CHECK(effects.readers.back().resource() == "train");
  CHECK(effects.readers.back().timeline() == 1);
  CHECK(effects.readers.back().batches() == 4);
  effects.readers.clear();
  Dispatch({Closure(4, {1})});  // reads nothing
  RunAll();
  CHECK(effects.readers.empty());
}

TEST_CASE_METHOD(DatasetFixture, "a closure that fails has read nothing, a later one passes it") {
  Make(/*repeat=*/0);
  variables.fail = [&](const FakeVariables::Call& call) {
    return call.pushed == 200 ? Aborted("fenced") : absl::OkStatus();
  };
  Dispatch({Reading(1)});
  RunAll();
  Dispatch({Reading(2)});
  RunAll();
  REQUIRE(effects.results.size() == 2);
  CHECK(effects.results[1].status().code() != 0);
  REQUIRE(effects.readers.size() == 1);
  CHECK(effects.readers[0].batches() == 1);
  Dispatch({Reading(3)});
  RunAll();
  CHECK(ExamplesOf(3) == 2);  // the third batch of the epoch
  CHECK(effects.readers.back().batches() == 3);
}

TEST_CASE_METHOD(DatasetFixture, "a reader begins where the chief says, again after a rollback") {
  Make(/*repeat=*/0, /*begin=*/5);
  Dispatch({Reading(1), Reading(2)});
  RunAll();
  CHECK(ExamplesOf(1) == 2);  // the last of the second epoch
  CHECK(ExamplesOf(2) == 4);
  CHECK(effects.readers.back().batches() == 7);
  variables.timeline = 2;
  Make(/*repeat=*/0, /*begin=*/2, /*timeline=*/2);
  Dispatch({Reading(3)});
  RunAll();
  CHECK(ExamplesOf(3) == 2);
  CHECK(effects.readers.back().timeline() == 2);
  CHECK(effects.readers.back().batches() == 3);
}

TEST_CASE("a resource makes large batches ahead as its dataset says, none where that is 0") {
  v1::CreateResource spec;
  spec.set_visitation(v1::EXACTLY_ONCE);
  spec.set_batch_size(100'000);
  spec.add_features("label");
  *spec.mutable_dataset()->mutable_source_class() = RecommenderOf(100'000);
  v1::ColumnTransform* label = spec.mutable_dataset()->add_transforms();
  label->set_column("label");
  *label->mutable_transform_class() = IsYes();
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  std::thread([] {}).join();  // with the first one a sanitizer starts one of its own
  const auto before = threads();
  Resources resources{DataOptions{}};
  for (const uint32_t prefetch : {0, 2}) {
    spec.mutable_dataset()->set_prefetch(prefetch);
    REQUIRE(resources.Create(spec).ok());
    CHECK(threads() - before == (prefetch > 0 ? 1 : 0));
  }
}

TEST_CASE_METHOD(DatasetFixture,
                 "a batch feeds the first arguments of a step, a closure's own the rest") {
  ProgramBuilder b("scaled");
  const int batch = b.AddSymbol("batch", 4);
  const Expr x = b.Input("x", {DType::kFloat32, {{4, batch}}});
  const Expr scale = b.Input("scale", {DType::kFloat32, {}});
  b.AddMetric("sum", ReduceSum(x * 0.0 + scale), DimSize(x, 0));
  Register(*std::move(b).Build());
  Make(/*repeat=*/1);
  v1::Closure both = Closure(1, {}, /*training=*/false, /*program=*/2);
  both.set_resource("train");
  both.set_steps(2);
  both.clear_arguments();
  v1::Closure too_few = both;
  too_few.set_id(2);
  TensorToProto(Tensor::Scalar<float>(5), both.add_arguments());
  Dispatch({both, too_few});
  RunAll();
  REQUIRE(effects.results.size() == 2);
  CHECK(effects.results[0].status().message() == "");
  REQUIRE(effects.results[0].metrics_size() == 1);
  CHECK(effects.results[0].metrics(0).total() == 40);  // two steps of four examples
  CHECK(effects.results[0].metrics(0).count() == 8);
  CHECK(effects.results[1].status().message() ==
        "closure 2 of program 'scaled': program \"scaled\" takes 2 arguments, but is fed 1");
}

// Pushes the gradient of sum(x) w, which is sum(x), with a loss scale. Outputs the scale.
Program ScaledProgram() {
  ProgramBuilder b("scaled");
  const int batch = b.AddSymbol("batch", 4);
  const Expr x = b.Input("x", {DType::kFloat32, {{4, batch}}});
  const Expr w = b.Read("w", {DType::kFloat32, {}});
  b.SetLoss(DimSize(x, 0));
  REQUIRE(PushScaledGradients(&b, ReduceSum(x) * w, {.initial = 8, .growth_steps = 2}).ok());
  b.AddOutput("scale", Expr(&b, b.program().arguments.back().value));
  auto program = std::move(b).Build();
  INFO(program.status());
  REQUIRE(program.ok());
  return *std::move(program);
}

constexpr float kHuge = 1e38f;  // times 8 it is infinite

TEST_CASE_METHOD(StepLoopFixture,
                 "a worker skips pushes that are not finite, and has its own scale") {
  Register(ScaledProgram());
  const uint32_t pull_ahead = GENERATE(0u, 2u);
  Adopt(pull_ahead);
  std::vector<v1::Closure> closures;
  const std::vector<float> values = {1, kHuge, 2, 3, 4, 5};
  for (size_t i = 0; i < values.size(); ++i) {
    closures.push_back(Closure(i + 1, {values[i]}, true, 2));
  }
  Dispatch(closures);
  RunAll();
  REQUIRE(effects.results.size() == values.size());
  CHECK(variables.w == 1 + 2 + 3 + 4 + 5);
  for (const FakeVariables::Call& call : variables.calls) CHECK(call.pushed != 200);
  for (const v1::ClosureResult& result : effects.results) {
    INFO(result.id());
    CHECK(result.status().code() == 0);
    CHECK(result.not_finite_steps() == (result.id() == 2 ? 1 : 0));
    CHECK((result.applied() == 0) == (result.id() == 2));
  }
  CHECK(metrics.not_finite->value() == 1);
  // The steps that were bound before the second one ran still have its scale, and count for
  // nothing.
  const std::vector<float> scales =
      pull_ahead == 0 ? std::vector<float>{8, 8, 4, 4, 8, 8} : std::vector<float>{8, 8, 8, 8, 4, 4};
  for (size_t i = 0; i < values.size(); ++i) {
    INFO(i);
    CHECK(Output(effects.results[i]) == scales[i]);
  }
}

TEST_CASE_METHOD(StepLoopFixture,
                 "in mode sync a worker pushes what is not finite, and reports it") {
  Register(ScaledProgram());
  for (const float x : {kHuge, 1.0f}) {
    v1::Closure closure = Closure(x == 1 ? 2 : 1, {x}, true, 2);
    closure.mutable_step()->set_step(1);
    closure.mutable_step()->set_step_try(1);
    closure.set_loss_scale(64);
    Dispatch({closure});
    RunAll();
  }
  REQUIRE(effects.results.size() == 2);
  CHECK(effects.results[0].not_finite_steps() == 1);
  CHECK(effects.results[0].applied() == 3);
  CHECK(effects.results[1].not_finite_steps() == 0);
  CHECK(Output(effects.results[1]) == 64);
}

TEST_CASE_METHOD(StepLoopFixture, "a worker does not look at pushes without a loss scale") {
  Dispatch({Closure(1, {std::numeric_limits<float>::infinity()})});
  RunAll();
  REQUIRE(effects.results.size() == 1);
  CHECK(effects.results[0].not_finite_steps() == 0);
  CHECK(effects.results[0].applied() == 3);
}

// Notes the calls: "begin 1", "ready 0", "finish".
struct FakeSums : public DenseSums {
  absl::Status Begin(const v1::Closure& closure, const Program&,
                     std::span<const PushItem> pushes) override {
    calls.push_back(fmt::format("begin {} of {} pushes", closure.id(), pushes.size()));
    return absl::OkStatus();
  }
  void OnPushReady(size_t push) override { calls.push_back(fmt::format("ready {}", push)); }
  absl::StatusOr<std::span<const ShardSum>> Finish() override {
    calls.push_back("finish");
    COHORT_RETURN_IF_ERROR(fail);
    return calls.size() > 3 ? std::span<const ShardSum>(&sum, 1) : std::span<const ShardSum>();
  }

  ShardSum sum;
  absl::Status fail;
  std::vector<std::string> calls;
};

TEST_CASE_METHOD(StepLoopFixture,
                 "dense gradients are summed in the run, and the sums are pushed") {
  FakeSums sums;
  variables.sums = &sums;
  std::vector<v1::Closure> closures = {Closure(1, {1}), Closure(2, {2}), Closure(3, {3})};
  for (size_t i = 0; i < 2; ++i) closures[i].set_ring_places(2);
  Dispatch(closures);
  RunAll();
  const std::vector<std::string> calls = {"begin 1 of 1 pushes", "ready 0", "finish",
                                          "begin 2 of 1 pushes", "ready 0", "finish"};
  CHECK(sums.calls == calls);
  // The first closure brings no sum, the second one; the third is in no ring.
  CHECK(variables.summed == std::vector<std::optional<size_t>>{0, 1, std::nullopt});
}

TEST_CASE_METHOD(StepLoopFixture, "a closure whose gradients cannot be summed is not pushed") {
  FakeSums sums;
  sums.fail = Unavailable("rank 1 was lost");
  SetFailure(&sums.fail, {.role = "worker", .index = 1, .retryable = true});
  if (GENERATE(true, false)) variables.sums = &sums;
  v1::Closure closure = Closure(1, {1});
  closure.set_ring_places(1);
  Dispatch({closure});
  RunAll();
  REQUIRE(effects.results.size() == 1);
  const absl::Status status = StatusFromProto(effects.results[0].status());
  if (variables.sums != nullptr) {
    CHECK(absl::IsUnavailable(status));
    CHECK(GetFailure(status)->index == 1);
  } else {
    CHECK(absl::IsFailedPrecondition(status));
  }
  CHECK(variables.w == 0);
}

}  // namespace
}  // namespace cohort

#include <catch2/catch.hpp>

#include "chief/core/core_parts_test_util.h"
#include "chief/core/steps.h"
#include "common/optimizers/optimizers.h"

namespace cohort {
namespace {

// A gate of synchronous steps of two closures, with two servers.
struct GateParts {
  explicit GateParts(const v1::OptimizerSpec& optimizer, const LossScaling& loss_scaling = {})
      : parts(1, 2, {}, 0, loss_scaling),
        context(OptionsOf(parts)),
        gate(&context, &parts.outbox, &parts.closures) {
    context.timeline = 1;
    for (int ps = 0; ps < 2; ++ps) parts.Adopt(PsTask(ps));
    v1::Layout layout;
    *layout.add_optimizers() = optimizer;
    gate.SetLayout(layout);
  }
  static CoreOptions OptionsOf(const CoreParts& parts) {
    CoreOptions options = parts.context.options;
    options.mode = ConsistencyMode::kSync;
    options.closures_per_step = 2;
    return options;
  }

  // Two closures run, and are heard.
  void RunStep(uint64_t first, bool finite = true) {
    for (uint64_t id = first; id < first + 2; ++id) {
      parts.Queue(id);
      gate.Enter(parts.closures.Dispatch(0, true, 100));
    }
    for (uint64_t id = first; id < first + 2; ++id) {
      v1::ClosureResult result = CoreParts::ResultOf(id, 1);
      result.set_not_finite_steps(finite ? 0 : 1);
      gate.OnHeard(parts.closures.Find(id), &result);
    }
    gate.Advance(/*next_place=*/0, /*rolls_back=*/false);
  }
  // The only message that a server has got since the last call.
  v1::ChiefToPs Sent(int ps) {
    auto& sent = parts.sent_to_ps(ps);
    REQUIRE(sent.size() == 1);
    v1::ChiefToPs message = sent.front();
    sent.clear();
    return message;
  }
  // The server acknowledges the first step.
  void Closed(int ps) {
    v1::PsToChief answer;
    answer.mutable_step_closed()->set_step(1);
    CHECK(gate.OnPsMessage(ps, answer).ok());
    gate.Advance(/*next_place=*/0, /*rolls_back=*/false);
  }
  static v1::PsToChief Summed(const v1::ChiefToPs& asked, const std::string& variable,
                              double squares) {
    v1::PsToChief answer;
    answer.set_request(asked.request());
    v1::StepSummed* const summed = answer.mutable_step_summed();
    summed->set_step(asked.sum_step().step());
    v1::GradientNorm* const norm = summed->add_norms();
    norm->set_variable(variable);
    ExactSum sum;
    sum.Add(squares);
    norm->set_squares(sum.Serialize());
    return answer;
  }

  CoreParts parts;
  CoreContext context;
  Steps gate;
};

v1::OptimizerSpec ClippingSgd(const char* argument) {
  return OptimizerOf("SGD", {{argument, ConfigOf(1.0)}});
}

TEST_CASE("a step is closed at once unless gradients are clipped by a norm") {
  GateParts p(ClippingSgd("clipvalue"));
  p.RunStep(1);
  CHECK(p.Sent(0).close_step().step() == 1);
  CHECK(p.Sent(1).close_step().members_size() == 2);
  p.Closed(0);
  CHECK_FALSE(p.gate.at_boundary());
  p.Closed(1);
  CHECK(p.gate.at_boundary());
  CHECK(p.parts.world.done.size() == 2);
}

TEST_CASE("the norms of a step are those of all servers") {
  GateParts p(ClippingSgd("global_clipnorm"));
  p.RunStep(1);
  const v1::ChiefToPs first = p.Sent(0);
  const v1::ChiefToPs lost = p.Sent(1);
  CHECK(first.sum_step().step() == 1);
  CHECK(first.sum_step().members_size() == 2);
  REQUIRE(p.gate.OnPsMessage(0, GateParts::Summed(first, "", 9)).ok());
  REQUIRE(p.gate.OnPsMessage(0, GateParts::Summed(first, "", 9)).ok());
  // A server that was away is asked again; one that has answered is not.
  p.gate.OnPsReturned(0, {});
  CHECK(p.parts.sent_to_ps(0).empty());
  p.gate.OnPsReturned(1, {});
  const v1::ChiefToPs again = p.Sent(1);
  CHECK(again.sum_step().step() == 1);
  REQUIRE(p.gate.OnPsMessage(1, GateParts::Summed(lost, "", 1000)).ok());
  CHECK(p.parts.sent_to_ps(0).empty());
  REQUIRE(p.gate.OnPsMessage(1, GateParts::Summed(again, "", 16)).ok());
  for (int ps = 0; ps < 2; ++ps) {
    const v1::ChiefToPs closing = p.Sent(ps);
    REQUIRE(closing.close_step().norms_size() == 1);
    CHECK(closing.close_step().norms(0).norm() == 5);
    CHECK(closing.close_step().iteration() == 0);
    p.Closed(ps);
  }
  CHECK(p.gate.at_boundary());
  // The next step begins with new sums.
  p.RunStep(3);
  for (int ps = 0; ps < 2; ++ps) {
    REQUIRE(p.gate.OnPsMessage(ps, GateParts::Summed(p.Sent(ps), ps == 0 ? "a" : "b", 4)).ok());
  }
  const v1::ChiefToPs closing = p.Sent(0);
  REQUIRE(closing.close_step().norms_size() == 2);
  CHECK(closing.close_step().norms(1).variable() == "b");
  CHECK(closing.close_step().norms(1).norm() == 2);
}

TEST_CASE("a step that is skipped needs no norms") {
  GateParts p(ClippingSgd("global_clipnorm"), {.initial = 1024, .growth_steps = 10});
  p.RunStep(1, /*finite=*/false);
  for (int ps = 0; ps < 2; ++ps) {
    CHECK(p.Sent(ps).close_step().skip());
    p.Closed(ps);
  }
  CHECK(p.gate.at_boundary());
  p.RunStep(3);
  CHECK(p.Sent(0).sum_step().step() == 2);
}

TEST_CASE("a rollback forgets the norms of the step that was being closed") {
  GateParts p(ClippingSgd("clipnorm"));
  p.RunStep(1);
  const v1::ChiefToPs old = p.Sent(0);
  CHECK(p.Sent(1).has_sum_step());
  p.gate.RollBack({});
  CHECK(p.gate.at_boundary());
  REQUIRE(p.gate.OnPsMessage(0, GateParts::Summed(old, "a", 9)).ok());
  CHECK(p.parts.sent_to_ps(0).empty());
}

TEST_CASE("squares that cannot be read are an error") {
  GateParts p(ClippingSgd("clipnorm"));
  p.RunStep(1);
  v1::PsToChief answer = GateParts::Summed(p.Sent(0), "a", 9);
  answer.mutable_step_summed()->mutable_norms(0)->set_squares("?");
  CHECK(absl::IsInvalidArgument(p.gate.OnPsMessage(0, answer)));
}

TEST_CASE("the mode does not change if other tasks would have to clip gradients") {
  const ModeSettings async{.mode = ConsistencyMode::kAsync};
  GateParts clipping(ClippingSgd("clipvalue"));
  CHECK(absl::IsFailedPrecondition(clipping.gate.SetMode(async)));
  CHECK(clipping.gate.SetMode({.mode = ConsistencyMode::kSync, .closures_per_step = 3}).ok());
  GateParts plain(OptimizerOf("SGD", {}));
  CHECK(plain.gate.SetMode(async).ok());
}

}  // namespace
}  // namespace cohort

#include <catch2/catch.hpp>

#include "chief/core/steps_test_util.h"
#include "common/optimizers/optimizers.h"

namespace cohort {
namespace {

// A gate of synchronous steps of two closures, with two servers.
struct GateParts {
  explicit GateParts(const v1::OptimizerSpec& optimizer, const LossScaling& loss_scaling = {})
      : parts(1, 2, {}, 0, loss_scaling),
        context(OptionsOf(parts)),
        gate(&context, &parts.outbox, &parts.closures, &parts.homes) {
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
      gate.Enter(parts.queue.Dispatch(0, true, 100));
    }
    for (uint64_t id = first; id < first + 2; ++id) {
      v1::ClosureResult result = CoreParts::ResultOf(id, 1);
      result.set_not_finite_steps(finite ? 0 : 1);
      gate.OnHeard(parts.queue.Find(id), &result);
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

TEST_CASE("a server that neither closes a step nor reports progress is named") {
  GateParts p(ClippingSgd("clipvalue"));
  p.RunStep(1);
  p.Closed(0);
  const v1::ChiefToPs asked = p.Sent(1);
  const int64_t limit = p.context.options.close_deadline_us;
  const auto report = [&](uint64_t bytes) {
    v1::PsToChief message;
    message.set_request(asked.request());
    message.mutable_progress()->set_bytes(bytes);
    REQUIRE(p.gate.OnPsMessage(1, message).ok());
  };
  for (uint64_t bytes = 1'000'000'000; bytes <= 3'000'000'000; bytes += 1'000'000'000) {
    p.context.now_us += limit - 1;
    CHECK(p.gate.Tick().ok());
    report(bytes);
  }
  p.context.now_us += limit - 1;
  report(3'000'000'000);  // nothing new
  CHECK(p.gate.Tick().ok());
  p.context.now_us += 1;
  const absl::Status late = p.gate.Tick();
  CHECK(absl::IsDeadlineExceeded(late));
  CHECK(late.message() == "ps:1 (p1:1) does not close step 1: nothing for 300 s after 3.000 GB");
  CHECK(GetFailure(late)->index == 1);
  p.Closed(1);
  CHECK(p.gate.Tick().ok());
}

TEST_CASE("a server that has summed its part has all the time again when it closes the step") {
  GateParts p(ClippingSgd("global_clipnorm"));
  p.RunStep(1);
  const int64_t limit = p.context.options.close_deadline_us;
  REQUIRE(p.gate.OnPsMessage(0, GateParts::Summed(p.Sent(0), "", 9)).ok());
  p.context.now_us += limit;
  CHECK(GetFailure(p.gate.Tick())->index == 1);
  REQUIRE(p.gate.OnPsMessage(1, GateParts::Summed(p.Sent(1), "", 16)).ok());
  CHECK(p.gate.Tick().ok());
  p.context.now_us += limit - 1;
  CHECK(p.gate.Tick().ok());
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

// ------------------------------------------------------------------ loss scale

constexpr LossScaling kScaling{.initial = 1024, .growth_steps = 2};

// Dispatches the closures first and first + 1, hears them, and closes the step on both servers.
// Returns the message that closed it.
v1::CloseStep CloseTwo(Gated* s, uint64_t first, bool finite) {
  CHECK(s->Dispatch() == 2);
  s->Hear(first, finite);
  s->Hear(first + 1);
  v1::CloseStep close = s->CloseTo(0);
  CHECK(s->CloseTo(1).SerializeAsString() == close.SerializeAsString());
  s->Closed(0, close.step());
  s->Closed(1, close.step());
  return close;
}

TEST_CASE("a step with a gradient that is not finite is skipped, and the scale is halved") {
  Gated s({.mode = ConsistencyMode::kSync, .closures_per_step = 2}, 0, kScaling);
  s.QueueMany(1, 8);
  CHECK(s.steps.open().loss_scale() == 1024);
  const v1::CloseStep first = CloseTwo(&s, 1, /*finite=*/false);
  CHECK(first.skip());
  CHECK(first.iteration() == 0);
  CHECK(first.loss_scale().scale() == 512);
  CHECK(s.Done(1));
  CHECK(s.Done(2));
  CHECK(s.steps.open().loss_scale() == 512);
  const v1::CloseStep second = CloseTwo(&s, 3, /*finite=*/true);
  CHECK(!second.skip());
  CHECK(second.step() == 2);
  CHECK(second.iteration() == 0);  // the skipped step was none
  CHECK(second.next_place() == 5);
  CHECK(second.loss_scale().finite_steps() == 1);
  const v1::CloseStep third = CloseTwo(&s, 5, /*finite=*/true);
  CHECK(third.iteration() == 1);
  CHECK(third.loss_scale().scale() == 1024);
  CHECK(s.steps.open().begin().iteration() == 2);
  CHECK(s.steps.counters().skipped == 1);
}

TEST_CASE("an abandoned step keeps its scale") {
  Gated s({.mode = ConsistencyMode::kSync, .closures_per_step = 2}, 0, kScaling);
  s.QueueMany(1, 2);
  s.Dispatch();
  s.Hear(1, /*finite=*/false);
  s.steps.Abandon();
  CHECK(s.steps.open().loss_scale() == 1024);
  CHECK(s.steps.counters().skipped == 0);
}

TEST_CASE("a closure without which a step is closed does not make it skipped") {
  Gated s({.mode = ConsistencyMode::kSync,
           .closures_per_step = 2,
           .backup_work = BackupWork::kDrop,
           .replicas_to_aggregate = 1},
          0, kScaling);
  s.QueueMany(1, 2);
  s.Dispatch();
  s.Hear(2);
  CHECK(s.CloseTo(0).members(0).closure() == 2);
  CHECK(!s.CloseTo(0).skip());
}

TEST_CASE("restarts, rollbacks and a repeated close continue with the scale") {
  Gated s({.mode = ConsistencyMode::kSync, .closures_per_step = 2}, 0, kScaling);
  v1::PsHello ahead;
  ahead.set_timeline(1);
  ahead.mutable_last_close()->set_step(7);
  ahead.mutable_last_close()->set_skip(true);
  ahead.mutable_position()->set_open_step(8);
  ahead.mutable_position()->set_iteration(5);
  ahead.mutable_position()->set_next_place(15);
  ahead.mutable_position()->mutable_loss_scale()->set_scale(256);
  ahead.mutable_position()->mutable_loss_scale()->set_finite_steps(1);
  v1::PsHello behind;
  behind.set_timeline(1);
  behind.mutable_position()->set_open_step(7);
  behind.mutable_position()->set_next_place(13);
  behind.mutable_position()->mutable_loss_scale()->set_scale(512);
  s.steps.TakeOver(std::nullopt, {}, {&ahead, &behind});
  CHECK(s.steps.open().loss_scale() == 256);
  s.steps.Resume();
  CHECK(s.CloseTo(1).step() == 7);
  CHECK(s.CloseTo(1).skip());
  v1::ChiefCut cut;
  *cut.mutable_position() = behind.position();
  s.steps.RollBack(cut);
  CHECK(s.steps.open().loss_scale() == 512);
  s.steps.RollBack(v1::ChiefCut());  // to the beginning
  CHECK(s.steps.open().loss_scale() == 1024);
}

TEST_CASE("a job without a loss scale, and an asynchronous one, has none") {
  Gated sync({.mode = ConsistencyMode::kSync, .closures_per_step = 1});
  sync.QueueMany(1, 1);
  CHECK(sync.steps.open().loss_scale() == 0);
  sync.Dispatch();
  sync.Hear(1, /*finite=*/false);
  CHECK(!sync.CloseTo(0).skip());
  CHECK(!sync.CloseTo(0).has_loss_scale());
  CHECK(Gated({.mode = ConsistencyMode::kAsync}, 0, kScaling).steps.open().loss_scale() == 0);
}

}  // namespace
}  // namespace cohort

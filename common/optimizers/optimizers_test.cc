#include "common/optimizers/optimizers.h"

#include <catch2/catch.hpp>
#include <limits>

#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

using Catch::Contains;

std::string ProblemOf(const v1::OptimizerSpec& spec) {
  const absl::Status status = OptimizerRule::Create(spec).status();
  REQUIRE_FALSE(status.ok());
  return std::string(status.message());
}

TEST_CASE("a warm-up rises to the first rate of its schedule, which then begins") {
  const v1::ConfigValue decay =
      ConfigOf(ClassOf("ExponentialDecay", {{"initial_learning_rate", ConfigOf(0.4)},
                                            {"decay_steps", ConfigOf(10.0)},
                                            {"decay_rate", ConfigOf(0.5)}}));
  v1::ConfigValue rate = ConfigOf(ClassOf(
      "WarmUp",
      {{"schedule", decay}, {"warmup_steps", ConfigOf(4)}, {"warmup_from", ConfigOf(0.2)}}));
  auto schedule = MakeSchedule(rate);
  REQUIRE(schedule.ok());
  CHECK((*schedule)(0) == Approx(0.2));
  CHECK((*schedule)(2) == Approx(0.3));
  CHECK((*schedule)(4) == Approx(0.4));
  CHECK((*schedule)(14) == Approx(0.2));

  // Scaling multiplies the rate of every step.
  auto before = *std::move(schedule);
  ScaleLearningRate(3, &rate);
  schedule = MakeSchedule(rate);
  REQUIRE(schedule.ok());
  for (double step = 0; step < 30; ++step) CHECK((*schedule)(step) == Approx(3 * before(step)));
}

TEST_CASE("a table of rates needs one value more than boundaries") {
  v1::OptimizerSpec spec = OptimizerOf("SGD", {});
  v1::ConfigValue values;
  for (const double value : {1.0, 0.5}) *values.mutable_list()->add_values() = ConfigOf(value);
  (*spec.mutable_rule()->mutable_config())["learning_rate"] =
      ConfigOf(ClassOf("PiecewiseConstantDecay",
                       {{"boundaries", ConfigOf(std::vector<int64_t>{3, 9})}, {"values", values}}));
  std::string argument;
  const auto completed = CompleteOptimizer(spec, &argument);
  CHECK(std::string(completed.status().message()) ==
        "PiecewiseConstantDecay: 2 boundaries need 3 values, not 2");
  CHECK(argument == "learning_rate");
}

TEST_CASE("optimizers have Keras' names and defaults") {
  for (const char* name : {"Adagrad", "Adam", "AdamW", "Ftrl", "RMSprop", "SGD", "sgd", "rmsprop",
                           "adamw", "ADAM", "RMSProp"}) {
    INFO(name);
    CHECK(OptimizerRule::Create(OptimizerOf(name, {})).ok());
  }
  const auto adam = CompleteOptimizer(OptimizerOf("adam", {}, ""));
  REQUIRE(adam.ok());
  CHECK(adam->rule().class_name() == "Adam");
  CHECK(adam->sparse_update() == "keras");
  const Config config(adam->rule());
  CHECK(config.Float("learning_rate") == 0.001);
  CHECK(config.Float("beta_2") == 0.999);
  CHECK(config.IsNone("weight_decay"));
  CHECK(Config(CompleteOptimizer(OptimizerOf("AdamW", {}))->rule()).Float("weight_decay") == 0.004);
  CHECK((*OptimizerRule::Create(*adam))->LearningRate(7) == 0.001);
}

TEST_CASE("slots have Keras' names and first values") {
  const auto slots = [](const v1::OptimizerSpec& spec) {
    std::vector<std::pair<std::string, double>> found;
    const auto rule = OptimizerRule::Create(spec);
    for (const SlotInfo& slot : (*rule)->slots()) found.emplace_back(slot.name, slot.initial_value);
    return found;
  };
  using Slots = std::vector<std::pair<std::string, double>>;
  CHECK(slots(OptimizerOf("SGD", {})).empty());
  CHECK(slots(OptimizerOf("Adagrad", {})) == Slots{{"accumulator", 0.1f}});
  CHECK(slots(OptimizerOf("AdamW", {{"amsgrad", ConfigOf(true)}})) ==
        Slots{{"momentum", 0}, {"velocity", 0}, {"velocity_hat", 0}});
  CHECK(slots(OptimizerOf("Ftrl", {{"initial_accumulator_value", ConfigOf(0.5)}})) ==
        Slots{{"accumulator", 0.5}, {"linear", 0}});
}

TEST_CASE("a wrong specification is refused by name") {
  CHECK_THAT(ProblemOf(OptimizerOf("LossScaleOptimizer", {})),
             Contains("optimizer \"LossScaleOptimizer\" is not supported yet; supported: Adadelta, "
                      "Adafactor, Adagrad, Adam, AdamW, Adamax"));
  CHECK_THAT(ProblemOf(OptimizerOf("Adm", {})), Contains("did you mean \"Adam\""));
  CHECK_THAT(ProblemOf(OptimizerOf("", {})), Contains("there is no optimizer \"\""));
  CHECK(ProblemOf(OptimizerOf("Adam", {{"beta_1", ConfigOf(1.0)}})) ==
        "Adam: beta_1 must be in [0, 1), not 1");
  CHECK_THAT(ProblemOf(OptimizerOf(
                 "SGD", {{"learning_rate", ConfigOf(std::numeric_limits<double>::quiet_NaN())}})),
             Contains("SGD: learning_rate must be in"));
  CHECK_THAT(ProblemOf(OptimizerOf("AdamW", {{"weight_decay", ConfigOf(-0.1)}})),
             Contains("AdamW: weight_decay must be in"));
  CHECK_THAT(ProblemOf(OptimizerOf("Ftrl", {{"learning_rate_power", ConfigOf(0.5)}})),
             Contains("Ftrl: learning_rate_power must be in"));
  CHECK_THAT(ProblemOf(OptimizerOf("Adam", {{"loss_scale_factor", ConfigOf(8.0)}})),
             Contains("`loss_scale_factor` of Adam is not supported: a job in float16 scales"));
  CHECK(ProblemOf(OptimizerOf("RMSprop", {}, "eager")) ==
        "RMSprop: sparse_update must be keras or lazy, not \"eager\"");
  std::string argument;
  CHECK_FALSE(CompleteOptimizer(OptimizerOf("SGD", {{"momentum", ConfigOf(2.0)}}), &argument).ok());
  CHECK(argument == "momentum");
}

TEST_CASE("Keras' arguments of the base class are accepted with their defaults") {
  CHECK(OptimizerRule::Create(OptimizerOf("Adam", {{"clipnorm", {}},
                                                   {"use_ema", ConfigOf(false)},
                                                   {"ema_momentum", ConfigOf(0.99)},
                                                   {"weight_decay", {}},
                                                   {"loss_scale_factor", {}}}))
            .ok());
}

TEST_CASE("arguments that change all rows or whole variables do not suit each other") {
  const auto ema = std::make_pair(std::string("use_ema"), ConfigOf(true));
  CHECK(OptimizerRule::Create(OptimizerOf("Adam", {ema})).ok());
  CHECK_THAT(ProblemOf(OptimizerOf("Adam", {ema}, "lazy")),
             Contains("change all rows: sparse_update must be keras"));
  CHECK_THAT(ProblemOf(OptimizerOf("Lamb", {}, "lazy")),
             Contains("Lamb works on whole variables: sparse_update must be keras"));
  const auto accumulate = std::make_pair(std::string("gradient_accumulation_steps"), ConfigOf(4));
  CHECK_THAT(ProblemOf(OptimizerOf("SGD", {accumulate}, "lazy")),
             Contains("change all rows: sparse_update must be keras"));
  CHECK_THAT(ProblemOf(OptimizerOf("SGD", {accumulate, {"clipnorm", ConfigOf(1.0)}})),
             Contains("Cohort clips each of them"));
  CHECK_THAT(ProblemOf(OptimizerOf("Lion", {{"beta_1", ConfigOf(0.0)}})),
             Contains("Lion: beta_1 must be more than 0"));
  CHECK_THAT(ProblemOf(OptimizerOf(
                 "Muon", {{"exclude_layers", ConfigOf(std::vector<std::string>{"dense("})}})),
             Contains("\"dense(\" is no regular expression"));
}

// A matrix that the layout cuts into two shards.
v1::Layout CutLayout(const v1::OptimizerSpec& optimizer, std::string_view constraint) {
  v1::Layout layout;
  v1::VariableSpec* const variable = layout.add_variables();
  variable->set_name("dense/kernel");
  variable->set_trainable(true);
  variable->add_dims(6);
  variable->add_dims(2);
  if (!constraint.empty()) variable->mutable_constraint()->set_class_name(std::string(constraint));
  *layout.add_optimizers() = optimizer;
  for (uint32_t i = 0; i < 2; ++i) layout.add_shards()->set_rows(3);
  return layout;
}

TEST_CASE("a variable is kept whole if its rule needs that, and a cut one is refused") {
  struct Case {
    const char* optimizer;
    const char* constraint;
    bool whole;
  };
  for (const Case& c :
       {Case{"Lamb", "", true}, Case{"Adafactor", "", true}, Case{"Muon", "", true},
        Case{"Adam", "", false}, Case{"Adam", "UnitNorm", true}, Case{"Adam", "NonNeg", false}}) {
    INFO(c.optimizer << " " << c.constraint);
    v1::Layout layout = CutLayout(OptimizerOf(c.optimizer, {}), c.constraint);
    const absl::Status status = LayoutRules::Create(layout).status();
    CHECK(status.ok() == !c.whole);
    if (c.whole) CHECK_THAT(std::string(status.message()), Contains("works on whole variables"));
    std::vector<v1::VariableSpec> variables = {layout.variables(0)};
    const std::vector<v1::OptimizerSpec> optimizers = {layout.optimizers(0)};
    REQUIRE(MarkWholeVariables(optimizers, variables).ok());
    CHECK(variables[0].whole() == c.whole);
  }
}

TEST_CASE("a constraint of an axis that a variable lacks is refused") {
  v1::VariableSpec variable;
  variable.add_dims(4);
  *variable.mutable_constraint() = ClassOf("MaxNorm", {{"axis", ConfigOf(1)}});
  const absl::Status status = OptimizerRule::Create(OptimizerOf("SGD", {}), &variable).status();
  CHECK(std::string(status.message()) == "MaxNorm: axis 1 is not one of the shape [4]");
}

std::vector<v1::VariableSpec> Variables() {
  std::vector<v1::VariableSpec> variables(3);
  variables[0].set_name("embedding/embeddings");
  variables[1].set_name("dense/kernel");
  variables[2].set_name("frozen/kernel");
  for (v1::VariableSpec& variable : variables) variable.set_trainable(true);
  variables[2].set_trainable(false);
  return variables;
}

TEST_CASE("the first pattern that matches a variable's name chooses its optimizer") {
  const auto choose = [](std::vector<OptimizerChoice> choices) {
    std::vector<v1::VariableSpec> variables = Variables();
    const absl::Status status = ChooseOptimizers(choices, variables);
    if (!status.ok()) return std::string(status.message());
    return fmt::format("{} {}", variables[0].optimizer(), variables[1].optimizer());
  };
  CHECK(choose({{"embedding/*", 1}, {"*", 2}}) == "1 2");
  CHECK(choose({{"*", 2}, {"embedding/*", 1}}) == "2 2");
  CHECK(choose({{"*/kernel", 0}, {"embed?ing/[ef]*", 3}}) == "3 0");
  CHECK(choose({{"embedding/*", 1}}) ==
        "variable \"dense/kernel\" matches none of the patterns embedding/*; end the list with "
        "`variables: \"*\"`");
  CHECK(choose({{"embeding/*", 1}, {"*", 0}}) ==
        "no variable matches \"embeding/*\"; there are embedding/embeddings, dense/kernel, "
        "frozen/kernel");
}

TEST_CASE("a rate that the job has set counts from its iteration, until the next one") {
  v1::Layout layout;
  *layout.add_optimizers() = OptimizerOf("SGD", {{"learning_rate", ConfigOf(0.5)}});
  v1::VariableSpec variable = Variables().front();
  variable.set_trainable(true);
  variable.set_optimizer(0);
  *layout.add_variables() = variable;
  const auto rules = LayoutRules::Create(layout);
  REQUIRE(rules.ok());
  const OptimizerRule* const rule = (*rules)->Find(variable);
  v1::LearningRates rates;
  for (const auto& [iteration, rate] :
       {std::pair<uint64_t, double>(3, 0.25), {5, 0.125}, {9, -1}}) {
    v1::LearningRate* const set = rates.add_rates();
    set->set_iteration(iteration);
    set->set_rate(rate);
  }
  (*rules)->set_rates()->Set(rates);
  const std::vector<double> expected = {0.5, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125, 0.125, 0.125, 0.5};
  for (uint64_t i = 0; i < expected.size(); ++i) {
    CHECK(rule->LearningRate(i) == expected[i]);
    CHECK(RateAt(rates, i).value_or(0.5) == expected[i]);
  }
  (*rules)->set_rates()->Set({});
  CHECK(rule->LearningRate(4) == 0.5);
}

TEST_CASE("the rules of a layout by variable") {
  v1::Layout layout;
  for (const v1::VariableSpec& variable : Variables()) *layout.add_variables() = variable;
  layout.mutable_variables(1)->set_optimizer(1);
  const auto problem = [&layout] {
    return std::string(LayoutRules::Create(layout).status().message());
  };
  CHECK(problem() ==
        "layout: variable 'embedding/embeddings' is trainable, but there is no optimizer");
  *layout.add_optimizers() = OptimizerOf("Adagrad", {});
  CHECK(problem() == "layout: variable 'dense/kernel' has optimizer 1, and there are 1");
  *layout.add_optimizers() = OptimizerOf("SGD", {});
  const auto rules = LayoutRules::Create(layout);
  REQUIRE(rules.ok());
  CHECK((*rules)->Find(layout.variables(0))->slots().size() == 1);
  CHECK((*rules)->Find(layout.variables(1))->slots().empty());
  CHECK((*rules)->Find(layout.variables(2)) == nullptr);
}

}  // namespace
}  // namespace cohort

#include "chief/api/model.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "common/graph/program_proto.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

using Catch::Contains;

std::string ErrorText(const absl::Status& status) { return std::string(status.message()); }

int CountOps(const Program& program, std::string_view op) {
  return static_cast<int>(std::count_if(program.nodes.begin(), program.nodes.end(),
                                        [op](const Node& node) { return node.op == op; }));
}

std::vector<std::string> PushedVariables(const Program& program) {
  std::vector<std::string> names;
  for (const Push& push : program.pushes) {
    names.push_back(program.variables[static_cast<size_t>(push.variable)].name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Program Traced(absl::StatusOr<Program> program) {
  INFO(ErrorText(program.status()));
  REQUIRE(program.ok());
  return *std::move(program);
}

TEST_CASE("one function is traced for training and for evaluation") {
  VariableSet variables;
  const Model model = BuildModel(&variables, {{"Dense", {{"units", 4}, {"trainable", false}}},
                                              {"Dropout", {{"rate", 0.5}}},
                                              {"Dense", {{"units", 1}}}});
  const auto step = [&](StepTrace* step) {
    const Expr x = step->Input("x", DType::kFloat32, {3});
    const Expr y = step->Input("y", DType::kFloat32);
    const Expr prediction = model(step, x);
    step->Minimize(step->Loss({"BinaryCrossentropy", {{"from_logits", true}}}, prediction, y));
    step->Metric({"BinaryAccuracy", {{"name", "hits"}}}, Sigmoid(prediction), y);
  };
  const Program train = Traced(TraceStep("train", 8, step));
  CHECK(CountOps(train, "dropout") == 1);
  // dense is not trainable.
  CHECK(PushedVariables(train) == std::vector<std::string>{"dense_1/bias", "dense_1/kernel"});
  REQUIRE(train.metrics.size() == 2);
  CHECK(train.metrics[0].name == "loss");
  CHECK(train.metrics[1].name == "hits");
  CHECK(train.weight != kNoValue);

  const Program eval = Traced(TraceStep("eval", 8, step, StepMode::kEvaluate));
  CHECK(CountOps(eval, "dropout") == 0);
  CHECK(eval.pushes.empty());
  CHECK(eval.weight == kNoValue);
  CHECK(eval.metrics.size() == 2);
  CHECK(variables.Specs()->size() == 4);
}

// What the step makes of `loss`, by Minimize(Loss(...)) and by Minimize(loss, ...).
std::pair<absl::StatusOr<Program>, absl::StatusOr<Program>> BothWays(const KerasClass& loss,
                                                                     bool weighted) {
  const auto trace = [&](bool at_once) {
    VariableSet variables;
    const Layer dense(&variables, {"Dense", {{"units", 3}}});
    return TraceStep("train", 8, [&](StepTrace* step) {
      const Expr prediction = dense(step, step->Input("x", DType::kFloat32, {3}));
      const Expr label = step->Input("y", DType::kFloat32, {3});
      const Expr weight = weighted ? step->Input("w", DType::kFloat32) : Expr();
      if (at_once) {
        step->Minimize(loss, prediction, label, weight);
      } else {
        step->Minimize(step->Loss(loss, prediction, label, weight));
      }
      step->Metric("MeanAbsoluteError", prediction, label, weight);
    });
  };
  return {trace(false), trace(true)};
}

TEST_CASE("a step weighs its examples, and reduces their losses as Keras") {
  for (const bool weighted : {false, true}) {
    INFO(weighted);
    for (const KerasClass& loss :
         {KerasClass("MeanSquaredError"), KerasClass("mse", {{"reduction", "mean"}})}) {
      const auto [twice, once] = BothWays(loss, weighted);
      CHECK(Fingerprint(Traced(twice)) == Fingerprint(Traced(once)));
    }
    const auto [mean, mean_at_once] = BothWays("MeanSquaredError", weighted);
    for (const char* reduction : {"sum", "mean_with_sample_weight"}) {
      INFO(reduction);
      const auto [refused, made] =
          BothWays({"MeanSquaredError", {{"reduction", reduction}}}, weighted);
      CHECK_THAT(ErrorText(refused.status()), Contains("loss MeanSquaredError: `reduction`") &&
                                                  Contains("call Minimize(loss, prediction"));
      // Without weights their sum is the number of losses.
      const bool same = !weighted && std::string(reduction) != "sum";
      CHECK((Fingerprint(Traced(made)) == Fingerprint(*mean)) == same);
    }
  }
  const auto [elements, none] = BothWays({"MeanSquaredError", {{"reduction", "none"}}}, false);
  CHECK(elements.ok());
  CHECK_THAT(ErrorText(none.status()), Contains("the reduction none"));

  const auto with_weight = [](std::vector<int64_t> shape) {
    VariableSet variables;
    const Layer dense(&variables, {"Dense", {{"units", 3}}});
    return ErrorText(TraceStep("train", 8, [&](StepTrace* step) {
                       const Expr y = step->Input("y", DType::kFloat32, {3});
                       const Expr weight = step->Input("w", DType::kFloat32, shape);
                       step->Minimize(step->Loss("mse", dense(step, y), y, weight));
                     }).status());
  };
  CHECK(with_weight({}) == "");
  CHECK(with_weight({1}) == "");
  CHECK_THAT(with_weight({2}), Contains("loss mse: the sample weight is"));
}

TEST_CASE("losses of masked steps and of ignored classes are for Minimize") {
  const auto trace = [](bool at_once, bool masked) {
    VariableSet variables;
    const Layer words(&variables,
                      {"Embedding", {{"input_dim", 8}, {"output_dim", 4}, {"mask_zero", masked}}});
    const Layer dense(&variables, {"Dense", {{"units", 5}}});
    KerasClass loss = {"SparseCategoricalCrossentropy", {{"from_logits", true}}};
    if (!masked) loss.arguments.emplace("ignore_class", 2);
    return TraceStep("train", 8, [&](StepTrace* step) {
      const Expr prediction = dense(step, words(step, step->Input("x", DType::kInt64, {6})));
      const Expr label = step->Input("y", DType::kInt64, {6});
      if (at_once) {
        step->Minimize(loss, prediction, label);
      } else {
        step->Minimize(step->Loss(loss, prediction, label));
      }
    });
  };
  for (const bool masked : {false, true}) {
    CHECK_THAT(ErrorText(trace(false, masked).status()),
               Contains(masked ? "masked steps" : "`ignore_class`") && Contains("Minimize(loss"));
    CHECK(Traced(trace(true, masked)).metrics[0].name == "loss");
  }
}

TEST_CASE("a layer of a loop runs on the device that it names") {
  VariableSet variables;
  const Model model = BuildModel(&variables, {{"Dense", {{"units", 4}, {"device", "worker:1/cpu"}}},
                                              {"Dense", {{"units", 1}}}});
  const Program train = Traced(TraceStep("train", 8, [&](StepTrace* step) {
    const Expr prediction = model(step, step->Input("x", DType::kFloat32, {3}));
    step->Minimize(step->Loss("MeanSquaredError", prediction, step->Input("y", DType::kFloat32)));
  }));
  for (const Node& node : train.nodes) {
    if (node.op != "matmul") continue;
    CHECK(node.device == (node.name == "dense" ? "worker:1/cpu" : ""));
  }
  CHECK(CountOps(train, "matmul") == 5);

  VariableSet wrong;
  const Layer layer(&wrong, {"Dense", {{"units", 4}, {"device", "cud:1"}}});
  const auto refused = TraceStep("train", 8, [&](StepTrace* step) {
    step->Minimize(layer(step, step->Input("x", DType::kFloat32, {3})));
  });
  CHECK_THAT(ErrorText(refused.status()),
             Contains("layer \"dense\" (Dense)") && Contains("\"cud:1\" is not a device"));
}

TEST_CASE("calls of a layer share its variables, and mix with other expressions") {
  VariableSet variables;
  const Variable scale = variables.Add("scale", {1}, "ones");
  const Layer tower(&variables, {"Dense", {{"units", 4}, {"name", "tower"}}});
  const Layer join(&variables, "Concatenate");
  const Layer out(&variables, {"Dense", {{"units", 1}, {"activation", "sigmoid"}}});
  const Program program = Traced(TraceStep("train", 8, [&](StepTrace* step) {
    const Expr a = step->Input("a", DType::kFloat32, {3});
    const Expr b = step->Input("b", DType::kFloat32, {3});
    const Expr both = join(step, {tower(step, a), tower(step, b) * 2.0});
    const Expr prediction = out(step, both * step->Read(scale));
    step->Minimize(step->Loss("bce", prediction, step->Input("y", DType::kFloat32)));
    step->Output("prediction", prediction);
  }));
  CHECK(out.name() == "dense");
  CHECK(PushedVariables(program) == std::vector<std::string>{"dense/bias", "dense/kernel", "scale",
                                                             "tower/bias", "tower/kernel"});
  // As in Keras, the loss starts from the logits of the sigmoid.
  CHECK(CountOps(program, "sigmoid_cross_entropy") == 1);
}

TEST_CASE("errors of layers name the layer") {
  VariableSet variables;
  const Layer dense(&variables, {"Dense", {{"units", 4}}});
  const auto with = [](const std::function<Expr(StepTrace*, Expr)>& call, int64_t width) {
    return ErrorText(TraceStep("train", 8, [&](StepTrace* step) {
                       step->Output("y", call(step, step->Input("x", DType::kFloat32, {width})));
                     }).status());
  };
  CHECK(with(dense, 3) == "");
  CHECK_THAT(with(dense, 5), Contains("step 'train': ") && Contains("layer \"dense\" (Dense)") &&
                                 Contains("needs the variable dense/kernel [5, 4]") &&
                                 Contains("declared dense/kernel [3, 4]"));
  const Layer same_name(&variables, {"Dense", {{"units", 4}, {"name", "dense"}}});
  CHECK_THAT(with(same_name, 3), Contains("there is another variable \"dense/kernel\""));
  const Layer embedding(&variables, {"Embedding", {{"input_dim", 8}, {"output_dim", 2}}});
  CHECK_THAT(with([&](StepTrace* step, Expr x) { return embedding(step, dense(step, x)); }, 3),
             Contains("layer \"embedding\" (Embedding): its ids depend on weights"));
  CHECK_THAT(with(
                 [&](StepTrace* step, Expr x) {
                   return Layer(dense)(step, {x, x});
                 },
                 3),
             Contains("layer \"dense\" (Dense): it takes 1 input, not 2"));
  CHECK(variables.Specs().ok());

  const Layer misspelled(&variables, {"Dense", {{"unit", 4}}});
  CHECK_THAT(with(misspelled, 3), Contains("layer \"dense_1\" (Dense)") && Contains("\"unit\""));
  CHECK_THAT(ErrorText(variables.Specs().status()), Contains("layer \"dense_1\" (Dense)"));
  VariableSet others;
  const Layer unknown(&others, "Dens");
  CHECK_THAT(ErrorText(others.Specs().status()), Contains("Dense"));
}

TEST_CASE("a model with an Input reports errors before a step is traced") {
  VariableSet variables;
  const Model model =
      BuildModel(&variables, {{"Input", {{"shape", {4}}}}, {"Reshape", {{"target_shape", {3}}}}});
  CHECK_THAT(ErrorText(variables.Specs().status()), Contains("layer \"reshape\" (Reshape)"));
  VariableSet fitting;
  const Model dense =
      BuildModel(&fitting, {{"Input", {{"shape", {4}}}}, {"Dense", {{"units", 1}}}});
  REQUIRE(fitting.Specs().ok());
  const auto wrong = TraceStep("train", 8, [&](StepTrace* step) {
    step->Output("y", dense(step, step->Input("x", DType::kFloat32, {5})));
  });
  CHECK_THAT(ErrorText(wrong.status()), Contains("Input of the model: its shape is [4]"));
}

TEST_CASE("a loss or metric with a wrong class or shape is refused") {
  const auto with = [](const std::function<void(StepTrace*, Expr, Expr)>& add) {
    return ErrorText(TraceStep("train", 8, [&](StepTrace* step) {
                       add(step, step->Input("p", DType::kFloat32, {3}),
                           step->Input("y", DType::kFloat32, {2}));
                     }).status());
  };
  CHECK_THAT(with([](StepTrace* step, Expr p, Expr y) { step->Minimize(step->Loss("mse", p, y)); }),
             Contains("loss mse: the label is"));
  CHECK_THAT(with([](StepTrace* step, Expr p, Expr y) { step->Loss("msse", p, y); }),
             Contains("loss msse: there is no loss"));
  CHECK_THAT(with([](StepTrace* step, Expr p, Expr y) { step->Metric("BinaryAccurac", p, y); }),
             Contains("metric BinaryAccurac: ") && Contains("BinaryAccuracy"));
}

}  // namespace
}  // namespace cohort

// Models from the JSON of Keras, as a job file names them. tests/golden/keras_json_test.cc compares
// what such models learn with Keras itself.
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "common/base/json_text.h"
#include "common/model/model_builder.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

// ---------------------------------------------------------------- JSON as Keras 3 writes it

json Policy(const std::string& name) {
  return {{"module", "keras"}, {"class_name", "DTypePolicy"}, {"config", {{"name", name}}}};
}

json Layer(const std::string& class_name, const std::string& name, json config = {}) {
  config["name"] = name;
  config["trainable"] = true;
  config["dtype"] = Policy("float32");
  return {{"module", "keras.layers"}, {"class_name", class_name}, {"config", config}};
}

json Dense(const std::string& name, int units) { return Layer("Dense", name, {{"units", units}}); }

json InputLayer(const std::string& name, json shape, const std::string& dtype = "float32") {
  shape.insert(shape.begin(), nullptr);
  return {
      {"module", "keras.layers"},
      {"class_name", "InputLayer"},
      {"config", {{"name", name}, {"batch_shape", shape}, {"dtype", dtype}, {"sparse", false}}}};
}

json Tensor(const std::string& layer, int call = 0, int output = 0) {
  return {{"class_name", "__keras_tensor__"},
          {"config", {{"keras_history", {layer, call, output}}}}};
}

// A call on one tensor, or on a list of them.
json Call(json argument) { return {{"args", json::array({std::move(argument)})}, {"kwargs", {}}}; }

// A layer of a functional model.
json Called(json layer, std::initializer_list<json> calls) {
  layer["name"] = layer["config"]["name"];
  layer["inbound_nodes"] = std::vector<json>(calls);
  return layer;
}

json Sequential(const std::string& name, std::initializer_list<json> layers) {
  return {{"module", "keras"},
          {"class_name", "Sequential"},
          {"config", {{"name", name}, {"trainable", true}, {"layers", std::vector<json>(layers)}}}};
}

json Functional(const std::string& name, std::initializer_list<json> layers, json inputs,
                json outputs) {
  return {{"module", "keras.src.models.functional"},
          {"class_name", "Functional"},
          {"config",
           {{"name", name},
            {"trainable", true},
            {"layers", std::vector<json>(layers)},
            {"input_layers", std::move(inputs)},
            {"output_layers", std::move(outputs)}}}};
}

json Perceptron() {
  json model = Sequential("mlp", {InputLayer("x", {4}), Dense("hidden", 3), Dense("answer", 1)});
  model["compile_config"] = {
      {"loss", "mse"},
      {"metrics", {"accuracy"}},
      {"loss_weights", nullptr},
      {"weighted_metrics", nullptr},
      {"run_eagerly", false},
      {"optimizer",
       {{"module", "keras.optimizers"},
        {"class_name", "SGD"},
        {"config", {{"name", "sgd"}, {"learning_rate", 0.25}, {"clipnorm", nullptr}}}}}};
  return model;
}

// Two inputs go through a shared layer and through a nested model; two outputs.
json TwoTowers() {
  return Functional(
      "towers",
      {Called(InputLayer("a", {4}), {}), Called(InputLayer("b", {4}), {}),
       Called(Dense("shared", 4), {Call(Tensor("a")), Call(Tensor("b"))}),
       Called(Sequential("inner", {InputLayer("c", {4}), Dense("first", 2), Dense("last", 2)}),
              {Call(Tensor("shared", 0)), Call(Tensor("shared", 1))}),
       Called(Layer("Add", "add"), {Call({Tensor("inner", 0), Tensor("inner", 1)})}),
       Called(Dense("left", 1), {Call(Tensor("add"))}),
       Called(Dense("right", 1), {Call(Tensor("add"))})},
      {{"a", 0, 0}, {"b", 0, 0}}, {{"left", 0, 0}, {"right", 0, 0}});
}

// A model with a nested one of this class, which has two outputs.
json NestedPair() {
  const json inner =
      Functional("inner",
                 {Called(InputLayer("i", {4}), {}), Called(Dense("u", 1), {Call(Tensor("i"))}),
                  Called(Dense("v", 1), {Call(Tensor("i"))})},
                 {"i", 0, 0}, {{"u", 0, 0}, {"v", 0, 0}});
  return Functional("outer", {Called(InputLayer("a", {4}), {}), Called(inner, {Call(Tensor("a"))})},
                    {{"a", 0, 0}}, {{"inner", 1, 0}, {"inner", 1, 1}});
}

// ---------------------------------------------------------------- jobs

// Reads a job with this model. `model` and `rest` are YAML: keys of `model` beside keras_json, and
// of the job.
absl::StatusOr<JobFile> Read(const std::string& text, const std::string& rest = "",
                             const std::string& model = "") {
  const testing::TestDirectory directory;
  std::ofstream(directory / "model.json") << text;
  const std::string yaml = fmt::format(
      "model: {{keras_json: model.json{}}}\n{}\n"
      "data: {{train: {{csv: {{path: a}}, label: {}}}}}\n",
      model.empty() ? "" : ", " + model, rest,
      text.find("right") == std::string::npos ? "y" : "{left: y, right: z}");
  auto job = ParseJob(yaml, directory / "job.yaml");
  if (job.ok()) return job;
  // The path of the directory differs in each run.
  std::string message(job.status().message());
  for (size_t at; (at = message.find(directory.path() + "/")) != std::string::npos;) {
    message.erase(at, directory.path().size() + 1);
  }
  return absl::Status(job.status().code(), message);
}

JobFile MustRead(const json& model, const std::string& rest = "compile: {loss: mse}",
                 const std::string& keys = "") {
  auto job = Read(model.dump(), rest, keys);
  INFO(job.status().message());
  REQUIRE(job.ok());
  return *std::move(job);
}

std::string ErrorOf(const json& model, const std::string& rest = "compile: {loss: mse}") {
  return std::string(Read(model.dump(), rest).status().message());
}

Names LayerNames(const JobFile& job) {
  Names names;
  for (const v1::LayerSpec& layer : job.spec.model().layers()) names.push_back(layer.name());
  return names;
}

const std::vector<FeatureType> kFeatures = {{"a", DType::kFloat32, {4}},
                                            {"b", DType::kFloat32, {4}},
                                            {"y", DType::kFloat32, {}},
                                            {"z", DType::kFloat32, {}}};

TEST_CASE("a sequential model, and what it was compiled with") {
  const JobFile job = MustRead(Perceptron(), "");
  CHECK(job.spec.model().name() == "mlp");
  CHECK(job.spec.model().dtype() == "float32");
  CHECK(LayerNames(job) == Names{"x", "hidden", "answer"});
  CHECK(job.spec.model().layers(1).inputs().empty());
  CHECK(job.spec.compile().loss_class().class_name() == "MeanSquaredError");
  CHECK(job.spec.compile().metric_classes(0).name() == "accuracy");
  const v1::ClassConfig& optimizer = job.spec.compile().optimizer_class();
  CHECK(optimizer.class_name() == "SGD");
  CHECK(optimizer.config().at("learning_rate").f() == 0.25);
}

TEST_CASE("metric objects in the file, as Keras 3 writes them") {
  json model = Perceptron();
  model["compile_config"]["metrics"] = {{{"module", "keras.metrics"},
                                         {"class_name", "MeanSquaredError"},
                                         {"config", {{"name", "square"}, {"dtype", "float32"}}},
                                         {"registered_name", nullptr}}};
  const JobFile job = MustRead(model, "");
  REQUIRE(job.spec.compile().metric_classes_size() == 1);
  CHECK(job.spec.compile().metric_classes(0).name() == "square");
}

TEST_CASE("weighted metrics have names of their own, as in Keras") {
  json model = Perceptron();
  model["compile_config"]["weighted_metrics"] = {"accuracy", "mae"};
  const JobFile job = MustRead(model, "");
  const auto& metrics = job.spec.compile().metric_classes();
  REQUIRE(metrics.size() == 3);
  CHECK(metrics[1].name() == "weighted_accuracy");
  CHECK(metrics[2].name() == "mae");
  CHECK(!metrics[0].weighted());
  CHECK(metrics[2].weighted());
}

TEST_CASE("each key of compile in the job replaces one of the file") {
  const JobFile job = MustRead(Perceptron(), "compile: {loss: mae, metrics: []}");
  CHECK(job.spec.compile().loss_class().class_name() == "MeanAbsoluteError");
  CHECK(job.spec.compile().metric_classes().empty());
  CHECK(job.spec.compile().optimizer_class().class_name() == "SGD");
  // What is replaced is not read.
  json model = Perceptron();
  model["compile_config"]["loss"] = "ctc";
  model["compile_config"]["optimizer"]["class_name"] = "Lamb";
  CHECK(MustRead(model, "compile: {loss: mse, optimizer: adam}")
            .spec.compile()
            .optimizer_class()
            .class_name() == "Adam");
  CHECK(MustRead(Perceptron(), "", "name: other, dtype: float64").spec.model().dtype() ==
        "float64");
}

TEST_CASE("arguments of another version of Keras may be None, also those of initializers") {
  json model = Perceptron();
  json& config = model["config"]["layers"][1]["config"];
  config["to_come"] = nullptr;
  config["kernel_initializer"] = {{"module", "keras.initializers"},
                                  {"class_name", "GlorotUniform"},
                                  {"config", {{"seed", 5}, {"input_axes", nullptr}}}};
  const JobFile job = MustRead(model);
  const v1::ClassConfig& initializer =
      job.spec.model().layers(1).config().at("kernel_initializer").object();
  CHECK(initializer.config().at("seed").i() == 5);
  CHECK(initializer.config().size() == 3);
  config["to_come"] = 1;
  CHECK_THAT(ErrorOf(model), Catch::Contains("Dense has no argument \"to_come\""));
}

// A recurrent layer as Keras writes it, also inside of another one.
json Recurrent(const std::string& class_name, const std::string& name, json config) {
  config["return_sequences"] = true;
  config["activity_regularizer"] = nullptr;
  config["kernel_constraint"] = nullptr;
  return Layer(class_name, name, std::move(config));
}

TEST_CASE("recurrent layers have variables by the names of their layers and cells") {
  json backward = Recurrent("LSTM", "backward_words", {{"units", 3}, {"go_backwards", true}});
  json cells = {Layer("LSTMCell", "lstm_cell", {{"units", 2}}),
                Layer("GRUCell", "gru_cell", {{"units", 2}, {"kernel_constraint", nullptr}})};
  const json stack = Layer("StackedRNNCells", "stacked", {{"cells", cells}});
  json both = Layer("Bidirectional", "both",
                    {{"layer", Recurrent("LSTM", "forward_words", {{"units", 3}})},
                     {"backward_layer", backward},
                     {"merge_mode", "sum"}});
  json model = Sequential("text", {InputLayer("a", {4, 5}), both,
                                   Layer("RNN", "rnn", {{"cell", stack}}), Dense("answer", 1)});
  const std::vector<FeatureType> features = {{"a", DType::kFloat32, {4, 5}},
                                             {"y", DType::kFloat32, {}}};
  const JobFile job = MustRead(model);
  const auto built = BuildModel(job.spec, features, &job.lines);
  REQUIRE(built.status().message() == "");
  Names names;
  for (const v1::VariableSpec& variable : built->variables) {
    if (variable.name().ends_with("recurrent_kernel")) names.push_back(variable.name());
  }
  CHECK(names == Names{"both/forward_words/lstm_cell/recurrent_kernel",
                       "both/backward_words/lstm_cell/recurrent_kernel",
                       "rnn/stacked/lstm_cell/recurrent_kernel",
                       "rnn/stacked/gru_cell/recurrent_kernel"});
  // Null is a choice of its own.
  json& config = model["config"]["layers"][1]["config"];
  config["merge_mode"] = nullptr;
  const JobFile apart = MustRead(model);
  CHECK(apart.spec.model().layers(1).config().at("merge_mode").s() == "none");
  config["merge_mode"] = "sum";
  config["layer"]["config"]["recurrent_constraint"] = {{"class_name", "MaxNorm"},
                                                       {"config", json::object()}};
  const JobFile constrained = MustRead(model);
  const auto with_norm = BuildModel(constrained.spec, features, nullptr);
  REQUIRE(with_norm.status().message() == "");
  for (const v1::VariableSpec& variable : with_norm->variables) {
    INFO(variable.name());
    CHECK(variable.constraint().class_name() ==
          (variable.name() == "both/forward_words/lstm_cell/recurrent_kernel" ? "MaxNorm" : ""));
  }
  config["layer"]["config"]["time_major"] = true;
  CHECK_THAT(ErrorOf(model), Catch::Contains("`time_major` of LSTM is not supported yet"));
}

TEST_CASE("the input of a sequential model under all of its names") {
  const auto shape_of = [](const json& model) {
    const JobFile job = MustRead(model);
    const v1::LayerSpec& input = job.spec.model().layers(0);
    CHECK(input.class_name() == "Input");
    std::vector<int64_t> shape;
    for (const auto& size : input.config().at("shape").list().values()) shape.push_back(size.i());
    return shape;
  };
  const std::vector<int64_t> kShape = {4, 2};
  json model = Sequential("s", {InputLayer("x", kShape), Dense("d", 1)});
  CHECK(shape_of(model) == kShape);
  json& config = model["config"]["layers"][0]["config"];
  config["batch_input_shape"] = config["batch_shape"];
  config.erase("batch_shape");
  CHECK(shape_of(model) == kShape);
  config["shape"] = kShape;
  config.erase("batch_input_shape");
  CHECK(shape_of(model) == kShape);

  model = Sequential("s", {Dense("d", 1)});
  CHECK(shape_of(model).empty());  // that of the column
  model["config"]["build_input_shape"] = {nullptr, 4, 2};
  CHECK(shape_of(model) == kShape);
  model["config"].erase("build_input_shape");
  model["build_config"]["input_shape"] = {nullptr, 4, 2};
  CHECK(shape_of(model) == kShape);
  model.erase("build_config");
  model["config"]["layers"][0]["config"]["batch_input_shape"] = {nullptr, 4, 2};
  CHECK(shape_of(model) == kShape);
  model["config"]["layers"][0]["config"]["batch_input_shape"] = {nullptr, nullptr, 2};
  CHECK(shape_of(model).empty());
}

TEST_CASE("shared layers and nested models become one list of layers") {
  const JobFile job = MustRead(TwoTowers());
  CHECK(LayerNames(job) == Names{"a", "b", "shared", "shared:1", "inner/first", "inner/last",
                                 "inner/first:1", "inner/last:1", "add", "left", "right"});
  const v1::ModelSpec& model = job.spec.model();
  CHECK(model.layers(3).shares() == "shared");
  CHECK(model.layers(3).inputs(0) == "b");
  CHECK(model.layers(6).shares() == "inner/first");
  CHECK(model.layers(6).inputs(0) == "shared:1");
  CHECK(model.outputs_size() == 2);
  CHECK(model.output_names().empty());

  const auto built = BuildModel(job.spec, kFeatures, &job.lines);
  INFO(built.status().message());
  REQUIRE(built.ok());
  Names variables;
  for (const auto& variable : built->variables) variables.push_back(variable.name());
  CHECK(variables == Names{"shared/kernel", "shared/bias", "inner/first/kernel", "inner/first/bias",
                           "inner/last/kernel", "inner/last/bias", "left/kernel", "left/bias",
                           "right/kernel", "right/bias"});
  CHECK(built->summary.params == 4 * 4 + 4 + 4 * 2 + 2 + 2 * 2 + 2 + 2 * (2 + 1));
  CHECK(built->features == Names{"a", "b", "y", "z"});
}

TEST_CASE("layers of nested models and further calls run on devices that the job names") {
  JobFile job = MustRead(TwoTowers());
  v1::DeviceChoice* const inner = job.spec.mutable_model()->add_devices();
  inner->set_layers("inner/first");
  inner->set_device("cuda:1");
  v1::DeviceChoice* const call = job.spec.mutable_model()->add_devices();
  call->set_layers("shared:1");
  call->set_device("worker:1/cpu:0");
  const auto built = BuildModel(job.spec, kFeatures, &job.lines);
  INFO(built.status().message());
  REQUIRE(built.ok());
  std::map<std::string, std::string> devices;
  for (const auto& row : built->summary.rows) devices[row.name] = row.device;
  CHECK(devices.at("inner/first") == "cuda:1");
  CHECK(devices.at("inner/first:1") == "cuda:1");  // a further call is where the first one is
  CHECK(devices.at("shared:1") == "worker:1/cpu:0");
  CHECK(devices.at("shared").empty());
  for (const Node& node : built->train.nodes) {
    if (node.op == "matmul") CHECK(node.device == devices.at(node.name));
  }
}

TEST_CASE("outputs of a nested model have the names of Keras") {
  const std::string rest = "compile: {loss: {inner: mse, inner_1: mae}}";
  json model = NestedPair();
  const auto names = [&](const json& m, const std::string& compile) {
    const JobFile job = MustRead(m, compile);
    CHECK(Names(job.spec.model().outputs().begin(), job.spec.model().outputs().end()) ==
          Names{"inner/u", "inner/v"});
    return Names(job.spec.model().output_names().begin(), job.spec.model().output_names().end());
  };
  CHECK(names(model, rest) == Names{"inner", "inner_1"});
  model["config"]["output_layers"] = {{"p", {"inner", 1, 0}}, {"q", {"inner", 1, 1}}};
  CHECK(names(model, "compile: {loss: {p: mse, q: mae}}") == Names{"p", "q"});
}

TEST_CASE("the names of a mapping of inputs are columns") {
  json model = NestedPair();
  model["config"]["input_layers"] = {{"column", {"a", 0, 0}}};
  CHECK(MustRead(model).spec.model().layers(0).config().at("feature").s() == "column");
}

TEST_CASE("calls as tf_keras writes them") {
  json model = TwoTowers();
  model["keras_version"] = "2.15.0";
  for (json& layer : model["config"]["layers"]) {
    layer.erase("module");
    if (layer["config"].contains("dtype")) layer["config"]["dtype"] = "float32";
  }
  json& layers = model["config"]["layers"];
  layers[2]["inbound_nodes"] = {{{"a", 0, 0, json::object()}}, {{"b", 0, 0, json::object()}}};
  layers[3]["inbound_nodes"] = {{{"shared", 0, 0, json::object()}},
                                {{"shared", 1, 0, {{"mask", nullptr}}}}};
  // A nested model counts its own call, from its Input to its output.
  layers[4]["inbound_nodes"] =
      json::array({{{"inner", 1, 0, json::object()}, {"inner", 2, 0, json::object()}}});
  layers[5]["inbound_nodes"] = json::array({{{"add", 0, 0, json::object()}}});
  layers[6]["inbound_nodes"] = json::array({{{"add", 0, 0, json::object()}}});
  CHECK(LayerNames(MustRead(model)) == LayerNames(MustRead(TwoTowers())));
}

TEST_CASE("several outputs: losses, weights and metrics by output") {
  json model = TwoTowers();
  model["compile_config"] = {{"loss", {{"left", "mse"}, {"right", "binary_crossentropy"}}},
                             {"loss_weights", {1.0, 0.5}},
                             {"metrics", {{"right", {"accuracy"}}}}};
  const JobFile job = MustRead(model, "");
  const v1::CompileSpec& compile = job.spec.compile();
  REQUIRE(compile.losses_size() == 2);
  CHECK(compile.losses(1).output() == "right");
  CHECK(compile.losses(1).loss_class().class_name() == "BinaryCrossentropy");
  CHECK(compile.losses(1).weight() == 0.5);
  REQUIRE(compile.metric_classes_size() == 1);
  CHECK(compile.metric_classes(0).name() == "right_accuracy");
  const auto built = BuildModel(job.spec, kFeatures, &job.lines);
  REQUIRE(built.ok());
  Names metrics;
  for (const auto& metric : built->train.metrics) metrics.push_back(metric.name);
  CHECK(metrics == Names{"loss", "left_loss", "right_loss", "right_accuracy"});

  const JobFile other = MustRead(model, "compile: {loss_weights: {left: 3}, loss: [mae, mae]}");
  CHECK(other.spec.compile().losses(0).weight() == 3);
  CHECK(other.spec.compile().losses(1).weight() == 1);
  CHECK(other.spec.compile().losses(0).loss_class().class_name() == "MeanAbsoluteError");
}

TEST_CASE("layers of a frozen model are frozen; what leads to no output is left out") {
  json model = TwoTowers();
  model["config"]["layers"][3]["config"]["trainable"] = false;
  model["config"]["output_layers"] = {"left", 0, 0};
  auto job = Read(model.dump(), "compile: {loss: mse}");
  CHECK_THAT(std::string(job.status().message()),
             Catch::Contains("the model has no output \"right\"; its outputs are left"));
  std::string text = model.dump();
  for (size_t at; (at = text.find("right")) != std::string::npos;) text.replace(at, 5, "other");
  job = Read(text, "compile: {loss: mse}");
  REQUIRE(job.status().message() == "");
  CHECK(LayerNames(*job).back() == "left");
  const auto frozen = [&](int i) {
    return !job->spec.model().layers(i).config().at("trainable").b();
  };
  CHECK(!frozen(2));
  CHECK(frozen(4));
  CHECK(frozen(5));
}

// ---------------------------------------------------------------- errors

TEST_CASE("an error names the layer and the models around it") {
  const auto with = [](json model, const std::string& pointer, const json& value) {
    model[json::json_pointer(pointer)] = value;
    return ErrorOf(model);
  };
  const json towers = TwoTowers();
  const struct {
    const char* pointer;
    json value;
    const char* error;
  } kCases[] = {
      {"/config/layers/2/class_name", "StackedDense",
       "model.json: layers[2] \"shared\" (StackedDense): there is no layer \"StackedDense\"; "},
      {"/config/layers/3/config/layers/1/class_name", "StackedDense",
       "model.json: \"inner\" > layers[1] \"first\" (StackedDense): there is no layer "},
      {"/config/layers/4/class_name", "TFOpLambda",
       "layers[4] \"add\" (TFOpLambda): the function tf. on tensors is not supported; use a layer"},
      {"/config/layers/4",
       {{"class_name", "TFOpLambda"},
        {"name", "shape"},
        {"config", {{"function", "compat.v1.shape"}}},
        {"inbound_nodes", json::array()}},
       "layers[4] \"shape\" (TFOpLambda): the function tf.compat.v1.shape on tensors is not "
       "supported; write -1 for the batch in tf.reshape"},
      {"/config/layers/4",
       {{"class_name", "TFOpLambda"},
        {"name", "sum"},
        {"config", {{"function", "math.cumsum"}}},
        {"inbound_nodes", {{"left", 0, 0, {{"reverse", true}}}}}},
       "the argument `reverse` of its call is not supported"},
      {"/config/layers/2/config/lora_rank", 4,
       "layers[2] \"shared\" (Dense): `lora_rank` of Dense is not supported yet"},
      {"/config/layers/2/config/unit", 3,
       "layers[2] \"shared\" (Dense): Dense has no argument \"unit\"; it has units, "},
      {"/config/layers/2/config/units", "many", "Dense: units must be an integer, not \"many\""},
      {"/config/layers/2/config/activation", "gelo", "there is no activation \"gelo\""},
      {"/config/layers/2/config/dtype", Policy("mixed_float16"),
       "the dtype policy \"mixed_float16\" is not supported yet; supported: float32, float64"},
      {"/config/layers/5/config/dtype", Policy("float64"),
       "layers[5] \"left\" (Dense): its dtype is float64, and that of layers before it float32"},
      {"/config/layers/4/module", "keras.src.ops.numpy",
       "layers[4] \"add\" (Add): ops.add has no argument"},
      {"/config/layers/4/class_name", "Lambda", "a Lambda layer holds Python code"},
      {"/config/layers/2/module", "mine",
       "custom classes are not supported yet: Dense is of "
       "the module \"mine\""},
      {"/config/layers/0/config/batch_shape/0", 32, "a fixed batch size is not supported yet"},
      {"/config/layers/0/config/batch_shape",
       {nullptr},
       "an input without an axis is not supported yet"},
      {"/config/layers/0/config/sparse", true, "`sparse` of Input is not supported yet"},
      {"/config/layers/2/inbound_nodes/0/kwargs/states", Tensor("a"),
       "layers[2] \"shared\" (Dense): the argument `states` of a call is not supported yet"},
      {"/config/layers/4/inbound_nodes/0/args/1", 2.0,
       "2.0 as the argument of a call is not supported yet"},
      {"/config/layers/2/inbound_nodes/0/args/0/config/keras_history/0", "nobody",
       "layers[2] \"shared\" (Dense): there is no layer \"nobody\""},
      {"/config/layers/2/inbound_nodes/0/args/0/config/keras_history/1", 7,
       "the layer \"a\" has no call 7"},
      {"/config/layers/3/inbound_nodes/0/args/0/config/keras_history/2", 1,
       "the layer \"shared\" has no output 1"},
      {"/config/layers/2/inbound_nodes/0/args/0/config/keras_history/0", "add",
       "layers[2] \"shared\" (Dense): its input depends on its output"},
      {"/config/layers/3/inbound_nodes/0/args/0",
       {Tensor("a"), Tensor("b")},
       "layers[3] \"inner\" (Sequential): it has 1 inputs, and is called on 2"},
      {"/config/layers/6/name", "left", "there is another layer of this name"},
      {"/config/layers/2/inbound_nodes", nullptr, "it has no \"inbound_nodes\""},
      {"/config/layers", json::array(), "model.json: the model \"towers\" has no layers"},
      {"/config/layers/1", 3, "model.json: layers[1] is no layer: it needs \"class_name\""},
      {"/config/output_layers", nullptr, "model.json: output_layers is missing"},
      {"/config/input_layers", {{"left", 0, 0}}, "it is no InputLayer, but an input"},
      {"/config/output_layers", "left", "output_layers: \"left\" is no reference to a layer"},
      {"/class_name", "Dense", "is no model of Keras: model.to_json() writes"},
  };
  for (const auto& c : kCases) {
    INFO(c.pointer);
    CHECK_THAT(with(towers, c.pointer, c.value), Catch::Contains(c.error));
  }
}

TEST_CASE("a layer that two models share is refused") {
  json model = TwoTowers();
  model["config"]["layers"][2]["shared_object_id"] = 7;
  model["config"]["layers"][3]["config"]["layers"][1]["shared_object_id"] = 7;
  CHECK(ErrorOf(model) ==
        "model.json: \"inner\" > layers[1] \"first\" (Dense): a layer that two models "
        "share is not supported yet");
}

TEST_CASE("errors in what the model was compiled with") {
  const auto with = [](const std::string& pointer, const json& value) {
    json model = Perceptron();
    model["compile_config"][json::json_pointer(pointer)] = value;
    return ErrorOf(model, "");
  };
  CHECK_THAT(with("/loss", "ctc"),
             Catch::Contains("model.json: compile_config.loss: loss \"ctc\" is not supported yet"));
  CHECK_THAT(with("/loss", json::array()),
             Catch::Contains("it has 0 items, and the model 1 outputs"));
  CHECK_THAT(with("/loss", {{"nobody", "mse"}}),
             Catch::Contains("the model has no output \"nobody\"; it has answer"));
  CHECK_THAT(with("/metrics/0", "mean"), Catch::Contains("compile_config.metrics: "));
  CHECK_THAT(with("/weighted_metrics", {"nothing"}),
             Catch::Contains("compile_config.weighted_metrics: there is no metric"));
  CHECK_THAT(
      with("/optimizer/config/loss_scale_factor", 8.0),
      Catch::Contains("compile_config.optimizer: `loss_scale_factor` of SGD is not supported"));
  CHECK_THAT(with("/optimizer/config/learning_rate", {{"module", "keras.optimizers.schedules"},
                                                      {"class_name", "ExponentialDecay"},
                                                      {"config", {{"decay_rate", 0.9}}}}),
             Catch::Contains("SGD: ExponentialDecay needs its argument"));
}

TEST_CASE("MultiOptimizer becomes optimizers of patterns of names") {
  const auto optimizer = [](const std::string& name, double rate) {
    return json{{"module", "keras.optimizers"},
                {"class_name", name},
                {"config", {{"name", "any"}, {"learning_rate", rate}}}};
  };
  // As Keras 3.15 writes it.
  json map = {{"module", "keras.optimizers"},
              {"class_name", "OptimizerMap"},
              {"config",
               {{"default_optimizer", optimizer("Adagrad", 0.05)},
                {"optimizer_map",
                 {{"mlp/(hidden|wide)/.*", optimizer("Ftrl", 0.5)},
                  {"mlp/answer/bias", optimizer("SGD", 0.25)},
                  {"answer/k[a-f]rnel\\.?", optimizer("SGD", 0.125)}}}}},
              {"registered_name", nullptr}};
  json model = Perceptron();
  model["compile_config"]["optimizer"] = {
      {"module", "keras.optimizers"},
      {"class_name", "MultiOptimizer"},
      {"config", {{"optimizer_map", map}, {"loss_scale_factor", nullptr}, {"name", "multi"}}}};
  CHECK_THAT(
      ErrorOf(model, ""),
      Catch::Contains("compile_config.optimizer: the regular expression \"answer/k[a-f]rnel") &&
          Catch::Contains("has a part at character 20 that"));
  json& names =
      model["compile_config"]["optimizer"]["config"]["optimizer_map"]["config"]["optimizer_map"];
  names.erase("answer/k[a-f]rnel\\.?");
  names["answer/k[a-f]rnel"] = optimizer("SGD", 0.125);
  const JobFile job = MustRead(model, "");
  const v1::CompileSpec& compile = job.spec.compile();
  CHECK(!compile.has_optimizer_class());
  std::vector<std::string> choices;
  for (const v1::OptimizerChoice& choice : compile.optimizers()) {
    choices.push_back(choice.variables() + " " + choice.optimizer_class().class_name());
  }
  CHECK(choices == std::vector<std::string>{"answer/bias SGD", "answer/k[a-f]rnel SGD",
                                            "hidden/* Ftrl", "wide/* Ftrl", "* Adagrad"});
  map = {{"module", "builtins"}, {"class_name", "function"}, {"config", "f"}};
  model["compile_config"]["optimizer"]["config"]["optimizer_map"] = map;
  CHECK_THAT(ErrorOf(model, ""), Catch::Contains("functions of Python that choose an optimizer"));
}

TEST_CASE("files that are no models") {
  const auto error = [](const std::string& text) {
    return std::string(Read(text, "compile: {loss: mse}").status().message());
  };
  CHECK_THAT(error(""), Catch::StartsWith("job.yaml:1: model.json: not JSON: line 1, column 1: "));
  CHECK_THAT(error("{\"a\": 1,\n  oops}"),
             Catch::StartsWith("job.yaml:1: model.json: not JSON: line 2, column 3"));
  CHECK_THAT(error("[]"), Catch::Contains("is no model of Keras"));
  CHECK_THAT(error(std::string(100'000, '[')), Catch::Contains("nested more than 200 deep"));
  const auto job = ParseJob("model: {keras_json: nobody.json}", "job.yaml");
  CHECK(job.status().message() ==
        "job.yaml:1: nobody.json: cannot be opened: No such file or directory");
}

// A model that calls a model twice, which calls a model twice ...
TEST_CASE("nested models that multiply are refused") {
  json model = Sequential("s0", {InputLayer("x", {4}), Dense("d", 4)});
  for (int i = 1; i < 30; ++i) {
    const std::string inner = fmt::format("s{}", i - 1);
    model = Functional(fmt::format("s{}", i),
                       {Called(InputLayer("x", {4}), {}),
                        Called(model, {Call(Tensor("x")), Call(Tensor(inner, 0))})},
                       {{"x", 0, 0}}, {inner, i == 1 ? 1 : 2, 0});
  }
  CHECK_THAT(ErrorOf(model), Catch::Contains("the model has more than 50000 calls of layers"));
}

}  // namespace
}  // namespace cohort

#include "common/model/job_file.h"

#include <catch2/catch.hpp>
#include <random>

#include "common/model/job_test_text.h"
#include "common/testing/test_directory.h"

namespace cohort {
namespace {

TEST_CASE("a job with its defaults") {
  const auto job = ParseJob(kJobText, "job.yaml");
  REQUIRE(job.status().message() == "");
  const v1::JobSpec& spec = job->spec;
  CHECK(spec.name() == "demo");
  REQUIRE(spec.model().layers_size() == 4);
  CHECK(spec.model().layers(1).class_name() == "Dense");
  CHECK(spec.model().layers(1).units() == 8);
  CHECK(spec.compile().optimizer().class_name() == "Adam");
  CHECK(spec.compile().optimizer().config().at("learning_rate") == 0.01);
  CHECK(spec.data().visitation() == v1::EXACTLY_ONCE);
  CHECK(spec.data().train().shuffle());
  CHECK(spec.data().train().prefetch() == 2);
  CHECK(spec.data().train().csv().delimiter() == ",");
  CHECK(spec.strategy().mode() == "async");
  CHECK(spec.strategy().partitioner().num_shards() == 2);
  CHECK(spec.strategy().closure_timeout_s() == 600);
  CHECK(spec.checkpoint().every_epochs() == 1);
  CHECK(job->lines.Where("model.layers[1].units") == "job.yaml:5");
  CHECK(job->lines.Where("model.layers[9].units") == "job.yaml:2");
  CHECK(job->lines.Where("nowhere") == "job.yaml:1");
}

TEST_CASE("a validation set is other rows of the training set's, unshuffled") {
  const auto job = ParseJob(kJobText, "job.yaml");
  REQUIRE(job.ok());
  const v1::DatasetSpec& validation = job->spec.data().validation();
  CHECK(validation.csv().path() == "a.csv");
  CHECK(validation.skip() == 100);
  CHECK(validation.label() == "y");
  CHECK(validation.transforms_size() == 1);
  CHECK_FALSE(validation.shuffle());
}

TEST_CASE("what the user writes is not taken for a default") {
  const auto job = ParseJob(
      With("{path: a.csv}", "{path: a.csv}\n    prefetch: 0\n    shuffle: false"), "job.yaml");
  REQUIRE(job.ok());
  CHECK(job->spec.data().train().prefetch() == 0);
  CHECK_FALSE(job->spec.data().train().shuffle());
}

TEST_CASE("the forms of optimizers, losses and initializers") {
  const struct {
    const char* from;
    const char* to;
    std::string_view class_name;
  } optimizers[] = {
      {"{Adam: {learning_rate: 0.01}}", "adam", "Adam"},
      {"{Adam: {learning_rate: 0.01}}", "RMSprop", "RMSprop"},
      {"{Adam: {learning_rate: 0.01}}", "{sgd: {nesterov: true, sparse_update: lazy}}", "SGD"},
      {"{Adam: {learning_rate: 0.01}}", "{class_name: SGD, config: {momentum: 0.9}}", "SGD"},
      {"{Adam: {learning_rate: 0.01}}", "", "RMSprop"},
  };
  for (const auto& c : optimizers) {
    const auto job = ParseJob(With(c.from, c.to), "job.yaml");
    INFO(c.to);
    REQUIRE(job.status().message() == "");
    CHECK(job->spec.compile().optimizer().class_name() == c.class_name);
  }
  const auto loss = ParseJob(
      With("binary_crossentropy", "{BinaryCrossentropy: {from_logits: true}}"), "job.yaml");
  REQUIRE(loss.ok());
  CHECK(loss->spec.compile().from_logits());
  const auto lazy = ParseJob(
      With("{learning_rate: 0.01}", "{learning_rate: 1, sparse_update: lazy}"), "job.yaml");
  REQUIRE(lazy.ok());
  CHECK(lazy->spec.compile().optimizer().sparse_update() == "lazy");
  const auto dense = ParseJob(
      With("units: 8,", "units: 8, use_bias: false, kernel_initializer: {uniform: {minval: -1}},"),
      "job.yaml");
  REQUIRE(dense.ok());
  CHECK(dense->spec.model().layers(1).no_bias());
  CHECK(dense->spec.model().layers(1).kernel_initializer().class_name() == "RandomUniform");
  CHECK(dense->spec.model().layers(1).kernel_initializer().config().at("minval") == -1);
}

struct Case {
  std::string_view from;  // a part of the job in job_test_text.h
  std::string_view to;
  std::string_view message;
};

// Each is one slip in a good file, and the whole message that its writer gets.
const Case kCases[] = {
    // Keys.
    {"name: demo", "nmae: demo",
     "job.yaml:1: unknown key \"nmae\" in the job; did you mean \"name\"?"},
    {"units: 8", "unitss: 8",
     "job.yaml:5: unknown key \"unitss\" in `Dense`; did you mean \"units\"?"},
    {"{rate: 0.5}", "{rate: 0.5, units: 3}",
     "job.yaml:6: unknown key \"units\" in `Dropout`; its keys are rate, seed, name, inputs"},
    {"  batch_size: 16", "  batch: 16",
     "job.yaml:13: unknown key \"batch\" in `data`; its keys are train, validation, visitation, "
     "batch_size, block_size"},
    {"dtype: float32}", "dtyp: float32}",
     "job.yaml:17: unknown key \"dtyp\" in `data.train.transforms[0]`; did you mean \"dtype\"?"},
    {"sequential:", "sequentail:",
     "job.yaml:3: unknown key \"sequentail\" in `model`; did you mean \"sequential\"?"},
    {"learning_rate: 0.01", "learning_rat: 0.01",
     "job.yaml:10: Adam has no argument \"learning_rat\"; it has learning_rate, beta_1, beta_2, "
     "epsilon, amsgrad, weight_decay; did you mean \"learning_rate\"?"},
    {"num_shards: 2", "shards: 2",
     "job.yaml:23: unknown key \"shards\" in `FixedShards`; its keys are num_shards"},
    {"{epochs: 2}", "{epochs: 2, epochs: 3}",
     "job.yaml:20: key \"epochs\" is given twice in `fit`"},
    {"{epochs: 2}", "{[a]: 2}", "job.yaml:20: a key in `fit` must be text, not a list"},
    {"sequential:", "keras_json: x\n  sequential:",
     "job.yaml:3: models from keras_json are not supported yet; write the layers under sequential "
     "or functional"},
    // Types.
    {"units: 8", "units: eight",
     "job.yaml:5: `model.layers[1].units` must be an integer, not \"eight\""},
    {"units: 8", "units: \"8\"",
     "job.yaml:5: `model.layers[1].units` must be an integer, not \"8\""},
    {"units: 8", "units: 8.5",
     "job.yaml:5: `model.layers[1].units` must be an integer, not \"8.5\""},
    {"units: 8", "units: 99999999999999999999",
     "job.yaml:5: `model.layers[1].units` must be an integer, not \"99999999999999999999\""},
    {"rate: 0.5", "rate: [1]", "job.yaml:6: `model.layers[2].rate` must be a number, not a list"},
    {"rate: 0.5", "rate: .nan",
     "job.yaml:6: `model.layers[2].rate` must be a number, not \".nan\""},
    {"batch_size: 16", "batch_size: -1", "job.yaml:13: `data.batch_size` must not be negative: -1"},
    {"batch_size: 16", "batch_size: 5000000000",
     "job.yaml:13: `data.batch_size` is too large: 5000000000"},
    {"metrics: [accuracy]", "metrics: accuracy",
     "job.yaml:11: `compile.metrics` must be a list, not \"accuracy\""},
    {"{skip: 100}", "{skip: 100, shuffle: maybe}",
     "job.yaml:19: `data.validation.shuffle` must be true or false, not \"maybe\""},
    {"{epochs: 2}", "7", "job.yaml:20: `fit` must be a mapping of keys, not \"7\""},
    {"  batch_size: 16", "  visitation: sometimes",
     "job.yaml:13: `data.visitation` must be one of independent, exactly_once, not \"sometimes\""},
    {"learning_rate: 0.01", "learning_rate: {ExponentialDecay: 1}",
     "job.yaml:10: `compile.optimizer.learning_rate` must be a number, not a mapping"},
    {"activation: relu", "use_bias: 1", "job.yaml:5: `use_bias` must be true or false, not \"1\""},
    // Names.
    {"- Dropout: {rate: 0.5}", "- Add",
     "job.yaml:6: layer \"Add\" is not supported yet; supported: Activation, Concatenate, Dense, "
     "Dropout, "
     "Embedding, Flatten, GlobalAveragePooling1D, Input, Reshape"},
    {"- Dropout: {rate: 0.5}", "- Conv2D: {filters: 32, kernel_size: 3}",
     "job.yaml:6: layer \"Conv2D\" is not supported yet; supported: Activation, Concatenate, "
     "Dense, "
     "Dropout, Embedding, Flatten, GlobalAveragePooling1D, Input, Reshape"},
    {"- Dropout: {rate: 0.5}", "- Droput: {rate: 0.5}",
     "job.yaml:6: there is no layer \"Droput\" here; there are Activation, Concatenate, Dense, "
     "Dropout, Embedding, Flatten, GlobalAveragePooling1D, Input, Reshape; did you mean "
     "\"Dropout\"?"},
    {"activation: relu", "activation: gelu",
     "job.yaml:5: activation \"gelu\" is not supported yet; supported: relu, sigmoid, tanh, "
     "softmax, "
     "linear"},
    {"activation: relu", "activation: rleu",
     "job.yaml:5: there is no activation \"rleu\" here; there are relu, sigmoid, tanh, softmax, "
     "linear; did you mean \"relu\"?"},
    {"binary_crossentropy", "binary_crosentropy",
     "job.yaml:9: there is no loss \"binary_crosentropy\" here; there are binary_crossentropy, "
     "sparse_categorical_crossentropy, mean_squared_error; did you mean \"binary_crossentropy\"?"},
    {"[accuracy]", "[acuracy]",
     "job.yaml:11: there is no metric \"acuracy\" here; there are accuracy, binary_accuracy, "
     "sparse_categorical_accuracy (the mean loss is always one); did you mean \"accuracy\"?"},
    {"binary_crossentropy", "categorical_crossentropy",
     "job.yaml:9: loss \"categorical_crossentropy\" is not supported yet; supported: "
     "binary_crossentropy, sparse_categorical_crossentropy, mean_squared_error"},
    {"[accuracy]", "[AUC]",
     "job.yaml:11: metric \"AUC\" is not supported yet; supported: accuracy, binary_accuracy, "
     "sparse_categorical_accuracy (the mean loss is always one)"},
    {"[accuracy]", "[acc, acc]", "job.yaml:11: metric \"acc\" is given twice"},
    {"Adam:", "Adagrad:",
     "job.yaml:10: optimizer \"Adagrad\" is not supported yet; supported: SGD, Adam, "
     "RMSprop"},
    {"learning_rate: 0.01", "clipnorm: 1",
     "job.yaml:10: argument \"clipnorm\" of Adam is not supported yet; supported: learning_rate, "
     "beta_1, "
     "beta_2, epsilon, amsgrad, weight_decay"},
    {"activation: relu", "kernel_initializer: he_normal",
     "job.yaml:5: initializer \"he_normal\" is not supported yet; supported: GlorotUniform, "
     "RandomUniform, "
     "RandomNormal, Zeros, Ones, Constant"},
    {"FixedShards:", "Fixed:",
     "job.yaml:23: there is no partitioner \"Fixed\"; there are FixedShards, MinSize, MaxSize"},
    {"placement: balanced", "placement: balance",
     "job.yaml:22: `strategy.placement` must be balanced or round_robin, not \"balance\"; did you "
     "mean "
     "\"balanced\"?"},
    {"placement: balanced", "pull_ahead: 1",
     "job.yaml:22: `strategy.pull_ahead` above 0 is not supported yet: a worker pulls when its "
     "push is "
     "acknowledged"},
    {"placement: balanced", "closure_timeout_s: 0",
     "job.yaml:22: `strategy.closure_timeout_s` must be more than 0"},
    {"placement: balanced", "mode: sync",
     "job.yaml:22: mode sync is not supported yet; supported: async"},
    {"placement: balanced", "mode: multi_worker_mirrored",
     "job.yaml:22: mode multi_worker_mirrored is not supported yet; supported: async"},
    {"placement: balanced", "mode: asink",
     "job.yaml:22: there is no mode \"asink\"; there is async"},
    {"placement: balanced", "replicas: 2",
     "job.yaml:22: \"replicas\" in `strategy` is not supported yet; its keys are mode, pull_ahead, "
     "partitioner, placement, closures_in_flight, max_attempts, task_timeout_s, closure_timeout_s"},
    {"{directory: c}", "{directory: c, incremental: true}",
     "job.yaml:24: \"incremental\" in `checkpoint` is not supported yet; its keys are directory, "
     "every_steps, every_seconds, every_epochs, max_to_keep, cut_deadline_s, keep_best, mode"},
    {"name: demo", "name: a/b",
     "job.yaml:1: `name` must be made of letters, digits, `_`, `-` and `.`, not \"a/b\""},
    // What is missing, out of range, or contradictory.
    {"units: 8, ", "", "job.yaml:5: Dense needs its argument `units`"},
    {"{rate: 0.5}", "", "job.yaml:6: Dropout needs its argument `rate`"},
    {"units: 8", "units: ", "job.yaml:5: Dense needs its argument `units`"},
    {"learning_rate: 0.01", "beta_1: 1.5",
     "job.yaml:10: beta_1 of Adam must lie in [0, 1), and is 1.5"},
    {"- Dropout: {rate: 0.5}", "- Dropout: {rate: 0.5}\n      name: x",
     "job.yaml:6: a layer is one key, its class, with its arguments indented below it: "
     "`- Dense: {units: 10}`"},
    {"units: 8,", "inputs: input, units: 8,",
     "job.yaml:5: the input of a layer of a sequential model is the layer before it; `inputs` is "
     "for functional models"},
    {"sequential:", "functional:",
     "job.yaml:5: Dense needs its `inputs`: the names of layers above"},
    {"loss: binary_crossentropy", "from_logits: true", "job.yaml:8: the job needs `compile.loss`"},
    {"csv: {path: a.csv}", "prefetch: 1",
     "job.yaml:14: `data.train` needs a source: generator, idx or csv"},
    {"csv: {path: a.csv}", "csv: {path: a.csv}\n    idx: {images: b}",
     "job.yaml:16: \"csv\" and \"idx\" exclude each other: there is one source"},
    {"csv: {path: a.csv}", "generator: {name: mnist, records: 5}",
     "job.yaml:15: there is no generator \"mnist\"; there is recommender"},
    {"{path: a.csv}", "{path: a.csv, no_header: true}",
     "job.yaml:15: `data.train.csv` has no header, so it needs the names of its `columns`"},
    {"label: y", "drop_remainder: true", "job.yaml:14: `data.train` needs its `label`, a column"},
    {"column: x,", "column: x, columns: [y],",
     "job.yaml:17: a transform has either a `column` or several `columns`"},
    {"dtype: float32}", "dtype: float16}",
     "job.yaml:17: there is no dtype \"float16\"; there are float32, float64, int32, int64, uint8, "
     "bool"},
    {"  batch_size: 16", "  visitation: independent",
     "job.yaml:13: visitation independent has no end of its own: it needs `fit.steps_per_epoch`"},
    {"{epochs: 2}", "{steps_per_epoch: 2}",
     "job.yaml:20: with visitation exactly_once the data ends the epoch: leave out "
     "`steps_per_epoch`, "
     "or choose visitation independent"},
    {"{epochs: 2}", "{epochs: 0}", "job.yaml:20: `fit.epochs` must be at least 1"},
    {"{directory: c}", "{max_to_keep: 0}",
     "job.yaml:24: `checkpoint.max_to_keep` must be at least 1"},
    {"{directory: c}", "{every_seconds: -1}",
     "job.yaml:24: `checkpoint.every_seconds` must not be negative"},
    {"{directory: c}", "{every_seconds: 1e300}",
     "job.yaml:24: `checkpoint.every_seconds` must be at most 1000000000 seconds, not 1e+300"},
    {"{directory: c}", "{cut_deadline_s: 0}",
     "job.yaml:24: `checkpoint.cut_deadline_s` must be more than 0"},
    {"{directory: c}", "{keep_best: val_los}",
     "job.yaml:24: the validation of this job reports no \"val_los\"; it reports val_loss, "
     "val_accuracy; did you mean \"val_loss\"?"},
    {"{directory: c}", "{keep_best: accuracy}",
     "job.yaml:24: the validation of this job reports no \"accuracy\"; it reports val_loss, "
     "val_accuracy; did you mean \"val_accuracy\"?"},
    {"{directory: c}", "{keep_best: val_loss, mode: least}",
     "job.yaml:24: `checkpoint.mode` must be min, max or auto, not \"least\""},
    {"{directory: c}", "{mode: min}",
     "job.yaml:24: `checkpoint.mode` applies to the metric of `checkpoint.keep_best`: set "
     "`keep_best`, or leave out `mode`"},
    {"{directory: c}", "{keep_best: val_loss}\nevaluate: {by_closures: false}",
     "job.yaml:24: `checkpoint.keep_best` needs the validation after epochs: leave out "
     "`evaluate.by_closures: false`"},
    {"num_shards: 2", "num_shards: 0",
     "job.yaml:23: FixedShards needs its `num_shards`, at least 1"},
    // YAML itself.
    {"{directory: c}", "{directory: c", "job.yaml:25: not YAML: end of map flow not found"},
    {"{learning_rate: 0.01}", "{beta_1: 1}",
     "job.yaml:10: beta_1 of Adam must lie in [0, 1), and is 1"},
    {"{learning_rate: 0.01}", "{learning_rate: 1e31}",
     "job.yaml:10: learning_rate of Adam must lie in [0, 1e30], and is 1e+31"},
    {"{learning_rate: 0.01}", "{beta_2: 1}",
     "job.yaml:10: beta_2 of Adam must lie in [0, 1), and is 1"},
    {"{learning_rate: 0.01}", "{epsilon: 1e31}",
     "job.yaml:10: epsilon of Adam must lie in [0, 1e30], and is 1e+31"},
    {"{learning_rate: 0.01}", "{weight_decay: 1e31}",
     "job.yaml:10: weight_decay of Adam must lie in [0, 1e30], and is 1e+31"},
    {"name: demo", "name: &a [*a]", "job.yaml:1: `name` must be text, not a list"},
    {"name: demo", "name: *nobody", "job.yaml:1: not YAML: the referenced anchor is not defined"},
    {"checkpoint: {directory: c}", "---\nname: b", "job.yaml:25: a job is one YAML document"},
};

TEST_CASE("errors name the line and say what is wrong") {
  CHECK(std::size(kCases) >= 25);
  for (const Case& c : kCases) {
    const auto job = ParseJob(With(c.from, c.to), "job.yaml");
    INFO(c.from << " -> " << c.to);
    CHECK_FALSE(job.ok());
    CHECK(job.status().message() == absl::string_view(c.message.data(), c.message.size()));
  }
}

TEST_CASE("names that Keras and other strategies have are distinguished from a typo") {
  const struct {
    std::string_view from;
    std::string to;  // {}: each of the names
    std::vector<std::string_view> names;
  } cases[] = {
      {"- Dropout: {rate: 0.5}",
       "- {}",
       {"BatchNormalization", "LayerNormalization", "Conv1D", "Conv2D", "Conv3D", "MaxPooling2D",
        "AveragePooling2D", "GlobalAveragePooling2D", "LSTM", "GRU", "SimpleRNN", "Bidirectional",
        "MultiHeadAttention", "Attention", "ReLU", "Softmax", "Lambda", "Multiply",
        "Normalization"}},
      {"activation: relu", "activation: {}", {"elu", "selu", "silu", "swish", "gelu", "softplus"}},
      {"activation: relu",
       "kernel_initializer: {}",
       {"HeNormal", "HeUniform", "GlorotNormal", "TruncatedNormal", "VarianceScaling",
        "glorot_normal", "he_uniform", "lecun_normal", "orthogonal"}},
      {"Adam:", "{}:", {"AdamW", "Adagrad", "Adadelta", "Adamax", "Nadam", "Ftrl", "Lion"}},
      {"binary_crossentropy",
       "{}",
       {"CategoricalCrossentropy", "MeanAbsoluteError", "mean_absolute_error", "mae", "Huber",
        "huber", "hinge", "KLDivergence", "kl_divergence", "poisson"}},
      {"[accuracy]",
       "[{}]",
       {"AUC", "Precision", "Recall", "auc", "precision", "recall", "mae", "mse",
        "categorical_accuracy", "TopKCategoricalAccuracy", "top_k_categorical_accuracy"}},
      {"placement: balanced",
       "mode: {}",
       {"sync", "bounded_staleness", "mirrored", "multi_worker_mirrored", "collective",
        "central_storage", "one_device"}},
      {"placement: balanced",
       "{}: 1",
       {"replicas", "replicas_to_aggregate", "device", "devices", "gpus", "tls", "trace"}},
      {"activation: relu",
       "{}: 1",
       {"kernel_regularizer", "bias_regularizer", "activity_regularizer", "kernel_constraint"}},
      {"learning_rate: 0.01", "{}: 1", {"clipnorm", "clipvalue", "global_clipnorm"}},
      {"metrics: [accuracy]",
       "{}: 1",
       {"weighted_metrics", "loss_weights", "jit_compile", "clipnorm", "clipvalue",
        "global_clipnorm"}},
      {"{epochs: 2}", "{{epochs: 2, {}: 1}}", {"callbacks", "class_weight", "sample_weight"}},
      {"{directory: c}", "{{directory: c, {}: 1}}", {"incremental", "save_best_only"}},
  };
  for (const auto& c : cases) {
    for (const std::string_view name : c.names) {
      const auto job = ParseJob(With(c.from, fmt::format(fmt::runtime(c.to), name)), "job.yaml");
      INFO(name << ": " << job.status());
      CHECK(testing::Contains(job.status().ToString(), "is not supported yet"));
    }
  }
}

TEST_CASE("which figure makes a checkpoint the best, and whether more of it is better") {
  const struct {
    const char* keys;
    std::string_view metric;
    std::string_view mode;
  } cases[] = {{"", "", ""},
               {"keep_best: val_loss", "val_loss", "min"},
               {"keep_best: val_accuracy", "val_accuracy", "max"},
               {"keep_best: val_accuracy, mode: auto", "val_accuracy", "max"},
               {"keep_best: val_accuracy, mode: min", "val_accuracy", "min"},
               {"keep_best: val_loss, mode: max", "val_loss", "max"}};
  for (const auto& c : cases) {
    const auto job = ParseJob(With("{directory: c}", fmt::format("{{{}}}", c.keys)), "job.yaml");
    INFO(c.keys);
    REQUIRE(job.status().message() == "");
    CHECK(job->spec.checkpoint().keep_best() == c.metric);
    CHECK(job->spec.checkpoint().mode() == c.mode);
  }
  std::string none = With("{directory: c}", "{keep_best: val_loss}");
  const std::string validation = "  validation: {skip: 100}\n";
  none.erase(none.find(validation), validation.size());
  CHECK(ParseJob(none, "job.yaml").status().message() ==
        "job.yaml:23: `checkpoint.keep_best` needs `data.validation`, whose metrics determine the "
        "best checkpoint");
}

TEST_CASE("a job may leave the directory of its checkpoints to --checkpoint_dir") {
  const auto job = ParseJob(With("{directory: c}", "{every_steps: 5}"), "job.yaml");
  REQUIRE(job.ok());
  CHECK(job->spec.checkpoint().every_steps() == 5);
  CHECK(job->spec.checkpoint().every_epochs() == 0);
  const auto silent = ParseJob(With("checkpoint: {directory: c}", ""), "job.yaml");
  REQUIRE(silent.ok());
  CHECK(silent->spec.checkpoint().every_epochs() == 1);
}

TEST_CASE("a name that is too long is refused") {
  const auto job = ParseJob(With("name: demo", "name: " + std::string(101, 'n')), "job.yaml");
  CHECK(job.status().message() == "job.yaml:1: `name` has at most 100 bytes, this one 101: \"" +
                                      std::string(40, 'n') + "...\"");
  CHECK(ParseJob(With("name: demo", "name: " + std::string(100, 'n')), "job.yaml").ok());
}

TEST_CASE("files that are no jobs") {
  CHECK(ParseJob("", "job.yaml").status().message() == "job.yaml:1: the file is empty");
  CHECK(ParseJob("[1, 2]", "job.yaml").status().message() ==
        "job.yaml:1: the job must be a mapping of keys, not a list");
  CHECK(ParseJob("name: a", "job.yaml").status().message() ==
        "job.yaml:1: the job needs `model` with its layers, sequential or functional");
  CHECK(ParseJob("\t\t: [", "job.yaml").status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(ParseJob(std::string(5000, '['), "job.yaml").status().message() ==
        "job.yaml:1: lists or mappings are nested too deeply");
  CHECK(ParseJob("# a job\rname: demo\r", "job.yaml").status().message() ==
        "job.yaml:1: the lines end with CR alone: save the file with LF or CR LF");
  CHECK(ParseJob(std::string(65 << 20, ' '), "job.yaml").status().code() ==
        absl::StatusCode::kInvalidArgument);
  const auto missing = ReadJobFile("/no/such/job.yaml");
  CHECK(missing.status().code() == absl::StatusCode::kNotFound);
  CHECK(missing.status().message() ==
        "/no/such/job.yaml: cannot be opened: No such file or directory");
}

TEST_CASE("mutated bytes never do harm") {
  const uint64_t seed = 20240602;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string text(kJobText);
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int k = 0; k < changes; ++k) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 20);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 30));
      }
    }
    const auto job = ParseJob(text, "job.yaml");
    if (job.ok()) continue;
    ++refused;
    CHECK(job.status().message().find("job.yaml:") == 0);
  }
  CHECK(refused > 500);
}

TEST_CASE("aliases cannot make a small file a large one") {
  // Nine levels of nine references each: 9^9 values, were they all read.
  std::string bomb = "compile: {metrics: &l0 [a, a, a, a, a, a, a, a, a]}\n";
  std::string level = "*l0";
  for (int i = 1; i < 9; ++i) {
    std::string list = "[";
    for (int k = 0; k < 9; ++k) list += (k > 0 ? ", " : "") + level;
    bomb += "x" + std::to_string(i) + ": &l" + std::to_string(i) + " " + list + "]\n";
    level = "*l" + std::to_string(i);
  }
  CHECK(ParseJob(bomb, "job.yaml").status().message().find("job.yaml:2: unknown key \"x1\"") == 0);
}

}  // namespace
}  // namespace cohort

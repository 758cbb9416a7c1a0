#include "common/model/job_file.h"

#include <google/protobuf/util/message_differencer.h>

#include <catch2/catch.hpp>
#include <random>

#include "common/data/source_class.h"
#include "common/data/transform_class.h"
#include "common/model/activations.h"
#include "common/model/batch_text.h"
#include "common/model/job_test_text.h"
#include "common/model/layers/layer.h"
#include "common/placement/initializer_classes.h"
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
  CHECK(spec.model().layers(1).config().at("units").i() == 8);
  CHECK(spec.compile().optimizer_class().class_name() == "Adam");
  CHECK(spec.compile().optimizer_class().config().at("learning_rate").f() == 0.01);
  CHECK(spec.compile().optimizer_class().config().at("beta_1").f() == 0.9);
  CHECK(spec.compile().metric_classes(0).name() == "accuracy");
  CHECK(spec.strategy().name() == "parameter_server");
  CHECK(spec.data().visitation() == v1::EXACTLY_ONCE);
  CHECK(spec.data().train().shuffle());
  CHECK(spec.data().train().prefetch() == 2);
  CHECK(spec.data().train().source_class().class_name() == "csv");
  CHECK(spec.data().train().source_class().config().at("delimiter").s() == ",");
  CHECK(spec.data().train().transforms(0).transform_class().class_name() == "Cast");
  CHECK(spec.strategy().mode() == "async");
  CHECK(spec.strategy().partitioner().num_shards() == 2);
  CHECK(spec.strategy().closure_timeout_s() == 600);
  CHECK(spec.checkpoint().every_epochs() == 1);
  CHECK(job->lines.Where("model.layers[1].units") == "job.yaml:5");
  CHECK(job->lines.Where("model.layers[9].units") == "job.yaml:2");
  CHECK(job->lines.Where("nowhere") == "job.yaml:1");
}

TEST_CASE("initial weights have a path, patterns and new names") {
  const auto weights = [](const std::string& value) {
    return ParseJob(With("fit: {epochs: 2}", "fit: {epochs: 2}\ninitial_weights: " + value),
                    "job.yaml");
  };
  CHECK(!ParseJob(kJobText, "job.yaml")->spec.has_initial_weights());
  CHECK(!weights("")->spec.has_initial_weights());
  const auto job = weights(R"({path: a.h5, include: ["dense/*"], exclude: ["*/bias"],
    rename: [{from: old/, to: new/}, {from: "", to: base/}], skip_mismatch: true})");
  REQUIRE(job.status().message() == "");
  const v1::InitialWeightsSpec& spec = job->spec.initial_weights();
  CHECK(spec.path() == "a.h5");
  CHECK(spec.include(0) == "dense/*");
  CHECK(spec.exclude(0) == "*/bias");
  REQUIRE(spec.rename_size() == 2);
  CHECK(spec.rename(0).to() == "new/");
  CHECK(spec.rename(1).from().empty());
  CHECK(spec.skip_mismatch());
  const auto message = [&](const std::string& value) {
    return std::string(weights(value).status().message());
  };
  CHECK(message("{include: [a]}").starts_with("job.yaml:21: `initial_weights` needs a `path`"));
  CHECK(message("{path: a.h5, rename: [{from: a, to: a}]}").find("that differ") !=
        std::string::npos);
  CHECK(message("{path: a.h5, skip_mismatched: true}").find("skip_mismatch\"?") !=
        std::string::npos);
}

TEST_CASE("mixed precision is a type, or a type with its loss scale") {
  const auto job = [](const std::string& value) {
    return ParseJob(With("fit: {epochs: 2}", "fit: {epochs: 2}\nmixed_precision: " + value),
                    "job.yaml");
  };
  for (const char* none : {"", "float32", "{dtype: float32}", "{}"}) {
    INFO(none);
    REQUIRE(job(none).status().message() == "");
    CHECK(!job(none)->spec.has_mixed_precision());
  }
  for (const char* bfloat16 : {"bfloat16", "{dtype: bfloat16}"}) {
    REQUIRE(job(bfloat16).status().message() == "");
    const v1::MixedPrecisionSpec spec = job(bfloat16)->spec.mixed_precision();
    CHECK(spec.dtype() == "bfloat16");
    CHECK(spec.initial_scale() == 0);
  }
  for (const char* dynamic : {"float16", "{dtype: float16, loss_scale: 0}"}) {
    REQUIRE(job(dynamic).status().message() == "");
    const v1::MixedPrecisionSpec spec = job(dynamic)->spec.mixed_precision();
    CHECK(spec.loss_scale() == 0);
    CHECK(spec.initial_scale() == 32768);
    CHECK(spec.dynamic_growth_steps() == 2000);
  }
  const auto fixed = job("{dtype: float16, loss_scale: 1024}");
  REQUIRE(fixed.status().message() == "");
  CHECK(fixed->spec.mixed_precision().loss_scale() == 1024);
  CHECK(fixed->spec.mixed_precision().initial_scale() == 0);
  const auto message = [&](const std::string& value) {
    return std::string(job(value).status().message());
  };
  CHECK(message("int8") ==
        "job.yaml:21: `mixed_precision` must be one of float32, bfloat16, float16, not \"int8\"");
  CHECK(message("{dtype: half}").find("`mixed_precision.dtype` must be one of float32") !=
        std::string::npos);
  CHECK(message("[float16]").find("`mixed_precision` must be a mapping") != std::string::npos);
  CHECK(message("{dtype: bfloat16, loss_scale: 2}").find("applies to float16") !=
        std::string::npos);
  CHECK(
      message("{dtype: float16, loss_scale: 2, initial_scale: 4}").find("leave out `loss_scale`") !=
      std::string::npos);
  CHECK(message("{dtype: float16, loss_scale: 0.5}").find("at least 1") != std::string::npos);
  CHECK(message("{dtype: float16, initial_scale: 1.0e+40}").find("at most 2^100") !=
        std::string::npos);
  CHECK(message("{dtype: float16, dynamic_growth_steps: 0}").find("must be at least 1") !=
        std::string::npos);
  const auto wide =
      ParseJob(With("model:", "mixed_precision: float16\nmodel:\n  dtype: float64"), "job.yaml");
  CHECK(wide.status().message().find("needs `model.dtype: float32`") != std::string::npos);
}

TEST_CASE("a validation set is other rows of the training set's, unshuffled") {
  const auto job = ParseJob(kJobText, "job.yaml");
  REQUIRE(job.ok());
  const v1::DatasetSpec& validation = job->spec.data().validation();
  CHECK(validation.source_class().config().at("path").s() == "a.csv");
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
    CHECK(job->spec.compile().optimizer_class().class_name() == c.class_name);
  }
  const auto loss = ParseJob(
      With("binary_crossentropy", "{BinaryCrossentropy: {from_logits: true}}"), "job.yaml");
  REQUIRE(loss.ok());
  CHECK(loss->spec.compile().loss_class().config().at("from_logits").b());
  const auto by_key =
      ParseJob(With("binary_crossentropy", "binary_crossentropy\n  from_logits: true"), "job.yaml");
  REQUIRE(by_key.ok());
  CHECK(by_key->spec.compile().loss_class().config().at("from_logits").b());
  const auto lazy = ParseJob(
      With("{learning_rate: 0.01}", "{learning_rate: 1, sparse_update: lazy}"), "job.yaml");
  REQUIRE(lazy.ok());
  CHECK(lazy->spec.compile().sparse_update() == "lazy");
  const auto choices =
      ParseJob(With("optimizer: {Adam: {learning_rate: 0.01}}",
                    "optimizers: [{variables: 'dense/*', optimizer: {sgd: {sparse_update: lazy}}}, "
                    "{variables: '*', optimizer: adam}]"),
               "job.yaml");
  REQUIRE(choices.status().message() == "");
  const v1::CompileSpec& compile = choices->spec.compile();
  CHECK_FALSE(compile.has_optimizer_class());
  REQUIRE(compile.optimizers_size() == 2);
  CHECK(compile.optimizers(0).variables() == "dense/*");
  CHECK(compile.optimizers(0).optimizer_class().class_name() == "SGD");
  CHECK(compile.optimizers(0).sparse_update() == "lazy");
  CHECK(compile.optimizers(1).optimizer_class().config().at("beta_1").f() == 0.9);
  CHECK(compile.optimizers(1).sparse_update() == "keras");
  const auto dense = ParseJob(
      With("units: 8,", "units: 8, use_bias: false, kernel_initializer: {uniform: {minval: -1}},"),
      "job.yaml");
  REQUIRE(dense.ok());
  const v1::ClassConfig kernel =
      dense->spec.model().layers(1).config().at("kernel_initializer").object();
  CHECK_FALSE(dense->spec.model().layers(1).config().at("use_bias").b());
  CHECK(kernel.class_name() == "RandomUniform");
  CHECK(kernel.config().at("minval").f() == -1);
  CHECK(kernel.config().at("maxval").f() == 0.05);
}

TEST_CASE("a strategy has a default mode, and TensorFlow's names") {
  const struct {
    const char* name;
    const char* ours;
    const char* mode;
  } cases[] = {
      {"OneDeviceStrategy", "one_device", "async"},
      {"tf.distribute.MirroredStrategy", "mirrored", "sync"},
      {"CentralStorageStrategy", "central_storage", "sync"},
      {"ParameterServerStrategyV2", "parameter_server", "async"},
      {"CollectiveAllReduceStrategy", "multi_worker_mirrored", "sync"},
      {"tf.distribute.experimental.MultiWorkerMirroredStrategy", "multi_worker_mirrored", "sync"},
  };
  for (const auto& c : cases) {
    INFO(c.name);
    const auto job = ParseJob(kJobText, "job.yaml", c.name);
    REQUIRE(job.ok());
    CHECK(job->spec.strategy().name() == c.ours);
    CHECK(job->spec.strategy().mode() == c.mode);
  }
  CHECK(ParseJob(kJobText, "job.yaml")->spec.strategy().name() == "parameter_server");
}

TEST_CASE("TensorFlow's spellings mean the same job") {
  const struct {
    const char* from;
    const char* to;
  } cases[] = {
      {"{FixedShards: {num_shards: 2}}", "{FixedShardsPartitioner: {num_shards: 2}}"},
      {"{FixedShards: {num_shards: 2}}", "{class_name: FixedShards, config: {num_shards: 2}}"},
      {"placement: balanced", "name: ParameterServerStrategy"},
      {"placement: balanced", "name: tf.distribute.experimental.ParameterServerStrategy"},
      {"binary_crossentropy", "{BinaryCrossentropy: {from_logits: false}}"},
      {"binary_crossentropy",
       "{module: keras.losses, class_name: BinaryCrossentropy, config: {reduction: "
       "sum_over_batch_size}, registered_name: null}"},
      {"units: 8, activation: relu", "units: 8, activation: relu, trainable: true, dtype: null"},
      {"- Input: {shape: [4]}\n    - Dense: {units: 8,", "- Dense: {input_shape: [4], units: 8,"},
      {"[accuracy]", "[{accuracy: {}}]"},
  };
  const auto plain = ParseJob(kJobText, "job.yaml");
  REQUIRE(plain.ok());
  for (const auto& c : cases) {
    INFO(c.to);
    const auto job = ParseJob(With(c.from, c.to), "job.yaml");
    REQUIRE(job.status().message() == "");
    CHECK(google::protobuf::util::MessageDifferencer::Equals(job->spec, plain->spec));
  }
}

TEST_CASE("a metric is reported under the name that the file gives it") {
  const auto job = ParseJob(With("[accuracy]",
                                 "[acc, BinaryAccuracy, {BinaryAccuracy: {threshold: 0.7}}, "
                                 "{BinaryAccuracy: {threshold: 0.9, name: sure}}]"),
                            "job.yaml");
  REQUIRE(job.status().message() == "");
  std::vector<std::string> names;
  for (const v1::MetricSpec& m : job->spec.compile().metric_classes()) names.push_back(m.name());
  CHECK(names == std::vector<std::string>{"acc", "BinaryAccuracy", "binary_accuracy", "sure"});
}

TEST_CASE("a job of an older version's manifest gets its classes from the YAML") {
  const auto job = ParseJob(kJobText, "job.yaml");
  REQUIRE(job.ok());
  v1::JobSpec old = job->spec;
  old.mutable_compile()->Clear();
  for (v1::LayerSpec& layer : *old.mutable_model()->mutable_layers()) layer.clear_config();
  for (auto* data :
       {old.mutable_data()->mutable_train(), old.mutable_data()->mutable_validation()}) {
    data->clear_source_class();
    for (v1::ColumnTransform& t : *data->mutable_transforms()) t.clear_transform_class();
  }
  REQUIRE(UpgradeJob(kJobText, &old).ok());
  CHECK(google::protobuf::util::MessageDifferencer::Equals(old, job->spec));
}

TEST_CASE("a job of an older version's manifest keeps the vocabularies that it has learned") {
  const std::string text = With("{column: x, dtype: float32}", "{column: x, lookup: string}");
  const auto job = ParseJob(text, "job.yaml");
  REQUIRE(job.status().message() == "");
  v1::JobSpec old = job->spec;
  v1::DatasetSpec* const train = old.mutable_data()->mutable_train();
  train->clear_source_class();
  train->mutable_transforms(0)->clear_transform_class();
  train->mutable_transforms(0)->add_vocabulary("word");
  REQUIRE(UpgradeJob(text, &old).ok());
  CHECK(train->source_class().class_name() == "csv");
  const v1::ClassConfig& lookup = train->transforms(0).transform_class();
  CHECK(lookup.class_name() == "StringLookup");
  CHECK(lookup.config().at("vocabulary").list().values(0).s() == "word");
}

TEST_CASE("the forms of sources and transforms") {
  const struct {
    const char* from;
    const char* to;
  } same[] = {
      {"csv: {path: a.csv}", "source: {csv: {path: a.csv}}"},
      {"csv: {path: a.csv}", "source: {class_name: csv, config: {path: a.csv}}"},
      {"csv: {path: a.csv}", "CSV: {path: a.csv, delimiter: null}"},
      {"{column: x, dtype: float32}", "{column: x, dtype: float32, Cast: {}}"},
  };
  const auto plain = ParseJob(kJobText, "job.yaml");
  REQUIRE(plain.ok());
  for (const auto& c : same) {
    INFO(c.to);
    const auto job = ParseJob(With(c.from, c.to), "job.yaml");
    REQUIRE(job.status().message() == "");
    CHECK(google::protobuf::util::MessageDifferencer::Equals(job->spec, plain->spec));
  }
  const struct {
    const char* short_form;
    const char* keras_form;
  } transforms[] = {
      {"{column: x, lookup: string, num_oov_indices: 1, vocabulary: [a, 2]}",
       "{column: x, StringLookup: {num_oov_indices: 1, vocabulary: [a, 2]}}"},
      {"{column: x, scale: 0.5, offset: 2}", "{column: x, Rescaling: {scale: 0.5, offset: 2}}"},
      {"{column: x, equals: 5}", "{column: x, Equals: {value: 5}}"},
      {"{column: x, scale: 2, output: z}", "{column: x, output: z, rescaling: {scale: 2}}"},
      {"{columns: [x, z], output: w}", "{columns: [x, z], output: w, Stack: }"},
  };
  for (const auto& c : transforms) {
    INFO(c.keras_form);
    const auto brief = ParseJob(With("{column: x, dtype: float32}", c.short_form), "job.yaml");
    REQUIRE(brief.status().message() == "");
    const auto keras = ParseJob(With("{column: x, dtype: float32}", c.keras_form), "job.yaml");
    REQUIRE(keras.status().message() == "");
    CHECK(google::protobuf::util::MessageDifferencer::Equals(brief->spec, keras->spec));
  }
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
     "job.yaml:5: Dense has no argument \"unitss\"; it has units, activation, use_bias, "
     "kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer, trainable, "
     "dtype; "
     "did you mean \"units\"?"},
    {"{rate: 0.5}", "{rate: 0.5, units: 3}",
     "job.yaml:6: Dropout has no argument \"units\"; it has rate, noise_shape, seed, trainable, "
     "dtype"},
    {"  batch_size: 16", "  batch: 16",
     "job.yaml:13: unknown key \"batch\" in `data`; its keys are train, validation, visitation, "
     "batch_size, block_size, global_batch_size"},
    {"dtype: float32}", "dtyp: float32}",
     "job.yaml:17: unknown key \"dtyp\" in `data.train.transforms[0]`; did you mean \"dtype\"?"},
    {"sequential:", "sequentail:",
     "job.yaml:3: unknown key \"sequentail\" in `model`; did you mean \"sequential\"?"},
    {"learning_rate: 0.01", "learning_rat: 0.01",
     "job.yaml:10: Adam has no argument \"learning_rat\"; it has learning_rate, beta_1, beta_2, "
     "epsilon, amsgrad, weight_decay, clipnorm, clipvalue, global_clipnorm, name; did you mean "
     "\"learning_rate\"?"},
    {"num_shards: 2", "shards: 2",
     "job.yaml:23: FixedShards has no argument \"shards\"; it has num_shards"},
    {"{epochs: 2}", "{epochs: 2, epochs: 3}",
     "job.yaml:20: key \"epochs\" is given twice in `fit`"},
    {"{epochs: 2}", "{[a]: 2}", "job.yaml:20: a key in `fit` must be text, not a list"},
    {"sequential:", "keras_json: x\n  sequential:",
     "job.yaml:3: a model has either `keras_json` or layers and outputs in the job file"},
    // Types.
    {"units: 8", "units: eight", "job.yaml:5: Dense: units must be an integer, not \"eight\""},
    {"units: 8", "units: \"8\"", "job.yaml:5: Dense: units must be an integer, not \"8\""},
    {"units: 8", "units: 8.5", "job.yaml:5: Dense: units must be an integer, not 8.5"},
    {"units: 8", "units: 99999999999999999999",
     "job.yaml:5: Dense: units must be an integer, not 1e+20"},
    {"rate: 0.5", "rate: [1]", "job.yaml:6: Dropout: rate must be a number, not [1]"},
    {"rate: 0.5", "rate: .nan", "job.yaml:6: Dropout: rate must be a number, not \".nan\""},
    {"batch_size: 16", "batch_size: -1", "job.yaml:13: `data.batch_size` must not be negative: -1"},
    {"batch_size: 16", "batch_size: 5000000000",
     "job.yaml:13: `data.batch_size` is too large: 5000000000"},
    {"metrics: [accuracy]", "metrics: {AUC: {curve: PR}}",
     "job.yaml:11: `compile.metrics` must be a list, not a mapping; for example `metrics: [{AUC: "
     "...}]`"},
    {"- Dropout: {rate: 0.5}", "- Dropout: 0.5",
     "job.yaml:6: `Dropout` must be a mapping of keys, not \"0.5\"; for example `{Dropout: {rate: "
     "0.5}}`"},
    {"- Dropout: {rate: 0.5}", "- keras.layers.Dropout(0.5, seed=None)",
     "job.yaml:6: `model.layers[2]`: arguments are written as a mapping: `{Dropout: {rate: 0.5, "
     "seed: null}}`, not \"keras.layers.Dropout(0.5, seed=None)\""},
    {"metrics: [accuracy]", "metrics: accuracy",
     "job.yaml:11: `compile.metrics` must be a list, not \"accuracy\"; for example `metrics: "
     "[accuracy]`"},
    {"{skip: 100}", "{skip: 100, shuffle: maybe}",
     "job.yaml:19: `data.validation.shuffle` must be true or false, not \"maybe\""},
    {"{epochs: 2}", "7",
     "job.yaml:20: `fit` must be a mapping of keys, not \"7\"; for example `fit: {epochs: 7}`"},
    {"  batch_size: 16", "  visitation: sometimes",
     "job.yaml:13: `data.visitation` must be one of independent, exactly_once, not \"sometimes\""},
    {"learning_rate: 0.01", "learning_rate: {ExponentialDecay: 1}",
     "job.yaml:10: `ExponentialDecay` must be a mapping of keys, not \"1\""},
    {"activation: relu", "use_bias: 2", "job.yaml:5: Dense: use_bias must be true or false, not 2"},
    // Names.
    {"- Dropout: {rate: 0.5}", "- Lambda",
     "job.yaml:6: layer \"Lambda\" is not supported yet; supported: <layers>"},
    {"- Dropout: {rate: 0.5}", "- LSTM: {units: 32}",
     "job.yaml:6: layer \"LSTM\" is not supported yet; supported: <layers>"},
    {"- Dropout: {rate: 0.5}", "- Droput: {rate: 0.5}",
     "job.yaml:6: there is no layer \"Droput\"; there are <layers>; did you mean \"Dropout\"?"},
    {"activation: relu", "activation: rleu",
     "job.yaml:5: there is no activation \"rleu\"; there are <activations>; did you mean "
     "\"relu\"?"},
    {"activation: relu", "activation: {relu: {slope: 1}}",
     "job.yaml:5: relu has no argument \"slope\"; it has negative_slope, max_value, threshold"},
    {"activation: relu", "activation: threshold",
     "job.yaml:5: threshold needs its argument `threshold`; for example `{threshold: {threshold: "
     "0.5, default_value: 0.5}}`"},
    {"- Dropout: {rate: 0.5}", "- Cropping1D: {cropping: [[1], 1]}",
     "job.yaml:6: Cropping1D: the items of cropping must be numbers or strings"},
    {"- Dropout: {rate: 0.5}", "- ZeroPadding2D: {data_format: channels_first}",
     "job.yaml:6: ZeroPadding2D: data_format must be channels_last, not "
     "\"channels_first\"; did you mean \"channels_last\"?"},
    {"binary_crossentropy", "binary_crosentropy",
     "job.yaml:9: there is no loss \"binary_crosentropy\"; there are BinaryCrossentropy, "
     "CategoricalCrossentropy, Huber, MeanAbsoluteError, MeanSquaredError, "
     "SparseCategoricalCrossentropy; did you mean \"BinaryCrossentropy\"?"},
    {"[accuracy]", "[acuracy]",
     "job.yaml:11: there is no metric \"acuracy\"; there are AUC, BinaryAccuracy, "
     "CategoricalAccuracy, MeanAbsoluteError, MeanSquaredError, Precision, Recall, "
     "RootMeanSquaredError, SparseCategoricalAccuracy, SparseTopKCategoricalAccuracy, "
     "TopKCategoricalAccuracy, accuracy; did you mean \"accuracy\"?"},
    {"binary_crossentropy", "categorical_hinge",
     "job.yaml:9: loss \"categorical_hinge\" is not supported yet; supported: BinaryCrossentropy, "
     "CategoricalCrossentropy, Huber, MeanAbsoluteError, MeanSquaredError, "
     "SparseCategoricalCrossentropy"},
    {"[accuracy]", "[F1Score]",
     "job.yaml:11: metric \"F1Score\" is not supported yet; supported: AUC, BinaryAccuracy, "
     "CategoricalAccuracy, MeanAbsoluteError, MeanSquaredError, Precision, Recall, "
     "RootMeanSquaredError, SparseCategoricalAccuracy, SparseTopKCategoricalAccuracy, "
     "TopKCategoricalAccuracy, accuracy"},
    {"[accuracy]", "[{AUC: {curve: POC}}]",
     "job.yaml:11: AUC: curve must be ROC, PR, not \"POC\"; did you mean \"ROC\"?"},
    {"[accuracy]", "[{AUC: {multi_label: true}}]",
     "job.yaml:11: `multi_label` of AUC is not supported yet; leave it out"},
    {"[accuracy]", "[{AUC: {thresholds: [0.5, 2]}}]",
     "job.yaml:11: AUC: thresholds must be in [0, 1], not 2"},
    {"[accuracy]", "[{AUC: {thresholds: [low]}}]",
     "job.yaml:11: AUC: thresholds must be a list of numbers, not [low]"},
    {"[accuracy]", "[acc, acc]", "job.yaml:11: metric \"acc\" is given twice"},
    {"Adam:", "Nadam:",
     "job.yaml:10: optimizer \"Nadam\" is not supported yet; supported: Adagrad, Adam, AdamW, "
     "Ftrl, RMSprop, SGD"},
    {"learning_rate: 0.01", "loss_scale_factor: 2",
     "job.yaml:10: `loss_scale_factor` of Adam is not supported yet; leave it out"},
    {"learning_rate: 0.01", "clipnorm: 1, clipvalue: 1",
     "job.yaml:10: Adam: only one of clipnorm, clipvalue and global_clipnorm can be set, not both "
     "clipnorm and clipvalue"},
    {"optimizer: {Adam: {learning_rate: 0.01}}",
     "optimizers:\n  - {variables: '*', optimizer: adam}\n  optimizer: adam",
     "job.yaml:9: `compile` has either `optimizer` or `optimizers`"},
    {"optimizer: {Adam: {learning_rate: 0.01}}", "optimizers: []",
     "job.yaml:10: `compile.optimizers` must have at least one item; for example `optimizers: "
     "[{variables: \"*\", optimizer: adam}]`"},
    {"optimizer: {Adam: {learning_rate: 0.01}}", "optimizers: [{optimizer: adam}]",
     "job.yaml:10: `compile.optimizers[0]` needs its `variables`, a pattern such as "
     "\"embedding/*\""},
    {"optimizer: {Adam: {learning_rate: 0.01}}", "optimizers: [{variables: '*'}]",
     "job.yaml:10: `compile.optimizers[0]` needs its `optimizer`"},
    {"optimizer: {Adam: {learning_rate: 0.01}}",
     "optimizers:\n  - variables: '*'\n    optimizer:\n      Adam:\n        beta_1: 1",
     "job.yaml:14: Adam: beta_1 must be in [0, 1), not 1"},
    {"activation: relu", "kernel_initializer: he_norml",
     "job.yaml:5: there is no initializer \"he_norml\"; there are <initializers>; did you mean "
     "\"HeNormal\"?"},
    {"FixedShards:", "Fixed:",
     "job.yaml:23: there is no partitioner \"Fixed\"; there are FixedShards, MaxSize, MinSize"},
    {"placement: balanced", "placement: balance",
     "job.yaml:22: `strategy.placement` must be balanced or round_robin, not \"balance\"; did you "
     "mean "
     "\"balanced\"?"},
    {"placement: balanced", "pull_ahead: 17",
     "job.yaml:22: `strategy.pull_ahead` is at most 16, not 17"},
    {"placement: balanced", "mode: sync\n  pull_ahead: 1",
     "job.yaml:23: `strategy.pull_ahead` above 0 applies to mode async; mode sync limits how old "
     "the weights of a step may be. Leave it out, or choose mode async"},
    {"placement: balanced", "mode: bounded_staleness\n  pull_ahead: 16",
     "job.yaml:23: `strategy.pull_ahead` above 0 applies to mode async; mode bounded_staleness "
     "limits how old the weights of a step may be. Leave it out, or choose mode async"},
    {"placement: balanced", "closure_timeout_s: 0",
     "job.yaml:22: `strategy.closure_timeout_s` must be more than 0"},
    {"placement: balanced", "mode: multi_worker_mirrored",
     "job.yaml:22: multi_worker_mirrored is a strategy and not a mode: write `strategy: {name: "
     "multi_worker_mirrored}`"},
    {"placement: balanced", "mode: asink",
     "job.yaml:22: `strategy.mode` must be one of async, sync, bounded_staleness, not \"asink\""},
    {"placement: balanced", "closures_per_step: 3",
     "job.yaml:22: `strategy.closures_per_step` applies to the modes sync and bounded_staleness: "
     "leave it out, or write `mode: sync`"},
    {"placement: balanced", "replicas: 2",
     "job.yaml:22: \"replicas\" in `strategy` is not supported yet; its keys are name, mode, "
     "pull_ahead, partitioner, placement, closures_in_flight, max_attempts, task_timeout_s, "
     "closure_timeout_s, closures_per_step, backup_work, replicas_to_aggregate, staleness, "
     "deterministic, scale_learning_rate, communication, cross_device_ops, elastic"},
    {"{directory: c}", "{directory: c, incremental: true}",
     "job.yaml:24: \"incremental\" in `checkpoint` is not supported yet; its keys are directory, "
     "every_steps, every_seconds, every_epochs, max_to_keep, cut_deadline_s, keep_best, mode"},
    {"name: demo", "name: a/b",
     "job.yaml:1: `name` must be made of letters, digits, `_`, `-` and `.`, not \"a/b\""},
    // What is missing, out of range, or contradictory.
    {"units: 8, ", "", "job.yaml:5: Dense needs its argument `units`"},
    {"{rate: 0.5}", "", "job.yaml:6: Dropout needs its argument `rate`"},
    {"units: 8", "units: ", "job.yaml:5: Dense needs its argument `units`"},
    {"learning_rate: 0.01", "beta_1: 1.5", "job.yaml:10: Adam: beta_1 must be in [0, 1), not 1.5"},
    {"- Dropout: {rate: 0.5}", "- Dropout: {rate: 0.5}\n      name: x",
     "job.yaml:6: `model.layers[2]` must be one key, the name of a class, with its arguments "
     "indented below it: `Name: {argument: value}`"},
    {"units: 8,", "inputs: input, units: 8,",
     "job.yaml:5: the input of a layer of a sequential model is the layer before it; `inputs` is "
     "for functional models"},
    {"sequential:", "functional:",
     "job.yaml:5: Dense needs its `inputs`: the names of layers above"},
    {"loss: binary_crossentropy", "from_logits: true",
     "job.yaml:8: the job needs `compile.loss`; for example `loss: mean_squared_error`"},
    {"csv: {path: a.csv}", "prefetch: 1",
     "job.yaml:14: `data.train` needs a source; there are <sources>"},
    {"csv: {path: a.csv}", "csv: {path: a.csv}\n    idx: {images: b}",
     "job.yaml:16: \"csv\" and \"idx\" exclude each other: there is one source"},
    {"csv: {path: a.csv}", "generator: {name: mnist, records: 5}",
     "job.yaml:15: generator: name must be recommender, not \"mnist\""},
    {"csv: {path: a.csv}", "generator: {name: recommender}",
     "job.yaml:15: generator needs its argument `records`"},
    {"csv: {path: a.csv}", "source: {CsvFile: {path: a.csv}}",
     "job.yaml:15: there is no source \"CsvFile\"; there are <sources>"},
    {"csv: {path: a.csv}", "cvs: {path: a.csv}",
     "job.yaml:15: unknown key \"cvs\" in `data.train`; did you mean \"csv\"?"},
    {"{path: a.csv}", "{path: a.csv, delimiter: ab}",
     "job.yaml:15: a.csv: delimiter must be one character that can separate fields, not \"ab\""},
    {"{path: a.csv}", "\n      path: a.csv\n      colums: [x]",
     "job.yaml:17: csv has no argument \"colums\"; it has path, no_header, delimiter, columns, "
     "url, "
     "sha256; did you mean \"columns\"?"},
    {"dtype: float32}", "lookup: hash}", "job.yaml:17: `lookup` must be string, not \"hash\""},
    {"dtype: float32}", "vocabulary: [a]}", "job.yaml:17: `vocabulary` needs `lookup: string`"},
    {"dtype: float32}", "lookup: string, scale: 2}",
     "job.yaml:17: \"lookup\" and \"scale\" exclude each other: a transform has one class"},
    {"dtype: float32}", "Rescaling: {scale: 2}, offset: 1}",
     "job.yaml:17: \"Rescaling\" and \"offset\" exclude each other: a transform has one class"},
    {"dtype: float32}", "Rescaling: {scale: x}}",
     "job.yaml:17: Rescaling: scale must be a number, not \"x\""},
    {"dtype: float32}", "Equals: x}",
     "job.yaml:17: `Equals` must be a mapping of keys, not \"x\"; for example `{Equals: {value: "
     "a}}`"},
    {"dtype: float32}", "scale: x}", "job.yaml:17: Rescaling: scale must be a number, not \"x\""},
    {"dtype: float32}", "lookup: string, num_oov_indices: 2}",
     "job.yaml:17: `num_oov_indices` of StringLookup is not supported yet; leave it out"},
    {"dtype: float32}", "Normalization: {mean: 2}}",
     "job.yaml:17: transform \"Normalization\" is not supported yet; supported: "
     "<transforms>"},
    {"{path: a.csv}", "{path: a.csv, no_header: true}",
     "job.yaml:15: a.csv: a file without a header needs `columns`, their names"},
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
     "job.yaml:23: FixedShards: num_shards must be at least 1, not 0"},
    // A string for a mapping, Python for YAML, and what TensorFlow has.
    {"train:\n    csv: {path: a.csv}", "train:\n    csv: a.csv",
     "job.yaml:15: `data.train.csv` must be a mapping of keys, not \"a.csv\"; for example `csv: "
     "{path: a.csv}`"},
    {"{directory: c}", "ckpt/here",
     "job.yaml:24: `checkpoint` must be a mapping of keys, not \"ckpt/here\"; for example "
     "`checkpoint: {directory: ckpt/here}`"},
    {"  partitioner: {FixedShards: {num_shards: 2}}", "  partitioner: FixedShards",
     "job.yaml:23: FixedShards needs its argument `num_shards`; for example `{FixedShards: "
     "{num_shards: 2}}`"},
    {"binary_crossentropy", "keras.losses.BinaryCrossentropy(from_logits=True, axis=-1)",
     "job.yaml:9: `compile.loss`: arguments are written as a mapping: `{BinaryCrossentropy: "
     "{from_logits: true, axis: -1}}`, not \"keras.losses.BinaryCrossentropy(from_logits=True, "
     "axis=-1)\""},
    {"learning_rate: 0.01", "learning_rate: {CosineDecay: {decay_steps: 5}}",
     "job.yaml:10: Adam: learning_rate must be a number: the schedule CosineDecay is not supported "
     "yet"},
    {"activation: relu", "kernel_constraint: MaxNorm",
     "job.yaml:5: `kernel_constraint` of Dense is not supported yet; leave it out"},
    {"activation: relu", "kernel_regularizer: {L2: {l2: -0.1}}",
     "job.yaml:5: L2: l2 must be at least 0, not -0.1"},
    {"activation: relu", "kernel_initializer: {uniform: {minvl: 0}}",
     "job.yaml:5: RandomUniform has no argument \"minvl\"; it has minval, maxval, seed; did you "
     "mean \"minval\"?"},
    {"activation: relu", "input_shape: [4]",
     "job.yaml:5: Dense has no argument \"input_shape\"; it has units, activation, use_bias, "
     "kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer, trainable, "
     "dtype"},
    {"placement: balanced", "name: TPUStrategy",
     "job.yaml:22: there is no strategy tpu, because Cohort runs on CPUs and CUDA GPUs: choose "
     "mirrored for the devices of one machine, or multi_worker_mirrored for several"},
    {"placement: balanced", "name: ParameterServer",
     "job.yaml:22: there is no strategy \"ParameterServer\"; there are parameter_server, "
     "one_device, "
     "central_storage, mirrored, multi_worker_mirrored; did you mean \"parameter_server\"?"},
    {"placement: balanced", "name: mirrored\n  backup_work: drop\n  replicas_to_aggregate: 1",
     "job.yaml:23: strategy mirrored has no backup work, because every replica owns a part of the "
     "variables; parameter_server has it"},
    {"placement: balanced", "name: mirrored\n  communication: NCCL",
     "job.yaml:23: communication nccl exchanges the memory of GPUs, and Cohort's replicas exchange "
     "gradients in host memory: write auto, ring or direct"},
    {"placement: balanced", "name: mirrored\n  cross_device_ops: tf.distribute.NcclAllReduce",
     "job.yaml:23: communication nccl exchanges the memory of GPUs, and Cohort's replicas exchange "
     "gradients in host memory: write auto, ring or direct"},
    {"placement: balanced", "name: mirrored\n  communication: ring\n  deterministic: true",
     "job.yaml:23: the sums of communication ring depend on the number of replicas, and the job "
     "has "
     "`deterministic: true`: write `communication: direct`"},
    {"placement: balanced", "communication: rings",
     "job.yaml:22: `strategy.communication` must be one of auto, ring, direct, nccl, not "
     "\"rings\"; did you mean \"ring\"?"},
    {"placement: balanced", "cross_device_ops: AllReduce",
     "job.yaml:22: `strategy.cross_device_ops` must be one of ReductionToOneDevice, "
     "HierarchicalCopyAllReduce, NcclAllReduce, not \"AllReduce\"; did you mean "
     "\"NcclAllReduce\"?"},
    {"placement: balanced", "communication: ring\n  cross_device_ops: ReductionToOneDevice",
     "job.yaml:23: ReductionToOneDevice is `communication: direct`, but the job has "
     "`communication: ring`: leave out one of the two keys"},
    {"learning_rate: 0.01", "learning_rate: .inf",
     "job.yaml:10: Adam: learning_rate must be a number, not \".inf\""},
    {"learning_rate: 0.01", "sparse_update: lzy",
     "job.yaml:10: Adam: sparse_update must be keras or lazy, not \"lzy\"; did you mean "
     "\"lazy\"?"},
    {"[accuracy]", "[{BinaryAccuracy: {threshold: 2}}]",
     "job.yaml:11: BinaryAccuracy: threshold must be in [0, 1], not 2"},
    // YAML itself.
    {"{directory: c}", "{directory: c", "job.yaml:25: not YAML: end of map flow not found"},
    {"{learning_rate: 0.01}", "{beta_1: 1}", "job.yaml:10: Adam: beta_1 must be in [0, 1), not 1"},
    {"{learning_rate: 0.01}", "{learning_rate: 1e31}",
     "job.yaml:10: Adam: learning_rate must be in [0, 1e+30], not 1e+31"},
    {"{learning_rate: 0.01}", "{beta_2: 1}", "job.yaml:10: Adam: beta_2 must be in [0, 1), not 1"},
    {"{learning_rate: 0.01}", "{epsilon: 1e31}",
     "job.yaml:10: Adam: epsilon must be in [0, 1e+30], not 1e+31"},
    {"{learning_rate: 0.01}", "{weight_decay: 1e31}",
     "job.yaml:10: Adam: weight_decay must be in [0, 1e+30], not 1e+31"},
    {"name: demo", "name: &a [*a]", "job.yaml:1: `name` must be text, not a list"},
    {"name: demo", "name: *nobody", "job.yaml:1: not YAML: the referenced anchor is not defined"},
    {"checkpoint: {directory: c}", "---\nname: b", "job.yaml:25: a job is one YAML document"},
};

// The message with the names of classes in the place of "<layers>".
std::string WithNames(std::string_view message) {
  std::string text(message);
  const std::pair<std::string_view, const SchemaSet*> kinds[] = {
      {"<layers>", &Layers()},
      {"<activations>", &ActivationSchemas()},
      {"<initializers>", &InitializerSchemas()},
      {"<sources>", &Sources()},
      {"<transforms>", &Transforms()}};
  for (const auto& [mark, classes] : kinds) {
    const size_t at = text.find(mark);
    if (at == std::string::npos) continue;
    std::vector<std::string> names;
    for (const ClassSchema* schema : classes->Schemas()) names.push_back(schema->name);
    text.replace(at, mark.size(), fmt::format("{}", fmt::join(names, ", ")));
  }
  return text;
}

TEST_CASE("errors name the line and say what is wrong") {
  CHECK(std::size(kCases) >= 25);
  for (const Case& c : kCases) {
    const auto job = ParseJob(With(c.from, c.to), "job.yaml");
    INFO(c.from << " -> " << c.to);
    CHECK_FALSE(job.ok());
    CHECK(std::string(job.status().message()) == WithNames(c.message));
  }
}

// The job with these keys of `strategy` (in its line 22), `data.batch_size` and `fit`.
absl::StatusOr<JobFile> ParseSteps(std::string_view strategy,
                                   std::string_view batch = "batch_size: 16",
                                   std::string_view fit = "{epochs: 2}") {
  std::string text = With("  placement: balanced", std::string("  ").append(strategy));
  const auto replace = [&text](std::string_view from, std::string_view to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace("batch_size: 16", batch);
  replace("{epochs: 2}", fit);
  return ParseJob(text, "job.yaml");
}

TEST_CASE("TensorFlow's names of the communication become ours") {
  const auto communication = [](std::string_view keys) {
    const auto job = ParseSteps(fmt::format("mode: sync\n  {}", keys), "batch_size: 16");
    REQUIRE(job.status().message() == "");
    return job->spec.strategy().communication();
  };
  CHECK(communication("name: MirroredStrategy") == "auto");
  CHECK(communication("communication: CommunicationImplementation.RING") == "ring");
  CHECK(communication("name: mirrored\n  communication: AUTO") == "auto");
  CHECK(communication("name: mirrored\n  cross_device_ops: ReductionToOneDevice") == "direct");
  CHECK(communication("name: mirrored\n  cross_device_ops: HierarchicalCopyAllReduce") == "auto");
  CHECK(communication("cross_device_ops: NcclAllReduce") == "nccl");
}

TEST_CASE("the rules of steps of several closures") {
  struct StepCase {
    std::string_view strategy;
    std::string message;
    std::string_view batch = "batch_size: 16";
    std::string_view fit = "{epochs: 2}";
  };
  const std::string both =
      "`backup_work: drop` and `replicas_to_aggregate` belong together: how many of the closures "
      "of a step close it";
  const std::string global =
      "job.yaml:13: `data.global_batch_size` needs `strategy.mode: sync` and "
      "`strategy.closures_per_step`: a closure's batch is global_batch_size / closures_per_step";
  const StepCase cases[] = {
      {"mode: sync\n  backup_work: dorp",
       "job.yaml:23: `strategy.backup_work` must be one of none, speculative, drop, not "
       "\"dorp\"; did you mean \"drop\"?"},
      {"mode: sync\n  deterministic: maybe",
       "job.yaml:23: `strategy.deterministic` must be one of auto, true, false, not \"maybe\""},
      {"backup_work: speculative", "job.yaml:22: `strategy.backup_work` applies to mode sync"},
      {"closures_per_step: 3",
       "job.yaml:22: `strategy.closures_per_step` applies to the modes sync and "
       "bounded_staleness: "
       "leave it out, or write `mode: sync`"},
      {"mode: sync\n  closures_per_step: 4097",
       "job.yaml:23: a step has at most 4096 closures, not 4097"},
      {"mode: sync\n  staleness: 1",
       "job.yaml:23: `strategy.staleness` applies to the mode bounded_staleness"},
      {"mode: sync\n  scale_learning_rate: sqrt",
       "job.yaml:23: `strategy.scale_learning_rate` must be one of none, linear, not \"sqrt\""},
      {"scale_learning_rate: linear",
       "job.yaml:22: `strategy.scale_learning_rate: linear` applies to mode sync: in mode async an "
       "update has the gradient of one closure"},
      {"mode: sync\n  backup_work: drop", "job.yaml:23: " + both},
      {"mode: sync\n  replicas_to_aggregate: 2", "job.yaml:23: " + both},
      {"mode: sync\n  backup_work: drop\n  closures_per_step: 2\n  replicas_to_aggregate: 3",
       "job.yaml:25: `strategy.replicas_to_aggregate` is 3, but a step has 2 closures"},
      {"deterministic: true", "job.yaml:22: `strategy.deterministic: true` needs mode sync"},
      {"mode: sync\n  deterministic: true\n  backup_work: drop\n  replicas_to_aggregate: 2",
       "job.yaml:23: `strategy.deterministic: true` excludes `backup_work: drop`: which closures "
       "of a step count depends on their speed"},
      {"mode: sync\n  deterministic: \"true\"",
       "job.yaml:24: `strategy.deterministic: true` excludes `visitation: independent`: which "
       "records a step has depends on the workers",
       "batch_size: 16\n  visitation: independent", "{steps_per_epoch: 2}"},
      {"mode: sync",
       "job.yaml:20: `fit.steps_per_execution` must be 1 in mode sync: each closure is part of one "
       "step. Several closures of a step travel in one message anyway",
       "batch_size: 16", "{epochs: 2, steps_per_execution: 2}"},
      {"closures_in_flight: 2", global, "global_batch_size: 48"},
      {"mode: sync", global, "global_batch_size: 48"},
      {"mode: bounded_staleness\n  closures_per_step: 3", global, "global_batch_size: 48"},
      {"mode: sync\n  closures_per_step: 3",
       "job.yaml:14: give `data.batch_size` (of one closure) or `data.global_batch_size`, not both",
       "batch_size: 16\n  global_batch_size: 48"},
      {"mode: sync\n  closures_per_step: 3",
       "job.yaml:13: `data.global_batch_size` is 50, which 3 closures per step do not divide",
       "global_batch_size: 50"},
  };
  for (const StepCase& c : cases) {
    const auto job = ParseSteps(c.strategy, c.batch, c.fit);
    INFO(c.strategy << "; " << c.batch << "; " << c.fit);
    CHECK(std::string(job.status().message()) == c.message);
  }
}

TEST_CASE("the batch of an update is stated for each mode") {
  const auto text = [](std::string_view strategy, uint32_t closures,
                       std::string_view batch = "batch_size: 16") {
    const auto job = ParseSteps(strategy, batch);
    REQUIRE(job.status().message() == "");
    return BatchText(job->spec, closures);
  };
  CHECK(text("placement: balanced", 0) ==
        "batch: 16 records; each update is of one batch, so the effective batch is 16");
  CHECK(text("mode: sync", 3) ==
        "batch: 16 records per closure; a synchronous step has 3 closures, so the global batch is "
        "48");
  CHECK(text("mode: sync\n  scale_learning_rate: linear", 3) ==
        "batch: 16 records per closure; a synchronous step has 3 closures, so the global batch is "
        "48; the learning rate is multiplied by 3");
  CHECK(text("mode: sync\n  closures_per_step: 3", 3, "global_batch_size: 96") ==
        "batch: 32 records per closure; a synchronous step has 3 closures, so the global batch is "
        "96");
  CHECK(text("mode: sync\n  deterministic: true", 0) ==
        "batch: 16 records per closure; a synchronous step has as many closures as the cluster has "
        "workers at the first start, so the global batch is 16 records per worker");
  const char* const drop = "mode: sync\n  backup_work: drop\n  replicas_to_aggregate: 2";
  CHECK(text(drop, 3) ==
        "batch: 16 records per closure; a synchronous step uses the first 2 of its 3 closures, so "
        "the global batch is 32");
  CHECK(text(drop, 0) ==
        "batch: 16 records per closure; a synchronous step uses the first 2 of its closures, so "
        "the global batch is 32");
  CHECK(text("mode: bounded_staleness\n  staleness: 1", 1) ==
        "batch: 16 records; each update is of one batch, so the effective batch is 16; workers are "
        "at most 1 step of 1 closure apart");
}

TEST_CASE("names that Keras and other strategies have are distinguished from a typo") {
  const struct {
    std::string_view from;
    std::string to;  // {}: each of the names
    std::vector<std::string_view> names;
  } cases[] = {
      {"- Dropout: {rate: 0.5}",
       "- {}",
       {"AveragePooling3D", "LSTM", "GRU", "SimpleRNN", "Bidirectional", "MultiHeadAttention",
        "Attention", "Lambda"}},
      {"Adam:", "{}:", {"Adadelta", "Adafactor", "Adamax", "Nadam", "Lamb", "Lion"}},
      {"binary_crossentropy",
       "{}",
       {"CategoricalHinge", "hinge", "KLDivergence", "kl_divergence", "poisson"}},
      {"[accuracy]", "[{}]", {"F1Score", "PrecisionAtRecall", "TruePositives", "MeanIoU"}},
      {"placement: balanced", "{}: 1", {"replicas", "device", "devices", "gpus", "tls", "trace"}},
      {"activation: relu", "{}: 1", {"activity_regularizer", "kernel_constraint"}},
      {"learning_rate: 0.01", "{}: 1", {"loss_scale_factor", "gradient_accumulation_steps"}},
      {"metrics: [accuracy]", "{}: 1", {"weighted_metrics", "jit_compile"}},
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
  const struct {
    std::string_view metric;
    std::string_view name;
    std::string_view mode;
  } directions[] = {
      {"AUC", "AUC", "max"},
      {"auc", "auc", "max"},
      {"Precision", "Precision", "max"},
      {"{Recall: {thresholds: 0.3, name: found}}", "found", "max"},
      {"{RootMeanSquaredError: {name: accuracy_error}}", "accuracy_error", "min"},
      {"sparse_top_k_categorical_accuracy", "sparse_top_k_categorical_accuracy", "max"},
      {"mae", "mae", "min"}};
  for (const auto& c : directions) {
    std::string job = With("{directory: c}", fmt::format("{{keep_best: val_{}}}", c.name));
    const std::string metrics = "metrics: [accuracy]";
    job.replace(job.find(metrics), metrics.size(), fmt::format("metrics: [{}]", c.metric));
    const auto parsed = ParseJob(job, "job.yaml");
    INFO(c.metric);
    REQUIRE(parsed.status().message() == "");
    CHECK(parsed->spec.checkpoint().mode() == c.mode);
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
        "job.yaml:1: the job needs `model` with its layers: sequential, functional or keras_json");
  for (const char* model : {"", "model: {}\n", "model: {name: a}\n"}) {
    const auto job = ParseJob(
        std::string(model) + "name: a\ndata: {train: {csv: {path: a.csv}, label: []}}", "job.yaml");
    CHECK_THAT(std::string(job.status().message()),
               Catch::Contains("`data.train.label` has 0 items"));
  }
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
  std::string bomb = "compile: {metrics: &l0 [acc, acc, acc, acc, acc, acc, acc, acc, acc]}\n";
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

#include "common/model/job_file.h"

#include <google/protobuf/util/message_differencer.h>

#include <catch2/catch.hpp>
#include <random>

#include "common/data/source_class.h"
#include "common/data/transform_class.h"
#include "common/model/activations.h"
#include "common/model/batch_text.h"
#include "common/model/job_defaults.h"
#include "common/model/job_test_text.h"
#include "common/model/layers/layer.h"
#include "common/placement/initializer_classes.h"
#include "common/testing/directory_test_util.h"
#include "common/testing/golden_test_cases.h"
#include "common/testing/status_test_util.h"

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
  // As in Keras, the string is no class.
  const auto strings = ParseJob(With("[accuracy]", "[Accuracy, {Accuracy: {name: same}}, ce]"), "");
  REQUIRE(strings.status().message() == "");
  const auto& metrics = strings->spec.compile().metric_classes();
  CHECK(metrics[0].name() == "Accuracy");
  CHECK(metrics[0].metric_class().class_name() == "accuracy");
  CHECK(metrics[1].metric_class().class_name() == "Accuracy");
  CHECK(metrics[2].name() == "ce");
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
      {"{output: w, expression: x / (z + 1)}",
       "{columns: [x, z], output: w, Expression: {expression: x / (z + 1)}}"},
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

TEST_CASE("a stream takes windows instead of epochs, and refuses what needs an end") {
  const auto stream = [](const std::string& from, const std::string& to) {
    std::string job = With("  batch_size: 16", "  visitation: stream");
    job.replace(job.find("{epochs: 2}"), 11, "{steps_per_epoch: 5}");
    job.replace(job.find("{skip: 100}"), 11, "{csv: {path: v.csv}}");
    const size_t at = job.find(from);
    REQUIRE(at != std::string::npos);
    return ParseJob(job.replace(at, from.size(), to), "job.yaml");
  };
  const auto job = stream("name: demo", "name: demo");
  INFO(job.status());
  REQUIRE(job.ok());
  CHECK(job->spec.data().stream().poll_s() == 5);
  CHECK(job->spec.fit().epochs() == kEpochsOfStream);
  for (const auto& [from, to, says] : {
           std::tuple("{steps_per_epoch: 5}", "{steps_per_epoch: 5, epochs: 2}",
                      "leave out `fit.epochs`"),
           std::tuple("{steps_per_epoch: 5}", "{steps_per_epoch: 5, validation_split: 0.5}",
                      "leave out `fit.validation_split`"),
           std::tuple("label: y", "label: y\n    take: 5", "leave out `data.train.take`"),
           std::tuple("{csv: {path: v.csv}}", "{skip: 5}", "`data.validation` needs a source"),
           std::tuple("visitation: stream", "visitation: stream\n  stream: {poll_s: 0}",
                      "`data.stream.poll_s` must be more than 0"),
           std::tuple("csv: {path: a.csv}", "json_lines: {path: a}", "needs `columns`"),
           std::tuple("csv: {path: a.csv}", "csv: {path: a.csv, sha256: ab}", "no `sha256`"),
           std::tuple("csv: {path: a.csv}", "generator: {name: recommender, records: 9}",
                      "not generator"),
       }) {
    INFO(to);
    CHECK(testing::Contains(testing::Message(stream(from, to).status()), says));
  }
}

struct Case {
  std::string_view from;  // a part of the job in job_test_text.h
  std::string_view to;
};

// Each is one slip in a good file. The whole message that its writer gets is in
// testdata/job_file_errors.txt.
const Case kCases[] = {
    // Keys.
    {"name: demo", "nmae: demo"},
    {"units: 8", "unitss: 8"},
    {"{rate: 0.5}", "{rate: 0.5, units: 3}"},
    {"  batch_size: 16", "  batch: 16"},
    {"dtype: float32}", "dtyp: float32}"},
    {"sequential:", "sequentail:"},
    {"learning_rate: 0.01", "learning_rat: 0.01"},
    {"num_shards: 2", "shards: 2"},
    {"{epochs: 2}", "{epochs: 2, epochs: 3}"},
    {"{epochs: 2}", "{[a]: 2}"},
    {"sequential:", "keras_json: x\n  sequential:"},
    // Types.
    {"units: 8", "units: eight"},
    {"units: 8", "units: \"8\""},
    {"units: 8", "units: 8.5"},
    {"units: 8", "units: 99999999999999999999"},
    {"rate: 0.5", "rate: [1]"},
    {"rate: 0.5", "rate: .nan"},
    {"batch_size: 16", "batch_size: -1"},
    {"batch_size: 16", "batch_size: 5000000000"},
    {"metrics: [accuracy]", "metrics: {AUC: {curve: PR}}"},
    {"- Dropout: {rate: 0.5}", "- Dropout: 0.5"},
    {"- Dropout: {rate: 0.5}", "- keras.layers.Dropout(0.5, seed=None)"},
    {"metrics: [accuracy]", "metrics: accuracy"},
    {"{skip: 100}", "{skip: 100, shuffle: maybe}"},
    {"{epochs: 2}", "7"},
    {"  batch_size: 16", "  visitation: sometimes"},
    {"learning_rate: 0.01", "learning_rate: {ExponentialDecay: 1}"},
    {"activation: relu", "use_bias: 2"},
    // Names.
    {"- Dropout: {rate: 0.5}", "- Lambda"},
    {"- Dropout: {rate: 0.5}", "- ConvLSTM2D: {filters: 32}"},
    {"- Dropout: {rate: 0.5}", "- Droput: {rate: 0.5}"},
    {"activation: relu", "activation: rleu"},
    {"activation: relu", "activation: {relu: {slope: 1}}"},
    {"activation: relu", "activation: threshold"},
    {"- Dropout: {rate: 0.5}", "- Cropping1D: {cropping: [[1], 1]}"},
    {"- Dropout: {rate: 0.5}", "- ZeroPadding2D: {data_format: channels_first}"},
    {"binary_crossentropy", "binary_crosentropy"},
    {"[accuracy]", "[acuracy]"},
    {"binary_crossentropy", "CTC"},
    {"[accuracy]", "[Mean]"},
    {"[accuracy]", "[{accuracy: {name: epoch}}]"},
    {"[accuracy]", "[accuracy, {BinaryAccuracy: {name: loss}}]"},
    {"[accuracy]", "[{AUC: {curve: POC}}]"},
    {"[accuracy]", "[{IoU: {num_classes: 2}}]"},
    {"[accuracy]", "[{AUC: {thresholds: [0.5, 2]}}]"},
    {"[accuracy]", "[{AUC: {thresholds: [low]}}]"},
    {"[accuracy]", "[acc, acc]"},
    {"Adam:", "LossScaleOptimizer:"},
    {"learning_rate: 0.01", "loss_scale_factor: 2"},
    {"learning_rate: 0.01", "clipnorm: 1, clipvalue: 1"},
    {"optimizer: {Adam: {learning_rate: 0.01}}",
     "optimizers:\n  - {variables: '*', optimizer: adam}\n  optimizer: adam"},
    {"optimizer: {Adam: {learning_rate: 0.01}}", "optimizers: []"},
    {"optimizer: {Adam: {learning_rate: 0.01}}", "optimizers: [{optimizer: adam}]"},
    {"optimizer: {Adam: {learning_rate: 0.01}}", "optimizers: [{variables: '*'}]"},
    {"optimizer: {Adam: {learning_rate: 0.01}}",
     "optimizers:\n  - variables: '*'\n    optimizer:\n      Adam:\n        beta_1: 1"},
    {"activation: relu", "kernel_initializer: he_norml"},
    {"FixedShards:", "Fixed:"},
    {"placement: balanced", "placement: balance"},
    {"placement: balanced", "pull_ahead: 17"},
    {"placement: balanced", "mode: sync\n  pull_ahead: 1"},
    {"placement: balanced", "mode: bounded_staleness\n  pull_ahead: 16"},
    {"placement: balanced", "mode: sync\n  hot_rows: {steps: 4}"},
    {"placement: balanced", "hot_rows: {rows: 4}"},
    {"placement: balanced", "hot_rows: {steps: 4, rows: 0}"},
    {"placement: balanced", "closure_timeout_s: 0"},
    {"placement: balanced", "mode: multi_worker_mirrored"},
    {"placement: balanced", "mode: asink"},
    {"placement: balanced", "closures_per_step: 3"},
    {"placement: balanced", "replicas: 3"},
    {"placement: balanced", "rebalance: automatic"},
    {"placement: balanced", "name: mirrored\n  rebalance: auto"},
    {"placement: balanced", "table_memory_bytes: 1000000000\n  rebalance: auto"},
    {"{directory: c}", "{directory: c, save_best_only: true}"},
    {"{directory: c}", "{full_every: 0}"},
    {"name: demo", "name: a/b"},
    // What is missing, out of range, or contradictory.
    {"units: 8, ", ""},
    {"{rate: 0.5}", ""},
    {"units: 8", "units: "},
    {"learning_rate: 0.01", "beta_1: 1.5"},
    {"- Dropout: {rate: 0.5}", "- Dropout: {rate: 0.5}\n      name: x"},
    {"units: 8,", "inputs: input, units: 8,"},
    {"sequential:", "functional:"},
    {"loss: binary_crossentropy", "from_logits: true"},
    {"csv: {path: a.csv}", "prefetch: 1"},
    {"csv: {path: a.csv}", "csv: {path: a.csv}\n    idx: {images: b}"},
    {"csv: {path: a.csv}", "generator: {name: mnist, records: 5}"},
    {"csv: {path: a.csv}", "generator: {name: recommender}"},
    {"csv: {path: a.csv}", "source: {CsvFile: {path: a.csv}}"},
    {"csv: {path: a.csv}", "cvs: {path: a.csv}"},
    {"{path: a.csv}", "{path: a.csv, delimiter: ab}"},
    {"{path: a.csv}", "\n      path: a.csv\n      colums: [x]"},
    {"dtype: float32}", "lookup: hash}"},
    {"dtype: float32}", "vocabulary: [a]}"},
    {"dtype: float32}", "lookup: string, scale: 2}"},
    {"dtype: float32}", "Rescaling: {scale: 2}, offset: 1}"},
    {"dtype: float32}", "Rescaling: {scale: x}}"},
    {"dtype: float32}", "Equals: x}"},
    {"dtype: float32}", "scale: x}"},
    {"dtype: float32}", "lookup: string, sparse: true}"},
    {"dtype: float32}", "Normalization: {mean: x}}"},
    {"{path: a.csv}", "{path: a.csv, no_header: true}"},
    {"label: y", "drop_remainder: true"},
    {"column: x,", "column: x, columns: [y],"},
    {"dtype: float32}", "dtype: float16}"},
    {"  batch_size: 16", "  visitation: independent"},
    {"  batch_size: 16", "  visitation: stream"},
    {"  batch_size: 16", "  stream: {poll_s: 1}"},
    {"{epochs: 2}", "{steps_per_epoch: 2}"},
    {"{epochs: 2}", "{epochs: 0}"},
    {"{epochs: 2}", "{initial_epoch: 2}"},
    {"{epochs: 2}", "{validation_data: [x, y]}"},
    {"{epochs: 2}", "{validation_freq: [0]}"},
    {"{epochs: 2}", "{validation_split: 1.5}"},
    {"{epochs: 2}", "{callbacks: [RemoteMonitor]}"},
    {"{epochs: 2}", "{callbacks: [LambdaCallback]}"},
    {"{epochs: 2}", "{callbacks: [{LearningRateScheduler: {schedule: {}}}]}"},
    {"{epochs: 2}", "{callbacks: [{LearningRateScheduler: {schedule: {a: 1}}}]}"},
    {"{epochs: 2}", "{callbacks: [{LearningRateScheduler: {schedule: {0.5: 1}}}]}"},
    {"{epochs: 2}", "{callbacks: [{ReduceLROnPlateau: {factor: 1}}]}"},
    {"{epochs: 2}", "{callbacks: [{ReduceLROnPlateau: {monitor: val_los}}]}"},
    {"{epochs: 2}", "{callbacks: [{EarlyStopping: {monitor: loss, restore_best_weights: true}}]}"},
    {"{epochs: 2}", "{callbacks: [{ModelCheckpoint: {filepath: best.keras}}]}"},
    {"{epochs: 2}", "{callbacks: [{ModelCheckpoint: {filepath: d}}]}"},
    {"{epochs: 2}", "{callbacks: [{ModelCheckpoint: {save_freq: often}}]}"},
    {"{epochs: 2}", "{callbacks: [{TensorBoard: {profile_batch: 1}}]}"},
    {"{epochs: 2}", "{epochs: 2}\ninit_from: a\ninitial_weights: {path: b}"},
    {"{directory: c}", "{max_to_keep: 0}"},
    {"{directory: c}", "{every_seconds: -1}"},
    {"{directory: c}", "{every_seconds: 1e300}"},
    {"{directory: c}", "{cut_deadline_s: 0}"},
    {"{directory: c}", "{keep_best: val_los}"},
    {"{directory: c}", "{keep_best: accuracy}"},
    {"{directory: c}", "{keep_best: val_loss, mode: least}"},
    {"{directory: c}", "{mode: min}"},
    {"{directory: c}", "{keep_best: val_loss}\nevaluate: {by_closures: false}"},
    {"num_shards: 2", "num_shards: 0"},
    // A string for a mapping, Python for YAML, and what TensorFlow has.
    {"train:\n    csv: {path: a.csv}", "train:\n    csv: a.csv"},
    {"{directory: c}", "ckpt/here"},
    {"  partitioner: {FixedShards: {num_shards: 2}}", "  partitioner: FixedShards"},
    {"binary_crossentropy", "keras.losses.BinaryCrossentropy(from_logits=True, axis=-1)"},
    {"learning_rate: 0.01", "learning_rate: {CosineDecay: {decay_steps: 5}}"},
    {"activation: relu", "kernel_constraint: {MaxNorm: {max_value: -1}}"},
    {"activation: relu", "kernel_regularizer: {L2: {l2: -0.1}}"},
    {"activation: relu", "kernel_initializer: {uniform: {minvl: 0}}"},
    {"activation: relu", "input_shape: [4]"},
    {"placement: balanced", "name: TPUStrategy"},
    {"placement: balanced", "name: ParameterServer"},
    {"placement: balanced", "name: mirrored\n  backup_work: drop\n  replicas_to_aggregate: 1"},
    {"placement: balanced", "name: mirrored\n  communication: NCCL"},
    {"placement: balanced", "name: mirrored\n  cross_device_ops: tf.distribute.NcclAllReduce"},
    {"placement: balanced", "name: mirrored\n  communication: ring\n  deterministic: true"},
    {"placement: balanced", "communication: rings"},
    {"placement: balanced", "cross_device_ops: AllReduce"},
    {"placement: balanced", "communication: ring\n  cross_device_ops: ReductionToOneDevice"},
    {"learning_rate: 0.01", "learning_rate: .inf"},
    {"learning_rate: 0.01", "sparse_update: lzy"},
    {"[accuracy]", "[{BinaryAccuracy: {threshold: 2}}]"},
    // YAML itself.
    {"{directory: c}", "{directory: c"},
    {"{learning_rate: 0.01}", "{beta_1: 1}"},
    {"{learning_rate: 0.01}", "{learning_rate: 1e31}"},
    {"{learning_rate: 0.01}", "{beta_2: 1}"},
    {"{learning_rate: 0.01}", "{epsilon: 1e31}"},
    {"{learning_rate: 0.01}", "{weight_decay: 1e31}"},
    {"name: demo", "name: &a [*a]"},
    {"name: demo", "name: *nobody"},
    {"checkpoint: {directory: c}", "---\nname: b"},
};

// The message with "<layers>" in the place of their names.
std::string WithoutNames(std::string_view message) {
  std::string text(message);
  const std::pair<std::string_view, const SchemaSet*> kinds[] = {
      {"<layers>", &Layers()},
      {"<activations>", &ActivationSchemas()},
      {"<initializers>", &InitializerSchemas()},
      {"<sources>", &Sources()},
      {"<transforms>", &Transforms()}};
  for (const auto& [mark, classes] : kinds) {
    std::vector<std::string> names;
    for (const ClassSchema* schema : classes->Schemas()) names.push_back(schema->name);
    const std::string list = fmt::format("{}", fmt::join(names, ", "));
    const size_t at = text.find(list);
    if (at != std::string::npos) text.replace(at, list.size(), mark);
  }
  return text;
}

TEST_CASE("callbacks set keys of the job, and the rate only of an optimizer without a schedule") {
  std::string text = With("{epochs: 2}",
                          "{callbacks: [{ModelCheckpoint: {save_best_only: true, monitor: "
                          "val_accuracy, save_freq: 50}}, TensorBoard, {ReduceLROnPlateau: {}}, "
                          "{LearningRateScheduler: {schedule: {0: 0.1, 5: 1e-2}}}], "
                          "validation_every_epochs: 3, validation_split: 0}");
  const auto job = ParseJob(text, "job.yaml");
  INFO(job.status());
  REQUIRE(job.ok());
  const v1::JobSpec& spec = job->spec;
  CHECK(spec.checkpoint().keep_best() == "val_accuracy");
  CHECK(spec.checkpoint().mode() == "max");
  CHECK(spec.checkpoint().every_steps() == 50);
  CHECK(spec.report().log_dir() == "logs");
  CHECK(spec.fit().validation_freq() == 3);
  CHECK(Config(spec.fit().callbacks(3)).Floats("schedule") == std::vector{0.0, 0.1, 5.0, 0.01});
  const std::string number = "learning_rate: 0.01";
  text.replace(text.find(number), number.size(),
               "learning_rate: {CosineDecay: {initial_learning_rate: 1, decay_steps: 5}}");
  CHECK_THAT(std::string(ParseJob(text, "job.yaml").status().message()),
             Catch::StartsWith("job.yaml:20: ReduceLROnPlateau sets the learning rate, which must "
                               "be a number then, and the optimizer has a schedule"));
}

TEST_CASE("a callback replaces nothing that the job says") {
  const auto error = [](const std::string& fit) {
    return std::string(ParseJob(With("{epochs: 2}", fit), "job.yaml").status().message());
  };
  CHECK_THAT(error("{callbacks: [{ModelCheckpoint: {save_freq: 500}}, {BackupAndRestore: "
                   "{save_freq: 100}}]}"),
             Catch::Contains("BackupAndRestore asks for `checkpoint.every_steps: 100`, and the job "
                             "has 500: leave out one of them"));
  CHECK_THAT(error("{callbacks: [{TensorBoard: {update_freq: 10}}]}\nreport: {every_steps: 100}"),
             Catch::Contains("TensorBoard asks for `report.every_steps: 10`, and the job has 100"));
  CHECK_THAT(error("{callbacks: [{EarlyStopping: {restore_best_weights: true, min_delta: 0.1}}, "
                   "{ModelCheckpoint: {save_best_only: true}}]}"),
             Catch::Contains("a job keeps one best checkpoint: leave out `save_best_only`"));
  const auto job =
      ParseJob(With("{epochs: 2}", "{callbacks: [TensorBoard]}\nreport: {log_dir: a}"), "job.yaml");
  INFO(job.status());
  REQUIRE(job.ok());
  CHECK(job->spec.report().log_dir() == "a");
  CHECK(job->spec.report().every_steps() == 100);
}

TEST_CASE("the last records validate, and layers start from a checkpoint") {
  std::string text = With("  validation: {skip: 100}\n", "");
  text.replace(text.find("{epochs: 2}"), 11, "{validation_freq: [1, 3], validation_split: 0.25}");
  const auto job = ParseJob(text + "init_from: runs/1\n", "job.yaml");
  INFO(job.status());
  REQUIRE(job.ok());
  CHECK(job->spec.data().validation().source_class().class_name() == "csv");
  CHECK(job->spec.fit().validation_epochs_size() == 2);
  CHECK(job->spec.initial_weights().path() == "runs/1");
  CHECK(job->spec.initial_weights().skip_mismatch());
}

TEST_CASE("errors name the line and say what is wrong") {
  testing::GoldenCases observed;
  for (const Case& c : kCases) {
    const auto job = ParseJob(With(c.from, c.to), "job.yaml");
    INFO(c.from << " -> " << c.to);
    CHECK_FALSE(job.ok());
    observed.emplace_back(fmt::format("{} -> {}", c.from, c.to),
                          WithoutNames(std::string(job.status().message())));
  }
  CHECK(testing::DifferenceFromGolden("common/model/testdata/job_file_errors.txt", observed) == "");
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
    std::string_view batch = "batch_size: 16";
    std::string_view fit = "{epochs: 2}";
  };
  const StepCase cases[] = {
      {"mode: sync\n  backup_work: dorp"},
      {"mode: sync\n  deterministic: maybe"},
      {"backup_work: speculative"},
      {"closures_per_step: 3"},
      {"mode: sync\n  closures_per_step: 4097"},
      {"mode: sync\n  staleness: 1"},
      {"mode: sync\n  scale_learning_rate: sqrt"},
      {"scale_learning_rate: linear"},
      {"mode: sync\n  backup_work: drop"},
      {"mode: sync\n  replicas_to_aggregate: 2"},
      {"mode: sync\n  backup_work: drop\n  closures_per_step: 2\n  replicas_to_aggregate: 3"},
      {"deterministic: true"},
      {"mode: sync\n  deterministic: true\n  backup_work: drop\n  replicas_to_aggregate: 2"},
      {"mode: sync\n  deterministic: \"true\"", "batch_size: 16\n  visitation: independent",
       "{steps_per_epoch: 2}"},
      {"mode: sync", "batch_size: 16", "{epochs: 2, steps_per_execution: 2}"},
      {"closures_in_flight: 2", "global_batch_size: 48"},
      {"mode: sync", "global_batch_size: 48"},
      {"mode: bounded_staleness\n  closures_per_step: 3", "global_batch_size: 48"},
      {"mode: sync\n  closures_per_step: 3", "batch_size: 16\n  global_batch_size: 48"},
      {"mode: sync\n  closures_per_step: 3", "global_batch_size: 50"},
  };
  testing::GoldenCases observed;
  for (const StepCase& c : cases) {
    const absl::Status status = ParseSteps(c.strategy, c.batch, c.fit).status();
    observed.emplace_back(fmt::format("{}; {}; {}", c.strategy, c.batch, c.fit),
                          std::string(status.message()));
  }
  CHECK(testing::DifferenceFromGolden("common/model/testdata/step_errors.txt", observed) == "");
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
      {"Adam:", "{}:", {"LossScaleOptimizer"}},
      {"binary_crossentropy", "{}", {"CTC", "Circle", "circle"}},
      {"[accuracy]", "[{}]", {"Mean", "Sum"}},
      {"placement: balanced", "{}: 1", {"device", "devices", "gpus", "tls", "trace"}},
      {"activation: relu", "{}: 1", {"lora_rank", "quantization_config"}},
      {"metrics: [accuracy]", "{}: 1", {"jit_compile"}},
      {"{directory: c}", "{{directory: c, {}: 1}}", {"save_best_only"}},
  };
  for (const auto& c : cases) {
    for (const std::string_view name : c.names) {
      const auto job = ParseJob(With(c.from, fmt::format(fmt::runtime(c.to), name)), "job.yaml");
      INFO(name << ": " << job.status());
      CHECK(testing::Contains(job.status().ToString(), "is not supported yet"));
    }
  }
  const auto multi = ParseJob(With("Adam:", "MultiOptimizer:"), "job.yaml");
  CHECK(testing::Contains(multi.status().ToString(), "MultiOptimizer is the key `optimizers`"));
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
  CHECK(ParseJob("name: demo\n# caf\xe9\n", "job.yaml").status().message() ==
        "job.yaml:2: is not UTF-8 at the byte 0xe9: save the file as UTF-8");
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

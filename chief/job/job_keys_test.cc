#include "chief/job/job_keys.h"

#include <catch2/catch.hpp>

#include "common/optimizers/optimizers.h"
#include "proto/config.pb.h"

namespace cohort {
namespace {

v1::JobSpec SpecWithKeys() {
  v1::JobSpec spec;
  spec.set_name("t");
  v1::LayerSpec* layer = spec.mutable_model()->add_layers();
  layer->set_class_name("Dense");
  (*layer->mutable_config())["units"] = ConfigOf(int64_t{16});
  for (const char* name : {"accuracy", "auc"}) {
    v1::MetricSpec* metric = spec.mutable_compile()->add_metric_classes();
    metric->set_name(name);
    metric->mutable_metric_class()->set_class_name(name);
  }
  v1::ClassConfig* optimizer = spec.mutable_compile()->mutable_optimizer_class();
  (*optimizer->mutable_config())["learning_rate"] = ConfigOf(0.1);
  spec.mutable_compile()->set_sparse_update("lazy");
  spec.mutable_data()->set_visitation(v1::EXACTLY_ONCE);
  v1::ColumnTransform* transform = spec.mutable_data()->mutable_train()->add_transforms();
  std::vector<std::string> words;
  for (int i = 0; i < 100; ++i) words.push_back("word" + std::to_string(i));
  *transform->mutable_transform_class() =
      ClassOf("StringLookup", {{"vocabulary", ConfigOf(words)}});
  *spec.mutable_data()->mutable_train()->mutable_source_class() =
      ClassOf("csv", {{"path", ConfigOf(std::string_view("a.csv"))}});
  return spec;
}

TEST_CASE("the keys of a job are the fields that are set, as in its file") {
  const JobKeys keys = KeysOfSpec(SpecWithKeys());
  CHECK(keys.at("name") == "t");
  CHECK(keys.at("model.layers[0].class_name") == "Dense");
  CHECK(keys.at("model.layers[0].units") == "16");
  CHECK(keys.at("compile.metrics") == "accuracy, auc");
  CHECK(keys.at("compile.metrics[1].class_name") == "auc");
  CHECK(keys.at("compile.optimizer.sparse_update") == "lazy");
  CHECK(keys.at("compile.optimizer.learning_rate") == "0.1");
  CHECK(keys.at("data.visitation") == "exactly_once");
  CHECK(keys.at("data.train.csv.path") == "a.csv");
  CHECK(
      keys.at("data.train.transforms[0].StringLookup.vocabulary").starts_with("100 values, hash "));
  CHECK(!keys.contains("seed"));
}

TEST_CASE(
    "what the model reads of its columns is no key: a checkpoint without it is of the same job") {
  v1::JobSpec spec = SpecWithKeys();
  const JobKeys before = KeysOfSpec(spec);
  v1::ColumnRead* const read = spec.mutable_data()->mutable_train()->add_reads();
  read->set_column("id");
  read->set_dtype("int64");
  CHECK(KeysOfSpec(spec) == before);
}

TEST_CASE("the keys of several outputs are below those of one") {
  v1::JobSpec spec;
  for (const char* output : {"a", "b"}) {
    v1::OutputLoss* loss = spec.mutable_compile()->add_losses();
    loss->set_output(output);
    loss->mutable_loss_class()->set_class_name("MeanSquaredError");
    loss->set_weight(0.5);
  }
  const JobKeys keys = KeysOfSpec(spec);
  CHECK(keys.at("compile.loss[1].output") == "b");
  CHECK(keys.at("compile.loss[1].loss.class_name") == "MeanSquaredError");
  CHECK(keys.at("compile.loss[1].weight") == "0.5");
  CHECK(ChangeOf("compile.loss[1].weight") == Change::kFromWeights);
}

TEST_CASE("variables, slots and servers are keys, too") {
  v1::Layout layout;
  v1::VariableSpec* variable = layout.add_variables();
  variable->set_name("dense/kernel");
  variable->set_dtype(v1::FLOAT32);
  variable->add_dims(8);
  variable->add_dims(16);
  v1::OptimizerSpec optimizer = OptimizerOf("SGD", {});
  JobKeys keys;
  AddVariables(layout.variables(), {&optimizer, 1}, &keys);
  AddServers(2, &keys);
  CHECK(keys == JobKeys{{"servers", "2"}, {"variables.dense/kernel", "float32 [8, 16]"}});
  optimizer = OptimizerOf("SGD", {{"momentum", ConfigOf(0.9)}});
  AddVariables(layout.variables(), {&optimizer, 1}, &keys);
  CHECK(keys.at("compile.optimizer.slots") == "momentum");
}

TEST_CASE("changes name the key and both values") {
  v1::JobSpec now = SpecWithKeys();
  now.set_seed(7);
  now.mutable_model()->mutable_layers(0)->clear_config();
  (*now.mutable_compile()->mutable_optimizer_class()->mutable_config())["learning_rate"] =
      ConfigOf(0.01);
  const auto changes = ChangesOf(KeysOfSpec(SpecWithKeys()), KeysOfSpec(now));
  REQUIRE(changes.size() == 3);
  CHECK(changes[0].key == "compile.optimizer.learning_rate");
  CHECK(changes[0].then == "0.1");
  CHECK(changes[0].now == "0.01");
  CHECK(changes[0].change == Change::kContinues);
  CHECK(changes[1].key == "model.layers[0].units");
  CHECK(changes[1].now == "not set");
  CHECK(changes[1].change == Change::kFromWeights);
  CHECK(changes[2].change == Change::kOtherJob);
  CHECK(changes[2].then == "not set");
}

TEST_CASE("an identity that this version can compare replaces the keys of the spec") {
  v1::Manifest manifest;
  CHECK(!KeysOfManifest(manifest).has_value());
  *manifest.mutable_job_spec() = SpecWithKeys();
  CHECK(KeysOfManifest(manifest)->at("model.layers[0].units") == "16");
  JobKeys keys = KeysOfSpec(SpecWithKeys());
  keys["model.layers[0].units"] = "17";
  *manifest.mutable_identity() = IdentityOf(keys);
  for (const v1::JobKey& key : manifest.identity().keys()) {
    CHECK(ChangeOf(key.key()) >= Change::kFromWeights);
  }
  CHECK(KeysOfManifest(manifest)->at("model.layers[0].units") == "17");
  CHECK(KeysOfManifest(manifest)->at("compile.optimizer.learning_rate") == "0.1");
  keys.erase("model.layers[0].units");  // a version that lacks the argument
  *manifest.mutable_identity() = IdentityOf(keys);
  CHECK(KeysOfManifest(manifest)->at("model.layers[0].units") == "16");
  manifest.mutable_identity()->set_format_version(99);
  CHECK(KeysOfManifest(manifest)->at("model.layers[0].units") == "16");
}

}  // namespace
}  // namespace cohort

#include <catch2/catch.hpp>

#include "chief/api/dataset_builder.h"
#include "chief/api/keras_class.h"
#include "chief/api/partitioners.h"
#include "chief/api/step_trace.h"
#include "chief/api/variable_set.h"
#include "common/data/dataset.h"
#include "common/placement/partitioner.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

using Catch::Contains;

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

TEST_CASE("an optimizer by name has Keras' defaults for what it does not name") {
  const auto spec = MakeOptimizerSpec({"rmsprop", {{"learning_rate", 0.1}, {"centered", true}}});
  REQUIRE(spec.ok());
  CHECK(spec->rule().class_name() == "RMSprop");
  CHECK(spec->rule().config().at("learning_rate").f() == 0.1);
  CHECK(spec->rule().config().at("rho").f() == 0.9);
  CHECK(spec->rule().config().at("centered").b());
  CHECK(spec->sparse_update() == "keras");
  const auto sgd = MakeOptimizerSpec({"sgd", {{"learning_rate", 1}}});
  CHECK(sgd->rule().config().at("learning_rate").f() == 1);
  CHECK(MakeOptimizerSpec({"adam", {{"sparse_update", "lazy"}}})->sparse_update() == "lazy");
}

TEST_CASE("an optimizer with a wrong name or argument is refused, with what there is") {
  REQUIRE_THAT(MessageOf(MakeOptimizerSpec("RMSprob").status()), Contains("RMSprop"));
  REQUIRE_THAT(MessageOf(MakeOptimizerSpec({"SGD", {{"learning_rat", 0.1}}}).status()),
               Contains("\"learning_rat\"") && Contains("learning_rate"));
  REQUIRE_THAT(MessageOf(MakeOptimizerSpec({"SGD", {{"momentum", "high"}}}).status()),
               Contains("momentum"));
  REQUIRE_THAT(MessageOf(MakeOptimizerSpec({"SGD", {{"sparse_update", true}}}).status()),
               Contains("sparse_update"));
}

TEST_CASE("a variable set has specs with Keras' initializers") {
  VariableSet variables(/*seed=*/7);
  const Variable table = variables.AddEmbedding("table", 8, 20);
  const Variable kernel = variables.Add("kernel", {20, 3});
  variables.Add("bias", {3}, {"RandomUniform", {{"minval", -1}, {"maxval", 1}, {"seed", 9}}});
  CHECK(TypeToString(table.type) == "float32[8, 20]");
  CHECK(kernel.name == "kernel");
  const auto specs = variables.Specs();
  REQUIRE(specs.ok());
  REQUIRE(specs->size() == 3);
  CHECK((*specs)[0].row_reads());
  CHECK((*specs)[0].initializer().class_name() == "RandomUniform");
  CHECK((*specs)[0].initializer().seed() == 7);
  CHECK(!(*specs)[1].row_reads());
  CHECK((*specs)[1].initializer().class_name() == "GlorotUniform");
  CHECK((*specs)[1].initializer().fan_in() == 20);
  CHECK((*specs)[1].initializer().fan_out() == 3);
  CHECK((*specs)[2].initializer().maxval() == 1);
  CHECK((*specs)[2].initializer().seed() == 9);
}

TEST_CASE("a variable set keeps the first error, with the variable's name") {
  VariableSet variables;
  variables.Add("good", {2});
  variables.Add("first", {2}, "glorot");
  variables.Add("second", {2}, "nothing");
  REQUIRE_THAT(MessageOf(variables.Specs().status()), Contains("first: "));
}

TEST_CASE("a traced step pushes the gradients of the variables that it reads") {
  VariableSet variables;
  const Variable table = variables.AddEmbedding("table", 8, 4);
  const Variable kernel = variables.Add("kernel", {4, 1});
  const auto program = TraceStep("train", 32, [&](StepTrace* step) {
    const Expr ids = step->Input("ids", DType::kInt64, {3});
    const Expr y = step->Input("y", DType::kFloat32, {1});
    const Expr pooled = ReduceMean(step->Lookup(table, ids), {1});
    step->Output("loss", step->Minimize(Square(MatMul(pooled, step->Read(kernel)) - y)));
  });
  INFO(MessageOf(program.status()));
  REQUIRE(program.ok());
  CHECK(program->name == "train");
  REQUIRE(program->arguments.size() == 2);
  CHECK(TypeToString(program->type(program->arguments[0].value)) == "int64[batch<=32, 3]");
  REQUIRE(program->pushes.size() == 2);
  for (const Push& push : program->pushes) {
    const bool sparse = program->variables[static_cast<size_t>(push.variable)].name == "table";
    CHECK((push.keys != kNoValue) == sparse);
  }
  REQUIRE(program->outputs.size() == 1);
  CHECK(TypeToString(program->type(program->outputs[0].value)) == "float32[]");
  CHECK(program->metrics.size() == 1);
}

TEST_CASE("an error of tracing names the step") {
  const auto mismatch = TraceStep("train", 32, [](StepTrace* step) {
    const Expr x = step->Input("x", DType::kFloat32, {3});
    step->Minimize(MatMul(x, step->Input("y", DType::kFloat32, {3})));
  });
  REQUIRE_THAT(MessageOf(mismatch.status()), Contains("step 'train': "));
  REQUIRE_THAT(MessageOf(TraceStep("train", 0, [](StepTrace*) {}).status()),
               Contains("batch size is 0"));
}

TEST_CASE("a dataset by the builder has the columns of its transforms") {
  DatasetBuilder builder = DatasetBuilder::Generator("recommender", 640, 1);
  builder.StringLookup("features", {"avenger", "ironman"}).Equals("label", "yes").Take(64);
  const auto dataset = Dataset::Open(builder.spec());
  INFO(MessageOf(dataset.status()));
  REQUIRE(dataset.ok());
  CHECK((*dataset)->num_records() == 64);
  const auto features = (*dataset)->FindFeatures(std::vector<std::string>{"features", "label"});
  REQUIRE(features.ok());
  CHECK((*dataset)->features()[static_cast<size_t>((*features)[0])].dtype == DType::kInt64);
  CHECK((*dataset)->features()[static_cast<size_t>((*features)[1])].dtype == DType::kFloat32);
  REQUIRE_THAT(MessageOf(builder.CreateOn(nullptr).status()), Contains("call Batch"));
}

TEST_CASE("a dataset takes sources and transforms by name") {
  DatasetBuilder builder = DatasetBuilder::Source(
      {"generator", {{"name", "recommender"}, {"records", 64}, {"seed", 1}}});
  builder.Transform("features", "StringLookup")
      .Transform("label", {"Equals", {{"value", "yes"}}})
      .Transform("label", {"Rescaling", {{"scale", 2.0}}});
  const auto dataset = Dataset::Open(builder.spec());
  INFO(MessageOf(dataset.status()));
  REQUIRE(dataset.ok());
  CHECK((*dataset)->num_records() == 64);
  builder.Transform({"features", "features"}, "both", "Stak");
  REQUIRE_THAT(MessageOf(Dataset::Open(builder.spec()).status()),
               Contains("no transform \"Stak\"") && Contains("did you mean \"Stack\""));
}

TEST_CASE("the partitioners have TensorFlow's rules") {
  VariableSet variables;
  variables.Add("v", {1000, 256});  // 1,024,000 bytes
  const auto specs = variables.Specs();
  REQUIRE(specs.ok());
  const auto shards = [&](const v1::PartitionerSpec& spec) {
    return Partitioner::Create(spec)->NumShards((*specs)[0]);
  };
  CHECK(shards(FixedShardsPartitioner(3)) == 3);
  CHECK(shards(MinSizePartitioner()) == 1);
  CHECK(shards(MinSizePartitioner(256 << 10, 8)) == 4);
  CHECK(shards(MaxSizePartitioner(128 << 10)) == 8);
  CHECK(shards(MaxSizePartitioner(128 << 10, 2)) == 2);
}

}  // namespace
}  // namespace cohort

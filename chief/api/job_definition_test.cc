#include "chief/api/job_definition.h"

#include <catch2/catch.hpp>

#include "chief/api/locked_core_test_util.h"
#include "common/graph/expr.h"
#include "common/graph/program_builder.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

using testing::IdleCore;

// A program that pulls the variable "w".
Program Pulling(int64_t rows) {
  ProgramBuilder b("step");
  b.AddOutput("w", b.Read("w", {DType::kFloat32, {{rows, 0}}}));
  return *std::move(b).Build();
}

absl::Status SetVariables(JobDefinition* definition, int64_t rows) {
  v1::VariableSpec variable;
  variable.set_name("w");
  variable.set_dtype(v1::FLOAT32);
  variable.add_dims(rows);
  v1::PartitionerSpec partitioner;
  partitioner.set_class_name("FixedShards");
  partitioner.set_num_shards(1);
  v1::OptimizerSpec optimizer;
  optimizer.mutable_rule()->set_class_name("SGD");
  return definition->SetVariables({&variable, 1}, {&optimizer, 1}, partitioner, "");
}

TEST_CASE("the layout has the variables, placed on the servers") {
  IdleCore idle;
  JobDefinition definition(&idle.core);
  CHECK(definition.layout().tablets().empty());
  REQUIRE(SetVariables(&definition, 10).ok());
  CHECK(definition.layout().tablets_size() == 1);
}

TEST_CASE("a program whose step is too large is refused, in any order of the calls") {
  constexpr int64_t kTooMany = int64_t{2} << 30;  // 8 GiB
  IdleCore idle;
  JobDefinition definition(&idle.core);
  SECTION("variables first") {
    REQUIRE(SetVariables(&definition, kTooMany).ok());
    CHECK(absl::IsInvalidArgument(definition.RegisterStep(Pulling(kTooMany)).status()));
  }
  SECTION("program first") {
    REQUIRE(definition.RegisterStep(Pulling(kTooMany)).ok());
    CHECK(absl::IsInvalidArgument(SetVariables(&definition, kTooMany)));
  }
}

TEST_CASE("each dataset gets its own iterator, and needs a batch size") {
  IdleCore idle;
  JobDefinition definition(&idle.core);
  const v1::DatasetSpec spec;
  CHECK(absl::IsInvalidArgument(definition.CreatePerWorkerDataset(spec, {}).status()));
  const auto first = definition.CreatePerWorkerDataset(spec, {.batch_size = 4});
  const auto second = definition.CreatePerWorkerDataset(spec, {.batch_size = 4});
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(first->resource != second->resource);
}

}  // namespace
}  // namespace cohort

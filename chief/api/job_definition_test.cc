#include "chief/api/job_definition.h"

#include <catch2/catch.hpp>

#include "chief/api/locked_core_test_util.h"
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/program_builder.h"
#include "common/optimizers/optimizers.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

using testing::IdleCore;

// A program that pulls rows of the variable "w" by their keys.
Program Pulling(int64_t rows, int64_t row_elements) {
  ProgramBuilder b("step");
  const auto [keys, inverse] = Unique(b.Input("index", {DType::kInt64, {{4}}}));
  const Expr read = b.ReadRows("w", {DType::kFloat32, {{rows}, {row_elements}}}, keys);
  b.AddOutput("w", ReduceSum(Gather(read, inverse)));
  return *std::move(b).Build();
}

absl::Status SetVariables(JobDefinition* definition, int64_t rows, double clipnorm = 0,
                          int64_t row_elements = 0) {
  v1::VariableSpec variable;
  variable.set_name("w");
  variable.set_dtype(v1::FLOAT32);
  variable.add_dims(rows);
  if (row_elements > 0) variable.add_dims(row_elements);
  variable.set_trainable(true);
  v1::PartitionerSpec partitioner;
  partitioner.set_class_name("FixedShards");
  partitioner.set_num_shards(1);
  const v1::OptimizerSpec optimizer = OptimizerOf("SGD", {{"clipnorm", ConfigOf(clipnorm)}});
  return definition->SetVariables({&variable, 1}, {&optimizer, 1}, partitioner, "");
}

TEST_CASE("the layout has the variables, placed on the servers") {
  IdleCore idle;
  JobDefinition definition(&idle.core);
  CHECK(definition.layout().tablets().empty());
  REQUIRE(SetVariables(&definition, 10).ok());
  CHECK(definition.layout().tablets_size() == 1);
}

TEST_CASE("a program that reads rows that are too long is refused, in any order of the calls") {
  constexpr int64_t kTooMany = int64_t{1} << 28;  // 1 GiB
  const Program program = Pulling(4, kTooMany);
  IdleCore idle;
  JobDefinition definition(&idle.core);
  SECTION("variables first") {
    REQUIRE(SetVariables(&definition, 4, 0, kTooMany).ok());
    CHECK(absl::IsInvalidArgument(definition.RegisterStep(program).status()));
  }
  SECTION("program first") {
    REQUIRE(definition.RegisterStep(program).ok());
    CHECK(absl::IsInvalidArgument(SetVariables(&definition, 4, 0, kTooMany)));
  }
}

TEST_CASE("a step whose gradients workers clip is registered after its variables") {
  ProgramBuilder b("step");
  const Expr w = b.Read("w", {DType::kFloat32, {{4, 0}}});
  b.SetLoss(NumElements(w));
  REQUIRE(PushGradients(&b, ReduceSum(Square(w))).ok());
  const Program program = *std::move(b).Build();
  IdleCore idle;
  JobDefinition definition(&idle.core);
  SECTION("variables first") {
    REQUIRE(SetVariables(&definition, 4, 1.0).ok());
    CHECK(definition.RegisterStep(program).ok());
  }
  SECTION("step first") {
    REQUIRE(definition.RegisterStep(program).ok());
    CHECK(SetVariables(&definition, 4, 1.0).message() ==
          "the step 'step' was registered before the variables, whose optimizer clips gradients; "
          "call CreateVariables before RegisterStep");
  }
  SECTION("step first, nothing to clip") {
    REQUIRE(definition.RegisterStep(program).ok());
    CHECK(SetVariables(&definition, 4).ok());
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

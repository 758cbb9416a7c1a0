#include "common/placement/message_size.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/graph/program.h"
#include "common/placement/placement.h"
#include "common/placement/placement_test_util.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

using Catch::Contains;

constexpr int64_t kGiB = int64_t{1} << 30;

v1::Layout Layout(const std::vector<v1::VariableSpec>& variables, int servers,
                  uint64_t shards = 1) {
  v1::PartitionerSpec partitioner;
  partitioner.set_class_name("FixedShards");
  partitioner.set_num_shards(shards);
  PlacementOptions options;
  options.cores.assign(static_cast<size_t>(servers), 1);
  auto layout = MakeLayout(variables, partitioner, {}, options);
  INFO(layout.status());
  REQUIRE(layout.ok());
  return *std::move(layout);
}

// Reads each variable and pushes a gradient of it: a whole one, or, of a variable that is read by
// rows, `keys` rows at most.
Program Step(const std::vector<v1::VariableSpec>& variables, int64_t keys = 0, bool push = true) {
  Program program;
  program.name = "train";
  program.symbols.push_back({"rows", keys});
  program.values.push_back({DType::kInt64, {{keys, 1}}});
  for (const v1::VariableSpec& variable : variables) {
    const auto index = static_cast<int>(program.variables.size());
    ValueType type{DType::kFloat32, {}};
    for (const int64_t dim : variable.dims()) type.dims.push_back({dim, 0});
    program.variables.push_back({variable.name(), type});
    if (variable.row_reads()) type.dims[0] = {keys, 1};
    const auto value = static_cast<ValueId>(program.values.size());
    program.values.push_back(type);
    Node node;
    node.op = variable.row_reads() ? "read_rows" : "read";
    if (variable.row_reads()) node.inputs.push_back(0);
    node.outputs.push_back(value);
    node.attrs["variable"] = int64_t{index};
    program.nodes.push_back(node);
    if (!push) continue;
    program.pushes.push_back(
        {.variable = index, .value = value, .keys = variable.row_reads() ? 0 : kNoValue});
  }
  return program;
}

std::string Refusal(const v1::Layout& layout, const Program& program) {
  const absl::Status status = CheckMessageSizes(layout, {&program, 1});
  if (status.ok()) return "";
  CHECK(absl::IsInvalidArgument(status));
  return std::string(status.message());
}

TEST_CASE("a step moves whole dense variables, and rows up to the capacity of their keys") {
  const std::vector<v1::VariableSpec> variables = {
      Variable("embedding/embeddings", {1000, 20}, true), Variable("dense/kernel", {20, 4})};
  const auto sizes = MessageSizes(Layout(variables, 1), Step(variables, 32));
  REQUIRE(sizes.size() == 1);
  CHECK(sizes[0].read_key_bytes == 32 * 8);
  CHECK(sizes[0].push_bytes == 32 * 8 + 32 * (20 * 4 + 8) + 20 * 4 * 4);
  CHECK(sizes[0].pull_bytes == 32 * 20 * 4 + 20 * 4 * 4);
  // More keys than rows: every row once.
  const auto all = MessageSizes(Layout(variables, 1), Step(variables, 5000));
  CHECK(all[0].pull_bytes == 1000 * 20 * 4 + 20 * 4 * 4);
}

TEST_CASE("each server has the sizes of its own shards") {
  const std::vector<v1::VariableSpec> variables = {Variable("dense/kernel", {30, 4})};
  const auto sizes = MessageSizes(Layout(variables, 3, 3), Step(variables));
  REQUIRE(sizes.size() == 3);
  for (const MessageSize& size : sizes) {
    CHECK(size.push_bytes == 10 * 4 * 4);
    CHECK(size.pull_bytes == 10 * 4 * 4);
  }
}

TEST_CASE("a step of any size passes") {
  const std::vector<v1::VariableSpec> dense = {Variable("dense/kernel", {16 * kGiB, 1})};
  CHECK(Refusal(Layout(dense, 1), Step(dense)) == "");
  const std::vector<v1::VariableSpec> table = {Variable("embeddings", {kGiB, 64}, true)};
  CHECK(Refusal(Layout(table, 1), Step(table, 1 << 24)) == "");
  CHECK(MessageSizes(Layout(dense, 1), Step(dense))[0].push_bytes == uint64_t{64} << 30);
}

TEST_CASE("what is never cut has a limit of its own") {
  const std::vector<v1::VariableSpec> wide = {Variable("wide", {4, kGiB / 8}, true)};
  CHECK_THAT(Refusal(Layout(wide, 1), Step(wide, 2)),
             Contains("one row of variable 'wide' has 512.0 MiB"));
  const std::vector<v1::VariableSpec> narrow = {Variable("narrow", {kGiB, 1}, true)};
  CHECK_THAT(Refusal(Layout(narrow, 1), Step(narrow, 1 << 26)),
             Contains("reads up to 67108864 rows by their keys"));
}

TEST_CASE("the sizes are a line for each server") {
  const std::vector<v1::VariableSpec> variables = {Variable("dense/kernel", {1024, 4})};
  const std::vector<Program> programs = {Step(variables), Step(variables, 0, /*push=*/false)};
  CHECK(MessageSizeText(Layout(variables, 2, 2), programs) ==
        "ps:0 per step: push up to 8.0 KiB, pull up to 8.0 KiB\n"
        "ps:1 per step: push up to 8.0 KiB, pull up to 8.0 KiB\n");
}

}  // namespace
}  // namespace cohort

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

TEST_CASE("a push over 2 GiB is refused with its variables, its size, the limit and the remedy") {
  const std::vector<v1::VariableSpec> variables = {Variable("small/kernel", {1024}),
                                                   Variable("dense/kernel", {3 * kGiB / 4, 1})};
  const std::string text = Refusal(Layout(variables, 1), Step(variables));
  CHECK_THAT(text,
             Contains("ps:0: a step of program 'train' pushes up to 3.0 GiB (3221229568 bytes)"));
  CHECK_THAT(text, Contains("the limit for one server and step is 2.0 GiB (2147483648 bytes)"));
  CHECK_THAT(text, Contains("dense/kernel 3.0 GiB, small/kernel 4.0 KiB"));
  CHECK_THAT(text, Contains("more parameter servers") && Contains("strategy.partitioner"));
  CHECK(Refusal(Layout(variables, 2, 2), Step(variables)) == "");
}

TEST_CASE("a push of exactly the limit passes, and one element more does not") {
  const std::vector<v1::VariableSpec> most = {Variable("w", {kGiB / 2})};
  CHECK(Refusal(Layout(most, 1), Step(most)) == "");
  const std::vector<v1::VariableSpec> more = {Variable("w", {kGiB / 2 + 1})};
  CHECK_THAT(Refusal(Layout(more, 1), Step(more)), Contains("2147483652 bytes"));
}

TEST_CASE("variables that are only pulled have the limit of a pull") {
  const std::vector<v1::VariableSpec> three = {Variable("frozen", {3 * kGiB / 4})};
  CHECK(Refusal(Layout(three, 1), Step(three, 0, /*push=*/false)) == "");
  const std::vector<v1::VariableSpec> four = {Variable("frozen", {kGiB})};
  CHECK_THAT(Refusal(Layout(four, 1), Step(four, 0, /*push=*/false)),
             Contains("pulls up to 4.0 GiB") && Contains("frozen 4.0 GiB"));
}

TEST_CASE("a large table is no large step") {
  const std::vector<v1::VariableSpec> table = {Variable("embeddings", {kGiB, 64}, true)};
  CHECK(Refusal(Layout(table, 1), Step(table, 1 << 20)) == "");
  CHECK_THAT(Refusal(Layout(table, 1), Step(table, 1 << 23)),
             Contains("pushes up to 2.1 GiB") && Contains("embeddings 2.1 GiB"));
}

TEST_CASE("what is never cut has a limit of its own") {
  const std::vector<v1::VariableSpec> wide = {Variable("wide", {4, kGiB / 8}, true)};
  CHECK_THAT(Refusal(Layout(wide, 1), Step(wide, 2)),
             Contains("one row of variable 'wide' has 512.0 MiB"));
  const std::vector<v1::VariableSpec> narrow = {Variable("narrow", {kGiB, 1}, true)};
  CHECK_THAT(Refusal(Layout(narrow, 1), Step(narrow, 1 << 26)),
             Contains("reads up to 67108864 rows by their keys"));
}

TEST_CASE("the sizes are a line for each server, beside the limits") {
  const std::vector<v1::VariableSpec> variables = {Variable("dense/kernel", {1024, 4})};
  const std::vector<Program> programs = {Step(variables), Step(variables, 0, /*push=*/false)};
  CHECK(MessageSizeText(Layout(variables, 2, 2), programs) ==
        "ps:0 per step: push up to 8.0 KiB (limit 2.0 GiB), pull up to 8.0 KiB (limit 3.9 GiB)\n"
        "ps:1 per step: push up to 8.0 KiB (limit 2.0 GiB), pull up to 8.0 KiB (limit 3.9 GiB)\n");
}

}  // namespace
}  // namespace cohort

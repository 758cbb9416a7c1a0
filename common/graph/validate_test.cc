// Programs as a hostile peer would send them: each is refused with a message, none touches memory
// that it should not (run under the address sanitizer).
#include "common/graph/validate.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <random>

#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/graph_test_util.h"
#include "common/graph/program_proto.h"
#include "proto/program.pb.h"

namespace cohort {
namespace {

// A small model with an embedding: every kind of entry that a program can have.
Program Sample() {
  ProgramBuilder b("sample");
  const int batch = b.AddSymbol("batch", 4);
  const Expr ids = b.Input("ids", {DType::kInt64, {{4, batch}, {3}}});
  const Expr labels = b.Input("labels", {kF, {{4, batch}, {1}}});
  const auto [keys, inverse] = Unique(ids);
  const Expr rows = b.ReadRows("embedding", {kF, {{10}, {5}}}, keys);
  const Expr x = Dropout(ReduceMean(Gather(rows, inverse), {1}), 0.5, 3).first;
  const Expr logits = MatMul(x, b.Read("kernel", {kF, {{5}, {1}}}));
  const Expr loss = ReduceSum(SigmoidCrossEntropy(labels, logits));
  b.SetLoss(DimSize(labels, 0));
  REQUIRE(PushGradients(&b, loss).ok());
  b.AddMetric("loss", loss, DimSize(labels, 0));
  b.AddOutput("logits", logits);
  auto program = std::move(b).Build();
  REQUIRE(program.ok());
  return *std::move(program);
}

Node* FindNode(Program* program, std::string_view op) {
  for (Node& node : program->nodes) {
    if (node.op == op) return &node;
  }
  FAIL("no node " << op);
  return nullptr;
}

struct Case {
  const char* message;  // a part of the error
  std::function<void(Program*)> spoil;
};

TEST_CASE("invalid programs are refused with the reason") {
  REQUIRE(ValidateProgram(Sample()).ok());
  const std::vector<Case> cases = {
      {"an input names value 1000", [](Program* p) { FindNode(p, "matmul")->inputs[0] = 1000; }},
      {"an input names value -1", [](Program* p) { FindNode(p, "matmul")->inputs[0] = -1; }},
      {"is used before it is made",
       [](Program* p) {
         Node* unique = FindNode(p, "unique");
         unique->inputs[0] = unique->outputs[1];
       }},
      {"an output names value -7", [](Program* p) { FindNode(p, "matmul")->outputs[0] = -7; }},
      {"is made twice",
       [](Program* p) { FindNode(p, "unique")->outputs[1] = FindNode(p, "unique")->outputs[0]; }},
      {"makes 2 values, not 1", [](Program* p) { FindNode(p, "unique")->outputs.pop_back(); }},
      {"there is no op 'evil'", [](Program* p) { FindNode(p, "matmul")->op = "evil"; }},
      {"op 'matmul' takes 2 inputs, not 1",
       [](Program* p) { FindNode(p, "matmul")->inputs.pop_back(); }},
      {"there is no variable 99",
       [](Program* p) { FindNode(p, "read")->attrs["variable"] = int64_t{99}; }},
      {"there is no variable -1",
       [](Program* p) { FindNode(p, "read_rows")->attrs["variable"] = int64_t{-1}; }},
      {"there is no argument 5",
       [](Program* p) { FindNode(p, "input")->attrs["index"] = int64_t{5}; }},
      {"which this node does not make",
       [](Program* p) { FindNode(p, "input")->attrs["index"] = int64_t{1}; }},
      {"argument 0 names value 12345", [](Program* p) { p->arguments[0].value = 12345; }},
      {"there is no symbol 9",
       [](Program* p) { FindNode(p, "unique")->attrs["symbol"] = int64_t{9}; }},
      {"there is no symbol 0",
       [](Program* p) { FindNode(p, "unique")->attrs["symbol"] = int64_t{0}; }},
      {"symbol 2 has a capacity of 0", [](Program* p) { p->symbols[1].capacity = 0; }},
      {"symbol 1 has a capacity of -4", [](Program* p) { p->symbols[0].capacity = -4; }},
      {"is not a multiple of the capacity 3 of its symbol",
       [](Program* p) { p->symbols[0].capacity = 3; }},
      {"there is no symbol -1", [](Program* p) { p->values[0].dims[0].symbol = -1; }},
      {"there is no symbol 77", [](Program* p) { p->values[0].dims[0].symbol = 77; }},
      {"a size of 0 is out of range", [](Program* p) { p->values[0].dims[1].size = 0; }},
      {"is out of range",
       [](Program* p) { p->values[0].dims[1].size = std::numeric_limits<int64_t>::max(); }},
      {"dtype 0 is unknown", [](Program* p) { p->values[0].dtype = DType::kInvalid; }},
      {"dtype 200 is unknown", [](Program* p) { p->values[0].dtype = static_cast<DType>(200); }},
      {"9 axes exceed the limit of 8",
       [](Program* p) {
         p->values[0].dims.assign(9, {1, 0});
       }},
      {"is declared as",
       [](Program* p) {
         p->values[static_cast<size_t>(FindNode(p, "matmul")->outputs[0])].dims[1] = {2};
       }},
      {"variable 0 'embedding': a size of -5",
       [](Program* p) { p->variables[0].type.dims[1].size = -5; }},
      {"variable 0 has a bounded axis",
       [](Program* p) {
         p->variables[0].type.dims[0] = {4, 1};
       }},
      {"value 0 is made by no node",
       [](Program* p) {
         p->nodes.clear();
         p->pushes.clear();
       }},
      {"push 0 names variable 3", [](Program* p) { p->pushes[0].variable = 3; }},
      {"push 0 names variable -1", [](Program* p) { p->pushes[0].variable = -1; }},
      {"is pushed twice", [](Program* p) { p->pushes[1] = p->pushes[0]; }},
      {"there is no kind 9", [](Program* p) { p->pushes[0].kind = static_cast<PushKind>(9); }},
      {"it names value -2", [](Program* p) { p->pushes[0].value = -2; }},
      {"row keys (value", [](Program* p) { p->pushes[0].keys = p->arguments[0].value; }},
      {"its value is", [](Program* p) { p->pushes[1].keys = p->pushes[0].keys; }},
      {"its value is", [](Program* p) { p->pushes[0].keys = kNoValue; }},
      {"it only records the id, and has a value",
       [](Program* p) { p->pushes[0].kind = PushKind::kRecordOnly; }},
      {"momentum nan does not lie",
       [](Program* p) { p->pushes[0].momentum = std::numeric_limits<double>::quiet_NaN(); }},
      {"and the program has no weight", [](Program* p) { p->weight = kNoValue; }},
      {"the weight must be a floating scalar", [](Program* p) { p->weight = 0; }},
      {"the weight names value", [](Program* p) { p->weight = -5; }},
      {"metric 'loss': accumulator 'total': it must be a floating scalar or vector",
       [](Program* p) { p->metrics[0].accumulators[0].value = 0; }},
      {"metric 'loss': accumulator 'count': it names value 999",
       [](Program* p) { p->metrics[0].accumulators[1].value = 999; }},
      {"there is no reduction 4",
       [](Program* p) { p->metrics[0].accumulators[0].reduction = static_cast<Reduction>(4); }},
      {"it has 0 accumulators", [](Program* p) { p->metrics[0].accumulators.clear(); }},
      {"it has 65 accumulators",
       [](Program* p) { p->metrics[0].accumulators.resize(65, p->metrics[0].accumulators[0]); }},
      {"its name is 5000 bytes long",
       [](Program* p) { p->metrics[0].accumulators[0].name.resize(5000, 'n'); }},
      {"output 'logits' names value -1", [](Program* p) { p->outputs[0].value = -1; }},
      {"the name of node 0 is 5000 bytes long",
       [](Program* p) { p->nodes[0].name.assign(5000, 'x'); }},
      {"rate nan does not lie",
       [](Program* p) {
         FindNode(p, "dropout")->attrs["rate"] = std::numeric_limits<double>::quiet_NaN();
       }},
      {"must be an integer, not a string",
       [](Program* p) { FindNode(p, "dropout")->attrs["seed"] = std::string("x"); }},
      {"lacks its data",
       [](Program* p) {
         FindNode(p, "constant")->attrs["value"] = Tensor(kF, {}, BufferRef::Allocate(4), 2);
       }},
  };
  for (const Case& c : cases) {
    Program program = Sample();
    c.spoil(&program);
    const absl::Status status = ValidateProgram(program);
    INFO(c.message);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()), Catch::Contains(c.message));
  }
}

TEST_CASE("keys that depend on a variable are refused") {
  ProgramBuilder b("p");
  const ValueType table{kF, {{10}, {2}}};
  const Expr index = ArgMax(b.Read("w", {kF, {{4}, {3}}}));
  b.AddOutput("rows", b.ReadRows("table", table, Unique(index).first));
  const auto program = std::move(b).Build();
  CHECK_THAT(std::string(program.status().message()), Catch::Contains("depend on a variable"));
}

TEST_CASE("a program that asks for too much memory is refused") {
  ProgramBuilder b("p");
  const Expr x = b.Read("x", {kF, {{int64_t{1} << 20}, {1}}});
  const Expr y = b.Read("y", {kF, {{1}, {int64_t{1} << 20}}});
  CHECK_FALSE((x + y).valid());
  CHECK_THAT(std::string(b.status().message()), Catch::Contains("out of range"));
}

TEST_CASE("a program survives the wire, and its name does not change") {
  const Program program = Sample();
  v1::Program proto;
  ProgramToProto(program, &proto);
  v1::Program copy;
  REQUIRE(copy.ParseFromString(proto.SerializeAsString()));
  const auto back = ProgramFromProto(copy);
  REQUIRE(back.ok());
  CHECK(back->values == program.values);
  CHECK(back->weight == program.weight);
  CHECK(Fingerprint(*back) == Fingerprint(program));
  CHECK(Fingerprint(program).size() == 32);
  Program other = program;
  other.nodes.back().name += "x";
  CHECK(Fingerprint(other) != Fingerprint(program));
}

TEST_CASE("hostile protos are refused") {
  v1::Program proto;
  ProgramToProto(Sample(), &proto);
  SECTION("another format") {
    proto.set_format_version(2);
    CHECK_THAT(std::string(ProgramFromProto(proto).status().message()),
               Catch::Contains("program format 2 is not 1"));
  }
  SECTION("an attribute without a value") {
    (*proto.mutable_nodes(0)->mutable_attrs())["index"].clear_value();
    CHECK_THAT(std::string(ProgramFromProto(proto).status().message()),
               Catch::Contains("attribute 'index' of op 'input': it has no value"));
  }
  SECTION("ids at the ends of their range") {
    proto.set_weight(std::numeric_limits<int32_t>::min());
    CHECK_FALSE(ProgramFromProto(proto).ok());
    proto.set_weight(std::numeric_limits<int32_t>::max());
    CHECK_FALSE(ProgramFromProto(proto).ok());
  }
}

TEST_CASE("hostile tensors are refused") {
  v1::TensorValue proto;
  proto.set_dtype(v1::FLOAT32);
  proto.set_data("12345678");
  proto.add_dims(2);
  CHECK(TensorFromProto(proto).ok());
  for (const int64_t size :
       {int64_t{3}, int64_t{-2}, int64_t{0}, int64_t{1}, int64_t{1} << 62,
        std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
    proto.set_dims(0, size);
    CHECK_FALSE(TensorFromProto(proto).ok());
  }
  proto.set_dims(0, 8);
  proto.set_dtype(v1::BOOL);
  CHECK_FALSE(TensorFromProto(proto).ok());
  proto.set_dtype(v1::DTYPE_UNSPECIFIED);
  CHECK_FALSE(TensorFromProto(proto).ok());
}

// Bytes flipped at random: whatever still parses is either refused or a valid program.
TEST_CASE("mutated bytes never do harm") {
  const uint64_t seed = 20240601;
  CAPTURE(seed);
  const google::protobuf::LogSilencer quiet;
  std::mt19937_64 random(seed);
  v1::Program proto;
  ProgramToProto(Sample(), &proto);
  std::string bytes;  // with map keys in order, so that the seed says everything
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    proto.SerializeToCodedStream(&coded);
  }
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string mutated = bytes;
    const int flips = 1 + static_cast<int>(random() % 4);
    for (int k = 0; k < flips; ++k)
      mutated[random() % mutated.size()] = static_cast<char>(random());
    v1::Program parsed;
    if (!parsed.ParseFromString(mutated)) continue;
    const auto program = ProgramFromProto(parsed);
    if (!program.ok()) ++refused;
    if (program.ok()) CHECK(ValidateProgram(*program).ok());
  }
  CHECK(refused > 100);
}

}  // namespace
}  // namespace cohort

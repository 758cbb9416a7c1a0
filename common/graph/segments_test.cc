#include "common/graph/segments.h"

#include <catch2/catch.hpp>

#include "common/graph/autodiff.h"
#include "common/graph/device_name.h"
#include "common/graph/expr.h"
#include "common/graph/program_proto.h"
#include "common/graph/validate.h"
#include "proto/program.pb.h"

namespace cohort {
namespace {

TEST_CASE("Names of devices, ours and TensorFlow's", "[segments]") {
  const auto read = [](std::string_view text) { return ParseDeviceName(text)->ToString(); };
  CHECK(read("cuda:1") == "cuda:1");
  CHECK(read("cpu") == "cpu:0");
  CHECK(read("worker:1/cuda:0") == "worker:1/cuda:0");
  CHECK(read("worker:12/simulated") == "worker:12/simulated:0");
  CHECK(read("GPU:1") == "cuda:1");
  CHECK(read("/gpu:0") == "cuda:0");
  CHECK(read("/device:CPU:2") == "cpu:2");
  CHECK(read("/job:worker/replica:0/task:3/device:GPU:1") == "worker:3/cuda:1");
  for (const char* text : {"", "cud:1", "cuda:", "cuda:x", "cuda:-1", "cuda:1024", "worker:1",
                           "worker/cuda:0", "worker:/cuda:0", "ps:0/cpu:0", "/job:ps/task:0/cpu:0",
                           "cuda:1/worker:1", "cuda:0/", "//cuda:0"}) {
    CAPTURE(text);
    const auto place = ParseDeviceName(text);
    REQUIRE(!place.ok());
    CHECK(std::string(place.status().message()).find("worker:1/cuda:0") != std::string::npos);
  }
}

Program TwoLayers(const std::string& device) {
  ProgramBuilder b("model");
  const int batch = b.AddSymbol("batch", 4);
  Expr h = b.Input("x", {DType::kFloat32, {{4, batch}, {3}}});
  for (const std::string name : {"first", "second"}) {
    b.SetScope(name);
    b.SetDevice(name == "second" ? device : "");
    h = Tanh(MatMul(h, b.Read(name, {DType::kFloat32, {{3}, {3}}})));
  }
  const Expr loss = ReduceSum(h * 2.0);
  CHECK(PushGradients(&b, loss).ok());
  b.SetLoss(DimSize(h, 0));
  auto program = std::move(b).Build();
  REQUIRE(program.ok());
  return *std::move(program);
}

TEST_CASE("The backward pass of a layer has the device of the layer", "[segments]") {
  const Program program = TwoLayers("cuda:1");
  CHECK(NamesDevices(program));
  CHECK(!NamesDevices(TwoLayers("")));
  for (const Node& node : program.nodes) {
    CAPTURE(node.op, node.name);
    const bool leaf = node.op == "read" || node.op == "input" || node.op == "constant";
    if (node.name == "first" || leaf) CHECK(node.device.empty());
    if (node.name == "second" && !leaf) CHECK(node.device == "cuda:1");
  }
}

TEST_CASE("Devices are part of a program's bytes and fingerprint", "[segments]") {
  const Program program = TwoLayers("worker:1/cpu:0");
  v1::Program proto;
  ProgramToProto(program, &proto);
  const auto read = ProgramFromProto(proto);
  REQUIRE(read.ok());
  CHECK(Fingerprint(*read) == Fingerprint(program));
  CHECK(Fingerprint(program) != Fingerprint(TwoLayers("")));
  for (v1::Node& node : *proto.mutable_nodes()) {
    if (!node.device().empty()) node.set_device("nowhere");
  }
  const absl::Status refused = ProgramFromProto(proto).status();
  CHECK(std::string(refused.message()).find("\"nowhere\" is not a device") != std::string::npos);
}

TEST_CASE("A segment is a valid program, the same each time", "[segments]") {
  const auto resolve = [](const std::string& device) { return device; };
  const Program cut = CutAtDevices(TwoLayers("cpu:1"), resolve);
  const Program again = CutAtDevices(TwoLayers("cpu:1"), resolve);
  size_t segments = 0;
  for (size_t n = 0; n < cut.nodes.size(); ++n) {
    if (cut.nodes[n].op != "segment") continue;
    ++segments;
    const Program part = ProgramOfSegment(cut, cut.nodes[n]);
    const absl::Status valid = ValidateProgram(part);
    INFO(valid);
    CHECK(valid.ok());
    CHECK(part.arguments.size() == cut.nodes[n].inputs.size());
    CHECK(part.outputs.size() == cut.nodes[n].outputs.size());
    CHECK(!NamesDevices(part));
    CHECK(Fingerprint(part) == Fingerprint(ProgramOfSegment(again, again.nodes[n])));
  }
  // `h * 2` belongs to the layer too, so one run has the forward and the backward pass.
  CHECK(segments == 1);
}

}  // namespace
}  // namespace cohort

// Feeds mutations of good input to every decoder of bytes from elsewhere. A decoder accepts or
// refuses them and never crashes (this runs under the address sanitizer, too). A new decoder gets a
// row in the table below (CONTRIBUTING.md).
#include <google/protobuf/stubs/logging.h>
#include <zlib.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "common/base/stable_bytes.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/journal_format.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/safetensors.h"
#include "common/checkpoint/shard_names.h"
#include "common/cluster/address.h"
#include "common/cluster/tf_config.h"
#include "common/data/dataset.h"
#include "common/data/expression.h"
#include "common/data/input_file.h"
#include "common/data/records/json_record.h"
#include "common/data/sources/decoders.h"
#include "common/graph/expr.h"
#include "common/graph/program_builder.h"
#include "common/graph/program_proto.h"
#include "common/graph/validate.h"
#include "common/metrics/metric_proto.h"
#include "common/model/job_file.h"
#include "common/optimizers/optimizers.h"
#include "common/placement/initializer_classes.h"
#include "common/placement/initializers.h"
#include "common/rpc/push_pull/push_pull_codec.h"
#include "common/rpc/stream/frame.h"
#include "common/rpc/stream/grpc_status.h"
#include "common/testing/directory_test_util.h"
#include "proto/checkpoint.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/worker.pb.h"
#include "tests/cluster/apply_log.h"

namespace cohort {
namespace {

using testing::TestDirectory;

struct Decoder {
  const char* name;
  int rounds;
  std::string good;
  std::function<absl::Status(const std::string&)> decode;
};

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void WriteAll(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// One to four changes: a byte, a bit, a cut, a piece doubled, a number made extreme.
std::string Mutate(std::string bytes, std::mt19937_64* random) {
  const auto pick = [&](size_t n) { return n == 0 ? 0 : static_cast<size_t>((*random)() % n); };
  for (size_t n = 1 + pick(4); n > 0; --n) {
    const size_t at = pick(bytes.size());
    switch (pick(6)) {
      case 0:
        if (!bytes.empty()) bytes[at] = static_cast<char>((*random)());
        break;
      case 1:
        if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << pick(8)));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.erase(at, 1 + pick(16));
        break;
      case 4:
        bytes.insert(at, bytes.substr(pick(bytes.size() + 1), pick(40)));
        break;
      default:
        for (size_t i = at; i < std::min(at + 8, bytes.size()); ++i) bytes[i] = '\xff';
    }
  }
  return bytes;
}

MetricState SampleMetric() {
  v1::ClassConfig finalizer;
  finalizer.set_class_name("AUC");
  (*finalizer.mutable_config())["curve"].set_s("PR");
  return {"auc",
          std::make_shared<const v1::ClassConfig>(finalizer),
          {{"true_positives", Reduction::kSum, {3, 2, 0}},
           {"false_positives", Reduction::kSum, {4, 1, 0}}}};
}

// A checkpoint of one variable in one file; returns its directory.
std::string MakeCheckpoint(const TestDirectory& directory) {
  const std::string file = "ps-0.safetensors";
  const ShardTensorName name{"w", "", 0, 3};
  const float values[6] = {1, 2, 3, 4, 5, 6};
  auto writer =
      SafetensorsWriter::Create(directory / file, {{name.ToString(), DType::kFloat32, {3, 2}}}, {});
  REQUIRE(writer.ok());
  REQUIRE((*writer)->Append(values, sizeof(values)).ok());
  const auto result = (*writer)->Finish();
  REQUIRE(result.ok());
  v1::Manifest manifest;
  manifest.set_cut(12);
  manifest.set_job("demo");
  MetricsToProto(std::vector<MetricState>{SampleMetric()},
                 manifest.mutable_chief()->mutable_metrics());
  v1::VariableSpec* variable = manifest.mutable_layout()->add_variables();
  variable->set_name("w");
  variable->set_dtype(v1::FLOAT32);
  variable->add_dims(3);
  variable->add_dims(2);
  manifest.mutable_layout()->add_shards()->set_rows(3);
  manifest.mutable_layout()->add_tablets();
  v1::SnapshotFile* entry = manifest.add_files();
  entry->set_name(file);
  entry->set_bytes(result->bytes);
  entry->set_crc32(result->crc32);
  REQUIRE(CommitManifest(directory.path(), manifest).ok());
  return directory.path();
}

std::string ResultBytes() {
  v1::WorkerToChief message;
  v1::ClosureResult* result = message.mutable_results()->add_results();
  result->set_id(7);
  MetricsToProto(std::vector<MetricState>{MeanState("loss", 1, 2), SampleMetric()},
                 result->mutable_metrics());
  return message.SerializeAsString();
}

std::string JournalBytes() {
  std::string bytes;
  for (uint64_t number = 1; number < 6; ++number) {
    v1::JournalRecord record;
    record.set_number(number);
    record.mutable_settle()->set_watermark(number * 10);
    MetricsToProto(std::vector<MetricState>{SampleMetric()},
                   record.mutable_settle()->mutable_metrics());
    REQUIRE(AppendJournalFrame(record, &bytes).ok());
  }
  return bytes;
}

std::string ProgramBytes() {
  ProgramBuilder b("square");
  const Expr x = b.Input("x", {DType::kFloat32, {{4}, {2}}});
  b.AddOutput("y", MatMul(x, Transpose(x, {1, 0})));
  v1::ClassConfig finalizer;
  finalizer.set_class_name("AUC");
  const Expr counts = ReduceSum(x, {1});
  const MetricExpr curve[] = {{"true_positives", counts}, {"false_positives", counts}};
  b.AddMetric("auc", finalizer, curve);
  b.AddMetric("mean", ReduceSum(x), NumElements(x));
  v1::Program proto;
  ProgramToProto(*std::move(b).Build(), &proto);
  return proto.SerializeAsString();
}

std::string PushPullBytes() {
  v1::PushPullRequest request;
  v1::PushPart* push = request.mutable_header()->mutable_push();
  request.mutable_header()->set_sequence(7);
  push->mutable_id()->set_closure(99);
  push->set_weight(2);
  push->add_sections()->add_entries()->set_count(4);
  request.add_payload(std::string(16, 'x'));
  return request.SerializeAsString();
}

std::string ClosureBytes() {
  v1::ChiefToWorker message;
  v1::Closure* closure = message.mutable_dispatch()->add_closures();
  closure->set_program("abc");
  closure->add_leases()->set_end(32);
  v1::TensorValue* value = closure->add_arguments();
  value->set_dtype(v1::UINT8);
  value->add_dims(8);
  value->set_data("12345678");
  return message.SerializeAsString();
}

std::string Gzip(const std::string& bytes) {
  z_stream stream = {};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(bytes.size() + 128, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

Frame FrameOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return Frame(&slice, 1);
}

std::string IdxBytes() { return std::string("\0\0\x08\x02\0\0\0\x03\0\0\0\x02", 12) + "abcdef"; }

constexpr char kCsv[] = "age,word\n39,\"a, b\"\n50,c\n";
constexpr char kTfConfig[] =
    R"({"cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:2"], "ps": {"3": "[::1]:4"}},
        "task": {"type": "worker", "index": "1"}, "environment": "cloud"})";

// Reads a job with this JSON as its model.
absl::Status ReadModel(const std::string& json) {
  static const TestDirectory directory;
  WriteAll(directory / "model.json", json);
  return ParseJob(
             "model: {keras_json: model.json}\n"
             "data: {train: {csv: {path: a}, label: {yes: y, no: z}}}\n",
             directory / "job.yaml")
      .status();
}

std::string ExampleModel() {
  const char* source = std::getenv("COHORT_SOURCE_DIR");
  return ReadAll(std::string(source == nullptr ? "." : source) +
                 "/deploy/examples/keras_json/model.json");
}

std::string ExampleJob() {
  const char* source = std::getenv("COHORT_SOURCE_DIR");
  return ReadAll(std::string(source == nullptr ? "." : source) +
                 "/deploy/examples/recommender.yaml");
}

// The decoders that need no file.
std::vector<Decoder> DecodersOfBytes() {
  return {
      {"journal", 4000, JournalBytes(),
       [](const std::string& b) { return ParseJournal(b, "file", nullptr).status(); }},
      {"program", 4000, ProgramBytes(),
       [](const std::string& b) {
         v1::Program proto;
         if (!proto.ParseFromString(b)) return InvalidArgument("no program");
         return ProgramFromProto(proto).status();
       }},
      {"PushPull frame", 4000, PushPullBytes(),
       [](const std::string& b) {
         PushPullDecoder decoder;
         v1::PushPullHeader header;
         const absl::Status status = decoder.Decode(FrameOf(b), &header);
         for (size_t i = 0; status.ok() && i < decoder.payload_count(); ++i) {
           std::string copy(decoder.payload(i).size(), '\0');
           decoder.payload(i).CopyTo(copy.data());
         }
         return status;
       }},
      {"control frame", 4000, ClosureBytes(),
       [](const std::string& b) {
         v1::ChiefToWorker message;
         COHORT_RETURN_IF_ERROR(ParseFromFrame(FrameOf(b), &message));
         for (const v1::Closure& closure : message.dispatch().closures()) {
           for (const v1::TensorValue& value : closure.arguments()) {
             COHORT_RETURN_IF_ERROR(TensorFromProto(value).status());
           }
         }
         return absl::OkStatus();
       }},
      {"metrics in a result", 4000, ResultBytes(),
       [](const std::string& b) {
         v1::WorkerToChief message;
         COHORT_RETURN_IF_ERROR(ParseFromFrame(FrameOf(b), &message));
         std::vector<MetricState> folded;
         for (const v1::ClosureResult& result : message.results().results()) {
           COHORT_RETURN_IF_ERROR(CheckMetricValues(result.metrics()));
           FoldMetrics(MetricsFromProto(result.metrics()), &folded);
         }
         for (const MetricState& metric : folded) metric.Value();
         return absl::OkStatus();
       }},
      {"failure in a trailer", 2000, "\x0a\x02ps\x10\x03\x18\x09\x20\x01",
       [](const std::string& b) {
         return FromGrpcStatus(grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone"), b);
       }},
      {"IDX", 4000, IdxBytes(), [](const std::string& b) { return ParseIdx(b, "file").status(); }},
      {"gzip", 4000, Gzip(IdxBytes()),
       [](const std::string& b) { return Gunzip(b, "file").status(); }},
      {"CSV", 4000, kCsv,
       [](const std::string& b) {
         return ParseCsv(b, {}, {.text = {"word"}, .numbers = {"age"}}, {}, "file").status();
       }},
      {"expression", 4000, "not (log1p(a) + `b c` ** -2 >= .5e1) or d == 'x' ? min(a, 1) : e % 3",
       [](const std::string& b) {
         const auto expression = Expression::Parse(b);
         if (!expression.ok()) return expression.status();
         const double value = 1;
         const std::vector<const double*> inputs(
             expression->columns().size() + expression->comparisons().size(), &value);
         double result = 0;
         expression->Compute(inputs, {&result, 1});
         return absl::OkStatus();
       }},
      {"JSON record", 4000, R"({"a": {"b": [1, 2.5, null]}, "c": "x", "d": true})",
       [](const std::string& b) {
         return VisitJson(b, [](std::string_view, const JsonValue&) { return absl::OkStatus(); });
       }},
      {"TF_CONFIG", 4000, kTfConfig,
       [](const std::string& b) { return ParseTfConfig(b).status(); }},
      {"address", 4000, "[fe80::1]:4711",
       [](const std::string& b) { return ParseAddress(b).status(); }},
      {"optimizer", 4000,
       StableBytes(
           OptimizerOf("Ftrl", {{"learning_rate", ConfigOf(0.1)}, {"beta", ConfigOf(0.5)}})),
       [](const std::string& b) {
         v1::OptimizerSpec spec;
         if (!spec.ParseFromString(b)) return InvalidArgument("no optimizer");
         return OptimizerRule::Create(spec).status();
       }},
      {"initializer", 4000,
       StableBytes(OptimizerOf("RandomUniform", {{"minval", ConfigOf(-1.0)}}).rule()),
       [](const std::string& b) {
         v1::ClassConfig config;
         if (!config.ParseFromString(b)) return InvalidArgument("no initializer");
         const int64_t dims[] = {3, 4};
         COHORT_ASSIGN_OR_RETURN(const v1::InitializerSpec spec, MakeInitializer(config, 1, dims));
         return Initializer::Create(spec, "v").status();
       }},
      {"job file", 300, ExampleJob(),
       [](const std::string& b) { return ParseJob(b, "file").status(); }},
      {"JSON of a model", 2000, ExampleModel(), ReadModel},
  };
}

// Feeds mutations of good input. Errors must have a message. There must be errors, because
// mutations that all decode change nothing.
void Run(const Decoder& decoder) {
  const uint64_t seed = 20260608;
  std::mt19937_64 random(seed);
  INFO(decoder.name << ", seed " << seed);
  int refused = 0;
  for (int i = 0; i < decoder.rounds; ++i) {
    const absl::Status status = decoder.decode(Mutate(decoder.good, &random));
    if (status.ok()) continue;
    ++refused;
    if (status.message().empty()) FAIL("an error without a message");
  }
  CHECK(refused > decoder.rounds / 10);
}

TEST_CASE("no mutation makes a decoder of bytes crash") {
  const google::protobuf::LogSilencer quiet;
  for (const Decoder& decoder : DecodersOfBytes()) {
    INFO(decoder.name);
    if (decoder.name != std::string("failure in a trailer")) {
      CHECK(decoder.decode(decoder.good).ok());
    }
    Run(decoder);
  }
}

TEST_CASE("no mutation makes a decoder of files crash") {
  const google::protobuf::LogSilencer quiet;
  TestDirectory directory;
  const std::string checkpoint = MakeCheckpoint(directory);
  const std::string manifest = directory / "manifest.json";
  const std::string shards = directory / "ps-0.safetensors";
  const auto read = [&] {
    const auto reader = CheckpointReader::Open(checkpoint, {});
    if (!reader.ok()) return reader.status();
    float values[6];
    return (*reader)->ReadRows("w", "", DType::kFloat32, 0, 3,
                               {reinterpret_cast<uint8_t*>(values), sizeof(values)});
  };
  const absl::Status good = read();
  INFO(good);
  REQUIRE(good.ok());
  // The checksum fits the mutation: without that, the file is refused before it is decoded.
  Run({"manifest", 500, ReadAll(manifest), [&](const std::string& b) {
         WriteAll(manifest, b);
         const auto* bytes = reinterpret_cast<const Bytef*>(b.data());
         WriteAll(
             manifest + ".crc",
             fmt::format("{:08x} {}\n", crc32(0, bytes, static_cast<uInt>(b.size())), b.size()));
         return read();
       }});
  Run({"safetensors", 500, ReadAll(shards), [&](const std::string& b) {
         WriteAll(shards, b);
         const auto reader = SafetensorsReader::Open(shards);
         if (!reader.ok()) return reader.status();
         for (const TensorInfo& info : (*reader)->tensors()) {
           std::string bytes(info.bytes, '\0');
           COHORT_RETURN_IF_ERROR((*reader)->ReadBytes(info, 0, info.bytes, bytes.data()));
         }
         return absl::OkStatus();
       }});
  v1::DatasetSpec spec;
  *spec.mutable_source_class() =
      ClassOf("csv", {{"path", ConfigOf(directory.Write("a.csv", kCsv))}});
  v1::ColumnTransform* lookup = spec.add_transforms();
  lookup->set_column("word");
  *lookup->mutable_transform_class() =
      ClassOf("StringLookup", {{"vocabulary", ConfigOf(std::vector<std::string>{"a, b", "c"})}});
  v1::ColumnTransform* scaled = spec.add_transforms();
  scaled->add_columns("age");
  scaled->add_columns("age");
  scaled->set_output("ages");
  scaled->set_dtype("float64");
  *scaled->mutable_transform_class() = ClassOf("Rescaling", {{"scale", ConfigOf(0.5)}});
  const auto open = [](const std::string& b) {
    v1::DatasetSpec mutated;
    if (!mutated.ParseFromString(b)) return InvalidArgument("no dataset");
    return Dataset::Open(mutated).status();
  };
  REQUIRE(open(StableBytes(spec)).message() == "");
  Run({"dataset", 4000, StableBytes(spec), open});
  const std::string log = directory / "apply.log";
  Run({"apply log", 500,
       "# cohort apply log 1 77\n1 0 1 1 1 1 0 applied\n2 0 1 2 1 1 0 duplicate\n",
       [&](const std::string& b) {
         WriteAll(log, b);
         const auto events = ReadApplyLogs({log});
         if (events.ok()) CheckApplyEvents(*events, true);
         return events.status();
       }});
}

}  // namespace
}  // namespace cohort

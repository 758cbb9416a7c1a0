#include "common/checkpoint/safetensors.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "common/base/status.h"
#include "common/checkpoint/shard_names.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::TestDirectory;

// The bytes of a file with this header and this much data.
std::string FileOf(const std::string& header, size_t data_bytes) {
  std::string file;
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<char>(uint64_t{header.size()} >> (8 * i)));
  return file + header + std::string(data_bytes, '\x01');
}

std::string Sample(const std::string& path) {
  const std::vector<float> w = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> ids = {7, -8};
  auto writer = SafetensorsWriter::Create(path,
                                          {{"w", DType::kFloat32, {2, 3}},
                                           {"ids", DType::kInt64, {2}},
                                           {"empty", DType::kFloat64, {0, 4}},
                                           {"scalar", DType::kUint8, {}}},
                                          {{"cut", "12"}});
  REQUIRE(writer.ok());
  // Blocks that do not end where tensors do.
  std::string data(reinterpret_cast<const char*>(w.data()), 24);
  data.append(reinterpret_cast<const char*>(ids.data()), 16);
  data.push_back('\x2a');
  for (size_t at = 0; at < data.size(); at += 7) {
    REQUIRE((*writer)->Append(data.data() + at, std::min<size_t>(7, data.size() - at)).ok());
  }
  const auto result = (*writer)->Finish();
  REQUIRE(result.ok());
  const std::string bytes = testing::ReadAllBytes(path);
  CHECK(result->bytes == bytes.size());
  CHECK(result->crc32 == Crc32(0, bytes.data(), bytes.size()));
  CHECK(VerifyFile(path, result->bytes, result->crc32).ok());
  return bytes;
}

absl::StatusOr<Tensor> ReadTensor(const SafetensorsReader& reader, const TensorInfo& info) {
  Tensor tensor(info.dtype, info.dims);
  COHORT_RETURN_IF_ERROR(reader.ReadBytes(info, 0, info.bytes, tensor.raw()));
  return tensor;
}

TEST_CASE("what is written is read back") {
  TestDirectory dir;
  Sample(dir / "a.safetensors");
  auto reader = SafetensorsReader::Open(dir / "a.safetensors");
  REQUIRE(reader.ok());
  REQUIRE((*reader)->tensors().size() == 4);
  CHECK((*reader)->metadata().at("cut") == "12");
  CHECK((*reader)->Find("nothing") == nullptr);
  const auto w = ReadTensor(**reader, *(*reader)->Find("w"));
  REQUIRE(w.ok());
  CHECK(w->dims() == Dims{2, 3});
  CHECK(w->values<float>()[5] == 6);
  const auto ids = ReadTensor(**reader, *(*reader)->Find("ids"));
  REQUIRE(ids.ok());
  CHECK(ids->values<int64_t>()[1] == -8);
  CHECK(ReadTensor(**reader, *(*reader)->Find("scalar"))->values<uint8_t>()[0] == 42);
  CHECK(ReadTensor(**reader, *(*reader)->Find("empty"))->num_elements() == 0);
  uint8_t byte = 0;
  CHECK(absl::IsOutOfRange((*reader)->ReadBytes(*(*reader)->Find("w"), 24, 1, &byte)));
}

TEST_CASE("a large file reports how much of it is on the disk") {
  const TestDirectory dir;
  constexpr int64_t kBytes = int64_t{70} << 20;
  auto writer = SafetensorsWriter::Create(dir / "large", {{"a", DType::kUint8, {kBytes}}}, {});
  REQUIRE(writer.ok());
  const std::vector<uint8_t> block(1 << 20, 7);
  for (int64_t at = 0; at < kBytes; at += 1 << 20) {
    REQUIRE((*writer)->Append(block.data(), block.size()).ok());
  }
  std::vector<uint64_t> reports;
  const auto result = (*writer)->Finish([&](uint64_t bytes) { reports.push_back(bytes); });
  REQUIRE(result.ok());
  CHECK(reports == std::vector<uint64_t>{32 << 20, 64 << 20, result->bytes});
}

TEST_CASE("the data starts at a multiple of eight") {
  TestDirectory dir;
  const std::string bytes = Sample(dir / "a.safetensors");
  CHECK(static_cast<uint8_t>(bytes[0]) % 8 == 0);
}

TEST_CASE("a writer refuses what makes no sense and leaves nothing behind") {
  TestDirectory dir;
  const std::string path = dir / "a.safetensors";
  CHECK(absl::IsInvalidArgument(
      SafetensorsWriter::Create(path, {{"w", DType::kFloat32, {2}}, {"w", DType::kFloat32, {2}}},
                                {})
          .status()));
  CHECK(!SafetensorsWriter::Create(path, {{"w", DType::kInvalid, {2}}}, {}).ok());
  CHECK(!SafetensorsWriter::Create(path, {{"w", DType::kFloat32, {-1}}}, {}).ok());
  CHECK(!SafetensorsWriter::Create(path, {{"__metadata__", DType::kFloat32, {1}}}, {}).ok());
  CHECK(!SafetensorsWriter::Create(path, {{"\xff\xfe", DType::kFloat32, {1}}}, {}).ok());
  CHECK(
      absl::IsNotFound(SafetensorsWriter::Create(dir / "no/such/a.safetensors", {}, {}).status()));
  {
    auto writer = SafetensorsWriter::Create(path, {{"w", DType::kFloat32, {2}}}, {});
    REQUIRE(writer.ok());
    const float w[3] = {1, 2, 3};
    CHECK(absl::IsOutOfRange((*writer)->Append(w, 12)));
    REQUIRE((*writer)->Append(w, 4).ok());
    CHECK(absl::IsFailedPrecondition((*writer)->Finish().status()));
  }
  CHECK(!std::filesystem::exists(path));
}

TEST_CASE("a full disk is an error, and the half file goes") {
  TestDirectory dir;
  const std::string path = dir / "a.safetensors";
  {
    testing::FullDisk full(4096);
    auto writer = SafetensorsWriter::Create(path, {{"w", DType::kUint8, {10000}}}, {});
    REQUIRE(writer.ok());
    const std::vector<uint8_t> block(10000);
    const absl::Status status = (*writer)->Append(block.data(), block.size());
    CHECK(absl::IsResourceExhausted(status));
    CHECK(Contains(std::string(status.message()), path));
  }
  CHECK(!std::filesystem::exists(path));
}

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST_CASE("hostile files are refused by name and reason") {
  struct Case {
    std::string bytes;
    const char* message;
  };
  const std::string good = R"("b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const std::vector<Case> cases = {
      {"", "no room for the length"},
      {"abc", "no room for the length"},
      {std::string(8, '\xff'), "header has"},
      {std::string("\x10\0\0\0\0\0\0\0{}", 10), "header has 16 bytes"},
      {FileOf("", 0), "its header is not JSON: line 1, column 1"},
      {FileOf("[1,2]", 0), "not a JSON object"},
      {FileOf("{\"a\":", 0), "its header is not JSON"},
      {FileOf(std::string(50000, '['), 0), "nested more than 200 deep"},
      // A dtype that only recursion could print.
      {FileOf("{\"a\":{\"dtype\":" + std::string(1'000'000, '[') + std::string(1'000'000, ']') +
                  ",\"shape\":[2],\"data_offsets\":[0,8]}}",
              8),
       "nested more than 200 deep"},
      {FileOf("{\"a\":{\"dtype\":\"F32\",\"shape\":[1" + Repeated(",1", 32) +
                  "],\"data_offsets\":[0,4]}}",
              4),
       "33 axes, at most 32"},
      {FileOf("{\"a\":3}", 0), "other keys"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[2]}})", 8), "other keys"},
      {FileOf(R"({"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", 8), "dtype \"F99\""},
      {FileOf(R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})", 8), "unknown dtype 7"},
      {FileOf(R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", 8), "shape"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8), "shape"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", 8), "shape"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8), "two numbers"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), "[8, 0) of 8"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,16]}})", 8), "[0, 16) of 8"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
       "8 bytes it lies at"},
      {FileOf(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
       "bytes it lies at"},
      {FileOf("{" + good + "}", 12), "end at byte 8 of 12"},
      {FileOf("{" + good + R"(,"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12),
       "starts at byte 4"},
      {FileOf("{" + good + R"(,"a":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})", 16),
       "starts at byte 12"},
      {FileOf(R"({"__metadata__":[],)" + good + "}", 8), "__metadata__ is not"},
      {FileOf(R"({"__metadata__":{"a":1},)" + good + "}", 8), "\"a\" is not a text"},
  };
  TestDirectory dir;
  const std::string path = dir / "hostile.safetensors";
  for (const Case& c : cases) {
    testing::WriteAllBytes(path, c.bytes);
    const auto reader = SafetensorsReader::Open(path);
    INFO(c.message);
    REQUIRE(absl::IsDataLoss(reader.status()));
    INFO(reader.status());
    CHECK(Contains(std::string(reader.status().message()), c.message));
    CHECK(Contains(std::string(reader.status().message()), path));
  }
  CHECK(absl::IsNotFound(SafetensorsReader::Open(dir / "none").status()));
}

TEST_CASE("no changed byte and no missing end makes the reader stumble") {
  TestDirectory dir;
  const std::string path = dir / "a.safetensors";
  const std::string good = Sample(path);
  const auto probe = [&](const std::string& bytes) {
    testing::WriteAllBytes(path, bytes);
    const auto reader = SafetensorsReader::Open(path);
    if (!reader.ok()) return false;
    for (const TensorInfo& info : (*reader)->tensors()) REQUIRE(ReadTensor(**reader, info).ok());
    return true;
  };
  for (size_t end = 0; end < good.size(); ++end) CHECK(!probe(good.substr(0, end)));
  size_t refused = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    for (const char value : {'\0', '\xff', '"', '{', '9', static_cast<char>(good[at] ^ 1)}) {
      std::string bad = good;
      bad[at] = value;
      if (!probe(bad)) ++refused;
      CHECK(
          (bad == good || !VerifyFile(path, good.size(), Crc32(0, good.data(), good.size())).ok()));
    }
  }
  CHECK(refused > good.size());
}

TEST_CASE("the names of shards are parsed strictly") {
  const ShardTensorName name = {"dense/kernel", "momentum", 3, 17};
  CHECK(name.ToString() == "dense/kernel@momentum/rows_3_17");
  const auto parsed = ShardTensorName::Parse("a/rows_x/rows_0_8");
  REQUIRE(parsed.has_value());
  CHECK(parsed->variable == "a/rows_x");
  CHECK(parsed->slot.empty());
  CHECK(parsed->row_end == 8);
  for (const char* bad : {"", "a", "a/rows_", "a/rows_1", "a/rows_2_1", "a/rows_01_2",
                          "a/rows_1_2x", "/rows_0_1", "a@/rows_0_1", "a@b@c/rows_0_1",
                          "a@b/c/rows_0_1", "a/rows_-1_2", "a/rows_0_99999999999999999999"}) {
    INFO(bad);
    CHECK(!ShardTensorName::Parse(bad).has_value());
  }
  CHECK(!CheckVariableName("a@b").ok());
  CHECK(CheckVariableName("embedding/embeddings").ok());
}

}  // namespace
}  // namespace cohort

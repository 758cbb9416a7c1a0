// Tables without bounds in files of weights: the rows that exist, and the key of each.
#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "common/tensor/table_rows.h"
#include "common/weights/initial_weights.h"
#include "common/weights/weights_test_util.h"
#include "proto/job.pb.h"

namespace cohort::weights_test {
namespace {

using testing::TestDirectory;

constexpr int64_t kWidth = 2;

// A file with the table "t": the row of key k is {k, k + 0.5}.
std::string WriteTable(const std::string& path, const std::vector<int64_t>& keys,
                       int64_t width = kWidth) {
  const auto rows = static_cast<int64_t>(keys.size());
  auto writer = SafetensorsWriter::Create(
      path, {{"t@keys", DType::kInt64, {rows}}, {"t", DType::kFloat64, {rows, width}}}, {});
  REQUIRE(writer.ok());
  REQUIRE((*writer)->Append(keys.data(), keys.size() * sizeof(int64_t)).ok());
  for (const int64_t key : keys) {
    for (int64_t c = 0; c < width; ++c) {
      const double value = static_cast<double>(key) + 0.5 * static_cast<double>(c);
      REQUIRE((*writer)->Append(&value, sizeof(value)).ok());
    }
  }
  REQUIRE((*writer)->Finish().ok());
  return path;
}

std::vector<int64_t> RandomKeys(size_t count) {
  std::mt19937_64 random(7);
  std::vector<int64_t> keys(count);
  for (int64_t& key : keys) key = static_cast<int64_t>(random() >> 20);
  return keys;
}

// The rows by key, which come ascending by row.
std::map<int64_t, std::vector<float>> RowsOf(WeightSource* source, size_t index) {
  std::map<int64_t, std::vector<float>> rows;
  int64_t last = -1;
  const auto read = source->ReadTable(
      index, DType::kFloat32, [&](std::span<const int64_t> keys, std::span<const uint8_t> values) {
        REQUIRE(values.size() == keys.size() * kWidth * sizeof(float));
        const auto* at = reinterpret_cast<const float*>(values.data());
        for (const int64_t key : keys) {
          REQUIRE(RowOfKey(key) > last);
          last = RowOfKey(key);
          rows[key] = {at, at + kWidth};
          at += kWidth;
        }
        return absl::OkStatus();
      });
  INFO(read);
  REQUIRE(read.ok());
  return rows;
}

TEST_CASE("the rows of a table come in the order of their rows, whatever the file has") {
  const TestDirectory directory;
  std::vector<int64_t> keys = RandomKeys(20'000);
  for (const bool sorted : {false, true}) {
    if (sorted) std::ranges::sort(keys, {}, RowOfKey);
    const auto source = OpenWeights(WriteTable(directory / "t.safetensors", keys));
    INFO(source.status());
    REQUIRE(source.ok());
    REQUIRE((*source)->tensors().size() == 1);
    const SourceTensor& table = (*source)->tensors()[0];
    CHECK(table.name == "t");
    CHECK(table.dims == Dims{kTableRows, kWidth});
    CHECK(*(*source)->TableSize(table) == keys.size());
    const auto rows = RowsOf(source->get(), 0);
    REQUIRE(rows.size() == keys.size());
    bool same = true;
    for (const auto& [key, row] : rows) {
      same = same && row == std::vector{static_cast<float>(key),
                                        static_cast<float>(static_cast<double>(key) + 0.5)};
    }
    CHECK(same);
  }
}

TEST_CASE("a variable begins with the rows of a table of another name, in its own type") {
  const TestDirectory directory;
  WriteTable(directory / "old.safetensors", {9, 5, 1'000'000'007});
  const std::vector<v1::VariableSpec> variables = {Variable("new/t", {kTableRows, kWidth})};
  v1::InitialWeightsSpec spec;
  spec.set_path(directory / "old.safetensors");
  spec.add_rename()->set_from("t");
  spec.mutable_rename(0)->set_to("new/t");
  const auto weights = FindInitialWeights(spec, "job.yaml", variables, {});
  INFO(weights.status());
  REQUIRE(weights.ok());
  CHECK(CheckInitialValues(*weights, variables).ok());
  const std::string path = directory / kInitialValuesName;
  REQUIRE(WriteInitialValues(*weights, variables, "job-1", path).ok());
  const auto written = OpenWeights(path);
  REQUIRE(written.ok());
  CHECK((*written)->tensors()[0].dtype == DType::kFloat32);
  const auto rows = RowsOf(written->get(), 0);
  REQUIRE(rows.size() == 3);
  CHECK(rows.at(5) == std::vector<float>{5, 5.5});
}

TEST_CASE("a table of another width, or a dense variable, is a mismatch") {
  const TestDirectory directory;
  WriteTable(directory / "t.safetensors", {1, 2});
  v1::InitialWeightsSpec spec;
  spec.set_path(directory / "t.safetensors");
  for (const Dims& dims : {Dims{kTableRows, 3}, Dims{2, kWidth}}) {
    const std::vector<v1::VariableSpec> variables = {Variable("t", dims)};
    CHECK(Contains(FindInitialWeights(spec, "job.yaml", variables, {}).status(), "has the shape"));
  }
}

TEST_CASE("keys that do not fit to their rows are an error that names them") {
  const TestDirectory directory;
  const auto twice = OpenWeights(WriteTable(directory / "twice.safetensors", {5, 8, 5}));
  REQUIRE(twice.ok());
  const auto ignore = [](auto, auto) { return absl::OkStatus(); };
  CHECK(Contains((*twice)->ReadTable(0, std::nullopt, ignore), "the key 5 is twice in \"t@keys\""));
  // The lowest 62 bits count.
  const auto same = OpenWeights(WriteTable(directory / "same.safetensors", {-1, kTableRows - 1}));
  REQUIRE(same.ok());
  CHECK(Contains((*same)->ReadTable(0, std::nullopt, ignore), "is twice"));
  WriteTensors(directory / "short.safetensors",
               {{"t@keys", DType::kInt64, {2}}, {"t", DType::kFloat32, {3, 2}}});
  CHECK(Contains(OpenWeights(directory / "short.safetensors").status(), "each row has a key"));
  WriteTensors(directory / "type.safetensors",
               {{"t@keys", DType::kFloat32, {3}}, {"t", DType::kFloat32, {3, 2}}});
  CHECK(Contains(OpenWeights(directory / "type.safetensors").status(), "t@keys\" is float32[3]"));
  // Keys without rows are a tensor like others.
  WriteTensors(directory / "alone.safetensors", {{"t@keys", DType::kInt64, {2}}});
  CHECK((*OpenWeights(directory / "alone.safetensors"))->tensors()[0].dims == Dims{2});
  const auto empty = OpenWeights(WriteTable(directory / "empty.safetensors", {}));
  REQUIRE(empty.ok());
  CHECK(RowsOf(empty->get(), 0).empty());
}

}  // namespace
}  // namespace cohort::weights_test

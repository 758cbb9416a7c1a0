// Files that the real pyarrow writes (tests/data/make_parquet.py).
#include <catch2/catch.hpp>
#include <cstdlib>
#include <random>
#include <thread>

#include "common/data/constant_memory_test_util.h"
#include "common/data/data_test_specs.h"
#include "common/data/dataset.h"
#include "common/os/child_process.h"
#include "common/testing/status_test_util.h"

namespace cohort {
namespace {

using testing::CheckConstantMemory;
using testing::Contains;
using testing::Message;

const testing::TestDirectory& ParquetDirectory() {
  static const auto& directory = *[] {
    auto* const made = new testing::TestDirectory();
    const char* const source = std::getenv("COHORT_SOURCE_DIR");
    const char* const python = std::getenv("COHORT_ARROW_PYTHON");
    auto child = ChildProcess::Start(
        {.argv = {python == nullptr ? "python3" : python,
                  std::string(source == nullptr ? "." : source) + "/tests/data/make_parquet.py",
                  made->path()}});
    REQUIRE(Message(child.status()) == "");
    REQUIRE((*child)->Wait() == 0);
    return made;
  }();
  return directory;
}

v1::DatasetSpec ParquetSpec(
    const std::vector<std::string>& files,
    std::initializer_list<std::pair<std::string_view, v1::ConfigValue>> more = {}) {
  std::vector<std::string> paths;
  for (const std::string& file : files) paths.push_back(ParquetDirectory() / file);
  v1::DatasetSpec spec;
  *spec.mutable_source_class() = ClassOf("parquet", {{"files", ConfigOf(paths)}});
  for (const auto& [key, value] : more) {
    (*spec.mutable_source_class()->mutable_config())[std::string(key)] = value;
  }
  return spec;
}

std::shared_ptr<const Dataset> OpenParquetData(const v1::DatasetSpec& spec) {
  const auto dataset = Dataset::Open(spec);
  INFO(dataset.status());
  REQUIRE(dataset.ok());
  return *dataset;
}

absl::Status GatherParquet(const Dataset& dataset, const std::string& name,
                           const std::vector<uint64_t>& rows, Tensor* column) {
  const auto feature = dataset.FindFeatures(std::vector{name});
  if (!feature.ok()) return feature.status();
  std::vector<Tensor> batch;
  const absl::Status gathered = dataset.Gather(rows, *feature, &batch);
  if (gathered.ok()) *column = batch[0];
  return gathered;
}

template <typename T>
std::vector<T> ParquetRows(const Dataset& dataset, const std::string& name,
                           const std::vector<uint64_t>& rows) {
  Tensor column;
  REQUIRE(Message(GatherParquet(dataset, name, rows, &column)) == "");
  REQUIRE(column.dtype() == DTypeOf<T>());
  const auto values = column.values<T>();
  return {values.begin(), values.end()};
}

std::string ParquetError(const v1::DatasetSpec& spec, const std::string& name, uint64_t row) {
  const auto dataset = Dataset::Open(spec);
  if (!dataset.ok()) return Message(dataset.status());
  Tensor column;
  return Message(GatherParquet(**dataset, name, {row}, &column));
}

TEST_CASE("columns of Parquet files become numbers and words") {
  v1::DatasetSpec spec = ParquetSpec({"types.parquet"});
  testing::AddTransform(&spec, "city", testing::Lookup({"Oslo", "Rome"}));
  testing::AddTransform(&spec, "category", testing::Lookup({"a", "b"}));
  testing::AddTransform(&spec, "tags", testing::Lookup({"x", "y"}));
  const auto dataset = OpenParquetData(spec);
  CHECK(dataset->num_records() == 3);
  const std::vector<uint64_t> rows = {0, 1, 2};
  CHECK(ParquetRows<int32_t>(*dataset, "int8", rows) == std::vector<int32_t>{-1, 0, 1});
  CHECK(ParquetRows<uint8_t>(*dataset, "uint8", rows) == std::vector<uint8_t>{0, 200, 255});
  CHECK(ParquetRows<int64_t>(*dataset, "int64", rows) ==
        std::vector<int64_t>{9007199254740993, -2, 3});
  CHECK(ParquetRows<float>(*dataset, "half", rows) == std::vector<float>{0.5, -2, 65504});
  CHECK(ParquetRows<float>(*dataset, "float", rows) == std::vector<float>{0.25, 1, 2});
  CHECK(ParquetRows<double>(*dataset, "double", rows) == std::vector<double>{0.1, 0.2, 0.3});
  CHECK(ParquetRows<double>(*dataset, "decimal", rows) == std::vector<double>{1.25, -2.5, 0});
  CHECK(ParquetRows<double>(*dataset, "date", rows) == std::vector<double>{0, 1, 20000});
  CHECK(ParquetRows<double>(*dataset, "time", rows) == std::vector<double>{0, 1.5, 1e9});
  CHECK(ParquetRows<float>(*dataset, "list", rows) == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(ParquetRows<int64_t>(*dataset, "fixed", rows) == std::vector<int64_t>{1, 2, 3, 4, 5, 6});
  CHECK(ParquetRows<int64_t>(*dataset, "city", rows) == std::vector<int64_t>{2, 1, 2});
  CHECK(ParquetRows<int64_t>(*dataset, "category", rows) == std::vector<int64_t>{1, 2, 1});
  CHECK(ParquetRows<int64_t>(*dataset, "tags", rows) == std::vector<int64_t>{1, 2, 2, 1, 1, 1});
  CHECK(Contains(ParquetError(spec, "struct", 0), "has the type struct<"));
}

TEST_CASE("rows of several files and row groups are read by index, with any cache") {
  for (const int64_t cache : {0, 3000, 1 << 28}) {
    const auto dataset =
        OpenParquetData(ParquetSpec({"part-*.parquet"}, {{"cache_bytes", ConfigOf(cache)}}));
    REQUIRE(dataset->num_records() == 2500);
    std::vector<uint64_t> rows(2500);
    for (uint64_t i = 0; i < rows.size(); ++i) rows[i] = (i * 1009) % 2500;
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        Tensor column;
        if (!GatherParquet(*dataset, "x", rows, &column).ok()) ++wrong;
        for (size_t i = 0; i < rows.size(); ++i) {
          if (column.values<int64_t>()[i] != static_cast<int64_t>(rows[i])) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
  }
}

TEST_CASE("lists of different lengths are padded and cut to a length") {
  const auto lists = [](std::initializer_list<std::pair<std::string_view, v1::ClassConfig>> of) {
    v1::ConfigValue value;
    for (const auto& [name, config] : of) {
      (*value.mutable_object()->mutable_config())[std::string(name)] = ConfigOf(config);
    }
    return value;
  };
  v1::ClassConfig list =
      ClassOf("numbers", {{"length", ConfigOf(int64_t{2})}, {"pad_with", ConfigOf(-1.0)}});
  const auto spec = [&] {
    return ParquetSpec({"ragged.parquet"}, {{"lists", lists({{"v", list}})}});
  };
  CHECK(Contains(ParquetError(spec(), "v", 1),
                 "ragged.parquet: row 1: column \"v\": has 3 numbers, and the shape [2] needs 2"));
  (*list.mutable_config())["truncate"] = ConfigOf(true);
  CHECK(ParquetRows<int64_t>(*OpenParquetData(spec()), "v", {0, 1}) ==
        std::vector<int64_t>{1, 2, 1, 2});
  (*list.mutable_config())["length"] = ConfigOf(int64_t{4});
  CHECK(ParquetRows<int64_t>(*OpenParquetData(spec()), "v", {0, 1}) ==
        std::vector<int64_t>{1, 2, -1, -1, 1, 2, 3, -1});
  CHECK(Contains(
      ParquetError(ParquetSpec({"ragged.parquet"}, {{"lists", lists({{"w", list}})}}), "v", 0),
      "has no column \"w\" of `lists`"));
  list.set_class_name("words");
  list.mutable_config()->erase("pad_with");
  CHECK(Contains(ParquetError(spec(), "v", 0), "declare it as `{length: N}`"));
}

TEST_CASE("files of four times the limit of memory are read in constant memory") {
  CheckConstantMemory(
      ParquetSpec({"large.parquet"}, {{"cache_bytes", ConfigOf(int64_t{4} << 20)}}));
}

TEST_CASE("null needs a value that stands for it") {
  CHECK(Contains(ParquetError(ParquetSpec({"null.parquet"}), "x", 0),
                 "null.parquet: row 1: column \"x\": is null: `missing` would stand for it"));
  const auto dataset =
      OpenParquetData(ParquetSpec({"null.parquet"}, {{"missing", ConfigOf(-1.0)}}));
  CHECK(ParquetRows<double>(*dataset, "x", {0, 1}) == std::vector<double>{1, -1});
  CHECK(Contains(ParquetError(ParquetSpec({"null.parquet"}, {{"missing", ConfigOf(-1.0)}}), "u", 1),
                 "row 1: column \"u\": is null, and `missing: -1` is no value of uint8"));
}

TEST_CASE("what is wrong with Parquet files is said with the file and the place") {
  const testing::TestDirectory& directory = ParquetDirectory();
  const std::string good = testing::ReadAllBytes(directory / "part-0.parquet");
  directory.Write("cut.parquet", good.substr(0, good.size() / 2));
  CHECK(Contains(ParquetError(ParquetSpec({"cut.parquet"}), "x", 0),
                 "cut.parquet: cannot be read as Parquet: "));
  directory.Write("text.parquet", "a,b\n1,2\n");
  CHECK(Contains(ParquetError(ParquetSpec({"text.parquet"}), "x", 0),
                 "text.parquet: cannot be read as Parquet: "));
  CHECK(Contains(ParquetError(ParquetSpec({"types.parquet"},
                                          {{"columns", ConfigOf(std::vector<std::string>{"z"})}}),
                              "z", 0),
                 "has no column \"z\" of `columns`; it has int8, "));
  CHECK(Contains(ParquetError(ParquetSpec({"part-0.parquet", "null.parquet"}), "x", 0),
                 "null.parquet: its column \"x\" has the type double, and "));
  CHECK(Contains(ParquetError(ParquetSpec({"ragged.parquet"}), "v", 1),
                 "ragged.parquet: row 1: column \"v\": has 3 numbers, the first row has 2"));
  std::mt19937_64 random(20260608);
  for (int round = 0; round < 100; ++round) {
    std::string bytes = good;
    for (int n = 0; n < 3; ++n) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    }
    directory.Write("damaged.parquet", bytes);
    const std::string error = ParquetError(ParquetSpec({"damaged.parquet"}), "x", 7);
    CHECK((error.empty() || Contains(error, "damaged.parquet") || Contains(error, "no feature")));
  }
}

}  // namespace
}  // namespace cohort

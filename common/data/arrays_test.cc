// Sources of numpy's arrays.
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "common/data/data_test_arrays.h"
#include "common/data/dataset.h"
#include "common/testing/directory_test_util.h"
#include "common/testing/status_test_util.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::Message;
using testing::Npy;
using testing::TestDirectory;

template <typename T>
std::string BytesOfAll(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// A feature of all records, as numbers.
std::vector<double> ColumnValues(const v1::DatasetSpec& spec, int feature, DType* dtype = nullptr) {
  const auto dataset = Dataset::Open(spec);
  INFO(dataset.status());
  REQUIRE(dataset.ok());
  std::vector<uint64_t> all((*dataset)->num_records());
  for (uint64_t i = 0; i < all.size(); ++i) all[i] = i;
  std::vector<Tensor> batch;
  REQUIRE(Message((*dataset)->Gather(all, {&feature, 1}, &batch)) == "");
  if (dtype != nullptr) *dtype = batch[0].dtype();
  std::vector<double> values;
  for (size_t i = 0; i < static_cast<size_t>(batch[0].num_elements()); ++i) {
    switch (batch[0].dtype()) {
      case DType::kFloat32:
        values.push_back(batch[0].values<float>()[i]);
        break;
      case DType::kFloat64:
        values.push_back(batch[0].values<double>()[i]);
        break;
      case DType::kInt32:
        values.push_back(batch[0].values<int32_t>()[i]);
        break;
      case DType::kInt64:
        values.push_back(static_cast<double>(batch[0].values<int64_t>()[i]));
        break;
      case DType::kUint8:
        values.push_back(batch[0].values<uint8_t>()[i]);
        break;
      default:
        values.push_back(batch[0].values<bool>()[i] ? 1 : 0);
    }
  }
  return values;
}

std::string ArrayError(const v1::DatasetSpec& spec) {
  return Message(Dataset::Open(spec).status());
}

TEST_CASE("numpy's dtypes become those of columns") {
  struct Case {
    const char* descr;
    std::string data;
    DType dtype;
    std::vector<double> values;
  };
  const std::vector<Case> cases = {
      {"|u1", "\x01\xff", DType::kUint8, {1, 255}},
      {"|b1", std::string("\x01\0", 2), DType::kBool, {1, 0}},
      {"|i1", "\x01\xff", DType::kInt32, {1, -1}},
      {"<i2", BytesOfAll<int16_t>({-300, 7}), DType::kInt32, {-300, 7}},
      {">i2", std::string("\xfe\xd4\x00\x07", 4), DType::kInt32, {-300, 7}},
      {"<u2", BytesOfAll<uint16_t>({65535, 7}), DType::kInt32, {65535, 7}},
      {"<u4", BytesOfAll<uint32_t>({4294967295U, 7}), DType::kInt64, {4294967295.0, 7}},
      {"<i4", BytesOfAll<int32_t>({-5, 7}), DType::kInt32, {-5, 7}},
      {"<i8", BytesOfAll<int64_t>({-5, 1L << 40}), DType::kInt64, {-5, 1099511627776.0}},
      {"<f2", BytesOfAll<uint16_t>({0xc100, 0x0001}), DType::kFloat32, {-2.5, 0x1p-24}},
      {"<f4", BytesOfAll<float>({0.5F, -2}), DType::kFloat32, {0.5, -2}},
      {">f4", std::string("\x3f\x00\x00\x00\xc0\x00\x00\x00", 8), DType::kFloat32, {0.5, -2}},
      {"<f8", BytesOfAll<double>({0.1, -2}), DType::kFloat64, {0.1, -2}}};
  const TestDirectory directory;
  for (const Case& c : cases) {
    INFO(c.descr);
    DType dtype = DType::kInvalid;
    const std::string path = directory.Write("x.npy", Npy(c.descr, {2}, c.data));
    CHECK(ColumnValues(testing::NpySpec({path}), 0, &dtype) == c.values);
    CHECK(dtype == c.dtype);
  }
}

TEST_CASE("arrays side by side are columns of one data set") {
  const TestDirectory directory;
  v1::DatasetSpec spec =
      testing::NpySpec({directory.Write("x.npy", Npy("|u1", {3, 2, 1}, "abcdef")),
                        directory.Write("y.npy", Npy("<i8", {3}, BytesOfAll<int64_t>({5, 6, 7})))});
  spec.set_skip(1);
  const auto dataset = Dataset::Open(spec);
  REQUIRE(dataset.ok());
  CHECK((*dataset)->features()[0].name == "x");
  CHECK((*dataset)->features()[0].dims == Dims{2, 1});
  CHECK(ColumnValues(spec, 0) == std::vector<double>{'c', 'd', 'e', 'f'});
  CHECK(ColumnValues(spec, 1) == std::vector<double>{6, 7});
  (*spec.mutable_source_class()->mutable_config())["columns"] =
      ConfigOf(std::vector<std::string>{"image", "label"});
  CHECK((*Dataset::Open(spec))->features()[1].name == "label");
  directory.Write("y.npy", Npy("|u1", {2}, "ab"));
  CHECK(Contains(ArrayError(spec), "choose arrays of equal lengths"));
}

TEST_CASE("arrays that cannot be read are refused by name and reason") {
  struct Case {
    std::string bytes;
    const char* message;
  };
  const std::string good = Npy("<f4", {2}, "12345678");
  std::string fortran = good, version = good;
  fortran.replace(fortran.find("False"), 5, "True ");
  version[6] = '\x09';
  const std::vector<Case> cases = {
      {"", "is not an array"},
      {"PK\x03\x04 and so on", "is not an array"},
      {version, "has version 9 of numpy's format"},
      {good.substr(0, 40), "ends within the header"},
      {good.substr(0, good.size() - 1), "the shape [2] needs 4 bytes for each row, but 7 bytes"},
      {good + "x", "but 9 bytes"},
      {fortran, "is in Fortran's order: save numpy.ascontiguousarray of it"},
      {Npy("|O", {2}, "12345678"), "has numpy's dtype '|O', Python objects, as pandas"},
      {Npy("<U4", {2}, "12345678"), "has numpy's dtype '<U4', text: save the numbers"},
      {Npy("<u8", {1}, "12345678"), "has numpy's dtype '<u8'"},
      {Npy("<f4", {}, "1234"), "is one number and has no rows"},
      {Npy("<f4", {2, 0}, ""), "a column cannot have the shape [0]"},
      {Npy("<f4", {-1}, "1234"), "the header of the array is damaged"}};
  const TestDirectory directory;
  for (const Case& c : cases) {
    const std::string error = ArrayError(testing::NpySpec({directory.Write("x.npy", c.bytes)}));
    INFO(error);
    CHECK(Contains(error, c.message));
    CHECK(Contains(error, "x.npy"));
  }
  v1::DatasetSpec missing = testing::NpySpec({directory / "none.npy"});
  (*missing.mutable_source_class()->mutable_config())["url"] =
      ConfigOf(std::string_view("http://x/y"));
  CHECK(Contains(ArrayError(missing), "none.npy does not exist; get it from http://x/y"));
}

v1::DatasetSpec NpzSpec(const std::string& path, const std::vector<std::string>& arrays = {}) {
  v1::DatasetSpec spec;
  *spec.mutable_source_class() =
      ClassOf("npz", {{"path", ConfigOf(std::string_view(path))}, {"arrays", ConfigOf(arrays)}});
  return spec;
}

TEST_CASE("the arrays of a .npz file are columns, packed or not") {
  const TestDirectory directory;
  for (const bool pack : {false, true}) {
    const std::string path = directory.Write(
        "a.npz", testing::Zip({{"x.npy", Npy("<f4", {3}, BytesOfAll<float>({1, 2, 3}))},
                               {"y.npy", Npy("|u1", {3}, "abc")},
                               {"test.npy", Npy("|u1", {2}, "de")}},
                              pack));
    CHECK(Contains(ArrayError(NpzSpec(path)), "choose arrays of equal lengths"));
    CHECK(Contains(ArrayError(NpzSpec(path, {"z"})),
                   "has no array \"z\" of `arrays`; it has x, y, test"));
    CHECK(ColumnValues(NpzSpec(path, {"y", "x"}), 1) == std::vector<double>{1, 2, 3});
    CHECK(ColumnValues(NpzSpec(path, {"test"}), 0) == std::vector<double>{'d', 'e'});
  }
}

TEST_CASE("a damaged .npz file is refused, and the message says which member is damaged") {
  const TestDirectory directory;
  const std::string npy = Npy("|u1", {3}, "abc");
  const std::string stored = testing::Zip({{"x.npy", npy}}, false);
  const std::string packed = testing::Zip({{"x.npy", npy}}, true);
  const auto error = [&](std::string bytes) {
    return ArrayError(NpzSpec(directory.Write("a.npz", bytes)));
  };
  for (const std::string& other :
       {std::string("no archive"), std::string(), stored.substr(0, 60)}) {
    CHECK(Contains(error(other), "a.npz: is not a ZIP file, or is truncated"));
  }
  std::string bad = packed;
  bad[bad.size() / 3] ^= 1;
  CHECK(Contains(error(bad), "a.npz: the ZIP file is damaged: x.npy"));
  std::string moved = stored;
  moved[26] ^= 1;  // the length of the name in the local header
  CHECK(Contains(error(moved), "a.npz: x.npy: is not an array"));
}

TEST_CASE("no mutation of an array file makes its decoder crash") {
  std::mt19937_64 random(20260608);
  const TestDirectory directory;
  const std::string npy = Npy("<i2", {3, 4}, std::string(24, 'x'));
  for (const bool zip : {false, true}) {
    const std::string good = zip ? testing::Zip({{"x.npy", npy}}, random() % 2 == 0) : npy;
    int refused = 0;
    for (int round = 0; round < 1000; ++round) {
      std::string bytes = good;
      for (uint64_t n = random() % 4; n > 0; --n)
        bytes[random() % bytes.size()] ^= 1 << random() % 8;
      if (random() % 3 == 0) bytes.resize(random() % bytes.size());
      const std::string path = directory.Write("a", bytes);
      const auto dataset = Dataset::Open(zip ? NpzSpec(path) : testing::NpySpec({path}));
      if (!dataset.ok()) {
        ++refused;
        CHECK(!dataset.status().message().empty());
        continue;
      }
      std::vector<Tensor> batch;
      const std::vector<uint64_t> indices = {0};
      const std::vector<int> features = {0};
      CHECK(Message((*dataset)->Gather(indices, features, &batch)) == "");
    }
    CHECK(refused > 300);
  }
}

TEST_CASE("one array for each class: rows alternate, labels are the numbers of the files") {
  const TestDirectory directory;
  v1::DatasetSpec spec;
  const std::vector<std::string> files = {directory.Write("a.npy", Npy("|u1", {2, 1}, "ab")),
                                          directory.Write("b.npy", Npy("|u1", {4, 1}, "1234")),
                                          directory.Write("c.npy", Npy("|u1", {3, 1}, "xyz"))};
  *spec.mutable_source_class() = ClassOf("npy_classes", {{"files", ConfigOf(files)}});
  CHECK(ColumnValues(spec, 0) == std::vector<double>{'a', '1', 'x', 'b', '2', 'y', '3', 'z', '4'});
  CHECK(ColumnValues(spec, 1) == std::vector<double>{0, 1, 2, 0, 1, 2, 1, 2, 1});
  (*spec.mutable_source_class()->mutable_config())["max_per_class"] = ConfigOf(int64_t{1});
  CHECK(ColumnValues(spec, 0) == std::vector<double>{'a', '1', 'x'});
  directory.Write("b.npy", Npy("|u1", {4, 2}, "12345678"));
  CHECK(Contains(ArrayError(spec), "all classes need the same"));
}

}  // namespace
}  // namespace cohort

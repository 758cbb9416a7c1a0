// Numbers keep their type from the file to the batch. The expected values are those of pandas 3 and
// NumPy 2.4: `pandas.read_csv(file)[column].tolist()`, `numpy.stack`, `frame[column] == value`.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/data/data_test_arrays.h"
#include "common/data/data_test_specs.h"
#include "common/data/dataset.h"
#include "common/data/fingerprint.h"
#include "common/testing/directory_test_util.h"
#include "common/testing/status_test_util.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

using testing::AddTransform;
using testing::Contains;
using testing::CsvSpec;
using testing::IsEqual;
using testing::Lookup;
using testing::Message;
using testing::Npy;
using testing::NpySpec;
using testing::Scaled;

void Read(v1::DatasetSpec* spec, std::string_view column, std::string_view dtype,
          int64_t below = 0) {
  v1::ColumnRead* const read = spec->add_reads();
  read->set_column(std::string(column));
  read->set_dtype(std::string(dtype));
  read->set_below(below);
  read->set_reader("layer \"table\"");
}

// All values of a column, which must have the dtype of T.
template <typename T>
std::vector<T> ValuesOf(const v1::DatasetSpec& spec, const std::string& column) {
  const auto dataset = Dataset::Open(spec);
  REQUIRE(dataset.status().message() == "");
  const auto feature = (*dataset)->FindFeatures({&column, 1});
  REQUIRE(feature.status().message() == "");
  REQUIRE((*dataset)->features()[static_cast<size_t>((*feature)[0])].dtype == DTypeOf<T>());
  std::vector<uint64_t> indices((*dataset)->num_records());
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = i;
  std::vector<Tensor> batch;
  REQUIRE((*dataset)->Gather(indices, *feature, &batch).message() == "");
  const auto values = batch[0].values<T>();
  return {values.begin(), values.end()};
}

// The error of opening the data, or of reading all of it.
std::string ReadingError(const v1::DatasetSpec& spec) {
  const auto dataset = Dataset::Open(spec);
  if (!dataset.ok()) return Message(dataset.status());
  std::vector<uint64_t> indices((*dataset)->num_records());
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = i;
  std::vector<int> features((*dataset)->features().size());
  for (size_t i = 0; i < features.size(); ++i) features[i] = static_cast<int>(i);
  std::vector<Tensor> batch;
  return Message((*dataset)->Gather(indices, features, &batch));
}

v1::DatasetSpec Named(const std::string& column, const std::vector<std::string>& files) {
  v1::DatasetSpec spec = NpySpec(files);
  (*spec.mutable_source_class()->mutable_config())["columns"] =
      ConfigOf(std::vector<std::string>{column});
  return spec;
}

template <typename T>
std::string BytesOf(std::initializer_list<T> values) {
  return std::string(reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T));
}

constexpr std::string_view kLargeIds =
    "id,y\n16777216,0\n16777217,1\n9007199254740993,0\n9223372036854775807,1\n"
    "-9223372036854775808,0\n";
const std::vector<int64_t> kLargeIdValues = {16777216, 16777217, 9007199254740993,
                                             std::numeric_limits<int64_t>::max(),
                                             std::numeric_limits<int64_t>::min()};

TEST_CASE("integers of a CSV file are int64 where a model reads integers") {
  const testing::TestDirectory dir;
  v1::DatasetSpec spec = CsvSpec(dir.Write("a.csv", kLargeIds));
  CHECK(ValuesOf<float>(spec, "id")[1] == 16777216.0F);  // a batch has no more than a model needs
  Read(&spec, "id", "int64");
  CHECK(ValuesOf<int64_t>(spec, "id") == kLargeIdValues);
  CHECK(ValuesOf<float>(spec, "y") == std::vector<float>{0, 1, 0, 1, 0});
  AddTransform(&spec, "id", ClassOf("Cast", {}));
  CHECK(ValuesOf<int64_t>(spec, "id") == kLargeIdValues);
  AddTransform(&spec, "id",
               ClassOf("Reshape", {{"target_shape", ConfigOf(std::vector<int64_t>{1, 1})}}));
  CHECK(ValuesOf<int64_t>(spec, "id") == kLargeIdValues);
}

TEST_CASE("a dtype that the job names stays") {
  const testing::TestDirectory dir;
  v1::DatasetSpec spec = CsvSpec(dir.Write("a.csv", "x\n16777217\n3\n"));
  AddTransform(&spec, "x", ClassOf("Cast", {{"dtype", ConfigOf("float32")}}));
  Read(&spec, "x", "int64");
  CHECK(Contains(ReadingError(spec),
                 "a.csv: line 2: column \"x\": 16777216 may be rounded: float32"));
  spec.clear_reads();
  CHECK(ValuesOf<float>(spec, "x") == std::vector<float>{16777216, 3});
  spec.mutable_transforms(0)->mutable_transform_class()->clear_config();
  spec.mutable_transforms(0)->set_dtype("int64");
  CHECK(ValuesOf<int64_t>(spec, "x") == std::vector<int64_t>{16777217, 3});
}

TEST_CASE("a float64 model reads what the file says to the last digit") {
  const testing::TestDirectory dir;
  v1::DatasetSpec spec = CsvSpec(dir.Write(
      "a.csv", "x,n,s\n0.1,16777217,3\n123456789.12345679,-5,7\n1e-300,4503599627370497,9\n"));
  for (const char* column : {"x", "n", "s"}) Read(&spec, column, "float64");
  AddTransform(&spec, "s", Scaled(0.1, 1));
  CHECK(ValuesOf<double>(spec, "x") == std::vector<double>{0.1, 123456789.12345679, 1e-300});
  CHECK(ValuesOf<double>(spec, "n") == std::vector<double>{16777217, -5, 4503599627370497});
  CHECK(ValuesOf<double>(spec, "s") == std::vector<double>{3 * 0.1 + 1, 7 * 0.1 + 1, 9 * 0.1 + 1});
}

TEST_CASE("integers side by side stay integers") {
  const testing::TestDirectory dir;
  v1::DatasetSpec spec =
      CsvSpec(dir.Write("a.csv", "a,b\n9007199254740993,1\n16777217,9007199254740995\n"));
  v1::ColumnTransform* const stack = AddTransform(&spec, "", {}, "both");
  stack->add_columns("a");
  stack->add_columns("b");
  Read(&spec, "both", "int64");
  CHECK(ValuesOf<int64_t>(spec, "both") ==
        std::vector<int64_t>{9007199254740993, 1, 16777217, 9007199254740995});

  // numpy.stack([int64, int32], -1).dtype: int64; [float64, float32]: float64
  v1::DatasetSpec npy =
      NpySpec({dir.Write("l.npy", Npy("<i8", {2}, BytesOf<int64_t>({9007199254740993, -2}))),
               dir.Write("i.npy", Npy("<i4", {2}, BytesOf<int32_t>({5, 6}))),
               dir.Write("d.npy", Npy("<f8", {2}, BytesOf<double>({0.1, 2}))),
               dir.Write("f.npy", Npy("<f4", {2}, BytesOf<float>({0.5, 4})))});
  const auto stacked = [&](const char* a, const char* b) {
    v1::DatasetSpec of = npy;
    v1::ColumnTransform* const transform = AddTransform(&of, "", {}, "both");
    transform->add_columns(a);
    transform->add_columns(b);
    return of;
  };
  CHECK(ValuesOf<int64_t>(stacked("l", "i"), "both") ==
        std::vector<int64_t>{9007199254740993, 5, -2, 6});
  CHECK(ValuesOf<double>(stacked("d", "f"), "both") == std::vector<double>{0.1, 0.5, 2, 4});
}

TEST_CASE("equals compares integers exactly, and numbers as numbers") {
  const testing::TestDirectory dir;
  const auto marks = [&](std::string_view csv, std::string_view value) {
    v1::DatasetSpec spec = CsvSpec(dir.Write("a.csv", csv));
    AddTransform(&spec, "x", IsEqual(value));
    return ValuesOf<float>(spec, "x");
  };
  // pandas.read_csv(...)["x"] == value
  CHECK(marks("x\n9007199254740992\n9007199254740993\n", "9007199254740993") ==
        std::vector<float>{0, 1});
  CHECK(marks("x\n01\n1\n2\n", "1") == std::vector<float>{1, 1, 0});
  CHECK(marks("x\n1.0\n1.5\n1\n", "1") == std::vector<float>{1, 0, 1});
  CHECK(marks("x\n1.0\nn/a\n1\n", "1") == std::vector<float>{0, 0, 1});
  CHECK(marks("x\nyes\nno\n", "yes") == std::vector<float>{1, 0});
  // Words that are only compared are bytes.
  CHECK(marks("x\n\xe9\nb\n", "b") == std::vector<float>{0, 1});

  // numpy.float32([0.1, 0.2]) == 0.1
  v1::DatasetSpec npy =
      NpySpec({dir.Write("f.npy", Npy("<f4", {2}, BytesOf<float>({0.1F, 0.2F}))),
               dir.Write("l.npy",
                         Npy("<i8", {2}, BytesOf<int64_t>({9007199254740992, 9007199254740993})))});
  AddTransform(&npy, "f", IsEqual("0.1"));
  AddTransform(&npy, "l", IsEqual("9007199254740993"));
  CHECK(ValuesOf<float>(npy, "f") == std::vector<float>{1, 0});
  CHECK(ValuesOf<float>(npy, "l") == std::vector<float>{0, 1});
}

TEST_CASE("numbers that a model cannot read as integers are errors with their place") {
  const testing::TestDirectory dir;
  const std::string half = BytesOf<float>({1, 2.5, 3});
  const std::string nan = BytesOf<double>({0, 1, std::nan("")});
  struct Case {
    const char* what;
    v1::DatasetSpec spec;
    const char* dtype;
    int64_t below;
    std::string error;
  };
  const Case cases[] = {
      {"a fraction",  // after a record of two lines
       CsvSpec(dir.Write("a.csv", "w,x\n\"a\nb\",1\n\nc,2.5\n")), "int64", 0,
       "a.csv: line 5: column \"x\": 2.5 is not an integer of 64 bits, and layer \"table\" reads "
       "integers"},
      {"beyond int64", CsvSpec(dir.Write("b.csv", "x\n1\n9223372036854775808\n")), "int64", 0,
       "b.csv: line 3: column \"x\": 9.223372036854776e+18 is not an integer of 64 bits"},
      {"too large an id", CsvSpec(dir.Write("c.csv", "x\n0\n9\n10\n")), "int64", 10,
       "c.csv: line 4: column \"x\": 10 does not lie in [0, 10), as layer \"table\" needs it"},
      {"a negative id", CsvSpec(dir.Write("d.csv", "x\n-1\n0\n")), "int64", 10,
       "d.csv: line 2: column \"x\": -1 does not lie in [0, 10)"},
      {"a fraction of an array", NpySpec({dir.Write("x.npy", Npy("<f4", {3}, half))}), "int64", 0,
       "x.npy: row 1: column \"x\": 2.5 is not an integer"},
      {"too large an integer of an array",
       Named("x", {dir.Write("r-x.npy", Npy("<i8", {2, 2}, BytesOf<int64_t>({0, 1, 2, 77})))}),
       "int64", 77, "x.npy: row 1: column \"x\"[1]: 77 does not lie in [0, 77)"},
      {"NaN of an array", Named("x", {dir.Write("n-x.npy", Npy("<f8", {3}, nan))}), "int64", 0,
       "x.npy: row 2: column \"x\": nan is not an integer"},
  };
  for (Case test : cases) {
    INFO(test.what);
    CHECK(ReadingError(test.spec) == "");
    Read(&test.spec, "x", test.dtype, test.below);
    CHECK(Contains(ReadingError(test.spec), test.error));
  }
}

TEST_CASE("a label is a number from every source") {
  const testing::TestDirectory dir;
  v1::DatasetSpec npy =
      NpySpec({dir.Write("x.npy", Npy("<f4", {2}, BytesOf<float>({1, std::nanf("")}))),
               dir.Write("y.npy", Npy("<f4", {2}, BytesOf<float>({std::nanf(""), 1})))});
  CHECK(ReadingError(npy) == "");
  npy.set_label("y");
  CHECK(Contains(ReadingError(npy), "y.npy: row 0: column \"y\": nan cannot be a label"));
  npy.set_skip(1);
  CHECK(ReadingError(npy) == "");
  npy.set_label("x");
  CHECK(Contains(ReadingError(npy), "x.npy: row 1: column \"x\": nan"));
  v1::DatasetSpec csv = CsvSpec(dir.Write("a.csv", "x,y\n1,0\n2,nan\n"));
  csv.set_label("y");
  CHECK(Contains(ReadingError(csv), "a.csv: line 3: column \"y\": \"nan\" is not a number"));
}

TEST_CASE("the only column is read as the Input without a column needs it") {
  const testing::TestDirectory dir;
  v1::DatasetSpec spec = CsvSpec(dir.Write("a.csv", kLargeIds));
  spec.set_label("y");
  Read(&spec, "input_layer", "int64");
  CHECK(ValuesOf<int64_t>(spec, "id") == kLargeIdValues);
  CHECK(ValuesOf<float>(spec, "y")[1] == 1);
}

TEST_CASE("the types of columns do not make other data") {
  const testing::TestDirectory dir;
  const v1::DatasetSpec before = CsvSpec(dir.Write("a.csv", kLargeIds));
  v1::DatasetSpec after = before;
  Read(&after, "id", "int64");
  CHECK(ReadTheSame(before, after));
  CHECK(BatchDefiningPart(after).reads().empty());
  const auto a = Dataset::Open(before), b = Dataset::Open(after);
  REQUIRE((a.ok() && b.ok()));
  CHECK(DifferenceOf({(*a)->fingerprint(), "before"}, {(*b)->fingerprint(), "after"}) == "");
}

TEST_CASE("blanks and unnamed columns of CSV are read as pandas does, or as documented") {
  const testing::TestDirectory dir;
  // frame.to_csv() writes the index without a name; read_csv calls it "Unnamed: 0".
  v1::DatasetSpec spec = CsvSpec(dir.Write("a.csv", ",x,w\n0, 1 ,\" a \"\n1,\" 2\",b \n"));
  CHECK(ValuesOf<float>(spec, "Unnamed: 0") == std::vector<float>{0, 1});
  Read(&spec, "x", "int64");
  CHECK(ValuesOf<int64_t>(spec, "x") == std::vector<int64_t>{1, 2});
  // Blanks within quotes belong to a word. Those around a word do not, unlike in pandas.
  AddTransform(&spec, "w", Lookup({" a ", "b"}));
  CHECK(ValuesOf<int64_t>(spec, "w") == std::vector<int64_t>{1, 2});
}

TEST_CASE("words of other bytes than UTF-8 are compared, and make no vocabulary") {
  const testing::TestDirectory dir;
  v1::DatasetSpec spec = CsvSpec(dir.Write("a.csv", "x,w\n1,a\n2,\xe9t\xe9\n"));
  AddTransform(&spec, "w", Lookup({"a"}));
  CHECK(ValuesOf<int64_t>(spec, "w") == std::vector<int64_t>{1, 0});
  *spec.mutable_transforms(0)->mutable_transform_class() = Lookup();
  CHECK(Contains(ReadingError(spec), "a.csv: line 3: column \"w\": \"\\xe9t\\xe9\" is not UTF-8"));
  CHECK(Contains(ReadingError(CsvSpec(dir.Write("b.csv", "x,\xe9\n1,2\n"))),
                 "b.csv: line 1: the name of column 2, \"\\xe9\", is not UTF-8"));
}

TEST_CASE("a value that no record has is reported") {
  const testing::TestDirectory dir;
  v1::DatasetSpec spec = CsvSpec(dir.Write("a.csv", "w,x\n>50K.,1\n<=50K,2\n"));
  AddTransform(&spec, "w", IsEqual(">50K"));
  AddTransform(&spec, "x", IsEqual("2"));
  const auto dataset = Dataset::Open(spec);
  REQUIRE(dataset.status().message() == "");
  REQUIRE((*dataset)->warnings().size() == 1);
  CHECK(
      (*dataset)->warnings()[0] ==
      "transform of \"w\" marks none of the 2 records with 1: compare the value of Equals with the "
      "data");
}

}  // namespace
}  // namespace cohort

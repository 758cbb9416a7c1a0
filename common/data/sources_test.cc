#include <catch2/catch.hpp>
#include <cstring>
#include <map>

#include "common/data/convert.h"
#include "common/data/csv_reader.h"
#include "common/data/data_test_files.h"
#include "common/data/data_test_specs.h"
#include "common/data/dataset.h"
#include "common/data/input_file.h"
#include "common/data/source_class.h"
#include "common/data/sources/decoders.h"
#include "common/testing/status_test_util.h"
#include "proto/data.pb.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::Gzip;
using testing::Idx;

TEST_CASE("IDX files of every element type are read") {
  const auto bytes = ParseIdx(Idx(0x08, {2, 3}, "abcdef"), "f");
  REQUIRE(bytes.ok());
  CHECK(bytes->dtype == DType::kUint8);
  CHECK(bytes->dims == Dims{2, 3});
  const auto video = ParseIdx(Idx(0x08, {2, 1, 2, 1, 2}, "abcdefgh"), "f");
  REQUIRE(video.ok());
  CHECK(video->dims == Dims{2, 1, 2, 1, 2});
  const auto int8 = ParseIdx(Idx(0x09, {2}, "\xff\x05"), "f");
  REQUIRE(int8.ok());
  int32_t wide[2];
  std::memcpy(wide, int8->values.data(), 8);
  CHECK(wide[0] == -1);
  CHECK(wide[1] == 5);
  const auto int16 = ParseIdx(Idx(0x0B, {1}, std::string("\xff\xfe", 2)), "f");
  std::memcpy(wide, int16->values.data(), 4);
  CHECK(wide[0] == -2);
  const auto int32 = ParseIdx(Idx(0x0C, {1}, std::string("\x01\x02\x03\x04", 4)), "f");
  std::memcpy(wide, int32->values.data(), 4);
  CHECK(wide[0] == 0x01020304);
  const auto float32 = ParseIdx(Idx(0x0D, {1}, std::string("\x3f\x80\0\0", 4)), "f");
  float one = 0;
  std::memcpy(&one, float32->values.data(), 4);
  CHECK(one == 1.0F);
  const auto float64 = ParseIdx(Idx(0x0E, {1}, std::string("\xc0\0\0\0\0\0\0\0", 8)), "f");
  double minus_two = 0;
  std::memcpy(&minus_two, float64->values.data(), 8);
  CHECK(minus_two == -2.0);
}

TEST_CASE("bad IDX files are refused by name, place and reason") {
  struct Case {
    std::string bytes;
    const char* message;
  };
  const std::vector<Case> cases = {
      {"", "has 0 bytes"},
      {std::string("\0\0\x08", 3), "has 3 bytes"},
      {"\x89PNG....", "starts with bytes 89 50"},
      {Idx(0x07, {1}, "a"), "byte 2: 0x07 is not an IDX element type"},
      {Idx(0x08, {}, "a"), "byte 3"},
      {Idx(0x08, {3}, "").substr(0, 6), "ends at byte 6, within the header"},
      {Idx(0x08, {0}, ""), "byte 4: dimension 0 is 0"},
      {Idx(0x08, {3, 0}, ""), "byte 8: dimension 1 is 0"},
      {Idx(0x08, {3}, "ab"),
       "[3] elements of 1 bytes are expected after byte 8, but 2 bytes follow"},
      {Idx(0x08, {3}, "abcd"), "but 4 bytes follow"},
      {Idx(0x0D, {1}, "abcdef"), "but 6 bytes follow"},
      {Idx(0x08, {~0U, ~0U, ~0U}, "abcd"), "but 4 bytes follow"},
      {Idx(0x08, {1U << 31, 1U << 31, 4}, ""), "but 0 bytes follow"},
  };
  for (const Case& c : cases) {
    const auto array = ParseIdx(c.bytes, "images.idx");
    INFO(c.message);
    REQUIRE(absl::IsDataLoss(array.status()));
    INFO(array.status());
    CHECK(Contains(testing::Message(array.status()), c.message));
    CHECK(Contains(testing::Message(array.status()), "images.idx: "));
  }
}

TEST_CASE("gzip is inflated, and a damaged stream is an error at its byte") {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::to_string(i * 7919 % 10007);
  const std::string packed = Gzip(text);
  CHECK(*Gunzip(packed, "f") == text);
  CHECK(*Gunzip(packed + Gzip("more"), "f") == text + "more");
  CHECK(*Gunzip(Gzip(""), "f") == "");
  for (size_t end = 0; end < packed.size(); end += 13) {
    const auto cut = Gunzip(packed.substr(0, end), "f");
    REQUIRE(absl::IsDataLoss(cut.status()));
    CHECK(Contains(testing::Message(cut.status()), "ends too early"));
  }
  std::string bad = packed;
  bad[packed.size() - 6] ^= 1;  // the checksum
  CHECK(Contains(testing::Message(Gunzip(bad, "f.gz").status()),
                 "f.gz: the gzip stream is damaged at byte"));
  CHECK(Contains(testing::Message(Gunzip(packed + "x", "f").status()), "ends too early"));
  // Tapes and block devices fill up with zeros.
  CHECK(*Gunzip(packed + std::string(512, '\0'), "f") == text);
  CHECK(!Gunzip(packed + std::string(512, '\0') + "x", "f").ok());
}

CsvFormat Format() { return CsvFormat(); }

absl::StatusOr<Table> Csv(std::string_view text, const ColumnUse& use = {},
                          const RowRange& range = {}) {
  return ParseCsv(text, Format(), use, range, "t.csv");
}

std::vector<double> Numbers(const Column& column) {
  REQUIRE((column.stored == DType::kFloat64 || column.stored == DType::kInt64));
  std::vector<double> numbers(column.values->size() / 8);
  ConvertNumbers(column.stored, column.values->data(), DType::kFloat64, numbers.data(),
                 numbers.size());
  return numbers;
}

std::vector<std::string> Words(const Column& column) {
  REQUIRE(column.codes != nullptr);
  std::vector<std::string> words;
  for (const uint32_t code : *column.codes) words.push_back((*column.words)[code]);
  return words;
}

TEST_CASE("CSV as RFC 4180 and as the world writes it") {
  const auto table =
      Csv("\xef\xbb\xbf"
          "name, age,note\r\n"
          "Ann , 31,\"a \"\"b\"\", c\"\r\n"
          "\n"
          "\"Bo\nb\" ,+2.5e1, \n"
          "  \n"
          "Ann,-0,x",
          {.text = {"name", "note"}});
  REQUIRE(table.ok());
  CHECK(table->records == 3);
  CHECK(Words(table->columns[0]) == std::vector<std::string>{"Ann", "Bo\nb", "Ann"});
  CHECK(Numbers(table->columns[1]) == std::vector<double>{31, 25, 0});
  CHECK(Words(table->columns[2]) == std::vector<std::string>{"a \"b\", c", "", "x"});
}

TEST_CASE("a number too near to 0 is the nearest there is") {
  const auto table = Csv("a\n1e-400\n-1e-400\n4e-320\n");
  REQUIRE(table.ok());
  CHECK(Numbers(table->columns[0]) == std::vector<double>{0, 0, 4e-320});
}

TEST_CASE("a column that nobody reads may be anything, one that is used must be numbers") {
  const std::string text = "a,b\n1,x\n2,3\n";
  const auto unused = Csv(text);
  REQUIRE(unused.ok());
  CHECK(Contains(unused->columns[1].not_a_number,
                 "t.csv: line 2: column \"b\": \"x\" is not a number"));
  const auto used = Csv(text, {.numbers = {"b"}});
  CHECK(absl::IsDataLoss(used.status()));
  CHECK(testing::Message(used.status()) == "t.csv: line 2: column \"b\": \"x\" is not a number");
}

TEST_CASE("bad CSV files are refused by name, line and reason") {
  struct Case {
    std::string text;
    const char* message;
  };
  const std::vector<Case> cases = {
      {"", "is empty; a header is expected"},
      {"\n\n  \n", "is empty; a header is expected"},
      {"a,b\n", "has no records"},
      {"a,b\n1\n", "line 2: has 1 fields, 2 are expected"},
      {"a,b\n1,2\n\n1,2,3\n", "line 4: has 3 fields, 2 are expected"},
      {"a,b\n1,2,\n", "line 2: has 3 fields"},
      {"a,a\n1,2\n", "two columns are named \"a\""},
      {"\"a\nb\",\"a\nb\"\n1,2\n", "two columns are named \"a\\x0ab\""},
      {"a,b\r1,2\r3,4\r", "the lines end with CR alone: save the file with LF or CR LF"},
      {"a,b\n1,\"2\n3,4\n", "line 2: the quote that opens field 2 is never closed"},
      {"a,b\n1,\"2\"x\n", "line 2: field 2 continues after its closing quote"},
      {"a,b\n\"x\ny\",2\n1\n", "line 4: has 1 fields"},
      {std::string("a,b\n1,\0\n", 8), "line 2: field 2 has a NUL byte"},
      {std::string("a,b\n1,\"\0\"\n", 10), "line 2: field 2 has a NUL byte"},
      {"n,b\n1e999,1\n", "column \"n\": \"1e999\" is not a number"},
      {"n,b\nnan,1\n", "\"nan\" is not a number; `na_values: [nan]` and `missing: 0`"},
      {"n,b\nTRUE,1\n", "\"TRUE\" is not a number; a transform with `equals: \"TRUE\"`"},
      {"n,b\n,1\n", "\"\" is not a number"},
      {"n,b\n1 2,1\n", "\"1 2\" is not a number"},
      {"n,b\n0x10,1\n", "\"0x10\" is not a number"},
  };
  for (const Case& c : cases) {
    const auto table = Csv(c.text, {.numbers = {"n"}});
    INFO(c.message);
    REQUIRE(absl::IsDataLoss(table.status()));
    INFO(table.status());
    CHECK(Contains(testing::Message(table.status()), c.message));
    CHECK(Contains(testing::Message(table.status()), "t.csv: "));
  }
}

TEST_CASE("a range of records is read, and one that leaves the file is an error") {
  const std::string text = "a\n0\n1\n2\n3\n4\n";
  CHECK(Numbers(Csv(text, {}, {1, 3})->columns[0]) == std::vector<double>{1, 2, 3});
  CHECK(Numbers(Csv(text, {}, {4, 0})->columns[0]) == std::vector<double>{4});
  for (const RowRange& range :
       {RowRange{5, 0}, RowRange{0, 6}, RowRange{3, 3}, RowRange{~0ULL, 1}}) {
    CHECK(Contains(testing::Message(Csv(text, {}, range).status()), "exceed the 5 records"));
  }
}

TEST_CASE("a file without a header needs names, and any one character may divide") {
  CsvFormat format;
  format.header = false;
  CHECK(absl::IsInvalidArgument(ParseCsv("1\t2\n", format, {}, {}, "t").status()));
  format.columns = {"x", "y"};
  format.delimiter = '\t';
  const auto table = ParseCsv("1\t 2\n3\t4", format, {}, {}, "t");
  REQUIRE(table.ok());
  CHECK(Numbers(table->columns[1]) == std::vector<double>{2, 4});
  format.header = true;
  CHECK(absl::IsInvalidArgument(ParseCsv("1\t2\n", format, {}, {}, "t").status()));
}

TEST_CASE("CSV as spreadsheets write it: a mark, semicolons, decimal commas, empty cells") {
  CsvFormat format;
  format.delimiter = ';';
  format.cells.decimal = ',';
  const std::string text =
      "\xef\xbb\xbfprice;id;note\r\n1,5;9007199254740993;\"two\r\nlines\"\r\n;2;\r\n-2,25;NA;x\r\n";
  const auto refused =
      ParseCsv(text, format, {.text = {"note"}, .numbers = {"price"}}, {}, "t.csv");
  CHECK(Contains(testing::Message(refused.status()),
                 "t.csv: line 4: column \"price\": \"\" is not a number; `missing: 0`"));
  format.cells.missing = -1;
  format.cells.na_values = {"NA"};
  const auto table =
      ParseCsv(text, format, {.text = {"note"}, .numbers = {"price", "id"}}, {}, "t");
  REQUIRE(table.ok());
  const auto numbers = [&](size_t column, auto zero) {
    std::vector<decltype(zero)> values(3);
    std::memcpy(values.data(), table->columns[column].values->data(), 3 * sizeof(zero));
    return values;
  };
  CHECK(numbers(0, double{}) == std::vector<double>{1.5, -1, -2.25});
  CHECK(numbers(1, int64_t{}) == std::vector<int64_t>{9007199254740993, 2, -1});
  CHECK(*table->columns[2].words == std::vector<std::string>{"two\r\nlines", "", "x"});
  CHECK(table->place(2, "") == "t: line 5");
}

TEST_CASE("a CSV source has several files, also by a pattern") {
  testing::TestDirectory dir;
  dir.Write("p-0.csv", "a,b\n1,2\n3,4\n");
  dir.Write("p-1.csv", testing::Gzip("a,b\n5,6\n"));
  dir.Write("other.csv", "a,c\n7,x\n");
  v1::DatasetSpec spec = testing::CsvSpec(dir / "p-*.csv");
  const auto dataset = Dataset::Open(spec);
  INFO(dataset.status());
  REQUIRE(dataset.ok());
  CHECK((*dataset)->num_records() == 3);
  CHECK((*dataset)->fingerprint().files_size() == 2);
  const auto open = [&](std::vector<std::string> files) {
    for (std::string& file : files) file = dir / file;
    auto* const config = spec.mutable_source_class()->mutable_config();
    config->erase("path");
    (*config)["files"] = ConfigOf(files);
    return Dataset::Open(spec);
  };
  spec.set_skip(1);
  spec.set_take(2);
  const auto some = open({"p-0.csv", "p-1.csv"});
  REQUIRE(some.ok());
  CHECK((*some)->num_records() == 2);
  CHECK(Contains(testing::Message(open({"p-0.csv", "other.csv"}).status()),
                 "other.csv: line 1: the columns differ from those of "));
  CHECK(absl::IsNotFound(open({"q-*.csv"}).status()));
}

TEST_CASE("no changed byte makes a decoder stumble") {
  std::string images;
  for (int i = 0; i < 24; ++i) images.push_back(static_cast<char>(i * 11));
  const std::string idx = Idx(0x08, {2, 3, 4}, images);
  const std::string packed = Gzip(idx);
  const std::string csv = "a,b,c\n1,\"x, \"\"y\"\"\",3\r\n4, z ,6\n";
  size_t refused = 0;
  const auto mutate = [&](const std::string& good, const auto& parse) {
    for (size_t at = 0; at < good.size(); ++at) {
      for (int value = 0; value < 256; ++value) {
        std::string bad = good;
        bad[at] = static_cast<char>(value);
        if (!parse(bad)) ++refused;
      }
      if (!parse(good.substr(0, at))) ++refused;
    }
  };
  mutate(idx, [](const std::string& bytes) { return ParseIdx(bytes, "f").ok(); });
  CHECK(refused > 2000);
  refused = 0;
  mutate(packed, [](const std::string& bytes) {
    const auto plain = Gunzip(bytes, "f");
    return plain.ok() && ParseIdx(*plain, "f").ok();
  });
  CHECK(refused > 2000);
  refused = 0;
  mutate(csv,
         [](const std::string& text) { return Csv(text, {.text = {"b"}, .numbers = {"a"}}).ok(); });
  CHECK(refused > 2000);
}

TEST_CASE("the recommender's records are the tutorial's, a function of seed and index") {
  const SourceClass& generator = **Sources().Find("generator");
  const auto generate = [&](int64_t seed, const RowRange& range) {
    const v1::ClassConfig config =
        ClassOf("generator", {{"name", ConfigOf(std::string_view("recommender"))},
                              {"records", ConfigOf(int64_t{7000})},
                              {"seed", ConfigOf(seed)}});
    return generator.read_table(Config(config), {}, {range, {}});
  };
  const auto table = generate(3, {});
  REQUIRE(table.ok());
  const auto features = Words(table->columns[0]);
  const auto labels = Words(table->columns[1]);
  std::map<std::string, int> counts;
  int yes = 0;
  for (size_t i = 0; i < 7000; ++i) {
    const std::string* three = &features[3 * i];
    REQUIRE((three[0] != three[1] && three[0] != three[2] && three[1] != three[2]));
    const bool avenger = three[0] == "avenger" || three[1] == "avenger" || three[2] == "avenger";
    REQUIRE(labels[i] == (avenger ? "yes" : "no"));
    yes += avenger ? 1 : 0;
    for (int f = 0; f < 3; ++f) ++counts[three[f]];
  }
  CHECK(counts.size() == 7);
  for (const auto& [word, count] : counts) CHECK(std::abs(count - 3000) < 250);
  CHECK(std::abs(yes - 3000) < 250);
  // Records do not depend on how many there are or where one starts.
  const auto tail = generate(3, {5000, 10});
  REQUIRE(tail.ok());
  CHECK(Words(tail->columns[0]) ==
        std::vector<std::string>(features.begin() + 15000, features.begin() + 15030));
  CHECK(Words(generate(4, {})->columns[0]) != features);
}

TEST_CASE("a source refuses arguments that it cannot use") {
  const struct {
    v1::ClassConfig config;
    const char* message;
  } cases[] = {
      {ClassOf("generator", {{"name", ConfigOf(std::string_view("nothing"))}}),
       "name must be recommender, reviews, shapes, houses, not \"nothing\""},
      {ClassOf("generator", {{"name", ConfigOf(std::string_view("recommender"))},
                             {"records", ConfigOf(int64_t{0})}}),
       "records must be in [1, "},
      {ClassOf("idx"), "idx needs its argument `images`"},
      {ClassOf("tsv"), "there is no source \"tsv\"; there are "},
  };
  for (const auto& c : cases) {
    const absl::Status refused = CompleteConfig(Sources(), c.config).status();
    INFO(refused);
    CHECK(Contains(testing::Message(refused), c.message));
  }
}

TEST_CASE("a file that is missing or not the right one says where to get it") {
  testing::TestDirectory dir;
  const InputFile file = {"mnist/train.gz", "http://example.org/train.gz",
                          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"};
  DataOptions options;
  options.data_dir = dir.path();
  const std::string missing = testing::Message(ReadInputFile(file, options).status());
  CHECK(absl::IsNotFound(ReadInputFile(file, options).status()));
  for (const char* part : {"http://example.org/train.gz", "ba7816bf", "COHORT_DATA_DIR",
                           "mnist/train.gz does not exist"}) {
    CHECK(Contains(missing, part));
  }
  CHECK(Contains(testing::Message(ReadInputFile(file, {}).status()), "not set"));
  std::filesystem::create_directory(dir.path() + "/mnist");
  dir.Write("mnist/train.gz", "abc");
  CHECK(*ReadInputFile(file, options) == "abc");
  dir.Write("mnist/train.gz", "abd");
  const absl::Status other = ReadInputFile(file, options).status();
  CHECK(absl::IsDataLoss(other));
  CHECK(Contains(testing::Message(other), "has sha256"));
  CHECK(!ReadInputFile({dir.path(), "", ""}, options).ok());
}

}  // namespace
}  // namespace cohort

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <random>

#include "common/base/log.h"
#include "common/data/data_test_files.h"
#include "common/data/data_test_images.h"
#include "common/data/data_test_specs.h"
#include "common/data/data_test_zstd.h"
#include "common/data/dataset.h"
#include "common/data/files/compression.h"
#include "common/data/files/file_list.h"
#include "common/data/input_file.h"
#include "common/testing/status_test_util.h"
#include "proto/data.pb.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::Message;

using Arguments = std::initializer_list<std::pair<std::string_view, v1::ConfigValue>>;

v1::DatasetSpec FilesSpec(std::string_view name, const std::vector<std::string>& files,
                          Arguments more = {}) {
  v1::DatasetSpec spec;
  *spec.mutable_source_class() = ClassOf(name, {{"files", ConfigOf(files)}});
  for (const auto& [key, value] : more) {
    (*spec.mutable_source_class()->mutable_config())[std::string(key)] = value;
  }
  return spec;
}

v1::ConfigValue Columns(
    std::initializer_list<std::pair<std::string_view, v1::ClassConfig>> columns) {
  v1::ConfigValue value;
  for (const auto& [name, config] : columns) {
    (*value.mutable_object()->mutable_config())[std::string(name)] = ConfigOf(config);
  }
  return value;
}

std::shared_ptr<const Dataset> OpenText(const v1::DatasetSpec& spec) {
  const auto dataset = Dataset::Open(spec);
  INFO(dataset.status());
  REQUIRE(dataset.ok());
  return *dataset;
}

std::string TextError(const v1::DatasetSpec& spec) { return Message(Dataset::Open(spec).status()); }

// All records of a column.
Tensor TextColumn(const Dataset& dataset, const std::string& name) {
  std::vector<uint64_t> all(dataset.num_records());
  for (uint64_t i = 0; i < all.size(); ++i) all[i] = i;
  const auto feature = dataset.FindFeatures(std::vector{name});
  REQUIRE(Message(feature.status()) == "");
  std::vector<Tensor> batch;
  REQUIRE(Message(dataset.Gather(all, *feature, &batch)) == "");
  return batch[0];
}

template <typename T>
std::vector<T> TextNumbers(const Dataset& dataset, const std::string& name) {
  const Tensor tensor = TextColumn(dataset, name);
  REQUIRE(tensor.dtype() == DTypeOf<T>());
  const auto values = tensor.values<T>();
  return {values.begin(), values.end()};
}

// The error of reading one record.
std::string ReadTextError(const v1::DatasetSpec& spec, const std::string& name, uint64_t record) {
  const auto dataset = Dataset::Open(spec);
  if (!dataset.ok()) return Message(dataset.status());
  const auto feature = (*dataset)->FindFeatures(std::vector{name});
  if (!feature.ok()) return Message(feature.status());
  std::vector<Tensor> batch;
  return Message((*dataset)->Gather({&record, 1}, *feature, &batch));
}

TEST_CASE("a list of files and patterns is one list, in a stated order") {
  const testing::TestDirectory directory;
  for (const char* name : {"b-2", "b-10", "B-1", "a[1]", "a1"}) directory.Write(name, "x");
  const DataOptions options = {.data_dir = directory.path()};
  const auto found = FindFiles({"b-*", "a[1]", "B-1"}, "", options);
  REQUIRE(Message(found.status()) == "");
  CHECK(*found == std::vector<std::string>{"b-10", "b-2", "a[1]", "B-1"});
  CHECK(FindFiles({"https://h/a*?b=[1]"}, "", options)->front() == "https://h/a*?b=[1]");
  CHECK(
      Contains(Message(FindFiles({"c-*"}, "http://x/y", options).status()),
               "no file matches the pattern " + directory.path() + "/c-*; get it from http://x/y"));
  CHECK(Contains(Message(FindFiles({"b-2", "b-*"}, "", options).status()), "names b-2 twice"));
  CHECK(Contains(Message(FindFiles({}, "", options).status()), "names no file"));
}

TEST_CASE("JSON lines without declared columns have those that every record has") {
  const testing::TestDirectory directory;
  const std::string path = directory.Write(
      "a.jsonl",
      "\xef\xbb\xbf{\"id\": 9007199254740993, \"user\": {\"age\": 3, \"city\": \"Rome\"}, "
      "\"ok\": true, \"box\": [1, 2.5], \"some\": 1}\r\n"
      "\n"
      "{\"ok\": false, \"id\": -1, \"box\": [3, 4], \"user\": {\"city\": \"Oslo\", \"age\": 4.5}}\n"
      "{\"ok\": false, \"id\": 0, \"box\": [5, 6], \"user\": {\"city\": \"Rome\", \"age\": 1}}");
  v1::DatasetSpec spec = FilesSpec("json_lines", {path});
  testing::AddTransform(&spec, "user.city", testing::Lookup());
  const auto dataset = OpenText(spec);
  CHECK(dataset->num_records() == 3);
  CHECK(TextNumbers<int64_t>(*dataset, "id") == std::vector<int64_t>{9007199254740993, -1, 0});
  CHECK(TextNumbers<float>(*dataset, "user.age") == std::vector<float>{3, 4.5, 1});
  CHECK(TextNumbers<float>(*dataset, "box") == std::vector<float>{1, 2.5, 3, 4, 5, 6});
  CHECK(TextNumbers<int64_t>(*dataset, "user.city") == std::vector<int64_t>{1, 2, 1});
  CHECK(TextColumn(*dataset, "ok").dtype() == DType::kBool);
  CHECK(TextColumn(*dataset, "box").dims() == Dims{3, 2});
  CHECK(Contains(ReadTextError(spec, "some", 0),
                 path + ": line 3: column \"some\" is missing: declare it under `columns`"));
  v1::DatasetSpec plain = FilesSpec("json_lines", {path});
  CHECK(Contains(ReadTextError(plain, "user.city", 0), "holds text: give it a lookup or equals"));
  plain.set_skip(1);
  plain.set_take(1);
  testing::AddTransform(&plain, "user.city", testing::IsEqual("Oslo"), "oslo");
  const auto one = OpenText(plain);
  CHECK(TextNumbers<int64_t>(*one, "id") == std::vector<int64_t>{-1});
  CHECK(TextNumbers<float>(*one, "oslo") == std::vector<float>{1});
}

TEST_CASE("declared columns of JSON lines have types, paths, and values for what is missing") {
  const testing::TestDirectory directory;
  const std::string path =
      directory.Write("a.jsonl",
                      "{\"a\": {\"b\": 7}, \"tags\": [\"x\", \"y\", \"z\"], \"v\": [1]}\n"
                      "{\"a\": {\"b\": null}, \"tags\": [\"y\"], \"v\": [1, null, 3, 4]}\n"
                      "{\"v\": []}\n");
  v1::DatasetSpec spec = FilesSpec(
      "json_lines", {path},
      {{"columns", Columns({{"n", ClassOf("tensor", {{"dtype", ConfigOf("int32")},
                                                     {"path", ConfigOf("a.b")},
                                                     {"missing", ConfigOf(-1.0)}})},
                            {"tags", ClassOf("words", {{"shape", ConfigOf(std::vector<int64_t>{2})},
                                                       {"truncate", ConfigOf(true)},
                                                       {"pad_with", ConfigOf("")}})},
                            {"v", ClassOf("tensor", {{"shape", ConfigOf(std::vector<int64_t>{3})},
                                                     {"truncate", ConfigOf(true)},
                                                     {"missing", ConfigOf(9.0)},
                                                     {"pad_with", ConfigOf(0.5)}})}})}});
  testing::AddTransform(&spec, "tags", testing::Lookup({"x", "y", "z"}));
  const auto dataset = OpenText(spec);
  CHECK(TextNumbers<int32_t>(*dataset, "n") == std::vector<int32_t>{7, -1, -1});
  CHECK(TextNumbers<float>(*dataset, "v") == std::vector<float>{1, 0.5, 0.5, 1, 9, 3, 9, 9, 9});
  CHECK(TextNumbers<int64_t>(*dataset, "tags") == std::vector<int64_t>{1, 2, 2, 0, 0, 0});
}

TEST_CASE("one number may stand for all that JSON lines lack") {
  const testing::TestDirectory directory;
  v1::DatasetSpec spec;
  *spec.mutable_source_class() = ClassOf(
      "json_lines", {{"path", ConfigOf(directory.Write("a.jsonl",
                                                       "{\"n\": 1, \"f\": 1.5, \"w\": \"x\"}\n"
                                                       "{\"n\": null, \"ok\": true}\n"))},
                     {"missing", ConfigOf(-1.0)}});
  testing::AddTransform(&spec, "w", testing::Lookup({"x"}));
  const auto dataset = OpenText(spec);
  CHECK(TextNumbers<int64_t>(*dataset, "n") == std::vector<int64_t>{1, -1});
  CHECK(TextNumbers<float>(*dataset, "f") == std::vector<float>{1.5, -1});
  CHECK(TextNumbers<int64_t>(*dataset, "ok") == std::vector<int64_t>{-1, 1});
  CHECK(TextNumbers<int64_t>(*dataset, "w") == std::vector<int64_t>{1, 0});
}

TEST_CASE("what stands for missing numbers is a value of the column") {
  const testing::TestDirectory directory;
  const std::string path = directory.Write("a.jsonl", "{\"x\": [1, null]}\n");
  const auto error = [&](std::string_view dtype, double missing, double own) {
    const v1::ClassConfig column =
        ClassOf("tensor", {{"dtype", ConfigOf(dtype)},
                           {"shape", ConfigOf(std::vector<int64_t>{2})},
                           {"missing", std::isnan(own) ? v1::ConfigValue() : ConfigOf(own)}});
    return TextError(
        FilesSpec("json_lines", {path},
                  {{"columns", Columns({{"x", column}})}, {"missing", ConfigOf(missing)}}));
  };
  CHECK(error("uint8", -1, NAN).empty());  // a null is an error where it is read
  CHECK(Contains(error("bool", 0, 2), "`missing: 2` is no value of bool"));
  CHECK(Contains(error("int64", 0, 0x1p63), "is no value of int64"));
  CHECK(Contains(error("int32", 0, 0.5), "`missing: 0.5` is no value of int32"));
  CHECK(error("int64", -0x1p63, NAN).empty());
  CHECK(error("float32", 0.5, NAN).empty());
}

TEST_CASE("what is wrong with JSON lines is said with the file, the line and the column") {
  const testing::TestDirectory directory;
  const auto error = [&](std::string_view line, v1::ClassConfig column = ClassOf("tensor")) {
    const std::string path = directory.Write("a.jsonl", "{\"x\": 1}\n" + std::string(line) + "\n");
    return ReadTextError(
        FilesSpec("json_lines", {path}, {{"columns", Columns({{"x", std::move(column)}})}}), "x",
        1);
  };
  const std::string place = directory / "a.jsonl" + ": line 2: ";
  CHECK(Contains(error("{\"x\": \"abc\"}"), place + "column \"x\": \"abc\" is text"));
  CHECK(Contains(error("{\"y\": 1}"), place + "column \"x\": is missing"));
  CHECK(Contains(error("{\"x\": null}"), place + "column \"x\": is missing"));
  CHECK(
      Contains(error("{\"x\": [1, 2]}"), place + "column \"x\": has 2 numbers, and the shape []"));
  CHECK(Contains(error("{\"x\": NaN}"), place + "column 7: is not JSON"));
  CHECK(Contains(error("{\"x\": NaN}"), "write null"));
  CHECK(Contains(error("{\"x\": 1"), place + "column 8: is not JSON"));
  CHECK(Contains(error("[1]"), place + "is a list; a record is a JSON object"));
  CHECK(Contains(error("{\"x\": 1.5}", ClassOf("tensor", {{"dtype", ConfigOf("int64")}})),
                 place + "column \"x\": 1.5 is no value of int64"));
  CHECK(Contains(error("{\"x\": 300}", ClassOf("tensor", {{"dtype", ConfigOf("uint8")}})),
                 "300 is no value of uint8"));
  CHECK(Contains(TextError(FilesSpec("json_lines", {directory.Write("b", "\n \n")})),
                 "the files have no records"));
  CHECK(Contains(TextError(FilesSpec("json_lines", {directory.Write("b", "\xff\xfe{")})),
                 "is UTF-16: save the file as UTF-8"));
  CHECK(Contains(TextError(FilesSpec("json_lines", {directory.Write("b", "{}\n{\"a\": tru\n")})),
                 "b: line 2: column "));
}

TEST_CASE("transforms learn from columns that are read record by record") {
  const testing::TestDirectory directory;
  v1::DatasetSpec spec = FilesSpec(
      "json_lines", {directory.Write("a.jsonl",
                                     "{\"x\": 9.5, \"id\": 0}\n{\"x\": 1.5, \"id\": 70}\n"
                                     "{\"x\": 3.5, \"id\": 70}\n{\"x\": 2.5, \"id\": 8}\n")});
  spec.set_skip(1);
  testing::AddTransform(&spec, "x", ClassOf("Normalization"), "normal");
  testing::AddTransform(&spec, "id", ClassOf("IntegerLookup"), "number");
  testing::AddTransform(&spec, "id", ClassOf("Hashing", {{"num_bins", ConfigOf(5)}}), "hash");
  const auto dataset = OpenText(spec);
  CHECK(TextNumbers<int64_t>(*dataset, "number") == std::vector<int64_t>{1, 1, 2});
  const auto normal = TextNumbers<float>(*dataset, "normal");
  CHECK(normal[0] == Approx(-1.2247449));
  CHECK(normal[1] == Approx(1.2247449));
  CHECK(normal[2] == Approx(0).margin(1e-6));
  CHECK(TextNumbers<int64_t>(*dataset, "id") == std::vector<int64_t>{70, 70, 8});
}

TEST_CASE("corrupt JSON lines may be left out") {
  const testing::TestDirectory directory;
  const std::string path =
      directory.Write("a.jsonl", "{\"x\": 1}\n{\"x\": tru\n{\"x\": 3}\nx\n{\"x\": 5}\n");
  const v1::DatasetSpec spec = FilesSpec("json_lines", {path}, {{"on_corrupt", ConfigOf("skip")}});
  const auto dataset = OpenText(spec);
  CHECK(TextNumbers<int64_t>(*dataset, "x") == std::vector<int64_t>{1, 3, 5});
  CHECK(Contains(dataset->warnings().front(), "2 of 5 records are corrupt"));
}

TEST_CASE("sources of files take one path, and check its digest") {
  const testing::TestDirectory directory;
  const std::string text = "{\"x\": 1}\n";
  v1::DatasetSpec spec;
  *spec.mutable_source_class() =
      ClassOf("json_lines", {{"path", ConfigOf(directory.Write("a.jsonl", text))},
                             {"sha256", ConfigOf(Sha256Hex(text))}});
  CHECK(TextNumbers<int64_t>(*OpenText(spec), "x") == std::vector<int64_t>{1});
  directory.Write("a.jsonl", "{\"x\": 2}\n");
  CHECK(Contains(TextError(spec), "a.jsonl: has sha256 "));
  *spec.mutable_source_class() = ClassOf(
      "libsvm",
      {{"path", ConfigOf(directory.Write("a.svm", "1 1:2\n"))}, {"num_features", ConfigOf(1)}});
  CHECK(TextNumbers<float>(*OpenText(spec), "features") == std::vector<float>{2});
  const auto two = FilesSpec("libsvm", {directory / "a.svm", directory / "b.svm"},
                             {{"num_features", ConfigOf(1)}, {"sha256", ConfigOf("00")}});
  CHECK(Contains(TextError(two), "a.svm: sha256 is for one file"));
  for (const char* source : {"libsvm", "tfrecord", "json_lines", "csv"}) {
    *spec.mutable_source_class() = ClassOf(source, {{"num_features", ConfigOf(1)}});
    if (std::string_view(source) != "libsvm") spec.mutable_source_class()->clear_config();
    if (std::string_view(source) == "tfrecord") {
      (*spec.mutable_source_class()->mutable_config())["features"] =
          Columns({{"x", ClassOf("tensor")}});
    }
    CHECK(Contains(TextError(spec), "needs its argument `path`, or `files`"));
  }
}

TEST_CASE("a file that is unpacked in memory is in the log, and has a limit") {
  const testing::TestDirectory directory;
  const auto spec =
      FilesSpec("json_lines", {directory.Write("a.gz", testing::Gzip("{\"x\": 1}\n"))});
  std::string lines;
  const auto log =
      Logger::Create({.to_stderr = false, .sink = [&](std::string_view line) { lines += line; }});
  REQUIRE(log.ok());
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TMPDIR", "/proc", 1);  // it takes no file
  const auto dataset = Dataset::Open(spec, {.log = log->get()});
  kept.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", kept.c_str(), 1);
  CHECK(Message(dataset.status()) == "");
  CHECK(Contains(lines, " data_unpacked_in_memory "));
  CHECK(CheckInflatedBytes("a.gz", kMaxInflatedBytes, Compression::kGzip).ok());
  const auto large = CheckInflatedBytes("a.gz", kMaxInflatedBytes + 1, Compression::kGzip);
  CHECK(absl::IsInvalidArgument(large));
  CHECK(Contains(Message(large),
                 "a.gz: inflates to more than 16 GiB, the most in memory: unpack "
                 "it with gunzip, or set TMPDIR"));
}

TEST_CASE("LIBSVM lines are dense features and a label") {
  const testing::TestDirectory directory;
  const std::string path =
      directory.Write("a.svm", "# a comment\n+1 1:0.5 3:-2e1 # more\n\n-1 qid:4 2:7\r\n0\n");
  const auto spec = FilesSpec("libsvm", {path}, {{"num_features", ConfigOf(3)}});
  const auto dataset = OpenText(spec);
  CHECK(TextNumbers<float>(*dataset, "features") ==
        std::vector<float>{0.5, 0, -20, 0, 7, 0, 0, 0, 0});
  CHECK(TextNumbers<float>(*dataset, "label") == std::vector<float>{1, -1, 0});
  const auto zero = OpenText(FilesSpec("libsvm", {directory.Write("b.svm", "2 0:1 2:3\n")},
                                       {{"num_features", ConfigOf(3)},
                                        {"zero_based", ConfigOf(true)},
                                        {"label_dtype", ConfigOf("int64")}}));
  CHECK(TextNumbers<float>(*zero, "features") == std::vector<float>{1, 0, 3});
  CHECK(TextNumbers<int64_t>(*zero, "label") == std::vector<int64_t>{2});
  const auto error = [&](std::string_view line) {
    return ReadTextError(
        FilesSpec("libsvm", {directory.Write("c.svm", "1 1:1\n" + std::string(line))},
                  {{"num_features", ConfigOf(3)}}),
        "features", 1);
  };
  const std::string place = directory / "c.svm" + ": line 2: ";
  CHECK(Contains(error("1,2 1:1"), place + "\"1,2\" is no label"));
  CHECK(Contains(error("1 0:1"),
                 place + "entry 1: the index 0 is too small: set `zero_based: true`"));
  CHECK(Contains(error("1 1:1 4:1"), place + "entry 2: the index 4 is beyond `num_features: 3`"));
  CHECK(Contains(error("1 2:1 2:1"), "the index 2 follows 2: indices must increase"));
  CHECK(Contains(error("1 1:nan"), "\"1:nan\", is not INDEX:VALUE with a finite value"));
  CHECK(Contains(error("1 1:1 x"), place + "entry 2, \"x\", is not INDEX:VALUE"));
}

TEST_CASE("a folder of texts has words and a label for each file") {
  const testing::TestDirectory directory;
  testing::WriteBelow(directory, "neg/1.txt", "bad");
  testing::WriteBelow(directory, "neg/0.txt", "worse");
  testing::WriteBelow(directory, "pos/a.txt", "good");
  testing::WriteBelow(directory, "pos/ignored.md", "x");
  v1::DatasetSpec spec;
  *spec.mutable_source_class() = ClassOf(
      "text_folder", {{"directory", ConfigOf(directory.path())}, {"max_length", ConfigOf(3)}});
  testing::AddTransform(&spec, "text", testing::Lookup({"bad", "goo", "wor"}), "id");
  const auto dataset = OpenText(spec);
  CHECK(TextNumbers<int64_t>(*dataset, "label") == std::vector<int64_t>{0, 0, 1});
  CHECK(TextNumbers<int64_t>(*dataset, "id") == std::vector<int64_t>{3, 1, 2});
}

TEST_CASE("packed files are read as what they hold, whatever they are named") {
  const testing::TestDirectory directory;
  std::string lines;
  for (int i = 0; i < 50'000; ++i) lines += fmt::format("{{\"x\": {}}}\n", i);
  const std::string records = testing::TfRecord(testing::TfExampleOf(testing::PngOf(9, 9, 1), 5));
  std::vector<std::pair<std::string, std::string (*)(std::string_view)>> packers = {
      {"gzip", [](std::string_view bytes) { return testing::Gzip(bytes); }}};
#ifdef COHORT_HAS_ZSTD
  packers.emplace_back("zstd", [](std::string_view bytes) { return testing::Zstd(bytes); });
#endif
  for (const auto& [name, pack] : packers) {
    INFO(name);
    const std::string half(lines.substr(0, lines.size() / 2)), rest(lines.substr(half.size()));
    // Two members, as of a file that was appended to.
    const std::string packed = pack(half) + pack(rest);
    const auto json = OpenText(FilesSpec("json_lines", {directory.Write("a", packed)}));
    const auto numbers = TextNumbers<int64_t>(*json, "x");
    REQUIRE(numbers.size() == 50'000);
    CHECK(numbers[49'999] == 49'999);
    const auto svm = OpenText(FilesSpec("libsvm", {directory.Write("b", pack("1 1:2\n"))},
                                        {{"num_features", ConfigOf(1)}}));
    CHECK(TextNumbers<float>(*svm, "features") == std::vector<float>{2});
    const auto examples =
        Dataset::Open(testing::TfRecordSpec({directory.Write("c", pack(records))}));
    REQUIRE(Message(examples.status()) == "");
    CHECK(TextNumbers<int64_t>(**examples, "label") == std::vector<int64_t>{5});
    const auto csv = Dataset::Open(testing::CsvSpec(directory.Write("d", pack("x\n4\n"))));
    REQUIRE(Message(csv.status()) == "");

    CHECK(Contains(
        TextError(
            FilesSpec("json_lines", {directory.Write("e", packed.substr(0, packed.size() - 9))})),
        fmt::format("e: the {} stream ends too early, at byte {}", name, packed.size() - 9)));
    std::string damaged = packed;
    // The checksum of gzip's last member; the magic number of zstd's last frame.
    damaged[name == "gzip" ? packed.size() - 8 : pack(half).size()] ^= 0x55;
    CHECK(Contains(TextError(FilesSpec("json_lines", {directory.Write("f", damaged)})),
                   fmt::format("f: the {} stream is damaged at byte ", name)));
    damaged = packed;
    for (size_t i = 0; i < 8; ++i) damaged[packed.size() / 4 + i] ^= 0x55;
    CHECK(Contains(TextError(FilesSpec("json_lines", {directory.Write("f", damaged)})),
                   fmt::format("f: the {} stream ", name)));
  }
}

TEST_CASE("features of examples may be words, and lists of any length") {
  const testing::TestDirectory directory;
  const auto example = [](std::vector<std::string> genres, std::vector<int64_t> ids) {
    v1::TfExample made;
    v1::TfFeatureEntry* entry = made.mutable_features()->add_feature();
    entry->set_name("genres");
    for (const std::string& genre : genres)
      entry->mutable_value()->mutable_bytes_list()->add_value(genre);
    entry = made.mutable_features()->add_feature();
    entry->set_name("ids");
    for (const int64_t id : ids) entry->mutable_value()->mutable_int64_list()->add_value(id);
    return testing::TfRecord(made.SerializeAsString());
  };
  const std::string path = directory.Write(
      "a", example({"war", "love"}, {4, 5, 6}) + example({"love"}, {}) + example({}, {1, 2, 3, 4}));
  const auto spec_of = [&](bool truncate) {
    v1::DatasetSpec spec = FilesSpec(
        "tfrecord", {path},
        {{"features",
          Columns({{"genres", ClassOf("words", {{"shape", ConfigOf(std::vector<int64_t>{2})},
                                                {"pad_with", ConfigOf("-")}})},
                   {"ids", ClassOf("tensor", {{"dtype", ConfigOf("int64")},
                                              {"shape", ConfigOf(std::vector<int64_t>{3})},
                                              {"truncate", ConfigOf(truncate)},
                                              {"pad_with", ConfigOf(-1.0)}})},
                   {"none", ClassOf("tensor", {{"missing", ConfigOf(2.5)}})}})}});
    testing::AddTransform(&spec, "genres", testing::Lookup());
    return spec;
  };
  const auto dataset = OpenText(spec_of(true));
  CHECK(TextNumbers<int64_t>(*dataset, "genres") == std::vector<int64_t>{3, 2, 2, 1, 1, 1});
  CHECK(TextNumbers<int64_t>(*dataset, "ids") ==
        std::vector<int64_t>{4, 5, 6, -1, -1, -1, 1, 2, 3});
  CHECK(TextNumbers<float>(*dataset, "none") == std::vector<float>{2.5, 2.5, 2.5});
  CHECK(Contains(ReadTextError(spec_of(false), "ids", 2),
                 "a: record 2: feature \"ids\": has 4 numbers, and the shape [3] needs 3: "
                 "`truncate` would cut it"));
}

TEST_CASE("no mutation of text files makes a source crash") {
  std::mt19937_64 random(20260608);
  const testing::TestDirectory directory;
  const std::string json =
      "{\"a\": {\"b\": 7, \"c\": [1, 2]}, \"t\": \"x\"}\n{\"a\": {\"b\": 1.5}}\n";
  const std::string svm = "1 1:0.5 3:2\n-1 2:7 # x\n";
  int refused = 0;
  for (int round = 0; round < 600; ++round) {
    std::string bytes = round % 2 == 0 ? json : svm;
    if (round % 3 == 0) bytes = testing::Gzip(bytes);
    for (uint64_t n = 1 + random() % 3; n > 0; --n) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    }
    if (random() % 3 == 0) bytes.resize(random() % bytes.size());
    const std::string path = directory.Write("a", bytes);
    const auto dataset = Dataset::Open(
        round % 2 == 0 ? FilesSpec("json_lines", {path})
                       : FilesSpec("libsvm", {path}, {{"num_features", ConfigOf(3)}}));
    absl::Status read = dataset.status();
    if (read.ok()) {
      std::vector<int> all((*dataset)->features().size());
      for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
      std::vector<Tensor> batch;
      const std::vector<uint64_t> first = {0};
      read = (*dataset)->Gather(first, all, &batch);
    }
    if (!read.ok()) ++refused;
    CHECK(read.ok() == read.message().empty());
  }
  CHECK(refused > 100);
}

}  // namespace
}  // namespace cohort

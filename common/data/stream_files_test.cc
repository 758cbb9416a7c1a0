#include "common/data/stream_files.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <numeric>

#include "common/data/convert.h"
#include "common/data/data_test_files.h"
#include "common/data/data_test_images.h"
#include "common/data/data_test_specs.h"
#include "common/data/file_part.h"
#include "common/data/source_class.h"
#include "common/data/stream_reader.h"
#include "common/testing/status_test_util.h"
#include "proto/data.pb.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::Message;

v1::DatasetSpec StreamSpecOf(const v1::ClassConfig& source) {
  v1::DatasetSpec spec;
  *spec.mutable_source_class() = *CompleteConfig(Sources(), source);
  return spec;
}

// The numbers of a column, of all records in their order.
std::vector<double> ColumnOf(const Dataset& dataset, const std::string& column) {
  std::vector<uint64_t> all(dataset.num_records());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<std::string> names = {column};
  const auto found = dataset.FindFeatures(names);
  REQUIRE(Message(found.status()) == "");
  std::vector<Tensor> batch;
  REQUIRE(Message(dataset.Gather(all, *found, &batch)) == "");
  std::vector<double> numbers(all.size());
  ConvertNumbers(batch[0].dtype(), batch[0].raw(), DType::kFloat64, numbers.data(), numbers.size());
  return numbers;
}

// Cuts a file into small blocks, reads them one by one, and compares all records with those of the
// file. Returns the number of blocks.
size_t CheckBlocks(const v1::DatasetSpec& stream, const std::string& path,
                   const std::string& column, uint64_t batch, uint64_t block_bytes) {
  const auto file =
      TakeStreamFile(stream, path, {.batch_size = batch, .block_bytes = block_bytes}, {});
  REQUIRE(Message(file.status()) == "");
  v1::DatasetSpec whole = stream;
  whole.mutable_source_class()->mutable_config()->erase("files");
  (*whole.mutable_source_class()->mutable_config())["path"].set_s(path);
  const auto all = Dataset::Open(whole);
  REQUIRE(Message(all.status()) == "");
  std::vector<double> read;
  uint64_t places = 0;
  for (int i = 0; i < file->block_records_size(); ++i) {
    const PartDataset of_part(stream, PartOf(*file, i), {});
    const auto part = Dataset::Open(*of_part.spec, of_part.options);
    REQUIRE(Message(part.status()) == "");
    CHECK((*part)->num_records() == file->block_records(i));
    if (i + 1 < file->block_records_size()) CHECK(file->block_records(i) % batch == 0);
    places += (file->block_records(i) + batch - 1) / batch;
    for (const double number : ColumnOf(**part, column)) read.push_back(number);
  }
  CHECK(places == file->places());
  CHECK(read == ColumnOf(**all, column));
  CHECK(read.size() > 10);
  return static_cast<size_t>(file->block_records_size());
}

TEST_CASE("blocks of a CSV file have each record once, also with line ends within quotes") {
  const testing::TestDirectory directory;
  std::string text = "\xef\xbb\xbfid,\"a, b\"\r\n";
  for (int i = 0; i < 57; ++i) {
    text += std::to_string(i) + ",\"x\ny " + std::string(static_cast<size_t>(i % 9), '"') +
            (i % 9 % 2 == 0 ? "" : "\"") + "\"\r\n";
    if (i % 5 == 0) text += "\n";
  }
  directory.Write("a.csv", text);
  const auto spec = StreamSpecOf(ClassOf("csv", {{"path", ConfigOf(directory / "*.csv")}}));
  CHECK(CheckBlocks(spec, directory / "a.csv", "id", 4, 30) > 5);
  CHECK(CheckBlocks(spec, directory / "a.csv", "id", 7, 1) == 9);
  CHECK(CheckBlocks(spec, directory / "a.csv", "id", 7, 1 << 20) == 1);
  directory.Write("b.csv", text.substr(text.find("\r\n") + 2));
  auto config = ClassOf("csv", {{"files", ConfigOf(std::vector<std::string>{directory / "b*"})},
                                {"columns", ConfigOf(std::vector<std::string>{"id", "words"})},
                                {"no_header", ConfigOf(true)}});
  CHECK(CheckBlocks(StreamSpecOf(config), directory / "b.csv", "id", 7, 1) == 9);
  // A packed file is one block.
  directory.Write("c.csv", testing::Gzip(text));
  CHECK(CheckBlocks(spec, directory / "c.csv", "id", 4, 30) == 1);
}

TEST_CASE("blocks of JSON lines and TFRecord files have each record once") {
  const testing::TestDirectory directory;
  std::string lines, records;
  for (int i = 0; i < 40; ++i) {
    lines += "{\"id\": " + std::to_string(i) + "}\n" + (i % 7 == 0 ? "  \n" : "");
    records += testing::TfRecord(testing::TfExampleOf(testing::PngOf(9, 9, i), i));
  }
  directory.Write("a.jsonl", lines);
  v1::ClassConfig config = ClassOf("json_lines", {{"path", ConfigOf(directory / "*.jsonl")}});
  CHECK(CheckBlocks(StreamSpecOf(config), directory / "a.jsonl", "id", 3, 40) > 5);
  directory.Write("a.tfrecord", records);
  const v1::DatasetSpec images =
      StreamSpecOf(testing::TfRecordSpec({directory / "*.tfrecord"}).source_class());
  CHECK(CheckBlocks(images, directory / "a.tfrecord", "label", 3, 40) == 14);
}

TEST_CASE("files that are not complete are not listed") {
  const testing::TestDirectory directory;
  for (const char* name : {"b.csv", "a.csv", ".c.csv", "_d.csv", "e.csv.tmp", "a.csv.done"}) {
    directory.Write(name, "id\n1\n");
  }
  std::filesystem::create_directory(directory / "f.csv");
  const DataOptions options{.data_dir = directory.path()};
  const auto spec = [&](const std::vector<std::string>& files) {
    return StreamSpecOf(ClassOf("csv", {{"files", ConfigOf(files)}}));
  };
  v1::StreamSpec stream;
  using Names = std::vector<std::string>;
  CHECK(*ListStreamFiles(spec({"*"}), stream, options) == Names{"a.csv", "b.csv"});
  CHECK(*ListStreamFiles(spec({"b*", "*"}), stream, options) == Names{"b.csv", "a.csv"});
  CHECK(ListStreamFiles(spec({"none/*.csv"}), stream, options)->empty());
  stream.set_done_marker(true);
  CHECK(*ListStreamFiles(spec({"*"}), stream, options) == Names{"a.csv"});
  CHECK(StreamPlace(spec({"b*", "*"})) == "b*, *");
}

TEST_CASE("files with a marker are left out") {
  const testing::TestDirectory directory;
  for (const char* name : {"a.csv", "b.csv", "b.csv.skip", "gone.csv.skip"}) {
    directory.Write(name, "id\n1\n");
  }
  const DataOptions options{.data_dir = directory.path()};
  const auto spec = StreamSpecOf(ClassOf("csv", {{"path", ConfigOf("*")}}));
  std::set<std::string> left_out;
  const auto files = ListStreamFiles(spec, v1::StreamSpec(), options, &left_out);
  CHECK(*files == std::vector<std::string>{"a.csv"});
  CHECK(left_out == std::set<std::string>{"b.csv", "gone.csv"});
  CHECK(IsLeftOut("b.csv", options));
  CHECK(!IsLeftOut("a.csv", options));
  CHECK(
      Message(AdviseToSkip(InvalidArgument("a.csv: bad"), "a.csv", options, "put it back, or ")) ==
      "a.csv: bad; put it back, or make " + (directory / "a.csv.skip") +
          ", and the job leaves out what it has not read of the file");
}

TEST_CASE("a block of a bad file is an error that names it once, or empty if it is left out") {
  const testing::TestDirectory directory;
  std::string text = "id\n";
  for (int i = 0; i < 40; ++i) text += i == 30 ? "x\n" : std::to_string(i) + "\n";
  directory.Write("a.csv", text);
  const std::string path = directory / "a.csv";
  const auto spec = StreamSpecOf(ClassOf("csv", {{"path", ConfigOf(directory / "*.csv")}}));
  const auto file = TakeStreamFile(spec, path, {.batch_size = 4, .block_bytes = 20}, {});
  REQUIRE(file.ok());
  std::vector<v1::FilePart> parts;
  for (int i = 0; i < file->block_records_size(); ++i) parts.push_back(PartOf(*file, i));
  StreamReader reader(spec, {"id"}, {.batch_size = 4}, {});
  BatchReader::Batch batch;
  const auto read = [&](size_t i) {
    const StreamReader::Lease lease{.block = i, .begin = 0, .end = 4, .part = &parts[i]};
    reader.Announce(lease);
    return reader.Read(lease, &batch);
  };
  CHECK(Message(read(0)) == "");
  size_t bad = 1;
  while (bad < parts.size() && read(bad).ok()) ++bad;
  REQUIRE(bad < parts.size());
  const std::string message = Message(read(bad));
  CHECK(Contains(message, "\"x\" is not a number; lines and records are counted from byte "));
  CHECK(Contains(message, " of the file; make " + path + ".skip, and the job leaves out"));
  CHECK(message.find(path + ":") == 0);
  CHECK(message.find(path + ":", 1) == std::string::npos);
  directory.Write("a.csv.skip", "");
  CHECK(Message(read(bad)) == "");
  CHECK(batch.records == 0);
  CHECK(batch.tensors.empty());
  // A block that is open is read, and another one is not opened, whether its file is there or not.
  CHECK(Message(read(bad - 1)) == "");
  CHECK(batch.records == 4);
  std::filesystem::remove(directory / "a.csv");
  CHECK(Message(read(parts.size() - 1)) == "");
  CHECK(batch.records == 0);
}

TEST_CASE("a stream is read by lease, and a file that has changed is refused by name") {
  const testing::TestDirectory directory;
  std::string text = "id,label\n";
  for (int i = 0; i < 50; ++i) text += std::to_string(i) + ",1\n";
  directory.Write("a.csv", text);
  directory.Write("b.csv", "label,id\n0.5,100\n0.5,101\n");
  auto spec = StreamSpecOf(ClassOf("csv", {{"path", ConfigOf(directory / "*.csv")}}));
  const BlockCutter::Options cut{.batch_size = 4, .block_bytes = 20};
  const auto a = TakeStreamFile(spec, directory / "a.csv", cut, {});
  const auto b = TakeStreamFile(spec, directory / "b.csv", cut, {});
  REQUIRE(a.ok());
  REQUIRE(b.ok());
  CHECK(a->places() == 13);
  for (const uint32_t prefetch : {0u, 2u}) {
    StreamReader reader(spec, {"id"}, {.batch_size = 4, .prefetch = prefetch, .inline_bytes = 0},
                        {});
    std::vector<double> read;
    std::vector<v1::FilePart> parts;
    for (int i = 0; i < a->block_records_size(); ++i) parts.push_back(PartOf(*a, i));
    parts.push_back(PartOf(*b, 0));
    BatchReader::Batch batch;
    for (int round = 0; round < 2; ++round) {
      for (size_t i = 0; i < parts.size(); ++i) {
        for (uint64_t begin = 0; begin < parts[i].records(); begin += 4) {
          const StreamReader::Lease lease{.block = i,
                                          .begin = begin,
                                          .end = std::min(parts[i].records(), begin + 4),
                                          .part = &parts[i]};
          reader.Announce(lease);
          REQUIRE(Message(reader.Read(lease, &batch)) == "");
          std::vector<double> numbers(static_cast<size_t>(batch.records));
          ConvertNumbers(batch.tensors[0].dtype(), batch.tensors[0].raw(), DType::kFloat64,
                         numbers.data(), numbers.size());
          read.insert(read.end(), numbers.begin(), numbers.end());
        }
      }
    }
    REQUIRE(read.size() == 104);
    for (size_t i = 0; i < 50; ++i) CHECK(read[i] == static_cast<double>(i));
    CHECK(read[50] == 100);
    CHECK(read[103] == 101);
  }
  CHECK(Message(CheckStreamFile(*b, {})) == "");
  directory.Write("b.csv", "label,id\n0.5,100\n0.5,101\n0.5,102\n");
  CHECK(Contains(Message(CheckStreamFile(*b, {})), directory / "b.csv: has changed since"));
  StreamReader reader(spec, {"id"}, {.batch_size = 4}, {});
  const v1::FilePart part = PartOf(*b, 0);
  BatchReader::Batch batch;
  CHECK(Contains(Message(reader.Read({.block = 0, .begin = 0, .end = 2, .part = &part}, &batch)),
                 directory / "b.csv: has changed since"));
  std::filesystem::remove(directory / "b.csv");
  CHECK(absl::IsNotFound(CheckStreamFile(*b, {})));
}

TEST_CASE("a transform that would learn from a stream is refused") {
  v1::DatasetSpec spec = testing::CsvSpec("*.csv");
  testing::AddTransform(&spec, "word", testing::Lookup({"a"}));
  CHECK(Message(CheckLearnsNothing(spec)) == "");
  testing::AddTransform(&spec, "other", testing::Lookup());
  CHECK(Contains(Message(CheckLearnsNothing(spec)), "the StringLookup of \"other\" would learn"));
}

}  // namespace
}  // namespace cohort

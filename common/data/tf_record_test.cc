#include <catch2/catch.hpp>
#include <random>

#include "common/base/log.h"
#include "common/data/data_test_files.h"
#include "common/data/data_test_images.h"
#include "common/data/dataset.h"
#include "common/testing/status_test_util.h"
#include "proto/data.pb.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::Message;

std::string FileOfRecords(int first, int count) {
  std::string bytes;
  for (int i = first; i < first + count; ++i) {
    bytes += testing::TfRecord(
        testing::TfExampleOf(i % 2 == 0 ? testing::PngOf(9, 9, i) : testing::JpegOf(20, 16, i), i));
  }
  return bytes;
}

// The labels of all records; columns are box, image, label.
std::vector<int64_t> LabelsOfAll(const Dataset& dataset) {
  std::vector<uint64_t> all(dataset.num_records());
  for (uint64_t i = 0; i < all.size(); ++i) all[i] = i;
  const std::vector<int> features = {2};
  std::vector<Tensor> batch;
  REQUIRE(Message(dataset.Gather(all, features, &batch)) == "");
  const auto labels = batch[0].values<int64_t>();
  return {labels.begin(), labels.end()};
}

std::string RecordFileError(const v1::DatasetSpec& spec) {
  return Message(Dataset::Open(spec).status());
}

TEST_CASE("records of several files are read by index, in the order of the file names") {
  const testing::TestDirectory directory;
  directory.Write("train.tfrecord-1", FileOfRecords(3, 2));
  directory.Write("train.tfrecord-0", FileOfRecords(0, 3));
  directory.Write("test.tfrecord", FileOfRecords(7, 1));
  const auto dataset = Dataset::Open(testing::TfRecordSpec({directory / "train*", "test.tfrecord"}),
                                     {.data_dir = directory.path()});
  INFO(dataset.status());
  REQUIRE(dataset.ok());
  CHECK(LabelsOfAll(**dataset) == std::vector<int64_t>{0, 1, 2, 3, 4, 7});
  CHECK((*dataset)->features()[1].dims == Dims{8, 12, 3});
  std::vector<Tensor> batch;
  const std::vector<uint64_t> indices = {4, 0};
  const std::vector<int> features = {0, 1};
  REQUIRE((*dataset)->Gather(indices, features, &batch).ok());
  CHECK(batch[0].values<float>()[1] == 4);
  CHECK(batch[1].dims() == Dims{2, 8, 12, 3});
}

TEST_CASE("features that differ from their declaration are errors with the file and the record") {
  const testing::TestDirectory directory;
  const std::string path =
      directory.Write("a.tfrecord", FileOfRecords(0, 1) + testing::TfRecord("x"));
  const auto error = [&](std::string_view name, v1::ClassConfig feature, uint64_t record) {
    v1::DatasetSpec spec = testing::TfRecordSpec({path});
    v1::ConfigValue features;
    (*features.mutable_object()->mutable_config())[std::string(name)] =
        ConfigOf(std::move(feature));
    (*spec.mutable_source_class()->mutable_config())["features"] = features;
    const auto dataset = Dataset::Open(spec);
    if (!dataset.ok()) return Message(dataset.status());
    std::vector<Tensor> batch;
    const std::vector<int> column = {0};
    return Message((*dataset)->Gather({&record, 1}, column, &batch));
  };
  CHECK(Contains(error("no", ClassOf("tensor"), 0), "has no feature \"no\"; it has box, image"));
  CHECK(error("box", ClassOf("tensor"), 0) ==
        "source tfrecord: record 0: " + path +
            ": record 0: feature \"box\": has 2 numbers, and the shape [] needs 1");
  CHECK(Contains(error("image", ClassOf("tensor"), 0), "is text: an encoded image is read by"));
  CHECK(Contains(error("label", ClassOf("image"), 0), "has 0 strings of bytes; an image is one"));
  CHECK(Contains(error("box", ClassOf("tensor"), 1), "a.tfrecord: record 1: is not a tf.Example"));
  CHECK(Contains(error("box", ClassOf("text"), 0), "\"text\""));
}

TEST_CASE("an integer that the declared dtype cannot hold is an error with its value") {
  const testing::TestDirectory directory;
  const std::string path =
      directory.Write("a.tfrecord", testing::TfRecord(testing::TfExampleOf("", 255)) +
                                        testing::TfRecord(testing::TfExampleOf("", 256)));
  const auto open = [&](std::string_view dtype, std::string_view on_corrupt) {
    v1::DatasetSpec spec = testing::TfRecordSpec({path}, on_corrupt);
    v1::ConfigValue features;
    (*features.mutable_object()->mutable_config())["label"] =
        ConfigOf(ClassOf("tensor", {{"dtype", ConfigOf(dtype)}}));
    (*spec.mutable_source_class()->mutable_config())["features"] = features;
    const auto dataset = Dataset::Open(spec);
    REQUIRE(Message(dataset.status()) == "");
    return *dataset;
  };
  const auto read = [](const Dataset& dataset, uint64_t record) {
    std::vector<Tensor> batch;
    const std::vector<int> column = {0};
    return dataset.Gather({&record, 1}, column, &batch);
  };
  const auto bytes = open("uint8", "fail");
  CHECK(Message(read(*bytes, 0)) == "");
  CHECK(absl::IsDataLoss(read(*bytes, 1)));
  CHECK(Contains(Message(read(*bytes, 1)),
                 path + ": record 1: feature \"label\": has 256, which a column of uint8"));
  CHECK(Message(read(*open("int32", "fail"), 1)) == "");
  CHECK(open("uint8", "skip")->num_records() == 1);
}

TEST_CASE("the fingerprint tells which records of a file are good") {
  const testing::TestDirectory directory;
  // The image of the first record is corrupt, and the label of the second is no uint8.
  const std::string path = directory.Write(
      "a.tfrecord", testing::TfRecord(testing::TfExampleOf("", 1)) +
                        testing::TfRecord(testing::TfExampleOf(testing::PngOf(9, 9, 1), 256)));
  const auto fingerprint = [&](std::string_view name, v1::ClassConfig feature) {
    v1::DatasetSpec spec = testing::TfRecordSpec({path}, "skip");
    v1::ConfigValue features;
    (*features.mutable_object()->mutable_config())[std::string(name)] =
        ConfigOf(std::move(feature));
    (*spec.mutable_source_class()->mutable_config())["features"] = features;
    const auto dataset = Dataset::Open(spec);
    REQUIRE(Message(dataset.status()) == "");
    CHECK((*dataset)->num_records() == 1);
    return (*dataset)->fingerprint().source();
  };
  const auto bytes = ClassOf("tensor", {{"dtype", ConfigOf(std::string_view("uint8"))}});
  const std::string second = fingerprint("image", ClassOf("image"));
  CHECK(second == fingerprint("image", ClassOf("image")));
  CHECK(second != fingerprint("label", bytes));
}

TEST_CASE("a record file of gzip is unpacked") {
  const testing::TestDirectory directory;
  const std::string good = FileOfRecords(0, 3);
  const auto dataset =
      Dataset::Open(testing::TfRecordSpec({directory.Write("a.tfrecord.gz", testing::Gzip(good))}));
  INFO(dataset.status());
  REQUIRE(dataset.ok());
  CHECK((*dataset)->num_records() == 3);
}

TEST_CASE("records of all sizes are read in any order, and errors name theirs") {
  const testing::TestDirectory directory;
  constexpr int kRecords = 500;  // more than are read at once
  const auto record = [](int i) {
    const size_t bytes = i == 250 ? 200'000 : i % 7 == 0 ? 5000 : 300;
    return testing::TfRecord(testing::TfExampleOf(std::string(bytes, 'x'), i));
  };
  std::string bytes;
  for (int i = 0; i < kRecords; ++i) bytes += record(i);
  const std::string path = directory.Write("a.tfrecord", bytes);
  const auto dataset = Dataset::Open(testing::TfRecordSpec({path}));
  REQUIRE(dataset.ok());
  REQUIRE((*dataset)->num_records() == kRecords);
  std::vector<int64_t> ascending(kRecords);
  for (int i = 0; i < kRecords; ++i) ascending[static_cast<size_t>(i)] = i;
  CHECK(LabelsOfAll(**dataset) == ascending);
  std::vector<Tensor> batch;
  const std::vector<uint64_t> some = {499, 3, 4, 5, 250, 251, 249, 250, 0};
  const std::vector<int> label = {2};
  REQUIRE(Message((*dataset)->Gather(some, label, &batch)) == "");
  const auto labels = batch[0].values<int64_t>();
  CHECK(std::equal(labels.begin(), labels.end(), some.begin(), some.end()));

  const std::string end = record(kRecords - 1);
  std::filesystem::resize_file(path, bytes.size() - end.size() - 1);
  CHECK(Contains(Message((*dataset)->Gather({{490, 491, 492, 497, 498, 499}}, label, &batch)),
                 "source tfrecord: record 498: " + path + ": ends at byte "));
}

TEST_CASE("the last of the features with the same name counts") {
  const testing::TestDirectory directory;
  const auto dataset = Dataset::Open(testing::TfRecordSpec({directory.Write(
      "a.tfrecord",
      testing::TfRecord(testing::TfExampleOf("", 1) + testing::TfExampleOf("", 2)))}));
  REQUIRE(dataset.ok());
  CHECK(LabelsOfAll(**dataset) == std::vector<int64_t>{2});
}

TEST_CASE("damaged record files are refused, or read up to the damage") {
  const testing::TestDirectory directory;
  const std::string good = FileOfRecords(0, 3);
  const auto write = [&](const std::string& bytes) {
    return testing::TfRecordSpec({directory.Write("a.tfrecord", bytes)});
  };
  CHECK(Contains(RecordFileError(write(testing::Gzip(good).substr(0, 100))),
                 "the gzip stream ends too early, at byte 100"));
  CHECK(Contains(RecordFileError(write("")), "the files have no records"));
  CHECK(Contains(RecordFileError(write(good.substr(0, good.size() - 1))),
                 "a.tfrecord: record 2 at byte "));
  std::string length = good;
  length[1] ^= 1;
  CHECK(Contains(RecordFileError(write(length)),
                 "record 0 at byte 0: the checksum of its length differs"));
  CHECK(Contains(RecordFileError(testing::TfRecordSpec({directory / "none-*"})),
                 "no file matches the pattern " + directory.path() + "/none-*"));

  std::string data = good;
  data[40] ^= 1;
  const auto torn = Dataset::Open(write(data));
  REQUIRE(torn.ok());
  std::vector<Tensor> batch;
  const std::vector<uint64_t> first = {0}, second = {1};
  const std::vector<int> features = {1};
  CHECK(Contains(Message((*torn)->Gather(first, features, &batch)),
                 "a.tfrecord: record 0 at byte 0: its checksum differs"));
  CHECK((*torn)->Gather(second, features, &batch).ok());

  std::string lines;
  LogOptions log_options{.to_stderr = false};
  log_options.sink = [&](std::string_view line) { lines += line; };
  const auto log = Logger::Create(log_options);
  REQUIRE(log.ok());
  data.resize(data.size() - 1);
  const auto skipping = Dataset::Open(
      testing::TfRecordSpec({directory.Write("a.tfrecord", data)}, "skip"), {.log = log->get()});
  REQUIRE(skipping.ok());
  CHECK(LabelsOfAll(**skipping) == std::vector<int64_t>{1});
  CHECK(Contains(lines, "corrupt_records_skipped source=tfrecord records=2 corrupt=1"));
  CHECK(Contains(lines, "records_after_damage_skipped"));
}

TEST_CASE("a fraction is no value of an integer column") {
  const testing::TestDirectory directory;
  v1::DatasetSpec spec = testing::TfRecordSpec(
      {directory.Write("a.tfrecord", testing::TfRecord(testing::TfExampleOf("", 1)))});
  v1::ConfigValue features;
  (*features.mutable_object()->mutable_config())["box"] =
      ConfigOf(ClassOf("tensor", {{"dtype", ConfigOf(std::string_view("int64"))},
                                  {"shape", ConfigOf(std::vector<int64_t>{2})}}));
  (*spec.mutable_source_class()->mutable_config())["features"] = features;
  const auto dataset = Dataset::Open(spec);
  REQUIRE(dataset.ok());
  std::vector<Tensor> batch;
  const std::vector<uint64_t> indices = {0};
  const std::vector<int> column = {0};
  CHECK(Contains(Message((*dataset)->Gather(indices, column, &batch)),
                 "record 0: feature \"box\": has 0.5, which a column of int64 cannot hold"));
}

TEST_CASE("no mutation of a record file makes its decoder crash") {
  std::mt19937_64 random(20260608);
  const testing::TestDirectory directory;
  const std::string good = FileOfRecords(0, 2);
  int refused = 0;
  for (int round = 0; round < 1000; ++round) {
    // Half of them have the right checksum: then the example is decoded.
    std::string bytes = random() % 2 == 0 ? good : testing::TfExampleOf("image", 1);
    const bool example = bytes.size() < 100;
    for (uint64_t n = 1 + random() % 3; n > 0; --n) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    }
    if (random() % 3 == 0) bytes.resize(random() % bytes.size());
    const auto dataset = Dataset::Open(
        testing::TfRecordSpec({directory.Write("a", example ? testing::TfRecord(bytes) : bytes)}));
    std::vector<Tensor> batch;
    const std::vector<uint64_t> indices = {0};
    const std::vector<int> features = {0, 1, 2};
    const absl::Status read =
        dataset.ok() ? (*dataset)->Gather(indices, features, &batch) : dataset.status();
    if (read.ok()) continue;
    ++refused;
    CHECK(Contains(Message(read), directory.path()) != Contains(Message(read), "have no records"));
  }
  CHECK(refused > 500);
}

}  // namespace
}  // namespace cohort

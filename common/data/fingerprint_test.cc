#include "common/data/fingerprint.h"

#include <catch2/catch.hpp>

#include "common/base/stable_bytes.h"
#include "common/data/data_test_files.h"
#include "common/data/data_test_specs.h"
#include "common/data/dataset.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::Gzip;
using testing::Idx;
using testing::TestDirectory;

constexpr char kRows[] = "a,b\n1,2\n3,4\n5,6\n";

v1::DataFingerprint Read(const TestDirectory& dir, const v1::DatasetSpec& spec) {
  const auto dataset = Dataset::Open(spec, {.data_dir = dir.path()});
  INFO(dataset.status().ToString());
  REQUIRE(dataset.ok());
  return (*dataset)->fingerprint();
}

v1::DataFingerprint ReadCsv(const TestDirectory& dir, const std::string& contents) {
  dir.Write("a.csv", contents);
  v1::DatasetSpec spec = testing::CsvSpec("a.csv");
  return Read(dir, spec);
}

std::string Difference(const v1::DataFingerprint& a, const v1::DataFingerprint& b) {
  return DifferenceOf({a, "here"}, {b, "there"});
}

TEST_CASE("what is read has the checksum of its contents, packed or not") {
  const TestDirectory dir;
  const v1::DataFingerprint plain = ReadCsv(dir, kRows);
  CHECK(plain.records() == 3);
  REQUIRE(plain.files_size() == 1);
  CHECK(plain.files(0).path() == "a.csv");  // and not where it lies here
  CHECK(plain.files(0).bytes() == 16);
  CHECK(plain.files(0).crc32() == crc32(0, reinterpret_cast<const Bytef*>(kRows), 16));
  const std::string text = kRows;
  for (const std::string& packed :
       {Gzip(text), Gzip(text.substr(0, 5)) + Gzip("") + Gzip(text.substr(5)),
        Gzip(text) + std::string(100, '\0')}) {
    CHECK(Difference(ReadCsv(dir, packed), plain).empty());
  }
}

TEST_CASE("a difference names the file and the records on both sides") {
  const TestDirectory dir;
  const v1::DataFingerprint three = ReadCsv(dir, kRows);
  CHECK(Difference(three, three).empty());
  const v1::DataFingerprint two = ReadCsv(dir, "a,b\n1,2\n3,4\n");
  const std::string fewer = Difference(two, three);
  CHECK(Contains(fewer, "a.csv has other contents (12 bytes, crc32 "));
  CHECK(Contains(fewer, " here; 16 bytes, crc32 "));
  CHECK(Contains(fewer, "): 2 records here, 3 there"));
  const v1::DataFingerprint other = ReadCsv(dir, "a,b\n1,2\n3,4\n5,7\n");
  CHECK(Contains(Difference(other, three), "): 3 records here, 3 there"));
}

TEST_CASE("a column that a file lacks is said with the file") {
  const TestDirectory dir;
  dir.Write("a.csv", kRows);
  v1::DatasetSpec spec = testing::CsvSpec("a.csv");
  spec.add_transforms()->set_column("c");
  const absl::Status lacks = Dataset::Open(spec, {.data_dir = dir.path()}).status();
  INFO(lacks.ToString());
  CHECK(Contains(lacks.ToString(), "a.csv: transform of \"c\": there is no column \"c\""));
}

TEST_CASE("of several files the one that differs is named") {
  const TestDirectory dir;
  const v1::DatasetSpec spec = testing::IdxSpec("images", "labels");
  dir.Write("images", Idx(8, {2, 2}, "abcd"));
  dir.Write("labels", Idx(8, {2}, {"\0\1", 2}));
  const v1::DataFingerprint before = Read(dir, spec);
  CHECK(before.files_size() == 2);
  dir.Write("labels", Idx(8, {2}, {"\1\0", 2}));
  const std::string difference = Difference(Read(dir, spec), before);
  CHECK(difference.rfind("labels has other contents", 0) == 0);
  CHECK(!Contains(difference, "images"));
}

TEST_CASE("how batches are made, and where a person gets the data, is not what is read") {
  v1::DatasetSpec plain = testing::CsvSpec("a.csv");
  plain.set_take(3);
  const auto set = [](v1::DatasetSpec* spec, const char* argument) {
    (*spec->mutable_source_class()->mutable_config())[argument] = ConfigOf(std::string_view("00"));
  };
  v1::DatasetSpec other = plain;
  other.set_prefetch(4);
  for (const char* argument : {"url", "sha256"}) set(&other, argument);
  CHECK(StableBytes(BatchDefiningPart(other)) == StableBytes(plain));
  CHECK(ReadTheSame(other, plain));
  other.add_transforms()->set_column("a");
  CHECK(ReadTheSame(other, plain));
  CHECK(StableBytes(BatchDefiningPart(other)) != StableBytes(plain));
  other = plain;
  other.set_take(4);
  CHECK(!ReadTheSame(other, plain));
  CHECK(StableBytes(BatchDefiningPart(other)) != StableBytes(plain));
  plain = testing::IdxSpec("images");
  other = plain;
  for (const char* argument : {"url", "sha256_images", "sha256_labels"}) set(&other, argument);
  CHECK(StableBytes(BatchDefiningPart(other)) == StableBytes(plain));
}

TEST_CASE("a generator has nothing to be read") {
  const TestDirectory dir;
  v1::DatasetSpec spec = testing::RecommenderSpec(10);
  spec.set_skip(4);
  const v1::DataFingerprint read = Read(dir, spec);
  CHECK(read.records() == 6);
  CHECK(read.files_size() == 0);
}

}  // namespace
}  // namespace cohort

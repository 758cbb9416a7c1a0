// Reads files of four times a limit of memory. What counts is memory that belongs to the process
// alone (RssAnon): the system takes back the pages of files when it needs them.
#include <catch2/catch.hpp>
#include <fstream>

#include "common/data/constant_memory_test_util.h"
#include "common/data/data_test_files.h"
#include "common/data/data_test_images.h"

namespace cohort {
namespace {

using testing::CheckConstantMemory;
using testing::kLargeBytes;

v1::DatasetSpec SpecOfFile(std::string_view source, const std::string& path,
                           const v1::ConfigValue* more = nullptr, std::string_view key = "") {
  v1::DatasetSpec spec;
  const bool files = source == "libsvm" || source == "tfrecord" || source == "npy";
  *spec.mutable_source_class() =
      ClassOf(source, {{files ? "files" : "path",
                        files ? ConfigOf(std::vector{path}) : ConfigOf(std::string_view(path))}});
  if (more != nullptr) {
    (*spec.mutable_source_class()->mutable_config())[std::string(key)] = *more;
  }
  return spec;
}

// Writes `line(i)` until the file is large.
template <typename Line>
std::string WriteLines(const testing::TestDirectory& directory, const std::string& name,
                       std::string_view header, const Line& line) {
  std::ofstream out(directory / name, std::ios::binary);
  out << header;
  uint64_t bytes = 0;
  for (uint64_t i = 0; bytes < kLargeBytes; ++i) {
    const std::string text = line(i);
    out << text;
    bytes += text.size();
  }
  REQUIRE(out.good());
  return directory / name;
}

std::string CsvLine(uint64_t i) {
  return fmt::format("{},{}.25,{},w{},{}\n", i % 1000, i % 777, i, i % 500, i % 2);
}

TEST_CASE("a CSV file of four times the limit is read in constant memory") {
  const testing::TestDirectory directory;
  const std::string path = WriteLines(directory, "large.csv", "a,b,c,word,y\n", CsvLine);
  v1::DatasetSpec spec = SpecOfFile("csv", path);
  testing::AddTransform(&spec, "word", testing::Lookup());
  testing::AddTransform(&spec, "a", testing::Scaled(0.001));
  testing::AddTransform(&spec, "", ClassOf("Expression", {{"expression", ConfigOf("log1p(c)")}}),
                        "log_c");
  CheckConstantMemory(spec);
  spec.set_filter("b < 700");
  CheckConstantMemory(spec);
}

TEST_CASE("a packed CSV file, too") {
  const testing::TestDirectory directory;
  gzFile out = gzopen((directory / "large.csv.gz").c_str(), "wb1");
  gzputs(out, "a,b,c,word,y\n");
  uint64_t bytes = 0;
  for (uint64_t i = 0; bytes < kLargeBytes; ++i) {
    const std::string line = CsvLine(i);
    gzwrite(out, line.data(), static_cast<unsigned>(line.size()));
    bytes += line.size();
  }
  REQUIRE(gzclose(out) == Z_OK);
  CheckConstantMemory(SpecOfFile("csv", directory / "large.csv.gz"));
}

TEST_CASE("JSON lines, too, with declared and with found columns") {
  const testing::TestDirectory directory;
  const std::string path = WriteLines(directory, "large.jsonl", "", [](uint64_t i) {
    return fmt::format("{{\"a\": {}, \"b\": {}.5, \"word\": \"w{}\", \"y\": {}}}\n", i, i % 999,
                       i % 500, i % 2);
  });
  v1::DatasetSpec spec = SpecOfFile("json_lines", path);
  testing::AddTransform(&spec, "word", testing::Lookup());
  CheckConstantMemory(spec);
  v1::ConfigValue columns;
  (*columns.mutable_object()->mutable_config())["b"] = ConfigOf(ClassOf("tensor", {}));
  CheckConstantMemory(SpecOfFile("json_lines", path, &columns, "columns"));
}

TEST_CASE("LIBSVM, too") {
  const testing::TestDirectory directory;
  const std::string path = WriteLines(directory, "large.svm", "", [](uint64_t i) {
    return fmt::format("{} 1:{}.5 3:{} 7:0.125\n", i % 2, i % 100, i);
  });
  const v1::ConfigValue features = ConfigOf(int64_t{8});
  CheckConstantMemory(SpecOfFile("libsvm", path, &features, "num_features"));
}

TEST_CASE("TFRecord, too") {
  const testing::TestDirectory directory;
  const std::string path = WriteLines(directory, "large.tfrecord", "", [](uint64_t i) {
    v1::TfExample example;
    const auto add = [&](std::string_view name) {
      v1::TfFeatureEntry* const entry = example.mutable_features()->add_feature();
      entry->set_name(std::string(name));
      return entry->mutable_value();
    };
    add("id")->mutable_int64_list()->add_value(static_cast<int64_t>(i));
    add("x")->mutable_float_list()->add_value(0.25F);
    add("word")->mutable_bytes_list()->add_value(fmt::format("w{}", i % 500));
    return testing::TfRecord(example.SerializeAsString());
  });
  v1::ConfigValue features;
  auto& columns = *features.mutable_object()->mutable_config();
  columns["id"] = ConfigOf(ClassOf("tensor", {{"dtype", ConfigOf("int64")}}));
  columns["x"] = ConfigOf(ClassOf("tensor", {}));
  columns["word"] = ConfigOf(ClassOf("words", {}));
  v1::DatasetSpec spec = SpecOfFile("tfrecord", path, &features, "features");
  testing::AddTransform(&spec, "word", testing::Lookup());
  CheckConstantMemory(spec);
}

TEST_CASE("arrays, too") {
  const testing::TestDirectory directory;
  const std::vector<float> row(64, 1);
  const uint64_t rows = kLargeBytes / (row.size() * sizeof(float));
  const auto write = [&](const std::string& name, const std::string& header) {
    std::ofstream out(directory / name, std::ios::binary);
    out << header;
    for (uint64_t i = 0; i < rows; ++i) {
      out.write(reinterpret_cast<const char*>(row.data()),
                static_cast<std::streamsize>(row.size() * sizeof(float)));
    }
    return directory / name;
  };
  std::string header = fmt::format(
      "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, row.size());
  header.resize(117, ' ');
  CheckConstantMemory(SpecOfFile(
      "npy", write("large.npy", std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n")));
  std::string idx = {0, 0, 0x0D, 2};
  for (const uint64_t size : {rows, uint64_t{row.size()}}) {
    for (int shift = 24; shift >= 0; shift -= 8) idx.push_back(static_cast<char>(size >> shift));
  }
  v1::DatasetSpec spec;
  *spec.mutable_source_class() =
      ClassOf("idx", {{"images", ConfigOf(std::string_view(write("large.idx", idx)))}});
  CheckConstantMemory(spec);
}

TEST_CASE("a table of which a part does not fit has the same values") {
  const testing::TestDirectory directory;
  std::string text = "a,b,word\n";
  for (int i = 0; i < 60'000; ++i) text += fmt::format("{},{}.5,w{}\n", i, i, i % 100);
  directory.Write("t.csv", text);
  v1::DatasetSpec spec = SpecOfFile("csv", directory / "t.csv");
  testing::AddTransform(&spec, "word", testing::Lookup());
  const auto read = [&](uint64_t limit) {
    SetTableMemoryLimitForTest(limit);
    const auto dataset = Dataset::Open(spec);
    REQUIRE(dataset.ok());
    std::vector<uint64_t> records;
    for (uint64_t i = 0; i < (*dataset)->num_records(); i += 7) records.push_back(i);
    std::vector<Tensor> batch;
    REQUIRE((*dataset)->Gather(records, std::vector{0, 1, 2}, &batch).ok());
    std::string all;
    for (const Tensor& tensor : batch) {
      const size_t elements = records.size();
      all.append(static_cast<const char*>(tensor.raw()), elements * SizeOf(tensor.dtype()));
    }
    return all;
  };
  const std::string in_memory = read(uint64_t{1} << 30);
  CHECK(read(300'000) == in_memory);
  CHECK(read(1) == in_memory);
}

}  // namespace
}  // namespace cohort

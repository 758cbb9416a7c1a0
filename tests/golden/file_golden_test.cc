// Reads files that the real pandas, pyarrow, scikit-learn, NumPy and TensorFlow wrote
// (make_file_golden.py), and truncated and damaged copies of them.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "common/data/convert.h"
#include "common/data/dataset.h"
#include "common/data/expression.h"
#include "common/data/transform_class.h"
#include "common/testing/directory_test_util.h"
#include "common/testing/status_test_util.h"
#include "proto/job.pb.h"

namespace cohort::golden {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::Message;

std::string FilePath(const std::string& name) {
  const char* source = std::getenv("COHORT_SOURCE_DIR");
  return std::string(source == nullptr ? "." : source) + "/tests/golden/files/" + name;
}

json GoldenFiles(const std::string& name) {
  std::ifstream in(FilePath(name));
  REQUIRE(in.good());
  return json::parse(in);
}

v1::ConfigValue ConfigOfJson(const json& value) {
  if (value.is_boolean()) return ConfigOf(value.get<bool>());
  if (value.is_number_integer()) return ConfigOf(value.get<int64_t>());
  if (value.is_number()) return ConfigOf(value.get<double>());
  if (value.is_string()) return ConfigOf(value.get<std::string>());
  v1::ConfigValue made;
  if (value.is_array()) {
    made.mutable_list();
    for (const json& item : value) *made.mutable_list()->add_values() = ConfigOfJson(item);
    return made;
  }
  v1::ClassConfig* const object = made.mutable_object();
  for (const auto& [key, item] : value.items()) {
    if (key == "class") {
      object->set_class_name(item.get<std::string>());
    } else {
      (*object->mutable_config())[key] = ConfigOfJson(item);
    }
  }
  return made;
}

v1::ClassConfig ClassOfJson(const std::string& name, const json& config) {
  v1::ClassConfig made = config.empty() ? v1::ClassConfig() : ConfigOfJson(config).object();
  made.set_class_name(name);
  return made;
}

v1::ColumnTransform* AddTransform(v1::DatasetSpec* spec, const std::string& column,
                                  v1::ClassConfig config, const std::string& output = "") {
  v1::ColumnTransform* const transform = spec->add_transforms();
  transform->set_column(column);
  transform->set_output(output);
  *transform->mutable_transform_class() = std::move(config);
  return transform;
}

// The spec of a case, for its file or a copy of it.
v1::DatasetSpec SpecOf(const json& c, const std::string& path) {
  v1::DatasetSpec spec;
  const std::string source = c["source"];
  *spec.mutable_source_class() = ClassOfJson(source, c["config"]);
  auto& config = *spec.mutable_source_class()->mutable_config();
  if (source == "csv" || source == "npz") {
    config["path"] = ConfigOf(path);
  } else {
    config["files"] = ConfigOf(std::vector{path});
  }
  for (const json& t : c["transforms"]) {
    AddTransform(&spec, t["column"], ClassOfJson(t["class"], t["config"]));
  }
  // As a model in float64, so that CSV files round nothing. Integers are read as such.
  for (const auto& [name, values] : c["columns"].items()) {
    const bool integers = std::all_of(values.begin(), values.end(),
                                      [](const json& v) { return v.is_number_integer(); });
    v1::ColumnRead* const read = spec.add_reads();
    read->set_column(name);
    read->set_dtype(integers ? "int64" : "float64");
    read->set_reader("the test");
  }
  return spec;
}

// Reads all records of a column as double. Errors: those of the data.
absl::StatusOr<std::vector<double>> ReadColumn(const Dataset& dataset, const std::string& name) {
  COHORT_ASSIGN_OR_RETURN(const std::vector<int> feature, dataset.FindFeatures({&name, 1}));
  std::vector<uint64_t> records(dataset.num_records());
  for (uint64_t i = 0; i < records.size(); ++i) records[i] = i;
  std::vector<Tensor> batch;
  COHORT_RETURN_IF_ERROR(dataset.Gather(records, feature, &batch));
  const FeatureType& type = dataset.features()[static_cast<size_t>(feature[0])];
  std::vector<double> values(records.size() * static_cast<size_t>(NumElements(type.dims)));
  ConvertNumbers(type.dtype, batch[0].raw(), DType::kFloat64, values.data(), values.size());
  return values;
}

absl::StatusOr<std::vector<double>> ReadColumn(const v1::DatasetSpec& spec,
                                               const std::string& name) {
  COHORT_ASSIGN_OR_RETURN(const auto dataset, Dataset::Open(spec));
  return ReadColumn(*dataset, name);
}

bool CanRead(const json& c) {
  if (c["source"] != "parquet") return true;
  return !absl::IsUnimplemented(Dataset::Open(SpecOf(c, FilePath(c["file"]))).status());
}

std::vector<json> AllCases() {
  std::vector<json> all;
  for (const char* name : {"tables.json", "tensorflow.json"}) {
    const json golden = GoldenFiles(name);
    for (const json& c : golden["cases"]) {
      if (CanRead(c)) all.push_back(c);
    }
  }
  REQUIRE(all.size() >= 12);
  return all;
}

TEST_CASE("files of the real libraries have their values") {
  for (const json& c : AllCases()) {
    INFO(c["file"]);
    const auto dataset = Dataset::Open(SpecOf(c, FilePath(c["file"])));
    INFO(dataset.status());
    REQUIRE(dataset.ok());
    for (const auto& [name, values] : c["columns"].items()) {
      INFO(name);
      const auto read = ReadColumn(**dataset, name);
      INFO(read.status());
      REQUIRE(read.ok());
      CHECK(*read == values.get<std::vector<double>>());
    }
  }
}

// Opens and reads all columns.
absl::Status ReadAll(const json& c, const std::string& path) {
  COHORT_ASSIGN_OR_RETURN(const auto dataset, Dataset::Open(SpecOf(c, path)));
  for (const auto& [name, values] : c["columns"].items()) {
    COHORT_RETURN_IF_ERROR(ReadColumn(*dataset, name).status());
  }
  return absl::OkStatus();
}

TEST_CASE("truncated copies are errors with the file, or have fewer records") {
  const testing::TestDirectory directory;
  for (const json& c : AllCases()) {
    const std::string name = c["file"], bytes = testing::ReadAllBytes(FilePath(name));
    const bool is_text =
        name.ends_with(".csv") || name.ends_with(".jsonl") || name.ends_with(".svm");
    int errors = 0;
    for (int part = 0; part < 8; ++part) {
      const size_t size = bytes.size() * static_cast<size_t>(part) / 8;
      directory.Write(name, bytes.substr(0, size));
      const absl::Status status = ReadAll(c, directory / name);
      INFO(name << " of " << size << " bytes: " << status);
      if (status.ok()) {
        CHECK(is_text);  // these may end after any line
        continue;
      }
      ++errors;
      CHECK((part == 0 || Contains(Message(status), name)));
    }
    CHECK(errors >= 1);
  }
}

TEST_CASE("damaged copies are errors with the file, or other values") {
  const testing::TestDirectory directory;
  std::mt19937_64 random(20261126);
  for (const json& c : AllCases()) {
    const std::string name = c["file"], good = testing::ReadAllBytes(FilePath(name));
    for (int round = 0; round < 40; ++round) {
      std::string bytes = good;
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
      directory.Write(name, bytes);
      const absl::Status status = ReadAll(c, directory / name);
      INFO(name << ": " << status);
      if (status.ok()) continue;
      // A column whose name is damaged is missing for the job, whatever the file.
      CHECK((Contains(Message(status), name) || Contains(Message(status), "has no feature") ||
             Contains(Message(status), "there is no column")));
    }
  }
}

// The error of a copy in which `from` is replaced once.
std::string ErrorWith(const std::string& file, const std::string& from, const std::string& to) {
  const testing::TestDirectory directory;
  for (const json& c : AllCases()) {
    if (c["file"] != file) continue;
    std::string bytes = testing::ReadAllBytes(FilePath(file));
    const size_t at = bytes.find(from);
    REQUIRE(at != std::string::npos);
    directory.Write(file, bytes.replace(at, from.size(), to));
    return Message(ReadAll(c, directory / file));
  }
  FAIL("no case of " << file);
  return "";
}

TEST_CASE("a damaged record is an error with file, row and column") {
  CHECK(Contains(ErrorWith("pandas.csv", "9007199254740993", "90071992x"),
                 "pandas.csv: line 4: column \"id\": \"90071992x\" is not a number"));
  CHECK(Contains(ErrorWith("pandas.csv", "2021-01-03", "2021-13-03"),
                 "pandas.csv: line 5: column \"when\": \"2021-13-03 12:00:00.000\" is no date"));
  CHECK(Contains(ErrorWith("pandas.csv", "12,0.3", "12"), "pandas.csv: line 8: has 5 fields"));
  CHECK(Contains(ErrorWith("pandas.jsonl", "\"x\":null", "\"x\":\"a\""), "pandas.jsonl: "));
  CHECK(Contains(ErrorWith("pandas.jsonl", "true,", "true;"), "pandas.jsonl: line 1: column "));
  CHECK(Contains(ErrorWith("sklearn.svm", "2:1.5", "2:1.x5"), "sklearn.svm: line "));
  CHECK(
      Contains(ErrorWith("tensorflow.tfrecord", "tags", "tagz"), "tensorflow.tfrecord: record 0"));
}

// ------------------------------------------------------------------ as pandas computes

TEST_CASE("expressions give the values of pandas") {
  const json golden = GoldenFiles("tables.json")["expressions"];
  for (const json& c : golden["cases"]) {
    INFO(c["text"]);
    const auto expression = Expression::Parse(c["text"].get<std::string>());
    REQUIRE(expression.ok());
    std::vector<std::vector<double>> columns;
    for (const std::string& name : expression->columns()) {
      columns.push_back(golden["columns"][name].get<std::vector<double>>());
    }
    std::vector<const double*> inputs;
    for (const auto& column : columns) inputs.push_back(column.data());
    const auto values = c["values"].get<std::vector<double>>();
    std::vector<double> computed(values.size());
    expression->Compute(inputs, computed);
    for (size_t i = 0; i < values.size(); ++i)
      CHECK(computed[i] == Approx(values[i]).epsilon(1e-14));
  }
}

TEST_CASE("filters keep the rows of pandas' query") {
  const json golden = GoldenFiles("tables.json")["filters"];
  const auto ages = std::vector<double>{17, 18, 40, 50, 60, 18};
  for (const json& c : golden) {
    std::vector<double> expected;
    for (const size_t row : c["kept"]) expected.push_back(ages[row]);
    for (const char* source : {"csv", "json_lines"}) {
      INFO(source << ": " << c["text"]);
      v1::DatasetSpec spec;
      *spec.mutable_source_class() = ClassOf(
          source, {{"path", ConfigOf(FilePath(std::string("query.") +
                                              (source == std::string("csv") ? "csv" : "jsonl")))}});
      spec.set_filter(c["text"].get<std::string>());
      const auto read = ReadColumn(spec, "age");
      INFO(read.status());
      REQUIRE(read.ok());
      CHECK(*read == expected);
    }
  }
}

TEST_CASE("dates have the parts of pandas") {
  const json golden = GoldenFiles("tables.json")["dates"];
  const testing::TestDirectory directory;
  std::string text = "when\n";
  for (const std::string date : golden["texts"]) text += date + "\n";
  directory.Write("dates.csv", text);
  for (const auto& [part, values] : golden["parts"].items()) {
    INFO(part);
    v1::DatasetSpec spec;
    *spec.mutable_source_class() = ClassOf("csv", {{"path", ConfigOf(directory / "dates.csv")}});
    AddTransform(&spec, "when", ClassOf("Date", {{"parts", ConfigOf(std::vector{part})}}));
    const auto read = ReadColumn(spec, "when");
    INFO(read.status());
    REQUIRE(read.ok());
    CHECK(*read == values.get<std::vector<double>>());
  }
}

}  // namespace
}  // namespace cohort::golden

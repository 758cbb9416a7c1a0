// Compares transforms of tables with the preprocessing layers of the real Keras
// (make_table_golden.py).
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/data/convert.h"
#include "common/data/dataset.h"
#include "common/data/transform_class.h"
#include "common/testing/directory_test_util.h"
#include "common/testing/status_test_util.h"
#include "proto/job.pb.h"

namespace cohort::golden {
namespace {

using nlohmann::json;

const json& Tables() {
  static const json golden = [] {
    const char* source = std::getenv("COHORT_SOURCE_DIR");
    std::ifstream in(std::string(source == nullptr ? "." : source) + "/tests/golden/tables.json");
    REQUIRE(in.good());
    return json::parse(in);
  }();
  return golden;
}

v1::ConfigValue ValueOfJson(const json& value) {
  if (value.is_null()) return {};
  if (value.is_boolean()) return ConfigOf(value.get<bool>());
  if (value.is_number_integer()) return ConfigOf(value.get<int64_t>());
  if (value.is_number()) return ConfigOf(value.get<double>());
  if (value.is_string()) return ConfigOf(value.get<std::string>());
  v1::ConfigValue list;
  list.mutable_list();
  for (const json& item : value) *list.mutable_list()->add_values() = ValueOfJson(item);
  return list;
}

v1::DatasetSpec CsvOf(const std::string& path) {
  v1::DatasetSpec spec;
  *spec.mutable_source_class() = ClassOf("csv", {{"path", ConfigOf(path)}});
  return spec;
}

std::string CellOf(const json& value) {
  if (!value.is_string()) return value.dump();
  std::string cell = "\"";
  for (const char c : value.get<std::string>()) cell += c == '"' ? "\"\"" : std::string(1, c);
  return cell + "\"";
}

// A CSV file with the columns of a case and a column of labels, and its transform.
v1::DatasetSpec SpecOfCase(const testing::TestDirectory& dir, const json& c) {
  std::string text;
  for (size_t i = 0; i < c["columns"].size(); ++i) text += fmt::format("x{},", i);
  text += "label\n";
  for (size_t row = 0; row < c["columns"][0].size(); ++row) {
    for (const json& column : c["columns"]) text += CellOf(column[row]) + ",";
    text += "1\n";
  }
  v1::DatasetSpec spec = CsvOf(dir.Write("table.csv", text));
  spec.set_label("label");
  v1::ColumnTransform* const transform = spec.add_transforms();
  if (c["columns"].size() == 1) transform->set_column("x0");
  for (size_t i = 0; i < c["columns"].size() && c["columns"].size() > 1; ++i) {
    transform->add_columns(fmt::format("x{}", i));
  }
  transform->set_output("out");
  v1::ClassConfig* const config = transform->mutable_transform_class();
  config->set_class_name(c["class_name"].get<std::string>());
  for (const auto& [name, value] : c["config"].items()) {
    const bool word = name == "mask_value" && !value.is_string();
    (*config->mutable_config())[name] = word ? ConfigOf(value.dump()) : ValueOfJson(value);
  }
  return spec;
}

void CheckTable(const json& c, const v1::DatasetSpec& spec) {
  const auto dataset = Dataset::Open(spec);
  INFO(dataset.status());
  REQUIRE(dataset.ok());
  std::vector<uint64_t> indices;
  for (uint64_t i = 0; i < c["columns"][0].size(); ++i) indices.push_back(i);
  const auto features = (*dataset)->FindFeatures(std::vector<std::string>{"out"});
  REQUIRE(features.ok());
  std::vector<Tensor> batch;
  const absl::Status gathered = (*dataset)->Gather(indices, *features, {}, &batch);
  INFO(gathered);
  REQUIRE(gathered.ok());
  // A scalar is what Keras gives as [batch, 1].
  std::vector<int64_t> dims(batch[0].dims().begin() + 1, batch[0].dims().end());
  if (dims.empty()) dims = {1};
  CHECK(dims == c["shape"].get<std::vector<int64_t>>());
  // Vectors are float32, also where Keras counts in int64.
  const bool is_int = c["dtype"] != "float32" && !IsFloating(batch[0].dtype());
  CHECK((is_int || batch[0].dtype() == DType::kFloat32));
  std::vector<double> values(static_cast<size_t>(batch[0].num_elements()));
  ConvertNumbers(batch[0].dtype(), batch[0].raw(), DType::kFloat64, values.data(), values.size());
  REQUIRE(values.size() == c["values"].size());
  for (size_t i = 0; i < values.size(); ++i) {
    INFO("element " << i << ": " << values[i]);
    const double expected = c["values"][i];
    REQUIRE(std::abs(values[i] - expected) <=
            (is_int ? 0 : 2e-6 * std::max(1.0, std::abs(expected))));
  }
}

TEST_CASE("transforms of tables are the preprocessing layers of Keras") {
  std::set<std::string> classes;
  int number = 0;
  for (const json& c : Tables()["cases"]) {
    INFO("case " << number++ << ": " << c["class_name"] << " " << c["config"].dump());
    classes.insert(c["class_name"].get<std::string>());
    const testing::TestDirectory dir;
    CheckTable(c, SpecOfCase(dir, c));
  }
  CHECK(classes.size() == 8);
}

TEST_CASE("what a transform of a table learns is in the job, and gives the same again") {
  for (const json& c : Tables()["cases"]) {
    INFO(c["class_name"] << " " << c["config"].dump());
    const testing::TestDirectory dir;
    v1::DataSpec data;
    *data.mutable_train() = SpecOfCase(dir, c);
    REQUIRE(ResolveVocabularies(&data, {}).ok());
    const v1::ClassConfig& config = data.train().transforms(0).transform_class();
    const auto found = Transforms().Find(config.class_name());
    REQUIRE(found.ok());
    const auto complete = CompleteConfig((*found)->schema, config);
    REQUIRE(complete.ok());
    CHECK(((*found)->must_adapt == nullptr || !(*found)->must_adapt(Config(*complete))));
    CheckTable(c, data.train());
  }
}

TEST_CASE("a vocabulary comes from a file") {
  const testing::TestDirectory dir;
  v1::DataSpec data;
  *data.mutable_train() = CsvOf(dir.Write("t.csv", "word,label\nb,1\na,2\nc,3\n"));
  data.mutable_train()->set_label("label");
  v1::ColumnTransform* const transform = data.mutable_train()->add_transforms();
  transform->set_column("word");
  *transform->mutable_transform_class() =
      ClassOf("StringLookup", {{"vocabulary", ConfigOf(dir.Write("words.txt", "a\nb\r\n"))}});
  REQUIRE(ResolveVocabularies(&data, {}).ok());
  CHECK(Config(data.train().transforms(0).transform_class()).Strings("vocabulary") ==
        std::vector<std::string>{"a", "b"});
  *transform->mutable_transform_class() =
      ClassOf("IntegerLookup", {{"vocabulary", ConfigOf(dir / "words.txt")}});
  CHECK(testing::Contains(testing::Message(ResolveVocabularies(&data, {})),
                          "words.txt: line 1: \"a\" is not an integer"));
}

}  // namespace
}  // namespace cohort::golden

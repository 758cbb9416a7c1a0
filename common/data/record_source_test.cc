// Sources and transforms that are registered beside those of this tree.
#include "common/data/record_source.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <numeric>

#include "common/base/status.h"
#include "common/data/data_test_specs.h"
#include "common/data/dataset.h"
#include "common/data/fingerprint.h"
#include "common/data/source_class.h"
#include "common/data/transform_class.h"
#include "common/testing/status_test_util.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

using testing::AddTransform;
using testing::Contains;

std::atomic<int> reads = 0;
std::atomic<int> square_reads = 0;  // with the column `square`

// Record i has number = i (int64), square = [i * i, 1] (float32).
class Squares : public RecordSource {
 public:
  Squares(uint64_t records, int64_t torn, std::string name)
      : records_(records), torn_(torn), name_(std::move(name)) {}

  uint64_t num_records() const override { return records_; }
  const std::vector<FeatureType>& columns() const override { return columns_; }
  std::string fingerprint() const override { return name_; }
  absl::Status Read(const RecordContext& context,
                    std::span<const std::span<std::byte>> values) const override {
    ++reads;
    const auto number = static_cast<int64_t>(context.record);
    if (number == torn_) return DataLoss("the record is torn");
    if (!values[0].empty()) std::memcpy(values[0].data(), &number, values[0].size());
    if (values[1].empty()) return absl::OkStatus();
    ++square_reads;
    const float square[2] = {static_cast<float>(number * number), 1};
    std::memcpy(values[1].data(), square, values[1].size());
    return absl::OkStatus();
  }

 private:
  const uint64_t records_;
  const int64_t torn_;
  const std::string name_;
  const std::vector<FeatureType> columns_ = {{"number", DType::kInt64, {}},
                                             {"square", DType::kFloat32, {2}}};
};

absl::StatusOr<std::shared_ptr<const RecordSource>> OpenSquares(const Config& config,
                                                                const SourceContext& context) {
  return std::make_shared<Squares>(static_cast<uint64_t>(config.Int("records")), config.Int("torn"),
                                   config.String("contents") + context.options.data_dir);
}

// The sum of the elements of all inputs, as a float32.
absl::StatusOr<RecordTransform> OpenSum(const Config& config, std::span<const FeatureType> inputs) {
  for (const FeatureType& input : inputs) {
    if (input.dtype != DType::kFloat32) return InvalidArgument("\"{}\" is not float32", input.name);
  }
  return RecordTransform{
      DType::kFloat32,
      {},
      [most = config.Float("most")](const RecordContext&,
                                    std::span<const std::span<const std::byte>> values,
                                    std::span<std::byte> output) -> absl::Status {
        float sum = 0;
        for (const auto value : values) {
          for (size_t at = 0; at < value.size(); at += sizeof(float)) {
            float element = 0;
            std::memcpy(&element, value.data() + at, sizeof(element));
            sum += element;
          }
        }
        if (sum > most) return InvalidArgument("the sum is {}", sum);
        std::memcpy(output.data(), &sum, sizeof(sum));
        return absl::OkStatus();
      }};
}

// Registers the classes once.
void RegisterClasses() {
  static const bool once = [] {
    const ClassSchema squares = {.name = "Squares",
                                 .doc = "The first numbers and their squares.",
                                 .arguments = {Int("records", "Records.").AtLeast(1),
                                               Int("torn", "A bad record.").Default(-1),
                                               String("contents", "Fingerprint.").Default("a"),
                                               String("url", "Address.").Default("")}};
    const ClassSchema sum = {.name = "Sum",
                             .doc = "The sum of all elements.",
                             .arguments = {Float("most", "The greatest sum.").Default(1e9)}};
    return Sources()
               .Register({.schema = squares, .no_record_arguments = {"url"}, .open = OpenSquares})
               .ok() &&
           Transforms().Register({.schema = sum, .takes_columns = true, .open = OpenSum}).ok();
  }();
  REQUIRE(once);
  CHECK(absl::IsAlreadyExists(Sources().Register({.schema = {.name = "CSV"}})));
}

v1::DatasetSpec SquaresSpec(int64_t records) {
  RegisterClasses();
  v1::DatasetSpec spec;
  *spec.mutable_source_class() = ClassOf("squares", {{"records", ConfigOf(records)}});
  return spec;
}

std::shared_ptr<const Dataset> Open(const v1::DatasetSpec& spec) {
  auto dataset = Dataset::Open(spec);
  INFO(dataset.status());
  REQUIRE(dataset.ok());
  return *dataset;
}

std::string ErrorOf(const v1::DatasetSpec& spec) {
  return testing::Message(Dataset::Open(spec).status());
}

template <typename T>
std::vector<T> Gather(const Dataset& dataset, const std::string& name,
                      const std::vector<uint64_t>& indices) {
  const auto feature = dataset.FindFeatures({&name, 1});
  REQUIRE(feature.ok());
  std::vector<Tensor> batch;
  const absl::Status gathered = dataset.Gather(indices, *feature, &batch);
  INFO(gathered);
  REQUIRE(gathered.ok());
  REQUIRE(batch[0].dtype() == DTypeOf<T>());
  const auto values = batch[0].values<T>();
  return {values.begin(), values.end()};
}

TEST_CASE("a registered source is read when a batch is gathered, column by column") {
  v1::DatasetSpec spec = SquaresSpec(10);
  spec.set_skip(2);
  spec.set_take(6);
  const auto dataset = Open(spec);
  CHECK(dataset->num_records() == 6);
  CHECK(dataset->features()[1].name == "square");
  CHECK(dataset->features()[1].dims == Dims{2});
  reads = square_reads = 0;
  CHECK(Gather<int64_t>(*dataset, "number", {5, 0, 5}) == std::vector<int64_t>{7, 2, 7});
  CHECK(reads == 3);
  CHECK(square_reads == 0);
  std::vector<Tensor> batch;
  const std::vector<uint64_t> indices = {1, 2};
  const std::vector<int> features = {1, 0, 1};  // a record is read once for all of them
  REQUIRE(dataset->Gather(indices, features, &batch).ok());
  CHECK(reads == 5);
  CHECK(batch[1].values<int64_t>()[1] == 4);
  for (const int same : {0, 2}) {
    const auto values = batch[static_cast<size_t>(same)].values<float>();
    CHECK(std::vector<float>(values.begin(), values.end()) == std::vector<float>{9, 1, 16, 1});
  }
  const std::vector<uint64_t> beyond = {6};
  CHECK(absl::IsOutOfRange(dataset->Gather(beyond, features, &batch)));
}

TEST_CASE("integers are looked up, hashed and crossed record by record, as their words are") {
  v1::DatasetSpec spec = SquaresSpec(20);
  AddTransform(&spec, "number", ClassOf("Hashing", {{"num_bins", ConfigOf(7)}}), "hash");
  AddTransform(&spec, "number",
               ClassOf("IntegerLookup", {{"vocabulary", ConfigOf(std::vector<int64_t>{3, 5})}}),
               "found");
  v1::ColumnTransform* const cross =
      AddTransform(&spec, "", ClassOf("HashedCrossing", {{"num_bins", ConfigOf(1000)}}), "crossed");
  cross->add_columns("number");
  cross->add_columns("hash");
  reads = 0;
  const auto dataset = Open(spec);
  CHECK(reads == 0);
  const testing::TestDirectory directory;
  std::string text = "number,square\n";
  for (int i = 0; i < 20; ++i) text += fmt::format("{},{}\n", i, i * i);
  v1::DatasetSpec csv = spec;
  *csv.mutable_source_class() = testing::CsvSpec(directory.Write("a.csv", text)).source_class();
  const auto in_memory = Open(csv);
  std::vector<uint64_t> all(20);
  std::iota(all.begin(), all.end(), 0U);
  for (const char* column : {"hash", "found", "crossed"}) {
    INFO(column);
    CHECK(Gather<int64_t>(*dataset, column, all) == Gather<int64_t>(*in_memory, column, all));
  }
}

TEST_CASE("moments of many records are learned block by block") {
  v1::DatasetSpec spec = SquaresSpec(10'001);
  AddTransform(&spec, "number", ClassOf("Normalization"), "normal");
  v1::ColumnTransform* const both = AddTransform(
      &spec, "", ClassOf("Normalization", {{"axis", ConfigOf(std::vector<int64_t>{-1})}}), "both");
  both->add_columns("number");
  both->add_columns("number");
  const auto dataset = Open(spec);
  // 0 to 2 n have the mean n and the variance n (n + 1) / 3.
  const double deviation = std::sqrt(5000.0 * 5001.0 / 3);
  for (const uint64_t record : {0, 5000, 10'000}) {
    const float expected = static_cast<float>((static_cast<double>(record) - 5000) / deviation);
    CHECK(Gather<float>(*dataset, "normal", {record})[0] == Approx(expected).margin(1e-6));
    CHECK(Gather<float>(*dataset, "both", {record})[1] == Approx(expected).margin(1e-6));
  }
}

TEST_CASE("an epoch reads each record of a registered source exactly once") {
  const v1::DatasetSpec spec = [] {
    v1::DatasetSpec made = SquaresSpec(1000);
    made.set_shuffle(true);
    made.set_block_size(4);
    return made;
  }();
  for (const uint32_t prefetch : {0, 2}) {
    BatchReader::Options options;
    options.features = {0};
    options.batch_size = 32;
    options.prefetch = prefetch;
    auto reader = BatchReader::Leased(Open(spec), spec, options);
    REQUIRE(reader.ok());
    std::vector<int64_t> seen;
    BatchReader::Batch batch;
    for (uint64_t begin = 0; begin < 1000; begin += 32) {
      const uint64_t end = std::min<uint64_t>(begin + 32, 1000);
      (*reader)->Announce(3, begin, end);
      REQUIRE((*reader)->Read(3, begin, end, &batch).ok());
      const auto values = batch.tensors[0].values<int64_t>();
      seen.insert(seen.end(), values.begin(), values.end());
    }
    std::vector<int64_t> all(1000);
    std::iota(all.begin(), all.end(), 0);
    CHECK(seen != all);
    std::sort(seen.begin(), seen.end());
    CHECK(seen == all);
  }
}

TEST_CASE("an error of a source names the source and the record") {
  v1::DatasetSpec spec = SquaresSpec(10);
  (*spec.mutable_source_class()->mutable_config())["torn"] = ConfigOf(int64_t{7});
  spec.set_skip(5);
  const auto dataset = Open(spec);
  std::vector<Tensor> batch;
  const std::vector<uint64_t> indices = {1, 2};
  const std::vector<int> features = {0};
  const absl::Status torn = dataset->Gather(indices, features, &batch);
  CHECK(absl::IsDataLoss(torn));
  CHECK(testing::Message(torn) == "source Squares: record 7: the record is torn");
  // A reader's thread returns it, too.
  for (const uint32_t prefetch : {0, 2}) {
    BatchReader::Options options;
    options.features = {0};
    options.batch_size = 2;
    options.prefetch = prefetch;
    auto reader = BatchReader::Independent(dataset, spec, options);
    REQUIRE(reader.ok());
    BatchReader::Batch made;
    REQUIRE((*reader)->Next(&made).ok());
    CHECK(Contains(testing::Message((*reader)->Next(&made)), "record 7"));
  }
}

TEST_CASE("other contents of a source are another fingerprint") {
  const auto fingerprint = [](const std::string& contents) {
    v1::DatasetSpec spec = SquaresSpec(10);
    (*spec.mutable_source_class()->mutable_config())["contents"] = ConfigOf(contents);
    return Open(spec)->fingerprint();
  };
  const v1::DataFingerprint a = fingerprint("a");
  CHECK(DifferenceOf({a, "here"}, {fingerprint("a"), "there"}).empty());
  CHECK(DifferenceOf({a, "here"}, {fingerprint("b"), "there"}) ==
        "the source has other records (\"Squares a\" here; \"Squares b\" there): 10 records here, "
        "10 there");
  CHECK(fingerprint(std::string(1000, 'x')).source().size() < 40);  // a hash
}

TEST_CASE("an argument that does not determine the records is not part of the data") {
  v1::DatasetSpec spec = SquaresSpec(10);
  v1::DatasetSpec other = spec;
  (*other.mutable_source_class()->mutable_config())["url"] = ConfigOf(std::string_view("x"));
  CHECK(ReadTheSame(spec, other));
  (*other.mutable_source_class()->mutable_config())["records"] = ConfigOf(int64_t{11});
  CHECK(!ReadTheSame(spec, other));
}

TEST_CASE("transforms of this tree and registered ones follow a registered source") {
  v1::DatasetSpec spec = SquaresSpec(10);
  AddTransform(&spec, "number",
               ClassOf("Rescaling", {{"scale", ConfigOf(0.5)}, {"offset", ConfigOf(1.0)}}), "half");
  AddTransform(&spec, "half", ClassOf("Cast"), "whole")->set_dtype("int64");
  AddTransform(&spec, "number", ClassOf("Equals", {{"value", ConfigOf(std::string_view("4"))}}),
               "is_four");
  AddTransform(&spec, "square", ClassOf("Sum"), "sum");
  AddTransform(&spec, "sum", ClassOf("Rescaling", {{"scale", ConfigOf(10.0)}}));
  v1::ColumnTransform* const pair = AddTransform(&spec, "", ClassOf("Stack"), "pair");
  pair->add_columns("number");
  pair->add_columns("half");
  v1::ColumnTransform* const all = AddTransform(&spec, "", ClassOf("Sum"), "all");
  all->add_columns("half");
  all->add_columns("square");
  const auto dataset = Open(spec);
  CHECK(Gather<float>(*dataset, "half", {4, 5}) == std::vector<float>{3, 3.5});
  CHECK(Gather<int64_t>(*dataset, "whole", {4, 5}) == std::vector<int64_t>{3, 3});
  CHECK(Gather<float>(*dataset, "is_four", {4, 5}) == std::vector<float>{1, 0});
  CHECK(Gather<float>(*dataset, "sum", {3}) == std::vector<float>{100});
  CHECK(Gather<float>(*dataset, "pair", {4, 5}) == std::vector<float>{4, 3, 5, 3.5});
  CHECK(Gather<float>(*dataset, "all", {4}) == std::vector<float>{3 + 16 + 1});
}

TEST_CASE("a registered transform follows columns in memory") {
  RegisterClasses();
  const testing::TestDirectory dir;
  v1::DatasetSpec spec = testing::CsvSpec(dir.Write("a.csv", "x,y\n1,2\n3,4\n5,6\n"));
  AddTransform(&spec, "x", ClassOf("Rescaling", {{"scale", ConfigOf(2.0)}}), "twice");
  v1::ColumnTransform* const sum = AddTransform(&spec, "", ClassOf("Sum"), "sum");
  sum->add_columns("twice");
  sum->add_columns("y");
  const auto dataset = Open(spec);
  CHECK(Gather<float>(*dataset, "sum", {2, 0}) == std::vector<float>{16, 4});
  CHECK(Gather<float>(*dataset, "y", {2, 0}) == std::vector<float>{6, 2});
}

TEST_CASE("what classes of others do wrong is an error that names them") {
  v1::DatasetSpec spec = SquaresSpec(10);
  spec.set_skip(10);
  CHECK(Contains(ErrorOf(spec), "exceed the 10 records"));
  spec = SquaresSpec(0);
  CHECK(Contains(ErrorOf(spec), "records must be at least 1, not 0"));
  spec = SquaresSpec(10);
  AddTransform(&spec, "number", ClassOf("Sum"));
  CHECK(ErrorOf(spec) == "transform of \"number\": \"number\" is not float32");
  spec = SquaresSpec(10);
  AddTransform(&spec, "number", ClassOf("StringLookup"));
  CHECK(Contains(ErrorOf(spec), "column \"number\" holds numbers, and StringLookup needs words"));
  spec = SquaresSpec(10);
  AddTransform(&spec, "square", ClassOf("Sum", {{"most", ConfigOf(10.0)}}), "sum");
  const auto dataset = Open(spec);
  std::vector<Tensor> batch;
  const std::vector<uint64_t> indices = {3, 4};
  const std::vector<int> features = {2};
  CHECK(testing::Message(dataset->Gather(indices, features, &batch)) ==
        "transform of \"sum\": record 4: the sum is 17");
  RegisterClasses();
  REQUIRE(Transforms()
              .Register({.schema = {.name = "Shapeless"},
                         .open = [](const Config&, std::span<const FeatureType>)
                             -> absl::StatusOr<RecordTransform> {
                           return RecordTransform{DType::kInt32, {-1}, nullptr};
                         }})
              .ok());
  spec = SquaresSpec(10);
  AddTransform(&spec, "number", ClassOf("Shapeless"));
  CHECK(ErrorOf(spec) == "transform of \"number\": a column cannot have the shape [-1]");
}

}  // namespace
}  // namespace cohort

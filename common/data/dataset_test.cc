#include "common/data/dataset.h"

#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>

#include "common/data/lookup.h"
#include "common/data/test_files.h"
#include "common/testing/status_message.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::Idx;

v1::DatasetSpec Spec(const std::string& text) {
  v1::DatasetSpec spec;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(text, &spec));
  return spec;
}

// All records of one feature.
template <typename T>
std::vector<T> All(const Dataset& dataset, const std::string& name) {
  const auto feature = dataset.FindFeatures({&name, 1});
  REQUIRE(feature.ok());
  REQUIRE(dataset.features()[static_cast<size_t>((*feature)[0])].dtype == DTypeOf<T>());
  std::vector<uint64_t> indices(dataset.num_records());
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = i;
  std::vector<Tensor> batch;
  REQUIRE(dataset.Gather(indices, *feature, &batch).ok());
  const auto values = batch[0].values<T>();
  return {values.begin(), values.end()};
}

constexpr char kRecommender[] = R"(
  generator { name: "recommender" records: 200 seed: 1 } shuffle: true label: "label"
  transforms { column: "features" lookup: "string"
    vocabulary: ["avenger", "ironman", "batman", "hulk", "spiderman", "kingkong", "wonder_woman"] }
  transforms { column: "label" equals: "yes" })";

TEST_CASE("the recommender's ids and labels agree") {
  const auto dataset = Dataset::Open(Spec(kRecommender));
  REQUIRE(dataset.ok());
  REQUIRE((*dataset)->features().size() == 2);
  CHECK((*dataset)->features()[0].dims == Dims{3});
  CHECK((*dataset)->features()[1].dims.empty());
  const auto ids = All<int64_t>(**dataset, "features");
  const auto labels = All<float>(**dataset, "label");
  for (size_t i = 0; i < 200; ++i) {
    bool avenger = false;
    for (size_t f = 0; f < 3; ++f) {
      REQUIRE((ids[3 * i + f] >= 1 && ids[3 * i + f] <= 7));
      avenger = avenger || ids[3 * i + f] == 1;
    }
    CHECK(labels[i] == (avenger ? 1.0F : 0.0F));
  }
}

TEST_CASE("lookups learn and apply vocabularies as Keras does") {
  const std::vector<std::string> words = {"b", "a", "[UNK]", "c", "unused", "\xc3\xa4"};
  // b twice, a and c and the umlaut once, [UNK] three times.
  const std::vector<uint32_t> codes = {0, 1, 2, 3, 0, 2, 5, 2};
  const auto vocabulary = AdaptVocabulary(codes, words);
  CHECK(vocabulary == std::vector<std::string>{"b", "\xc3\xa4", "c", "a"});
  CHECK(*LookupIds(words, vocabulary) == std::vector<int64_t>{1, 4, 0, 3, 0, 2});
  const std::vector<std::string> with_oov = {"[UNK]", "a", "b"};
  CHECK(*LookupIds(words, with_oov) == std::vector<int64_t>{2, 1, 0, 0, 0, 0});
  CHECK(!LookupIds(words, std::vector<std::string>{"a", "[UNK]"}).ok());
  CHECK(!LookupIds(words, std::vector<std::string>{"a", "a"}).ok());
  CHECK(!LookupIds(words, std::vector<std::string>{}).ok());
}

constexpr char kPeople[] =
    "job,age,hours,income\ncook,20,40,>50K\nsmith,30,10,<=50K\ncook,40,20,<=50K\nnurse,50,30,>"
    "50K\n";

std::string CsvSpec(const std::string& path, const std::string& rest) {
  return "csv { path: \"" + path + "\" } " + rest;
}

TEST_CASE("columns are transformed, stacked, scaled and cast") {
  testing::TestDirectory dir;
  const std::string path = dir.Write("p.csv", kPeople);
  const auto dataset = Dataset::Open(Spec(CsvSpec(path, R"(
    label: "rich"
    transforms { column: "job" lookup: "string" output: "job_id" }
    transforms { column: "job" equals: "cook" output: "is_cook" dtype: "int64" }
    transforms { column: "income" equals: ">50K" output: "rich" }
    transforms { column: "age" scale: 0.1 offset: 1 }
    transforms { columns: ["age", "hours"] output: "numbers" }
    transforms { columns: ["job", "income"] lookup: "string" output: "words" }
    transforms { column: "hours" equals: "10" output: "ten" dtype: "bool" }
    transforms { column: "hours" dtype: "float64" output: "wide" })")));
  INFO(dataset.status());
  REQUIRE(dataset.ok());
  CHECK(All<int64_t>(**dataset, "job_id") == std::vector<int64_t>{1, 2, 1, 3});
  CHECK(All<int64_t>(**dataset, "is_cook") == std::vector<int64_t>{1, 0, 1, 0});
  CHECK(All<float>(**dataset, "rich") == std::vector<float>{1, 0, 0, 1});
  CHECK(All<float>(**dataset, "age") == std::vector<float>{3, 4, 5, 6});
  CHECK(All<float>(**dataset, "numbers") == std::vector<float>{3, 40, 4, 10, 5, 20, 6, 30});
  CHECK(All<double>(**dataset, "wide") == std::vector<double>{40, 10, 20, 30});
  CHECK(All<bool>(**dataset, "ten") == std::vector<bool>{false, true, false, false});
  // By frequency: cook, >50K, <=50K (2 each; the greater word first), then smith, nurse.
  CHECK(All<int64_t>(**dataset, "words") == std::vector<int64_t>{1, 2, 4, 3, 1, 3, 5, 2});
  const std::vector<std::string> text = {"income"};
  CHECK(Contains(testing::Message((*dataset)->FindFeatures(text).status()),
                 "column \"income\" holds text"));
  const std::vector<std::string> none = {"nothing"};
  CHECK(Contains(testing::Message((*dataset)->FindFeatures(none).status()),
                 "no feature \"nothing\"; it has age"));
}

TEST_CASE("transforms that make no sense say which and why") {
  testing::TestDirectory dir;
  const std::string path = dir.Write("p.csv", kPeople);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"transforms { column: \"jobs\" lookup: \"string\" }",
       "transform of \"jobs\": there is no column \"jobs\"; there are job, age, hours, income"},
      {"transforms { output: \"x\" }", "give either `column` or `columns`"},
      {"transforms { column: \"age\" columns: \"job\" }", "give either `column` or `columns`"},
      {"transforms { columns: \"age\" }", "`columns` needs an `output`"},
      {"transforms { column: \"job\" lookup: \"hash\" }", "lookup: \"hash\" is unknown"},
      {"transforms { column: \"job\" lookup: \"string\" equals: \"a\" }", "exclude each other"},
      {"transforms { column: \"job\" lookup: \"string\" scale: 2 }", "apply to numbers"},
      {"transforms { column: \"job\" lookup: \"string\" num_oov_indices: 3 }",
       "only 1 is supported"},
      {"transforms { column: \"job\" lookup: \"string\" vocabulary: [\"a\", \"a\"] }",
       "\"a\" twice"},
      {"transforms { column: \"age\" vocabulary: \"a\" }", "need `lookup: string`"},
      {"transforms { column: \"age\" dtype: \"float16\" }", "dtype: \"float16\" is unknown"},
      {"transforms { column: \"job\" scale: 2 }",
       "line 2: column \"job\": \"cook\" is not a number"},
      {"transforms { column: \"age\" scale: 2 output: \"a\" } transforms { column: \"a\" lookup: "
       "\"string\" }",
       "holds numbers, a string lookup needs words"},
      {"label: \"job\"", "\"cook\" is not a number"},
      {"label: \"nothing\"", "label: the dataset has no feature \"nothing\""},
      {"skip: 4", "skip 4 and take 0 exceed the 4 records"},
  };
  for (const auto& [rest, message] : cases) {
    const auto dataset = Dataset::Open(Spec(CsvSpec(path, rest)));
    INFO(rest);
    REQUIRE(!dataset.ok());
    INFO(dataset.status());
    CHECK(Contains(testing::Message(dataset.status()), message));
  }
  CHECK(Contains(testing::Message(Dataset::Open(v1::DatasetSpec()).status()), "needs a source"));
  const auto csv = Spec("csv { path: \"" + path + "\" delimiter: \"ab\" }");
  CHECK(Contains(testing::Message(Dataset::Open(csv).status()), "not one character"));
}

TEST_CASE("a vocabulary is learned from the training rows alone, once") {
  testing::TestDirectory dir;
  const std::string path = dir.Write("p.csv", kPeople);
  v1::DataSpec data;
  *data.mutable_train() =
      Spec(CsvSpec(path, R"(take: 2 transforms { column: "job" lookup: "string" })"));
  *data.mutable_validation() =
      Spec(CsvSpec(path, R"(skip: 2 transforms { column: "job" lookup: "string" })"));
  REQUIRE(ResolveVocabularies(&data, {}).ok());
  CHECK(data.train().transforms(0).vocabulary(0) == "smith");
  CHECK(data.validation().transforms(0).vocabulary_size() == 2);
  const auto validation = Dataset::Open(data.validation());
  REQUIRE(validation.ok());
  CHECK(All<int64_t>(**validation, "job") == std::vector<int64_t>{2, 0});
  data.mutable_validation()->mutable_transforms(0)->clear_vocabulary();
  data.mutable_validation()->mutable_transforms(0)->set_output("other");
  CHECK(Contains(testing::Message(ResolveVocabularies(&data, {})), "has no vocabulary"));
}

TEST_CASE("images stay bytes and are scaled when they are gathered") {
  testing::TestDirectory dir;
  std::string pixels;
  for (int i = 0; i < 24; ++i) pixels.push_back(static_cast<char>(i * 10));
  const std::string images = dir.Write("i.gz", testing::Gzip(Idx(0x08, {4, 2, 3}, pixels)));
  const std::string labels = dir.Write("l", Idx(0x08, {4}, std::string("\x00\x01\x02\x09", 4)));
  const std::string source = "idx { images: \"" + images + "\" labels: \"" + labels + "\" } ";
  const auto raw = Dataset::Open(Spec(source));
  REQUIRE(raw.ok());
  CHECK(All<uint8_t>(**raw, "image")[23] == 230);
  CHECK(All<int64_t>(**raw, "label") == std::vector<int64_t>{0, 1, 2, 9});
  const auto scaled = Dataset::Open(
      Spec(source + "skip: 1 take: 2 transforms { column: \"image\" scale: 0.00392156862745098 }"));
  REQUIRE(scaled.ok());
  const auto values = All<float>(**scaled, "image");
  REQUIRE(values.size() == 12);
  CHECK(values[0] == 60.0F * 0.00392156862745098F);
  CHECK(All<int64_t>(**scaled, "label") == std::vector<int64_t>{1, 2});
  const std::string short_labels = dir.Write("s", Idx(0x08, {3}, "abc"));
  CHECK(Contains(testing::Message(Dataset::Open(Spec("idx { images: \"" + images + "\" labels: \"" +
                                                     short_labels + "\" }"))
                                      .status()),
                 "has 4 records"));
}

TEST_CASE("batches reuse the memory that nobody else holds") {
  const auto dataset = Dataset::Open(Spec(kRecommender));
  REQUIRE(dataset.ok());
  std::vector<Tensor> batch;
  const std::vector<uint64_t> first = {1, 2, 3};
  const std::vector<int> features = {1, 0};
  REQUIRE((*dataset)->Gather(first, features, &batch).ok());
  const void* memory = batch[1].raw();
  CHECK(batch[1].dims() == Dims{3, 3});
  REQUIRE((*dataset)->Gather(first, features, &batch).ok());
  CHECK(batch[1].raw() == memory);
  const Tensor held = batch[1];
  const int64_t before = held.values<int64_t>()[0];
  const std::vector<uint64_t> second = {7, 8, 9};
  REQUIRE((*dataset)->Gather(second, features, &batch).ok());
  CHECK(batch[1].raw() != memory);
  CHECK(held.values<int64_t>()[0] == before);
  const std::vector<uint64_t> beyond = {200};
  CHECK(absl::IsOutOfRange((*dataset)->Gather(beyond, features, &batch)));
  const std::vector<int> no_feature = {2};
  CHECK(absl::IsInvalidArgument((*dataset)->Gather(first, no_feature, &batch)));
}

}  // namespace
}  // namespace cohort

#include "common/data/dataset.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "common/data/data_test_files.h"
#include "common/data/data_test_specs.h"
#include "common/data/lookup.h"
#include "common/testing/status_test_util.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

using testing::AddTransform;
using testing::Contains;
using testing::CsvSpec;
using testing::Idx;
using testing::IdxSpec;
using testing::IsEqual;
using testing::Lookup;
using testing::Scaled;

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

v1::DatasetSpec Recommender() {
  v1::DatasetSpec spec = testing::RecommenderSpec(200, 1);
  spec.set_shuffle(true);
  spec.set_label("label");
  AddTransform(
      &spec, "features",
      Lookup({"avenger", "ironman", "batman", "hulk", "spiderman", "kingkong", "wonder_woman"}));
  AddTransform(&spec, "label", IsEqual("yes"));
  return spec;
}

TEST_CASE("the recommender's ids and labels agree") {
  const auto dataset = Dataset::Open(Recommender());
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
  v1::ClassConfig learned = *CompleteConfig(Transforms(), ClassOf("StringLookup"));
  REQUIRE(cohort::Lookup::Adapt({.oov = kOovToken}, codes, words, 1, &learned).ok());
  const auto vocabulary = Config(learned).Strings("vocabulary");
  CHECK(vocabulary == std::vector<std::string>{"b", "\xc3\xa4", "c", "a"});
  const auto numbers = [&](std::vector<std::string> known) -> absl::StatusOr<std::vector<double>> {
    const auto config = CompleteConfig(Transforms(), ClassOf("StringLookup"));
    const auto lookup =
        cohort::Lookup::Create(Config(*config), {.vocabulary = known, .oov = kOovToken});
    if (!lookup.ok()) return lookup.status();
    return lookup->FindAll(words);
  };
  CHECK(*numbers(vocabulary) == std::vector<double>{1, 4, 0, 3, 0, 2});
  CHECK(*numbers({"[UNK]", "a", "b"}) == std::vector<double>{2, 1, 0, 0, 0, 0});
  CHECK(!numbers({"a", "[UNK]"}).ok());
  CHECK(!numbers({"a", "a"}).ok());
  CHECK(!numbers({}).ok());
}

constexpr char kPeople[] =
    "job,age,hours,income\ncook,20,40,>50K\nsmith,30,10,<=50K\ncook,40,20,<=50K\nnurse,50,30,>"
    "50K\n";

TEST_CASE("columns are transformed, stacked, scaled and cast") {
  testing::TestDirectory dir;
  v1::DatasetSpec spec = CsvSpec(dir.Write("p.csv", kPeople));
  spec.set_label("rich");
  const auto stack = [&](std::vector<const char*> columns, const char* output,
                         v1::ClassConfig transform) {
    v1::ColumnTransform* const added = AddTransform(&spec, "", std::move(transform), output);
    for (const char* column : columns) added->add_columns(column);
  };
  AddTransform(&spec, "job", Lookup(), "job_id");
  AddTransform(&spec, "job", IsEqual("cook"), "is_cook")->set_dtype("int64");
  AddTransform(&spec, "income", IsEqual(">50K"), "rich");
  AddTransform(&spec, "age", Scaled(0.1, 1));
  stack({"age", "hours"}, "numbers", {});
  stack({"job", "income"}, "words", Lookup());
  AddTransform(&spec, "hours", IsEqual("10"), "ten")->set_dtype("bool");
  AddTransform(&spec, "hours", {}, "wide")->set_dtype("float64");
  const auto dataset = Dataset::Open(spec);
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
  const v1::DatasetSpec people = CsvSpec(dir.Write("p.csv", kPeople));
  const auto one = [](std::string_view column, v1::ClassConfig config) {
    return [=](v1::DatasetSpec* spec) { AddTransform(spec, column, config); };
  };
  using Change = std::function<void(v1::DatasetSpec*)>;
  const std::vector<std::pair<Change, std::string>> cases = {
      {one("jobs", Lookup()),
       "transform of \"jobs\": there is no column \"jobs\"; there are job, age, hours, income"},
      {[](auto* spec) { AddTransform(spec, "", {}, "x"); }, "give either `column` or `columns`"},
      {[](auto* spec) { AddTransform(spec, "age", {})->add_columns("job"); },
       "give either `column` or `columns`"},
      {[](auto* spec) { AddTransform(spec, "", {})->add_columns("age"); },
       "`columns` needs an `output`"},
      {one("job", ClassOf("Hash")),
       "there is no transform \"Hash\"; there are AugMix, AutoContrast, "},
      {one("job", ClassOf("MelSpectrogram")), "transform \"MelSpectrogram\" is not supported yet"},
      {one("job", ClassOf("StringLookup", {{"scale", ConfigOf(2.0)}})),
       "StringLookup has no argument \"scale\""},
      {one("job", ClassOf("StringLookup", {{"sparse", ConfigOf(true)}})),
       "`sparse` of StringLookup is not supported: batches are dense"},
      {one("job",
           ClassOf("StringLookup", {{"vocabulary", ConfigOf(std::vector<std::string>{"cook"})},
                                    {"num_oov_indices", ConfigOf(0)}})),
       "is not in the vocabulary, and num_oov_indices is 0"},
      {one("job", ClassOf("IntegerLookup")), "is not an integer: use StringLookup"},
      {one("age", ClassOf("Normalization", {{"mean", ConfigOf(1.0)}})),
       "Normalization needs both mean and variance"},
      {one("age", ClassOf("Discretization")), "Discretization needs bin_boundaries, or num_bins"},
      {one("job", Lookup({"a", "a"})), "\"a\" twice"},
      {[](auto* spec) { AddTransform(spec, "age", {})->set_dtype("float16"); },
       "dtype: \"float16\" is unknown"},
      {one("job", Scaled(2)), "line 2: column \"job\": \"cook\" is not a number"},
      {[](auto* spec) {
         AddTransform(spec, "age", Scaled(2), "a");
         AddTransform(spec, "a", Lookup());
       },
       "column \"a\" holds numbers, and StringLookup needs words"},
      {[](auto* spec) { spec->set_label("job"); }, "\"cook\" is not a number"},
      {[](auto* spec) { spec->set_label("nothing"); },
       "label: the dataset has no feature \"nothing\""},
      {[](auto* spec) { spec->set_skip(4); }, "skip 4 and take 0 exceed the 4 records"},
      {[](auto* spec) { spec->clear_source_class(); }, "needs a source; there are "},
      {[](auto* spec) {
         (*spec->mutable_source_class()->mutable_config())["delimiter"].set_s("ab");
       },
       "delimiter must be one character"},
      {[](auto* spec) {
         (*spec->mutable_source_class()->mutable_config())["delimiter"].set_s("\\t");
       },
       ": a tab is \"\\t\" within double quotes"},
      {[](auto* spec) {
         (*spec->mutable_source_class()->mutable_config())["delimiter"].set_s(";");
       },
       "its only column is \"job,age,hours,income\": give it `delimiter: \",\"`"},
  };
  for (const auto& [change, message] : cases) {
    v1::DatasetSpec spec = people;
    change(&spec);
    const auto dataset = Dataset::Open(spec);
    INFO(message);
    REQUIRE(!dataset.ok());
    INFO(dataset.status());
    CHECK(Contains(testing::Message(dataset.status()), message));
  }
}

TEST_CASE("a vocabulary is learned from the training rows alone, once") {
  testing::TestDirectory dir;
  v1::DatasetSpec people = CsvSpec(dir.Write("p.csv", kPeople));
  AddTransform(&people, "job", ClassOf("StringLookup"));
  v1::DataSpec data;
  *data.mutable_train() = people;
  data.mutable_train()->set_take(2);
  *data.mutable_validation() = people;
  data.mutable_validation()->set_skip(2);
  REQUIRE(ResolveVocabularies(&data, {}).ok());
  const auto words = [](const v1::DatasetSpec& spec) {
    return Config(spec.transforms(0).transform_class()).Strings("vocabulary");
  };
  CHECK(words(data.train()) == std::vector<std::string>{"smith", "cook"});
  CHECK(words(data.validation()) == words(data.train()));
  const auto validation = Dataset::Open(data.validation());
  REQUIRE(validation.ok());
  CHECK(All<int64_t>(**validation, "job") == std::vector<int64_t>{2, 0});
  v1::ColumnTransform* const transform = data.mutable_validation()->mutable_transforms(0);
  *transform->mutable_transform_class() = ClassOf("StringLookup");
  transform->set_output("other");
  CHECK(Contains(testing::Message(ResolveVocabularies(&data, {})),
                 "the StringLookup of \"job\" in the validation set has nothing to learn from"));
}

TEST_CASE("IntegerLookup learns spellings of one integer as one") {
  testing::TestDirectory dir;
  v1::DataSpec data;
  *data.mutable_train() = CsvSpec(dir.Write("t.csv", "id,x\n01,1\n7,1\n7,1\n1,1\n+1,1\n"));
  AddTransform(data.mutable_train(), "id",
               ClassOf("IntegerLookup", {{"output_mode", ConfigOf("tf_idf")}}));
  REQUIRE(testing::Message(ResolveVocabularies(&data, {})) == "");
  const Config learned(data.train().transforms(0).transform_class());
  CHECK(learned.Ints("vocabulary") == std::vector<int64_t>{1, 7});
  CHECK(learned.Floats("idf_weights")[0] == Approx(std::log(1 + 5.0 / (1 + 3))));
}

TEST_CASE("texts are counted once for each record, and need not have one length") {
  testing::TestDirectory dir;
  v1::DataSpec data;
  *data.mutable_train() = CsvSpec(dir.Write("t.csv", "text\nb a a\nc\nb a a\n\"\"\n"));
  AddTransform(data.mutable_train(), "text",
               ClassOf("TextVectorization", {{"output_mode", ConfigOf("tf_idf")}}));
  REQUIRE(testing::Message(ResolveVocabularies(&data, {})) == "");
  const Config learned(data.train().transforms(0).transform_class());
  CHECK(learned.Strings("vocabulary") == std::vector<std::string>{"a", "b", "c"});
  const float of_two = std::log(1 + 4.0F / (1 + 2));
  const float of_one = std::log(1 + 4.0F / (1 + 1));
  CHECK(learned.Floats("idf_weights")[0] == Approx(of_two));
  CHECK(learned.Floats("idf_weights")[2] == Approx(of_one));
  const auto dataset = Dataset::Open(data.train());
  REQUIRE(testing::Message(dataset.status()) == "");
  const auto vectors = All<float>(**dataset, "text");
  REQUIRE(vectors.size() == 16);
  const std::vector<float> expected = {0, 2 * of_two, of_two, 0, 0, 0, 0, of_one,
                                       0, 2 * of_two, of_two, 0, 0, 0, 0, 0};
  for (size_t i = 0; i < expected.size(); ++i) CHECK(vectors[i] == Approx(expected[i]));
}

TEST_CASE("the training rows decide which columns of HashedCrossing are integers") {
  testing::TestDirectory dir;
  const auto spec_of = [&](const char* name, std::string_view rows) {
    v1::DatasetSpec spec = CsvSpec(dir.Write(name, "id,zone\n" + std::string(rows)));
    v1::ColumnTransform* const added =
        AddTransform(&spec, "", ClassOf("HashedCrossing", {{"num_bins", ConfigOf(1000)}}), "x");
    added->add_columns("id");
    added->add_columns("zone");
    return spec;
  };
  v1::DataSpec data;
  *data.mutable_train() = spec_of("t.csv", "12,7\nn/a,8\n");
  *data.mutable_validation() = spec_of("v.csv", "12,7\n13,8\n");
  REQUIRE(ResolveVocabularies(&data, {}).ok());
  CHECK(Config(data.train().transforms(0).transform_class()).Strings("integer_columns") ==
        std::vector<std::string>{"zone"});
  const auto train = Dataset::Open(data.train());
  const auto validation = Dataset::Open(data.validation());
  REQUIRE(testing::Message(train.status()) == "");
  REQUIRE(testing::Message(validation.status()) == "");
  CHECK(All<int64_t>(**train, "x")[0] == All<int64_t>(**validation, "x")[0]);
  data.mutable_train()->Swap(data.mutable_validation());
  data.mutable_train()->mutable_transforms(0)->mutable_transform_class()->mutable_config()->erase(
      "integer_columns");
  data.mutable_validation()->mutable_transforms(0)->CopyFrom(data.train().transforms(0));
  REQUIRE(ResolveVocabularies(&data, {}).ok());
  CHECK(Contains(testing::Message(Dataset::Open(data.validation()).status()),
                 "column \"id\" counts as integers, as it does in the training rows, and \"n/a\""));
}

TEST_CASE("images stay bytes and are scaled when they are gathered") {
  testing::TestDirectory dir;
  std::string pixels;
  for (int i = 0; i < 24; ++i) pixels.push_back(static_cast<char>(i * 10));
  const std::string images = dir.Write("i.gz", testing::Gzip(Idx(0x08, {4, 2, 3}, pixels)));
  const std::string labels = dir.Write("l", Idx(0x08, {4}, std::string("\x00\x01\x02\x09", 4)));
  v1::DatasetSpec spec = IdxSpec(images, labels);
  const auto raw = Dataset::Open(spec);
  REQUIRE(raw.ok());
  CHECK(All<uint8_t>(**raw, "image")[23] == 230);
  CHECK(All<int64_t>(**raw, "label") == std::vector<int64_t>{0, 1, 2, 9});
  spec.set_skip(1);
  spec.set_take(2);
  AddTransform(&spec, "image", Scaled(0.00392156862745098));
  const auto scaled = Dataset::Open(spec);
  REQUIRE(scaled.ok());
  const auto values = All<float>(**scaled, "image");
  REQUIRE(values.size() == 12);
  CHECK(values[0] == 60.0F * 0.00392156862745098F);
  CHECK(All<int64_t>(**scaled, "label") == std::vector<int64_t>{1, 2});
  const std::string short_labels = dir.Write("s", Idx(0x08, {3}, "abc"));
  CHECK(Contains(testing::Message(Dataset::Open(IdxSpec(images, short_labels)).status()),
                 "has 4 records"));
}

TEST_CASE("batches reuse the memory that nobody else holds") {
  const auto dataset = Dataset::Open(Recommender());
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

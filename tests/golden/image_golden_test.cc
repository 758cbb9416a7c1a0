// Compares transforms of images, decoded files and folders with the real Keras
// (make_image_golden.py).
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/data/data_test_arrays.h"
#include "common/data/data_test_specs.h"
#include "common/data/dataset.h"
#include "common/data/images/decode_image.h"
#include "common/testing/status_test_util.h"
#include "tests/golden/golden_data.h"

namespace cohort::golden {
namespace {

using nlohmann::json;

const json& Golden() {
  static const json golden = [] {
    const char* source = std::getenv("COHORT_SOURCE_DIR");
    std::ifstream in(std::string(source == nullptr ? "." : source) + "/tests/golden/images.json");
    REQUIRE(in.good());
    return json::parse(in);
  }();
  return golden;
}

v1::ConfigValue ArgumentOf(const json& value) {
  if (value.is_boolean()) return ConfigOf(value.get<bool>());
  if (value.is_number_integer()) return ConfigOf(value.get<int64_t>());
  if (value.is_number()) return ConfigOf(value.get<double>());
  if (value.is_string()) return ConfigOf(std::string_view(value.get_ref<const std::string&>()));
  v1::ConfigValue list;
  for (const json& item : value) *list.mutable_list()->add_values() = ArgumentOf(item);
  return list;
}

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t at = 0; at < hex.size(); at += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(at, 2), nullptr, 16)));
  }
  return bytes;
}

// The first column of one record, as float64.
std::vector<double> FirstRecord(const v1::DatasetSpec& spec, bool training, Dims* dims) {
  const auto dataset = Dataset::Open(spec);
  INFO(dataset.status());
  REQUIRE(dataset.ok());
  std::vector<Tensor> batch;
  const std::vector<uint64_t> indices = {0};
  const std::vector<int> features = {0};
  REQUIRE((*dataset)->Gather(indices, features, {.training = training}, &batch).ok());
  REQUIRE((batch[0].dtype() == DType::kFloat32 || batch[0].dtype() == DType::kUint8));
  dims->assign(batch[0].dims().begin() + 1, batch[0].dims().end());
  std::vector<double> values;
  for (int64_t i = 0; i < batch[0].num_elements(); ++i) {
    const auto at = static_cast<size_t>(i);
    values.push_back(batch[0].dtype() == DType::kUint8 ? batch[0].values<uint8_t>()[at]
                                                       : batch[0].values<float>()[at]);
  }
  return values;
}

double LargestDifference(const std::vector<double>& a, const json& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(a[i] - b[i].get<double>()));
  }
  return largest;
}

TEST_CASE("transforms of images compute what Keras' layers compute") {
  CHECK(Golden()["transforms"].size() > 40);
  for (const json& c : Golden()["transforms"]) {
    INFO(c["class_name"] << " " << c["config"] << " of " << c["shape"]);
    const Dims shape = c["shape"].get<std::vector<int64_t>>();
    const Tensor image = IntegerTensor(c["seed"].get<uint64_t>(), shape, 256);
    std::string bytes;
    for (const int64_t value : image.values<int64_t>()) bytes.push_back(static_cast<char>(value));
    const testing::TestDirectory directory;
    Dims array = shape;
    array.insert(array.begin(), 1);
    v1::DatasetSpec spec =
        testing::NpySpec({directory.Write("image.npy", testing::Npy("|u1", array, bytes))});
    v1::ClassConfig transform = ClassOf(c["class_name"].get<std::string>());
    for (const auto& [name, value] : c["config"].items()) {
      (*transform.mutable_config())[name] = ArgumentOf(value);
    }
    testing::AddTransform(&spec, "image", transform);
    Dims dims;
    const std::vector<double> values = FirstRecord(spec, c["training"].get<bool>(), &dims);
    CHECK(dims == c["out"].get<std::vector<int64_t>>());
    CHECK(LargestDifference(values, c["values"]) < 2e-3);
  }
}

TEST_CASE("images are decoded as tf.io.decode_image decodes them") {
  CHECK(Golden()["decoded"].size() == 9);
  for (const json& c : Golden()["decoded"]) {
    const std::string bytes = FromHex(c["bytes"].get<std::string>());
    for (const auto& [channels, expected] : c["decoded"].items()) {
      INFO(c["name"] << ", channels " << channels);
      Image image;
      REQUIRE(testing::Message(DecodeImage(bytes, std::stoi(channels), &image)) == "");
      CHECK(std::vector<int64_t>{image.shape.height, image.shape.width, image.shape.channels} ==
            expected["shape"].get<std::vector<int64_t>>());
      const std::vector<double> pixels(image.pixels.begin(), image.pixels.end());
      CHECK(LargestDifference(pixels, expected["values"]) <= 1);
    }
  }
}

TEST_CASE("a folder has the files, labels and subsets of image_dataset_from_directory") {
  const json& golden = Golden()["folder"];
  const testing::TestDirectory directory;
  const std::string png = FromHex(Golden()["decoded"][3]["bytes"].get<std::string>());
  for (const json& name : golden["names"]) {
    const std::filesystem::path path = directory / name.get<std::string>();
    std::filesystem::create_directories(path.parent_path());
    testing::WriteAllBytes(path, png);
  }
  const auto labels =
      [&](std::initializer_list<std::pair<std::string_view, v1::ConfigValue>> more) {
        v1::DatasetSpec spec;
        *spec.mutable_source_class() =
            ClassOf("image_folder", {{"directory", ConfigOf(std::string_view(directory.path()))}});
        for (const auto& [key, value] : more) {
          (*spec.mutable_source_class()->mutable_config())[std::string(key)] = value;
        }
        const auto dataset = Dataset::Open(spec);
        INFO(dataset.status());
        REQUIRE(dataset.ok());
        std::vector<uint64_t> all((*dataset)->num_records());
        for (uint64_t i = 0; i < all.size(); ++i) all[i] = i;
        std::vector<Tensor> batch;
        const std::vector<int> features = {1};
        REQUIRE((*dataset)->Gather(all, features, &batch).ok());
        const auto values = batch[0].values<int64_t>();
        return std::vector<int64_t>(values.begin(), values.end());
      };
  CHECK(labels({}) == golden["labels"].get<std::vector<int64_t>>());
  for (const auto& [subset, paths] : golden["split"].items()) {
    std::vector<int64_t> expected;
    for (const json& path : paths) expected.push_back(path.get<std::string>()[0] - 'a');
    CHECK(labels({{"validation_split", ConfigOf(0.4)},
                  {"subset", ConfigOf(std::string_view(subset))},
                  {"seed", ConfigOf(int64_t{123})}}) == expected);
  }
}

}  // namespace
}  // namespace cohort::golden

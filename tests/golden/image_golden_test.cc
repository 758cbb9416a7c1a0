// Compares transforms of images, decoded files and folders with the real Keras
// (make_image_golden.py).
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "common/data/data_test_arrays.h"
#include "common/data/data_test_specs.h"
#include "common/data/dataset.h"
#include "common/data/images/decode_image.h"
#include "common/data/images/displace.h"
#include "common/data/images/mix.h"
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

// The numbers of a case's images, as float32.
std::vector<float> PixelsOf(const json& c) {
  const Tensor image =
      IntegerTensor(c["seed"].get<uint64_t>(), c["shape"].get<std::vector<int64_t>>(), 256);
  const auto values = image.values<int64_t>();
  return {values.begin(), values.end()};
}

ImageShape ShapeOf(const json& c) {
  const auto dims = c["shape"].get<std::vector<int64_t>>();
  return {dims[dims.size() - 3], dims[dims.size() - 2], dims[dims.size() - 1]};
}

double LargestDifference(const std::vector<float>& a, const json& b) {
  return LargestDifference(std::vector<double>(a.begin(), a.end()), b);
}

FourPoints PointsOf(const json& points) {
  FourPoints result;
  std::copy_n(points.get<std::vector<double>>().begin(), result.size(), result.begin());
  return result;
}

TEST_CASE("a perspective has the pixels of keras.ops.image.perspective_transform") {
  CHECK(Golden()["perspectives"].size() == 3);
  for (const json& c : Golden()["perspectives"]) {
    INFO(c["end"]);
    const std::vector<float> pixels = PixelsOf(c);
    std::vector<float> out(pixels.size());
    AffineTransform(
        pixels.data(), ShapeOf(c), PerspectiveMatrix(PointsOf(c["start"]), PointsOf(c["end"])),
        {FillMode::kConstant, 7.5F, InterpolationOf(c["interpolation"].get<std::string>())},
        out.data());
    CHECK(LargestDifference(out, c["values"]) < 2e-2);
  }
}

TEST_CASE("displaced images have the pixels of keras.ops.image.map_coordinates") {
  CHECK(Golden()["displaced"].size() == 8);
  for (const json& c : Golden()["displaced"]) {
    INFO(c["fill_mode"] << " " << c["interpolation"]);
    const std::vector<float> pixels = PixelsOf(c);
    std::vector<float> out(pixels.size());
    DisplaceImage(pixels.data(), ShapeOf(c), c["down"].get<std::vector<float>>().data(),
                  c["right"].get<std::vector<float>>().data(),
                  {FillModeOf(c["fill_mode"].get<std::string>()), 7.5F,
                   InterpolationOf(c["interpolation"].get<std::string>())},
                  out.data());
    CHECK(LargestDifference(out, c["values"]) < 2e-2);
  }
}

TEST_CASE("images and labels are mixed as MixUp and CutMix of Keras mix them") {
  const json& c = Golden()["mixes"];
  const std::vector<float> images = PixelsOf(c);
  const std::vector<float> labels = c["labels"].get<std::vector<float>>();
  const ImageShape shape = ShapeOf(c);
  const size_t classes = labels.size() / 4;
  BatchMix mix = {.partners = c["partners"].get<std::vector<size_t>>(),
                  .weights = c["MixUp"]["weights"].get<std::vector<float>>()};
  std::vector<float> mixed(images.size()), mixed_labels(labels.size());
  BlendRecords(mix, images.data(), shape.elements(), mixed.data());
  BlendRecords(mix, labels.data(), classes, mixed_labels.data());
  CHECK(LargestDifference(mixed, c["MixUp"]["images"]) < 1e-3);
  CHECK(LargestDifference(mixed_labels, c["MixUp"]["labels"]) < 1e-4);
  const auto boxes = c["CutMix"]["boxes"].get<std::vector<float>>();
  for (size_t i = 0; i < boxes.size(); i += 4) {
    mix.boxes.push_back({boxes[i], boxes[i + 1], boxes[i + 2], boxes[i + 3]});
  }
  mix.weights = c["CutMix"]["weights"].get<std::vector<float>>();
  PasteBoxes(mix, reinterpret_cast<const std::byte*>(images.data()), shape,
             static_cast<size_t>(shape.channels) * sizeof(float),
             reinterpret_cast<std::byte*>(mixed.data()));
  BlendRecords(mix, labels.data(), classes, mixed_labels.data());
  CHECK(LargestDifference(mixed, c["CutMix"]["images"]) < 1e-3);
  CHECK(LargestDifference(mixed_labels, c["CutMix"]["labels"]) < 1e-3);
}

TEST_CASE("RandAugment chooses among the layers of Keras' RandAugment") {
  const json& c = Golden()["augmented"];
  constexpr uint64_t kRecords = 60;
  std::string bytes;
  for (uint64_t i = 0; i < kRecords; ++i) {
    for (const float pixel : PixelsOf(c)) bytes.push_back(static_cast<char>(pixel));
  }
  Dims dims = c["shape"].get<std::vector<int64_t>>();
  dims.insert(dims.begin(), kRecords);
  const testing::TestDirectory directory;
  v1::DatasetSpec spec =
      testing::NpySpec({directory.Write("image.npy", testing::Npy("|u1", dims, bytes))});
  testing::AddTransform(
      &spec, "image",
      ClassOf("RandAugment", {{"factor", ConfigOf(0.0)}, {"num_ops", ConfigOf(1)}}));
  const auto dataset = Dataset::Open(spec);
  INFO(dataset.status());
  REQUIRE(dataset.ok());
  std::vector<uint64_t> all(kRecords);
  for (uint64_t i = 0; i < kRecords; ++i) all[i] = i;
  const std::vector<int> features = {0};
  std::vector<Tensor> batch;
  REQUIRE((*dataset)->Gather(all, features, {.training = true, .random_key = 3}, &batch).ok());
  const auto values = batch[0].values<float>();
  const size_t size = values.size() / kRecords;
  std::set<size_t> seen;
  for (size_t record = 0; record < kRecords; ++record) {
    const std::vector<float> image(values.begin() + static_cast<ptrdiff_t>(record * size),
                                   values.begin() + static_cast<ptrdiff_t>((record + 1) * size));
    size_t found = 0;
    while (found < c["outs"].size() &&
           LargestDifference(image, c["outs"][found]["values"]) > 2e-3) {
      ++found;
    }
    CHECK(found < c["outs"].size());
    seen.insert(found);
  }
  CHECK(seen.size() == 6);  // no change, and five that are not random
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

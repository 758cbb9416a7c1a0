// What a transform of images does at random: when, from which numbers, and alike with any number of
// threads. tests/golden/image_golden_test.cc compares what it computes with Keras.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "common/base/thread_pool.h"
#include "common/data/convert.h"
#include "common/data/data_test_arrays.h"
#include "common/data/data_test_images.h"
#include "common/data/dataset.h"
#include "common/data/transform_class.h"
#include "common/testing/status_test_util.h"

namespace cohort {
namespace {

using testing::AddTransform;
using testing::Contains;
using testing::Message;

constexpr uint64_t kRecords = 40;

// Records of [6, 5, 1] with the numbers 0 to 29, and a transform.
class Images {
 public:
  explicit Images(v1::ClassConfig transform) {
    std::string bytes;
    for (uint64_t i = 0; i < kRecords; ++i) {
      for (char pixel = 0; pixel < 30; ++pixel) bytes.push_back(pixel);
    }
    spec_ = testing::NpySpec(
        {directory_.Write("x.npy", testing::Npy("|u1", {kRecords, 6, 5, 1}, bytes))});
    AddTransform(&spec_, "x", std::move(transform));
    AddTransform(&spec_, "x", ClassOf("Cast", {{"dtype", ConfigOf(std::string_view("float32"))}}));
  }

  std::vector<std::vector<float>> Gather(const Dataset::GatherOptions& options) const {
    const auto dataset = Dataset::Open(spec_);
    INFO(dataset.status());
    REQUIRE(dataset.ok());
    std::vector<uint64_t> all(kRecords);
    std::iota(all.begin(), all.end(), uint64_t{0});
    const std::vector<int> features = {0};
    std::vector<Tensor> batch;
    REQUIRE((*dataset)->Gather(all, features, options, &batch).ok());
    const auto values = batch[0].values<float>();
    const size_t size = values.size() / kRecords;
    std::vector<std::vector<float>> images;
    for (size_t at = 0; at < values.size(); at += size) {
      images.emplace_back(values.begin() + static_cast<ptrdiff_t>(at),
                          values.begin() + static_cast<ptrdiff_t>(at + size));
    }
    return images;
  }
  std::string Error() const { return Message(Dataset::Open(spec_).status()); }

 private:
  const testing::TestDirectory directory_;
  v1::DatasetSpec spec_;
};

std::vector<float> Original() {
  std::vector<float> image(30);
  std::iota(image.begin(), image.end(), 0.0F);
  return image;
}

TEST_CASE("half of the images are flipped in training, none in evaluation") {
  const Images images(ClassOf("RandomFlip", {{"mode", ConfigOf(std::string_view("horizontal"))}}));
  std::vector<float> flipped;
  for (int row = 0; row < 6; ++row) {
    for (int column = 4; column >= 0; --column) {
      flipped.push_back(static_cast<float>(5 * row + column));
    }
  }
  for (const auto& image : images.Gather({})) CHECK(image == Original());
  size_t flips = 0;
  for (const auto& image : images.Gather({.training = true, .random_key = 7})) {
    CHECK((image == flipped || image == Original()));
    flips += image == flipped ? 1 : 0;
  }
  CHECK(flips > kRecords / 4);
  CHECK(flips < kRecords * 3 / 4);
  const Images both(ClassOf("RandomFlip"));
  std::vector<float> turned = Original();
  std::reverse(turned.begin(), turned.end());
  for (const auto& image : both.Gather({.training = true, .random_key = 7})) {
    CHECK((image == turned || image == Original()));
  }
}

TEST_CASE("random crops lie anywhere within the image") {
  const Images images(
      ClassOf("RandomCrop", {{"height", ConfigOf(int64_t{5})}, {"width", ConfigOf(int64_t{4})}}));
  std::set<float> corners;
  for (const auto& image : images.Gather({.training = true, .random_key = 7})) {
    corners.insert(image[0]);
    for (size_t row = 0; row < 5; ++row) {
      CHECK(image[4 * row + 3] == image[0] + 5 * static_cast<float>(row) + 3);
    }
  }
  CHECK(corners == std::set<float>{0, 1, 5, 6});
  CHECK(images.Gather({})[0].size() == 20);
}

TEST_CASE("random numbers depend on the key, the record, the seed and the transform alone") {
  const auto [name, arguments] = GENERATE(table<const char*, std::vector<const char*>>(
      {{"RandomRotation", {"factor"}},
       {"RandomZoom", {"height_factor"}},
       {"RandomTranslation", {"height_factor", "width_factor"}},
       {"RandomBrightness", {"factor"}},
       {"RandomContrast", {"factor"}},
       {"RandomErasing", {}},
       {"RandomSharpness", {"factor"}},
       {"RandomColorJitter", {"brightness_factor", "contrast_factor"}}}));
  {
    INFO(name);
    v1::ClassConfig transform = ClassOf(name);
    for (const char* argument : arguments) {
      (*transform.mutable_config())[argument] = ConfigOf(0.4);
    }
    const auto with_seed = [&](int64_t seed) {
      v1::ClassConfig seeded = transform;
      (*seeded.mutable_config())["seed"] = ConfigOf(seed);
      return Images(seeded).Gather({.training = true, .random_key = 7});
    };
    const Images images(transform);
    const auto drawn = images.Gather({.training = true, .random_key = 7});
    CHECK(drawn == images.Gather({.training = true, .random_key = 7}));
    CHECK(drawn != images.Gather({.training = true, .random_key = 8}));
    CHECK(drawn == with_seed(0));
    CHECK(drawn != with_seed(1));
    // Each record has its own, but an image may be all white.
    CHECK(std::set(drawn.begin(), drawn.end()).size() > kRecords / 2);
    for (const auto& image : images.Gather({})) CHECK(image == Original());
  }
}

TEST_CASE("a share of the images is changed, and the others stay as they are") {
  const Images images(
      ClassOf("RandomErasing", {{"factor", ConfigOf(std::vector<double>{0.5, 0.5})},
                                {"scale", ConfigOf(std::vector<double>{0.25, 0.25})},
                                {"fill_value", ConfigOf(std::vector<double>{200})}}));
  size_t erased = 0;
  for (const auto& image : images.Gather({.training = true, .random_key = 7})) {
    const auto filled = std::count(image.begin(), image.end(), 200.0F);
    // Half of 6 rows, and 2 or 3 of 5 columns.
    CHECK((filled == 0 || filled == 6 || filled == 9));
    if (filled == 0) CHECK(image == Original());
    erased += filled > 0 ? 1 : 0;
  }
  CHECK(erased > kRecords / 4);
  CHECK(erased < kRecords * 3 / 4);
  CHECK(Contains(Images(ClassOf("RandomHue", {{"factor", ConfigOf(0.5)}})).Error(),
                 "the images have 1 channels, and this transform needs red, green and blue"));
}

// Images of [6, 5, 1], whose pixels are different in each record, with masks of the same numbers
// and labels of three classes. A record is `number` times 30 and more.
class Labeled {
 public:
  Labeled() {
    std::string images, labels;
    for (uint64_t i = 0; i < kPictures; ++i) {
      for (uint64_t pixel = 0; pixel < 30; ++pixel) {
        images.push_back(static_cast<char>(30 * i + pixel));
      }
      for (uint64_t c = 0; c < 3; ++c) labels.push_back(c == i % 3 ? 1 : 0);
    }
    spec = testing::NpySpec(
        {directory_.Write("x.npy", testing::Npy("|u1", {kPictures, 6, 5, 1}, images)),
         directory_.Write("mask.npy", testing::Npy("|u1", {kPictures, 6, 5}, images)),
         directory_.Write("label.npy", testing::Npy("|u1", {kPictures, 3}, labels))});
  }

  v1::ColumnTransform* Add(v1::ClassConfig transform) {
    return AddTransform(&spec, "x", std::move(transform));
  }
  absl::Status Open() const { return Dataset::Open(spec).status(); }
  // The columns of records `indices`, as float32.
  std::vector<std::vector<float>> Gather(const std::vector<uint64_t>& indices,
                                         const Dataset::GatherOptions& options) const {
    const auto dataset = Dataset::Open(spec);
    INFO(dataset.status());
    REQUIRE(dataset.ok());
    const std::vector<std::string> names = {"x", "mask", "label"};
    const auto features = (*dataset)->FindFeatures(names);
    REQUIRE(features.ok());
    std::vector<Tensor> batch;
    const absl::Status gathered = (*dataset)->Gather(indices, *features, options, &batch);
    REQUIRE(Message(gathered) == "");
    std::vector<std::vector<float>> columns;
    for (const Tensor& tensor : batch) {
      const auto count = static_cast<size_t>(tensor.num_elements());
      std::vector<float>& column = columns.emplace_back(count);
      ConvertNumbers(tensor.dtype(), tensor.raw(), DType::kFloat32, column.data(), count);
    }
    return columns;
  }

  static constexpr uint64_t kPictures = 8;
  v1::DatasetSpec spec;

 private:
  const testing::TestDirectory directory_;
};

std::vector<uint64_t> AllPictures() {
  std::vector<uint64_t> all(Labeled::kPictures);
  std::iota(all.begin(), all.end(), uint64_t{0});
  return all;
}

TEST_CASE("masks move with their images, and keep their classes") {
  const auto [name, arguments] = GENERATE(table<const char*, std::vector<const char*>>(
      {{"RandomFlip", {}},
       {"RandomRotation", {"factor"}},
       {"RandomZoom", {"height_factor"}},
       {"RandomTranslation", {"height_factor", "width_factor"}},
       {"RandomShear", {"x_factor", "y_factor"}},
       {"RandomPerspective", {"scale"}},
       {"RandomBrightness", {"factor"}}}));
  INFO(name);
  v1::ClassConfig transform = ClassOf(name);
  for (const char* argument : arguments) {
    (*transform.mutable_config())[argument] = ConfigOf(0.4);
  }
  // Nearest for the images too, so that both can be compared.
  const ClassSchema& schema = (*Transforms().Find(name))->schema;
  if (schema.Find("interpolation") != nullptr) {
    (*transform.mutable_config())["interpolation"] = ConfigOf("nearest");
  }
  Labeled data;
  data.Add(transform)->set_segmentation_masks("mask");
  const auto trained = data.Gather(AllPictures(), {.training = true, .random_key = 11});
  const auto plain = data.Gather(AllPictures(), {});
  CHECK(plain[0] == plain[1]);
  CHECK(trained[0] != plain[0]);
  if (std::string_view(name) == "RandomBrightness") {
    CHECK(trained[1] == plain[1]);
  } else {
    CHECK(trained[0] == trained[1]);
  }
  const auto dataset = Dataset::Open(data.spec);
  CHECK((*dataset)->features()[1].dtype == DType::kUint8);
}

TEST_CASE("an elastic transform moves masks with their images, by place") {
  constexpr int64_t kSide = 48;
  std::string pixels;
  for (int64_t i = 0; i < 3 * kSide * kSide; ++i) pixels.push_back(static_cast<char>(i % 251));
  const testing::TestDirectory directory;
  v1::DatasetSpec spec = testing::NpySpec(
      {directory.Write("x.npy", testing::Npy("|u1", {3, kSide, kSide, 1}, pixels)),
       directory.Write("mask.npy", testing::Npy("|u1", {3, kSide, kSide}, pixels))});
  const std::vector<double> always = {1, 1};
  AddTransform(&spec, "x",
               ClassOf("RandomElasticTransform", {{"factor", ConfigOf(always)},
                                                  {"scale", ConfigOf(always)},
                                                  {"interpolation", ConfigOf("nearest")}}))
      ->set_segmentation_masks("mask");
  const auto dataset = Dataset::Open(spec);
  INFO(dataset.status());
  REQUIRE(dataset.ok());
  const auto gather = [&](uint64_t key) {
    const std::vector<uint64_t> indices = {0, 1, 2};
    const std::vector<int> features = {0, 1};
    std::vector<Tensor> batch;
    REQUIRE(
        (*dataset)->Gather(indices, features, {.training = true, .random_key = key}, &batch).ok());
    const auto images = batch[0].values<float>();
    const auto masks = batch[1].values<uint8_t>();
    CHECK(std::equal(images.begin(), images.end(), masks.begin(), masks.end(),
                     [](float image, uint8_t mask) { return image == static_cast<float>(mask); }));
    return std::string(reinterpret_cast<const char*>(masks.data()), masks.size());
  };
  const std::string moved = gather(5);
  CHECK(moved != pixels);
  CHECK(moved == gather(5));
  CHECK(moved != gather(6));
}

TEST_CASE("what a crop cuts off, and what augmentations move, is the same for masks") {
  Labeled data;
  data.Add(ClassOf("RandomCrop", {{"height", ConfigOf(4)}, {"width", ConfigOf(3)}}))
      ->set_segmentation_masks("mask");
  const auto cropped = data.Gather(AllPictures(), {.training = true, .random_key = 11});
  CHECK(cropped[0].size() == 8 * 12);
  CHECK(cropped[0] == cropped[1]);
}

TEST_CASE("a label that would be left behind is refused") {
  const auto refused = [](const char* name, const char* argument, const char* label) {
    Labeled data;
    v1::ClassConfig transform = ClassOf(name);
    if (*argument != '\0') (*transform.mutable_config())[argument] = ConfigOf(0.3);
    data.Add(transform);
    data.spec.set_label(label);
    return Message(data.Open());
  };
  CHECK(Contains(refused("RandomFlip", "", "mask"),
                 "RandomFlip moves the images, and the label \"mask\" would stay as it is: write "
                 "`{column: x, segmentation_masks: mask, RandomFlip: ...}`"));
  CHECK(Contains(refused("MixUp", "", "label"),
                 "MixUp mixes the images, and the label \"label\" would stay as it is: write "
                 "`{column: x, labels: label, MixUp: ...}`"));
  CHECK(refused("RandomFlip", "", "label") == "");
  CHECK(refused("RandomBrightness", "factor", "mask") == "");
  // A label that is made of the flipped image follows it.
  Labeled data;
  data.Add(ClassOf("RandomFlip"));
  AddTransform(&data.spec, "x", ClassOf("Cast"), "target");
  data.spec.set_label("target");
  CHECK(Message(data.Open()) == "");
}

TEST_CASE("keys that a class has no use for, and masks that do not fit, are refused") {
  const auto error = [](const char* name, const char* masks, const char* labels) {
    Labeled data;
    v1::ColumnTransform* const transform = data.Add(ClassOf(name));
    transform->set_segmentation_masks(masks);
    transform->set_labels(labels);
    return Message(data.Open());
  };
  CHECK(Contains(error("RandomFlip", "", "label"), "RandomFlip changes no labels"));
  CHECK(Contains(error("Cast", "mask", ""), "Cast is no transform of images"));
  CHECK(Contains(error("RandomFlip", "nothing", ""), "there is no column \"nothing\""));
  CHECK(Contains(error("RandomFlip", "label", ""), "segmentation_masks: label: column \"label\""));
  CHECK(Contains(error("MixUp", "mask", ""), "the masks \"mask\" have integers"));
}

TEST_CASE("MixUp blends pairs of a batch with their labels, by place") {
  Labeled data;
  data.Add(ClassOf("MixUp", {{"alpha", ConfigOf(1.0)}}))->set_labels("label");
  data.spec.set_label("label");
  const auto plain = data.Gather(AllPictures(), {});
  const auto mixed = data.Gather(AllPictures(), {.training = true, .random_key = 11});
  CHECK(mixed == data.Gather(AllPictures(), {.training = true, .random_key = 11}));
  CHECK(mixed != data.Gather(AllPictures(), {.training = true, .random_key = 12}));
  ThreadPool helpers(4);
  CHECK(mixed ==
        data.Gather(AllPictures(), {.training = true, .random_key = 11, .helpers = &helpers}));
  CHECK(mixed[0] != plain[0]);
  CHECK(mixed[1] == plain[1]);
  for (size_t record = 0; record < Labeled::kPictures; ++record) {
    // The first pixel tells the partner's share if the weight is that of the label.
    const float* const label = &mixed[2][3 * record];
    CHECK(label[0] + label[1] + label[2] == Approx(1));
    const float own = mixed[0][30 * record] / 30;
    CHECK(mixed[0][30 * record + 7] == Approx(mixed[0][30 * record] + 7));
    CHECK(own >= 0);
    CHECK(own <= Labeled::kPictures - 1);
  }
  // The same records in another batch: another partner, the same draws by the first record.
  const auto pair = data.Gather({0, 1}, {.training = true, .random_key = 11});
  const float weight = pair[2][0];
  CHECK(pair[0][0] == Approx(weight * 0 + (1 - weight) * 30).margin(1e-3));
}

TEST_CASE("CutMix replaces a rectangle, and transforms before and after it work") {
  Labeled data;
  data.Add(ClassOf("RandomFlip"))->set_segmentation_masks("mask");
  v1::ColumnTransform* const cut = data.Add(ClassOf("CutMix"));
  cut->set_segmentation_masks("mask");
  cut->set_labels("label");
  data.Add(testing::Scaled(2));
  data.spec.set_label("label");
  const auto mixed = data.Gather(AllPictures(), {.training = true, .random_key = 11});
  std::vector<float> doubled = mixed[1];
  for (float& x : doubled) x *= 2;
  CHECK(mixed[0] == doubled);
  size_t changed = 0;
  for (size_t record = 0; record < Labeled::kPictures; ++record) {
    std::set<int> pictures;
    size_t own = 0;
    for (size_t pixel = 0; pixel < 30; ++pixel) {
      const auto picture = static_cast<size_t>(mixed[1][30 * record + pixel] / 30);
      pictures.insert(static_cast<int>(picture));
      own += picture == record ? 1 : 0;
    }
    CHECK(pictures.size() <= 2);
    changed += own < 30 ? 1 : 0;
  }
  CHECK(changed > 1);
  CHECK(data.Gather(AllPictures(), {})[2] == Labeled().Gather(AllPictures(), {})[2]);
}

TEST_CASE("integers that stand for classes cannot be blended") {
  const testing::TestDirectory directory;
  v1::DatasetSpec spec =
      testing::NpySpec({directory.Write("x.npy", testing::Npy("|u1", {2, 2, 2, 1}, "abcdefgh")),
                        directory.Write("label.npy", testing::Npy("|u1", {2}, "\1\2"))});
  AddTransform(&spec, "x", ClassOf("MixUp"))->set_labels("label");
  CHECK(Contains(Message(Dataset::Open(spec).status()),
                 "labels: label: \"label\" has integers, and the labels of two records can be "
                 "blended only as vectors: give it CategoryEncoding"));
}

TEST_CASE("transforms of columns that are no images, or with other arguments, are refused") {
  const auto error = [](v1::ClassConfig transform) { return Images(std::move(transform)).Error(); };
  CHECK(
      Contains(error(ClassOf("Reshape", {{"target_shape", ConfigOf(std::vector<int64_t>{7, -1})}})),
               "[6, 5, 1] cannot become [7, -1]"));
  CHECK(error(ClassOf("Reshape", {{"target_shape", ConfigOf(std::vector<int64_t>{3, -1})}})) == "");
  CHECK(Contains(error(ClassOf("RandomZoom", {{"height_factor", ConfigOf(-1.5)}})),
                 "height_factor must be in [-1, 1]"));
  CHECK(Contains(error(ClassOf("RandomZoom", {{"height_factor", ConfigOf(1.0)}})),
                 "height_factor must be above -1"));
  const testing::TestDirectory directory;
  v1::DatasetSpec spec =
      testing::NpySpec({directory.Write("x.npy", testing::Npy("|u1", {2}, "ab"))});
  AddTransform(&spec, "x", ClassOf("RandomFlip"));
  CHECK(Contains(Message(Dataset::Open(spec).status()), "give it a Reshape first"));
}

// The batches of two epochs of a folder of images with random transforms.
std::vector<std::string> ReadEpochs(const v1::DatasetSpec& spec, int threads, uint32_t prefetch) {
  BatchReader::Options options;
  options.features = {0, 1};
  options.batch_size = 4;
  options.prefetch = prefetch;
  options.seed = 5;
  options.training = true;
  options.threads = threads;
  const auto dataset = Dataset::Open(spec);
  REQUIRE(dataset.ok());
  auto reader = BatchReader::Leased(*dataset, spec, options);
  REQUIRE(reader.ok());
  std::vector<std::string> batches;
  BatchReader::Batch batch;
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    for (const uint64_t begin : {0, 4}) {
      (*reader)->Announce(epoch, begin, std::min<uint64_t>(begin + 4, 6));
    }
  }
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    for (const uint64_t begin : {0, 4}) {
      REQUIRE((*reader)->Read(epoch, begin, std::min<uint64_t>(begin + 4, 6), &batch).ok());
      const Tensor& image = batch.tensors[0];
      batches.emplace_back(static_cast<const char*>(image.raw()), image.num_bytes());
    }
  }
  return batches;
}

TEST_CASE("a batch is the same with any number of threads, and when it is read again") {
  const testing::TestDirectory directory;
  testing::WriteImageFolder(directory);
  v1::DatasetSpec spec = testing::FolderSpec(directory.path());
  spec.set_shuffle(true);
  AddTransform(&spec, "image", ClassOf("RandomFlip"));
  AddTransform(&spec, "image", ClassOf("RandomRotation", {{"factor", ConfigOf(0.2)}}));
  AddTransform(&spec, "image", testing::Scaled(1 / 255.0));
  const std::vector<std::string> alone = ReadEpochs(spec, 1, 0);
  CHECK(std::set(alone.begin(), alone.end()).size() == 4);  // epochs differ
  for (const int threads : {1, 2, 4}) {
    CHECK(ReadEpochs(spec, threads, 0) == alone);
    CHECK(ReadEpochs(spec, threads, 2) == alone);
  }
}

TEST_CASE("the error of the first corrupt record is returned, whatever the threads") {
  const testing::TestDirectory directory;
  testing::WriteImageFolder(directory);
  testing::WriteBelow(directory, "a/2.png", "x");
  testing::WriteBelow(directory, "b/1.jpg", "y");
  const v1::DatasetSpec spec = testing::FolderSpec(directory.path());
  const auto dataset = Dataset::Open(spec);
  REQUIRE(dataset.ok());
  const std::vector<uint64_t> indices = {0, 1, 4, 3, 2, 5};
  const std::vector<int> features = {0};
  ThreadPool helpers(4);
  for (int round = 0; round < 20; ++round) {
    std::vector<Tensor> batch;
    const absl::Status read = (*dataset)->Gather(indices, features, {.helpers = &helpers}, &batch);
    CHECK(Contains(Message(read), "record 4"));
  }
}

}  // namespace
}  // namespace cohort

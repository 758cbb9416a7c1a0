// What a transform of images does at random: when, from which numbers, and alike with any number of
// threads. tests/golden/image_golden_test.cc compares what it computes with Keras.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "common/base/thread_pool.h"
#include "common/data/data_test_arrays.h"
#include "common/data/data_test_images.h"
#include "common/data/dataset.h"
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
       {"RandomErasing", {}}}));
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

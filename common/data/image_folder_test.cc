#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "common/base/log.h"
#include "common/data/data_test_images.h"
#include "common/data/dataset.h"
#include "common/data/images/decode_image.h"
#include "common/testing/status_test_util.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::Message;

std::shared_ptr<const Dataset> OpenFolder(const v1::DatasetSpec& spec,
                                          const DataOptions& options = {}) {
  auto dataset = Dataset::Open(spec, options);
  INFO(dataset.status());
  REQUIRE(dataset.ok());
  return *dataset;
}

// The image and the label of each record.
std::vector<Tensor> GatherFolder(const Dataset& dataset) {
  std::vector<uint64_t> all(dataset.num_records());
  for (uint64_t i = 0; i < all.size(); ++i) all[i] = i;
  const std::vector<int> features = {0, 1};
  std::vector<Tensor> batch;
  REQUIRE(Message(dataset.Gather(all, features, &batch)) == "");
  return batch;
}

std::vector<int64_t> FolderLabels(const std::vector<Tensor>& batch) {
  const auto labels = batch[1].values<int64_t>();
  return {labels.begin(), labels.end()};
}

TEST_CASE("a folder of images has a label for each sub-directory") {
  const testing::TestDirectory directory;
  testing::WriteImageFolder(directory);
  const auto dataset = OpenFolder(testing::FolderSpec(directory.path()));
  CHECK(dataset->num_records() == 6);
  CHECK(dataset->features()[0].dims == Dims{8, 12, 3});
  const std::vector<Tensor> batch = GatherFolder(*dataset);
  CHECK(FolderLabels(batch) == std::vector<int64_t>{0, 0, 0, 1, 1, 1});
  // The middle of the first image, 20 x 30: (4.5 * 20 / 8 - 0.5, 6.5 * 30 / 12 - 0.5).
  const float* const pixel = batch[0].values<float>().data() + (4 * 12 + 6) * 3;
  CHECK(pixel[0] == Approx(3 * 15.75));
  CHECK(pixel[1] == Approx(2 * 10.75));
  const auto named = OpenFolder(testing::FolderSpec(
      directory.path(), {{"class_names", ConfigOf(std::vector<std::string>{"b", "a"})}}));
  CHECK(FolderLabels(GatherFolder(*named)) == std::vector<int64_t>{0, 0, 0, 1, 1, 1});
  const auto gray = OpenFolder(testing::FolderSpec(
      directory.path(), {{"color_mode", ConfigOf(std::string_view("grayscale"))}}));
  CHECK(gray->features()[0].dims == Dims{8, 12, 1});
}

TEST_CASE("files that are added, removed or changed in size are another fingerprint") {
  const testing::TestDirectory directory;
  testing::WriteImageFolder(directory);
  const v1::DatasetSpec spec = testing::FolderSpec(directory.path());
  const std::string before = OpenFolder(spec)->fingerprint().source();
  CHECK(OpenFolder(spec)->fingerprint().source() == before);
  testing::WriteBelow(directory, "a/0.png", testing::PngOf(9, 9, 1));
  const std::string changed = OpenFolder(spec)->fingerprint().source();
  CHECK(changed != before);
  testing::WriteBelow(directory, "a/3.png", testing::PngOf(9, 9, 1));
  CHECK(OpenFolder(spec)->fingerprint().source() != changed);
}

TEST_CASE("a corrupt image is an error with its path, or is left out and logged") {
  const testing::TestDirectory directory;
  testing::WriteImageFolder(directory);
  const std::string jpeg = testing::JpegOf(40, 40, 1);
  testing::WriteBelow(directory, "a/1.jpg", jpeg.substr(0, jpeg.size() / 2));
  testing::WriteBelow(directory, "b/3.png", "<html>");
  const auto failing = OpenFolder(testing::FolderSpec(directory.path()));
  CHECK(failing->num_records() == 7);
  const std::vector<int> image = {0}, label = {1};
  std::vector<Tensor> batch;
  const std::vector<uint64_t> second = {1}, last = {6};
  const absl::Status cut = failing->Gather(second, image, &batch);
  CHECK(absl::IsDataLoss(cut));
  CHECK(Contains(Message(cut), "source image_folder: record 1: " + directory.path() +
                                   "/a/1.jpg: the JPEG is damaged"));
  CHECK(Contains(Message(failing->Gather(last, image, &batch)),
                 "b/3.png: neither a JPEG nor a PNG starts with \"<html>\""));
  CHECK(failing->Gather(second, label, &batch).ok());  // which decodes no image

  std::string lines;
  LogOptions log_options{.to_stderr = false};
  log_options.sink = [&](std::string_view line) { lines += line; };
  const auto log = Logger::Create(log_options);
  REQUIRE(log.ok());
  const v1::DatasetSpec spec =
      testing::FolderSpec(directory.path(), {{"on_corrupt", ConfigOf(std::string_view("skip"))}});
  for (const int threads : {1, 3}) {
    lines.clear();
    const auto skipping = OpenFolder(spec, {.threads = threads, .log = log->get()});
    CHECK(FolderLabels(GatherFolder(*skipping)) == std::vector<int64_t>{0, 0, 1, 1, 1});
    CHECK(Contains(lines, "corrupt_records_skipped source=image_folder records=7 corrupt=2"));
    CHECK(Contains(lines, "a/1.jpg"));
  }
}

TEST_CASE("mistakes with a folder are errors that name it") {
  const testing::TestDirectory directory;
  const auto error = [&](std::string_view path,
                         std::initializer_list<std::pair<std::string_view, v1::ConfigValue>> more) {
    const auto dataset =
        Dataset::Open(testing::FolderSpec(std::string(path), more), {.data_dir = directory.path()});
    return Message(dataset.status());
  };
  CHECK(Contains(error("none", {{"url", ConfigOf(std::string_view("http://x/y"))}}),
                 directory.path() + "/none does not exist; get it from http://x/y"));
  CHECK(Contains(error(directory.path(), {}), "has no sub-directory, one for each class"));
  testing::WriteBelow(directory, "a/text.txt", "x");
  CHECK(Contains(error(directory.path(), {}), "have no images"));
  testing::WriteBelow(directory, "a/1.gif", "x");
  CHECK(Contains(error(directory.path(), {}), "a/1.gif: BMP and GIF are not supported"));
  CHECK(Contains(
      error(directory.path(), {{"class_names", ConfigOf(std::vector<std::string>{"a", "dog"})}}),
      "has no sub-directory \"dog\" of `class_names`; it has a"));
  CHECK(Contains(error(directory.path(), {{"validation_split", ConfigOf(0.5)}}),
                 "`validation_split` and `subset` need each other"));
  CHECK(Contains(error(directory.path(), {{"validation_split", ConfigOf(0.5)},
                                          {"subset", ConfigOf(std::string_view("training"))}}),
                 "needs a `seed`"));
  CHECK(Contains(error(directory.path(), {{"image_size", ConfigOf(std::vector<int64_t>{1, 2, 3})}}),
                 "image_size must be the height and the width, not 3 numbers"));
}

TEST_CASE("an image that names too many pixels is refused before it is decoded") {
  std::string png = testing::PngOf(4, 4, 0);
  // Width and height, 4 bytes each, begin at byte 16; a checksum follows the header's 13 bytes.
  for (const size_t at : {17, 21}) png[at] = '\x01';
  const auto* header = reinterpret_cast<const Bytef*>(png.data()) + 12;
  const auto crc = static_cast<uint32_t>(crc32(0, header, 17));
  for (size_t i = 0; i < 4; ++i) png[29 + i] = static_cast<char>(crc >> (24 - 8 * i));
  Image image;
  CHECK(Contains(Message(DecodeImage(png, 3, &image)), "65540 x 65540 pixels; at most 100000000"));
  std::string jpeg = testing::JpegOf(16, 16, 0);
  const size_t frame = jpeg.find("\xff\xc0");
  REQUIRE(frame != std::string::npos);
  for (const size_t at : {5, 7}) jpeg[frame + at] = '\xf0';
  CHECK(Contains(Message(DecodeImage(jpeg, 3, &image)), "at most 100000000"));
}

TEST_CASE("an image that names more pixels than its bytes can hold is refused") {
  std::string jpeg = testing::JpegOf(16, 16, 0);
  const size_t frame = jpeg.find("\xff\xc0");
  REQUIRE(frame != std::string::npos);
  jpeg.replace(frame + 5, 4, "\x1f\x40\x1f\x40");
  Image image;
  CHECK(Contains(Message(DecodeImage(jpeg, 3, &image)),
                 fmt::format("8000 x 8000 pixels, too many for its {} bytes", jpeg.size())));
  CHECK(image.pixels.empty());
}

TEST_CASE("what is neither a JPEG nor a PNG is refused at any length") {
  const std::string webp = "RIFF\x10\x20\x30\x40WEBPVP8 ";
  Image image;
  CHECK(Contains(Message(DecodeImage(webp, 3, &image)), "a WebP is neither"));
  for (size_t bytes = 0; bytes < 12; ++bytes) {
    CHECK(Contains(Message(DecodeImage(webp.substr(0, bytes), 3, &image)),
                   bytes == 0 ? "no bytes" : "neither a JPEG nor a PNG starts with"));
  }
}

// The peak memory of a process that decodes an image, in kB.
long PeakMemoryOfDecoding(const std::string& bytes) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    Image image;
    _exit(DecodeImage(bytes, 3, &image).ok() ? 0 : 1);
  }
  int result = 0;
  rusage usage = {};
  REQUIRE(wait4(child, &result, 0, &usage) == child);
  REQUIRE(result == 0);
  return usage.ru_maxrss;
}

TEST_CASE("the texts of a PNG change nothing and are not kept in memory") {
  const std::string plain = testing::PngOf(17, 13, 1);
  const std::string text(4 << 20, 'x');
  std::string compressed(compressBound(text.size()), '\0');
  uLongf size = compressed.size();
  REQUIRE(compress(reinterpret_cast<Bytef*>(compressed.data()), &size,
                   reinterpret_cast<const Bytef*>(text.data()), text.size()) == Z_OK);
  compressed.resize(size);
  std::string with_texts = plain;
  testing::AddPngChunk("tEXtComment" + std::string(1, '\0') + "by hand", &with_texts);
  for (int i = 0; i < 60; ++i) {
    testing::AddPngChunk("zTXtComment" + std::string(2, '\0') + compressed, &with_texts);
  }
  Image expected, image;
  REQUIRE(Message(DecodeImage(plain, 3, &expected)) == "");
  REQUIRE(Message(DecodeImage(with_texts, 3, &image)) == "");
  CHECK(image.shape == expected.shape);
  CHECK(image.pixels == expected.pixels);
  CHECK(PeakMemoryOfDecoding(with_texts) - PeakMemoryOfDecoding(plain) < 100'000);
}

TEST_CASE("a progressive JPEG that takes too much memory is refused") {
  std::string jpeg = testing::JpegOf(16, 16, 0, true);
  Image image;
  CHECK(Message(DecodeImage(jpeg, 3, &image)) == "");
  const size_t frame = jpeg.find("\xff\xc2");
  REQUIRE(frame != std::string::npos);
  const auto error = [&](uint32_t height, uint32_t width) {
    for (const size_t i : {0, 1}) {
      jpeg[frame + 5 + i] = static_cast<char>(height >> (8 - 8 * i));
      jpeg[frame + 7 + i] = static_cast<char>(width >> (8 - 8 * i));
    }
    image.pixels = {};
    // Zeros after the end: a file with fewer bytes would be refused before.
    return Message(DecodeImage(jpeg + std::string(20'000, '\0'), 3, &image));
  };
  CHECK(Contains(error(9984, 9984), "takes more than 256 MB of memory"));
  CHECK(image.pixels.empty());
  // A photograph of this size is read, and this one has not all pixels.
  CHECK(Contains(error(4000, 6000), "premature end"));
}

TEST_CASE("no mutation of an image makes its decoder crash") {
  std::mt19937_64 random(20260608);
  for (const std::string& good : {testing::PngOf(17, 13, 1), testing::JpegOf(17, 13, 1)}) {
    Image image;
    REQUIRE(Message(DecodeImage(good, 3, &image)) == "");
    int refused = 0;
    for (int round = 0; round < 1000; ++round) {
      std::string bytes = good;
      for (uint64_t n = random() % 4; n > 0; --n)
        bytes[random() % bytes.size()] ^= 1 << random() % 8;
      if (random() % 2 == 0) bytes.resize(random() % bytes.size());
      const absl::Status decoded =
          DecodeImage(bytes, static_cast<int>(1 + random() % 2 * 2), &image);
      if (decoded.ok()) continue;
      ++refused;
      CHECK(absl::IsDataLoss(decoded));
    }
    CHECK(refused > 400);
  }
}

}  // namespace
}  // namespace cohort

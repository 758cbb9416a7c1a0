#ifndef COHORT_COMMON_DATA_DATA_TEST_IMAGES_H_
#define COHORT_COMMON_DATA_DATA_TEST_IMAGES_H_

// jpeglib.h needs what cstdio declares.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
// clang-format on
#include <png.h>
#include <zlib.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/crc32c.h"
#include "common/data/data_test_specs.h"
#include "common/testing/directory_test_util.h"
#include "proto/tf_example.pb.h"

// For tests alone.
namespace cohort::testing {

// A smooth RGB image; another `number` is another image.
inline std::string Pixels(int height, int width, int number) {
  std::string pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (const int value : {3 * x + number, 2 * y + 7 * number, x + y}) {
        pixels.push_back(static_cast<char>(value & 0xff));
      }
    }
  }
  return pixels;
}

inline std::string PngOf(int height, int width, int number) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(height);
  image.width = static_cast<png_uint_32>(width);
  image.format = PNG_FORMAT_RGB;
  const std::string pixels = Pixels(height, width, number);
  png_alloc_size_t bytes = 1 << 20;
  std::string out(bytes, '\0');
  REQUIRE(png_image_write_to_memory(&image, out.data(), &bytes, 0, pixels.data(), 0, nullptr) != 0);
  out.resize(bytes);
  return out;
}

inline std::string JpegOf(int height, int width, int number, bool progressive = false) {
  jpeg_compress_struct codec = {};
  jpeg_error_mgr errors = {};
  codec.err = jpeg_std_error(&errors);
  jpeg_create_compress(&codec);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&codec, &memory, &bytes);
  codec.image_height = static_cast<JDIMENSION>(height);
  codec.image_width = static_cast<JDIMENSION>(width);
  codec.input_components = 3;
  codec.in_color_space = JCS_RGB;
  jpeg_set_defaults(&codec);
  jpeg_set_quality(&codec, 95, TRUE);
  if (progressive) jpeg_simple_progression(&codec);
  jpeg_start_compress(&codec, TRUE);
  std::string pixels = Pixels(height, width, number);
  for (int y = 0; y < height; ++y) {
    auto* row = reinterpret_cast<JSAMPROW>(pixels.data() + 3 * width * y);
    jpeg_write_scanlines(&codec, &row, 1);
  }
  jpeg_finish_compress(&codec);
  jpeg_destroy_compress(&codec);
  std::string out(reinterpret_cast<const char*>(memory), bytes);
  std::free(memory);
  return out;
}

// Writes a file whose folder may be missing.
inline std::string WriteBelow(const TestDirectory& directory, const std::string& name,
                              std::string_view bytes) {
  const std::filesystem::path path = directory / name;
  std::filesystem::create_directories(path.parent_path());
  WriteAllBytes(path, bytes);
  return path;
}

// Two classes of three images each: a/0.png, a/1.jpg, ..., b/2.png.
inline void WriteImageFolder(const TestDirectory& directory) {
  for (int i = 0; i < 6; ++i) {
    const std::string name = (i < 3 ? "a/" : "b/") + std::to_string(i % 3);
    const bool png = i % 2 == 0;
    WriteBelow(directory, name + (png ? ".png" : ".jpg"),
               png ? PngOf(20 + i, 30 - i, i) : JpegOf(20 + i, 30 - i, i));
  }
}

inline v1::DatasetSpec FolderSpec(
    const std::string& directory,
    std::initializer_list<std::pair<std::string_view, v1::ConfigValue>> more = {}) {
  v1::DatasetSpec spec;
  v1::ClassConfig* const source = spec.mutable_source_class();
  *source = ClassOf("image_folder", {{"directory", ConfigOf(std::string_view(directory))},
                                     {"image_size", ConfigOf(std::vector<int64_t>{8, 12})}});
  for (const auto& [key, value] : more) (*source->mutable_config())[std::string(key)] = value;
  return spec;
}

// A record of a TFRecord file.
inline std::string TfRecord(std::string_view data) {
  const auto number = [](uint64_t value, size_t bytes) {
    std::string text(bytes, '\0');
    std::memcpy(text.data(), &value, bytes);
    return text;
  };
  const std::string length = number(data.size(), 8);
  return length + number(MaskedCrc32c(length), 4) + std::string(data) +
         number(MaskedCrc32c(data), 4);
}

// Puts a chunk after the header of a PNG.
inline void AddPngChunk(std::string_view type_and_data, std::string* png) {
  const auto number = [](size_t value) {
    std::string text;
    for (const int shift : {24, 16, 8, 0}) text.push_back(static_cast<char>(value >> shift));
    return text;
  };
  const uLong crc = crc32(0, reinterpret_cast<const Bytef*>(type_and_data.data()),
                          static_cast<uInt>(type_and_data.size()));
  constexpr size_t kHeaderEnd = 8 + 12 + 13;
  png->insert(kHeaderEnd,
              number(type_and_data.size() - 4) + std::string(type_and_data) + number(crc));
}

inline std::string TfExampleOf(std::string_view image, int64_t label) {
  v1::TfExample example;
  const auto add = [&](std::string_view name) {
    v1::TfFeatureEntry* const entry = example.mutable_features()->add_feature();
    entry->set_name(std::string(name));
    return entry->mutable_value();
  };
  add("image")->mutable_bytes_list()->add_value(std::string(image));
  add("label")->mutable_int64_list()->add_value(label);
  v1::TfFloatList* const box = add("box")->mutable_float_list();
  box->add_value(0.5F);
  box->add_value(static_cast<float>(label));
  return example.SerializeAsString();
}

inline v1::DatasetSpec TfRecordSpec(const std::vector<std::string>& files,
                                    std::string_view on_corrupt = "fail") {
  v1::ConfigValue features;
  auto& by_name = *features.mutable_object()->mutable_config();
  by_name["image"] =
      ConfigOf(ClassOf("image", {{"image_size", ConfigOf(std::vector<int64_t>{8, 12})}}));
  by_name["label"] = ConfigOf(ClassOf("tensor", {{"dtype", ConfigOf(std::string_view("int64"))}}));
  by_name["box"] = ConfigOf(ClassOf("tensor", {{"shape", ConfigOf(std::vector<int64_t>{2})}}));
  v1::DatasetSpec spec;
  *spec.mutable_source_class() = ClassOf(
      "tfrecord",
      {{"files", ConfigOf(files)}, {"features", features}, {"on_corrupt", ConfigOf(on_corrupt)}});
  return spec;
}

}  // namespace cohort::testing

#endif  // COHORT_COMMON_DATA_DATA_TEST_IMAGES_H_

#include <absl/strings/escaping.h>

#include <nlohmann/json.hpp>

#include "common/data/images/decode_image.h"
#include "tests/fuzz/fuzz_target.h"

namespace cohort::fuzz {
namespace {

absl::Status DecodeImageOf(std::string_view bytes) {
  static Image image;
  return DecodeImage(bytes, 3, &image);
}

// The images that tests/golden/image_golden_test.cc compares with TensorFlow's.
std::vector<std::string> ImageSeeds() {
  const auto golden = nlohmann::json::parse(RepositoryFile("tests/golden/images.json"));
  std::vector<std::string> seeds;
  for (const auto& image : golden["decoded"]) {
    seeds.push_back(absl::HexStringToBytes(image["bytes"].get<std::string>()));
  }
  return seeds;
}

}  // namespace

FuzzTarget ImageTarget() { return {"images", DecodeImageOf, ImageSeeds}; }

}  // namespace cohort::fuzz

#include "common/checkpoint/manifest.h"

#include <fstream>

#include "common/checkpoint/file.h"
#include "proto/checkpoint.pb.h"
#include "tests/fuzz/fuzz_target.h"

namespace cohort::fuzz {
namespace {

// The checksum fits: without that, the manifest is refused before it is decoded.
absl::Status DecodeManifest(std::string_view bytes) {
  static const std::string directory = NewDirectory();
  std::ofstream(directory + "/manifest.json", std::ios::binary) << bytes;
  std::ofstream(directory + "/manifest.json.crc")
      << fmt::format("{:08x} {}\n", Crc32(0, bytes.data(), bytes.size()), bytes.size());
  return ReadManifest(directory).status();
}

std::vector<std::string> ManifestSeeds() {
  return {
      R"({"format_version":1,"timeline":"1","cut":"12","job":"j","layout":{"variables":[{"name":"w",
"dtype":"FLOAT32","dims":["3","2"]}],"tablets":[{}]},"files":[{"name":"ps-0.safetensors","bytes":"9"}],
"chief":{"metrics":[{"name":"loss","accumulators":[{"name":"total","reduction":"REDUCE_SUM","values":[1.5]}]}]}})"};
}

}  // namespace

FuzzTarget ManifestTarget() { return {"manifest", DecodeManifest, ManifestSeeds}; }

}  // namespace cohort::fuzz

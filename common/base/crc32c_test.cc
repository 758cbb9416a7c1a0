#include "common/base/crc32c.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>

namespace cohort {
namespace {

// RFC 3720, B.4.
TEST_CASE("CRC32C has the published values") {
  CHECK(Crc32c("") == 0);
  CHECK(Crc32c("123456789") == 0xe3069283);
  CHECK(Crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(Crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising += c;
  CHECK(Crc32c(rising) == 0x46dd794e);
}

TEST_CASE("all ways to sum give the same checksum, for all lengths and splits") {
  std::mt19937 random(3);
  std::string bytes(20'000, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  for (const size_t size : {1, 7, 8, 9, 1023, 3071, 3072, 3073, 3080, 6144, 6151, 20'000}) {
    INFO(size);
    const std::string_view text = std::string_view(bytes).substr(0, size);
    const uint32_t whole = Crc32cByTables(text);
    CHECK(Crc32c(text) == whole);
    for (int i = 0; i < 20; ++i) {
      const size_t split = random() % (size + 1);
      CHECK(ExtendCrc32c(Crc32c(text.substr(0, split)), text.substr(split)) == whole);
    }
    std::string damaged(text);
    damaged[random() % size] ^= static_cast<char>(1 << random() % 8);
    CHECK(Crc32c(damaged) != whole);
  }
}

}  // namespace
}  // namespace cohort

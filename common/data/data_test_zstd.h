#ifndef COHORT_COMMON_DATA_DATA_TEST_ZSTD_H_
#define COHORT_COMMON_DATA_DATA_TEST_ZSTD_H_

#ifdef COHORT_HAS_ZSTD
#include <zstd.h>

#include <catch2/catch.hpp>
#include <string>
#include <string_view>

// For tests alone.
namespace cohort::testing {

inline std::string Zstd(std::string_view bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size = ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3);
  REQUIRE(ZSTD_isError(size) == 0);
  out.resize(size);
  return out;
}

}  // namespace cohort::testing
#endif

#endif  // COHORT_COMMON_DATA_DATA_TEST_ZSTD_H_

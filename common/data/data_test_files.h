#ifndef COHORT_COMMON_DATA_DATA_TEST_FILES_H_
#define COHORT_COMMON_DATA_DATA_TEST_FILES_H_

#include <zlib.h>

#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/testing/directory_test_util.h"

// For tests alone.
namespace cohort::testing {

// Returns an IDX file with this type code and these dimensions.
inline std::string Idx(int type, const std::vector<uint32_t>& dims, std::string_view data) {
  std::string bytes = {'\0', '\0', static_cast<char>(type), static_cast<char>(dims.size())};
  for (const uint32_t size : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(size >> shift));
  }
  return bytes + std::string(data);
}

inline std::string Gzip(std::string_view bytes) {
  z_stream stream = {};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, bytes.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace cohort::testing

#endif  // COHORT_COMMON_DATA_DATA_TEST_FILES_H_

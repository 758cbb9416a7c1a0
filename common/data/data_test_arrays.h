#ifndef COHORT_COMMON_DATA_DATA_TEST_ARRAYS_H_
#define COHORT_COMMON_DATA_DATA_TEST_ARRAYS_H_

#include <zlib.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/data/data_test_specs.h"
#include "common/tensor/tensor.h"

// For tests alone.
namespace cohort::testing {

// A .npy file. `descr` is numpy's dtype, such as "<f4".
inline std::string Npy(std::string_view descr, const Dims& shape, std::string_view data) {
  std::string sizes;
  for (const int64_t size : shape) sizes += fmt::format("{}, ", size);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, sizes);
  header.resize((header.size() + 10 + 64) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\0", 8);
  bytes.push_back(static_cast<char>(header.size() & 0xff));
  bytes.push_back(static_cast<char>(header.size() >> 8));
  return bytes + header + std::string(data);
}

inline v1::DatasetSpec NpySpec(const std::vector<std::string>& files) {
  v1::DatasetSpec spec;
  *spec.mutable_source_class() = ClassOf("npy", {{"files", ConfigOf(files)}});
  return spec;
}

// A ZIP file of members (name, contents), which are deflated if `pack`.
inline std::string Zip(const std::vector<std::pair<std::string, std::string>>& members, bool pack) {
  const auto number = [](uint64_t value, size_t bytes) {
    std::string text;
    for (size_t i = 0; i < bytes; ++i, value >>= 8) text.push_back(static_cast<char>(value));
    return text;
  };
  std::string file, directory;
  for (const auto& [name, contents] : members) {
    std::string packed = contents;
    if (pack) {
      z_stream stream = {};
      REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY) == Z_OK);
      packed.resize(deflateBound(&stream, contents.size()));
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(contents.data()));
      stream.avail_in = static_cast<uInt>(contents.size());
      stream.next_out = reinterpret_cast<Bytef*>(packed.data());
      stream.avail_out = static_cast<uInt>(packed.size());
      REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
      packed.resize(packed.size() - stream.avail_out);
      deflateEnd(&stream);
    }
    const auto* bytes = reinterpret_cast<const Bytef*>(contents.data());
    const std::string common = number(20, 2) + number(0, 2) + number(pack ? 8 : 0, 2) +
                               number(0, 4) + number(crc32_z(0, bytes, contents.size()), 4) +
                               number(packed.size(), 4) + number(contents.size(), 4) +
                               number(name.size(), 2);
    directory +=
        "PK\x01\x02" + number(20, 2) + common + number(0, 12) + number(file.size(), 4) + name;
    file += "PK\x03\x04" + common + number(0, 2) + name + packed;
  }
  return file + directory + "PK\x05\x06" + number(0, 4) + number(members.size(), 2) +
         number(members.size(), 2) + number(directory.size(), 4) + number(file.size(), 4) +
         number(0, 2);
}

}  // namespace cohort::testing

#endif  // COHORT_COMMON_DATA_DATA_TEST_ARRAYS_H_

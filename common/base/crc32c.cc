#include "common/base/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace cohort {
namespace {

constexpr uint32_t kReflectedPolynomial = 0x82f63b78;
constexpr uint32_t kMaskDelta = 0xa282ead8;

// Row 0: the remainder of each byte. Row k: that of the byte with k zero bytes behind it.
using Rows = std::array<std::array<uint32_t, 256>, 8>;

constexpr Rows MakeRows() {
  Rows rows{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReflectedPolynomial : 0);
    }
    rows[0][byte] = crc;
  }
  for (size_t k = 1; k < rows.size(); ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      rows[k][byte] = (rows[k - 1][byte] >> 8) ^ rows[0][rows[k - 1][byte] & 0xff];
    }
  }
  return rows;
}

constexpr Rows kRows = MakeRows();

uint64_t WordAt(const char* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// The functions below continue an inverted checksum.

uint32_t AddByte(uint32_t crc, char byte) {
  return (crc >> 8) ^ kRows[0][(crc ^ static_cast<uint8_t>(byte)) & 0xff];
}

// Eight bytes at a time, by tables.
uint32_t AddByTables(uint32_t crc, std::string_view bytes) {
  size_t at = 0;
  if constexpr (std::endian::native == std::endian::little) {
    for (; at + 8 <= bytes.size(); at += 8) {
      const uint64_t word = WordAt(bytes.data() + at) ^ crc;
      crc = 0;
      for (size_t k = 0; k < 8; ++k) crc ^= kRows[7 - k][(word >> (8 * k)) & 0xff];
    }
  }
  for (; at < bytes.size(); ++at) crc = AddByte(crc, bytes[at]);
  return crc;
}

#if defined(__x86_64__)

// What a checksum becomes when `kBytes` zero bytes follow: the sum of one entry for each of its
// bytes.
using ZeroTable = std::array<std::array<uint32_t, 256>, 4>;

constexpr ZeroTable MakeZeroTable(size_t bytes) {
  std::array<uint32_t, 32> bits{};  // what each bit becomes
  for (size_t bit = 0; bit < 32; ++bit) {
    uint32_t crc = uint32_t{1} << bit;
    for (size_t i = 0; i < bytes; ++i) crc = (crc >> 8) ^ kRows[0][crc & 0xff];
    bits[bit] = crc;
  }
  ZeroTable table{};
  for (size_t byte = 0; byte < 4; ++byte) {
    for (size_t value = 0; value < 256; ++value) {
      for (size_t bit = 0; bit < 8; ++bit) {
        if ((value >> bit & 1) != 0) table[byte][value] ^= bits[8 * byte + bit];
      }
    }
  }
  return table;
}

constexpr size_t kLane = 1024;  // bytes
constexpr ZeroTable kZeros = MakeZeroTable(kLane);

uint32_t AddZeros(uint32_t crc) {
  return kZeros[0][crc & 0xff] ^ kZeros[1][crc >> 8 & 0xff] ^ kZeros[2][crc >> 16 & 0xff] ^
         kZeros[3][crc >> 24];
}

// With the instruction of SSE 4.2, which takes three cycles and begins each cycle: so three lanes
// are summed at once.
__attribute__((target("sse4.2"))) uint32_t AddByInstruction(uint32_t crc, std::string_view bytes) {
  const char* at = bytes.data();
  size_t left = bytes.size();
  uint64_t first = crc;
  for (; left >= 3 * kLane; left -= 3 * kLane, at += 3 * kLane) {
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < kLane; i += 8) {
      first = __builtin_ia32_crc32di(first, WordAt(at + i));
      second = __builtin_ia32_crc32di(second, WordAt(at + kLane + i));
      third = __builtin_ia32_crc32di(third, WordAt(at + 2 * kLane + i));
    }
    first = AddZeros(static_cast<uint32_t>(first)) ^ second;
    first = AddZeros(static_cast<uint32_t>(first)) ^ third;
  }
  for (; left >= 8; left -= 8, at += 8) first = __builtin_ia32_crc32di(first, WordAt(at));
  auto rest = static_cast<uint32_t>(first);
  for (; left > 0; --left, ++at) {
    rest = __builtin_ia32_crc32qi(rest, static_cast<uint8_t>(*at));
  }
  return rest;
}

#endif

}  // namespace

uint32_t Crc32c(std::string_view bytes) { return ExtendCrc32c(0, bytes); }

uint32_t ExtendCrc32c(uint32_t crc, std::string_view bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return ~AddByInstruction(~crc, bytes);
#endif
  return ~AddByTables(~crc, bytes);
}

uint32_t Crc32cByTables(std::string_view bytes) { return ~AddByTables(~uint32_t{0}, bytes); }

uint32_t MaskedCrc32c(std::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + kMaskDelta;
}

}  // namespace cohort

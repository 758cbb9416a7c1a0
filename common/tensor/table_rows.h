#ifndef COHORT_COMMON_TENSOR_TABLE_ROWS_H_
#define COHORT_COMMON_TENSOR_TABLE_ROWS_H_

#include <cstdint>
#include <limits>

namespace cohort {

// A *table without bounds* is a variable with kTableRows rows, of which only those exist that an
// update has made. Its keys are numbers that nobody has listed. RowOfKey spreads them over the
// rows, so a shard, which is a range of rows as for every variable, has a fair part of them: the
// shards of a table partition its keys by hash.
inline constexpr int kTableRowBits = 62;
inline constexpr int64_t kTableRows = int64_t{1} << kTableRowBits;

// No key: it stands behind the end of a list of keys. The op table_row keeps it.
inline constexpr int64_t kNoTableKey = std::numeric_limits<int64_t>::min();

// `dims`: sizes in a span, a vector or a field of a message.
template <typename Sizes>
requires requires(const Sizes& dims) { int64_t{dims[0]}; }
bool IsTable(const Sizes& dims) { return !dims.empty() && dims[0] == kTableRows; }

namespace table_rows {

inline constexpr uint64_t kMask = (uint64_t{1} << kTableRowBits) - 1;
inline constexpr int kShift = 32;
// Odd, so that a product modulo 2^62 can be undone. The constants of SplitMix64 (Steele, Lea,
// Flood: Fast splittable pseudorandom number generators, 2014) and their inverses.
inline constexpr uint64_t kFirst = 0xbf58476d1ce4e5b9, kSecond = 0x94d049bb133111eb;

constexpr uint64_t InverseOf(uint64_t odd) {
  uint64_t inverse = odd;  // right in its lowest three bits; each turn doubles their number
  for (int i = 0; i < 5; ++i) inverse *= 2 - odd * inverse;
  return inverse;
}

}  // namespace table_rows

// The row of a key: one to one over the lowest 62 bits of the key, the only ones that count.
constexpr int64_t RowOfKey(int64_t key) {
  uint64_t x = static_cast<uint64_t>(key) & table_rows::kMask;
  x ^= x >> table_rows::kShift;
  x = x * table_rows::kFirst & table_rows::kMask;
  x ^= x >> table_rows::kShift;
  x = x * table_rows::kSecond & table_rows::kMask;
  x ^= x >> table_rows::kShift;
  return static_cast<int64_t>(x);
}

// The key of a row, between 0 and 2^62.
constexpr int64_t KeyOfRow(int64_t row) {
  uint64_t x = static_cast<uint64_t>(row);
  x ^= x >> table_rows::kShift;
  x = x * table_rows::InverseOf(table_rows::kSecond) & table_rows::kMask;
  x ^= x >> table_rows::kShift;
  x = x * table_rows::InverseOf(table_rows::kFirst) & table_rows::kMask;
  x ^= x >> table_rows::kShift;
  return static_cast<int64_t>(x);
}

}  // namespace cohort

#endif  // COHORT_COMMON_TENSOR_TABLE_ROWS_H_

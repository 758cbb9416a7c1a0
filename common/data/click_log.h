#ifndef COHORT_COMMON_DATA_CLICK_LOG_H_
#define COHORT_COMMON_DATA_CLICK_LOG_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cohort {

// A record in the form of the Criteo data sets: numbers I1 to I13, and categories C1 to C26.
struct ClickRecord {
  static constexpr size_t kNumbers = 13;
  static constexpr size_t kTables = 26;

  std::array<int64_t, kNumbers> numbers;             // counts, 0 or more
  std::array<std::vector<int64_t>, kTables> tables;  // the ids: one, or those of a bag
  double probability = 0;                            // that the hidden model gives a click
  bool click = false;                                // drawn with this probability
};

struct ClickLogOptions {
  static constexpr size_t kBags = 3;  // C1 to C3
  static constexpr size_t kLongestBag = 20;

  uint64_t seed = 0;
  std::array<int64_t, ClickRecord::kTables> vocabulary = {};  // ids of each table, at least 1
  bool hashed = false;  // ids are hashes from 0 to 2^63 - 1, instead of 0 to the vocabulary - 1
  bool bags = false;    // C1 to C3 have 0 to kLongestBag ids, 2 in the mean
};

// Clicks that a hidden model decides, so that the best AUC which any model can reach is known. Each
// record is a function of (seed, index).
//
// - The id of rank r, from 1, of a table has a share of about r^-1.05: id 0 is the most frequent.
// - I1 to I13 are counts e^z - 1 with a bell-shaped z.
// - logit = constant + sum of w_i log(1 + I_i) + sum of a(id) + sum of v(id) v(id') over the pairs
//   of tables. Each id has an effect `a` and a vector `v` of 3 numbers. They are hashes of (seed,
//   table, id), so no table lies in memory. Those of a bag are the means over its ids; those of an
//   empty bag are zeros.
class ClickLog {
 public:
  explicit ClickLog(const ClickLogOptions& options);
  // Writes record `index`, and reuses its memory.
  void Draw(uint64_t index, ClickRecord* record) const;

 private:
  int64_t DrawRank(uint64_t index, uint64_t draw, size_t table) const;

  const ClickLogOptions options_;
  const uint64_t records_key_, effects_key_;
  std::array<double, ClickRecord::kNumbers> weights_;
};

// The area under the curve of probabilities and what came of them. Probabilities that agree in the
// first 20 bits count as equal, so that it needs the same memory for any number of records.
class AucCounter {
 public:
  AucCounter() : clicks_(kCells), others_(kCells) {}
  void Add(double probability, bool click);
  // 0.5 if all records are of one kind.
  double Value() const;

 private:
  static constexpr size_t kCells = size_t{1} << 20;
  std::vector<uint64_t> clicks_, others_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_CLICK_LOG_H_

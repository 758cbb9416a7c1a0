#include "common/data/click_log.h"

#include <algorithm>
#include <cmath>

#include "common/tensor/philox.h"

namespace cohort {
namespace {

constexpr double kShareExponent = 1.05;
constexpr double kConstant = -1.2;
// Lengths of bags are exponential with this mean, rounded down.
constexpr double kMeanBag = 2.5;
// The standard deviations of the parts of the logit are about 0.5, 1 and 0.6.
constexpr double kNumberWeight = 0.2, kEffect = 0.34, kVector = 0.24;
constexpr size_t kVectorSize = 3;

// The draws of a record: its label, its numbers, then those of each table.
constexpr uint64_t kClickDraw = 0, kNumberDraws = 1, kTableDraws = 100, kDrawsPerTable = 100;

double Uniform(const PhiloxBlock& block, size_t word) {
  return UniformFromBits(block[word] | static_cast<uint64_t>(block[word + 1]) << 32);
}
// In (-scale, scale).
double Centered(uint32_t bits, double scale) { return scale * ((bits + 0.5) * 0x1p-31 - 1); }

// A sum of four uniform numbers, scaled to a variance of 1.
double BellShaped(const PhiloxBlock& block) {
  double sum = 0;
  for (const uint32_t word : block) sum += Centered(word, 0.5);
  return sum * std::sqrt(3.0);
}

}  // namespace

ClickLog::ClickLog(const ClickLogOptions& options)
    : options_(options),
      records_key_(PhiloxMix(options.seed, 1)),
      effects_key_(PhiloxMix(options.seed, 2)) {
  for (size_t i = 0; i < weights_.size(); ++i) {
    weights_[i] = Centered(Philox(i, ClickRecord::kTables, effects_key_)[0], kNumberWeight);
  }
}

// The inverse of the distribution with a density of x^-1.05 from 1 to the vocabulary + 1.
int64_t ClickLog::DrawRank(uint64_t index, uint64_t draw, size_t table) const {
  constexpr double kPower = 1 - kShareExponent;
  const int64_t ids = options_.vocabulary[table];
  const double u = Uniform(Philox(index, draw, records_key_), 0);
  const double end = std::pow(static_cast<double>(ids) + 1, kPower);
  const auto rank = static_cast<int64_t>(std::pow(1 - u * (1 - end), 1 / kPower));
  return std::clamp(rank, int64_t{1}, ids) - 1;
}

void ClickLog::Draw(uint64_t index, ClickRecord* record) const {
  double logit = kConstant;
  for (size_t i = 0; i < record->numbers.size(); ++i) {
    const double z = BellShaped(Philox(index, kNumberDraws + i, records_key_));
    record->numbers[i] = static_cast<int64_t>(std::exp(1 + 1.5 * std::max(z, -1.0)));
    logit += weights_[i] * (std::log1p(static_cast<double>(record->numbers[i])) - 1.3);
  }
  // The sum over pairs of tables is (sum v)^2 - sum v^2, halved.
  std::array<double, kVectorSize> sum = {}, squares = {};
  for (size_t table = 0; table < record->tables.size(); ++table) {
    std::vector<int64_t>& ids = record->tables[table];
    const uint64_t first_draw = kTableDraws + table * kDrawsPerTable;
    size_t count = 1;
    if (options_.bags && table < ClickLogOptions::kBags) {
      const double u = Uniform(Philox(index, first_draw, records_key_), 2);
      count =
          std::min(static_cast<size_t>(-kMeanBag * std::log1p(-u)), ClickLogOptions::kLongestBag);
    }
    ids.resize(count);
    std::array<double, kVectorSize> mean = {};
    for (size_t i = 0; i < count; ++i) {
      const int64_t rank = DrawRank(index, first_draw + i, table);
      const PhiloxBlock hidden = Philox(static_cast<uint64_t>(rank), table, effects_key_);
      logit += Centered(hidden[0], kEffect) / static_cast<double>(count);
      for (size_t k = 0; k < kVectorSize; ++k) {
        mean[k] += Centered(hidden[k + 1], kVector) / static_cast<double>(count);
      }
      ids[i] = options_.hashed
                   ? static_cast<int64_t>(PhiloxMix(static_cast<uint64_t>(rank), table + 1) >> 1)
                   : rank;
    }
    for (size_t k = 0; k < kVectorSize; ++k) {
      sum[k] += mean[k];
      squares[k] += mean[k] * mean[k];
    }
  }
  for (size_t k = 0; k < kVectorSize; ++k) logit += (sum[k] * sum[k] - squares[k]) / 2;
  record->probability = 1 / (1 + std::exp(-logit));
  record->click = Uniform(Philox(index, kClickDraw, records_key_), 0) < record->probability;
}

void AucCounter::Add(double probability, bool click) {
  const auto cell = static_cast<size_t>(std::clamp(probability, 0.0, 1.0) * kCells);
  ++(click ? clicks_ : others_)[std::min(cell, kCells - 1)];
}

double AucCounter::Value() const {
  double area = 0, clicks = 0, others = 0;
  for (size_t i = 0; i < kCells; ++i) {
    const auto here = static_cast<double>(clicks_[i]), beside = static_cast<double>(others_[i]);
    area += here * (others + beside / 2);
    clicks += here;
    others += beside;
  }
  return clicks == 0 || others == 0 ? 0.5 : area / (clicks * others);
}

}  // namespace cohort

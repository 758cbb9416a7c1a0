#include "tests/cluster/trained_weights.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/shard_names.h"
#include "common/tensor/table_rows.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

void CheckSamePosition(const TrainedWeights& a, const TrainedWeights& b) {
  CHECK(a.steps == b.steps);
  CHECK(a.iterations == b.iterations);
  CHECK(a.loss_scale == b.loss_scale);
  REQUIRE(a.weights.size() == b.weights.size());
}

std::vector<double> Doubles(const std::vector<uint8_t>& bytes) {
  REQUIRE(bytes.size() % sizeof(double) == 0);
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// The numbers of the rows that exist, each with its bytes.
std::vector<uint8_t> RowsOfTable(const CheckpointReader& reader, const LogicalTensor& table) {
  const std::string slots[] = {table.slot};
  const bool counted = table.slot == kCountsSlot || table.slot == kCountedSlot;
  std::vector<uint8_t> bytes;
  const auto read = reader.ReadTable(
      table.variable, counted ? kCountedKeysSlot : kKeysSlot, slots, 0,
      static_cast<uint64_t>(kTableRows),
      [&](std::span<const int64_t> rows, std::span<const std::span<const uint8_t>> tensors) {
        const std::span<const uint8_t> values = tensors[0];
        const size_t row_bytes = values.size() / rows.size();
        for (size_t i = 0; i < rows.size(); ++i) {
          const auto* const number = reinterpret_cast<const uint8_t*>(&rows[i]);
          bytes.insert(bytes.end(), number, number + sizeof(int64_t));
          const auto row = values.subspan(i * row_bytes, row_bytes);
          bytes.insert(bytes.end(), row.begin(), row.end());
        }
        return absl::OkStatus();
      });
  REQUIRE(read.ok());
  return bytes;
}

}  // namespace

Weights WeightsOf(const std::string& checkpoint) {
  const auto reader = CheckpointReader::Open(checkpoint, {});
  REQUIRE(reader.ok());
  Weights weights;
  for (const auto& [name, logical] : (*reader)->tensors()) {
    if (IsTable(logical.dims)) {
      const bool keys = name.second == kKeysSlot || name.second == kCountedKeysSlot;
      if (!keys) weights[name] = RowsOfTable(**reader, logical);
      continue;
    }
    const auto tensor = (*reader)->Read(name.first, name.second);
    REQUIRE(tensor.ok());
    const auto* const bytes = static_cast<const uint8_t*>(tensor->raw());
    weights[name] = {bytes, bytes + tensor->num_bytes()};
  }
  return weights;
}

TrainedWeights TrainedWeightsOf(const std::string& checkpoint_dir) {
  TrainedWeights outcome;
  v1::Manifest newest;
  const auto entry = NewestReadable(checkpoint_dir, &newest);
  REQUIRE(entry.ok());
  REQUIRE(entry->has_value());
  REQUIRE(newest.finished());
  outcome.steps = newest.chief().position().open_step() - 1;
  outcome.iterations = newest.chief().position().iteration();
  outcome.loss_scale = newest.chief().position().loss_scale().scale();
  outcome.weights = WeightsOf((*entry)->directory);
  return outcome;
}

void CheckSameWeights(const TrainedWeights& a, const TrainedWeights& b) {
  CheckSamePosition(a, b);
  for (const auto& [name, bytes] : a.weights) {
    INFO(name.first << " " << name.second);
    CHECK(bytes == b.weights.at(name));
  }
}

void CheckCloseWeights(const TrainedWeights& a, const TrainedWeights& b, double most) {
  CheckSamePosition(a, b);
  for (const auto& [name, bytes] : a.weights) {
    INFO(name.first << " " << name.second);
    const std::vector<double> values = Doubles(bytes);
    const std::vector<double> others = Doubles(b.weights.at(name));
    REQUIRE(values.size() == others.size());
    double found = 0;
    size_t far = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double difference = std::abs(values[i] - others[i]);
      if (!(difference < most)) ++far;  // also for NaN
      found = std::max(found, difference);
    }
    INFO("the largest difference is " << found);
    CHECK(far == 0);
  }
}

}  // namespace cohort

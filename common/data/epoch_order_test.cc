#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>

#include "common/data/dataset.h"
#include "common/data/index_stream.h"
#include "common/data/permutation.h"

namespace cohort {
namespace {

std::vector<uint64_t> EpochOf(const EpochOrder& order, uint64_t epoch) {
  std::vector<uint64_t> records;
  order.Records(epoch, 0, order.records(), &records);
  return records;
}

bool IsPermutation(std::vector<uint64_t> values) {
  std::sort(values.begin(), values.end());
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != i) return false;
  }
  return true;
}

TEST_CASE("a permutation is a bijection of any size, and its inverse is one") {
  for (uint64_t size = 1; size <= 300; ++size) {
    const Permutation permutation(size, size * 77, 5);
    std::vector<uint64_t> images;
    for (uint64_t i = 0; i < size; ++i) {
      images.push_back(permutation(i));
      REQUIRE(permutation.Inverse(images.back()) == i);
    }
    REQUIRE(IsPermutation(images));
  }
  const uint64_t big = (uint64_t{1} << 40) + 12345;
  const Permutation permutation(big, 1, 2);
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint64_t image = permutation(big - 1 - i);
    REQUIRE(image < big);
    REQUIRE(permutation.Inverse(image) == big - 1 - i);
  }
}

TEST_CASE("every epoch has each record once, and an order of its own") {
  for (const uint64_t records : {1, 2, 3, 7, 31, 32, 33, 100, 1000, 4097}) {
    for (const uint64_t block : {0, 1, 2, 5, 32, 1000, 5000}) {
      const EpochOrder order(records, block, true, 9);
      std::set<std::vector<uint64_t>> orders;
      for (uint64_t epoch = 0; epoch < 4; ++epoch) {
        const auto epoch_records = EpochOf(order, epoch);
        REQUIRE(IsPermutation(epoch_records));
        orders.insert(epoch_records);
        for (uint64_t p = 0; p < records; p += 7)
          REQUIRE(order.Record(epoch, p) == epoch_records[p]);
      }
      if (records > 30) CHECK(orders.size() == 4);
    }
  }
}

TEST_CASE("the order is a function of seed and epoch alone, and never changes") {
  // Leases in journals and checkpoints mean positions of this order: it may never change.
  std::vector<uint64_t> records;
  EpochOrder(1000, 1, true, 42).Records(3, 0, 4, &records);
  CHECK(records == std::vector<uint64_t>{374, 81, 610, 212});
  EpochOrder(1000, 16, true, 42).Records(3, 0, 4, &records);
  CHECK(records == std::vector<uint64_t>{339, 338, 343, 344});
  CHECK(EpochOf(EpochOrder(1000, 1, true, 1), 0) != EpochOf(EpochOrder(1000, 1, true, 2), 0));
}

TEST_CASE("blocks stay together") {
  const EpochOrder order(103, 10, true, 4);
  const auto records = EpochOf(order, 1);
  std::set<uint64_t> seen;
  uint64_t changes = 0;
  for (size_t p = 0; p < records.size(); ++p) {
    if (p == 0 || records[p] / 10 != records[p - 1] / 10) {
      ++changes;
      CHECK(seen.insert(records[p] / 10).second);
    }
  }
  CHECK(changes == 11);
  CHECK(!std::is_sorted(records.begin(), records.end()));
}

TEST_CASE("without shuffle the order is the file's") {
  const auto records = EpochOf(EpochOrder(100, 7, false, 1), 5);
  CHECK(std::is_sorted(records.begin(), records.end()));
}

TEST_CASE("a record's place is spread evenly over the epochs") {
  // 20,000 epochs of 10 records: each cell of (record, position) is expected 2,000 times.
  // Chi-squared with 81 degrees of freedom stays below 144 in all but one of 100,000 fair cases.
  const EpochOrder order(10, 1, true, 17);
  std::array<std::array<int, 10>, 10> counts = {};
  for (uint64_t epoch = 0; epoch < 20000; ++epoch) {
    for (uint64_t p = 0; p < 10; ++p) ++counts[order.Record(epoch, p)][p];
  }
  double chi = 0;
  for (const auto& row : counts) {
    for (const int count : row) chi += (count - 2000.0) * (count - 2000.0) / 2000.0;
  }
  CHECK(chi < 144);
}

IndexStream::Options StreamOptions() {
  IndexStream::Options options;
  options.records = 100;
  options.batch_size = 32;
  options.shuffle = true;
  options.epochs = 3;
  options.key = 7;
  return options;
}

std::vector<std::vector<uint64_t>> BatchesOf(const IndexStream::Options& options) {
  IndexStream stream(options);
  std::vector<std::vector<uint64_t>> batches;
  std::vector<uint64_t> batch;
  while (stream.Next(&batch)) batches.push_back(batch);
  CHECK(!stream.Next(&batch));
  return batches;
}

TEST_CASE("an independent stream gives each record once an epoch, whatever its buffer") {
  for (const uint64_t buffer : {0, 1, 10, 99, 100, 1000}) {
    IndexStream::Options options = StreamOptions();
    options.shuffle_buffer = buffer;
    const auto batches = BatchesOf(options);
    REQUIRE(batches.size() == 12);
    std::set<std::vector<uint64_t>> orders;
    for (size_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<uint64_t> records;
      for (size_t b = 0; b < 4; ++b) {
        const auto& batch = batches[epoch * 4 + b];
        CHECK(batch.size() == (b < 3 ? 32 : 4));
        records.insert(records.end(), batch.begin(), batch.end());
      }
      CHECK(IsPermutation(records));
      orders.insert(records);
      // A record can come early by no more than the buffer lets it.
      for (size_t p = 0; buffer > 0 && p < records.size(); ++p) CHECK(records[p] < p + buffer);
    }
    CHECK(orders.size() == (buffer == 1 ? 1 : 3));
  }
}

TEST_CASE("drop_remainder, repeat and the key do what they say") {
  IndexStream::Options options = StreamOptions();
  options.drop_remainder = true;
  CHECK(BatchesOf(options).size() == 9);
  const auto mine = BatchesOf(options);
  options.key = 8;
  CHECK(BatchesOf(options) != mine);
  options.shuffle = false;
  CHECK(BatchesOf(options)[3][0] == 0);
  options.epochs = 0;
  IndexStream endless(options);
  std::vector<uint64_t> batch;
  for (int i = 0; i < 1000; ++i) REQUIRE(endless.Next(&batch));
}

TEST_CASE("a stream that begins later gives what an uninterrupted one gives from there") {
  uint64_t compared = 0;
  for (const uint64_t records : {1, 7, 64, 100}) {
    for (const uint64_t size : {1, 8, 32, 100, 150}) {
      for (const int64_t buffer : {-1, 0, 1, 10, 99, 1000}) {  // -1: no shuffle
        for (const bool drop_remainder : {false, true}) {
          for (const uint64_t epochs : {0, 1, 3}) {
            if (drop_remainder && records < size) continue;
            IndexStream::Options options = StreamOptions();
            options.records = records;
            options.batch_size = size;
            options.shuffle = buffer >= 0;
            options.shuffle_buffer = static_cast<uint64_t>(std::max<int64_t>(buffer, 0));
            options.drop_remainder = drop_remainder;
            options.epochs = epochs;
            const uint64_t per_epoch =
                drop_remainder ? records / size : (records + size - 1) / size;
            IndexStream whole(options);
            std::vector<uint64_t> expected;
            std::vector<uint64_t> batch;
            for (uint64_t begin = 0; begin <= 3 * per_epoch + 1; ++begin) {
              options.begin = begin;
              IndexStream later(options);
              const bool more = whole.Next(&expected);
              REQUIRE(later.Next(&batch) == more);
              if (!more) continue;
              REQUIRE(batch == expected);
              // And so on: what it has drawn before counts, too.
              IndexStream::Options next = options;
              next.begin = begin + 1;
              IndexStream third(next);
              const bool another = third.Next(&expected);
              REQUIRE(later.Next(&batch) == another);
              if (another) REQUIRE(batch == expected);
              ++compared;
            }
          }
        }
      }
    }
  }
  CHECK(compared > 10'000);
}

TEST_CASE("a stream finds its place in a far epoch at once") {
  IndexStream::Options options = StreamOptions();
  options.epochs = 0;
  options.shuffle_buffer = 10;
  const uint64_t epochs = uint64_t{1} << 50;
  options.begin = epochs * 4 + 3;
  IndexStream later(options);
  std::vector<uint64_t> batch;
  REQUIRE(later.Next(&batch));
  CHECK(batch.size() == 4);  // the short last one
  REQUIRE(later.Next(&batch));
  CHECK(batch.size() == 32);
}

}  // namespace
}  // namespace cohort

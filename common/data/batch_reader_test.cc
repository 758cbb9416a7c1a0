#include <google/protobuf/text_format.h>
#include <sched.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <set>

#include "common/data/data_test_specs.h"
#include "common/data/dataset.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

constexpr size_t kAlwaysInThread = 0;
constexpr size_t kNeverInThread = size_t{1} << 40;

v1::DatasetSpec ReaderSpec(const std::string& rest) {
  v1::DatasetSpec spec;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(rest, &spec));
  *spec.mutable_source_class() = testing::RecommenderSpec(100, 1).source_class();
  testing::AddTransform(&spec, "features", testing::Lookup({"avenger", "hulk"}));
  testing::AddTransform(&spec, "label", testing::IsEqual("yes"));
  return spec;
}

BatchReader::Options Options(size_t inline_bytes) {
  BatchReader::Options options;
  options.features = {0, 1};
  options.batch_size = 32;
  options.seed = 5;
  options.inline_bytes = inline_bytes;
  return options;
}

std::vector<int64_t> IdsOf(const BatchReader::Batch& batch) {
  const auto values = batch.tensors[0].values<int64_t>();
  return {values.begin(), values.end()};
}

std::vector<std::vector<int64_t>> AllBatches(const v1::DatasetSpec& spec,
                                             const BatchReader::Options& options) {
  auto reader = BatchReader::Independent(*Dataset::Open(spec), spec, options);
  REQUIRE(reader.ok());
  std::vector<std::vector<int64_t>> batches;
  BatchReader::Batch batch;
  while (true) {
    const absl::Status status = (*reader)->Next(&batch);
    if (!status.ok()) {
      CHECK(absl::IsOutOfRange(status));
      CHECK(absl::IsOutOfRange((*reader)->Next(&batch)));
      return batches;
    }
    CHECK(batch.records == batch.tensors[1].dims()[0]);
    batches.push_back(IdsOf(batch));
  }
}

TEST_CASE("a reader gives the same batches with and without a thread") {
  for (const char* rest : {"repeat: 3", "repeat: 3 shuffle: true",
                           "repeat: 5 shuffle: true "
                           "shuffle_buffer: 20",
                           "repeat: 2 drop_remainder: true"}) {
    const v1::DatasetSpec spec = ReaderSpec(rest);
    const auto inlined = AllBatches(spec, Options(kNeverInThread));
    for (const uint32_t prefetch : {0, 1, 2, 50}) {
      BatchReader::Options options = Options(kAlwaysInThread);
      options.prefetch = prefetch;
      CHECK(AllBatches(spec, options) == inlined);
    }
    BatchReader::Options other = Options(kNeverInThread);
    other.worker_index = 1;
    CHECK((AllBatches(spec, other) != inlined) == spec.shuffle());
  }
}

TEST_CASE("there is a thread where batches are made ahead, and they are not small") {
  const v1::DatasetSpec spec = ReaderSpec("");
  const auto dataset = *Dataset::Open(spec);
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  const auto before = threads();
  for (const auto make : {BatchReader::Independent, BatchReader::Leased}) {
    const auto in_thread = [&](uint32_t prefetch, size_t inline_bytes) {
      BatchReader::Options options = Options(inline_bytes);
      options.prefetch = prefetch;
      auto reader = make(dataset, spec, options);
      REQUIRE(reader.ok());
      const auto more = threads() - before;
      // The kernel may list a thread for a moment after it was joined.
      reader->reset();
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (threads() != before && std::chrono::steady_clock::now() < deadline) sched_yield();
      return more;
    };
    CHECK(in_thread(2, kAlwaysInThread) == 1);
    CHECK(in_thread(2, kNeverInThread) == 0);
    CHECK(in_thread(0, kAlwaysInThread) == 0);
  }
}

TEST_CASE("a reader that begins later continues the one before it") {
  for (const char* rest :
       {"repeat: 3", "repeat: 3 shuffle: true", "repeat: 3 shuffle: true shuffle_buffer: 20",
        "repeat: 3 shuffle: true drop_remainder: true"}) {
    const v1::DatasetSpec spec = ReaderSpec(rest);
    const auto whole = AllBatches(spec, Options(kNeverInThread));
    for (uint64_t begin = 0; begin <= whole.size(); ++begin) {
      for (const size_t inline_bytes : {kNeverInThread, kAlwaysInThread}) {
        BatchReader::Options options = Options(inline_bytes);
        options.begin = begin;
        const auto from = whole.begin() + static_cast<std::ptrdiff_t>(begin);
        CHECK(AllBatches(spec, options) == std::vector<std::vector<int64_t>>(from, whole.end()));
      }
    }
  }
}

TEST_CASE("batches keep their contents while they are held, and their memory goes round") {
  const v1::DatasetSpec spec = ReaderSpec("shuffle: true");
  auto reader = BatchReader::Independent(*Dataset::Open(spec), spec, Options(kAlwaysInThread));
  REQUIRE(reader.ok());
  std::vector<BatchReader::Batch> held;
  std::vector<std::vector<int64_t>> copies;
  for (int i = 0; i < 40; ++i) {
    BatchReader::Batch batch;
    REQUIRE((*reader)->Next(&batch).ok());
    copies.push_back(IdsOf(batch));
    held.push_back(std::move(batch));
  }
  for (size_t i = 0; i < held.size(); ++i) CHECK(IdsOf(held[i]) == copies[i]);
  held.clear();
  std::set<const void*> memory;
  BatchReader::Batch batch;
  for (int i = 0; i < 400; ++i) {
    REQUIRE((*reader)->Next(&batch).ok());
    memory.insert(batch.tensors[0].raw());
  }
  // Those made ahead, and the one in hand.
  CHECK(memory.size() < 10);
}

TEST_CASE("an epoch read by leases has each record once, whoever reads which") {
  const v1::DatasetSpec spec = ReaderSpec("shuffle: true block_size: 4");
  const auto dataset = *Dataset::Open(spec);
  std::vector<std::unique_ptr<BatchReader>> workers;
  for (const size_t inline_bytes : {kAlwaysInThread, kNeverInThread, kAlwaysInThread}) {
    BatchReader::Options options = Options(inline_bytes);
    options.worker_index = static_cast<uint32_t>(workers.size());
    auto reader = BatchReader::Leased(dataset, spec, options);
    REQUIRE(reader.ok());
    workers.push_back(*std::move(reader));
  }
  std::vector<uint64_t> everything(100);
  for (size_t i = 0; i < 100; ++i) everything[i] = i;
  std::vector<Tensor> whole;
  REQUIRE(dataset->Gather(everything, std::vector<int>{0}, &whole).ok());
  const auto expected_span = whole[0].values<int64_t>();
  std::multiset<int64_t> expected(expected_span.begin(), expected_span.end());
  for (uint64_t epoch = 0; epoch < 5; ++epoch) {
    for (uint64_t i = 0; i * 32 < 100; ++i) {
      workers[(i + epoch) % 3]->Announce(epoch, i * 32, std::min<uint64_t>(100, i * 32 + 32));
    }
    std::multiset<int64_t> seen;
    BatchReader::Batch batch;
    for (uint64_t i = 0; i * 32 < 100; ++i) {
      const uint64_t end = std::min<uint64_t>(100, i * 32 + 32);
      REQUIRE(workers[(i + epoch) % 3]->Read(epoch, i * 32, end, &batch).ok());
      CHECK(batch.records == static_cast<int64_t>(end - i * 32));
      const auto ids = IdsOf(batch);
      seen.insert(ids.begin(), ids.end());
    }
    CHECK(seen == expected);
  }
}

TEST_CASE("leases that are skipped, unannounced or read twice give what they name") {
  const v1::DatasetSpec spec = ReaderSpec("shuffle: true");
  const auto dataset = *Dataset::Open(spec);
  auto inlined = *BatchReader::Leased(dataset, spec, Options(kNeverInThread));
  const auto expected = [&](uint64_t epoch, uint64_t begin, uint64_t end) {
    BatchReader::Batch batch;
    REQUIRE(inlined->Read(epoch, begin, end, &batch).ok());
    return IdsOf(batch);
  };
  auto reader = *BatchReader::Leased(dataset, spec, Options(kAlwaysInThread));
  BatchReader::Batch batch;
  const auto read = [&](uint64_t epoch, uint64_t begin, uint64_t end) {
    REQUIRE(reader->Read(epoch, begin, end, &batch).ok());
    CHECK(IdsOf(batch) == expected(epoch, begin, end));
  };
  for (int round = 0; round < 200; ++round) {
    for (uint64_t i = 0; i < 10; ++i) reader->Announce(1, i * 10, i * 10 + 10);
    read(7, 0, 32);   // never announced
    read(1, 30, 40);  // the three before it are dropped
    read(1, 0, 10);   // dropped, made now
    read(1, 40, 50);
    read(1, 40, 50);  // a second time: a closure that runs again
    read(1, 90, 100);
  }
}

TEST_CASE("leases beyond the epoch and the wrong kind of reading are errors") {
  const v1::DatasetSpec spec = ReaderSpec("");
  const auto dataset = *Dataset::Open(spec);
  auto leased = *BatchReader::Leased(dataset, spec, Options(kAlwaysInThread));
  BatchReader::Batch batch;
  leased->Announce(0, 90, 101);
  CHECK(absl::IsInvalidArgument(leased->Read(0, 90, 101, &batch)));
  CHECK(absl::IsInvalidArgument(leased->Read(0, 5, 5, &batch)));
  CHECK(absl::IsInvalidArgument(leased->Read(0, 6, 5, &batch)));
  CHECK(absl::IsFailedPrecondition(leased->Next(&batch)));
  auto independent = *BatchReader::Independent(dataset, spec, Options(kAlwaysInThread));
  CHECK(absl::IsFailedPrecondition(independent->Read(0, 0, 5, &batch)));
  BatchReader::Options bad = Options(0);
  bad.batch_size = 0;
  CHECK(absl::IsInvalidArgument(BatchReader::Independent(dataset, spec, bad).status()));
  bad.batch_size = 101;
  CHECK(absl::IsInvalidArgument(
      BatchReader::Independent(dataset, ReaderSpec("drop_remainder: true"), bad).status()));
  bad.features = {2};
  CHECK(absl::IsInvalidArgument(BatchReader::Leased(dataset, spec, bad).status()));
}

TEST_CASE("a reader that is dropped in the middle ends its thread") {
  const v1::DatasetSpec spec = ReaderSpec("shuffle: true");
  const auto dataset = *Dataset::Open(spec);
  for (int i = 0; i < 50; ++i) {
    auto reader = *BatchReader::Independent(dataset, spec, Options(kAlwaysInThread));
    BatchReader::Batch batch;
    if (i % 2 == 0) REQUIRE(reader->Next(&batch).ok());
    auto leased = *BatchReader::Leased(dataset, spec, Options(kAlwaysInThread));
    for (uint64_t p = 0; p < 90; ++p) leased->Announce(0, p, p + 10);
  }
}

}  // namespace
}  // namespace cohort

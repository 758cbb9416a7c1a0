// The journal's thread over a real disk: segments, and the recovery from them.
#include "chief/api/journal_thread.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <future>
#include <vector>

#include "common/base/status.h"
#include "common/testing/directory_test_util.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

uint64_t SizeOf(const std::string& directory) {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::error_code gone;  // it may be replaced at any time
    const auto size = std::filesystem::file_size(entry.path(), gone);
    if (!gone) bytes += size;
  }
  return bytes;
}

// One incarnation of a chief, as far as its journal knows.
class Chief {
 public:
  explicit Chief(const std::string& directory)
      : thread_(directory, directory + "/journal",
                {.on_generation =
                     [this](absl::StatusOr<uint64_t> taken) { generation_.set_value(taken); },
                 .on_recovered =
                     [this](absl::StatusOr<Recovered> recovered) {
                       recovered_.set_value(std::move(recovered));
                     },
                 .on_durable =
                     [this](uint64_t record) {
                       durable_ = record;
                       durable_.notify_all();
                     },
                 .on_error = [this](const absl::Status&, bool) { ++errors_; },
                 .on_segment_error =
                     [this](const absl::Status&) {
                       ++segment_errors_;
                       segment_errors_.notify_all();
                     }}) {
    thread_.TakeGeneration(0);
    const auto generation = generation_.get_future().get();
    REQUIRE(generation.ok());
    thread_.Read();
    auto read = recovered_.get_future().get();
    INFO(read.status());
    REQUIRE(read.ok());
    recovered = *std::move(read);
    next_ = recovered.next_record;
    v1::JournalRecord start;
    start.mutable_start()->set_generation(*generation);
    Append(std::move(start));
  }

  void Append(v1::JournalRecord record) {
    record.set_number(next_++);
    thread_.Append(std::move(record));
  }
  // A block of ids of the job runner.
  void Reserve(uint64_t first_id, uint64_t count, uint64_t timeline) {
    v1::JournalRecord record;
    v1::ReserveClosures* block = record.mutable_reserve();
    block->set_first_id(first_id);
    block->set_count(count);
    block->set_timeline(timeline);
    block->set_first_place(first_id - 1);
    block->set_steps(1);
    block->set_by_job(true);
    block->set_max_places(UINT64_MAX);
    Append(std::move(record));
  }
  void Settle(uint64_t watermark, size_t finished = 0) {
    v1::JournalRecord record;
    record.mutable_settle()->set_watermark(watermark);
    record.mutable_settle()->set_step(watermark - 1);
    for (size_t i = 0; i < finished; ++i) {
      record.mutable_settle()->add_finished((uint64_t{1} << 40) + i);
    }
    Append(std::move(record));
  }
  void RollBack(uint64_t timeline) {
    v1::JournalRecord record;
    record.mutable_rollback()->set_timeline(timeline);
    Append(std::move(record));
  }
  void CutCommitted(uint64_t cut) {
    v1::JournalRecord record;
    record.mutable_cut()->set_cut(cut);
    Append(std::move(record));
  }
  void AwaitDurable() {
    for (uint64_t d = durable_; d < next_ - 1; d = durable_) durable_.wait(d);
  }
  // The thread starts a segment after it has reported that the records are durable.
  void AwaitSegmentError() { segment_errors_.wait(0); }
  uint64_t next() const { return next_; }
  int errors() const { return errors_; }
  int segment_errors() const { return segment_errors_; }

  Recovered recovered;

 private:
  std::promise<absl::StatusOr<uint64_t>> generation_;
  std::promise<absl::StatusOr<Recovered>> recovered_;
  std::atomic<uint64_t> durable_{0};
  std::atomic<int> errors_{0};
  std::atomic<int> segment_errors_{0};
  uint64_t next_ = 1;
  JournalThread thread_;
};

TEST_CASE("a journal that many megabytes are appended to stays bounded, and loses nothing") {
  const testing::TestDirectory dir;
  const std::string journal = dir / "journal";
  uint64_t largest = 0;
  uint64_t appended = 0;
  {
    Chief chief(dir.path());
    chief.RollBack(1);
    chief.Reserve(1, 1000, 1);
    for (uint64_t i = 1; appended < 4 * JournalThread::kSegmentBytes; ++i) {
      chief.Settle(i % 900 + 1, /*finished=*/30'000);
      appended += 30'000 * 6;
      chief.AwaitDurable();
      largest = std::max(largest, SizeOf(journal));
    }
    chief.Settle(901);
    CHECK(chief.errors() == 0);
    CHECK(chief.segment_errors() == 0);
  }
  CHECK(largest < 20'000'000);
  CHECK(largest > 10'000'000);
  const Chief next(dir.path());
  CHECK(next.recovered.watermark == 901);
  CHECK(next.recovered.unfinished.size() == 100);
  CHECK(next.recovered.steps == 900);
}

TEST_CASE("a segment follows each committed checkpoint, and a restart needs one file") {
  const testing::TestDirectory dir;
  const std::string journal = dir / "journal";
  uint64_t records = 0;
  {
    Chief chief(dir.path());
    chief.RollBack(1);
    chief.Reserve(1, 100, 1);
    chief.Settle(11);
    chief.CutCommitted(0);
    chief.AwaitDurable();
    chief.Settle(21);
    records = chief.next();
  }
  auto read = Journal::ReadAll(journal);
  REQUIRE(read.ok());
  REQUIRE(read->size() == 2);
  CHECK(read->front().base().next_cut() == 1);
  CHECK(read->front().number() == 5);
  {
    const Chief chief(dir.path());
    CHECK(chief.recovered.next_record == records);
    CHECK(chief.recovered.watermark == 21);
  }
  // The next chief's own file starts with a base, and is the only one.
  CHECK(!std::filesystem::exists(journal + "/journal-1"));
  read = Journal::ReadAll(journal);
  REQUIRE(read.ok());
  REQUIRE(read->size() == 2);
  CHECK(read->front().number() == records - 1);
  CHECK(read->back().start().generation() == 2);
  const Chief third(dir.path());
  CHECK(third.recovered.next_record == records + 1);
  CHECK(third.recovered.watermark == 21);
}

TEST_CASE("a segment that cannot be started is reported, and stops no records") {
  const testing::TestDirectory dir;
  Chief chief(dir.path());
  chief.RollBack(1);
  for (uint64_t i = 0; i < 600; ++i) chief.Reserve(1 + 2 * i, 1, 1);  // no runs: a large base
  chief.AwaitDurable();
  const std::string path = dir / "journal/journal-1";
  std::filesystem::create_directory(path + ".new");  // where the segment would be written
  chief.CutCommitted(0);
  chief.Settle(3);
  chief.AwaitDurable();
  chief.AwaitSegmentError();
  CHECK(chief.errors() == 0);
  CHECK(chief.segment_errors() == 1);
  const auto read = Journal::ReadAll(dir / "journal");
  REQUIRE(read.ok());
  CHECK(read->size() == 604);
}

}  // namespace
}  // namespace cohort

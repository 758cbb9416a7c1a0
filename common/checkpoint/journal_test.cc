#include "common/checkpoint/journal.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <thread>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/checkpoint/format_version.h"
#include "common/checkpoint/journal_format.h"
#include "common/testing/directory_test_util.h"
#include "proto/checkpoint.pb.h"

namespace {
std::atomic<int> fsync_error{0};  // 0: fsync works
std::atomic<int> good_fsyncs{0};  // calls that succeed before the error
}  // namespace

// Replaces the library's function.
extern "C" int fsync(int fd) {
  if (fsync_error == 0 || good_fsyncs-- > 0) return static_cast<int>(::syscall(SYS_fsync, fd));
  errno = fsync_error;
  return -1;
}

namespace cohort {
namespace {

using testing::Contains;
using testing::TestDirectory;

v1::JournalRecord Record(uint64_t number) {
  v1::JournalRecord record;
  record.set_number(number);
  v1::Settle* settle = record.mutable_settle();
  settle->set_watermark(number * 1000);
  for (uint64_t i = 0; i < number % 5; ++i) settle->add_finished(number * 1000 + i + 2);
  return record;
}

absl::Status Append(Journal* journal, const v1::JournalRecord& record) {
  return journal->AppendAll({&record, 1});
}

std::vector<uint64_t> NumbersOf(const std::vector<v1::JournalRecord>& records) {
  std::vector<uint64_t> numbers;
  for (const auto& record : records) numbers.push_back(record.number());
  return numbers;
}

TEST_CASE("the journal gives back every record of every generation in order") {
  TestDirectory dir;
  CHECK(Journal::ReadAll(dir / "none")->empty());
  uint64_t number = 0;
  for (uint64_t generation = 1; generation <= 3; ++generation) {
    auto journal = Journal::Create(dir / "journal");
    REQUIRE(journal.ok());
    CHECK((*journal)->generation() == generation);
    for (int i = 0; i < 4; ++i) REQUIRE(Append(journal->get(), Record(++number)).ok());
    CHECK((*journal)->fsyncs() == 4);
  }
  const auto records = Journal::ReadAll(dir / "journal");
  REQUIRE(records.ok());
  REQUIRE(records->size() == 12);
  for (uint64_t i = 0; i < 12; ++i) {
    CHECK((*records)[i].SerializeAsString() == Record(i + 1).SerializeAsString());
  }
}

TEST_CASE("several records are durable by one fsync") {
  TestDirectory dir;
  auto journal = Journal::Create(dir.path());
  REQUIRE(journal.ok());
  const std::vector<v1::JournalRecord> records = {Record(1), Record(2), Record(3)};
  REQUIRE((*journal)->AppendAll(records).ok());
  CHECK((*journal)->fsyncs() == 1);
  CHECK(NumbersOf(*Journal::ReadAll(dir.path())) == std::vector<uint64_t>{1, 2, 3});
}

TEST_CASE("a generation is taken once") {
  TestDirectory dir;
  testing::WriteAllBytes(dir / "generation-7", "");
  auto journal = Journal::Create(dir.path());
  REQUIRE(journal.ok());
  CHECK((*journal)->generation() == 8);
  // Many chiefs at a time: each gets a different generation, or an error because it was too slow.
  std::vector<std::thread> threads;
  std::vector<uint64_t> taken(8);
  for (size_t i = 0; i < taken.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto mine = Journal::Create(dir.path());
      if (mine.ok()) taken[i] = (*mine)->generation();
      if (!mine.ok() && !absl::IsAlreadyExists(mine.status())) taken[i] = 1;
    });
  }
  for (auto& thread : threads) thread.join();
  std::sort(taken.begin(), taken.end());
  CHECK(taken.back() > 8);
  for (size_t i = 1; i < taken.size(); ++i) {
    CHECK((taken[i] == 0 || (taken[i] > 8 && taken[i] != taken[i - 1])));
  }
}

TEST_CASE("a journal torn at any byte gives the whole records before it") {
  std::string bytes;
  std::vector<size_t> ends = {0};
  for (uint64_t n = 1; n <= 6; ++n) {
    REQUIRE(AppendJournalFrame(Record(n), &bytes).ok());
    ends.push_back(bytes.size());
  }
  for (size_t end = 0; end <= bytes.size(); ++end) {
    uint64_t torn = 0;
    const auto records = ParseJournal(std::string_view(bytes).substr(0, end), "test", &torn);
    REQUIRE(records.ok());
    const size_t whole =
        static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), end) - ends.begin()) - 1;
    CHECK(records->size() == whole);
    CHECK(torn == end - ends[whole]);
    // A file that grew before its bytes were written ends in zeros.
    const std::string zeros = bytes.substr(0, end) + std::string(100, '\0');
    const auto padded = ParseJournal(zeros, "test", nullptr);
    REQUIRE(padded.ok());
    CHECK(padded->size() >= whole);
    CHECK(padded->size() <= whole + 1);  // zeros may happen to be what was torn off
  }
}

TEST_CASE("damage before the tail is found, whichever byte it hits") {
  std::string bytes;
  size_t last = 0;
  for (uint64_t n = 1; n <= 6; ++n) {
    last = bytes.size();
    REQUIRE(AppendJournalFrame(Record(n), &bytes).ok());
  }
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = bytes;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      const auto records = ParseJournal(bad, "journal-3", nullptr);
      if (at < last) {
        REQUIRE(absl::IsDataLoss(records.status()));
        CHECK(Contains(std::string(records.status().message()), "journal-3: damaged at byte"));
      } else {
        REQUIRE(records.ok());
        CHECK(records->size() == 5);
      }
    }
  }
}

TEST_CASE("a missing record and a missing file are found") {
  TestDirectory dir;
  for (const std::vector<uint64_t>& numbers : {std::vector<uint64_t>{1, 2, 3}, {4, 5}, {6, 7}}) {
    auto journal = Journal::Create(dir.path());
    REQUIRE(journal.ok());
    for (const uint64_t n : numbers) REQUIRE(Append(journal->get(), Record(n)).ok());
  }
  REQUIRE(Journal::ReadAll(dir.path())->size() == 7);
  std::filesystem::remove(dir / "journal-2");
  dir.Write("generation-2", "");  // as older versions made it
  const auto records = Journal::ReadAll(dir.path());
  CHECK(absl::IsDataLoss(records.status()));
  CHECK(Contains(std::string(records.status().message()), "has record 6 where 4 is due"));
}

// Three incarnations: records 1 to 3, 4 to 5, none; a fourth has only claimed its generation.
struct Lives {
  Lives() {
    for (const std::vector<uint64_t>& numbers : {std::vector<uint64_t>{1, 2, 3}, {4, 5}, {}}) {
      auto journal = Journal::Create(dir.path());
      REQUIRE(journal.ok());
      for (const uint64_t n : numbers) REQUIRE(Append(journal->get(), Record(n)).ok());
    }
    dir.Write("generation-4", "");
  }
  // Cuts the last record off, with none left torn.
  void CutLast(const std::string& name) {
    const std::string bytes = testing::ReadAllBytes(dir / name);
    auto records = ParseJournal(bytes, name, nullptr);
    REQUIRE(records.ok());
    records->pop_back();
    std::string shorter;
    for (const auto& record : *records) REQUIRE(AppendJournalFrame(record, &shorter).ok());
    dir.Write(name, shorter);
  }
  std::string Refused(const JournalPosition& held = {}) {
    const absl::Status status = Journal::ReadAll(dir.path(), held).status();
    CHECK(ExitCodeOf(status) == ExitCode::kData);
    CHECK(Contains(std::string(status.message()), "move all journal-* out of " + dir.path()));
    return std::string(status.message());
  }
  TestDirectory dir;
};

TEST_CASE("a newest file that is missing is found by its claim") {
  Lives lives;
  REQUIRE(NumbersOf(*Journal::ReadAll(lives.dir.path())).back() == 5);
  std::filesystem::remove(lives.dir / "journal-3");
  CHECK(Contains(lives.Refused(), "journal-3 is missing: " + lives.dir / "generation-3"));
  std::filesystem::remove(lives.dir / "journal-2");
  CHECK(Contains(lives.Refused(), "journal-2 is missing: " + lives.dir / "generation-2"));
  std::filesystem::remove(lives.dir / "journal-1");  // all: as the text says
  CHECK(Journal::ReadAll(lives.dir.path(), {2, 5, "a manifest"})->empty());
  REQUIRE(Journal::Create(lives.dir.path()).ok());
  CHECK(Journal::ReadAll(lives.dir.path(), {2, 5, "a manifest"})->empty());
}

TEST_CASE(
    "a generation of an older version, whose claim says nothing, is asked for by a manifest") {
  Lives lives;
  for (const char* name : {"generation-2", "generation-3"}) lives.dir.Write(name, "");
  std::filesystem::remove(lives.dir / "journal-3");
  std::filesystem::remove(lives.dir / "journal-2");
  CHECK(NumbersOf(*Journal::ReadAll(lives.dir.path())).back() == 3);
  CHECK(NumbersOf(*Journal::ReadAll(lives.dir.path(), {2, 0, "an old manifest"})).back() == 3);
  CHECK(Contains(lives.Refused({2, 5, "a manifest"}),
                 "journal-2 is missing: a manifest names its record 5"));
}

TEST_CASE("a file that is cut between two records is found by what a manifest says") {
  Lives lives;
  CHECK(Journal::ReadAll(lives.dir.path(), {2, 5, "a manifest"}).ok());
  lives.CutLast("journal-2");
  CHECK(Journal::ReadAll(lives.dir.path()).ok());  // nothing can know it
  CHECK(Journal::ReadAll(lives.dir.path(), {2, 4, "a manifest"}).ok());
  CHECK(Contains(lives.Refused({2, 5, "a manifest"}),
                 "journal-2: ends with record 4, but a manifest was written when record 5 was"));
  lives.CutLast("journal-2");
  CHECK(Contains(lives.Refused({2, 5, "a manifest"}), "journal-2: ends before its first record"));
}

TEST_CASE("files before the first that is there must not be needed") {
  Lives lives;
  std::filesystem::remove(lives.dir / "journal-1");
  CHECK(Contains(lives.Refused(),
                 "journal-2: begins with record 4: the files before it are missing"));
  v1::JournalRecord first;
  first.set_number(4);
  first.mutable_start()->set_generation(2);
  v1::JournalRecord second = Record(5);
  SECTION("that continues from a checkpoint") { first.mutable_start()->set_from_manifest(true); }
  SECTION("that begins with a rollback") { second.mutable_rollback()->set_timeline(7); }
  std::string bytes;
  REQUIRE(AppendJournalFrame(first, &bytes).ok());
  REQUIRE(AppendJournalFrame(second, &bytes).ok());
  lives.dir.Write("journal-2", bytes);
  CHECK(NumbersOf(*Journal::ReadAll(lives.dir.path())) == std::vector<uint64_t>{4, 5});
}

v1::JournalRecord Base(uint64_t number) {
  v1::JournalRecord record;
  record.set_number(number);
  record.mutable_base()->set_reserved_end(number * 10);
  return record;
}

// Generation 1 with records 1 to 3; generation 2 with a base of them and record 4.
struct Segments {
  Segments() {
    auto first = Journal::Create(dir.path());
    REQUIRE(first.ok());
    REQUIRE((*first)->AppendAll(std::vector{Record(1), Record(2), Record(3)}).ok());
    former = testing::ReadAllBytes(dir / "journal-1");
    journal = *Journal::Create(dir.path());
    REQUIRE(journal->AppendAll(std::vector{Base(3), Record(4)}).ok());
  }
  std::vector<uint64_t> Numbers(const JournalPosition& held = {}) {
    const auto records = Journal::ReadAll(dir.path(), held);
    REQUIRE(records.ok());
    return NumbersOf(*records);
  }
  TestDirectory dir;
  std::string former;  // the file of generation 1
  std::unique_ptr<Journal> journal;
};

TEST_CASE("a segment that starts with a base replaces all files before it") {
  Segments s;
  CHECK(!std::filesystem::exists(s.dir / "journal-1"));
  CHECK(s.Numbers() == std::vector<uint64_t>{3, 4});
  const uint64_t behind = s.journal->bytes_after_base();
  REQUIRE(Append(s.journal.get(), Record(5)).ok());
  CHECK(s.journal->bytes_after_base() > behind);
  REQUIRE(s.journal->StartSegment(std::vector{Base(5)}).ok());
  CHECK(s.journal->bytes_after_base() == 0);
  CHECK(s.Numbers() == std::vector<uint64_t>{5});
  REQUIRE(Append(s.journal.get(), Record(6)).ok());
  CHECK(s.Numbers() == std::vector<uint64_t>{5, 6});
}

// A process may die, and power may fail, at any of these points.
TEST_CASE("a crash at any point of the start of a segment leaves a whole journal") {
  Segments s;
  REQUIRE(Append(s.journal.get(), Record(5)).ok());
  const std::string old_segment = testing::ReadAllBytes(s.dir / "journal-2");
  REQUIRE(s.journal->StartSegment(std::vector{Base(5)}).ok());
  const std::string new_segment = testing::ReadAllBytes(s.dir / "journal-2");
  s.journal.reset();
  SECTION("written in part or in whole, and not renamed") {
    for (size_t bytes = 0; bytes <= new_segment.size(); ++bytes) {
      s.dir.Write("journal-2", old_segment);
      s.dir.Write("journal-2.new", new_segment.substr(0, bytes));
      CHECK(s.Numbers({2, 4, "a manifest"}) == std::vector<uint64_t>{3, 4, 5});
    }
    auto next = Journal::Create(s.dir.path());
    REQUIRE((*next)->AppendAll(std::vector{Base(5), Record(6)}).ok());
    CHECK(!std::filesystem::exists(s.dir / "journal-2.new"));
    CHECK(s.Numbers() == std::vector<uint64_t>{5, 6});
  }
  SECTION("renamed, and older generations not deleted") {
    s.dir.Write("journal-1", s.former);
    CHECK(s.Numbers({2, 4, "a manifest"}) == std::vector<uint64_t>{5});
    auto next = Journal::Create(s.dir.path());
    CHECK(s.Numbers({2, 5, "a manifest"}) == std::vector<uint64_t>{5});  // it has written nothing
    REQUIRE((*next)->AppendAll(std::vector{Base(5), Record(6)}).ok());
    CHECK(!std::filesystem::exists(s.dir / "journal-1"));
    CHECK(!std::filesystem::exists(s.dir / "journal-2"));
    CHECK(s.Numbers({2, 5, "a manifest"}) == std::vector<uint64_t>{5, 6});
  }
}

TEST_CASE("the claims of a directory do not grow with the number of chiefs") {
  const TestDirectory dir;
  for (uint64_t i = 1; i <= 40; ++i) {
    auto journal = Journal::Create(dir.path());
    REQUIRE(journal.ok());
    CHECK((*journal)->generation() == i);
    REQUIRE((*journal)->StartSegment(std::vector{Base(5 + i)}).ok());
  }
  const auto names = ListDirectory(dir.path());
  CHECK(names->size() == 1 + 17);
  CHECK(std::ranges::count(*names, "generation-24") == 1);
  CHECK(NumbersOf(*Journal::ReadAll(dir.path())) == std::vector<uint64_t>{45});
}

TEST_CASE("a base stands for all positions up to its number, and for none after it") {
  Segments s;
  REQUIRE(s.journal->StartSegment(std::vector{Base(4)}).ok());
  CHECK(s.Numbers({1, 3, "an older manifest"}) == std::vector<uint64_t>{4});
  CHECK(s.Numbers({2, 4, "a manifest"}) == std::vector<uint64_t>{4});
  const absl::Status refused = Journal::ReadAll(s.dir.path(), {2, 5, "a manifest"}).status();
  CHECK(absl::IsDataLoss(refused));
  CHECK(Contains(std::string(refused.message()),
                 "journal-2: ends with record 4, but a manifest was written when record 5 was"));
  const absl::Status missing = Journal::ReadAll(s.dir.path(), {3, 6, "a manifest"}).status();
  CHECK(Contains(std::string(missing.message()),
                 "journal-3 is missing: a manifest names its record 6"));
  // A fenced chief's manifest may name what it still appended to its own file.
  CHECK(s.Numbers({1, 9, "a fenced chief's"}) == std::vector<uint64_t>{4});
}

TEST_CASE("a segment whose first record is damaged is refused, not passed over") {
  Segments s;
  s.journal.reset();
  s.dir.Write("journal-1", s.former);
  std::string bytes = testing::ReadAllBytes(s.dir / "journal-2");
  SECTION("with records after it") { bytes[10] = static_cast<char>(bytes[10] ^ 1); }
  SECTION("cut inside it") { bytes.resize(10); }
  s.dir.Write("journal-2", bytes);
  const absl::Status refused = Journal::ReadAll(s.dir.path()).status();
  CHECK(absl::IsDataLoss(refused));
  CHECK(Contains(std::string(refused.message()), s.dir / "journal-2"));
}

TEST_CASE("a segment that cannot be written leaves the old one in use") {
  Segments s;
  v1::JournalRecord big = Base(4);
  for (uint64_t i = 0; i < 2000; ++i) big.mutable_base()->add_open()->set_first_id(i + 1);
  {
    const testing::FullDisk full(2000);
    CHECK(absl::IsResourceExhausted(s.journal->StartSegment(std::vector{big})));
  }
  fsync_error = EIO;
  CHECK(absl::IsUnavailable(s.journal->StartSegment(std::vector{big})));
  fsync_error = 0;
  CHECK(!s.journal->broken());
  CHECK(!std::filesystem::exists(s.dir / "journal-2.new"));
  REQUIRE(Append(s.journal.get(), Record(5)).ok());
  CHECK(s.Numbers() == std::vector<uint64_t>{3, 4, 5});
}

TEST_CASE("a segment whose name may not be durable takes no records") {
  Segments s;
  good_fsyncs = 1;
  fsync_error = EIO;
  CHECK(absl::IsUnavailable(s.journal->StartSegment(std::vector{Base(4)})));
  fsync_error = 0;
  CHECK(s.journal->broken());
  CHECK(absl::IsUnavailable(Append(s.journal.get(), Record(5))));
  CHECK(s.Numbers() == std::vector<uint64_t>{4});
}

TEST_CASE("a journal of a newer format is refused with the Cohort that reads it") {
  TestDirectory dir;
  v1::JournalRecord start;
  start.set_number(1);
  start.mutable_start()->set_generation(1);
  {
    auto journal = Journal::Create(dir.path());
    REQUIRE(journal.ok());
    REQUIRE(Append(journal->get(), start).ok());
  }
  const auto records = Journal::ReadAll(dir.path());
  REQUIRE(records.ok());
  CHECK(records->front().start().format_version() == kJournalFormat);
  CHECK(records->front().start().cohort_version() == CohortVersion());
  const auto read = [&](uint32_t format) {
    start.mutable_start()->set_format_version(format);
    start.mutable_start()->set_cohort_version("7.1.0");
    std::string bytes;
    REQUIRE(AppendJournalFrame(start, &bytes).ok());
    testing::WriteAllBytes(dir / "journal-1", bytes);
    return Journal::ReadAll(dir.path()).status();
  };
  CHECK(read(0).ok());  // an older version wrote none
  const absl::Status refused = read(kJournalFormat + 1);
  CHECK(ExitCodeOf(refused) == ExitCode::kData);
  CHECK(refused.message() ==
        fmt::format("{} has format version {}; Cohort {} reads versions up to {}: use Cohort 7.1.0 "
                    "or newer",
                    dir / "journal-1", kJournalFormat + 1, CohortVersion(), kJournalFormat));
}

TEST_CASE("the fingerprint changes with every record, and not with an empty file") {
  Segments s;
  const auto before = Journal::Fingerprint(s.dir.path());
  REQUIRE(before.ok());
  REQUIRE(Journal::Create(s.dir.path()).ok());
  CHECK(*Journal::Fingerprint(s.dir.path()) == *before);
  REQUIRE(Append(s.journal.get(), Record(5)).ok());
  CHECK(*Journal::Fingerprint(s.dir.path()) != *before);
}

TEST_CASE("what a fenced chief still wrote is not part of the journal") {
  TestDirectory dir;
  auto old_chief = Journal::Create(dir.path());
  REQUIRE(old_chief.ok());
  REQUIRE((*old_chief)->AppendAll(std::vector{Record(1), Record(2)}).ok());
  auto new_chief = Journal::Create(dir.path());
  REQUIRE(new_chief.ok());
  v1::JournalRecord start;
  start.set_number(3);
  start.mutable_start()->set_generation(2);
  REQUIRE(Append(new_chief->get(), start).ok());
  REQUIRE((*old_chief)->AppendAll(std::vector{Record(3), Record(4)}).ok());
  const auto records = Journal::ReadAll(dir.path());
  REQUIRE(records.ok());
  CHECK(NumbersOf(*records) == std::vector<uint64_t>{1, 2, 3});
  CHECK(records->back().start().generation() == 2);
}

TEST_CASE("a full disk loses no record that was there and does not spoil the file") {
  TestDirectory dir;
  auto journal = Journal::Create(dir.path());
  REQUIRE(journal.ok());
  REQUIRE(Append(journal->get(), Record(1)).ok());
  v1::JournalRecord big = Record(2);
  for (uint64_t i = 0; i < 2000; ++i) big.mutable_settle()->add_finished(1'000'000 + i);
  {
    testing::FullDisk full(2000);
    CHECK(absl::IsResourceExhausted(Append(journal->get(), big)));
    CHECK(Journal::ReadAll(dir.path())->size() == 1);
    CHECK(Append(journal->get(), Record(2)).ok());  // a small one still fits
  }
  big.set_number(3);
  CHECK(Append(journal->get(), big).ok());
  CHECK(NumbersOf(*Journal::ReadAll(dir.path())) == std::vector<uint64_t>{1, 2, 3});
}

// As on storage that gives out its room only when it writes back.
TEST_CASE("a disk that is found full by fsync alone is no end either") {
  TestDirectory dir;
  auto journal = Journal::Create(dir.path());
  REQUIRE(journal.ok());
  REQUIRE(Append(journal->get(), Record(1)).ok());
  fsync_error = ENOSPC;
  for (int i = 0; i < 3; ++i) {
    CHECK(absl::IsResourceExhausted((*journal)->AppendAll(std::vector{Record(2), Record(3)})));
    CHECK(Journal::ReadAll(dir.path())->size() == 1);
  }
  fsync_error = 0;
  REQUIRE((*journal)->AppendAll(std::vector{Record(2), Record(3)}).ok());
  CHECK(NumbersOf(*Journal::ReadAll(dir.path())) == std::vector<uint64_t>{1, 2, 3});
  fsync_error = EIO;  // the state of the disk is unknown
  CHECK(absl::IsUnavailable(Append(journal->get(), Record(4))));
  fsync_error = 0;
  CHECK(absl::IsUnavailable(Append(journal->get(), Record(4))));
}

TEST_CASE("a generation that none can follow is refused with its name") {
  TestDirectory dir;
  const std::string name =
      GENERATE("generation-", "journal-") + std::string("18446744073709551615");
  dir.Write(name, "");
  const absl::Status refused = Journal::Create(dir.path()).status();
  CHECK(ExitCodeOf(refused) == ExitCode::kData);
  CHECK(Contains(std::string(refused.message()), dir / name + ": no generation can follow it"));
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
}

TEST_CASE("the error for damage names what to do, and doing it is enough") {
  TestDirectory dir;
  {
    auto journal = Journal::Create(dir.path());
    REQUIRE(journal.ok());
    REQUIRE((*journal)->AppendAll(std::vector{Record(1), Record(2)}).ok());
  }
  std::string bytes = testing::ReadAllBytes(dir / "journal-1");
  bytes[0] = static_cast<char>(bytes[0] ^ 1);
  dir.Write("journal-1", bytes);
  const absl::Status damaged = Journal::ReadAll(dir.path()).status();
  CHECK(absl::IsDataLoss(damaged));
  CHECK(Contains(std::string(damaged.message()), "move all journal-* out of " + dir.path()));
  std::filesystem::rename(dir / "journal-1", dir / "away");
  CHECK(Journal::ReadAll(dir.path())->empty());
  CHECK((*Journal::Create(dir.path()))->generation() == 2);
}

TEST_CASE("records without a number are refused") {
  TestDirectory dir;
  auto journal = Journal::Create(dir.path());
  REQUIRE(journal.ok());
  CHECK(absl::IsInvalidArgument(Append(journal->get(), v1::JournalRecord())));
}

}  // namespace
}  // namespace cohort

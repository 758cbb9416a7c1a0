#include "chief/job/stream_log.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <thread>

#include "chief/job/stream_watch.h"
#include "common/data/source_class.h"
#include "common/testing/directory_test_util.h"
#include "common/testing/status_test_util.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::Message;

v1::StreamFile FileOf(const std::string& path, const std::vector<uint64_t>& records) {
  v1::StreamFile file;
  file.set_path(path);
  for (const uint64_t n : records) {
    file.add_block_records(n);
    file.add_block_bytes(n * 2);
    file.set_places(file.places() + (n + 3) / 4);
  }
  return file;
}

StreamLog::Options InDirectory(const std::string& directory, uint32_t batch_size = 4) {
  return {.directory = directory, .batch_size = batch_size, .may_write = [] {
            return absl::OkStatus();
          }};
}

TEST_CASE("the list of a stream's files gives places that do not change") {
  const testing::TestDirectory directory;
  {
    const auto log = StreamLog::Open(InDirectory(directory.path()));
    REQUIRE(Message(log.status()) == "");
    REQUIRE((*log)->Append({FileOf("a", {8, 6}), FileOf("empty", {})}).ok());
    REQUIRE((*log)->Append({FileOf("b", {5})}).ok());
  }
  const auto log = StreamLog::Open(InDirectory(directory.path()));
  REQUIRE(Message(log.status()) == "");
  REQUIRE((*log)->files().size() == 3);
  CHECK((*log)->Find("b")->first_place() == 4);
  CHECK((*log)->Find("b")->first_block() == 2);
  CHECK((*log)->next_place() == 6);
  CHECK((*log)->Find("c") == nullptr);

  // What two lists read of the same directory has one successor.
  const auto replaced = StreamLog::Open(InDirectory(directory.path()));
  REQUIRE((*log)->Append({FileOf("c", {4})}).ok());
  // A chief in another container may have this process id.
  const std::string draft =
      directory.Write(fmt::format("{}/draft-{}", kStreamDirectory, ::getpid()), "of another");
  CHECK(absl::IsAborted((*replaced)->Append({FileOf("d", {4})})));
  CHECK(testing::ReadAllBytes(draft) == "of another");
  std::filesystem::remove(draft);

  REQUIRE((*log)->Compact([](const v1::StreamFile& file) { return file.path() != "c"; }).ok());
  REQUIRE((*log)->Append({FileOf("e", {9})}).ok());
  const auto again = StreamLog::Open(InDirectory(directory.path()));
  REQUIRE(Message(again.status()) == "");
  CHECK((*again)->files().size() == 2);
  CHECK((*again)->Find("e")->first_place() == 7);
  CHECK((*again)->next_place() == 10);
  // The base has replaced what was before it.
  CHECK(std::distance(std::filesystem::directory_iterator(directory / "stream"), {}) == 2);

  CHECK(Contains(Message(StreamLog::Open(InDirectory(directory.path(), 5)).status()),
                 "cut into batches of 4 records"));
  testing::WriteAllBytes(directory / "stream/segment-000000000005.json", "{");
  CHECK(absl::IsDataLoss(StreamLog::Open(InDirectory(directory.path())).status()));
  REQUIRE(DeleteStreamLog(directory.path(), [] { return absl::OkStatus(); }).ok());
  CHECK((*StreamLog::Open(InDirectory(directory.path())))->files().empty());
}

// A job that watches `in/*.csv`, and reads what it is given.
struct Watched {
  explicit Watched(const testing::TestDirectory& directory, uint64_t checkpointed = 0) {
    StreamWatch::Options options;
    *options.train.mutable_source_class() =
        *CompleteConfig(Sources(), ClassOf("csv", {{"path", ConfigOf(directory / "in/*.csv")}}));
    options.stream.set_poll_s(0.001);
    options.stream.set_end(directory / "END");
    options.batch_size = 4;
    options.checkpointed = checkpointed;
    options.oldest_needed = [] { return uint64_t{1} << 40; };
    options.clock = &clock;
    options.log = log.get();
    auto list = StreamLog::Open(InDirectory(directory.path()));
    REQUIRE(Message(list.status()) == "");
    watch = std::make_unique<StreamWatch>(options, *std::move(list));
  }
  // Waits until the condition holds; returns the error of the watch.
  template <typename Condition>
  absl::Status Until(const Condition& condition) {
    for (int i = 0; i < 60'000; ++i) {
      const auto news = watch->Take(position);
      if (!news.ok()) return news.status();
      for (const v1::StreamFile& file : news->files) {
        taken.push_back(file.path().substr(file.path().rfind('/') + 1));
        position = file.first_place() + file.places();
        watch->SetCheckpointed(position);
      }
      ended = news->ended;
      if (condition()) return absl::OkStatus();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return Internal("the condition does not come true");
  }

  const RealClock clock;
  const std::unique_ptr<Logger> log = Logger::Discard();
  std::unique_ptr<StreamWatch> watch;
  std::vector<std::string> taken;
  uint64_t position = 0;
  bool ended = false;
};

void Add(const testing::TestDirectory& directory, const std::string& name,
         const std::string& text = "x\n1\n2\n3\n4\n5\n") {
  directory.Write("in/.new", text);
  std::filesystem::rename(directory / "in/.new", directory / ("in/" + name));
}

TEST_CASE("a watch takes each file once, forgets those that were removed, and sees the end") {
  const testing::TestDirectory directory;
  std::filesystem::create_directory(directory / "in");
  Add(directory, "b.csv");
  {
    Watched w(directory);
    REQUIRE(Message(w.Until([&] { return w.taken.size() == 1; })) == "");
    // Each file is a segment of its own: the list is compacted.
    for (int i = 0; i < 300; ++i) {
      Add(directory, fmt::format("a{:03}.csv", i));
      const size_t expected = w.taken.size() + 1;
      REQUIRE(Message(w.Until([&] { return w.taken.size() == expected; })) == "");
      if (i > 0) std::filesystem::remove(directory / fmt::format("in/a{:03}.csv", i - 1));
    }
    CHECK(w.taken[1] == "a000.csv");
    CHECK(w.position == 2 * 301);
  }
  Watched w(directory, 2 * 301);
  CHECK(w.watch->figures().files_done + w.watch->figures().files_waiting < 100);
  CHECK(w.watch->figures().files_done + w.watch->figures().files_waiting >= 2);
  directory.Write("END", "");
  REQUIRE(Message(w.Until([&] { return w.ended; })) == "");
  CHECK(w.taken.empty());
}

TEST_CASE("a watch names a file that has changed, and one that was removed too early") {
  const testing::TestDirectory directory;
  std::filesystem::create_directory(directory / "in");
  Add(directory, "a.csv");
  Watched w(directory);
  REQUIRE(Message(w.Until([&] { return w.taken.size() == 1; })) == "");
  w.position = 1;
  REQUIRE(w.watch->Take(w.position).ok());
  w.watch->SetCheckpointed(1);
  CHECK(w.watch->figures().files_in_work == 1);
  std::filesystem::remove(directory / "in/a.csv");
  CHECK(Contains(Message(w.Until([] { return false; })),
                 directory / "in/a.csv: was removed before a checkpoint had all of its records"));
  directory.Write("in/a.csv", "x\n1\n");
  Watched again(directory);
  CHECK(Contains(Message(again.Until([] { return false; })),
                 directory / "in/a.csv: has changed since the stream took it"));
}

}  // namespace
}  // namespace cohort

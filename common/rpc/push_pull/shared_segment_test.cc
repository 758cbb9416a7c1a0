#include "common/rpc/push_pull/shared_segment.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

uint32_t Pid() { return static_cast<uint32_t>(getpid()); }

TEST_CASE("each end reads what the other writes") {
  auto made = SharedSegment::Create(1 << 16);
  REQUIRE(made.ok());
  SharedSegment& mine = **made;
  auto opened = SharedSegment::Open(Pid(), static_cast<uint32_t>(mine.fd()), mine.id(), 1 << 16);
  INFO(opened.status());
  REQUIRE(opened.ok());
  SharedSegment& other = **opened;
  CHECK(other.id() == mine.id());
  CHECK(other.size() == mine.size());
  std::memset(mine.At(64, 100).data(), 7, 100);
  CHECK(other.At(64, 100)[99] == 7);
  std::memset(other.At(1024, 8).data(), 9, 8);
  CHECK(mine.At(1024, 8)[7] == 9);
  made->reset();
  CHECK(other.At(64, 100)[99] == 7);  // a mapping outlives its creator
}

TEST_CASE("payloads lie after the id, within the segment, at multiples of 64") {
  auto made = SharedSegment::Create(4096);
  REQUIRE(made.ok());
  CHECK((*made)->Contains(64, 4032));
  CHECK((*made)->Contains(4096, 0));
  CHECK_FALSE((*made)->Contains(0, 8));
  CHECK_FALSE((*made)->Contains(65, 8));
  CHECK_FALSE((*made)->Contains(64, 4033));
  CHECK_FALSE((*made)->Contains(1 << 20, 0));
  CHECK_FALSE((*made)->Contains(128, UINT64_MAX - 64));
}

TEST_CASE("a segment that others only read cannot be mapped for writing") {
  auto made = SharedSegment::Create(4096, SharedSegment::Use::kRead);
  REQUIRE(made.ok());
  SharedSegment& mine = **made;
  std::memset(mine.At(64, 8).data(), 7, 8);
  const auto fd = static_cast<uint32_t>(mine.fd());
  const auto reader = SharedSegment::Open(Pid(), fd, mine.id(), 4096, SharedSegment::Use::kRead);
  REQUIRE(reader.ok());
  CHECK((*reader)->At(64, 8)[7] == 7);
  CHECK_FALSE(SharedSegment::Open(Pid(), fd, mine.id(), 4096).ok());
}

TEST_CASE("renewed memory has the same contents and is not what others have mapped") {
  auto made = SharedSegment::Create(1 << 16, SharedSegment::Use::kRead);
  REQUIRE(made.ok());
  SharedSegment& mine = **made;
  uint8_t* const data = mine.At(64, 1000).data();
  std::memset(data, 7, 1000);
  const auto open = [&] {
    auto opened = SharedSegment::Open(Pid(), static_cast<uint32_t>(mine.fd()), mine.id(), 1 << 16,
                                      SharedSegment::Use::kRead);
    INFO(opened.status());
    REQUIRE(opened.ok());
    return *std::move(opened);
  };
  const auto before = open();
  const uint64_t id = mine.id();
  mine.Renew();
  CHECK(mine.is_shared());
  CHECK(mine.id() != id);
  CHECK(mine.At(64, 1000).data() == data);
  CHECK(data[999] == 7);
  data[999] = 8;
  CHECK(before->At(64, 1000)[999] == 7);
  const auto after = open();
  CHECK(after->At(64, 1000)[999] == 8);
  data[0] = 9;
  CHECK(after->At(64, 1000)[0] == 9);
}

TEST_CASE("a file that is not a segment is refused with a reason") {
  auto made = SharedSegment::Create(4096);
  REQUIRE(made.ok());
  const auto fd = static_cast<uint32_t>((*made)->fd());
  const uint64_t id = (*made)->id();
  CHECK(absl::IsUnavailable(SharedSegment::Open(Pid(), 999'999, id, 4096).status()));
  CHECK(absl::IsInvalidArgument(SharedSegment::Open(Pid(), fd, id + 1, 4096).status()));
  CHECK(absl::IsInvalidArgument(SharedSegment::Open(Pid(), fd, id, 8192).status()));
  CHECK(absl::IsInvalidArgument(SharedSegment::Open(Pid(), fd, id, 0).status()));
  // A segment that could shrink while it is read.
  const int loose = memfd_create("cohort-payload", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(loose >= 0);
  REQUIRE(ftruncate(loose, 4096) == 0);
  REQUIRE(pwrite(loose, &id, sizeof(id), 0) == sizeof(id));
  CHECK(absl::IsInvalidArgument(
      SharedSegment::Open(Pid(), static_cast<uint32_t>(loose), id, 4096).status()));
  close(loose);
}

TEST_CASE("a file that is not a segment is not opened") {
  const testing::TestDirectory directory;
  const std::string path = directory.Write("file", "");
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(file >= 0);
  REQUIRE(ftruncate(file, 4096) == 0);
  const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  REQUIRE(inotify_add_watch(watch, path.c_str(), IN_OPEN) >= 0);
  const absl::Status status =
      SharedSegment::Open(Pid(), static_cast<uint32_t>(file), 7, 4096).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("is not a shared segment"));
  char events[1024];
  CHECK(read(watch, events, sizeof(events)) < 0);
  // The watch works.
  const int again = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  CHECK(read(watch, events, sizeof(events)) > 0);
  close(again);
  close(watch);
  close(file);
}

}  // namespace
}  // namespace cohort

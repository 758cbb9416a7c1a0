#include "ps_server/pins.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "common/rpc/push_pull/shared_memory.h"

namespace cohort {
namespace {

constexpr size_t kBytes = size_t{1} << 16;

uint32_t Pid() { return static_cast<uint32_t>(getpid()); }

// One version of some weights.
struct Version {
  BufferRef run = SharedMemory::Allocate(kBytes);
  BufferRef block = BufferRef::PartOf(run, 0, kBytes);

  void Supersede() { run->memory()->superseded = true; }
};

TEST_CASE("a pin ends when a later request says that the client has finished reading") {
  Pins pins(size_t{1} << 30);
  Version version;
  const auto client = pins.Find(1, Pid());
  REQUIRE(client != nullptr);
  REQUIRE(client->Pin(5, {version.block}));
  CHECK_FALSE(version.block.unique());
  const uint64_t reading[] = {5};
  client->Release(6, reading);
  CHECK_FALSE(version.block.unique());
  client->Release(5, {});  // a request that came late: it is not behind the pin
  CHECK_FALSE(version.block.unique());
  client->Release(7, {});
  CHECK(version.block.unique());
}

TEST_CASE("the client of another id does not end a pin") {
  Pins pins(size_t{1} << 30);
  Version version;
  const auto client = pins.Find(1, Pid());
  REQUIRE(client->Pin(5, {version.block}));
  pins.Find(2, Pid())->Release(100, {});
  CHECK_FALSE(version.block.unique());
  CHECK(pins.Find(1, Pid()) == client);  // another stream of the same client
  pins.Find(1, Pid())->Release(100, {});
  CHECK(version.block.unique());
}

TEST_CASE("older versions that are pinned are counted once, and limited") {
  Pins pins(kBytes);
  Version first;
  Version second;
  Version third;
  const auto a = pins.Find(1, Pid());
  const auto b = pins.Find(2, Pid());
  REQUIRE(a->Pin(1, {first.block}));
  REQUIRE(b->Pin(1, {first.block}));
  CHECK(pins.superseded_bytes() == 0);
  first.Supersede();
  CHECK(pins.superseded_bytes() == kBytes);
  REQUIRE(a->Pin(2, {second.block}));  // at the limit, not above
  second.Supersede();
  CHECK(pins.superseded_bytes() == 2 * kBytes);
  CHECK_FALSE(b->Pin(2, {third.block}));
  CHECK(third.block.unique());
  b->Release(3, {});
  a->Release(3, {});
  CHECK(pins.superseded_bytes() == 0);
  CHECK(b->Pin(4, {third.block}));
}

TEST_CASE("the end of a client's streams does not end its pins, but the end of its process does") {
  Pins pins(size_t{1} << 30);
  Version version;
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  REQUIRE(child > 0);
  auto client = pins.Find(1, static_cast<uint32_t>(child));
  REQUIRE(client != nullptr);
  REQUIRE(client->Pin(1, {version.block}));
  version.Supersede();
  client = nullptr;
  CHECK(pins.superseded_bytes() == kBytes);
  REQUIRE(kill(child, SIGKILL) == 0);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK(pins.superseded_bytes() == 0);
  CHECK(version.block.unique());
}

TEST_CASE("a process that does not exist is not lent anything") {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  Pins pins(size_t{1} << 30);
  CHECK(pins.Find(1, static_cast<uint32_t>(child)) == nullptr);
}

}  // namespace
}  // namespace cohort

#include "common/base/unique_fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <utility>

namespace cohort {
namespace {

// A pipe; its writing end is under test.
struct Pipe {
  Pipe() {
    int fds[2];
    REQUIRE(::pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0);
    reader = UniqueFd(fds[0]);
    writer = fds[1];
  }
  // The kernel reports it: the reader sees the end.
  bool Closed() const {
    char byte = 0;
    return ::read(reader.get(), &byte, 1) == 0;
  }

  UniqueFd reader;
  int writer = -1;
};

TEST_CASE("a descriptor is closed with its owner") {
  const Pipe pipe;
  {
    const UniqueFd fd(pipe.writer);
    CHECK(fd.ok());
    CHECK(fd.get() == pipe.writer);
    CHECK(!pipe.Closed());
  }
  CHECK(pipe.Closed());
}

TEST_CASE("a moved descriptor belongs to the other owner alone") {
  const Pipe one, two;
  UniqueFd to(two.writer);
  {
    UniqueFd from(one.writer);
    UniqueFd between(std::move(from));
    to = std::move(between);
    CHECK(!between.ok());  // NOLINT(bugprone-use-after-move)
    CHECK(two.Closed());   // what it had
  }
  CHECK(to.get() == one.writer);
  CHECK(!one.Closed());
  to = UniqueFd();
  CHECK(one.Closed());
}

TEST_CASE("a released descriptor is not closed") {
  const Pipe pipe;
  const int fd = UniqueFd(pipe.writer).Release();
  CHECK(!pipe.Closed());
  CHECK(UniqueFd(fd).Close() == 0);
  CHECK(pipe.Closed());
}

TEST_CASE("Close returns the result of the system once") {
  const Pipe pipe;
  UniqueFd fd(pipe.writer);
  REQUIRE(::close(pipe.writer) == 0);
  CHECK(fd.Close() == -1);
  CHECK(errno == EBADF);
  CHECK(!fd.ok());
  CHECK(fd.Close() == 0);
  CHECK(UniqueFd(-1).Close() == 0);
}

}  // namespace
}  // namespace cohort

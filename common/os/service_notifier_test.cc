#include "common/os/service_notifier.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "common/base/unique_fd.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

// The socket of a service manager. `name`: a path, or "@" and a name.
class Manager {
 public:
  explicit Manager(const std::string& name) : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const size_t size = offsetof(sockaddr_un, sun_path) + name.size() + (name[0] == '@' ? 0 : 1);
    REQUIRE(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), static_cast<socklen_t>(size)) ==
            0);
  }
  // The next message; "" if there is none.
  std::string Next() {
    char buffer[1024];
    const ssize_t size = recv(fd_.get(), buffer, sizeof(buffer), 0);
    return size < 0 ? "" : std::string(buffer, static_cast<size_t>(size));
  }

 private:
  UniqueFd fd_;
};

ServiceNotifier::Options To(const std::string& socket, Duration watchdog = Duration::zero()) {
  return {.socket = socket, .watchdog = watchdog, .status_interval = Duration::zero()};
}

TEST_CASE("a notifier sends one datagram per message to a path or an abstract socket") {
  const testing::TestDirectory directory;
  std::string name;
  SECTION("a path") { name = directory / "notify"; }
  SECTION("an abstract socket") { name = "@cohort-notifier-test-" + std::to_string(getpid()); }
  INFO(name);
  Manager manager(name);
  ServiceNotifier notifier(To(name));
  REQUIRE(notifier.active());
  notifier.Ready();
  notifier.Ready();
  CHECK(notifier.ready());
  CHECK(manager.Next() == "READY=1");
  CHECK(manager.Next().empty());
  notifier.SetStatus("step 1");
  notifier.SetStatus("step 1");
  notifier.SetStatus("two\nlines");
  CHECK(manager.Next() == "STATUS=step 1");
  CHECK(manager.Next() == "STATUS=two lines");
  notifier.Extend(std::chrono::seconds(30));
  CHECK(manager.Next() == "EXTEND_TIMEOUT_USEC=30000000");
  notifier.Stopping(std::chrono::seconds(9));
  notifier.Stopping(std::chrono::seconds(5));
  CHECK(manager.Next() == "STOPPING=1");
  CHECK(manager.Next() == "EXTEND_TIMEOUT_USEC=9000000");
  CHECK(manager.Next() == "EXTEND_TIMEOUT_USEC=5000000");
  CHECK(manager.Next().empty());
}

TEST_CASE("a notifier sends a keep-alive only if every loop has made a turn") {
  const testing::TestDirectory directory;
  Manager manager(directory / "notify");
  ServiceNotifier notifier(To(directory / "notify", std::chrono::nanoseconds(4)));
  CHECK(!notifier.watch_due());  // not before it is ready
  notifier.Watch({1, 1});
  notifier.Ready();
  CHECK(manager.Next() == "READY=1");
  CHECK(notifier.watch_due());
  notifier.Watch({1, 1});
  CHECK(manager.Next() == "WATCHDOG=1");
  for (const std::vector<uint64_t>& stuck : {std::vector<uint64_t>{1, 1}, {2, 1}, {1, 2}}) {
    notifier.Watch(stuck);
    CHECK(manager.Next().empty());
  }
  notifier.Watch({2, 2});
  CHECK(manager.Next() == "WATCHDOG=1");
  notifier.Watch({});  // no loop proves that it works
  CHECK(manager.Next().empty());
}

TEST_CASE("a keep-alive is due after a quarter of the longest time between two") {
  const testing::TestDirectory directory;
  Manager manager(directory / "notify");
  ServiceNotifier notifier(To(directory / "notify", std::chrono::hours(4)));
  notifier.Ready();
  REQUIRE(notifier.watch_due());
  notifier.Watch({1});
  CHECK(!notifier.watch_due());
  ServiceNotifier without(To(directory / "notify"));
  without.Ready();
  CHECK(!without.watch_due());
}

TEST_CASE("without a socket a notifier does nothing") {
  for (const char* name : {"", "@", "/", "relative", "/nonexistent/notify"}) {
    ServiceNotifier notifier(To(name, std::chrono::seconds(1)));
    CHECK(!notifier.active());
    notifier.Ready();
    notifier.SetStatus("x");
    CHECK(!notifier.watch_due());
    notifier.Stopping(std::chrono::seconds(1));
  }
  CHECK(!ServiceNotifier(To("/" + std::string(200, 'x'))).active());
}

TEST_CASE("the environment of a service is read once, and children do not inherit it") {
  setenv("NOTIFY_SOCKET", "/run/x", 1);
  setenv("WATCHDOG_USEC", "3000000", 1);
  setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
  const ServiceNotifier::Options options = ServiceNotifier::FromEnvironment();
  CHECK(options.socket == "/run/x");
  CHECK(options.watchdog == std::chrono::seconds(3));
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) {
    CHECK(std::getenv(name) == nullptr);
  }
  setenv("WATCHDOG_USEC", "3000000", 1);
  setenv("WATCHDOG_PID", "1", 1);  // the watchdog of another process
  CHECK(ServiceNotifier::FromEnvironment().watchdog == Duration::zero());
  for (const char* wrong : {"x", "-1", "", "1x"}) {
    setenv("WATCHDOG_USEC", wrong, 1);
    CHECK(ServiceNotifier::FromEnvironment().watchdog == Duration::zero());
  }
}

}  // namespace
}  // namespace cohort

#include "tests/cluster/fault_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <utility>

#include "tests/cluster/http2_scanner.h"
#include "tests/cluster/log_lines.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLimit{10'000};

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// A blocking socket.
class Peer {
 public:
  explicit Peer(UniqueFd fd) : fd_(std::move(fd)) {}

  bool Send(const std::string& text) {
    return send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  void Say(const std::string& text) { REQUIRE(Send(text)); }
  // The next bytes up to this total number; fewer if the other end has closed the connection.
  std::string Hear(size_t bytes) {
    std::string text;
    char buffer[4096];
    while (text.size() < bytes) {
      if (!WaitReadable(fd_.get(), kLimit)) return text + "(nothing more)";
      const ssize_t got = recv(fd_.get(), buffer, std::min(sizeof(buffer), bytes - text.size()), 0);
      if (got <= 0) return text + (got == 0 ? "(end)" : "(reset)");
      text.append(buffer, static_cast<size_t>(got));
    }
    return text;
  }
  bool HearsNothing() { return !WaitReadable(fd_.get(), milliseconds(50)); }

 private:
  const UniqueFd fd_;
};

// A server and its clients, with a proxy between them.
class World {
 public:
  World() : listen_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    REQUIRE(bind(listen_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(listen(listen_.get(), 16) == 0);
    getsockname(listen_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    auto started = FaultProxy::Start(ntohs(address.sin_port));
    REQUIRE(started.ok());
    proxy_ = *std::move(started);
  }

  std::unique_ptr<Peer> Dial() {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = Loopback(proxy_->port());
    REQUIRE(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    return std::make_unique<Peer>(std::move(fd));
  }
  std::unique_ptr<Peer> Accept() {
    REQUIRE(WaitReadable(listen_.get(), kLimit));
    return std::make_unique<Peer>(UniqueFd(accept4(listen_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  }
  bool NobodyComes() { return !WaitReadable(listen_.get(), milliseconds(50)); }
  FaultProxy* operator->() { return proxy_.get(); }

 private:
  const UniqueFd listen_;
  std::unique_ptr<FaultProxy> proxy_;
};

// A frame of HTTP/2 with its head.
std::string FrameOf(char type, const std::string& body) {
  std::string head(9, '\0');
  head[1] = static_cast<char>(body.size() >> 8);
  head[2] = static_cast<char>(body.size());
  head[3] = type;
  return head + body;
}
const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

TEST_CASE("a proxy passes bytes both ways, and the ends") {
  World world;
  auto client = world.Dial();
  client->Say("hello");
  auto server = world.Accept();
  REQUIRE(server->Hear(5) == "hello");
  const std::string big(3 << 20, 'x');
  bool sent = false;
  std::thread sender([&] { sent = server->Send(big); });
  const std::string heard = client->Hear(big.size());
  sender.join();
  REQUIRE(sent);
  REQUIRE(heard == big);
  client.reset();
  REQUIRE(server->Hear(1) == "(end)");
}

TEST_CASE("held bytes wait until the proxy is healed") {
  World world;
  world->Inject({.kind = Fault::Kind::kHold, .way = Way::kToClient});
  auto client = world.Dial();
  client->Say("question");
  auto server = world.Accept();
  REQUIRE(server->Hear(8) == "question");
  server->Say("answer");
  REQUIRE(world->WaitHeld(Traffic::kAll, Way::kToClient, kLimit));
  REQUIRE(client->HearsNothing());
  world->Heal();
  REQUIRE(client->Hear(6) == "answer");
}

TEST_CASE("a cut comes at its byte, once") {
  World world;
  world->Inject({.kind = Fault::Kind::kCut, .way = Way::kToServer, .after_bytes = 4});
  auto client = world.Dial();
  client->Say("12345678");
  auto server = world.Accept();
  REQUIRE(server->Hear(8) == "1234(reset)");
  REQUIRE(client->Hear(1) == "(reset)");
  REQUIRE(world->counters(Traffic::kAll, Way::kToServer).cut == 1);
  auto again = world.Dial();
  again->Say("12345678");
  REQUIRE(world.Accept()->Hear(8) == "12345678");
}

TEST_CASE("dropped bytes never come, and nothing after them") {
  World world;
  world->Inject({.kind = Fault::Kind::kDrop, .way = Way::kToServer, .after_bytes = 2});
  auto client = world.Dial();
  client->Say("abcdef");
  auto server = world.Accept();
  REQUIRE(server->Hear(2) == "ab");
  REQUIRE(world->WaitUntil(
      Traffic::kAll, Way::kToServer, [](const auto& c) { return c.dropped == 4; }, kLimit));
  world->Heal();
  client->Say("ghi");
  REQUIRE(server->HearsNothing());
}

TEST_CASE("a delay is at least as long as it should be") {
  World world;
  world->Inject({.kind = Fault::Kind::kDelay, .way = Way::kToServer, .delay = milliseconds(120)});
  auto client = world.Dial();
  auto server = world.Accept();
  const auto begin = std::chrono::steady_clock::now();
  client->Say("late");
  REQUIRE(server->Hear(4) == "late");
  REQUIRE(std::chrono::steady_clock::now() - begin >= milliseconds(120));
}

TEST_CASE("connections share a rate, of one way") {
  World world;
  constexpr size_t kBytes = 400'000;
  world->Inject({.kind = Fault::Kind::kRate, .way = Way::kToServer, .bytes_per_second = 2'000'000});
  const auto begin = std::chrono::steady_clock::now();
  std::chrono::steady_clock::duration took[2];
  std::vector<std::thread> clients;
  for (auto& one : took) {
    auto client = world.Dial();
    auto server = world.Accept();
    clients.emplace_back([&, c = std::move(client), s = std::move(server)] {
      std::thread sender([&c] { c->Send(std::string(kBytes, 'x')); });
      if (s->Hear(kBytes) == std::string(kBytes, 'x')) {
        one = std::chrono::steady_clock::now() - begin;
      }
      // The other way is not slow.
      if (!s->Send("y") || c->Hear(1) != "y") one = {};
      sender.join();
    });
  }
  for (std::thread& client : clients) client.join();
  CHECK(std::max(took[0], took[1]) >= milliseconds(380));
  CHECK(std::min(took[0], took[1]) >= milliseconds(250));  // half of it would be 200
}

TEST_CASE("faults are for one kind of traffic, at a message") {
  World world;
  world->Inject({.kind = Fault::Kind::kCut,
                 .way = Way::kToServer,
                 .traffic = Traffic::kData,
                 .after_messages = 2});
  auto control = world.Dial();
  const std::string hello = kPreface + FrameOf(1, "/cohort.v1.ParameterServer/Control");
  control->Say(hello);
  auto control_end = world.Accept();
  REQUIRE(control_end->Hear(hello.size()) == hello);
  auto data = world.Dial();
  const std::string opening = kPreface + FrameOf(1, "/cohort.v1.ParameterServer/PushPull");
  data->Say(opening + FrameOf(0, "one") + FrameOf(0, "") + FrameOf(0, "two") + FrameOf(0, "three"));
  auto data_end = world.Accept();
  const std::string all = opening + FrameOf(0, "one") + FrameOf(0, "") + FrameOf(0, "two");
  REQUIRE(data_end->Hear(1000) == all + "(reset)");
  for (int i = 0; i < 4; ++i) control->Say(FrameOf(0, "ping"));
  REQUIRE(control_end->Hear(4 * 13).size() == 4 * 13);
  REQUIRE(world->counters(Traffic::kControl, Way::kToServer).messages == 4);
  REQUIRE(world->counters(Traffic::kData, Way::kToServer).messages == 2);
}

TEST_CASE("a partition resets what there is and what comes, until it is healed") {
  World world;
  auto client = world.Dial();
  auto server = world.Accept();
  world->Partition(Traffic::kAll);
  REQUIRE(client->Hear(1) == "(reset)");
  REQUIRE(server->Hear(1) == "(reset)");
  REQUIRE(world.Dial()->Hear(1) == "(reset)");
  world->Heal();
  auto again = world.Dial();
  again->Say("back");
  auto end = world.Accept();
  while (true) {  // the connection that was made in between may come first
    const std::string heard = end->Hear(4);
    if (heard == "back") break;
    end = world.Accept();
  }
}

TEST_CASE("data frames are found however the bytes are cut") {
  const std::string bytes = kPreface + FrameOf(4, "settings") + FrameOf(0, std::string(300, 'd')) +
                            FrameOf(8, "wind") + FrameOf(0, "") + FrameOf(0, "x");
  std::deque<uint64_t> whole;
  Http2Scanner(true).Scan(bytes, &whole);
  REQUIRE(whole == std::deque<uint64_t>{24 + 17, 24 + 17 + 309 + 13 + 9});
  std::deque<uint64_t> single;
  Http2Scanner scanner(true);
  for (const char c : bytes) scanner.Scan(std::string_view(&c, 1), &single);
  REQUIRE(single == whole);
}

}  // namespace
}  // namespace cohort

#include "chief/core/servers.h"

#include <catch2/catch.hpp>

#include "chief/core/core_parts_test_util.h"
#include "chief/core/served_variables.h"
#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/cluster/protocol_version.h"

namespace cohort {
namespace {

// Two servers with one tablet each.
struct Serving : CoreParts {
  Serving() : CoreParts(1, 2), variables(&context, &outbox, &membership, &servers, &homes) {
    for (uint32_t i = 0; i < 2; ++i) {
      v1::TabletSpec* const tablet = layout.add_tablets();
      tablet->set_tablet(i);
      tablet->set_ps(i);
      Adopt(PsTask(static_cast<int>(i)));
      servers.OnHello(static_cast<int>(i), HelloWith(i));
    }
    variables.Restore({.timeline = 1, .layout_hash = 7});
    variables.SetLayout(layout, 7);
  }
  v1::PsHello HelloWith(uint32_t tablet) {
    v1::PsHello hello;
    hello.set_job("test");
    hello.set_timeline(1);
    hello.set_term(3 + tablet);
    hello.add_tablets(tablet);
    return hello;
  }
  v1::Layout layout;
  ServedVariables variables;
};

TEST_CASE("a server is lost when it is away for longer than the grace") {
  Serving s;
  s.servers.OnDown(1);
  CHECK(s.servers.Lost().empty());
  s.context.now_us += MicrosFromSeconds(s.context.options.server_grace_s);
  CHECK(s.servers.Lost() == std::vector<int>{1});
  s.servers.OnHello(1, s.HelloWith(1));
  CHECK(s.servers.Lost().empty());
  const absl::Status error = s.servers.LostError(1, "no route");
  CHECK(IsRetryable(error));
  CHECK(error.message() == "ps:1 (p1:1) is lost: no route");
}

TEST_CASE("routes name each tablet's term and each server's address") {
  Serving s;
  s.homes.Assign(s.layout, 4);
  s.homes.SendRoutes(0, s.layout);
  CHECK(s.sent(0).empty());  // the worker is not adopted
  s.Adopt(WorkerTask(0));
  s.homes.SendRoutes(0, s.layout);
  REQUIRE(s.sent(0).size() == 1);
  CHECK(s.sent(0)[0].routes().terms(1) == 4);
  CHECK(s.sent(0)[0].routes().servers(1).address() == "p1:1");
  CHECK(s.servers.NextTerm(2) == 5);
  CHECK(s.servers.NextTerm(9) == 9);
}

TEST_CASE("a route says which requests and entries of copies the version of its server reads") {
  Serving s;
  v1::PsHello hello = s.HelloWith(1);
  const auto route = [&](uint32_t minor) {
    hello.mutable_protocol_version()->set_major(kProtocolVersion.major);
    hello.mutable_protocol_version()->set_minor(minor);
    s.servers.OnHello(1, hello);
    return s.servers.RouteOf(1);
  };
  CHECK_FALSE(route(5).compact());
  CHECK((route(6).compact() && !route(6).copy_requests()));
  CHECK((route(7).compact() && route(7).copy_requests()));
}

TEST_CASE("the durable watermark is published to the servers that are adopted") {
  Serving s;
  s.membership.member(PsTask(1)).link = Link::kAdopting;
  s.servers.PublishWatermark(12);
  REQUIRE(s.sent_to_ps(0).size() == 1);
  CHECK(s.sent_to_ps(0)[0].watermark().settled_watermark() == 12);
  CHECK(s.sent_to_ps(1).empty());
}

TEST_CASE("servers share the memory of a host, or of a control group there") {
  CoreParts parts(1, 4);
  Servers servers(&parts.context, &parts.outbox, &parts.membership);
  const auto hello = [&](int ps, const char* host, const char* pool) {
    v1::PsHello message;
    message.set_host_id(host);
    message.set_memory_pool(pool);
    servers.OnHello(ps, message);
  };
  for (int ps = 0; ps < 4; ++ps) hello(ps, ps < 3 ? "a" : "b", "");
  CHECK(servers.SharingMemory() == std::vector<uint32_t>{3, 3, 3, 1});
  for (int ps = 0; ps < 4; ++ps) hello(ps, ps < 3 ? "a" : "b", ps == 0 ? "pod" : "other");
  CHECK(servers.SharingMemory() == std::vector<uint32_t>{1, 2, 2, 1});
}

TEST_CASE("the variables are resumed only if all servers have exactly the tablets") {
  Serving s;
  CHECK(s.variables.CanResume());
  SECTION("another layout") { s.variables.SetLayout(s.layout, 8); }
  SECTION("a server that is away") { s.membership.member(PsTask(0)).link = Link::kDown; }
  SECTION("a server of another timeline") { s.context.timeline = 2; }
  SECTION("a server without its tablet") { s.servers.OnHello(0, v1::PsHello()); }
  SECTION("a worker that knows another journal") { s.variables.OnWorkerTimeline(2); }
  CHECK(!s.variables.CanResume());
}

TEST_CASE("a rollback raises the timeline and all terms, and is served when it is assigned") {
  Serving s;
  s.variables.Resume();
  v1::Manifest manifest;
  manifest.set_epoch(4);
  manifest.mutable_chief()->set_next_closure(30);
  manifest.mutable_chief()->add_pending()->set_id(22);
  manifest.mutable_chief()->add_pending()->set_id(21);
  const auto target = s.variables.PlanRollback(&manifest, "path", /*reserved_end=*/25);
  REQUIRE(target.ok());
  CHECK(!s.variables.served());
  CHECK(target->timeline == 2);
  CHECK(target->term == 5);
  CHECK(target->reserved_end == 30);
  CHECK(target->epoch == 4);
  CHECK(target->pending == std::vector<uint64_t>{21, 22});
  s.context.timeline = 2;
  s.variables.OnTimelineRaised(*target);
  CHECK(s.variables.began_from() == "path");
  CHECK(!s.variables.CanResume());
  s.variables.OnAssigned(*target);
  CHECK(s.variables.served());
  CHECK(s.variables.CanResume());
  // A rollback that fails is repeated at a higher timeline.
  CHECK(s.variables.PlanRollback(nullptr, "", 30)->timeline == 3);
}

TEST_CASE("a worker of a timeline that the journal does not know ends the chief") {
  Serving s;
  s.variables.OnWorkerTimeline(1);
  CHECK(s.variables.CheckWorkerTimeline(WorkerTask(0)).ok());
  s.variables.OnWorkerTimeline(5);
  const absl::Status error = s.variables.CheckWorkerTimeline(WorkerTask(0));
  CHECK(ExitCodeOf(error) == ExitCode::kUnavailable);
}

}  // namespace
}  // namespace cohort

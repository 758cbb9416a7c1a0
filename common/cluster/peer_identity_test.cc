#include "common/cluster/peer_identity.h"

#include <catch2/catch.hpp>

namespace cohort {
namespace {

TEST_CASE("an identity is a URI with cluster, role and perhaps index") {
  const auto one = ParsePeerIdentity("cohort://mnist.lab/ps/12");
  REQUIRE(one.ok());
  CHECK(*one == PeerIdentity{"mnist.lab", PeerRole::kPs, 12});
  CHECK(one->Covers(PeerRole::kPs, 12));
  CHECK_FALSE(one->Covers(PeerRole::kPs, 1));
  CHECK_FALSE(one->Covers(PeerRole::kWorker, 12));
  const auto any = ParsePeerIdentity("cohort://a/client");
  REQUIRE(any.ok());
  CHECK(any->Covers(PeerRole::kClient, 7));
  for (const char* uri : {"cohort://mnist.lab/ps/12", "cohort://a/client", "cohort://x/chief/0"}) {
    CHECK(ParsePeerIdentity(uri)->ToString() == uri);
  }
}

TEST_CASE("another text is no identity") {
  for (const char* uri :
       {"", "cohort:/a/ps/0", "https://a/ps/0", "cohort://", "cohort:///ps/0", "cohort://a",
        "cohort://a/", "cohort://a/master", "cohort://a/PS/0", "cohort://a/ps/", "cohort://a/ps/-1",
        "cohort://a/ps/01", "cohort://a/ps/1x", "cohort://a/ps/0/1", "cohort://a b/ps/0",
        "cohort://a/ps/99999999999", "cohort://a/ps/0 ", "cohort://a@b/ps/0"}) {
    INFO(uri);
    CHECK_FALSE(ParsePeerIdentity(uri).ok());
  }
}

TEST_CASE("a certificate has exactly one identity") {
  CHECK(FindPeerIdentity({"spiffe://x/y", "cohort://a/ps/1"})->index == 1);
  CHECK_FALSE(FindPeerIdentity({}).ok());
  CHECK_FALSE(FindPeerIdentity({"https://a/ps/1"}).ok());
  CHECK_FALSE(FindPeerIdentity({"cohort://a/ps/1", "cohort://a/chief"}).ok());
  CHECK_FALSE(FindPeerIdentity({"cohort://a/ps/1", "cohort://a/bad"}).ok());
}

}  // namespace
}  // namespace cohort

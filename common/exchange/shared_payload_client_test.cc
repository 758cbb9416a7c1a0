#include "common/exchange/shared_payload_client.h"

#include <catch2/catch.hpp>
#include <vector>

#include "common/rpc/push_pull/payload_fields.h"
#include "common/rpc/push_pull/push_pull_codec.h"

namespace cohort {
namespace {

constexpr size_t kRequest = 100 << 10;
constexpr size_t kAnswer = 200 << 10;

v1::SharedPayload Accept(const v1::SharedPayload& offer) {
  v1::SharedPayload word;
  word.set_id(offer.id());
  return word;
}

// A client whose server has accepted its segment.
struct Sharing {
  Sharing() {
    CHECK_FALSE(client.BeginRequest(kRequest));
    offer = *client.Offer();
    CHECK(client.OnResponse(Accept(offer)) != nullptr);
    client.OnAnswered(kAnswer);
    // The answer was larger than was set aside: a new segment.
    CHECK_FALSE(client.BeginRequest(kRequest));
    offer = *client.Offer();
    CHECK(offer.answer_bytes() >= kAnswer);
    CHECK(client.OnResponse(Accept(offer)) != nullptr);
    client.OnAnswered(kAnswer);
  }
  SharedPayloadClient client;
  v1::SharedPayload offer;
};

TEST_CASE("small payloads travel, and no segment is offered") {
  SharedPayloadClient client;
  CHECK_FALSE(client.BeginRequest(1000));
  CHECK(client.Offer() == nullptr);
}

TEST_CASE("once accepted, payloads are placed, and answers read where they are") {
  Sharing s;
  REQUIRE(s.client.BeginRequest(kRequest));
  const std::vector<uint8_t> first(100, 1);
  const std::vector<uint8_t> second(50'000, 2);
  const std::vector<Bytes> payload = {first, second};
  const v1::SharedPayload word = *s.client.Place(payload, /*sequence=*/1, /*areas=*/nullptr);
  CHECK(word.id() == s.offer.id());
  auto segment = SharedSegment::Open(word.pid(), word.fd(), word.id(), word.bytes());
  REQUIRE(segment.ok());
  REQUIRE(word.begin_size() == 2);
  for (int i = 0; i < 2; ++i) {
    REQUIRE((*segment)->Contains(word.begin(i), word.length(i)));
    const auto bytes = (*segment)->At(word.begin(i), word.length(i));
    CHECK(std::equal(bytes.begin(), bytes.end(), payload[i].begin(), payload[i].end()));
  }
  v1::SharedPayload answer = Accept(word);
  answer.add_begin(word.answer_begin());
  answer.add_length(5);
  (*segment)->At(word.answer_begin(), 5)[4] = 42;
  const SharedSegment* const own = s.client.OnResponse(answer);
  REQUIRE(own != nullptr);
  const PushPullDecoder no_frame;
  PayloadFields fields;
  REQUIRE(fields.Find(no_frame, &answer, own).ok());
  REQUIRE(fields.size() == 1);
  REQUIRE(fields[0].size() == 1);
  CHECK(fields[0][0].size() == 5);
  CHECK(fields[0][0][4] == 42);
  answer.set_begin(0, word.bytes());
  CHECK_FALSE(fields.Find(no_frame, &answer, own).ok());
}

TEST_CASE("what lies in an area is placed without a copy once the server has mapped the area") {
  Sharing s;
  PushAreas areas;
  const BufferRef area = areas.Allocate(PushAreas::kLeastBytes);
  REQUIRE(area);
  SharedMemory* const memory = SharedMemory::Of(*area.get());
  REQUIRE(memory != nullptr);
  const Bytes pushed(area->data() + 12, 50'000);
  const std::vector<uint8_t> small(100, 1);
  const std::vector<Bytes> payload = {small, pushed};
  REQUIRE(s.client.BeginRequest(kRequest));
  CHECK(s.client.InPlace(pushed, &areas) == nullptr);
  v1::SharedPayload answer = Accept(*s.client.Place(payload, 1, &areas));
  answer.add_mapped(memory->segment().id());
  REQUIRE(s.client.OnResponse(answer) != nullptr);
  s.client.OnAnswered(kAnswer);
  REQUIRE(s.client.BeginRequest(kRequest));
  CHECK(s.client.InPlace(pushed, &areas) == memory);
  CHECK(s.client.InPlace(small, &areas) == nullptr);
  const v1::SharedPayload word = *s.client.Place(payload, 2, &areas);
  REQUIRE(word.in_segment_size() == 2);
  CHECK(word.in_segment(0) == 0);
  REQUIRE(word.in_segment(1) == 1);
  CHECK(word.segments(0).id() == memory->segment().id());
  CHECK(word.begin(1) == SharedSegment::kAlignment + 12);
  CHECK(word.length(1) == 50'000);
}

TEST_CASE("an area is renewed if an exchange ends without an answer to a request that names it") {
  PushAreas areas;
  CHECK_FALSE(areas.Allocate(PushAreas::kLeastBytes - 1));
  const BufferRef first = areas.Allocate(PushAreas::kLeastBytes);
  const BufferRef second = areas.Allocate(PushAreas::kLeastBytes);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(areas.Find(second->data() + 100) == SharedMemory::Of(*second.get()));
  std::vector<uint8_t> other(1);
  CHECK(areas.Find(other.data()) == nullptr);
  first->data()[5] = 42;
  const uint64_t id = SharedMemory::Of(*first.get())->segment().id();
  areas.NoteSent(1, SharedMemory::Of(*first.get()));
  areas.NoteSent(2, SharedMemory::Of(*second.get()));
  areas.NoteSent(3, SharedMemory::Of(*first.get()));
  areas.NoteAnswered(1);
  areas.NoteAnswered(2);
  CHECK(areas.EndExchange() == 1);
  CHECK(SharedMemory::Of(*first.get())->segment().id() != id);
  CHECK(first->data()[5] == 42);
  CHECK(areas.EndExchange() == 0);
}

TEST_CASE("a request that follows an unanswered one gets memory of its own") {
  Sharing s;
  REQUIRE(s.client.BeginRequest(kRequest));
  CHECK_FALSE(s.client.BeginRequest(kRequest));
  const v1::SharedPayload offer = *s.client.Offer();
  CHECK(offer.id() != s.offer.id());
  // The late answer to the first says nothing about the second's segment.
  v1::SharedPayload late = Accept(s.offer);
  late.add_begin(s.offer.answer_begin());
  late.add_length(8);
  CHECK(s.client.OnResponse(late) == nullptr);
}

TEST_CASE("a server that does not answer in kind is not asked again") {
  SharedPayloadClient client;
  CHECK_FALSE(client.BeginRequest(kRequest));
  REQUIRE(client.Offer() != nullptr);
  client.OnAnswered(kAnswer);
  CHECK_FALSE(client.BeginRequest(kRequest));
  CHECK(client.Offer() == nullptr);
}

}  // namespace
}  // namespace cohort

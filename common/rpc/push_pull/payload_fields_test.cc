#include "common/rpc/push_pull/payload_fields.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "common/base/status.h"
#include "common/rpc/push_pull/push_pull_codec.h"
#include "common/rpc/push_pull/shared_segment.h"
#include "proto/parameter_server.pb.h"
#include "proto/shared_payload.pb.h"

namespace cohort {
namespace {

// A decoder that holds a message with these payloads.
struct Message {
  explicit Message(const std::vector<std::string>& payloads) {
    PushPullEncoder encoder;
    for (const std::string& payload : payloads) {
      encoder.BeginPayload();
      BufferRef bytes = BufferRef::Allocate(payload.size());
      std::memcpy(bytes->data(), payload.data(), payload.size());
      encoder.Append(bytes, 0, payload.size());
    }
    REQUIRE(decoder.Decode(encoder.Finish(v1::PushPullHeader()), &header).ok());
  }
  v1::PushPullHeader header;
  PushPullDecoder decoder;
};

std::string Text(PayloadFields::Pieces pieces) {
  std::string text;
  for (const auto& piece : pieces) text.append(piece.begin(), piece.end());
  return text;
}

TEST_CASE("fields of a frame, then of a segment") {
  PayloadFields fields;
  const Message in_frame({"one", "", std::string(5000, 'x')});
  REQUIRE(fields.Find(in_frame.decoder, nullptr, nullptr).ok());
  REQUIRE(fields.size() == 3);
  CHECK(Text(fields[0]) == "one");
  CHECK(fields[1].empty());
  CHECK(fields.bytes(2) == 5000);
  CHECK(Text(fields[2]) == std::string(5000, 'x'));
  CHECK_FALSE(fields.in_shared_memory());
  fields.Forget(2);
  CHECK(fields[2].empty());
  const auto segment = *SharedSegment::Create(4096);
  std::memcpy(segment->At(64, 5).data(), "hello", 5);
  v1::SharedPayload word;
  word.add_begin(64);
  word.add_length(5);
  const Message nothing({});
  REQUIRE(fields.Find(nothing.decoder, &word, segment.get()).ok());
  REQUIRE(fields.size() == 1);
  CHECK(Text(fields[0]) == "hello");
  CHECK(fields.in_shared_memory());
}

TEST_CASE("fields of the frame, of the own segment and of others in one message") {
  PayloadFields fields;
  const auto segment = *SharedSegment::Create(4096);
  const auto other = *SharedSegment::Create(4096);
  std::memcpy(segment->At(64, 3).data(), "own", 3);
  std::memcpy(other->At(70, 5).data(), "other", 5);
  v1::SharedPayload word;
  const auto add = [&](uint64_t begin, uint64_t length, uint32_t number) {
    word.add_begin(begin);
    word.add_length(length);
    word.add_in_segment(number);
  };
  add(70, 5, 2);  // an offset in another's segment need not be aligned
  add(0, 5, 0);
  add(64, 3, 0);
  const Message message({"frame"});
  const SharedSegment* const others[] = {nullptr, other.get()};
  REQUIRE(fields.Find(message.decoder, &word, segment.get(), others).ok());
  REQUIRE(fields.size() == 3);
  CHECK(Text(fields[0]) == "other");
  CHECK(Text(fields[1]) == "frame");
  CHECK(Text(fields[2]) == "own");
  CHECK(std::vector<uint8_t>(fields.in_peers().begin(), fields.in_peers().end()) ==
        std::vector<uint8_t>{1, 0, 0});
  const auto refused = [&] {
    return absl::IsInvalidArgument(fields.Find(message.decoder, &word, segment.get(), others));
  };
  SECTION("a segment that is not mapped") { word.set_in_segment(0, 1); }
  SECTION("a segment that is not named") { word.set_in_segment(0, 3); }
  SECTION("bytes outside") { word.set_length(0, 4096 - 69); }
  SECTION("the id") { word.set_begin(0, 8); }
  SECTION("more payloads than the frame has") { add(0, 5, 0); }
  SECTION("fewer payloads than the frame has") { word.set_begin(1, 64); }
  SECTION("a number too few") { word.mutable_in_segment()->RemoveLast(); }
  CHECK(refused());
}

TEST_CASE("a description of shared payloads that is wrong is refused") {
  PayloadFields fields;
  const auto segment = *SharedSegment::Create(4096);
  const Message nothing({});
  v1::SharedPayload word;
  word.add_begin(4096);
  word.add_length(8);
  CHECK(fields.Find(nothing.decoder, &word, nullptr).ok());  // its segment is not mapped here
  CHECK(fields.size() == 0);
  CHECK(absl::IsInvalidArgument(fields.Find(nothing.decoder, &word, segment.get())));
  word.set_begin(0, 64);
  CHECK(fields.Find(nothing.decoder, &word, segment.get()).ok());
  const Message both({"one"});
  CHECK(absl::IsInvalidArgument(fields.Find(both.decoder, &word, segment.get())));
  word.add_begin(128);
  CHECK(absl::IsInvalidArgument(fields.Find(nothing.decoder, &word, segment.get())));
}

}  // namespace
}  // namespace cohort

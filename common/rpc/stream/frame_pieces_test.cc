#include "common/rpc/stream/frame_pieces.h"

#include <catch2/catch.hpp>
#include <string>

#include "common/rpc/stream/rpc_test_util.h"
#include "proto/frame_piece.pb.h"

namespace cohort {
namespace {

constexpr size_t kPiece = 100;
constexpr FrameJoiner::Limits kLimits{
    .piece_bytes = kPiece, .message_bytes = 10'000, .unfinished_bytes = 20'000};

std::string Text(size_t bytes) {
  std::string text(bytes, ' ');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 31 >> 3);
  return text;
}

// The text in slices of 64 bytes, as a socket may bring it.
Frame Scattered(const std::string& text) {
  std::vector<grpc::Slice> slices;
  for (size_t i = 0; i < text.size(); i += 64) slices.emplace_back(text.substr(i, 64));
  return Frame(slices.data(), slices.size());
}

TEST_CASE("a frame that was cut is joined again, whatever its length") {
  std::atomic<size_t> unfinished{0};
  FrameJoiner joiner(kLimits, &unfinished);
  for (const size_t bytes : {101, 199, 200, 201, 300, 5000, 9999}) {
    const std::string text = Text(bytes);
    std::vector<Frame> pieces = CutFrame(Scattered(text), kPiece);
    REQUIRE(pieces.size() == (bytes + kPiece - 1) / kPiece);
    for (size_t i = 0; i < pieces.size(); ++i) {
      Frame piece = Scattered(TextOf(pieces[i]));
      REQUIRE(joiner.Takes(piece));
      const auto whole = joiner.Add(std::move(piece));
      REQUIRE(whole.ok());
      CHECK(*whole == (i + 1 == pieces.size()));
      CHECK(unfinished == std::min((i + 1) * kPiece, bytes));
    }
    CHECK(TextOf(joiner.Finish()) == text);
    CHECK(unfinished == 0);
  }
}

TEST_CASE("a piece is a protobuf message") {
  const std::string text = Text(250);
  std::string joined;
  for (const Frame& frame : CutFrame(Scattered(text), kPiece)) {
    v1::FramePiece piece;
    REQUIRE(piece.ParseFromString(TextOf(frame)));
    CHECK(piece.whole() == 250);
    joined += piece.data();
  }
  CHECK(joined == text);
}

TEST_CASE("other frames are no pieces, also if one is as long") {
  std::atomic<size_t> unfinished{0};
  const FrameJoiner joiner(kLimits, &unfinished);
  const size_t length = CutFrame(Scattered(Text(101)), kPiece)[0].size();
  CHECK_FALSE(joiner.Takes(FrameOf("")));
  CHECK_FALSE(joiner.Takes(FrameOf(Text(length))));
  CHECK_FALSE(joiner.Takes(Scattered(Text(10 * kPiece))));
}

TEST_CASE("what is no piece of the message that has begun is refused, and nothing is held") {
  std::atomic<size_t> unfinished{0};
  FrameJoiner joiner(kLimits, &unfinished);
  std::vector<Frame> pieces = CutFrame(Scattered(Text(350)), kPiece);
  std::vector<Frame> others = CutFrame(Scattered(Text(351)), kPiece);
  REQUIRE(joiner.Add(std::move(pieces[0])).ok());
  Frame bad;
  SECTION("another message") { bad = FrameOf("hello"); }
  SECTION("no bytes") { bad = Frame(); }
  SECTION("a piece of another length") { bad = std::move(pieces[3]); }
  SECTION("a piece of another message") { bad = std::move(others[1]); }
  CHECK(joiner.Takes(bad));
  CHECK(absl::IsInvalidArgument(joiner.Add(std::move(bad)).status()));
  CHECK(unfinished == 0);
}

// The header of a piece names a size, for which nothing is allocated.
TEST_CASE("a message over the limit is refused with its first piece") {
  std::atomic<size_t> unfinished{0};
  FrameJoiner joiner(kLimits, &unfinished);
  std::vector<Frame> pieces = CutFrame(Scattered(Text(10'001)), kPiece);
  const absl::Status status = joiner.Add(std::move(pieces[0])).status();
  CHECK(absl::IsResourceExhausted(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("10001 bytes is over the limit"));
  CHECK(unfinished == 0);
}

TEST_CASE("all joiners together hold only so much, and give it back") {
  std::atomic<size_t> unfinished{0};
  {
    FrameJoiner first(kLimits, &unfinished);
    FrameJoiner second(kLimits, &unfinished);
    FrameJoiner third(kLimits, &unfinished);
    for (FrameJoiner* joiner : {&first, &second}) {
      std::vector<Frame> pieces = CutFrame(Scattered(Text(9999)), kPiece);
      for (size_t i = 0; i + 1 < pieces.size(); ++i) {
        REQUIRE(joiner->Add(std::move(pieces[i])).ok());
      }
    }
    CHECK(unfinished == 19'800);
    std::vector<Frame> pieces = CutFrame(Scattered(Text(9999)), kPiece);
    REQUIRE(third.Add(std::move(pieces[0])).ok());
    REQUIRE(third.Add(std::move(pieces[1])).ok());
    CHECK(absl::IsResourceExhausted(third.Add(std::move(pieces[2])).status()));
    CHECK(unfinished == 19'800);
  }
  CHECK(unfinished == 0);
}

}  // namespace
}  // namespace cohort

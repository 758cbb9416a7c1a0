#include "common/rpc/push_pull/push_pull_codec.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "common/rpc/stream/rpc_test_util.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

BufferRef MakeBuffer(const std::string& text) {
  BufferRef buffer = BufferRef::Allocate(text.size());
  std::memcpy(buffer->data(), text.data(), text.size());
  return buffer;
}

std::string Pattern(size_t size, char first) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(first + i % 89);
  return text;
}

std::string CopyOf(const PayloadView& view) {
  std::string text(view.size(), '\0');
  view.CopyTo(text.data());
  return text;
}

// The same bytes, cut into slices of these sizes in rotation.
Frame Cut(const std::string& bytes, const std::vector<size_t>& sizes) {
  std::vector<grpc::Slice> slices;
  size_t at = 0;
  for (size_t i = 0; at < bytes.size(); ++i) {
    const size_t length = std::min(sizes[i % sizes.size()], bytes.size() - at);
    slices.emplace_back(bytes.data() + at, length);
    at += length;
  }
  return Frame(slices.data(), slices.size());
}

v1::PushPullHeader SampleHeader() {
  v1::PushPullHeader header;
  header.set_sequence(7);
  header.set_settled_watermark(123456789);
  auto* push = header.mutable_push();
  push->mutable_id()->set_closure(42);
  push->set_weight(32.5);
  auto* entry = push->add_sections()->add_entries();
  entry->set_shard(3);
  entry->set_kind(v1::GRADIENT);
  entry->set_count(1000);
  header.mutable_pull()->add_sections()->set_tablet(5);
  return header;
}

v1::PushPullRequest SampleRequest() {
  v1::PushPullRequest request;
  *request.mutable_header() = SampleHeader();
  for (size_t size : {0, 1, 30, 200, 5000}) request.add_payload(Pattern(size, 'a'));
  return request;
}

TEST_CASE("a frame is exactly the bytes of the protobuf message") {
  const std::string dense = Pattern(10'000, 'd'), rows = Pattern(3000, 'r'),
                    keys = Pattern(80, 'k');
  BufferRef buffer = MakeBuffer(dense);
  PayloadLoan loan;
  CodecCounters counters;
  PushPullEncoder encoder(&counters);
  encoder.BeginPayload();
  encoder.Append(buffer, 0, 4000);  // two pieces of one payload
  encoder.Append(buffer, 4000, 6000);
  encoder.BeginPayload();  // empty
  encoder.BeginPayload();
  encoder.Append(MakeBuffer(keys), 0, keys.size());
  encoder.BeginPayload();
  encoder.AppendBorrowed(rows.data(), rows.size(), &loan);
  encoder.Append(buffer, 9990, 10);
  CHECK(encoder.payload_count() == 4);
  CHECK(encoder.payload_bytes() == 13'090);
  Frame frame = encoder.Finish(SampleHeader());
  CHECK(encoder.payload_count() == 0);

  v1::PushPullRequest expected;
  *expected.mutable_header() = SampleHeader();
  expected.add_payload(dense);
  expected.add_payload("");
  expected.add_payload(keys);
  expected.add_payload(rows + dense.substr(9990));
  CHECK(TextOf(frame) == expected.SerializeAsString());

  CHECK(counters.bytes_shared == 13'000);
  CHECK(counters.bytes_inlined == 90);
  CHECK_FALSE(buffer.unique());  // shared with the frame
  CHECK_FALSE(loan.idle());
  frame.Clear();
  CHECK(buffer.unique());
  CHECK(loan.idle());
}

TEST_CASE("appended bytes that are not sent are released") {
  BufferRef buffer = MakeBuffer(Pattern(5000, 'x'));
  {
    PushPullEncoder encoder;
    encoder.Append(buffer, 0, 5000);  // begins its own payload
    CHECK_FALSE(buffer.unique());
    encoder.Clear();
    CHECK(buffer.unique());
    encoder.Append(buffer, 0, 5000);
  }
  CHECK(buffer.unique());
}

TEST_CASE("shared bytes are not copied by the sender, and contiguous ones are seen in place") {
  BufferRef buffer = MakeBuffer(Pattern(100'000, 'x'));
  PushPullEncoder encoder;
  encoder.Append(buffer, 100, 90'000);
  Frame frame = encoder.Finish(SampleHeader());
  PushPullDecoder decoder;
  v1::PushPullHeader header;
  REQUIRE(decoder.Decode(std::move(frame), &header).ok());
  REQUIRE(decoder.payload_count() == 1);
  CHECK(decoder.payload(0).contiguous() == buffer->data() + 100);
  decoder.Clear();
  CHECK(buffer.unique());
}

TEST_CASE("a frame is read wherever its slices are cut") {
  const v1::PushPullRequest request = SampleRequest();
  const std::string bytes = request.SerializeAsString();
  PushPullDecoder decoder;
  v1::PushPullHeader header;
  const std::vector<std::vector<size_t>> cuts = {{1},  {2},       {3, 1},  {7, 0, 5},
                                                 {64}, {1 << 20}, {100, 3}};
  for (const auto& sizes : cuts) {
    REQUIRE(decoder.Decode(Cut(bytes, sizes), &header).ok());
    CHECK(header.SerializeAsString() == request.header().SerializeAsString());
    REQUIRE(decoder.payload_count() == 5);
    for (int i = 0; i < 5; ++i) {
      const PayloadView view = decoder.payload(static_cast<size_t>(i));
      CHECK(CopyOf(view) == request.payload(i));
      std::string spans;
      view.ForEachSpan([&](std::span<const uint8_t> s) { spans.append(s.begin(), s.end()); });
      CHECK(spans == request.payload(i));
      PayloadCursor cursor(view);
      std::string pieces;
      while (cursor.remaining() > 0) {
        char piece[33];
        const size_t length = std::min(sizeof(piece), cursor.remaining());
        cursor.Read(piece, length);
        pieces.append(piece, length);
      }
      CHECK(pieces == request.payload(i));
    }
    CHECK(decoder.payload(0).contiguous() != nullptr);
  }
}

TEST_CASE("any valid order and unknown fields are accepted, as protobuf does") {
  v1::PushPullHeader first, second;
  first.set_sequence(9);
  first.mutable_push()->set_attempt(2);
  second.mutable_push()->set_place(4);
  const auto field = [](char tag, const std::string& bytes) {
    return std::string(1, tag) + static_cast<char>(bytes.size()) + bytes;
  };
  const std::string bytes = field(0x12, "before") + std::string("\x18\x96\x01") +  // 3: varint
                            field(0x0a, first.SerializeAsString()) + std::string("\x21") +
                            std::string(8, 'x') +                              // 4: fixed64
                            field(0x2a, "unknown") + field(0x12, "between") +  // 5: bytes
                            std::string("\x33\x08\x01\x3b\x3c\x34") +          // 6: group, 7 within
                            field(0x0a, second.SerializeAsString()) +          // merged
                            std::string("\x3d") + std::string(4, 'y') +        // 7: fixed32
                            std::string("\x10\x05") +                          // 2 as a varint
                            field(0x12, "after");
  v1::PushPullRequest reference;
  REQUIRE(reference.ParseFromString(bytes));
  PushPullDecoder decoder;
  v1::PushPullHeader header;
  REQUIRE(decoder.Decode(FrameOf(bytes), &header).ok());
  CHECK(header.SerializeAsString() == reference.header().SerializeAsString());
  CHECK(header.push().attempt() == 2);
  CHECK(header.push().place() == 4);
  REQUIRE(decoder.payload_count() == 3);
  CHECK(CopyOf(decoder.payload(0)) == "before");
  CHECK(CopyOf(decoder.payload(1)) == "between");
  CHECK(CopyOf(decoder.payload(2)) == "after");
}

TEST_CASE("an empty frame is an empty message") {
  PushPullDecoder decoder;
  v1::PushPullResponseHeader header;
  header.set_sequence(1);
  CHECK(decoder.Decode(Frame(), &header).ok());
  CHECK(header.sequence() == 0);
  CHECK(decoder.payload_count() == 0);
}

TEST_CASE("malformed frames are refused with a reason") {
  PushPullDecoder decoder;
  v1::PushPullHeader header;
  const struct {
    std::string bytes;
    const char* contains;
  } cases[] = {
      {std::string("\x12\x05", 2) + "abcd", "payload"},
      {std::string("\x12", 1), "payload"},
      {std::string("\x0a\x02\x08", 3), "header"},
      {std::string("\x0a\x01\xff", 3), "header"},
      {std::string("\x00", 1), "tag"},
      {std::string("\xff\xff\xff\xff\xff\xff", 6), "tag"},
      {std::string("\x1c", 1), "unknown field"},          // the end of a group that never began
      {std::string("\x1b\x08\x01", 3), "unknown field"},  // a group without an end
      {std::string("\x1e", 1), "unknown field"},          // wire type 6
      {std::string("\x12\xff\xff\xff\xff\x0f", 6), "payload"},  // a length of 4 GB
      {std::string(300, '\x1b'), "unknown field"},              // groups too deep
  };
  for (const auto& c : cases) {
    const absl::Status status = decoder.Decode(FrameOf(c.bytes), &header);
    INFO(status);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()),
               Catch::Contains(c.contains) && Catch::Contains("PushPullHeader"));
    CHECK(decoder.payload_count() == 0);
  }
  std::string many;
  for (size_t i = 0; i <= PushPullDecoder::kMaxPayloads; ++i) many.append("\x12\x00", 2);
  CHECK_FALSE(decoder.Decode(FrameOf(many), &header).ok());
}

TEST_CASE("a header or shared-payload field that is too long is refused unread") {
  PushPullDecoder decoder;
  v1::PushPullHeader header;
  v1::PushPullHeader half;
  half.mutable_push()->add_sections();
  // An unknown field, so that the size fits exactly.
  const size_t padding = PushPullDecoder::kMaxHeaderBytes / 2 - half.ByteSizeLong() - 5;
  std::string bytes = half.SerializeAsString() + "\x7a";
  for (size_t rest = padding; bytes.size() < half.ByteSizeLong() + 5; rest >>= 7) {
    bytes += static_cast<char>(bytes.size() < half.ByteSizeLong() + 4 ? rest | 0x80 : rest);
  }
  bytes.append(padding, 'x');
  REQUIRE(bytes.size() == PushPullDecoder::kMaxHeaderBytes / 2);
  const auto field = [](const char* tag, const std::string& value) {
    std::string text = tag;
    for (size_t rest = value.size(); text.size() < 5; rest >>= 7) {
      text += static_cast<char>(text.size() < 4 ? rest | 0x80 : rest);
    }
    return text + value;
  };
  const std::string two = field("\x0a", bytes) + field("\x0a", bytes);
  REQUIRE(decoder.Decode(FrameOf(two), &header).ok());
  CHECK(header.push().sections_size() == 2);
  const auto refused = [&](const std::string& frame) {
    return std::string(decoder.Decode(FrameOf(frame), &header).message());
  };
  CHECK_THAT(refused(two + std::string("\x0a\x01\x00", 3)),
             Catch::Contains("a header that is too long"));
  CHECK_THAT(refused(two + std::string("\x1a\x01\x00", 3)),
             Catch::Contains("a shared-payload field that is too long"));
  CHECK(decoder.Decode(FrameOf(two), &header).ok());
}

// Applies one to four random edits.
std::string Mutate(std::string bytes, std::mt19937* random) {
  for (uint32_t edits = 1 + (*random)() % 4; edits > 0 && !bytes.empty(); --edits) {
    const size_t at = (*random)() % bytes.size();
    const size_t length = 1 + (*random)() % 8;
    switch ((*random)() % 5) {
      case 0:
        bytes[at] = static_cast<char>((*random)());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << (*random)() % 8));
        break;
      case 2:
        bytes.erase(at, length);
        break;
      case 3:
        bytes.insert(at, bytes.substr((*random)() % bytes.size(), length));
        break;
      default:
        bytes.resize(at);
    }
  }
  return bytes;
}

TEST_CASE("the decoder accepts and reads mutated frames exactly like protobuf") {
  const uint32_t seed = 12345;
  std::mt19937 random(seed);
  v1::PushPullRequest small = SampleRequest();
  small.mutable_payload()->DeleteSubrange(3, 2);
  const std::string original = small.SerializeAsString();
  PushPullDecoder decoder;
  v1::PushPullHeader header;
  int accepted = 0;
  constexpr int kFrames = 40'000;
  for (int i = 0; i < kFrames; ++i) {
    const std::string bytes = Mutate(original, &random);
    v1::PushPullRequest reference;
    const bool valid = reference.ParseFromString(bytes);
    const bool ok = decoder.Decode(Cut(bytes, {1 + random() % 40, 1 + random() % 9}), &header).ok();
    if (ok != valid) FAIL("seed " << seed << ", frame " << i << ": protobuf says " << valid);
    if (!ok) continue;
    ++accepted;
    bool same = header.SerializeAsString() == reference.header().SerializeAsString() &&
                decoder.payload_count() == static_cast<size_t>(reference.payload_size());
    for (int p = 0; same && p < reference.payload_size(); ++p) {
      same = CopyOf(decoder.payload(static_cast<size_t>(p))) == reference.payload(p);
    }
    if (!same) FAIL("seed " << seed << ", frame " << i << " is read otherwise");
  }
  CHECK(accepted > kFrames / 100);  // both outcomes were seen
  CHECK(accepted < kFrames * 99 / 100);
}

TEST_CASE("the steady state allocates nothing in the codec") {
  CodecCounters counters;
  PushPullEncoder encoder(&counters);
  PushPullDecoder decoder(&counters);
  v1::PushPullHeader header;
  const v1::PushPullHeader sent = SampleHeader();
  BufferRef big = MakeBuffer(Pattern(50'000, 'b'));
  std::vector<char> received(50'000);
  int64_t warm = 0;
  for (int i = 0; i < 100; ++i) {
    if (i == 2) warm = counters.allocations;
    encoder.BeginPayload();
    encoder.Append(big, 0, 50'000);
    encoder.BeginPayload();
    encoder.Append(big, 100, 100);
    REQUIRE(decoder.Decode(encoder.Finish(sent), &header).ok());
    decoder.payload(0).CopyTo(received.data());
  }
  CHECK(counters.allocations == warm);
  CHECK(counters.frames_encoded == 100);
  CHECK(counters.frames_decoded == 100);
  CHECK(counters.bytes_copied == 100 * 50'000);
  CHECK(counters.bytes_shared == 100 * 50'000);
}

TEST_CASE("a decoder may be kept with its frame") {
  PushPullEncoder encoder;
  encoder.Append(MakeBuffer("0123456789"), 0, 10);
  v1::PushPullHeader header;
  PushPullDecoder first;
  REQUIRE(first.Decode(encoder.Finish(SampleHeader()), &header).ok());
  PushPullDecoder kept = std::move(first);
  CHECK(CopyOf(kept.payload(0)) == "0123456789");
}

}  // namespace
}  // namespace cohort

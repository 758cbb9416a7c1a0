#include "common/rpc/push_pull/push_pull_codec.h"
#include "proto/parameter_server.pb.h"
#include "tests/fuzz/fuzz_target.h"

namespace cohort::fuzz {
namespace {

// Cuts the input into slices whose sizes come from its own bytes.
Frame Cut(std::string_view bytes) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size();) {
    const size_t most = 1 + static_cast<uint8_t>(bytes[at]) % 23;
    const std::string_view piece = bytes.substr(at, most);
    slices.emplace_back(piece.data(), piece.size());
    at += piece.size();
  }
  return Frame(slices.data(), slices.size());
}

void Require(bool condition) {
  if (!condition) std::abort();
}

// The decoder must read every request that protobuf's own parser accepts, and as it does. It may
// accept more: the functions of protobuf that it uses take tags of more than five bytes.
absl::Status DecodePushPull(std::string_view bytes) {
  static PushPullDecoder decoder;
  static v1::PushPullHeader header;
  v1::PushPullRequest reference;
  const bool valid = reference.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  const absl::Status status = decoder.Decode(Cut(bytes), &header);
  if (!valid) return status;
  Require(status.ok());
  Require(header.SerializeAsString() == reference.header().SerializeAsString());
  Require(decoder.payload_count() == static_cast<size_t>(reference.payload_size()));
  for (int i = 0; i < reference.payload_size(); ++i) {
    const auto view = decoder.payload(static_cast<size_t>(i));
    std::string copy(view.size(), '\0');
    view.CopyTo(copy.data());
    Require(copy == reference.payload(i));
  }
  return absl::OkStatus();
}

std::vector<std::string> PushPullSeeds() {
  v1::PushPullRequest request;
  request.mutable_header()->set_sequence(7);
  request.mutable_header()->mutable_push()->mutable_id()->set_closure(99);
  request.mutable_header()->mutable_push()->add_sections()->add_entries()->set_count(4);
  request.add_payload(std::string(16, 'x'));
  request.add_payload("");
  return {request.SerializeAsString()};
}

}  // namespace

FuzzTarget PushPullTarget() { return {"push_pull", DecodePushPull, PushPullSeeds}; }

}  // namespace cohort::fuzz

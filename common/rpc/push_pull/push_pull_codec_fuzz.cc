// libFuzzer target: the decoder must accept and read every input as protobuf's own parser does.
//   cmake --preset asan -DCOHORT_FUZZERS=ON && ninja -C build/asan push_pull_codec_fuzz
//   build/asan/bin/push_pull_codec_fuzz -max_total_time=60
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/rpc/push_pull/push_pull_codec.h"
#include "proto/parameter_server.pb.h"

namespace {

// Cuts the input into slices whose sizes come from its own bytes.
cohort::Frame Cut(const uint8_t* data, size_t size) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < size;) {
    const size_t length = std::min<size_t>(1 + data[at] % 23, size - at);
    slices.emplace_back(data + at, length);
    at += length;
  }
  return cohort::Frame(slices.data(), slices.size());
}

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static cohort::PushPullDecoder decoder;
  static cohort::v1::PushPullHeader header;
  cohort::v1::PushPullRequest reference;
  const bool valid = reference.ParseFromArray(data, static_cast<int>(size));
  Require(decoder.Decode(Cut(data, size), &header).ok() == valid);
  if (!valid) return 0;
  Require(header.SerializeAsString() == reference.header().SerializeAsString());
  Require(decoder.payload_count() == static_cast<size_t>(reference.payload_size()));
  for (int i = 0; i < reference.payload_size(); ++i) {
    const auto view = decoder.payload(static_cast<size_t>(i));
    std::string bytes(view.size(), '\0');
    view.CopyTo(bytes.data());
    Require(bytes == reference.payload(i));
  }
  return 0;
}

#include "common/rpc/stream/frame.h"

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include "common/base/status.h"
#include "common/rpc/stream/hand_off.h"

namespace cohort {

Frame SerializeToFrame(const google::protobuf::MessageLite& message) {
  const size_t size = message.ByteSizeLong();
  grpc::Slice slice(size);
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return Frame(&slice, 1);
}

Frame SerializeToFrame(const google::protobuf::MessageLite& message,
                       std::shared_ptr<const std::string> rest) {
  const size_t size = message.ByteSizeLong();
  grpc::Slice first(size);
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(first.begin()));
  using Owner = std::shared_ptr<const std::string>;
  // gRPC only reads the bytes.
  void* const bytes = const_cast<char*>(rest->data());
  const size_t length = rest->size();
  auto* const owner = new Owner(std::move(rest));
  HandOffRelease(owner);
  const auto release = [](void* given) {
    HandOffAcquire(given);
    delete static_cast<Owner*>(given);
  };
  const grpc::Slice slices[] = {std::move(first), grpc::Slice(bytes, length, release, owner)};
  return Frame(slices, 2);
}

absl::Status ParseFromFrame(const Frame& frame, google::protobuf::MessageLite* message) {
  bool parsed = false;
  grpc::Slice slice;
  if (frame.size() == 0) {
    parsed = message->ParseFromArray(nullptr, 0);
  } else if (frame.bytes().TrySingleSlice(&slice).ok()) {
    parsed = slice.size() <= INT_MAX &&
             message->ParseFromArray(slice.begin(), static_cast<int>(slice.size()));
  } else {
    // The reader takes a non-const pointer, but it only reads.
    grpc::ProtoBufferReader reader(const_cast<grpc::ByteBuffer*>(&frame.bytes()));
    parsed = reader.status().ok() && message->ParseFromZeroCopyStream(&reader);
  }
  if (parsed) return absl::OkStatus();
  return InvalidArgument("a frame of {} bytes is not a {}", frame.size(), message->GetTypeName());
}

}  // namespace cohort

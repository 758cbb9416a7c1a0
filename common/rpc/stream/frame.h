#ifndef COHORT_COMMON_RPC_STREAM_FRAME_H_
#define COHORT_COMMON_RPC_STREAM_FRAME_H_

#include <absl/status/status.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace google::protobuf {
class MessageLite;
}  // namespace google::protobuf

namespace cohort {

// One message of a stream: its bytes as reference-counted slices. Move-only, because a copy of a
// grpc::ByteBuffer allocates. Clone() is the explicit copy of the references, never of the bytes.
// push_pull_codec.h makes and reads PushPull messages.
class Frame {
 public:
  Frame() = default;
  // Takes a reference to each slice.
  Frame(const grpc::Slice* slices, size_t count) : bytes_(slices, count) {}
  Frame(Frame&& other) noexcept { bytes_.Swap(&other.bytes_); }
  Frame& operator=(Frame&& other) noexcept {
    if (this != &other) {
      bytes_.Clear();
      bytes_.Swap(&other.bytes_);
    }
    return *this;
  }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  // Another frame over the same slices.
  Frame Clone() const { return Frame(bytes_); }
  // Bytes.
  size_t size() const { return bytes_.Length(); }
  // Drops the references.
  void Clear() { bytes_.Clear(); }

  grpc::ByteBuffer& bytes() { return bytes_; }
  const grpc::ByteBuffer& bytes() const { return bytes_; }

 private:
  explicit Frame(const grpc::ByteBuffer& bytes) : bytes_(bytes) {}
  grpc::ByteBuffer bytes_;
};

// Control messages: a frame is one serialized message, in one slice.
Frame SerializeToFrame(const google::protobuf::MessageLite& message);

// The same for a message that is merged from `message` and `rest`, a serialized message of the same
// type. References `rest`.
Frame SerializeToFrame(const google::protobuf::MessageLite& message,
                       std::shared_ptr<const std::string> rest);

// Replaces `message`. Error: InvalidArgument (names type and size) if the bytes are not such a
// message; `message` is then unspecified but valid. The stream has already checked the size of the
// frame against TransportOptions::max_frame_bytes.
absl::Status ParseFromFrame(const Frame& frame, google::protobuf::MessageLite* message);

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_FRAME_H_

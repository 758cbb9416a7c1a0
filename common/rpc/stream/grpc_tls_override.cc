// Replaces two functions of gRPC 1.51 in the programs that link this file, as
// grpc_executor_override.cc does. With another version of gRPC it is empty.
//
// gRPC 1.51 copies each byte of a TLS connection several times between its buffers and those of
// OpenSSL, in pieces of 8 KB. After a handshake it asks the result for what protects the bytes.
// These functions offer it a protector with the secrets of that handshake (traffic_secrets.h),
// which encrypts and decrypts from gRPC's slices to gRPC's slices. The handshake, and the verdict
// on certificates, remain gRPC's. If the secrets are unknown, as for TLS 1.2, gRPC's own protector
// remains, too.
#include <grpc/slice.h>
#include <grpc/slice_buffer.h>
#include <grpcpp/version_info.h>

#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR == 51

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/rpc/stream/hand_off.h"
#include "common/tls/record_layer.h"
#include "common/tls/traffic_secrets.h"

namespace cohort {
namespace grpc_override {

// What follows has the layout of gRPC's internal types.

// tsi_result, tsi_frame_protector_type
constexpr int kOk = 0;
constexpr int kInvalidArgument = 2;
constexpr int kUnimplemented = 6;
constexpr int kInternalError = 7;
constexpr int kDataCorrupted = 8;
constexpr int kNormal = 0;
constexpr int kZeroCopy = 1;

struct Protector;
struct ProtectorTable {
  int (*protect)(Protector* self, grpc_slice_buffer* plain, grpc_slice_buffer* sealed);
  int (*unprotect)(Protector* self, grpc_slice_buffer* sealed, grpc_slice_buffer* plain,
                   int* missing);
  void (*destroy)(Protector* self);
  int (*max_frame_size)(Protector* self, size_t* bytes);
};

struct HandshakeResult;
struct HandshakeResultTable {
  void* extract_peer;
  int (*protector_type)(const HandshakeResult* self, int* type);
  int (*create_protector)(const HandshakeResult* self, size_t* frame_size, Protector** protector);
};
struct HandshakeResult {
  const HandshakeResultTable* table;
  const void* ssl;  // the connection, if its protector is kNormal; TrafficSecretsOf checks it
};

std::string_view TextOf(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

// gRPC lets one thread after another use one direction of a connection.
class Turn {
 public:
  explicit Turn(void* direction) : direction_(direction) { HandOffAcquire(direction); }
  ~Turn() { HandOffRelease(direction_); }

 private:
  void* const direction_;
};

// What protects one connection.
struct Protector {
  explicit Protector(ConnectionSecrets secrets)
      : sealer(std::move(secrets.sends)), opener(std::move(secrets.receives)) {
    grpc_slice_buffer_init(&received);
    grpc_slice_buffer_init(&opened);
    HandOffRelease(&sealer);
    HandOffRelease(&opener);
  }
  ~Protector() {
    HandOffAcquire(&sealer);
    HandOffAcquire(&opener);
    grpc_slice_buffer_destroy(&received);
    grpc_slice_buffer_destroy(&opened);
  }

  int Protect(grpc_slice_buffer* plain, grpc_slice_buffer* sealed);
  int Unprotect(grpc_slice_buffer* sealed, grpc_slice_buffer* plain, int* missing);

  const ProtectorTable* const table = &kTable;
  RecordSealer sealer;
  RecordOpener opener;
  std::vector<std::string_view> plain_pieces;
  // What has arrived and was not opened yet, and what was opened.
  grpc_slice_buffer received;
  grpc_slice_buffer opened;
  std::vector<std::string_view> body;

  static const ProtectorTable kTable;
};

int Protector::Protect(grpc_slice_buffer* plain, grpc_slice_buffer* sealed) {
  const Turn turn(&sealer);
  plain_pieces.clear();
  for (size_t i = 0; i < plain->count; ++i) plain_pieces.push_back(TextOf(plain->slices[i]));
  const absl::Status done = sealer.Seal(plain_pieces, [sealed](size_t bytes) {
    const grpc_slice slice = grpc_slice_malloc(bytes);
    grpc_slice_buffer_add_indexed(sealed, slice);
    return GRPC_SLICE_START_PTR(sealed->slices[sealed->count - 1]);
  });
  grpc_slice_buffer_reset_and_unref(plain);
  return done.ok() ? kOk : kInternalError;
}

// Walks over the bytes of slices.
class SliceWalk {
 public:
  explicit SliceWalk(const grpc_slice_buffer& slices) : slices_(&slices), left_(slices.length) {}
  size_t left() const { return left_; }
  // The next bytes that lie together, at most `most`. Some must be left.
  std::string_view Next(size_t most) {
    while (offset_ == GRPC_SLICE_LENGTH(slices_->slices[slice_])) {
      ++slice_;
      offset_ = 0;
    }
    const std::string_view piece = TextOf(slices_->slices[slice_]).substr(offset_, most);
    offset_ += piece.size();
    left_ -= piece.size();
    return piece;
  }

 private:
  const grpc_slice_buffer* slices_;
  size_t slice_ = 0;
  size_t offset_ = 0;
  size_t left_;
};

int Protector::Unprotect(grpc_slice_buffer* sealed, grpc_slice_buffer* plain, int* missing) {
  const Turn turn(&opener);
  grpc_slice_buffer_move_into(sealed, &received);
  grpc_slice to = grpc_empty_slice();
  size_t plain_bytes = 0;
  size_t opened_bytes = 0;
  size_t needed = RecordOpener::kHead;
  SliceWalk walk(received);
  bool good = true;
  while (good && walk.left() >= RecordOpener::kHead) {
    SliceWalk record = walk;
    std::string head;
    while (head.size() < RecordOpener::kHead)
      head += record.Next(RecordOpener::kHead - head.size());
    const absl::StatusOr<size_t> size = RecordOpener::BodySize(head);
    good = size.ok();
    if (!good) break;
    needed = RecordOpener::kHead + *size;
    if (record.left() < *size) break;
    if (opened_bytes == 0) to = grpc_slice_malloc(received.length);
    body.clear();
    for (size_t left = *size; left > 0;) {
      body.push_back(record.Next(left));
      left -= body.back().size();
    }
    const absl::StatusOr<size_t> got =
        opener.Open(head, body, GRPC_SLICE_START_PTR(to) + plain_bytes);
    good = got.ok();
    if (good) plain_bytes += *got;
    opened_bytes += needed;
    needed = RecordOpener::kHead;
    walk = record;
  }
  if (good && plain_bytes > 0) {
    grpc_slice_buffer_add(plain, grpc_slice_split_head(&to, plain_bytes));
  }
  grpc_slice_unref(to);
  if (!good) return kDataCorrupted;
  if (opener.TakeUpdateRequest()) sealer.RequestUpdate();
  grpc_slice_buffer_move_first(&received, opened_bytes, &opened);
  grpc_slice_buffer_reset_and_unref(&opened);
  if (missing != nullptr) *missing = static_cast<int>(needed - received.length);
  return kOk;
}

const ProtectorTable Protector::kTable = {
    .protect = [](Protector* self, grpc_slice_buffer* plain,
                  grpc_slice_buffer* sealed) { return self->Protect(plain, sealed); },
    .unprotect = [](Protector* self, grpc_slice_buffer* sealed, grpc_slice_buffer* plain,
                    int* missing) { return self->Unprotect(sealed, plain, missing); },
    .destroy = [](Protector* self) { delete self; },
    .max_frame_size =
        [](Protector*, size_t* bytes) {
          *bytes = RecordOpener::kHead + (16 << 10) + 256;
          return kOk;
        },
};

// tsi_handshaker_result_get_frame_protector_type
[[gnu::visibility("default")]] int TypeOfProtector(const void* handshake, int* type) __asm__(
    "_Z46tsi_handshaker_result_get_frame_protector_typePK21tsi_handshaker_resultP24tsi_frame_"
    "protector_type");
int TypeOfProtector(const void* handshake, int* type) {
  const auto* const result = static_cast<const HandshakeResult*>(handshake);
  if (result == nullptr && type != nullptr) return kOk;  // TuningOfGrpc asks who answers
  if (result == nullptr || result->table == nullptr || type == nullptr) return kInvalidArgument;
  if (result->table->protector_type == nullptr) return kUnimplemented;
  const int answer = result->table->protector_type(result, type);
  if (answer == kOk && *type == kNormal && TrafficSecretsOf(result->ssl).has_value()) {
    *type = kZeroCopy;
  }
  return answer;
}

// tsi_handshaker_result_create_zero_copy_grpc_protector
[[gnu::visibility("default")]] int
CreateProtector(const HandshakeResult* result, size_t* frame_size, Protector** protector) __asm__(
    "_Z53tsi_handshaker_result_create_zero_copy_grpc_protectorPK21tsi_handshaker_resultPmPP28"
    "tsi_zero_copy_grpc_protector");
int CreateProtector(const HandshakeResult* result, size_t* frame_size, Protector** protector) {
  if (result == nullptr || result->table == nullptr || protector == nullptr) {
    return kInvalidArgument;
  }
  int type = 0;
  if (result->table->protector_type != nullptr &&
      result->table->protector_type(result, &type) == kOk && type == kNormal) {
    std::optional<ConnectionSecrets> secrets = TrafficSecretsOf(result->ssl);
    if (!secrets.has_value()) return kInternalError;
    *protector = new Protector(*std::move(secrets));
    return kOk;
  }
  if (result->table->create_protector == nullptr) return kUnimplemented;
  return result->table->create_protector(result, frame_size, protector);
}

}  // namespace grpc_override
}  // namespace cohort

#endif

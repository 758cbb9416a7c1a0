#ifndef COHORT_COMMON_TLS_RECORD_LAYER_H_
#define COHORT_COMMON_TLS_RECORD_LAYER_H_

#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>
#include <absl/types/span.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/tls/record_cipher.h"

namespace cohort {

// The records of a TLS 1.3 connection after its handshake (RFC 8446, 5), without a copy of the
// plaintext: it is encrypted from where it lies, and decrypted to where it is wanted. OpenSSL makes
// the handshake, and this code continues from its traffic secrets, as the TLS of a kernel does. It
// speaks with any other implementation.

// What the handshake has agreed on for one direction.
struct TrafficSecret {
  uint16_t suite = 0;  // 0x1301: TLS_AES_128_GCM_SHA256
  std::string secret;
};

// The keys of one direction, and the number of records that they have protected.
class RecordKeys {
 public:
  static constexpr size_t kTag = kRecordTag;

  // True for the suites with AES-GCM and ChaCha20-Poly1305.
  static bool Supports(uint16_t suite);
  // `suite` must be supported.
  RecordKeys(TrafficSecret secret, bool seals);
  ~RecordKeys();
  RecordKeys(const RecordKeys&) = delete;
  RecordKeys& operator=(const RecordKeys&) = delete;

  // These protect or read one record: Begin with its head, Add for each piece, and the end.
  bool Begin(std::string_view head);
  bool Add(std::string_view piece, uint8_t* to);
  bool EndSealed(uint8_t* tag);
  bool EndOpened(std::string_view tag);  // false also if the record is not what was sent

  uint64_t records() const { return records_; }
  // The next keys of the connection (RFC 8446, 7.2).
  void Update();

 private:
  struct Impl;
  void Install();

  const std::unique_ptr<Impl> impl_;
  TrafficSecret secret_;
  uint64_t records_ = 0;
};

// The sending end of one direction.
class RecordSealer {
 public:
  // The keys change after this many records: half of what RFC 8446, 5.5 permits for AES-GCM.
  static constexpr uint64_t kRecordsOfKey = uint64_t{1} << 23;

  explicit RecordSealer(TrafficSecret secret, uint64_t records_of_key = kRecordsOfKey);

  // Writes the records of `pieces` to the memory that `allocate` returns. Errors: Internal, after
  // which the connection must end.
  absl::Status Seal(absl::Span<const std::string_view> pieces,
                    absl::FunctionRef<uint8_t*(size_t bytes)> allocate);
  // The next Seal changes the keys first. Thread-safe.
  void RequestUpdate() { update_requested_.store(true, std::memory_order_relaxed); }

 private:
  class Pieces;
  bool SealRecord(uint8_t type, size_t bytes, Pieces* pieces, uint8_t** to);

  RecordKeys keys_;
  const uint64_t records_of_key_;
  std::atomic<bool> update_requested_{false};
};

// The receiving end of one direction.
class RecordOpener {
 public:
  static constexpr size_t kHead = 5;

  explicit RecordOpener(TrafficSecret secret) : keys_(std::move(secret), /*seals=*/false) {}

  // The bytes that follow the head of a record (kHead bytes). Errors: InvalidArgument if they are
  // not the head of an encrypted record.
  static absl::StatusOr<size_t> BodySize(std::string_view head);
  // Decrypts one record to `to`, which must have room for the whole body, and returns the number of
  // bytes of plaintext there: 0 for a message of TLS itself. Errors: InvalidArgument if the record
  // is not what the peer has sent, Unavailable for an alert; the connection must end.
  absl::StatusOr<size_t> Open(std::string_view head, absl::Span<const std::string_view> body,
                              uint8_t* to);
  // True if the peer has asked for new keys of the other direction since the last call.
  bool TakeUpdateRequest() { return std::exchange(update_requested_, false); }

 private:
  absl::Status OnHandshakeMessages(std::string_view bytes);

  RecordKeys keys_;
  std::string handshake_;  // the begin of a message of TLS that continues in the next record
  bool update_requested_ = false;
};

}  // namespace cohort

#endif  // COHORT_COMMON_TLS_RECORD_LAYER_H_

#ifndef COHORT_COMMON_TLS_RECORD_CIPHER_H_
#define COHORT_COMMON_TLS_RECORD_CIPHER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace cohort {

inline constexpr size_t kRecordTag = 16;
using RecordNonce = std::array<uint8_t, 12>;

// An AEAD cipher with its key, for one direction of a connection. It works on one record at a time:
// Begin with its nonce and head, Add for each piece, and one of the ends.
class RecordCipher {
 public:
  virtual ~RecordCipher() = default;
  virtual bool Begin(const RecordNonce& nonce, std::string_view head) = 0;
  // `to` has room for the piece, and may be its own place.
  virtual bool Add(std::string_view piece, uint8_t* to) = 0;
  virtual bool EndSealed(uint8_t* tag) = 0;
  virtual bool EndOpened(
      std::string_view tag) = 0;  // false also if the record is not what was sent
};

enum class RecordAead { kAes128Gcm, kAes256Gcm, kChaCha20Poly1305 };

// `key` has as many bytes as the cipher needs. AES is that of libipsec-mb, if the build has it and
// the processor has VAES: it takes half the time of OpenSSL 3.0 there.
std::unique_ptr<RecordCipher> MakeRecordCipher(RecordAead aead, std::string_view key, bool seals);
// OpenSSL's.
std::unique_ptr<RecordCipher> MakeOpensslCipher(RecordAead aead, std::string_view key, bool seals);
// Null: the build lacks libipsec-mb, the processor lacks VAES, or it is another cipher.
std::unique_ptr<RecordCipher> MakeVectorCipher(RecordAead aead, std::string_view key, bool seals);

}  // namespace cohort

#endif  // COHORT_COMMON_TLS_RECORD_CIPHER_H_

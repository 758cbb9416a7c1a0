// AES-GCM by libipsec-mb, which uses the vector instructions VAES: 9 GB/s per core where OpenSSL
// 3.0 has 4 (16 KiB, AES-256, an AMD EPYC).
#include "common/tls/record_cipher.h"

#if COHORT_HAS_IPSEC_MB
#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>
#endif

namespace cohort {

#if COHORT_HAS_IPSEC_MB
namespace {

// The functions for this processor; null: it lacks VAES. They have no state, so all threads use
// them.
const IMB_MGR* Functions() {
  static const IMB_MGR* const functions = []() -> const IMB_MGR* {
    IMB_MGR* const manager = alloc_mb_mgr(0);
    if (manager == nullptr) return nullptr;
    init_mb_mgr_auto(manager, nullptr);
    return (manager->features & IMB_FEATURE_VAES) != 0 ? manager : nullptr;
  }();
  return functions;
}

class VectorCipher final : public RecordCipher {
 public:
  VectorCipher(bool wide, std::string_view key, bool seals) : wide_(wide), seals_(seals) {
    alignas(16) std::array<char, 32> aligned = {};  // the library reads whole vectors
    key.copy(aligned.data(), aligned.size());
    (wide ? f_.gcm256_pre : f_.gcm128_pre)(aligned.data(), &key_);
    OPENSSL_cleanse(aligned.data(), aligned.size());
  }
  ~VectorCipher() override {
    OPENSSL_cleanse(&key_, sizeof(key_));
    OPENSSL_cleanse(&record_, sizeof(record_));
  }

  bool Begin(const RecordNonce& nonce, std::string_view head) override {
    const auto init = wide_ ? f_.gcm256_init : f_.gcm128_init;
    init(&key_, &record_, nonce.data(), reinterpret_cast<const uint8_t*>(head.data()), head.size());
    return true;
  }

  bool Add(std::string_view piece, uint8_t* to) override {
    const auto update = wide_ ? (seals_ ? f_.gcm256_enc_update : f_.gcm256_dec_update)
                              : (seals_ ? f_.gcm128_enc_update : f_.gcm128_dec_update);
    update(&key_, &record_, to, reinterpret_cast<const uint8_t*>(piece.data()), piece.size());
    return true;
  }

  bool EndSealed(uint8_t* tag) override {
    const auto finalize = wide_ ? f_.gcm256_enc_finalize : f_.gcm128_enc_finalize;
    finalize(&key_, &record_, tag, kRecordTag);
    return true;
  }

  bool EndOpened(std::string_view tag) override {
    std::array<uint8_t, kRecordTag> expected;
    const auto finalize = wide_ ? f_.gcm256_dec_finalize : f_.gcm128_dec_finalize;
    finalize(&key_, &record_, expected.data(), kRecordTag);
    return tag.size() == kRecordTag && CRYPTO_memcmp(expected.data(), tag.data(), kRecordTag) == 0;
  }

 private:
  const IMB_MGR& f_ = *Functions();
  const bool wide_;
  const bool seals_;
  // The library writes aligned vectors; its header does not declare that to C++.
  alignas(64) gcm_key_data key_;
  alignas(64) gcm_context_data record_;
};

}  // namespace

std::unique_ptr<RecordCipher> MakeVectorCipher(RecordAead aead, std::string_view key, bool seals) {
  if (aead == RecordAead::kChaCha20Poly1305 || Functions() == nullptr) return nullptr;
  return std::make_unique<VectorCipher>(aead == RecordAead::kAes256Gcm, key, seals);
}

#else

std::unique_ptr<RecordCipher> MakeVectorCipher(RecordAead, std::string_view, bool) {
  return nullptr;
}

#endif

}  // namespace cohort

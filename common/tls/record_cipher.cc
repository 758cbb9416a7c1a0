#include "common/tls/record_cipher.h"

#include <openssl/evp.h>

#include <utility>

#include "common/tls/openssl_types.h"

namespace cohort {
namespace {

const EVP_CIPHER* CipherOf(RecordAead aead) {
  switch (aead) {
    case RecordAead::kAes128Gcm:
      return EVP_aes_128_gcm();
    case RecordAead::kAes256Gcm:
      return EVP_aes_256_gcm();
    case RecordAead::kChaCha20Poly1305:
      return EVP_chacha20_poly1305();
  }
  return nullptr;
}

const unsigned char* BytesOf(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

class OpensslCipher final : public RecordCipher {
 public:
  OpensslCipher(RecordAead aead, std::string_view key, bool seals)
      : seals_(seals ? 1 : 0), context_(EVP_CIPHER_CTX_new()) {
    EVP_CipherInit_ex(context_.get(), CipherOf(aead), nullptr, BytesOf(key), nullptr, seals_);
  }

  bool Begin(const RecordNonce& nonce, std::string_view head) override {
    int size = 0;
    return EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, nonce.data(), seals_) ==
               1 &&
           EVP_CipherUpdate(context_.get(), nullptr, &size, BytesOf(head),
                            static_cast<int>(head.size())) == 1;
  }

  bool Add(std::string_view piece, uint8_t* to) override {
    int size = 0;
    return EVP_CipherUpdate(context_.get(), to, &size, BytesOf(piece),
                            static_cast<int>(piece.size())) == 1;
  }

  bool EndSealed(uint8_t* tag) override {
    int size = 0;
    return EVP_CipherFinal_ex(context_.get(), tag, &size) == 1 &&
           EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kRecordTag, tag) == 1;
  }

  bool EndOpened(std::string_view tag) override {
    int size = 0;
    unsigned char none = 0;
    return EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, static_cast<int>(tag.size()),
                               const_cast<char*>(tag.data())) == 1 &&
           EVP_CipherFinal_ex(context_.get(), &none, &size) == 1;
  }

 private:
  const int seals_;
  const std::unique_ptr<EVP_CIPHER_CTX, OpensslFree<EVP_CIPHER_CTX_free>> context_;
};

}  // namespace

std::unique_ptr<RecordCipher> MakeOpensslCipher(RecordAead aead, std::string_view key, bool seals) {
  return std::make_unique<OpensslCipher>(aead, key, seals);
}

std::unique_ptr<RecordCipher> MakeRecordCipher(RecordAead aead, std::string_view key, bool seals) {
  auto cipher = MakeVectorCipher(aead, key, seals);
  return cipher != nullptr ? std::move(cipher) : MakeOpensslCipher(aead, key, seals);
}

}  // namespace cohort

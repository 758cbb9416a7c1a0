#include "common/tls/record_cipher.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace cohort {
namespace {

const std::string kKey = "0123456789abcdef0123456789abcdef";

struct Sealed {
  std::string bytes, tag;
};

std::string Run(RecordCipher* cipher, const std::string& text, size_t piece) {
  const RecordNonce nonce = {1, 2, 3};
  REQUIRE(cipher->Begin(nonce, "head!"));
  std::string result(text.size(), '\0');
  for (size_t at = 0; at < text.size(); at += piece) {
    REQUIRE(cipher->Add(std::string_view(text).substr(at, piece),
                        reinterpret_cast<uint8_t*>(result.data()) + at));
  }
  return result;
}

Sealed Seal(RecordCipher* cipher, const std::string& text, size_t piece) {
  Sealed sealed{Run(cipher, text, piece), std::string(kRecordTag, '\0')};
  REQUIRE(cipher->EndSealed(reinterpret_cast<uint8_t*>(sealed.tag.data())));
  return sealed;
}

TEST_CASE("AES of the vector library is that of OpenSSL") {
  const auto [aead, key_bytes] = GENERATE(
      table<RecordAead, size_t>({{RecordAead::kAes128Gcm, 16}, {RecordAead::kAes256Gcm, 32}}));
  const std::string_view key = std::string_view(kKey).substr(0, key_bytes);
  const auto sealer = MakeVectorCipher(aead, key, /*seals=*/true);
  const auto opener = MakeVectorCipher(aead, key, /*seals=*/false);
  if (sealer == nullptr) {
    WARN("skipped: the build lacks libipsec-mb, or the processor lacks VAES");
    return;
  }
  const auto openssl_sealer = MakeOpensslCipher(aead, key, true);
  const auto openssl_opener = MakeOpensslCipher(aead, key, false);
  for (const size_t bytes : {1, 15, 16, 17, 1000, 16384}) {
    for (const size_t piece : {7, 16, 20000}) {
      const std::string text(bytes, 'x');
      Sealed sealed = Seal(sealer.get(), text, piece);
      const Sealed expected = Seal(openssl_sealer.get(), text, bytes);
      CHECK(sealed.bytes == expected.bytes);
      CHECK(sealed.tag == expected.tag);
      for (RecordCipher* const cipher : {opener.get(), openssl_opener.get()}) {
        CHECK(Run(cipher, sealed.bytes, piece) == text);
        CHECK(cipher->EndOpened(sealed.tag));
        Run(cipher, sealed.bytes, piece);
        std::string wrong = sealed.tag;
        wrong[3] ^= 1;
        CHECK_FALSE(cipher->EndOpened(wrong));
      }
    }
  }
}

}  // namespace
}  // namespace cohort

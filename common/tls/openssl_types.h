#ifndef COHORT_COMMON_TLS_OPENSSL_TYPES_H_
#define COHORT_COMMON_TLS_OPENSSL_TYPES_H_

#include <absl/status/statusor.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

// Owning pointers to OpenSSL's objects. Only .cc files of this folder include this header.

template <auto kFree>
struct OpensslFree {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using BioPtr = std::unique_ptr<BIO, OpensslFree<BIO_free_all>>;
using X509Ptr = std::unique_ptr<X509, OpensslFree<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, OpensslFree<EVP_PKEY_free>>;

// The text of the newest error of OpenSSL, and clears all: "no start line".
std::string OpensslError();

// A reader of the text, which must outlive it.
BioPtr ReadFrom(std::string_view text);

// All certificates of a PEM text, in order. Errors: InvalidArgument.
absl::StatusOr<std::vector<X509Ptr>> ParseCertificates(std::string_view pem);

// The private key of a PEM text. Errors: InvalidArgument; a key with a passphrase is one.
absl::StatusOr<KeyPtr> ParseKey(std::string_view pem);

}  // namespace cohort

#endif  // COHORT_COMMON_TLS_OPENSSL_TYPES_H_

#include "common/tls/certificate_maker.h"

#include <openssl/ec.h>
#include <openssl/rand.h>

#include <memory>
#include <utility>

#include "common/base/status.h"
#include "common/tls/certificate.h"
#include "common/tls/openssl_types.h"

namespace cohort {
namespace {

using ExtensionPtr = std::unique_ptr<X509_EXTENSION, OpensslFree<X509_EXTENSION_free>>;

constexpr int kClockDifference = 300;  // seconds that the clock of a peer may be behind
constexpr std::time_t kDay = 24 * 60 * 60;
constexpr int kVersion3 = 2;  // the number that stands for X.509 v3

absl::Status Failed(const char* what) {
  return Internal("cannot make a certificate: {}: {}", what, OpensslError());
}

std::string TextOf(const BioPtr& out) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(out.get(), &text);
  return {text, static_cast<size_t>(size)};
}

absl::StatusOr<IssuedCertificate> ToPem(X509* certificate, EVP_PKEY* key) {
  const BioPtr certificate_out(BIO_new(BIO_s_mem()));
  const BioPtr key_out(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(certificate_out.get(), certificate) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(key_out.get(), key, nullptr, nullptr, 0, nullptr, nullptr) !=
          1) {
    return Failed("PEM");
  }
  return IssuedCertificate{TextOf(certificate_out), TextOf(key_out)};
}

// 127 random bits: the serial number must be positive.
bool SetSerial(X509* certificate) {
  unsigned char bytes[16];
  if (RAND_bytes(bytes, sizeof(bytes)) != 1) return false;
  bytes[0] &= 0x7f;
  const std::unique_ptr<BIGNUM, OpensslFree<BN_free>> number(
      BN_bin2bn(bytes, sizeof(bytes), nullptr));
  return BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool AddExtension(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool SetName(X509* certificate, const std::string& common_name) {
  X509_NAME* const name = X509_get_subject_name(certificate);
  return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(common_name.data()),
                                    static_cast<int>(common_name.size()), -1, 0) == 1;
}

// All but issuer, extensions and signature.
absl::StatusOr<X509Ptr> MakeUnsigned(const CertificateRequest& request, EVP_PKEY* key,
                                     std::time_t now) {
  X509Ptr certificate(X509_new());
  const std::time_t begin = now - kClockDifference;
  const std::time_t end = now + request.days * kDay;
  const bool made =
      X509_set_version(certificate.get(), kVersion3) == 1 && SetSerial(certificate.get()) &&
      SetName(certificate.get(), request.common_name) &&
      X509_time_adj_ex(X509_getm_notBefore(certificate.get()), 0, 0, const_cast<time_t*>(&begin)) !=
          nullptr &&
      X509_time_adj_ex(X509_getm_notAfter(certificate.get()), 0, 0, const_cast<time_t*>(&end)) !=
          nullptr &&
      X509_set_pubkey(certificate.get(), key) == 1;
  if (!made) return Failed("fields");
  return certificate;
}

}  // namespace

absl::StatusOr<IssuedCertificate> MakeAuthority(const CertificateRequest& request,
                                                std::time_t now) {
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Failed("key");
  COHORT_ASSIGN_OR_RETURN(const X509Ptr certificate, MakeUnsigned(request, key.get(), now));
  X509* const self = certificate.get();
  if (X509_set_issuer_name(self, X509_get_subject_name(self)) != 1 ||
      !AddExtension(self, self, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !AddExtension(self, self, NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !AddExtension(self, self, NID_subject_key_identifier, "hash") ||
      X509_sign(self, key.get(), EVP_sha256()) == 0) {
    return Failed("authority");
  }
  return ToPem(self, key.get());
}

absl::StatusOr<IssuedCertificate> IssueCertificate(const IssuedCertificate& authority,
                                                   const CertificateRequest& request,
                                                   std::time_t now) {
  COHORT_RETURN_IF_ERROR(CheckKeyFits(authority.certificate, authority.key));
  COHORT_ASSIGN_OR_RETURN(const std::vector<X509Ptr> issuers,
                          ParseCertificates(authority.certificate));
  COHORT_ASSIGN_OR_RETURN(const KeyPtr issuer_key, ParseKey(authority.key));
  X509* const issuer = issuers.front().get();
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Failed("key");
  COHORT_ASSIGN_OR_RETURN(const X509Ptr certificate, MakeUnsigned(request, key.get(), now));
  X509* const made = certificate.get();
  if (X509_set_issuer_name(made, X509_get_subject_name(issuer)) != 1 ||
      !AddExtension(made, issuer, NID_basic_constraints, "critical,CA:FALSE") ||
      !AddExtension(made, issuer, NID_key_usage, "critical,digitalSignature") ||
      !AddExtension(made, issuer, NID_ext_key_usage, "serverAuth,clientAuth") ||
      !AddExtension(made, issuer, NID_subject_key_identifier, "hash") ||
      !AddExtension(made, issuer, NID_authority_key_identifier, "keyid") ||
      (!request.uri.empty() &&
       !AddExtension(made, issuer, NID_subject_alt_name, "URI:" + request.uri)) ||
      X509_sign(made, issuer_key.get(), EVP_sha256()) == 0) {
    return Failed("signature");
  }
  return ToPem(made, key.get());
}

}  // namespace cohort

#ifndef COHORT_COMMON_TLS_CERTIFICATE_H_
#define COHORT_COMMON_TLS_CERTIFICATE_H_

#include <absl/status/statusor.h>

#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

// A certificate in PEM, as the peer of a TLS connection has sent it. TLS itself proves that the
// peer has the private key.
struct PeerCertificate {
  std::string leaf;   // "": the peer sent none
  std::string chain;  // the certificates between the leaf and the CA; may contain the leaf
};

// What a certificate says.
struct CertificateFacts {
  std::string subject;            // "CN=ps-0, O=..."
  std::vector<std::string> uris;  // in the subject alternative name
  std::time_t not_after = 0;
};

enum class CertificateUse { kClient, kServer };

enum class CertificateTrust {
  kTrusted,
  kUntrusted,  // not signed by the CA, or not for this use
  kExpired,    // or not valid yet
};

struct CertificateVerdict {
  CertificateTrust trust = CertificateTrust::kUntrusted;
  std::string problem;     // "" if trusted
  CertificateFacts facts;  // also of an untrusted certificate, as far as it can be read
};

// Reads the first certificate of a PEM text. Errors: InvalidArgument.
absl::StatusOr<CertificateFacts> ReadCertificate(std::string_view pem);

// Verifies the path from `peer` to one of the certificates in `ca` (PEM) by RFC 5280: signatures,
// validity at `now`, basic constraints and the extended key usage. Every certificate in `ca` is an
// anchor, also one that is not self-signed. Names are not checked.
CertificateVerdict VerifyCertificate(const PeerCertificate& peer, std::string_view ca,
                                     CertificateUse use, std::time_t now);

// OK if the private key belongs to the first certificate. Errors: InvalidArgument.
absl::Status CheckKeyFits(std::string_view certificate, std::string_view key);

// The number of certificates in a PEM text. Errors: InvalidArgument if one cannot be read.
absl::StatusOr<int> CountCertificates(std::string_view pem);

}  // namespace cohort

#endif  // COHORT_COMMON_TLS_CERTIFICATE_H_

#ifndef COHORT_COMMON_TLS_CERTIFICATE_MAKER_H_
#define COHORT_COMMON_TLS_CERTIFICATE_MAKER_H_

#include <absl/status/statusor.h>

#include <ctime>
#include <string>

namespace cohort {

// A certificate and its private key in PEM.
struct IssuedCertificate {
  std::string certificate;
  std::string key;
};

struct CertificateRequest {
  std::string common_name;
  std::string uri;  // in the subject alternative name; "": none
  int days = 0;     // how long it is valid
};

// A certification authority for a lab, with keys on the curve P-256. `now` is the time of the call.

// A self-signed certificate that may sign others, and nothing else.
absl::StatusOr<IssuedCertificate> MakeAuthority(const CertificateRequest& request, std::time_t now);

// A certificate for both ends of TLS, signed by `authority`. Errors: InvalidArgument if the
// authority cannot be read or its key does not fit.
absl::StatusOr<IssuedCertificate> IssueCertificate(const IssuedCertificate& authority,
                                                   const CertificateRequest& request,
                                                   std::time_t now);

}  // namespace cohort

#endif  // COHORT_COMMON_TLS_CERTIFICATE_MAKER_H_

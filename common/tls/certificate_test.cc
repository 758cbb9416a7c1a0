#include "common/tls/certificate.h"

#include <catch2/catch.hpp>

#include "common/tls/certificate_maker.h"

namespace cohort {
namespace {

constexpr std::time_t kNow = 1'800'000'000;
constexpr std::time_t kDay = 24 * 60 * 60;

struct Lab {
  IssuedCertificate ca = *MakeAuthority({.common_name = "lab", .days = 100}, kNow);

  IssuedCertificate Issue(const std::string& uri, int days) const {
    return *IssueCertificate(ca, {.common_name = "ps-0", .uri = uri, .days = days}, kNow);
  }
  CertificateVerdict Verify(const std::string& leaf, std::time_t now = kNow) const {
    return VerifyCertificate({.leaf = leaf}, ca.certificate, CertificateUse::kClient, now);
  }
};

TEST_CASE("a certificate of the CA is trusted at both ends and states its name") {
  const Lab lab;
  const IssuedCertificate issued = lab.Issue("cohort://lab/ps/0", 10);
  for (const auto use : {CertificateUse::kClient, CertificateUse::kServer}) {
    const auto verdict =
        VerifyCertificate({.leaf = issued.certificate}, lab.ca.certificate, use, kNow);
    CHECK(verdict.problem.empty());
    CHECK(verdict.trust == CertificateTrust::kTrusted);
    CHECK(verdict.facts.uris == std::vector<std::string>{"cohort://lab/ps/0"});
    CHECK(verdict.facts.not_after == kNow + 10 * kDay);
  }
  CHECK(CheckKeyFits(issued.certificate, issued.key).ok());
  CHECK_FALSE(CheckKeyFits(issued.certificate, lab.ca.key).ok());
}

TEST_CASE("a certificate is refused if it is of another CA, has expired, or is none") {
  const Lab lab, other;
  const IssuedCertificate issued = lab.Issue("cohort://lab/ps/0", 10);
  const auto wrong = other.Verify(issued.certificate);
  CHECK(wrong.trust == CertificateTrust::kUntrusted);
  CHECK_FALSE(wrong.problem.empty());
  CHECK(wrong.facts.uris.size() == 1);

  CHECK(lab.Verify(issued.certificate, kNow + 11 * kDay).trust == CertificateTrust::kExpired);
  CHECK(lab.Verify(issued.certificate, kNow - kDay).trust == CertificateTrust::kExpired);
  CHECK(lab.Verify("").trust == CertificateTrust::kUntrusted);
  CHECK(lab.Verify("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").trust ==
        CertificateTrust::kUntrusted);
  CHECK(lab.Verify(issued.certificate.substr(0, issued.certificate.size() / 2)).trust ==
        CertificateTrust::kUntrusted);
}

TEST_CASE("a task's certificate cannot sign another one") {
  const Lab lab;
  const IssuedCertificate worker = lab.Issue("cohort://lab/worker/0", 10);
  const auto forged = IssueCertificate(
      worker, {.common_name = "chief", .uri = "cohort://lab/chief", .days = 1}, kNow);
  REQUIRE(forged.ok());
  const auto verdict = VerifyCertificate({.leaf = forged->certificate, .chain = worker.certificate},
                                         lab.ca.certificate, CertificateUse::kClient, kNow);
  CHECK(verdict.trust == CertificateTrust::kUntrusted);
}

TEST_CASE("a CA file may hold an old and a new authority") {
  const Lab old_lab, new_lab;
  const std::string both = old_lab.ca.certificate + new_lab.ca.certificate;
  CHECK(*CountCertificates(both) == 2);
  for (const Lab* lab : {&old_lab, &new_lab}) {
    const auto issued = lab->Issue("cohort://lab/ps/0", 10);
    CHECK(VerifyCertificate({.leaf = issued.certificate}, both, CertificateUse::kClient, kNow)
              .trust == CertificateTrust::kTrusted);
  }
}

}  // namespace
}  // namespace cohort

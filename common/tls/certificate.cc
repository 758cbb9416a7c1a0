#include "common/tls/certificate.h"

#include <openssl/err.h>

#include <memory>
#include <utility>

#include "common/base/status.h"
#include "common/tls/openssl_types.h"

namespace cohort {

std::string OpensslError() {
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  const char* const reason = ERR_reason_error_string(error);
  return reason == nullptr ? "unknown error" : reason;
}

BioPtr ReadFrom(std::string_view text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

absl::StatusOr<std::vector<X509Ptr>> ParseCertificates(std::string_view pem) {
  ERR_clear_error();
  const BioPtr in = ReadFrom(pem);
  std::vector<X509Ptr> certificates;
  while (X509* const next = PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(next);
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (!at_end) return InvalidArgument("a certificate cannot be read: {}", OpensslError());
  ERR_clear_error();
  if (certificates.empty()) return InvalidArgument("there is no certificate in PEM");
  return certificates;
}

absl::StatusOr<KeyPtr> ParseKey(std::string_view pem) {
  ERR_clear_error();
  const BioPtr in = ReadFrom(pem);
  // Without this OpenSSL would ask for the passphrase on the terminal.
  const auto no_passphrase = [](char*, int, int, void*) { return -1; };
  KeyPtr key(PEM_read_bio_PrivateKey(in.get(), nullptr, no_passphrase, nullptr));
  if (key == nullptr) {
    return InvalidArgument("the private key cannot be read (PEM without passphrase): {}",
                           OpensslError());
  }
  return key;
}

namespace {

using NamesPtr = std::unique_ptr<GENERAL_NAMES, OpensslFree<GENERAL_NAMES_free>>;
using StorePtr = std::unique_ptr<X509_STORE, OpensslFree<X509_STORE_free>>;
using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, OpensslFree<X509_STORE_CTX_free>>;

void FreeStack(STACK_OF(X509) * stack) { sk_X509_free(stack); }
using StackPtr = std::unique_ptr<STACK_OF(X509), OpensslFree<FreeStack>>;

std::string SubjectOf(const X509& certificate) {
  const BioPtr out(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(out.get(), X509_get_subject_name(&certificate), 0, XN_FLAG_ONELINE);
  char* text = nullptr;
  const long size = BIO_get_mem_data(out.get(), &text);
  return {text, static_cast<size_t>(size)};
}

std::vector<std::string> UrisOf(const X509& certificate) {
  const NamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> uris;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* const uri = name->d.uniformResourceIdentifier;
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                      static_cast<size_t>(ASN1_STRING_length(uri)));
  }
  return uris;
}

CertificateFacts FactsOf(const X509& certificate) {
  CertificateFacts facts;
  facts.subject = SubjectOf(certificate);
  facts.uris = UrisOf(certificate);
  std::tm end = {};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(&certificate), &end) == 1) facts.not_after = timegm(&end);
  return facts;
}

CertificateTrust TrustOf(int error) {
  switch (error) {
    case X509_V_OK:
      return CertificateTrust::kTrusted;
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return CertificateTrust::kExpired;
    default:
      return CertificateTrust::kUntrusted;
  }
}

// The level of security that OpenSSL asks of servers by default in Debian: 112 bits.
constexpr int kSecurityLevel = 2;

// Returns an X509_V_ error.
int Verify(X509* leaf, const std::vector<X509Ptr>& between, const std::vector<X509Ptr>& anchors,
           CertificateUse use, std::time_t now) {
  const StorePtr store(X509_STORE_new());
  for (const X509Ptr& anchor : anchors) X509_STORE_add_cert(store.get(), anchor.get());
  const StackPtr untrusted(sk_X509_new_null());
  for (const X509Ptr& certificate : between) sk_X509_push(untrusted.get(), certificate.get());
  const StoreContextPtr context(X509_STORE_CTX_new());
  if (X509_STORE_CTX_init(context.get(), store.get(), leaf, untrusted.get()) != 1) {
    return X509_V_ERR_UNSPECIFIED;
  }
  X509_STORE_CTX_set_purpose(context.get(), use == CertificateUse::kClient
                                                ? X509_PURPOSE_SSL_CLIENT
                                                : X509_PURPOSE_SSL_SERVER);
  X509_VERIFY_PARAM* const parameters = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_flags(parameters, X509_V_FLAG_PARTIAL_CHAIN);
  X509_VERIFY_PARAM_set_auth_level(parameters, kSecurityLevel);
  X509_VERIFY_PARAM_set_time(parameters, now);
  const bool verified = X509_verify_cert(context.get()) == 1;
  const int error = X509_STORE_CTX_get_error(context.get());
  if (verified) return X509_V_OK;
  return error == X509_V_OK ? X509_V_ERR_UNSPECIFIED : error;
}

}  // namespace

absl::StatusOr<CertificateFacts> ReadCertificate(std::string_view pem) {
  COHORT_ASSIGN_OR_RETURN(const std::vector<X509Ptr> certificates, ParseCertificates(pem));
  return FactsOf(*certificates.front());
}

CertificateVerdict VerifyCertificate(const PeerCertificate& peer, std::string_view ca,
                                     CertificateUse use, std::time_t now) {
  CertificateVerdict verdict;
  const auto leaf = ParseCertificates(peer.leaf);
  if (!leaf.ok()) {
    verdict.problem = std::string(leaf.status().message());
    return verdict;
  }
  verdict.facts = FactsOf(*leaf->front());
  const auto anchors = ParseCertificates(ca);
  if (!anchors.ok()) {
    verdict.problem = "no CA to verify it with: " + std::string(anchors.status().message());
    return verdict;
  }
  std::vector<X509Ptr> between;
  if (auto chain = ParseCertificates(peer.chain); chain.ok()) between = *std::move(chain);
  const int error = Verify(leaf->front().get(), between, *anchors, use, now);
  verdict.trust = TrustOf(error);
  if (error != X509_V_OK) verdict.problem = X509_verify_cert_error_string(error);
  return verdict;
}

absl::Status CheckKeyFits(std::string_view certificate, std::string_view key) {
  COHORT_ASSIGN_OR_RETURN(const std::vector<X509Ptr> certificates, ParseCertificates(certificate));
  COHORT_ASSIGN_OR_RETURN(const KeyPtr parsed, ParseKey(key));
  if (X509_check_private_key(certificates.front().get(), parsed.get()) == 1) {
    return absl::OkStatus();
  }
  ERR_clear_error();
  return InvalidArgument("the private key does not belong to the certificate");
}

absl::StatusOr<int> CountCertificates(std::string_view pem) {
  COHORT_ASSIGN_OR_RETURN(const std::vector<X509Ptr> certificates, ParseCertificates(pem));
  return static_cast<int>(certificates.size());
}

}  // namespace cohort

#include "common/rpc/stream/credentials.h"

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <functional>
#include <utility>

#include "common/base/status.h"
#include "common/cluster/security.h"

namespace cohort {
namespace {

namespace tls = grpc::experimental;

constexpr unsigned kReloadSeconds = 1;

std::string ToString(grpc::string_ref text) { return {text.data(), text.size()}; }

// A client's verdict on the certificate of the server that it reached.
class ServerVerifier final : public tls::ExternalCertificateVerifier {
 public:
  ServerVerifier(std::shared_ptr<const Security> security, std::string address,
                 std::optional<Task> task)
      : security_(std::move(security)), address_(std::move(address)), task_(task) {}

  bool Verify(tls::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* status) override {
    const PeerCertificate certificate{.leaf = ToString(request->peer_cert()),
                                      .chain = ToString(request->peer_cert_full_chain())};
    const absl::Status verdict = security_->CheckServer(certificate, address_, task_);
    *status = verdict.ok()
                  ? grpc::Status::OK
                  : grpc::Status(grpc::StatusCode::UNAUTHENTICATED, std::string(verdict.message()));
    return true;  // the verdict is there
  }
  void Cancel(tls::TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::shared_ptr<const Security> security_;
  const std::string address_;
  const std::optional<Task> task_;
};

std::shared_ptr<grpc::ServerCredentials> TlsServer(const TlsPaths& paths) {
  tls::TlsServerCredentialsOptions options(std::make_shared<tls::FileWatcherCertificateProvider>(
      paths.key, paths.certificate, kReloadSeconds));
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  options.set_certificate_verifier(std::make_shared<tls::NoOpCertificateVerifier>());
  return tls::TlsServerCredentials(options);
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentialsFor(
    const Security& security, std::string_view address) {
  COHORT_RETURN_IF_ERROR(security.CheckServe("listening on", address));
  return security.uses_tls(address) ? TlsServer(security.paths())
                                    : grpc::InsecureServerCredentials();
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelCredentialsFor(
    const std::shared_ptr<const Security>& security, const std::string& address,
    std::optional<Task> task) {
  COHORT_RETURN_IF_ERROR(security->CheckDial(address));
  if (!security->uses_tls(address)) return grpc::InsecureChannelCredentials();
  const std::shared_ptr<const TlsMaterial> material = security->Material();
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::make_shared<tls::StaticDataCertificateProvider>(
      material->ca,
      std::vector<tls::IdentityKeyCertPair>{
          {.private_key = material->key, .certificate_chain = material->certificate}}));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(false);  // ServerVerifier does
  options.set_check_call_host(false);
  options.set_certificate_verifier(
      tls::ExternalCertificateVerifier::Create<ServerVerifier>(security, address, task));
  return tls::TlsCredentials(options);
}

}  // namespace cohort

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
#include "common/rpc/stream/grpc_tuning.h"
#include "common/rpc/stream/pending_peers.h"
#include "common/tls/traffic_secrets.h"

namespace cohort {
namespace {

namespace tls = grpc::experimental;

constexpr unsigned kReloadSeconds = 1;

// Comes before gRPC makes a context of OpenSSL: grpc_tls_override.cc needs the secrets of its
// connections.
void PrepareOpenssl() {
  if (TuningOfGrpc().tls_override) KeepTrafficSecrets();
}

std::string ToString(grpc::string_ref text) { return {text.data(), text.size()}; }

grpc::Status ToGrpc(const absl::Status& verdict) {
  return verdict.ok()
             ? grpc::Status::OK
             : grpc::Status(grpc::StatusCode::UNAUTHENTICATED, std::string(verdict.message()));
}

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
    *status = ToGrpc(verdict);
    return true;  // the verdict is there
  }
  void Cancel(tls::TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::shared_ptr<const Security> security_;
  const std::string address_;
  const std::optional<Task> task_;
};

// A server's verdict on the certificate of a client, or on its lack of one.
class ClientVerifier final : public tls::ExternalCertificateVerifier {
 public:
  ClientVerifier(std::shared_ptr<const Security> security, std::shared_ptr<PendingPeers> pending)
      : security_(std::move(security)), pending_(std::move(pending)) {}

  bool Verify(tls::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* status) override {
    const PeerCertificate certificate{.leaf = ToString(request->peer_cert()),
                                      .chain = ToString(request->peer_cert_full_chain())};
    const absl::Status verdict = security_->CheckHandshake(certificate, pending_->Describe());
    if (!verdict.ok()) pending_->Forget();
    *status = ToGrpc(verdict);
    return true;  // the verdict is there
  }
  void Cancel(tls::TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::shared_ptr<const Security> security_;
  const std::shared_ptr<PendingPeers> pending_;
};

std::shared_ptr<grpc::ServerCredentials> TlsServer(const std::shared_ptr<const Security>& security,
                                                   std::shared_ptr<PendingPeers> pending) {
  PrepareOpenssl();
  const TlsPaths& paths = security->paths();
  tls::TlsServerCredentialsOptions options(std::make_shared<tls::FileWatcherCertificateProvider>(
      paths.key, paths.certificate, kReloadSeconds));
  options.watch_identity_key_cert_pairs();
  // ClientVerifier does, and refuses a client without a certificate.
  options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  options.set_certificate_verifier(
      tls::ExternalCertificateVerifier::Create<ClientVerifier>(security, std::move(pending)));
  return tls::TlsServerCredentials(options);
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentialsFor(
    const std::shared_ptr<const Security>& security, std::string_view address,
    std::shared_ptr<PendingPeers> pending) {
  COHORT_RETURN_IF_ERROR(security->CheckServe("listening on", address));
  return security->uses_tls(address) ? TlsServer(security, std::move(pending))
                                     : grpc::InsecureServerCredentials();
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelCredentialsFor(
    const std::shared_ptr<const Security>& security, const std::string& address,
    std::optional<Task> task) {
  COHORT_RETURN_IF_ERROR(security->CheckDial(address));
  if (!security->uses_tls(address)) return grpc::InsecureChannelCredentials();
  PrepareOpenssl();
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

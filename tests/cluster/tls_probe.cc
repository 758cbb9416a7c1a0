// Opens one stream as a peer that may not be what it should: what does a task answer?
//
//   tls_probe ADDRESS METHOD plaintext [TOKEN]     without TLS; TOKEN: the secret in the metadata
//   tls_probe ADDRESS METHOD anonymous             TLS without a certificate
//   tls_probe ADDRESS METHOD DIR                   TLS with DIR/tls.crt and DIR/tls.key
//
// Trusts every server. Prints the code of the answer and its message. Code 4: the task has accepted
// the stream, and keeps it open. Code 0: it answers a health check.
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>

#include "common/rpc/stream/grpc_tuning.h"
#include "common/rpc/stream/peer_admission.h"

namespace {

namespace tls = grpc::experimental;

std::string Read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const std::string& peer) {
  if (peer == "plaintext") return grpc::InsecureChannelCredentials();
  tls::TlsChannelCredentialsOptions options;
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(std::make_shared<tls::NoOpCertificateVerifier>());
  if (peer != "anonymous") {
    options.set_certificate_provider(std::make_shared<tls::StaticDataCertificateProvider>(
        Read(peer + "/ca.crt"),
        std::vector<tls::IdentityKeyCertPair>{{Read(peer + "/tls.key"), Read(peer + "/tls.crt")}}));
    options.watch_root_certs();
    options.watch_identity_key_cert_pairs();
  }
  return tls::TlsCredentials(options);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) return 64;
  cohort::PrepareTransportProcess();
  grpc::GenericStub stub(grpc::CreateChannel(argv[1], CredentialsOf(argv[3])));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
  if (argc == 5) context.AddMetadata(cohort::kSecretKey, argv[4]);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, argv[2], &queue);
  grpc::Status status;
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(&context);
  queue.Next(&tag, &ok);
  if (ok && std::string_view(argv[2]).ends_with("/Check")) {
    const grpc::Slice empty;
    call->WriteLast(grpc::ByteBuffer(&empty, 1), grpc::WriteOptions(), &context);
    queue.Next(&tag, &ok);
    grpc::ByteBuffer answer;
    call->Read(&answer, &context);
    queue.Next(&tag, &ok);
  }
  call->Finish(&status, &status);
  queue.Next(&tag, &ok);
  std::printf("%d %s\n", static_cast<int>(status.error_code()), status.error_message().c_str());
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return 0;
}

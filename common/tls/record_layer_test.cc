#include "common/tls/record_layer.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/testing/status_test_util.h"
#include "common/tls/openssl_types.h"
#include "common/tls/tls_test_files.h"
#include "common/tls/traffic_secrets.h"

namespace cohort {
namespace {

using Catch::Matchers::Contains;
using testing::Message;

using ContextPtr = std::unique_ptr<SSL_CTX, OpensslFree<SSL_CTX_free>>;
using ConnectionPtr = std::unique_ptr<SSL, OpensslFree<SSL_free>>;

// A client and a server of OpenSSL in this process. Each writes to memory that the test carries on.
struct TlsPair {
  explicit TlsPair(const char* suites = nullptr, int tickets = 0, int version = TLS1_3_VERSION) {
    KeepTrafficSecrets();
    client_context.reset(SSL_CTX_new(TLS_client_method()));
    server_context.reset(SSL_CTX_new(TLS_server_method()));
    const std::string directory = files.Write("ps", "cohort://lab/ps/0");
    const TlsPaths paths(directory);
    REQUIRE(SSL_CTX_use_certificate_file(server_context.get(), paths.certificate.c_str(),
                                         SSL_FILETYPE_PEM) == 1);
    REQUIRE(SSL_CTX_use_PrivateKey_file(server_context.get(), paths.key.c_str(),
                                        SSL_FILETYPE_PEM) == 1);
    if (suites != nullptr) REQUIRE(SSL_CTX_set_ciphersuites(client_context.get(), suites) == 1);
    SSL_CTX_set_max_proto_version(client_context.get(), version);
    client.reset(SSL_new(client_context.get()));
    server.reset(SSL_new(server_context.get()));
    if (tickets > 0) SSL_set_num_tickets(server.get(), static_cast<size_t>(tickets));
    for (SSL* ssl : {client.get(), server.get()}) {
      SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    }
    SSL_set_connect_state(client.get());
    SSL_set_accept_state(server.get());
    for (int turn = 0; turn < 3 && SSL_is_init_finished(server.get()) == 0; ++turn) {
      if (turn > 0) Give(client.get(), Take(server.get()));
      SSL_do_handshake(client.get());
      Give(server.get(), Take(client.get()));
      SSL_do_handshake(server.get());
    }
    if (version < TLS1_3_VERSION) {
      Give(client.get(), Take(server.get()));
      SSL_do_handshake(client.get());
    }
    REQUIRE(SSL_is_init_finished(client.get()) == 1);
    REQUIRE(SSL_is_init_finished(server.get()) == 1);
  }

  // What the connection has written.
  static std::string Take(SSL* ssl) {
    std::string bytes(static_cast<size_t>(BIO_pending(SSL_get_wbio(ssl))), '\0');
    if (!bytes.empty()) BIO_read(SSL_get_wbio(ssl), bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
  }
  static void Give(SSL* ssl, const std::string& bytes) {
    if (!bytes.empty()) {
      BIO_write(SSL_get_rbio(ssl), bytes.data(), static_cast<int>(bytes.size()));
    }
  }
  static std::string Read(SSL* ssl) {
    std::string text;
    char buffer[20000];
    for (int got = 0; (got = SSL_read(ssl, buffer, sizeof(buffer))) > 0;) {
      text.append(buffer, static_cast<size_t>(got));
    }
    return text;
  }
  static std::string Write(SSL* ssl, const std::string& text) {
    REQUIRE(SSL_write(ssl, text.data(), static_cast<int>(text.size())) ==
            static_cast<int>(text.size()));
    return Take(ssl);
  }

  testing::TlsTestFiles files;
  ContextPtr client_context, server_context;
  ConnectionPtr client, server;
};

// The text in pieces of random sizes, some of them empty.
std::vector<std::string_view> Cut(std::string_view text, std::mt19937* random) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const size_t most = (*random)() % 4 == 0 ? 20000 : 40;
    pieces.push_back(text.substr(0, (*random)() % (most + 1)));
    text.remove_prefix(pieces.back().size());
  }
  return pieces;
}

std::string Seal(RecordSealer* sealer, const std::vector<std::string_view>& pieces) {
  std::string sealed;
  const absl::Status done = sealer->Seal(pieces, [&sealed](size_t bytes) {
    sealed.resize(bytes);
    return reinterpret_cast<uint8_t*>(sealed.data());
  });
  REQUIRE(done == absl::OkStatus());
  return sealed;
}

// Opens all records of the text, which the opener gets in pieces of random sizes.
absl::StatusOr<std::string> OpenAll(RecordOpener* opener, std::string_view sealed,
                                    std::mt19937* random) {
  std::string plain;
  while (!sealed.empty()) {
    const std::string_view head = sealed.substr(0, RecordOpener::kHead);
    COHORT_ASSIGN_OR_RETURN(const size_t size, RecordOpener::BodySize(head));
    std::vector<uint8_t> to(size);
    COHORT_ASSIGN_OR_RETURN(
        const size_t got,
        opener->Open(head, Cut(sealed.substr(head.size(), size), random), to.data()));
    plain.append(reinterpret_cast<const char*>(to.data()), got);
    sealed.remove_prefix(head.size() + size);
  }
  return plain;
}

std::string RandomText(size_t bytes, std::mt19937* random) {
  std::string text(bytes, '\0');
  for (char& byte : text) byte = static_cast<char>((*random)());
  return text;
}

ConnectionSecrets SecretsOf(const ConnectionPtr& ssl) {
  auto secrets = TrafficSecretsOf(ssl.get());
  REQUIRE(secrets.has_value());
  return *secrets;
}

TEST_CASE("records of ours and of OpenSSL are the same, with each cipher") {
  const char* const suites = GENERATE(static_cast<const char*>(nullptr), "TLS_AES_128_GCM_SHA256",
                                      "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256");
  TlsPair pair(suites);
  const ConnectionSecrets ours = SecretsOf(pair.client);
  CHECK(ours.sends.secret != ours.receives.secret);
  if (suites == nullptr) CHECK(ours.sends.suite == 0x1301);  // AES-128 is preferred
  RecordSealer sealer(ours.sends);
  RecordOpener opener(ours.receives);
  std::mt19937 random(7);
  for (const size_t bytes : {1, 15, 16, 100, 16383, 16384, 16385, 70000, 400000}) {
    INFO(bytes);
    const std::string text = RandomText(bytes, &random);
    TlsPair::Give(pair.server.get(), Seal(&sealer, Cut(text, &random)));
    CHECK(TlsPair::Read(pair.server.get()) == text);
    const std::string answer = RandomText(bytes, &random);
    const auto opened = OpenAll(&opener, TlsPair::Write(pair.server.get(), answer), &random);
    REQUIRE(opened.status() == absl::OkStatus());
    CHECK(*opened == answer);
  }
  CHECK(Seal(&sealer, {}).empty());
}

TEST_CASE("the server's end of a connection has the other directions") {
  TlsPair pair;
  RecordSealer sealer(SecretsOf(pair.server).sends);
  RecordOpener opener(SecretsOf(pair.server).receives);
  std::mt19937 random(7);
  TlsPair::Give(pair.client.get(), Seal(&sealer, {"to the client"}));
  CHECK(TlsPair::Read(pair.client.get()) == "to the client");
  CHECK(*OpenAll(&opener, TlsPair::Write(pair.client.get(), "to the server"), &random) ==
        "to the server");
}

TEST_CASE("keys change before they have protected too many records") {
  TlsPair pair;
  RecordSealer sealer(SecretsOf(pair.client).sends, /*records_of_key=*/3);
  std::string received;
  for (int i = 0; i < 20; ++i) {
    const std::string sealed = Seal(&sealer, {"x"});
    // Each third one begins with a message of TLS that announces the change.
    CHECK(sealed.size() == (i > 0 && i % 3 == 0 ? 23 + 27 : 23));
    TlsPair::Give(pair.server.get(), sealed);
    received += TlsPair::Read(pair.server.get());
  }
  CHECK(received == std::string(20, 'x'));
}

TEST_CASE("new keys of the peer are taken, and its wish for new ones of this end is met") {
  TlsPair pair;
  RecordSealer sealer(SecretsOf(pair.client).sends);
  RecordOpener opener(SecretsOf(pair.client).receives);
  std::mt19937 random(7);
  for (const int type : {SSL_KEY_UPDATE_NOT_REQUESTED, SSL_KEY_UPDATE_REQUESTED}) {
    REQUIRE(SSL_key_update(pair.server.get(), type) == 1);
    CHECK(*OpenAll(&opener, TlsPair::Write(pair.server.get(), "new keys"), &random) == "new keys");
    CHECK(opener.TakeUpdateRequest() == (type == SSL_KEY_UPDATE_REQUESTED));
    CHECK_FALSE(opener.TakeUpdateRequest());
  }
  sealer.RequestUpdate();
  TlsPair::Give(pair.server.get(), Seal(&sealer, {"with new keys"}));
  CHECK(TlsPair::Read(pair.server.get()) == "with new keys");
}

TEST_CASE("session tickets of a server are skipped") {
  TlsPair pair(nullptr, /*tickets=*/2);
  RecordOpener opener(SecretsOf(pair.client).receives);
  std::mt19937 random(7);
  const std::string tickets = TlsPair::Take(pair.server.get());
  CHECK(tickets.size() > 100);
  CHECK(*OpenAll(&opener, tickets + TlsPair::Write(pair.server.get(), "data"), &random) == "data");
}

TEST_CASE("a record that is not what the peer sent ends the connection") {
  TlsPair pair;
  const ConnectionSecrets secrets = SecretsOf(pair.client);
  std::mt19937 random(7);
  const std::string sealed = TlsPair::Write(pair.server.get(), "hello, client");
  const std::string next = TlsPair::Write(pair.server.get(), "and more");
  for (size_t i = RecordOpener::kHead; i < sealed.size(); ++i) {
    std::string damaged = sealed;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    RecordOpener opener(secrets.receives);
    CHECK_THAT(Message(OpenAll(&opener, damaged, &random).status()), Contains("is not what"));
  }
  // A record that is left out, repeated or in another order.
  RecordOpener opener(secrets.receives);
  CHECK_FALSE(OpenAll(&opener, next, &random).ok());
  RecordOpener again(secrets.receives);
  CHECK_FALSE(OpenAll(&again, sealed + sealed, &random).ok());
  // Heads: a handshake in the clear, no room for the tag, and too long.
  for (const std::string_view head :
       {std::string_view("\x16\3\3\0\x40", 5), std::string_view("\x17\3\3\0\x10", 5),
        std::string_view("\x17\3\3\x41\1", 5)}) {
    CHECK_THAT(Message(RecordOpener::BodySize(head).status()), Contains("no record of TLS 1.3"));
  }
}

TEST_CASE("the end of the peer's side is an error, because gRPC never sends it") {
  TlsPair pair;
  RecordOpener opener(SecretsOf(pair.client).receives);
  std::mt19937 random(7);
  SSL_shutdown(pair.server.get());
  const absl::Status status = OpenAll(&opener, TlsPair::Take(pair.server.get()), &random).status();
  CHECK(absl::IsUnavailable(status));
  CHECK_THAT(Message(status), Contains("alert 0"));
}

TEST_CASE("secrets are known only of TLS 1.3, and until the connection is freed") {
  CHECK_FALSE(TrafficSecretsOf(nullptr).has_value());
  TlsPair old(nullptr, 0, TLS1_2_VERSION);
  CHECK_FALSE(TrafficSecretsOf(old.client.get()).has_value());
  TlsPair pair;
  const void* const ssl = pair.client.get();
  CHECK(TrafficSecretsOf(ssl).has_value());
  pair.client.reset();
  CHECK_FALSE(TrafficSecretsOf(ssl).has_value());
}

}  // namespace
}  // namespace cohort

#include "common/tls/traffic_secrets.h"

#include <openssl/crypto.h>
#include <openssl/ssl.h>

#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "common/base/mutex.h"

namespace cohort {
namespace {

constexpr char kPreferredSuites[] =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

struct Secrets {
  std::string client;  // the client sends with it
  std::string server;
};

struct Connections {
  Mutex mu;
  std::map<const void*, Secrets> secrets ABSL_GUARDED_BY(mu);
};

Connections& AllConnections() {
  static auto* const connections = new Connections;
  return *connections;
}

std::string FromHex(const std::string& digits) {
  std::string bytes(digits.size() / 2, '\0');
  size_t size = 0;
  return OPENSSL_hexstr2buf_ex(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), &size,
                               digits.c_str(), '\0') == 1
             ? bytes
             : "";
}

// Lines as "CLIENT_TRAFFIC_SECRET_0 <random of the client> <secret>", in hexadecimal digits.
void OnSecret(const SSL* ssl, const char* line) {
  std::istringstream fields(line);
  std::string label, random, digits;
  fields >> label >> random >> digits;
  const bool client = label == "CLIENT_TRAFFIC_SECRET_0";
  if (!client && label != "SERVER_TRAFFIC_SECRET_0") return;
  Connections& all = AllConnections();
  MutexLock lock(&all.mu);
  Secrets& secrets = all.secrets[ssl];
  (client ? secrets.client : secrets.server) = FromHex(digits);
}

void OnNewContext(void* context, void*, CRYPTO_EX_DATA*, int, long, void*) {
  auto* const made = static_cast<SSL_CTX*>(context);
  SSL_CTX_set_keylog_callback(made, OnSecret);
  SSL_CTX_set_ciphersuites(made, kPreferredSuites);
}

void OnNewConnection(void* ssl, void*, CRYPTO_EX_DATA*, int, long, void*) {
  SSL_set_num_tickets(static_cast<SSL*>(ssl), 0);
}

void OnFree(void* ssl, void*, CRYPTO_EX_DATA*, int, long, void*) {
  Connections& all = AllConnections();
  MutexLock lock(&all.mu);
  const auto found = all.secrets.find(ssl);
  if (found == all.secrets.end()) return;
  for (std::string* secret : {&found->second.client, &found->second.server}) {
    OPENSSL_cleanse(secret->data(), secret->size());
  }
  all.secrets.erase(found);
}

}  // namespace

// OpenSSL calls these functions for each object of the kind that it makes or frees.
void KeepTrafficSecrets() {
  static const bool keeps = [] {
    SSL_get_ex_new_index(0, nullptr, OnNewConnection, nullptr, OnFree);
    return SSL_CTX_get_ex_new_index(0, nullptr, OnNewContext, nullptr, nullptr) >= 0;
  }();
  (void)keeps;
}

std::optional<ConnectionSecrets> TrafficSecretsOf(const void* ssl) {
  Connections& all = AllConnections();
  MutexLock lock(&all.mu);
  const auto found = all.secrets.find(ssl);
  if (found == all.secrets.end()) return std::nullopt;
  const Secrets& secrets = found->second;
  if (secrets.client.empty() || secrets.server.empty()) return std::nullopt;
  const auto* const connection = static_cast<const SSL*>(ssl);
  const SSL_CIPHER* const cipher = SSL_get_current_cipher(connection);
  const uint16_t suite = cipher == nullptr ? uint16_t{0} : SSL_CIPHER_get_protocol_id(cipher);
  if (!RecordKeys::Supports(suite)) return std::nullopt;
  ConnectionSecrets kept = {{suite, secrets.client}, {suite, secrets.server}};
  if (SSL_is_server(connection)) std::swap(kept.sends, kept.receives);
  return kept;
}

}  // namespace cohort

#include "common/cluster/run_secret.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/os/private_file.h"

namespace cohort {
namespace {

constexpr size_t kFewestBytes = 16;
constexpr size_t kMostBytes = 4096;
constexpr size_t kRandomBytes = 32;
constexpr std::string_view kWhiteSpace = " \t\r\n";

std::string Hexadecimal(const unsigned char* bytes, size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

absl::Status SecretError(const absl::Status& status) {
  return WithExitCode(Annotate(status, "--secret_file"), ExitCode::kConfig);
}

}  // namespace

absl::StatusOr<std::string> ReadSecretToken(const std::string& path) {
  absl::StatusOr<std::string> secret = ReadPrivateFile(path, kMostBytes);
  if (!secret.ok()) return SecretError(secret.status());
  secret->resize(secret->find_last_not_of(kWhiteSpace) + 1);
  if (secret->size() < kFewestBytes) {
    return SecretError(FailedPrecondition(
        "{}: has {} bytes, and a secret at least {}: `openssl rand -hex 32` makes one", path,
        secret->size(), kFewestBytes));
  }
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(secret->data()), secret->size(), digest.data());
  return Hexadecimal(digest.data(), digest.size());
}

bool SameToken(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

absl::Status WriteNewSecret(const std::string& path) {
  std::array<unsigned char, kRandomBytes> bytes;
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    return Internal("the system has no random numbers for {}", path);
  }
  unlink(path.c_str());
  const absl::Status made = CreatePrivateFile(path, Hexadecimal(bytes.data(), bytes.size()) + "\n");
  // There may be space later.
  const bool is_full = absl::IsResourceExhausted(made);
  return WithExitCode(made, is_full ? ExitCode::kTempFail : ExitCode::kCantCreate);
}

}  // namespace cohort

#include "common/tls/record_layer.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/status.h"
#include "common/tls/record_cipher.h"

namespace cohort {
namespace {

// RFC 8446, 5.1 and 4.
constexpr uint8_t kAlert = 21;
constexpr uint8_t kHandshake = 22;
constexpr uint8_t kApplicationData = 23;
constexpr uint8_t kNewSessionTicket = 4;
constexpr uint8_t kKeyUpdate = 24;
constexpr uint8_t kUpdateRequested = 1;

constexpr size_t kMostPlain = 16 << 10;
constexpr size_t kMostBody = kMostPlain + 256;
constexpr size_t kOverhead = RecordOpener::kHead + 1 + RecordKeys::kTag;
constexpr size_t kMostHandshake = 64 << 10;

struct Suite {
  uint16_t id;
  RecordAead aead;
  const EVP_MD* (*hash)();
  size_t key_bytes;
};

constexpr std::array<Suite, 3> kSuites = {
    {{0x1301, RecordAead::kAes128Gcm, EVP_sha256, 16},
     {0x1302, RecordAead::kAes256Gcm, EVP_sha384, 32},
     {0x1303, RecordAead::kChaCha20Poly1305, EVP_sha256, 32}}};

const Suite* FindSuite(uint16_t id) {
  const auto found = std::find_if(kSuites.begin(), kSuites.end(),
                                  [id](const Suite& suite) { return suite.id == id; });
  return found == kSuites.end() ? nullptr : &*found;
}

// HKDF-Expand-Label(secret, label, "", bytes) of RFC 8446, 7.1, for at most one hash of output.
std::string ExpandLabel(const Suite& suite, const std::string& secret, std::string_view label,
                        size_t bytes) {
  std::string info = {static_cast<char>(bytes >> 8), static_cast<char>(bytes),
                      static_cast<char>(6 + label.size())};
  info.append("tls13 ").append(label);
  info += '\0';  // no context
  info += '\1';  // the first block of HKDF-Expand
  std::array<unsigned char, EVP_MAX_MD_SIZE> block = {};
  unsigned size = 0;
  HMAC(suite.hash(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(info.data()), info.size(), block.data(), &size);
  std::string expanded(reinterpret_cast<const char*>(block.data()), bytes);
  OPENSSL_cleanse(block.data(), block.size());
  return expanded;
}

void Cleanse(std::string* secret) { OPENSSL_cleanse(secret->data(), secret->size()); }

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

// ---------------------------------------------------------------- keys

struct RecordKeys::Impl {
  const Suite* suite;
  bool seals;
  std::unique_ptr<RecordCipher> cipher;
  std::string iv;
};

bool RecordKeys::Supports(uint16_t suite) { return FindSuite(suite) != nullptr; }

RecordKeys::RecordKeys(TrafficSecret secret, bool seals)
    : impl_(std::make_unique<Impl>(Impl{FindSuite(secret.suite), seals, nullptr, ""})),
      secret_(std::move(secret)) {
  Install();
}

RecordKeys::~RecordKeys() { Cleanse(&secret_.secret); }

void RecordKeys::Install() {
  const Suite& suite = *impl_->suite;
  std::string key = ExpandLabel(suite, secret_.secret, "key", suite.key_bytes);
  impl_->iv = ExpandLabel(suite, secret_.secret, "iv", std::tuple_size_v<RecordNonce>);
  impl_->cipher = MakeRecordCipher(suite.aead, key, impl_->seals);
  Cleanse(&key);
  records_ = 0;
}

void RecordKeys::Update() {
  const Suite& suite = *impl_->suite;
  std::string next = ExpandLabel(suite, secret_.secret, "traffic upd", secret_.secret.size());
  secret_.secret.swap(next);
  Cleanse(&next);
  Install();
}

// The nonce is the number of the record, combined with the secret start value (RFC 8446, 5.3). So
// no key ever sees one twice.
bool RecordKeys::Begin(std::string_view head) {
  RecordNonce nonce;
  std::copy(impl_->iv.begin(), impl_->iv.end(), nonce.begin());
  for (size_t i = 0; i < 8; ++i) {
    nonce[nonce.size() - 1 - i] ^= static_cast<uint8_t>(records_ >> (8 * i));
  }
  ++records_;
  return impl_->cipher->Begin(nonce, head);
}

bool RecordKeys::Add(std::string_view piece, uint8_t* to) { return impl_->cipher->Add(piece, to); }
bool RecordKeys::EndSealed(uint8_t* tag) { return impl_->cipher->EndSealed(tag); }
bool RecordKeys::EndOpened(std::string_view tag) { return impl_->cipher->EndOpened(tag); }

// ---------------------------------------------------------------- sending

// Takes bytes from the pieces in order.
class RecordSealer::Pieces {
 public:
  explicit Pieces(absl::Span<const std::string_view> pieces) : pieces_(pieces) {}
  // At most `most` bytes that lie together. Some must be left.
  std::string_view Next(size_t most) {
    while (offset_ == pieces_.front().size()) {
      pieces_.remove_prefix(1);
      offset_ = 0;
    }
    const std::string_view piece = pieces_.front().substr(offset_, most);
    offset_ += piece.size();
    return piece;
  }

 private:
  absl::Span<const std::string_view> pieces_;
  size_t offset_ = 0;
};

RecordSealer::RecordSealer(TrafficSecret secret, uint64_t records_of_key)
    : keys_(std::move(secret), /*seals=*/true), records_of_key_(records_of_key) {}

bool RecordSealer::SealRecord(uint8_t type, size_t bytes, Pieces* pieces, uint8_t** to) {
  const size_t body = bytes + 1 + RecordKeys::kTag;
  uint8_t* const head = *to;
  const std::array<uint8_t, RecordOpener::kHead> begin = {
      kApplicationData, 3, 3, static_cast<uint8_t>(body >> 8), static_cast<uint8_t>(body)};
  std::copy(begin.begin(), begin.end(), head);
  *to += begin.size();
  bool good = keys_.Begin({reinterpret_cast<const char*>(head), begin.size()});
  while (good && bytes > 0) {
    const std::string_view piece = pieces->Next(bytes);
    good = keys_.Add(piece, *to);
    *to += piece.size();
    bytes -= piece.size();
  }
  const char inner = static_cast<char>(type);
  good = good && keys_.Add({&inner, 1}, *to) && keys_.EndSealed(*to + 1);
  *to += 1 + RecordKeys::kTag;
  return good;
}

absl::Status RecordSealer::Seal(absl::Span<const std::string_view> pieces,
                                absl::FunctionRef<uint8_t*(size_t)> allocate) {
  // KeyUpdate(update_not_requested): RFC 8446, 4.6.3.
  constexpr std::string_view kUpdate("\x18\0\0\1\0", 5);
  size_t left = 0;
  for (const std::string_view piece : pieces) left += piece.size();
  const bool update = update_requested_.exchange(false, std::memory_order_relaxed) ||
                      keys_.records() >= records_of_key_;
  const size_t records = (left + kMostPlain - 1) / kMostPlain;
  uint8_t* to = allocate(left + records * kOverhead + (update ? kUpdate.size() + kOverhead : 0));
  bool good = true;
  if (update) {
    Pieces message({&kUpdate, 1});
    good = SealRecord(kHandshake, kUpdate.size(), &message, &to);
    keys_.Update();
  }
  Pieces reader(pieces);
  while (good && left > 0) {
    const size_t bytes = std::min(left, kMostPlain);
    good = SealRecord(kApplicationData, bytes, &reader, &to);
    left -= bytes;
  }
  return good ? absl::OkStatus() : Internal("OpenSSL cannot encrypt: {}", OpensslError());
}

// ---------------------------------------------------------------- receiving

absl::StatusOr<size_t> RecordOpener::BodySize(std::string_view head) {
  const unsigned char* const bytes = Bytes(head);
  const size_t size = static_cast<size_t>(bytes[3]) << 8 | bytes[4];
  if (bytes[0] != kApplicationData || size <= RecordKeys::kTag || size > kMostBody) {
    return InvalidArgument("the peer sent no record of TLS 1.3: type {}, {} bytes", bytes[0], size);
  }
  return size;
}

absl::StatusOr<size_t> RecordOpener::Open(std::string_view head,
                                          absl::Span<const std::string_view> body, uint8_t* to) {
  size_t left = 0;
  for (const std::string_view piece : body) left += piece.size();
  left -= RecordKeys::kTag;
  std::array<char, RecordKeys::kTag> tag;
  size_t in_tag = 0;
  size_t size = 0;
  bool good = keys_.Begin(head);
  for (std::string_view piece : body) {
    const std::string_view data = piece.substr(0, left);
    if (!data.empty()) good = good && keys_.Add(data, to + size);
    size += data.size();
    left -= data.size();
    piece.remove_prefix(data.size());
    std::copy(piece.begin(), piece.end(), tag.begin() + in_tag);
    in_tag += piece.size();
  }
  if (!good || !keys_.EndOpened({tag.data(), tag.size()})) {
    return InvalidArgument("a record of TLS is not what the peer sent");
  }
  while (size > 0 && to[size - 1] == 0) --size;  // padding
  if (size == 0) return InvalidArgument("a record of TLS has no type");
  const uint8_t type = to[--size];
  if (type == kApplicationData) {
    if (!handshake_.empty()) return InvalidArgument("data in the middle of a message of TLS");
    return size;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(to), size);
  if (type == kHandshake) {
    COHORT_RETURN_IF_ERROR(OnHandshakeMessages(bytes));
    return size_t{0};
  }
  if (type == kAlert && size == 2) return Unavailable("the peer sent the alert {} of TLS", to[1]);
  return InvalidArgument("a record of TLS has the type {}", type);
}

// Session tickets are of no use here: each connection makes a full handshake.
absl::Status RecordOpener::OnHandshakeMessages(std::string_view bytes) {
  constexpr size_t kMessageHead = 4;
  handshake_ += bytes;
  std::string_view rest = handshake_;
  while (rest.size() >= kMessageHead) {
    const unsigned char* const head = Bytes(rest);
    const size_t size =
        static_cast<size_t>(head[1]) << 16 | static_cast<size_t>(head[2]) << 8 | head[3];
    if (size > kMostHandshake) return InvalidArgument("a message of TLS has {} bytes", size);
    if (rest.size() < kMessageHead + size) break;
    const std::string_view body = rest.substr(kMessageHead, size);
    rest.remove_prefix(kMessageHead + size);
    if (head[0] == kNewSessionTicket) continue;
    if (head[0] != kKeyUpdate || size != 1 || Bytes(body)[0] > kUpdateRequested || !rest.empty()) {
      return InvalidArgument("the peer sent a message of TLS of type {} with {} bytes", head[0],
                             size);
    }
    keys_.Update();
    if (Bytes(body)[0] == kUpdateRequested) update_requested_ = true;
  }
  handshake_ = std::string(rest);
  return absl::OkStatus();
}

}  // namespace cohort

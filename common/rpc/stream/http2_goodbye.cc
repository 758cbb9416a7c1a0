#include "common/rpc/stream/http2_goodbye.h"

namespace cohort {
namespace {

constexpr char kSettings = 0x4;
constexpr char kGoAway = 0x7;
constexpr size_t kGoAwayHead = 8;  // the last stream, the error
constexpr char kInadequateSecurity = 0xc;

std::string FrameHead(size_t bytes, char type) {
  std::string head(9, '\0');
  head[1] = static_cast<char>(bytes >> 8);
  head[2] = static_cast<char>(bytes);
  head[3] = type;
  return head;
}

}  // namespace

std::string Http2Goodbye(std::string_view why) {
  std::string bytes = FrameHead(0, kSettings) + FrameHead(kGoAwayHead + why.size(), kGoAway);
  bytes.append(kGoAwayHead - 1, '\0');
  bytes += kInadequateSecurity;
  bytes += why;
  return bytes;
}

}  // namespace cohort

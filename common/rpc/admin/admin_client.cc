#include "common/rpc/admin/admin_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "common/base/status.h"

namespace cohort {
namespace {

constexpr size_t kMostBytes = size_t{16} << 20;

// Called with each piece of a body. A result other than `count` ends the transfer.
size_t Append(char* piece, size_t, size_t count, void* body) {
  auto* const text = static_cast<std::string*>(body);
  if (text->size() + count > kMostBytes) return 0;
  text->append(piece, count);
  return count;
}

absl::Status TransferError(CURL* curl, CURLcode code, const Address& address) {
  std::string why = curl_easy_strerror(code);
  switch (code) {
    case CURLE_WRITE_ERROR:
      return DataLoss("{}: the answer has more than 16 MiB", address.ToString());
    case CURLE_UNSUPPORTED_PROTOCOL:  // an answer without a head, as HTTP/0.9 has it
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_GOT_NOTHING:
      return DataLoss("{} is not an admin port: its answer is not HTTP", address.ToString());
    case CURLE_OPERATION_TIMEDOUT:
      why = "no answer in time";
      break;
    case CURLE_COULDNT_CONNECT: {
      long error = 0;
      curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &error);
      if (error != 0) why = std::strerror(static_cast<int>(error));
      break;
    }
    default:
      break;
  }
  return Unavailable("nothing answers on {}: {}", address.ToString(), why);
}

}  // namespace

absl::StatusOr<std::string> GetAdminPage(const Address& address, const std::string& path,
                                         Duration timeout) {
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> owner(curl_easy_init(),
                                                                  &curl_easy_cleanup);
  CURL* const curl = owner.get();
  if (curl == nullptr) return ResourceExhausted("libcurl does not start");
  const auto timeout_ms = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  std::string body;
  curl_easy_setopt(curl, CURLOPT_URL, fmt::format("http://{}{}", address.ToString(), path).c_str());
  curl_easy_setopt(curl, CURLOPT_PROXY, "");  // also if the environment names one
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, std::max<int64_t>(timeout_ms, 1));  // 0: no limit
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Append);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &body);
  const CURLcode done = curl_easy_perform(curl);
  if (done != CURLE_OK) return TransferError(curl, done, address);
  long code = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
  if (code == 404) return NotFound("{} has no page {}", address.ToString(), path);
  if (code != 200) return Unavailable("{} answers {} for {}", address.ToString(), code, path);
  return body;
}

}  // namespace cohort

#include "common/rpc/admin/admin_client.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/os/open_file.h"
#include "common/rpc/admin/control_socket.h"

namespace cohort {
namespace {

constexpr size_t kMostBytes = size_t{16} << 20;

// One request over HTTP.
class Transfer {
 public:
  // A timeout of zero: none.
  Transfer(const std::string& url, Duration timeout) : curl_(curl_easy_init(), &curl_easy_cleanup) {
    const auto timeout_ms = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
    Set(CURLOPT_URL, url.c_str());
    Set(CURLOPT_PROXY, "");  // also if the environment names one
    Set(CURLOPT_NOSIGNAL, 1L);
    Set(CURLOPT_TIMEOUT_MS, static_cast<long>(timeout_ms));
    Set(CURLOPT_WRITEFUNCTION, &Append);
    Set(CURLOPT_WRITEDATA, &body_);
  }

  template <typename Value>
  void Set(CURLoption option, Value value) {
    curl_easy_setopt(curl_.get(), option, value);
  }
  CURLcode Run() { return curl_easy_perform(curl_.get()); }
  // The errno of a connection that failed, or 0.
  int error() const { return static_cast<int>(Get(CURLINFO_OS_ERRNO)); }
  long code() const { return Get(CURLINFO_RESPONSE_CODE); }
  const std::string& body() const { return body_; }

 private:
  // Called with each piece of a body. A result other than `count` ends the transfer.
  static size_t Append(char* piece, size_t, size_t count, void* body) {
    auto* const text = static_cast<std::string*>(body);
    if (text->size() + count > kMostBytes) return 0;
    text->append(piece, count);
    return count;
  }
  long Get(CURLINFO info) const {
    long value = 0;
    curl_easy_getinfo(curl_.get(), info, &value);
    return value;
  }

  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl_;
  std::string body_;
};

absl::Status PageError(CURLcode code, int error, const Address& address) {
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
    case CURLE_COULDNT_CONNECT:
      if (error != 0) why = std::strerror(error);
      break;
    default:
      break;
  }
  return Unavailable("nothing answers on {}: {}", address.ToString(), why);
}

bool IsSocket(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
}

// The error of a command, as admin_server.h describes it.
absl::Status CommandError(const std::string& body) {
  const nlohmann::json error = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (error.is_object() && error.contains("code") && error["code"].is_number_integer() &&
      error["code"] != 0 && error.contains("message") && error["message"].is_string()) {
    return absl::Status(static_cast<absl::StatusCode>(error["code"].get<int>()),
                        error["message"].get<std::string>());
  }
  return DataLoss("an answer that no chief writes: {}", body);
}

}  // namespace

absl::StatusOr<std::string> GetAdminPage(const Address& address, const std::string& path,
                                         Duration timeout) {
  Transfer transfer(fmt::format("http://{}{}", address.ToString(), path), timeout);
  const CURLcode done = transfer.Run();
  if (done != CURLE_OK) return PageError(done, transfer.error(), address);
  if (transfer.code() == 404) return NotFound("{} has no page {}", address.ToString(), path);
  if (transfer.code() == 200) return transfer.body();
  return Unavailable("{} answers {} for {}", address.ToString(), transfer.code(), path);
}

absl::StatusOr<std::string> FindControlSocket(const std::string& run) {
  const std::string below = fmt::format("{}/{}", run, kControlSocket);
  const std::string of_local = fmt::format("{}/checkpoints/{}", run, kControlSocket);
  for (const std::string& path : {run, below, of_local}) {
    errno = 0;
    if (IsSocket(path)) return path;
    if (errno == EACCES) {
      return WithExitCode(PermissionDenied("{} cannot be reached: permission denied. Give the "
                                           "command as the owner of the job",
                                           path),
                          ExitCode::kNoPermission);
    }
  }
  return NotFound(
      "no running job in {}: neither {} nor {} is a socket. Give the run directory of `cohort "
      "local`, or the checkpoint directory of a cohort-chief that runs on this host",
      run, below, of_local);
}

absl::StatusOr<std::string> CallControl(const std::string& socket, const std::string& command,
                                        const std::string& request, Duration timeout) {
  // The system takes short paths only, so the path of the open directory stands for a long one.
  const std::filesystem::path file(socket);
  const std::string directory = file.has_parent_path() ? file.parent_path().string() : ".";
  const UniqueFd opened(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!opened.ok()) return ErrnoStatus("cannot open the directory", directory, errno);
  const std::string path =
      fmt::format("/proc/self/fd/{}/{}", opened.get(), file.filename().string());
  Transfer transfer("http://localhost/control/" + command, timeout);
  transfer.Set(CURLOPT_UNIX_SOCKET_PATH, path.c_str());
  transfer.Set(CURLOPT_POSTFIELDSIZE, static_cast<long>(request.size()));
  transfer.Set(CURLOPT_POSTFIELDS, request.c_str());
  const CURLcode done = transfer.Run();
  if (done == CURLE_COULDNT_CONNECT) {
    const absl::Status refused = ErrnoStatus("cannot connect to", socket, transfer.error());
    if (!absl::IsUnavailable(refused)) return refused;
    return Annotate(refused, "no chief listens; it has ended, or it runs on another host");
  }
  if (done == CURLE_OPERATION_TIMEDOUT) {
    return Unavailable("the chief listens on {}, but it does not answer", socket);
  }
  if (done != CURLE_OK) {
    return Unavailable("the chief ended before it answered: {}", curl_easy_strerror(done));
  }
  if (transfer.code() != 200) return CommandError(transfer.body());
  // Without the newline.
  return transfer.body().substr(0, transfer.body().find_last_not_of('\n') + 1);
}

}  // namespace cohort

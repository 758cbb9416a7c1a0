#include "common/rpc/admin/admin_client.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
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

// Called with each piece of a body. A result other than `count` ends the transfer.
size_t Append(char* piece, size_t, size_t count, void* body) {
  auto* const text = static_cast<std::string*>(body);
  if (text->size() + count > kMostBytes) return 0;
  text->append(piece, count);
  return count;
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
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> owner(curl_easy_init(),
                                                                  &curl_easy_cleanup);
  CURL* const curl = owner.get();
  const long timeout_ms = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  std::string body;
  curl_easy_setopt(curl, CURLOPT_URL, ("http://localhost/control/" + command).c_str());
  curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, path.c_str());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, timeout_ms);
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, static_cast<long>(request.size()));
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.c_str());
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Append);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &body);
  const CURLcode done = curl_easy_perform(curl);
  long error = 0;
  long code = 0;
  curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &error);
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
  if (done == CURLE_COULDNT_CONNECT) {
    const absl::Status refused = ErrnoStatus("cannot connect to", socket, static_cast<int>(error));
    if (!absl::IsUnavailable(refused)) return refused;
    return Annotate(refused, "no chief listens; it has ended, or it runs on another host");
  }
  if (done == CURLE_OPERATION_TIMEDOUT) {
    return Unavailable("the chief listens on {}, but it does not answer", socket);
  }
  if (done != CURLE_OK) {
    return Unavailable("the chief ended before it answered: {}", curl_easy_strerror(done));
  }
  if (code != 200) return CommandError(body);
  body.erase(body.find_last_not_of('\n') + 1);
  return body;
}

}  // namespace cohort

#include "common/data/files/remote_file.h"

#include <absl/strings/ascii.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/log.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/data/file_bytes.h"
#include "common/data/input_file.h"
#include "common/os/open_file.h"

namespace cohort {
namespace {

// Attempts in a row that bring no byte, before a download fails.
constexpr int kIdleAttempts = 5;
// What is kept of an error page, for the message.
constexpr size_t kErrorPageBytes = 4096;

// Ignores case.
bool StartsWith(std::string_view text, std::string_view start) {
  return absl::AsciiStrToLower(std::string(text.substr(0, start.size()))) == start;
}

std::string Environment(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

struct RemoteAddress {
  std::string shown;   // for messages: PublicPath
  std::string url;     // what is fetched
  std::string sha256;  // "": not checked
  std::string name;    // the last part of its path
  bool is_s3 = false;
  // For s3:// addresses with credentials.
  std::string signature;  // CURLOPT_AWS_SIGV4
  std::string user;       // ACCESS_KEY:SECRET_KEY
  std::string token;
};

std::string PercentEncode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

// It becomes a part of a host's name or of a path, so it has none of their separators.
bool IsBucket(std::string_view name) {
  const auto is_end = [](unsigned char c) { return absl::ascii_isalnum(c); };
  return name.size() >= 3 && name.size() <= 63 &&
         is_end(static_cast<unsigned char>(name.front())) &&
         is_end(static_cast<unsigned char>(name.back())) && std::ranges::all_of(name, [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' ||
                  c == '_';
         });
}

absl::Status ReadS3(std::string_view path, RemoteAddress* address) {
  const size_t slash = path.find('/');
  if (slash == 0 || slash == path.npos || slash + 1 == path.size()) {
    return InvalidArgument("{}: an address of S3 is s3://BUCKET/KEY", address->shown);
  }
  const std::string bucket(path.substr(0, slash));
  if (!IsBucket(bucket)) {
    return InvalidArgument("{}: the name of a bucket has 3 to 63 letters, digits, '.', '-' and '_'",
                           address->shown);
  }
  const std::string key = PercentEncode(path.substr(slash + 1));
  std::string region = Environment({"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (region.empty()) region = "us-east-1";
  std::string endpoint = Environment({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  while (endpoint.ends_with('/')) endpoint.pop_back();
  // Amazon's certificate is for hosts without another point, and hosts are in lower case.
  const bool is_host = endpoint.empty() && std::ranges::all_of(bucket, [](unsigned char c) {
                         return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
                       });
  if (endpoint.empty()) endpoint = fmt::format("https://s3.{}.amazonaws.com", region);
  address->url = is_host ? fmt::format("https://{}.s3.{}.amazonaws.com/{}", bucket, region, key)
                         : fmt::format("{}/{}/{}", endpoint, bucket, key);
  address->is_s3 = true;
  const std::string access_key = Environment({"AWS_ACCESS_KEY_ID"});
  const std::string secret = Environment({"AWS_SECRET_ACCESS_KEY"});
  if (access_key.empty() != secret.empty()) {
    return InvalidArgument(
        "{}: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY need each other; one is not set",
        address->shown);
  }
  if (access_key.empty()) return absl::OkStatus();
  address->signature = fmt::format("aws:amz:{}:s3", region);
  address->user = fmt::format("{}:{}", access_key, secret);
  address->token = Environment({"AWS_SESSION_TOKEN"});
  return absl::OkStatus();
}

bool IsSha256(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isxdigit(static_cast<unsigned char>(c));
         });
}

absl::StatusOr<RemoteAddress> ReadAddress(std::string_view text, const std::string& sha256) {
  RemoteAddress address;
  address.shown = PrintableLine(PublicPath(text));
  address.sha256 = absl::AsciiStrToLower(sha256);
  constexpr std::string_view kDigest = "#sha256=";
  if (const size_t hash = text.find('#'); hash != text.npos) {
    const std::string_view fragment = text.substr(hash);
    if (!fragment.starts_with(kDigest) || !IsSha256(fragment.substr(kDigest.size()))) {
      return InvalidArgument("{}: what follows # is `sha256=` and 64 hexadecimal digits",
                             address.shown);
    }
    const std::string digest = absl::AsciiStrToLower(std::string(fragment.substr(kDigest.size())));
    if (!address.sha256.empty() && address.sha256 != digest) {
      return InvalidArgument("{}: `sha256` is another digest, {}", address.shown, address.sha256);
    }
    address.sha256 = digest;
    text = text.substr(0, hash);
  }
  std::string_view path = text.substr(0, text.find('?'));
  path = path.substr(path.rfind('/') + 1);
  for (const char c : path.substr(0, 100)) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-';
    address.name += plain ? c : '_';
  }
  constexpr std::string_view kS3 = "s3://";
  if (!StartsWith(text, kS3)) {
    address.url = text;
    return address;
  }
  COHORT_RETURN_IF_ERROR(ReadS3(text.substr(kS3.size()), &address));
  return address;
}

absl::StatusOr<std::filesystem::path> CacheDirectory() {
  std::filesystem::path directory = Environment({"COHORT_CACHE_DIR"});
  if (directory.empty()) {
    directory = Environment({"XDG_CACHE_HOME"});
    const std::string home = Environment({"HOME"});
    if (directory.empty() && !home.empty()) directory = std::filesystem::path(home) / ".cache";
    if (directory.empty()) {
      return InvalidArgument("set COHORT_CACHE_DIR to the directory for files that are fetched");
    }
    directory /= "cohort";
  }
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (!error) return directory;
  return WithExitCode(Unavailable("cannot make the cache directory {}: {}; set COHORT_CACHE_DIR",
                                  directory.c_str(), error.message()),
                      ExitCode::kNoInput);
}

// What a server says about a file: its ETag, or else its date. "" if it says neither.
class Validator {
 public:
  void Add(std::string_view header) {
    const size_t colon = header.find(':');
    if (colon == header.npos) {
      if (header.starts_with("HTTP/")) *this = {};  // the answer after a redirection
      return;
    }
    const std::string name = absl::AsciiStrToLower(std::string(header.substr(0, colon)));
    std::string value(header.substr(colon + 1));
    absl::StripAsciiWhitespace(&value);
    // A weak ETag does not promise the same bytes.
    if (name == "etag" && !value.starts_with("W/")) etag_ = value;
    if (name == "last-modified") date_ = value;
  }
  std::string text() const { return etag_.empty() ? date_ : etag_; }

 private:
  std::string etag_;
  std::string date_;
};

// A download into a file, which may have its first bytes.
class Download {
 public:
  Download(const RemoteAddress& address, int fd, std::string path, const FetchOptions& options)
      : address_(address), fd_(fd), path_(std::move(path)), options_(options) {}

  // Fetches the rest of the file. The bytes stay if it fails. `validator_path` has the validator
  // of the file whose first bytes are there.
  absl::Status Run(const std::string& validator_path) {
    int idle = 0;
    while (true) {
      const uint64_t before = Size();
      const absl::Status fetched = Attempt(validator_path);
      if (!absl::IsUnavailable(fetched)) return fetched;
      idle = Size() > before ? 0 : idle + 1;
      if (idle == kIdleAttempts) return fetched;
      if (options_.log != nullptr) {
        options_.log->Failure(LogLevel::kWarning, "data_fetching_again", fetched);
      }
      // A server that is busy needs time.
      if (idle > 0) std::this_thread::sleep_for(options_.pause * (1 << (idle - 1)));
    }
  }

 private:
  struct Free {
    void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };
  using Headers = std::unique_ptr<curl_slist, Free>;

  uint64_t Size() const {
    struct stat status = {};
    return ::fstat(fd_, &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
  }

  static void Append(const std::string& header, Headers* headers) {
    headers->reset(curl_slist_append(headers->release(), header.c_str()));
  }

  absl::Status Attempt(const std::string& validator_path) {
    curl_.reset(curl_easy_init());
    if (curl_ == nullptr) return ResourceExhausted("libcurl has no memory");
    Headers headers;
    // The first bytes are worth keeping only if the server can say whether the file is the same.
    std::string validator;
    offset_ = Size();
    if (offset_ > 0 && !ReadWholeFile(validator_path, 1 << 16, &validator).ok()) validator.clear();
    if (validator.empty()) offset_ = 0;
    if (offset_ > 0) {
      Append("If-Range: " + validator, &headers);
      curl_easy_setopt(curl_.get(), CURLOPT_RANGE, fmt::format("{}-", offset_).c_str());
    }
    Configure(&headers);
    error_page_.clear();
    write_error_ = absl::OkStatus();
    started_ = false;
    validator_ = {};
    validator_path_ = validator_path;
    std::array<char, CURL_ERROR_SIZE> error = {};
    curl_easy_setopt(curl_.get(), CURLOPT_ERRORBUFFER, error.data());
    curl_easy_setopt(curl_.get(), CURLOPT_HTTPHEADER, headers.get());
    const CURLcode code = curl_easy_perform(curl_.get());
    COHORT_RETURN_IF_ERROR(write_error_);
    const long answer = Answer();
    if (answer == 416 && offset_ > 0) return StartOver();
    if (answer >= 300) return Refused(answer);
    if (code == CURLE_OK && !started_) return Start();  // an empty file
    if (code == CURLE_OK) return absl::OkStatus();
    const std::string why = error[0] == '\0' ? curl_easy_strerror(code) : error.data();
    if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL) {
      return InvalidArgument("{}: {}", address_.shown, why);
    }
    return WithExitCode(
        Unavailable("{}: cannot be fetched: {}", address_.shown, PrintableLine(why)),
        ExitCode::kNoInput);
  }

  void Configure(Headers* headers) {
    CURL* const curl = curl_.get();
    curl_easy_setopt(curl, CURLOPT_URL, address_.url.c_str());
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR,
                     StartsWith(address_.url, "https://") ? "https" : "http,https");
    // The headers of a signed request, as its session token, are for its host alone.
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, address_.signature.empty() ? 1L : 0L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 30L);
    // A minute without a byte is an error, however long the file takes.
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 60L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "cohort");
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Download::OnBytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, this);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &Download::OnHeader);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, this);
    if (address_.signature.empty()) return;
    curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, address_.signature.c_str());
    curl_easy_setopt(curl, CURLOPT_USERPWD, address_.user.c_str());
    Append("x-amz-content-sha256: " + Sha256Hex(""), headers);
    if (!address_.token.empty()) Append("x-amz-security-token: " + address_.token, headers);
  }

  long Answer() const {
    long answer = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &answer);
    return answer;
  }

  absl::Status Refused(long answer) const {
    std::string why = fmt::format("{}: the server answers {}", address_.shown, answer);
    // S3 says what is wrong in an XML element.
    const size_t begin = error_page_.find("<Message>");
    const size_t end = error_page_.find("</Message>");
    if (begin != error_page_.npos && end != error_page_.npos && begin + 9 < end) {
      why += ": " + PrintableLine(error_page_.substr(begin + 9, end - begin - 9));
    }
    if (answer == 404 || answer == 410) return NotFound("{}; correct the address", why);
    if (answer == 401 || answer == 403) {
      return WithExitCode(PermissionDenied("{}; correct the credentials{}", why,
                                           address_.is_s3 ? " (AWS_ACCESS_KEY_ID, ...)" : ""),
                          ExitCode::kNoInput);
    }
    if (answer >= 500 || answer == 408 || answer == 429) {
      return WithExitCode(Unavailable("{}", why), ExitCode::kNoInput);
    }
    if (answer < 400 && !address_.signature.empty()) {
      return InvalidArgument(
          "{}; a signed request follows no redirection: correct AWS_REGION or AWS_ENDPOINT_URL",
          why);
    }
    return InvalidArgument("{}", why);
  }

  // The first bytes belong to another file, or are all of it.
  absl::Status StartOver() const {
    if (::ftruncate(fd_, 0) != 0) return ErrnoStatus("cannot write", path_, errno);
    return Unavailable("{}: the server has another file now", address_.shown);
  }

  // Called before the first byte: places the bytes, and keeps the validator of the file.
  absl::Status Start() {
    started_ = true;
    if (Answer() != 206) offset_ = 0;
    if (::ftruncate(fd_, static_cast<off_t>(offset_)) != 0 ||
        ::lseek(fd_, static_cast<off_t>(offset_), SEEK_SET) < 0) {
      return ErrnoStatus("cannot write", path_, errno);
    }
    if (offset_ > 0) return absl::OkStatus();
    const UniqueFd file(
        ::open(validator_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file.ok()) return ErrnoStatus("cannot write", validator_path_, errno);
    return WriteAll(file.get(), validator_.text(), validator_path_);
  }

  static size_t OnHeader(const char* data, size_t size, size_t count, void* self) {
    static_cast<Download*>(self)->validator_.Add({data, size * count});
    return size * count;
  }

  static size_t OnBytes(const char* data, size_t size, size_t count, void* self) {
    auto* const download = static_cast<Download*>(self);
    const std::string_view bytes(data, size * count);
    if (download->Answer() >= 300) {
      download->error_page_ += bytes.substr(
          0, kErrorPageBytes - std::min(kErrorPageBytes, download->error_page_.size()));
      return bytes.size();
    }
    if (!download->started_) download->write_error_ = download->Start();
    if (download->write_error_.ok()) {
      download->write_error_ = WriteAll(download->fd_, bytes, download->path_);
    }
    return download->write_error_.ok() ? bytes.size() : 0;
  }

  const RemoteAddress& address_;
  const int fd_;
  const std::string path_;
  const FetchOptions& options_;
  // These belong to the current attempt.
  std::unique_ptr<CURL, Free> curl_;
  uint64_t offset_ = 0;  // where its first byte belongs
  bool started_ = false;
  Validator validator_;
  std::string validator_path_;
  std::string error_page_;
  absl::Status write_error_;
};

void Log(const FetchOptions& options, std::string_view event, const RemoteAddress& address,
         const std::string& path) {
  if (options.log == nullptr) return;
  options.log->Info(event, {{"address", address.shown}, {"file", path}});
}

// Opens a file and waits until no other process has it open for this.
absl::StatusOr<UniqueFd> OpenLocked(const RemoteAddress& address, const std::string& path,
                                    const FetchOptions& options) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.ok()) return ErrnoStatus("cannot open", path, errno);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  Log(options, "data_fetched_by_another_process", address, path);
  while (::flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return ErrnoStatus("cannot lock", path, errno);
  }
  return fd;
}

absl::Status FetchInto(const RemoteAddress& address, const std::string& path,
                       const FetchOptions& options) {
  static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  if (!ready) return ResourceExhausted("libcurl cannot start");
  const std::string partial = path + ".part";
  const std::string validator = path + ".validator";
  COHORT_ASSIGN_OR_RETURN(const UniqueFd lock, OpenLocked(address, path + ".lock", options));
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return absl::OkStatus();  // by another process
  const UniqueFd fd(::open(partial.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.ok()) return ErrnoStatus("cannot write", partial, errno);
  Log(options, "data_fetching", address, path);
  COHORT_RETURN_IF_ERROR(Download(address, fd.get(), partial, options).Run(validator));
  if (!address.sha256.empty()) {
    COHORT_ASSIGN_OR_RETURN(const std::string digest, Sha256OfFile(fd.get(), partial));
    if (digest != address.sha256) {
      std::filesystem::remove(partial, ignored);
      return DataLoss("{}: has sha256 {}, the job says {}: correct the digest or the address",
                      address.shown, digest, address.sha256);
    }
  }
  std::filesystem::remove(validator, ignored);
  if (::fsync(fd.get()) != 0 || ::rename(partial.c_str(), path.c_str()) != 0) {
    return ErrnoStatus("cannot write", path, errno);
  }
  Log(options, "data_fetched", address, path);
  return absl::OkStatus();
}

absl::StatusOr<std::string> CachedPathOf(const RemoteAddress& address) {
  COHORT_ASSIGN_OR_RETURN(const std::filesystem::path directory, CacheDirectory());
  // What is there under the name of an address and a digest had this digest when it was fetched.
  const std::string key = Sha256Hex(address.url + "\n" + address.sha256).substr(0, 16);
  return directory / (key + "-" + address.name);
}

}  // namespace

bool IsRemote(std::string_view path) {
  return StartsWith(path, "http://") || StartsWith(path, "https://") || StartsWith(path, "s3://");
}

std::string PublicPath(std::string_view path) {
  if (!IsRemote(path)) return std::string(path);
  path = path.substr(0, path.find_first_of("?#"));
  const size_t host = path.find("://") + 3;
  const size_t end = std::min(path.find('/', host), path.size());
  const size_t at = path.substr(0, end).rfind('@');
  if (at == path.npos || at < host) return std::string(path);
  return std::string(path.substr(0, host)) + std::string(path.substr(at + 1));
}

absl::StatusOr<std::string> CachedPathOf(const std::string& address, const std::string& sha256) {
  COHORT_ASSIGN_OR_RETURN(const RemoteAddress read, ReadAddress(address, sha256));
  return CachedPathOf(read);
}

absl::StatusOr<std::string> FetchFile(const std::string& text, const std::string& sha256,
                                      const FetchOptions& options) {
  COHORT_ASSIGN_OR_RETURN(const RemoteAddress address, ReadAddress(text, sha256));
  COHORT_ASSIGN_OR_RETURN(std::string path, CachedPathOf(address));
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    Log(options, "data_from_cache", address, path);
    return path;
  }
  COHORT_RETURN_IF_ERROR(FetchInto(address, path, options));
  return path;
}

}  // namespace cohort

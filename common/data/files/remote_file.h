#ifndef COHORT_COMMON_DATA_FILES_REMOTE_FILE_H_
#define COHORT_COMMON_DATA_FILES_REMOTE_FILE_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <string>
#include <string_view>

namespace cohort {

class Logger;

// True for an address: http://, https:// or s3://.
bool IsRemote(std::string_view path);

// A path as errors, logs and fingerprints have it: an address without user, password, query (the
// signature of a presigned URL) and fragment. Another path stays as it is.
std::string PublicPath(std::string_view path);

struct FetchOptions {
  Logger* log = nullptr;  // may be null
  // Before the second attempt of a download that brings no byte. It doubles with each one.
  std::chrono::milliseconds pause = std::chrono::seconds(1);
};

// Fetches the file of an address into the cache directory, unless it is there, and returns its path
// in the cache. Several processes of a host fetch it once. An interrupted download is continued
// where it ended, if the server has the same file still (If-Range), and five attempts in a row may
// bring no byte. A file that the cache has is taken as it is. Logs which of these happens.
//
//   https://host/a.csv#sha256=HEX   the digest of the file is checked; so is `sha256`, if given
//   s3://bucket/key                 signed (AWS Signature Version 4) if AWS_ACCESS_KEY_ID is set.
//                                   AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION (or
//                                   AWS_DEFAULT_REGION; us-east-1), AWS_ENDPOINT_URL_S3 or
//                                   AWS_ENDPOINT_URL, for stores other than Amazon's
//
// The directory is COHORT_CACHE_DIR, or else cohort below XDG_CACHE_HOME or ~/.cache. Errors, with
// the address: NotFound, PermissionDenied and Unavailable as the server answers; DataLoss for
// another digest or size; InvalidArgument for an address that cannot be read.
//
// No secret leaves for another host: signed requests follow no redirection, and a redirection of
// https:// leads to https:// only.
absl::StatusOr<std::string> FetchFile(const std::string& address, const std::string& sha256,
                                      const FetchOptions& options = {});
// Returns where the cache has the file of an address, or would have it. Errors: those of FetchFile
// for an address that cannot be read, and for the directory.
absl::StatusOr<std::string> CachedPathOf(const std::string& address, const std::string& sha256);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_FILES_REMOTE_FILE_H_

#ifndef COHORT_COMMON_TLS_TLS_TEST_FILES_H_
#define COHORT_COMMON_TLS_TLS_TEST_FILES_H_

#include <ctime>
#include <filesystem>
#include <string>

#include "common/testing/directory_test_util.h"
#include "common/tls/certificate_maker.h"
#include "common/tls/tls_directory.h"

// For tests only.
namespace cohort::testing {

// A CA, and directories with certificates that it has signed.
class TlsTestFiles {
 public:
  // Writes the files for `uri` and returns their directory, which `name` names.
  std::string Write(const std::string& name, const std::string& uri, int days = 1) const {
    return WriteAs(name, Issue(uri, days), ca_.certificate);
  }
  // The same with other contents. Each file is replaced atomically.
  std::string WriteAs(const std::string& name, const IssuedCertificate& issued,
                      const std::string& ca) const {
    const std::string directory = root_ / name;
    std::filesystem::create_directories(directory);
    const TlsPaths paths(directory);
    Replace(paths.certificate, issued.certificate);
    Replace(paths.key, issued.key);
    Replace(paths.ca, ca);
    return directory;
  }
  // With negative `days` the certificate has expired.
  IssuedCertificate Issue(const std::string& uri, int days = 1) const {
    return *IssueCertificate(ca_, {.common_name = "test", .uri = uri, .days = days},
                             std::time(nullptr));
  }
  const IssuedCertificate& ca() const { return ca_; }

  static void Replace(const std::string& path, const std::string& text) {
    WriteAllBytes(path + ".new", text);
    std::filesystem::permissions(
        path + ".new", std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    std::filesystem::rename(path + ".new", path);
  }

 private:
  TestDirectory root_;
  const IssuedCertificate ca_ =
      *MakeAuthority({.common_name = "lab", .days = 1}, std::time(nullptr));
};

}  // namespace cohort::testing

#endif  // COHORT_COMMON_TLS_TLS_TEST_FILES_H_

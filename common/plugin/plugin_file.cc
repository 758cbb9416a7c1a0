#include "common/plugin/plugin_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/plugin/plugin_info.h"

namespace cohort {
namespace {

absl::Status Refused(const std::string& path, std::string_view why) {
  return WithExitCode(FailedPrecondition("plugin {} {}", path, why), ExitCode::kConfig);
}

absl::Status SystemError(const std::string& path, int error) {
  if (error == ENOENT) {
    return WithExitCode(NotFound("plugin {} does not exist", path), ExitCode::kNoInput);
  }
  return Refused(path, fmt::format("cannot be read: {}", std::strerror(error)));
}

// A file in memory.
class MappedFile {
 public:
  ~MappedFile() {
    if (data_ != MAP_FAILED) munmap(data_, size_);
  }
  absl::Status Open(const std::string& path) {
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.get() < 0) return SystemError(path, errno);
    struct stat status;
    if (fstat(fd.get(), &status) != 0) return SystemError(path, errno);
    if (!S_ISREG(status.st_mode)) return Refused(path, "is not a file");
    size_ = static_cast<size_t>(status.st_size);
    if (size_ == 0) return absl::OkStatus();
    data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    return data_ == MAP_FAILED ? SystemError(path, errno) : absl::OkStatus();
  }
  std::string_view bytes() const {
    return data_ == MAP_FAILED ? std::string_view()
                               : std::string_view(static_cast<const char*>(data_), size_);
  }

 private:
  void* data_ = MAP_FAILED;
  size_t size_ = 0;
};

// The part of the header that does not depend on the class of the file.
struct ElfStart {
  unsigned char ident[EI_NIDENT];
  uint16_t type;
  uint16_t machine;
};

// Returns false if this is no ELF file.
bool ReadElfStart(std::string_view bytes, ElfStart* start) {
  if (bytes.size() < sizeof(*start) || bytes.substr(0, SELFMAG) != ELFMAG) return false;
  std::memcpy(start, bytes.data(), sizeof(*start));
  return true;
}

// Returns why a file is no shared library for this processor; "" if it is one.
std::string WhyNoLibrary(std::string_view bytes) {
  ElfStart start = {};
  if (!ReadElfStart(bytes, &start)) return "is not a shared library";
  MappedFile self;
  ElfStart own = start;
  if (self.Open("/proc/self/exe").ok()) ReadElfStart(self.bytes(), &own);
  const bool same_processor = own.ident[EI_CLASS] == start.ident[EI_CLASS] &&
                              own.ident[EI_DATA] == start.ident[EI_DATA] &&
                              own.machine == start.machine;
  if (!same_processor) {
    return fmt::format("is for another processor: ELF machine {}, this is {}", start.machine,
                       own.machine);
  }
  return start.type == ET_DYN ? "" : "is not a shared library";
}

// Returns false if the file has no info. The text of kMagic alone, as in a program of Cohort, is no
// info: a version follows it there.
bool FindInfo(std::string_view bytes, PluginInfo* info) {
  size_t at = bytes.find(PluginInfo::kMagic);
  while (at != std::string_view::npos && bytes.size() - at >= sizeof(*info)) {
    std::memcpy(info, bytes.data() + at, sizeof(*info));
    if (info->version[0] >= '0' && info->version[0] <= '9') return true;
    at = bytes.find(PluginInfo::kMagic, at + 1);
  }
  return false;
}

}  // namespace

absl::Status CheckPluginFile(const std::string& path) {
  MappedFile file;
  COHORT_RETURN_IF_ERROR(file.Open(path));
  const std::string_view bytes = file.bytes();
  if (const std::string why = WhyNoLibrary(bytes); !why.empty()) return Refused(path, why);
  PluginInfo info;
  if (!FindInfo(bytes, &info)) {
    return Refused(path, "is not a plugin of Cohort: it has no COHORT_PLUGIN");
  }
  const PluginInfo own = ThisPluginInfo();
  if (info.version != own.version) {
    return Refused(path, fmt::format("was built against Cohort {}, this is {}: build it again",
                                     info.Version(), own.Version()));
  }
  if (info.facts == own.facts) return absl::OkStatus();
  return Refused(path,
                 fmt::format("was built with another compiler, or other libraries or headers, "
                             "than this Cohort {}: build it again",
                             own.Version()));
}

absl::Status CheckPluginFiles(std::span<const std::string> paths) {
  for (const std::string& path : paths) COHORT_RETURN_IF_ERROR(CheckPluginFile(path));
  return absl::OkStatus();
}

}  // namespace cohort

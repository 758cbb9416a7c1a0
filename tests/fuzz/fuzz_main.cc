// fuzz_test TARGET: runs libFuzzer on a decoder for COHORT_FUZZ_SECONDS (6), beginning with the
// seeds of the target. An input that crashes the decoder is written to the working directory. To
// repeat it:
//
//   fuzz_test TARGET FILE
#include <google/protobuf/stubs/logging.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/fuzz_target.h"

namespace cohort::fuzz {

std::string FileOf(std::string_view bytes) {
  static const int file = ::memfd_create("fuzz", 0);
  const bool written = ::ftruncate(file, 0) == 0 && ::pwrite(file, bytes.data(), bytes.size(), 0) ==
                                                        static_cast<ssize_t>(bytes.size());
  if (!written) std::abort();
  return fmt::format("/proc/self/fd/{}", file);
}

std::string NewDirectory() {
  static std::vector<std::string> directories;
  std::string path = (std::filesystem::temp_directory_path() / "cohort-fuzz-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) std::abort();
  directories.push_back(path);
  std::atexit([] {
    for (const std::string& directory : directories) {
      std::error_code ignored;
      std::filesystem::remove_all(directory, ignored);
    }
  });
  return path;
}

std::string RepositoryFile(const std::string& path) {
  const char* const source = std::getenv("COHORT_SOURCE_DIR");
  std::ifstream in(std::string(source == nullptr ? "." : source) + "/" + path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

namespace {

FuzzTarget target = {};

const FuzzTarget kTargets[] = {SafetensorsTarget(), ManifestTarget(),  JournalTarget(),
                               PushPullTarget(),    KerasJsonTarget(), NpyTarget(),
                               NpzTarget(),         TfRecordTarget(),  ImageTarget(),
                               JsonLinesTarget(),   LibsvmTarget(),    TracedModelTarget()};

// Returns the directory of the corpus.
std::string WriteSeeds() {
  const std::string directory = NewDirectory();
  int number = 0;
  for (const std::string& seed : target.seeds()) {
    if (!target.decode(seed).ok()) {
      std::fprintf(stderr, "seed %d: %s\n", number, target.decode(seed).ToString().c_str());
      std::exit(1);
    }
    std::ofstream(fmt::format("{}/{}", directory, number++), std::ios::binary) << seed;
  }
  return directory;
}

std::vector<std::string> Arguments(int argc, char** argv) {
  const char* const seconds = std::getenv("COHORT_FUZZ_SECONDS");
  // By default a finding ends with 77, which CTest takes for a skipped test.
  std::vector<std::string> arguments = {argv[0], "-timeout=20", "-rss_limit_mb=4096",
                                        "-error_exitcode=1",
                                        fmt::format("-artifact_prefix={}-", target.name)};
  arguments.insert(arguments.end(), argv + 2, argv + argc);
  if (argc > 2) return arguments;
  arguments.push_back(fmt::format("-max_total_time={}", seconds == nullptr ? "6" : seconds));
  arguments.emplace_back("-print_final_stats=1");
  arguments.push_back(WriteSeeds());
  return arguments;
}

}  // namespace
}  // namespace cohort::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace cohort::fuzz;
  static const google::protobuf::LogSilencer quiet;
  for (const FuzzTarget& one : kTargets) {
    if (*argc > 1 && std::string_view((*argv)[1]) == one.name) target = one;
  }
  if (target.name == nullptr) {
    std::fprintf(stderr, "usage: fuzz_test TARGET [FILE]\n");
    std::exit(64);
  }
  static std::vector<std::string> arguments = Arguments(*argc, *argv);
  static std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  *argc = static_cast<int>(arguments.size());
  *argv = pointers.data();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::Status status =
      cohort::fuzz::target.decode({reinterpret_cast<const char*>(data), size});
  if (!status.ok() && status.message().empty()) std::abort();  // an error without a message
  return 0;
}

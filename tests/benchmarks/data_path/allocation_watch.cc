#include "tests/benchmarks/data_path/allocation_watch.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

namespace {

constexpr int kMaxFrames = 32;
constexpr int kMaxRanges = 64;
constexpr int kKeptTraces = 6;

enum class Owner { kProgram, kGrpc };
struct Range {
  uintptr_t begin;
  uintptr_t end;
  Owner owner;
};

// Written before counting starts.
Range ranges[kMaxRanges];
int range_count = 0;

std::atomic<bool> counting{false};
std::atomic<int64_t> ours{0};
std::atomic<int64_t> grpcs{0};
std::atomic<int> kept{0};
void* traces[kKeptTraces][kMaxFrames];
int trace_depths[kKeptTraces];
thread_local bool looking = false;

int AddRanges(dl_phdr_info* info, size_t, void*) {
  const std::string_view name = info->dlpi_name;
  const bool grpc = name.find("libgrpc") != std::string_view::npos ||
                    name.find("libgpr") != std::string_view::npos;
  if (!name.empty() && !grpc) return 0;
  for (int i = 0; i < info->dlpi_phnum && range_count < kMaxRanges; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    ranges[range_count++] = {begin, begin + header.p_memsz, grpc ? Owner::kGrpc : Owner::kProgram};
  }
  return 0;
}

// `caller` is the return address of operator new: what lies within it is the counting itself.
void Count(void* caller) {
  void* frames[kMaxFrames];
  const int depth = backtrace(frames, kMaxFrames);
  int first = 0;
  while (first < depth && frames[first] != caller) ++first;
  for (int i = first; i < depth; ++i) {
    const auto address = reinterpret_cast<uintptr_t>(frames[i]);
    for (int r = 0; r < range_count; ++r) {
      if (address < ranges[r].begin || address >= ranges[r].end) continue;
      if (ranges[r].owner == Owner::kGrpc) {
        grpcs.fetch_add(1, std::memory_order_relaxed);
        return;
      }
      ours.fetch_add(1, std::memory_order_relaxed);
      const int trace = kept.fetch_add(1, std::memory_order_relaxed);
      if (trace >= kKeptTraces) return;
      std::memcpy(traces[trace], frames + first,
                  sizeof(void*) * static_cast<size_t>(depth - first));
      trace_depths[trace] = depth - first;
      return;
    }
  }
  grpcs.fetch_add(1, std::memory_order_relaxed);  // the thread is not one of ours
}

void* Allocate(size_t size, size_t alignment, void* caller) {
  if (counting.load(std::memory_order_relaxed) && !looking) {
    looking = true;
    Count(caller);
    looking = false;
  }
  void* memory = alignment == 0 ? std::malloc(size)
                                : std::aligned_alloc(
                                      alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

std::string Describe(void* const* frames, int depth) {
  std::string text;
  for (int i = 0; i < depth && i < 10; ++i) {
    Dl_info info = {};
    const bool found = dladdr(frames[i], &info) != 0;
    int status = -1;
    char* name = found && info.dli_sname != nullptr
                     ? abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status)
                     : nullptr;
    const char* file = found && info.dli_fname != nullptr ? info.dli_fname : "?";
    const auto offset = reinterpret_cast<uintptr_t>(frames[i]) -
                        reinterpret_cast<uintptr_t>(found ? info.dli_fbase : nullptr);
    char line[512];
    std::snprintf(line, sizeof(line), "  %.300s %.100s+0x%zx\n", status == 0 ? name : "?", file,
                  static_cast<size_t>(offset));
    text += line;
    std::free(name);
  }
  return text + "\n";
}

}  // namespace

void* operator new(size_t size) { return Allocate(size, 0, __builtin_return_address(0)); }
void* operator new(size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment), __builtin_return_address(0));
}
// Sanitizers have their own of this, which would not go with our delete.
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return Allocate(size, 0, __builtin_return_address(0));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace cohort::bench {

void StartCountingAllocations() {
  void* frame = nullptr;
  backtrace(&frame, 1);  // loads what it needs, which allocates
  range_count = 0;
  dl_iterate_phdr(&AddRanges, nullptr);
  ours = grpcs = 0;
  kept = 0;
  counting = true;
}

AllocationCounts StopCountingAllocations() {
  counting = false;
  AllocationCounts counts{ours, grpcs, ""};
  for (int i = 0; i < kept && i < kKeptTraces; ++i) {
    counts.first_of_ours += Describe(traces[i], trace_depths[i]);
  }
  return counts;
}

}  // namespace cohort::bench

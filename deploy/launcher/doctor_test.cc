#include "deploy/launcher/doctor.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "common/base/flags.h"
#include "common/base/status.h"

namespace cohort {
namespace {

using Catch::Contains;

struct Diagnosis {
  ExitCode code;
  std::string text;
};
Diagnosis Diagnose(const DoctorFacts& facts) {
  std::ostringstream out;
  const ExitCode code = WriteDiagnosis(facts, out);
  return {code, out.str()};
}

DeviceFacts WorkingGpu() {
  return {.name = "cuda:0",
          .info = {.model = "NVIDIA H200",
                   .capability = "9.0",
                   .memory_bytes = 4 << 20,
                   .free_bytes = 3 << 20},
          .usage = DeviceUsage{.utilization = 0.25},
          .status = absl::OkStatus()};
}
DeviceFacts NoGpu() {
  return {.name = "cuda:0", .status = NotFound("cuda:0: CUDA finds no GPU here")};
}

DoctorFacts Facts() {
  return {.instruction_set = "avx2",
          .libraries = "onednn 2.6.3",
          .reads_hdf5 = true,
          .gpu = {.toolkit = "13.0", .driver = "580.65", .driver_cuda = "13.0", .gpus = 1}};
}

TEST_CASE("a machine on which all works needs no advice") {
  DoctorFacts facts = Facts();
  facts.devices = {WorkingGpu()};
  const Diagnosis diagnosis = Diagnose(facts);
  CHECK(diagnosis.code == ExitCode::kOk);
  CHECK(diagnosis.text == "cohort:   " + std::string(CohortVersion()) +
                              "\n"
                              "cpu:      avx2; onednn 2.6.3\n"
                              "hdf5:     yes\n"
                              "tls:      yes\n"
                              "toolkit:  CUDA 13.0\n"
                              "driver:   580.65, which runs CUDA up to 13.0; GPUs: 1\n"
                              "devices:\n"
                              "  cpu: works\n"
                              "  cuda:0: NVIDIA H200, compute capability 9.0, 3.0 MiB of 4.0 MiB "
                              "free, 25 % busy: works\n"
                              "\n"
                              "Everything that this build supports works here.\n");
}

TEST_CASE("a build without CUDA works, and names the toolkit if there is a GPU") {
  DoctorFacts facts = Facts();
  facts.gpu.toolkit = "";
  Diagnosis diagnosis = Diagnose(facts);
  CHECK(diagnosis.code == ExitCode::kOk);
  CHECK_THAT(diagnosis.text, Contains("toolkit:  without CUDA\n") &&
                                 Contains("install NVIDIA's CUDA toolkit (13 or later)"));
  facts.gpu = {};
  diagnosis = Diagnose(facts);
  CHECK(diagnosis.code == ExitCode::kOk);
  CHECK_THAT(diagnosis.text, Contains("driver:   none\n") && !Contains("install"));
}

TEST_CASE("a build with CUDA but without a GPU fails, and says what lacks") {
  DoctorFacts facts = Facts();
  facts.devices = {NoGpu()};
  std::string expected;
  SECTION("the driver") {
    facts.gpu = {.toolkit = "13.0"};
    expected = "No NVIDIA driver answers. Install one that runs CUDA 13.0 or later.";
  }
  SECTION("a newer driver") {
    facts.gpu.driver_cuda = "12.8";
    expected = "The driver 580.65 runs CUDA up to 12.8, but this build needs 13.0.";
  }
  SECTION("the GPU") {
    facts.gpu.gpus = 0;
    expected = "The driver finds no GPU.";
  }
  SECTION("something else") { expected = "Check CUDA_VISIBLE_DEVICES"; }
  const Diagnosis diagnosis = Diagnose(facts);
  CHECK(diagnosis.code == ExitCode::kUnavailable);
  CHECK_THAT(diagnosis.text, Contains("  cuda:0: fails: cuda:0: CUDA finds no GPU here\n") &&
                                 Contains(expected) && Contains("use --devices=cpu") &&
                                 !Contains("Everything"));
}

TEST_CASE("a newer minor version of the toolkit needs no newer driver") {
  DoctorFacts facts = Facts();
  facts.gpu.toolkit = "13.2";
  facts.devices = {NoGpu()};
  CHECK_THAT(Diagnose(facts).text, !Contains("newer driver"));
}

TEST_CASE("a library that lacks is named") {
  DoctorFacts facts = Facts();
  facts.devices = {WorkingGpu()};
  facts.devices[0].status = Unimplemented("cuBLAS cannot be loaded (libcublas.so.13)");
  const Diagnosis diagnosis = Diagnose(facts);
  CHECK(diagnosis.code == ExitCode::kUnavailable);
  CHECK_THAT(diagnosis.text, Contains("fails: cuBLAS cannot be loaded (libcublas.so.13)\n") &&
                                 Contains("a library of the CUDA toolkit lacks"));
}

TEST_CASE("one device that fails is enough") {
  DoctorFacts facts = Facts();
  facts.devices = {WorkingGpu(), WorkingGpu()};
  facts.devices[1].name = "cuda:1";
  facts.devices[1].status = Internal("cudaGraphLaunch on cuda:1: unspecified launch failure");
  const Diagnosis diagnosis = Diagnose(facts);
  CHECK(diagnosis.code == ExitCode::kUnavailable);
  CHECK_THAT(diagnosis.text, Contains("25 % busy: fails: cudaGraphLaunch on cuda:1"));
}

TEST_CASE("a build without HDF5 works, and names the package") {
  DoctorFacts facts = Facts();
  facts.reads_hdf5 = false;
  const Diagnosis diagnosis = Diagnose(facts);
  CHECK(diagnosis.code == ExitCode::kOk);
  CHECK_THAT(diagnosis.text, Contains("hdf5:     no\n") && Contains("install libhdf5-dev"));
}

TEST_CASE("it examines the devices that it is asked for") {
  std::ostringstream out;
  const auto code = Doctor({.devices = "simulated:2"}, out);
  REQUIRE(code.ok());
  CHECK(*code == ExitCode::kOk);
  CHECK_THAT(out.str(), Contains("simulated:2: simulated on the CPU") && Contains(": works"));
  CHECK(Doctor({.devices = "cpu"}, out).value() == ExitCode::kOk);
  CHECK(ExitCodeOf(Doctor({.devices = "gpu"}, out).status()) == ExitCode::kUsage);
}

TEST_CASE("without devices it examines what this build promises") {
  const auto facts = Examine({});
  REQUIRE(facts.ok());
  CHECK_FALSE(facts->instruction_set.empty());
  CHECK(facts->devices.empty() == facts->gpu.toolkit.empty());
}

}  // namespace
}  // namespace cohort

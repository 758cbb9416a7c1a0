#include "common/base/flags.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "common/base/clock.h"

namespace cohort {
namespace {

using Catch::Contains;

struct Options {
  std::string bind = "here";
  int threads = 2;
  int64_t offset = -1;
  uint64_t seed = 1;
  double timeout_s = 1.5;
  bool fresh = false;
  std::string job;
};

std::unique_ptr<FlagSet> MakeFlags(Options* o, bool job_required = false) {
  auto flags = std::make_unique<FlagSet>("prog", "Does things.");
  flags->Add("bind", &o->bind, "where to listen");
  flags->Add("threads", &o->threads, "how many");
  flags->Add("offset", &o->offset, "bytes");
  flags->Add("seed", &o->seed, "of randomness");
  flags->AddSeconds("timeout_s", &o->timeout_s, "seconds");
  flags->Add("fresh", &o->fresh, "start again");
  flags->AddPositional("JOB.yaml", &o->job, "the job", job_required);
  return flags;
}

TEST_CASE("flags are read into their variables") {
  Options o;
  const auto flags = MakeFlags(&o);
  const ParsedFlags parsed =
      flags->Parse({"--bind", "127.0.0.1:1", "--threads=8", "--offset", "-9223372036854775808",
                    "job.yaml", "--fresh", "--timeout_s", "0.25", "--seed=18446744073709551615"});
  INFO(parsed.err);
  REQUIRE(parsed.run);
  REQUIRE(o.bind == "127.0.0.1:1");
  REQUIRE(o.threads == 8);
  REQUIRE(o.offset == INT64_MIN);
  REQUIRE(o.seed == UINT64_MAX);
  REQUIRE(o.timeout_s == 0.25);
  REQUIRE(o.fresh);
  REQUIRE(o.job == "job.yaml");
  REQUIRE(flags->Given("threads"));
}

TEST_CASE("a flag may be written with dashes") {
  Options o;
  const auto flags = MakeFlags(&o);
  const ParsedFlags parsed = flags->Parse({"--timeout-s=0.5", "--bind", "a-b:1", "job-a.yaml"});
  INFO(parsed.err);
  REQUIRE(parsed.run);
  CHECK(o.timeout_s == 0.5);
  CHECK(o.bind == "a-b:1");
  CHECK(o.job == "job-a.yaml");
}

TEST_CASE("a flag that is not given keeps its default") {
  Options o;
  const auto flags = MakeFlags(&o);
  REQUIRE(flags->Parse({"--fresh=false"}).run);
  REQUIRE(o.threads == 2);
  REQUIRE_FALSE(o.fresh);
  REQUIRE_FALSE(flags->Given("threads"));
}

TEST_CASE("a flag that may be repeated keeps every value") {
  FlagSet flags("prog", "x");
  std::vector<std::string> values;
  std::string job;
  flags.Add("set", &values, "one");
  flags.AddPositional("JOB.yaml", &job, "the job", true);
  const ParsedFlags parsed = flags.Parse({"--set", "a=--x=1", "--set=b", "job.yaml"});
  INFO(parsed.err);
  REQUIRE(parsed.run);
  REQUIRE(values == std::vector<std::string>{"a=--x=1", "b"});
  REQUIRE(job == "job.yaml");
}

TEST_CASE("a flag that may be repeated leaves the next argument to what may be missing") {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--add=a", "job.yaml"}, {"--add", "a", "job.yaml"}}) {
    FlagSet flags("prog", "Does things.");
    std::vector<std::string> values;
    std::string job;
    flags.Add("add", &values, "a value");
    flags.AddPositional("JOB.yaml", &job, "the job", false);
    REQUIRE(flags.Parse(arguments).run);
    REQUIRE(values == std::vector<std::string>{"a"});
    REQUIRE(job == "job.yaml");
  }
}

TEST_CASE("a list of arguments has all that are left, and one at least") {
  const auto parse = [](const std::vector<std::string>& arguments, std::vector<std::string>* runs) {
    FlagSet flags("prog", "x");
    std::string html;
    flags.Add("html", &html, "a page");
    flags.AddPositionals("RUN", runs, "the runs");
    return flags.Parse(arguments);
  };
  std::vector<std::string> runs;
  REQUIRE(parse({"a", "--html", "out", "b", "c"}, &runs).run);
  REQUIRE(runs == std::vector<std::string>{"a", "b", "c"});
  const ParsedFlags none = parse({"--html", "out"}, &runs);
  REQUIRE_FALSE(none.run);
  REQUIRE(none.exit_code == 64);
  REQUIRE_THAT(none.err, Contains("RUN"));
}

TEST_CASE("an argument that is not UTF-8 ends with 64") {
  Options o;
  const ParsedFlags parsed = MakeFlags(&o)->Parse({"--bind", "caf\xe9"});
  REQUIRE_FALSE(parsed.run);
  REQUIRE(parsed.exit_code == 64);
  REQUIRE_THAT(parsed.err, Contains("the argument \"caf\xe9\" of --bind is not UTF-8"));
  REQUIRE_THAT(MakeFlags(&o)->Parse({"--bind=caf\xe9"}).err,
               Contains("the argument \"--bind=caf\xe9\" is not UTF-8"));
  REQUIRE(MakeFlags(&o)->Parse({"--bind", "caf\xc3\xa9"}).run);
}

TEST_CASE("an unknown flag ends with 64 and the nearest name") {
  Options o;
  const auto flags = MakeFlags(&o);
  const ParsedFlags parsed = flags->Parse({"--thread", "3"});
  REQUIRE_FALSE(parsed.run);
  REQUIRE(parsed.exit_code == 64);
  REQUIRE_THAT(parsed.err, Contains("unknown flag --thread; did you mean \"--threads\"?"));
  REQUIRE_THAT(MakeFlags(&o)->Parse({"--frsh=true"}).err, Contains("\"--fresh\""));
  const ParsedFlags far = MakeFlags(&o)->Parse({"--qqqqqq"});
  REQUIRE(far.exit_code == 64);
  REQUIRE_THAT(far.err, Contains("unknown flag --qqqqqq\n"));
}

TEST_CASE("a planned flag or command is reported as not supported yet") {
  Options o;
  const auto flags = MakeFlags(&o);
  flags->AddPlanned("--tls", "TLS is");
  CHECK_THAT(flags->Parse({"--tls_cert=a"}).err,
             Contains("--tls_cert: TLS is not supported yet\n"));
  FlagSet tool("tool", "A tool.");
  tool.AddCommand("inspect", "look");
  tool.AddPlanned("export", "it is");
  const ParsedFlags parsed = tool.Parse({"export", "a"});
  CHECK(parsed.exit_code == 64);
  CHECK_THAT(parsed.err, Contains("export: it is not supported yet\n"));
  CHECK_THAT(tool.Parse({"export", "--format", "b"}).err,
             Contains("export: it is not supported yet\n"));
  CHECK_THAT(tool.Parse({"exprt", "--a"}).err, Contains("there is no command \"exprt\""));
  CHECK_THAT(tool.Parse({"--a", "exprt"}).err, Contains("unknown flag --a"));
  CHECK_THAT(tool.Parse({"inspect", "--a", "b"}).err, Contains("unknown flag --a"));
  CHECK_THAT(tool.Parse({"exprt"}).err, Contains("there is no command \"exprt\""));
}

TEST_CASE("a wrong value ends with 64 and names the flag") {
  Options o;
  for (const std::vector<std::string>& bad : {std::vector<std::string>{"--threads", "many"},
                                              {"--threads"},
                                              {"--timeout_s=soon"},
                                              {"--seed=-1x"},
                                              {"--seed=-1"},
                                              {"--seed", " -1"},
                                              {"--seed=99999999999999999999"},
                                              {"--seed=+99999999999999999999"},
                                              {"--threads=99999999999"},
                                              {"a.yaml", "b.yaml"}}) {
    const ParsedFlags parsed = MakeFlags(&o)->Parse(bad);
    INFO(bad[0]);
    REQUIRE_FALSE(parsed.run);
    REQUIRE(parsed.exit_code == 64);
    const std::string name = bad[0].starts_with("--") ? bad[0].substr(0, bad[0].find('=')) : bad[1];
    REQUIRE_THAT(parsed.err, Contains(name));
  }
}

TEST_CASE("a time must be finite, not negative and representable") {
  Options o;
  const std::pair<const char*, const char*> wrong[] = {
      {"1e300", "--timeout_s: 1e300 is too long; it takes seconds from 0 to 1000000000"},
      {"1e999", "is too long"},
      {"inf", "is too long"},
      {"1000000001", "is too long"},
      {"-inf", "is negative"},
      {"-1", "is negative"},
      {"nan", "is not a time"},
      {"-nan", "-nan is not a time"},
      {"soon", "not a number"}};
  for (const auto& [value, what] : wrong) {
    const ParsedFlags parsed = MakeFlags(&o)->Parse({"--timeout_s", value});
    INFO(value);
    CHECK(parsed.exit_code == 64);
    CHECK_THAT(parsed.err, Contains("--timeout_s") && Contains(what));
  }
  REQUIRE(MakeFlags(&o)->Parse({"--timeout_s=1e9"}).run);
  CHECK(FromSeconds(o.timeout_s) > FromSeconds(o.timeout_s / 2));
  REQUIRE(MakeFlags(&o)->Parse({"--timeout_s", "0"}).run);
}

TEST_CASE("seconds are clamped to a representable duration") {
  const Duration longest = FromSeconds(kMaxSeconds);
  CHECK(TimePoint::max() - longest - longest > RealClock().Now());
  for (const double huge : {1e300, HUGE_VAL, std::nan("")}) CHECK(FromSeconds(huge) == longest);
  CHECK(FromSeconds(-HUGE_VAL) == -longest);
  CHECK(MicrosFromSeconds(1e300) == int64_t{1'000'000'000'000'000});
  CHECK(FromSeconds(0.25) == std::chrono::milliseconds(250));
}

TEST_CASE("an empty number counts as missing") {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--threads", "", "x.yaml"}, {"x.yaml", "--threads="}}) {
    Options o;
    const ParsedFlags parsed = MakeFlags(&o, true)->Parse(arguments);
    CHECK(parsed.exit_code == 64);
    CHECK_THAT(parsed.err, Contains("--threads: its value is missing"));
  }
}

TEST_CASE("a required argument that is missing is named") {
  Options o;
  const ParsedFlags parsed = MakeFlags(&o, true)->Parse({});
  REQUIRE(parsed.exit_code == 64);
  REQUIRE_THAT(parsed.err, Contains("JOB.yaml"));
}

TEST_CASE("help and version go to stdout and end with 0") {
  Options o;
  const ParsedFlags help = MakeFlags(&o, true)->Parse({"--help"});
  REQUIRE_FALSE(help.run);
  REQUIRE(help.exit_code == 0);
  REQUIRE_THAT(help.out, Contains("Does things.") && Contains("--timeout_s") &&
                             Contains("where to listen") && Contains("1.5"));
  const ParsedFlags version = MakeFlags(&o)->Parse({"--version"});
  REQUIRE(version.exit_code == 0);
  REQUIRE(version.out == "prog " + std::string(CohortVersion()) + "\n");
}

TEST_CASE("a program with commands needs one, and knows only its own") {
  int ps = 1;
  std::string job;
  const auto parse = [&](const std::vector<std::string>& arguments, std::string* command) {
    FlagSet flags("cohort", "Launches.");
    FlagSet* local = flags.AddCommand("local", "a whole cluster here");
    local->Add("ps", &ps, "parameter servers");
    local->AddPositional("JOB.yaml", &job, "the job", true);
    flags.AddCommand("check", "validates");
    const ParsedFlags parsed = flags.Parse(arguments);
    *command = flags.command();
    return parsed;
  };
  std::string command;
  REQUIRE(parse({"local", "--ps", "2", "x.yaml"}, &command).run);
  REQUIRE(command == "local");
  REQUIRE(ps == 2);
  REQUIRE(job == "x.yaml");
  REQUIRE(parse({"check"}, &command).run);
  REQUIRE(command == "check");
  REQUIRE_THAT(parse({}, &command).err, Contains("a command is missing"));
  REQUIRE_THAT(parse({"chek"}, &command).err, Contains("did you mean \"check\"?"));
  REQUIRE_THAT(parse({"local", "--pss", "2", "x.yaml"}, &command).err, Contains("\"--ps\"?"));
  REQUIRE_THAT(parse({"local", "--help"}, &command).out, Contains("parameter servers"));
}

}  // namespace
}  // namespace cohort

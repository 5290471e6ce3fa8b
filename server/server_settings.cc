#include "server/server_settings.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "kvstore/base/machine_memory.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/etcd/etcd_endpoints.h"

namespace tilekv {
namespace {

constexpr char kConfigVariable[] = "TILEKV_CONFIG";
constexpr int64_t kGreatestSlowCall_ms = 24 * 3'600'000;

absl::Status Bad(std::string text) { return MakeError(Reason::kInvalidArgument, std::move(text)); }

absl::Status SetDataDir(std::string_view text, NodeProcessOptions& options) {
  options.data_dir = text;
  return absl::OkStatus();
}

absl::Status SetListen(std::string_view text, NodeProcessOptions& options) {
  TILEKV_ASSIGN_OR_RETURN(options.listen, ListenAddress::Parse(text));
  return absl::OkStatus();
}

absl::Status SetHttp(std::string_view text, NodeProcessOptions& options) {
  TILEKV_ASSIGN_OR_RETURN(options.http, ListenAddress::Parse(text));
  return absl::OkStatus();
}

absl::Status SetMaxObjectBytes(std::string_view text, NodeProcessOptions& options) {
  TILEKV_ASSIGN_OR_RETURN(options.max_object_bytes, ParseSize(text));
  return absl::OkStatus();
}

absl::Status SetMemory(std::string_view text, NodeProcessOptions& options) {
  TILEKV_ASSIGN_OR_RETURN(options.memory_bytes, ParseSize(text));
  return absl::OkStatus();
}

absl::Status SetSlowCallMs(std::string_view text, NodeProcessOptions& options) {
  const char* end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, options.slow_call_ms);
  if (error == std::errc() && at == end && options.slow_call_ms >= 0 &&
      options.slow_call_ms <= kGreatestSlowCall_ms) {
    return absl::OkStatus();
  }
  return Bad(fmt::format("'{}' is not a number of milliseconds; it may be 0 to {}, a day",
                         Printable(text), kGreatestSlowCall_ms));
}

absl::Status SetEtcd(std::string_view text, NodeProcessOptions& options) {
  options.cluster.etcd.endpoints = SplitEndpoints(text);
  return ParseEtcdEndpoints(options.cluster.etcd.endpoints).status();
}

absl::Status SetWeight(std::string_view text, NodeProcessOptions& options) {
  TILEKV_ASSIGN_OR_RETURN(options.cluster.weight_milli, ParseWeight(text));
  return absl::OkStatus();
}

absl::Status SetEtcdQuota(std::string_view text, NodeProcessOptions& options) {
  TILEKV_ASSIGN_OR_RETURN(options.cluster.etcd_quota_bytes, ParseSize(text));
  return absl::OkStatus();
}

template <std::string ClusterNodeOptions::*field>
absl::Status SetOfNode(std::string_view text, NodeProcessOptions& options) {
  options.cluster.*field = text;
  return absl::OkStatus();
}

template <std::string EtcdOptions::*field>
absl::Status SetOfEtcd(std::string_view text, NodeProcessOptions& options) {
  options.cluster.etcd.*field = text;
  return absl::OkStatus();
}

// Where a value was found: its text, and who says so.
struct Found {
  std::string text;
  std::string origin;
};
using FoundSettings = std::map<std::string, Found, std::less<>>;

bool IsSetting(std::string_view name) {
  for (const ServerSetting& setting : ServerSettings()) {
    if (setting.name == name) return true;
  }
  return false;
}

std::string SettingNames() {
  std::string names;
  for (const ServerSetting& setting : ServerSettings()) {
    names += (names.empty() ? "" : ", ") + setting.name;
  }
  return names;
}

bool IsEveryAddress(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

// Whether a process can listen on both.
absl::Status CheckAddresses(const ListenAddress& listen, const ListenAddress& http) {
  bool same_host =
      listen.host == http.host || IsEveryAddress(listen.host) || IsEveryAddress(http.host);
  if (listen.port != http.port || listen.port == 0 || !same_host) return absl::OkStatus();
  return Bad(fmt::format("--listen {} and --http {} are one port; give each its own",
                         listen.ToString(), http.ToString()));
}

absl::Status CheckMemory(uint64_t memory_bytes) {
  const uint64_t machine_bytes = MachineMemoryBytes();
  if (machine_bytes == 0 || memory_bytes <= machine_bytes) return absl::OkStatus();
  return Bad(
      fmt::format("--memory is {}; this machine, or the group that the process runs in, has "
                  "{}: give the node less",
                  FormatSize(memory_bytes), FormatSize(machine_bytes)));
}

// One line of the file. CLI11 takes lines apart, but does not say where an item stood: it gets them
// one by one.
absl::Status ReadConfigLine(const std::string& line, const std::string& origin,
                            FoundSettings& found) {
  size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string::npos || line[begin] == '#') return absl::OkStatus();
  std::istringstream input(line);
  std::vector<CLI::ConfigItem> items = CLI::ConfigTOML().from_config(input);
  bool plain = items.size() == 1 && items[0].parents.empty() && items[0].inputs.size() == 1 &&
               line.find('=') != std::string::npos;
  // A quote that is left had no partner: of "a#b" CLI11 takes the second half for a comment.
  if (!plain || items[0].inputs[0].find('"') != std::string::npos) {
    return Bad(
        fmt::format("{}: '{}' cannot be read; write NAME = \"VALUE\", without '#' in the "
                    "value",
                    origin, Printable(line)));
  }
  const std::string& name = items[0].name;
  if (!IsSetting(name)) {
    return Bad(fmt::format("{}: there is no setting '{}'; the settings are {}", origin,
                           Printable(name), SettingNames()));
  }
  auto [at, is_new] = found.try_emplace(name, Found{items[0].inputs[0], origin});
  if (is_new) return absl::OkStatus();
  return Bad(fmt::format("{}: '{}' stands in {} already", origin, name, at->second.origin));
}

absl::StatusOr<FoundSettings> ReadConfigFile(const std::string& path) {
  std::ifstream file(path);
  FoundSettings found;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::string origin = fmt::format("{}, line {}", Printable(path), number);
    TILEKV_RETURN_IF_ERROR(ReadConfigLine(line, origin, found));
  }
  // A directory opens, and fails at the first read.
  if (!file.eof()) {
    return Bad(fmt::format("the configuration file '{}' cannot be read", Printable(path)));
  }
  return found;
}

struct ParsedWords {
  FoundSettings flags;
  std::string config;
  ServerAction action = ServerAction::kServe;
  std::string text;
};

void DescribeProgram(CLI::App& app, ParsedWords& parsed, std::map<std::string, std::string>& texts,
                     bool& print, bool& check) {
  for (const ServerSetting& setting : ServerSettings()) {
    CLI::Option* option = app.add_option(setting.flag(), texts[setting.name], setting.help);
    option->type_name(setting.value);
    if (!setting.default_text.empty()) option->default_str(setting.default_text);
  }
  app.add_option("--config", parsed.config, "Take settings from this file: lines of NAME = VALUE")
      ->type_name("FILE");
  app.add_flag("--print-config", print, "Show every setting and where it comes from; do nothing");
  app.add_flag("--check-config", check, "Check the settings; do nothing. Exits with 0 or 2");
  app.set_version_flag("--version", std::string("tilekv-server ") + TILEKV_VERSION);
  app.footer(
      "Each setting may also come from the environment (TILEKV_DATA_DIR for --data-dir, and so on) "
      "or from the\nfile; the first of flag, environment, file and default decides.\n"
      "The addresses are logged and written to DIR/ADDRESS. SIGTERM and SIGINT stop it.");
}

absl::StatusOr<ParsedWords> ParseWords(std::vector<std::string> words) {
  CLI::App app("tilekv-server: keeps large tensors and plain values in a directory and serves them",
               "tilekv-server");
  ParsedWords parsed;
  std::map<std::string, std::string> texts;
  bool print = false;
  bool check = false;
  DescribeProgram(app, parsed, texts, print, check);
  std::reverse(words.begin(), words.end());  // as CLI11 wants it
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    parsed.text = app.help();
  } catch (const CLI::CallForVersion& version) {
    parsed.text = std::string(version.what()) + "\n";
  } catch (const CLI::ParseError& error) {
    return Bad(fmt::format("{}; 'tilekv-server --help' tells more", error.what()));
  }
  if (!parsed.text.empty()) {
    parsed.action = ServerAction::kShowText;
    return parsed;
  }
  if (print) parsed.action = ServerAction::kPrintConfig;
  if (check) parsed.action = ServerAction::kCheckConfig;
  for (const ServerSetting& setting : ServerSettings()) {
    if (app.count(setting.flag()) == 0) continue;
    parsed.flags[setting.name] = {texts[setting.name], "flag"};
  }
  return parsed;
}

FoundSettings ReadEnvironment(const std::function<const char*(const char*)>& environment) {
  FoundSettings found;
  for (const ServerSetting& setting : ServerSettings()) {
    const std::string variable = setting.variable();
    const char* value = environment(variable.c_str());
    if (value == nullptr || *value == '\0') continue;
    found[setting.name] = {value, "environment " + variable};
  }
  return found;
}

}  // namespace

std::string ServerSetting::variable() const {
  std::string out = "TILEKV_";
  for (char c : name) {
    out += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return out;
}

const std::vector<ServerSetting>& ServerSettings() {
  static const std::vector<ServerSetting> settings = {
      {"data-dir", "DIR", "Directory of the store; made when it is missing", "", "", SetDataDir},
      {"listen", "HOST:PORT", "Where to serve gRPC; port 0: any free one",
       NodeProcessOptions().listen.ToString(), "", SetListen},
      {"max-object-bytes", "SIZE",
       "Largest object that a new store takes. An existing store keeps its own; another value is "
       "an error",
       "",
       fmt::format("{} in a new store, what it has in an existing one",
                   FormatSizeShort(kDefaultMaxObjectBytes)),
       SetMaxObjectBytes},
      {"memory", "SIZE",
       fmt::format("Memory for buffers, index and streams; {} at least",
                   FormatSizeShort(kLeastMemoryBytes)),
       FormatSizeShort(kDefaultServerMemoryBytes), "", SetMemory},
      {"http", "HOST:PORT", "Where to serve /metrics, /healthz and /readyz; port 0: any free one",
       NodeProcessOptions().http.ToString(), "", SetHttp},
      {"slow-call-ms", "MS",
       "Calls that take longer are logged, waits for their clients not counted; 0: none",
       fmt::format("{}", NodeProcessOptions().slow_call_ms), "", SetSlowCallMs},
      {"etcd", "URL[,URL...]",
       "Be a node of the cluster whose names are in this etcd: http://HOST[:2379] or https://...",
       "", "a node by itself", SetEtcd},
      {"cluster", "NAME", "Which cluster, as 'tilekv cluster init' named it", "",
       "a node by itself", SetOfEtcd<&EtcdOptions::cluster>},
      {"node-id", "ID", "The node's name in the cluster, for ever", "",
       "what the cluster has for the data directory, or a name made of host and directory",
       SetOfNode<&ClusterNodeOptions::node_id>},
      {"advertise", "HOST:PORT", "Where other nodes and clients reach this one", "",
       "where it listens", SetOfNode<&ClusterNodeOptions::advertise>},
      {"host", "NAME", "The machine, of which no two copies are needed; when it joins", "",
       "the machine's name", SetOfNode<&ClusterNodeOptions::host>},
      {"zone", "NAME", "Machines that fail together; when it joins", "", "a zone without a name",
       SetOfNode<&ClusterNodeOptions::zone>},
      {"weight", "NUMBER", "The node's share of the objects; when it joins",
       FormatWeight(kWeightOne_milli), "", SetWeight},
      {"etcd-ca", "FILE", "Who signs the certificates of etcd's members, for https", "",
       "whom the system trusts", SetOfEtcd<&EtcdOptions::ca_file>},
      {"etcd-cert", "FILE", "Certificate to show to etcd", "", "none",
       SetOfEtcd<&EtcdOptions::cert_file>},
      {"etcd-key", "FILE", "Its key", "", "none", SetOfEtcd<&EtcdOptions::key_file>},
      {"etcd-user", "NAME", "User of etcd", "", "none", SetOfEtcd<&EtcdOptions::user>},
      {"etcd-password-file", "FILE", "File whose first line is the user's password", "", "none",
       SetOfNode<&ClusterNodeOptions::etcd_password_file>},
      {"etcd-quota", "SIZE",
       fmt::format("What etcd may use (its --quota-backend-bytes): from {} % of it on no new names "
                   "are taken",
                   kEtcdRefusePercent),
       FormatSizeShort(kEtcdQuotaBytes), "", SetEtcdQuota},
  };
  return settings;
}

absl::StatusOr<ServerCommand> ParseServerCommand(
    const std::vector<std::string>& words,
    const std::function<const char*(const char*)>& environment) {
  TILEKV_ASSIGN_OR_RETURN(ParsedWords parsed, ParseWords(words));
  ServerCommand command;
  command.action = parsed.action;
  command.text = std::move(parsed.text);
  if (command.action == ServerAction::kShowText) return command;
  if (parsed.config.empty()) {
    const char* config = environment(kConfigVariable);
    if (config != nullptr) parsed.config = config;
  }
  FoundSettings file;
  if (!parsed.config.empty()) {
    TILEKV_ASSIGN_OR_RETURN(file, ReadConfigFile(parsed.config));
  }
  const FoundSettings variables = ReadEnvironment(environment);
  const FoundSettings* const places[] = {&file, &variables, &parsed.flags};  // the last decides
  for (const ServerSetting& setting : ServerSettings()) {
    EffectiveSetting effective{&setting, setting.default_text, "default"};
    for (const FoundSettings* place : places) {
      auto found = place->find(setting.name);
      if (found == place->end()) continue;
      effective.text = found->second.text;
      effective.origin = found->second.origin;
    }
    if (effective.origin != "default" || !effective.text.empty()) {
      absl::Status applied = setting.apply(effective.text, command.options);
      if (!applied.ok()) {
        return WithContext(applied, fmt::format("{} ({})", setting.flag(), effective.origin));
      }
    }
    command.settings.push_back(std::move(effective));
  }
  return command;
}

absl::Status CheckServerCommand(const ServerCommand& command) {
  if (command.options.data_dir.empty()) {
    return Bad(
        "--data-dir is missing: the directory of the store; or set TILEKV_DATA_DIR, or data-dir in "
        "the file of --config");
  }
  TILEKV_RETURN_IF_ERROR(CheckAddresses(command.options.listen, command.options.http));
  TILEKV_RETURN_IF_ERROR(CheckMemory(command.options.memory_bytes));
  return CheckOptions(command.options);
}

std::string ConfigText(const ServerCommand& command) {
  std::string out;
  for (const EffectiveSetting& effective : command.settings) {
    const ServerSetting& setting = *effective.setting;
    if (effective.origin == "default" && effective.text.empty()) {
      out += fmt::format("# {} is not set: {}\n", setting.name,
                         setting.unset_help.empty() ? "it must be" : setting.unset_help);
      continue;
    }
    const std::string line = fmt::format("{} = \"{}\"", setting.name, effective.text);
    FoundSettings read;
    bool is_read_again =
        ReadConfigLine(line, "", read).ok() && read[setting.name].text == effective.text;
    if (is_read_again) {
      out += fmt::format("{:<50} # {}\n", line, effective.origin);
    } else {
      out += fmt::format("# {} cannot be written into a file, but is '{}' ({})\n", setting.name,
                         Printable(effective.text), effective.origin);
    }
  }
  return out;
}

}  // namespace tilekv

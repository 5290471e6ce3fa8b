#include "server/server_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

class ServerSettingsTest : public testing::Test {
 protected:
  ServerSettingsTest() {
    std::string path = (std::filesystem::temp_directory_path() / "tilekv-settings-XXXXXX").string();
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  ~ServerSettingsTest() override { std::filesystem::remove_all(folder_); }

  std::string File(const std::string& text) {
    std::string path = folder_ / "node.toml";
    std::ofstream(path) << text;
    return path;
  }

  static absl::StatusOr<ServerCommand> Parse(const std::vector<std::string>& words,
                                             const Variables& variables = {}) {
    return ParseServerCommand(words, [&variables](const char* name) -> const char* {
      auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  }

  static std::string Error(const std::vector<std::string>& words, const Variables& variables = {}) {
    absl::StatusOr<ServerCommand> command = Parse(words, variables);
    EXPECT_FALSE(command.ok());
    EXPECT_EQ(GetReason(command.status()), Reason::kInvalidArgument);
    return ErrorText(command.status());
  }

  std::filesystem::path folder_;
};

TEST_F(ServerSettingsTest, AFlagBeatsTheEnvironmentWhichBeatsTheFileWhichBeatsTheDefault) {
  const std::string config = File("memory = 200MiB\n");
  const Variables variable = {{"TILEKV_MEMORY", "300MiB"}};
  EXPECT_EQ(Parse({})->options.memory_bytes, kDefaultServerMemoryBytes);
  EXPECT_EQ(Parse({"--config", config})->options.memory_bytes, 200 * kMiB);
  EXPECT_EQ(Parse({"--config", config}, variable)->options.memory_bytes, 300 * kMiB);
  EXPECT_EQ(Parse({"--config", config, "--memory", "400MiB"}, variable)->options.memory_bytes,
            400 * kMiB);
}

TEST_F(ServerSettingsTest, EverySettingIsAVariableAndAKeyOfTheFile) {
  const std::map<std::string, std::string> texts = {{"data-dir", "/data"},
                                                    {"listen", "0.0.0.0:1"},
                                                    {"max-object-bytes", "1MiB"},
                                                    {"memory", "123MiB"},
                                                    {"http", "[::1]:2"},
                                                    {"slow-call-ms", "250"},
                                                    {"etcd", "https://a:1,https://b:2"},
                                                    {"cluster", "prod"},
                                                    {"node-id", "n1"},
                                                    {"advertise", "n1:7070"},
                                                    {"host", "h1"},
                                                    {"zone", "z1"},
                                                    {"weight", "1.5"},
                                                    {"etcd-ca", "/ca"},
                                                    {"etcd-cert", "/cert"},
                                                    {"etcd-key", "/key"},
                                                    {"etcd-user", "u"},
                                                    {"etcd-password-file", "/password"},
                                                    {"etcd-quota", "4GiB"}};
  Variables variables;
  std::string file;
  for (const ServerSetting& setting : ServerSettings()) {
    ASSERT_EQ(texts.count(setting.name), 1) << "give " << setting.name << " a text here";
    variables[setting.variable()] = texts.at(setting.name);
    file += setting.name + " = \"" + texts.at(setting.name) + "\"\n";
  }
  EXPECT_EQ(variables.count("TILEKV_MAX_OBJECT_BYTES"), 1);
  for (const auto& command : {Parse({}, variables), Parse({"--config", File(file)}),
                              Parse({}, {{"TILEKV_CONFIG", File(file)}})}) {
    ASSERT_TRUE(command.ok()) << command.status();
    for (const EffectiveSetting& setting : command->settings) {
      EXPECT_EQ(setting.text, texts.at(setting.setting->name));
      EXPECT_NE(setting.origin, "default");
    }
    EXPECT_EQ(command->options.data_dir, "/data");
    EXPECT_EQ(command->options.max_object_bytes, kMiB);
    EXPECT_EQ(command->options.slow_call_ms, 250);
    EXPECT_EQ(command->options.http.ToString(), "[::1]:2");
    const ClusterNodeOptions& cluster = command->options.cluster;
    EXPECT_EQ(cluster.etcd.endpoints.size(), 2u);
    EXPECT_EQ(cluster.etcd.cluster, "prod");
    EXPECT_EQ(cluster.etcd.ca_file, "/ca");
    EXPECT_EQ(cluster.etcd_password_file, "/password");
    EXPECT_EQ(cluster.node_id, "n1");
    EXPECT_EQ(cluster.zone, "z1");
    EXPECT_EQ(cluster.weight_milli, 1'500u);
    EXPECT_EQ(cluster.etcd_quota_bytes, 4 * kGiB);
    EXPECT_TRUE(CheckServerCommand(*command).ok());
  }
}

TEST_F(ServerSettingsTest, ANodeOfAClusterIsToldBothEtcdAndCluster) {
  const auto check = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"--data-dir", "/d", "--memory", "64MiB"});
    return ErrorText(CheckServerCommand(*Parse(words)));
  };
  EXPECT_THAT(check({"--etcd", "http://e"}), HasSubstr("--cluster is missing"));
  EXPECT_THAT(check({"--cluster", "c"}), HasSubstr("--etcd is missing"));
  EXPECT_THAT(check({"--zone", "z"}), HasSubstr("--etcd is missing"));
  const std::vector<std::string> both = {"--etcd", "http://e", "--cluster", "c"};
  EXPECT_TRUE(CheckServerCommand(*Parse({"--data-dir", "/d", "--memory", "64MiB", "--etcd", "e",
                                         "--cluster", "c"}))
                  .ok());
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), both.begin(), both.end());
    return check(more);
  };
  EXPECT_THAT(with({"--advertise", "host:0"}), HasSubstr("--advertise"));
  EXPECT_THAT(with({"--etcd-user", "u"}), HasSubstr("--etcd-password-file"));
  EXPECT_THAT(with({"--etcd-cert", "f"}), HasSubstr("--etcd-key"));
  EXPECT_THAT(Error({"--etcd", "http://e,https://f"}), HasSubstr("--etcd (flag): "));
  EXPECT_THAT(Error({"--weight", "0"}), HasSubstr("--weight (flag): "));
}

TEST_F(ServerSettingsTest, AMistakeInTheFileIsNamedWithItsLine) {
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"# hello\n\nmemry = 1GiB\n", "line 3: there is no setting 'memry'; the settings are "},
      {"memory = 1GiB\nmemory = 2GiB\n", "line 2: 'memory' stands in"},
      {"memory\n", "line 1: 'memory' cannot be read"},
      {"[server]\nmemory = 1GiB\n", "line 1: '[server]' cannot be read"},
      {"data-dir = \"/a#b\"\n", "line 1: 'data-dir = \"/a#b\"' cannot be read"},
      {"data-dir = /a b\n", "line 1: 'data-dir = /a b' cannot be read"},
      {"memory = lots\n", "node.toml, line 1): "},
  };
  for (const auto& [text, error] : mistakes) {
    EXPECT_THAT(Error({"--config", File(text)}), HasSubstr(error)) << text;
  }
  EXPECT_THAT(Error({"--config", folder_ / "none"}), HasSubstr("none' cannot be read"));
  EXPECT_THAT(Error({"--config", folder_}), HasSubstr("cannot be read"));
}

TEST_F(ServerSettingsTest, AMistakeElsewhereIsNamedWithItsPlace) {
  EXPECT_THAT(Error({"--memory", "lots"}), HasSubstr("--memory (flag): "));
  for (const char* text :
       {"-1", "1s", "99999999999999999999", "soon", "86400001", "9223372036854775807"}) {
    EXPECT_THAT(Error({std::string("--slow-call-ms=") + text}),
                HasSubstr("is not a number of milliseconds"));
  }
  EXPECT_EQ(Parse({"--slow-call-ms=86400000"})->options.slow_call_ms, 86'400'000);
  for (const char* text : {"host with space:1", ":1", "[]:1", "a/b:1", "host:65536", "::1:1"}) {
    EXPECT_THAT(Error({"--http", text}), HasSubstr("is not an address to listen on")) << text;
  }
  for (const char* text : {"my-host.example_1:1", "[fe80::1%eth0]:1", "0.0.0.0:1"}) {
    EXPECT_EQ(Parse({"--http", text})->options.http.ToString(), text);
  }
  EXPECT_THAT(Error({}, {{"TILEKV_LISTEN", "x"}}),
              HasSubstr("--listen (environment TILEKV_LISTEN): "));
  EXPECT_THAT(Error({"--colour"}), HasSubstr("--colour"));
}

TEST_F(ServerSettingsTest, CheckingFindsWhatNoNodeCanWorkWith) {
  EXPECT_TRUE(CheckServerCommand(*Parse({"--data-dir", "/d"})).ok());
  EXPECT_TRUE(CheckServerCommand(*Parse({}, {{"TILEKV_DATA_DIR", "/d"}})).ok());
  EXPECT_THAT(ErrorText(CheckServerCommand(*Parse({}, {{"TILEKV_DATA_DIR", ""}}))),
              HasSubstr("--data-dir is missing"));
  EXPECT_THAT(ErrorText(CheckServerCommand(*Parse({"--data-dir", "/d", "--memory", "1MiB"}))),
              HasSubstr("64 MiB at least"));
  EXPECT_THAT(
      ErrorText(CheckServerCommand(*Parse({"--data-dir", "/d", "--max-object-bytes", "2GiB"}))),
      HasSubstr("64 KiB to 1 GiB"));
  EXPECT_THAT(ErrorText(CheckServerCommand(*Parse({"--data-dir", "/d", "--memory", "999TiB"}))),
              HasSubstr("this machine"));
}

TEST_F(ServerSettingsTest, CheckingFindsTwoAddressesThatAreOnePort) {
  auto check = [](const char* listen, const char* http) {
    return CheckServerCommand(
        *Parse({"--data-dir", "/d", "--memory", "64MiB", "--listen", listen, "--http", http}));
  };
  for (const char* http : {"127.0.0.1:80", "0.0.0.0:80", "[::]:80"}) {
    EXPECT_THAT(ErrorText(check("127.0.0.1:80", http)), HasSubstr("are one port")) << http;
    EXPECT_THAT(ErrorText(check(http, "127.0.0.1:80")), HasSubstr("are one port")) << http;
  }
  EXPECT_TRUE(check("127.0.0.1:80", "127.0.0.1:81").ok());
  EXPECT_TRUE(check("127.0.0.1:80", "10.0.0.1:80").ok());
  EXPECT_TRUE(check("127.0.0.1:0", "127.0.0.1:0").ok()) << "any free ports";
}

TEST_F(ServerSettingsTest, WhatIsPrintedTellsOriginsAndIsAConfigurationAgain) {
  absl::StatusOr<ServerCommand> command =
      Parse({"--data-dir", "/a b", "--config", File("\nhttp = \"[::1]:2\"\n")},
            {{"TILEKV_MEMORY", "300MiB"}});
  ASSERT_TRUE(command.ok()) << command.status();
  const std::string text = ConfigText(*command);
  EXPECT_THAT(text, testing::ContainsRegex("data-dir = \"/a b\" +# flag\n"));
  EXPECT_THAT(text, testing::ContainsRegex("memory = \"300MiB\" +# environment TILEKV_MEMORY\n"));
  EXPECT_THAT(text, testing::ContainsRegex("http = .* +# .*node.toml, line 2\n"));
  EXPECT_THAT(text, testing::ContainsRegex("listen = \"127.0.0.1:7070\" +# default\n"));
  EXPECT_THAT(text, HasSubstr("# max-object-bytes is not set: 256 MiB in a new store"));
  absl::StatusOr<ServerCommand> again = Parse({"--config", File(text)});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->options.data_dir, "/a b");
  EXPECT_EQ(again->options.memory_bytes, 300 * kMiB);
  EXPECT_EQ(again->options.http.ToString(), "[::1]:2");
  EXPECT_FALSE(again->options.max_object_bytes.has_value());
}

TEST_F(ServerSettingsTest, WhatNoFileCanHoldIsPrintedAsAComment) {
  for (const char* directory : {"/a\"b", "/a#b", "/a\nmemory = 1TiB", "/a\\"}) {
    absl::StatusOr<ServerCommand> command = Parse({"--data-dir", directory});
    const std::string text = ConfigText(*command);
    absl::StatusOr<ServerCommand> again = Parse({"--config", File(text)});
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->options.memory_bytes, kDefaultServerMemoryBytes);
    if (again->options.data_dir != directory) {
      EXPECT_EQ(again->options.data_dir, "");
      EXPECT_THAT(text, HasSubstr("# data-dir cannot be written into a file"));
    }
  }
}

TEST_F(ServerSettingsTest, HelpNeedsNothingElse) {
  EXPECT_EQ(Parse({"--help"})->action, ServerAction::kShowText);
  EXPECT_THAT(Parse({"--help"})->text, HasSubstr("--print-config"));
  EXPECT_THAT(Parse({"--version"})->text, testing::StartsWith("tilekv-server "));
}

}  // namespace
}  // namespace tilekv

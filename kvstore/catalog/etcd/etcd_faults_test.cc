// An etcd that is stopped, killed, full, guarded by passwords and certificates, of which a member
// is lost: as processes.
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/clock.h"
#include "kvstore/catalog/etcd/etcd_test_util.h"
#include "kvstore/catalog/keys.h"

namespace tilekv {
namespace {

using testing::HasSubstr;

// What must come true, sooner or later.
bool Eventually(const std::function<bool()>& condition) {
  auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

// However short the timeout and however busy the machine.
std::unique_ptr<EtcdCatalog> Opened(const EtcdOptions& options) {
  auto catalog = EtcdCatalog::Open(options);
  Eventually([&] {
    if (GetReason(catalog.status()) != Reason::kNodeUnavailable) return true;
    catalog = EtcdCatalog::Open(options);
    return false;
  });
  EXPECT_TRUE(catalog.ok()) << catalog.status();
  return catalog.ok() ? *std::move(catalog) : nullptr;
}

EtcdOptions Patient(const EtcdProcess& etcd) {
  EtcdOptions options = TestOptions(etcd, "faults");
  options.timeout_ms = 30'000;
  return options;
}

absl::StatusOr<TxnResult> Put(Catalog& catalog, const std::string& key, const std::string& value) {
  return catalog.Txn({.compares = {}, .writes = {CatalogWrite::Put(key, value)}});
}

std::string ValueOf(Catalog& catalog, const std::string& key) {
  auto entry = catalog.Get(key);
  if (!entry.ok()) return std::string(entry.status().message());
  return *entry ? (*entry)->value : "-";
}

// What a watch has told, and how often it told everything.
class Seen {
 public:
  CatalogUpdateCallback Callback() {
    return [this](const CatalogUpdate& update) {
      MutexLock lock(mutex_);
      if (update.everything) {
        ++listings_;
        values_.clear();
      }
      for (const CatalogEntry& entry : update.entries) values_[entry.key] = entry.value;
      for (const std::string& key : update.deleted) values_.erase(key);
    };
  }
  std::map<std::string, std::string> values() {
    MutexLock lock(mutex_);
    return values_;
  }
  int listings() {
    MutexLock lock(mutex_);
    return listings_;
  }

 private:
  Mutex mutex_;
  std::map<std::string, std::string> values_ ABSL_GUARDED_BY(mutex_);
  int listings_ ABSL_GUARDED_BY(mutex_) = 0;
};

using Values = std::map<std::string, std::string>;

TEST(EtcdFaults, AStoppedEtcdIsUnavailableByNameAndAllGoesOnWhenItDoes) {
  EtcdProcess etcd;
  EtcdOptions options = TestOptions(etcd, "faults");
  options.timeout_ms = 1'000;
  options.try_ms = 400;
  auto catalog = Opened(options);
  ASSERT_TRUE(Eventually([&] { return Put(*catalog, "a", "1").ok(); }));
  etcd.Pause();
  absl::Status read = catalog->Get("a").status();
  EXPECT_EQ(GetReason(read), Reason::kNodeUnavailable) << read;
  EXPECT_THAT(std::string(read.message()), HasSubstr(etcd.endpoints()[0]));
  // It is known to be away: nothing is sent, so nothing is unknown.
  absl::Status write = Put(*catalog, "a", "2").status();
  EXPECT_EQ(GetReason(write), Reason::kNodeUnavailable) << write;
  EXPECT_EQ(GetReason(catalog->KeepAlive(1, 10).status()), Reason::kNodeUnavailable);
  etcd.Continue();
  EXPECT_TRUE(Eventually([&] { return catalog->Get("a").ok(); }));
  EXPECT_EQ(ValueOf(*catalog, "a"), "1");
  EXPECT_TRUE(Eventually([&] { return Put(*catalog, "a", "3").ok(); }));
}

TEST(EtcdFaults, AWriteInFlightWhenEtcdStopsIsUnknownAndHappensOnceOrNever) {
  EtcdProcess etcd;
  EtcdOptions options = TestOptions(etcd, "faults");
  options.timeout_ms = 1'000;
  options.try_ms = 400;
  auto catalog = Opened(options);
  etcd.Pause();
  auto result =
      catalog->Txn({.compares = {Compare::Absent("a")}, .writes = {CatalogWrite::Put("a", "1")}});
  EXPECT_EQ(GetReason(result.status()), Reason::kOutcomeUnknown) << result.status();
  etcd.Continue();
  EXPECT_TRUE(Eventually([&] { return catalog->Get("a").ok(); }));
  auto entry = catalog->Get("a");
  ASSERT_TRUE(entry.ok());
  if (*entry) {
    EXPECT_EQ((*entry)->create_revision, (*entry)->mod_revision);
  }
}

TEST(EtcdFaults, AnEtcdThatIsNotThereIsUnavailable) {
  EtcdProcess etcd;
  EtcdOptions options = TestOptions(etcd, "faults");
  options.timeout_ms = 300;
  etcd.Kill();
  absl::Status status = EtcdCatalog::Open(options).status();
  EXPECT_EQ(GetReason(status), Reason::kNodeUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(etcd.endpoints()[0]));
}

TEST(EtcdFaults, AfterARestartAllIsThereAndWatchesBeginWithAListing) {
  EtcdProcess etcd;
  auto catalog = Opened(Patient(etcd));
  Seen seen;
  ASSERT_TRUE(Put(*catalog, "w/1", "a").ok());
  ASSERT_TRUE(Put(*catalog, "x", "not watched").ok());
  auto watch = catalog->Watch("w/", PrefixEnd("w/"), seen.Callback());
  EXPECT_TRUE(Eventually([&] { return seen.values() == Values{{"w/1", "a"}}; }));
  ASSERT_TRUE(Put(*catalog, "w/2", "b").ok());
  EXPECT_TRUE(Eventually([&] { return seen.values() == Values{{"w/1", "a"}, {"w/2", "b"}}; }));
  ASSERT_TRUE(catalog->Txn({.compares = {}, .writes = {CatalogWrite::Delete("w/1")}}).ok());
  EXPECT_TRUE(Eventually([&] { return seen.values() == Values{{"w/2", "b"}}; }));
  EXPECT_EQ(seen.listings(), 1);

  etcd.Kill();
  etcd.Restart();
  EXPECT_EQ(ValueOf(*catalog, "w/2"), "b");
  ASSERT_TRUE(Eventually([&] { return Put(*catalog, "w/3", "c").ok(); }));
  EXPECT_TRUE(Eventually([&] { return seen.values() == Values{{"w/2", "b"}, {"w/3", "c"}}; }));
  EXPECT_GE(seen.listings(), 2);
  EXPECT_TRUE(catalog->CheckWritable().ok());
}

TEST(EtcdFaults, AWatchEndsWhileEtcdIsAway) {
  EtcdProcess etcd;
  auto catalog = Opened(Patient(etcd));
  Seen seen;
  auto watch = catalog->Watch("w/", PrefixEnd("w/"), seen.Callback());
  EXPECT_TRUE(Eventually([&] { return seen.listings() == 1; }));
  etcd.Pause();
  watch.reset();
}

TEST(EtcdFaults, AWatchSeesWhatACompactionHasLeft) {
  EtcdProcess etcd;
  auto catalog = Opened(Patient(etcd));
  Seen seen;
  auto watch = catalog->Watch("w/", PrefixEnd("w/"), seen.Callback());
  EXPECT_TRUE(Eventually([&] { return seen.listings() == 1; }));
  etcd.Kill();
  etcd.Restart();
  ASSERT_TRUE(Eventually([&] { return Put(*catalog, "w/1", "a").ok(); }));
  ASSERT_TRUE(Put(*catalog, "w/1", "b").ok());
  ASSERT_TRUE(catalog->Compact(*catalog->CurrentRevision()).ok());
  EXPECT_TRUE(Eventually([&] { return seen.values() == Values{{"w/1", "b"}}; }));
}

TEST(EtcdFaults, NoMembersLossLosesACountOrStopsTheRest) {
  EtcdProcess etcd({.members = 3});
  auto catalog = Opened(Patient(etcd));
  ASSERT_TRUE(Put(*catalog, "n", "0").ok());
  int count = 0;
  auto increment = [&] {
    auto entry = catalog->Get("n");
    ASSERT_TRUE(entry.ok() && *entry) << entry.status();
    EXPECT_EQ((*entry)->value, std::to_string(count));
    auto result = catalog->Txn({.compares = {Compare::Mod("n", (*entry)->mod_revision)},
                                .writes = {CatalogWrite::Put("n", std::to_string(count + 1))}});
    // One writer: what is tried again is either done or found done.
    ASSERT_TRUE(result.ok() && result->applied) << result.status();
    ++count;
  };
  for (size_t member = 0; member < etcd.size(); ++member) {
    for (int i = 0; i < 5; ++i) increment();
    etcd.Kill(member);
    for (int i = 0; i < 5; ++i) increment();
    etcd.Restart(member);
  }
  for (size_t member = 0; member < etcd.size(); ++member) {
    etcd.Pause(member);
    for (int i = 0; i < 3; ++i) increment();
    etcd.Continue(member);
  }
  EXPECT_TRUE(catalog->CheckWritable().ok());
}

TEST(EtcdFaults, AMemberWithoutALeaderRefusesAndEndsItsWatches) {
  EtcdProcess etcd({.members = 3});
  EtcdOptions options = Patient(etcd);
  options.endpoints.resize(1);
  options.timeout_ms = 1'000;
  auto hasty = Opened(options);
  auto rpc = *MakeEtcdGrpc(options);
  etcdserverpb::WatchRequest watch;
  watch.mutable_create_request()->set_key("a");
  Reply reply;
  std::unique_ptr<EtcdWatchStream> stream;
  EXPECT_TRUE(Eventually([&] {
    stream = rpc->Watch(watch, Clock::System()->MonotonicNanos() + 1'000'000'000, reply);
    return stream != nullptr;
  }));
  etcdserverpb::WatchResponse response;
  ASSERT_TRUE(stream->Read(response));
  EXPECT_TRUE(response.created());
  etcd.Kill(1);
  etcd.Kill(2);
  // While it has not noticed, what was sent may be done yet; then nothing is sent any more.
  EXPECT_TRUE(Eventually([&] {
    absl::Status status = Put(*hasty, "w/1", "a").status();
    EXPECT_FALSE(status.ok());
    return GetReason(status) == Reason::kNodeUnavailable;
  }));
  EXPECT_FALSE(stream->Read(response));  // it ends, while its member runs
  etcd.Restart(1);
  EXPECT_TRUE(Eventually([&] { return Put(*hasty, "w/1", "b").ok(); }));
}

TEST(EtcdFaults, AFullEtcdTakesDeletesAndReadsAndSaysWhatToDo) {
  EtcdProcess etcd({.flags = {"--quota-backend-bytes", "4194304"}});
  auto catalog = Opened(Patient(etcd));
  absl::Status full;
  for (int i = 0; i < 20 && full.ok(); ++i) {
    full = Put(*catalog, fmt::format("k/{}", i), std::string(1'000'000, 'x')).status();
  }
  EXPECT_EQ(GetReason(full), Reason::kStoreFull) << full;
  EXPECT_THAT(std::string(full.message()), HasSubstr("etcdctl alarm disarm"));
  auto entry = catalog->Get("k/0");
  ASSERT_TRUE(entry.ok() && *entry) << entry.status();
  auto deleted = catalog->Txn({.compares = {Compare::Mod("k/0", (*entry)->mod_revision)},
                               .writes = {CatalogWrite::Delete("k/0")}});
  EXPECT_TRUE(deleted.ok() && deleted->applied) << deleted.status();
  EXPECT_EQ(ValueOf(*catalog, "k/0"), "-");
  auto status = catalog->Status();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_GT(status->database_bytes, 2u << 20);
  EXPECT_THAT(status->version, HasSubstr("3."));
}

// --- leases, on etcd's clock

TEST(EtcdFaults, ALeaseThatNobodyRenewsEndsByItselfAndOneThatIsKeptDoesNot) {
  EtcdProcess etcd({.heartbeat_ms = 20});
  auto catalog = Opened(Patient(etcd));
  auto kept = catalog->Grant(1);
  auto left = catalog->Grant(2);
  ASSERT_TRUE(kept.ok() && left.ok());
  auto put = [&](const std::string& key, LeaseId lease) {
    return catalog->Txn({.compares = {}, .writes = {CatalogWrite::Put(key, "x", lease)}});
  };
  ASSERT_TRUE(put("kept", *kept)->applied);
  ASSERT_TRUE(put("left/1", *left)->applied);
  ASSERT_TRUE(put("left/2", *left)->applied);
  EXPECT_TRUE(*catalog->KeepAlive(*kept, 3'600));  // by the catalog, from here on
  EXPECT_TRUE(Eventually([&] { return ValueOf(*catalog, "left/1") == "-"; }));
  EXPECT_EQ(ValueOf(*catalog, "left/2"), "-");
  EXPECT_FALSE(*catalog->KeepAlive(*left, 2));
  EXPECT_EQ(GetReason(put("late", *left).status()), Reason::kSessionLost);
  EXPECT_EQ(ValueOf(*catalog, "kept"), "x");
  EXPECT_TRUE(*catalog->KeepAlive(*kept, 3'600));
  // It is kept by this object, not by etcd.
  auto other = Opened(Patient(etcd));
  catalog.reset();
  EXPECT_TRUE(Eventually([&] { return ValueOf(*other, "kept") == "-"; }));
}

TEST(EtcdFaults, ALeaseThatSomebodyElseEndedIsFoundEnded) {
  EtcdProcess etcd;
  auto catalog = Opened(Patient(etcd));
  auto other = Opened(Patient(etcd));
  auto lease = catalog->Grant(5);
  ASSERT_TRUE(lease.ok());
  EXPECT_TRUE(*other->KeepAlive(*lease, 5)) << "any holder renews it";
  ASSERT_TRUE(other->Revoke(*lease).ok());
  EXPECT_TRUE(Eventually([&] { return !*catalog->KeepAlive(*lease, 5); }));
  EXPECT_TRUE(catalog->Revoke(*lease).ok());
}

// --- certificates and passwords

// A CA, and certificates that it signs for members and for clients.
class Certificates {
 public:
  explicit Certificates(std::string folder) : folder_(std::move(folder)) {
    Run({"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", Path("ca.key"), "-out", Path("ca.pem"), "-days", "2", "-subj", "/CN=test ca"});
    Sign("server");
    Sign("client");
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

 private:
  void Sign(const std::string& name) {
    Run({"req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
         Path(name + ".key"), "-out", Path(name + ".csr"), "-subj", "/CN=" + name, "-addext",
         "subjectAltName=IP:127.0.0.1"});
    Run({"x509", "-req", "-in", Path(name + ".csr"), "-CA", Path("ca.pem"), "-CAkey",
         Path("ca.key"), "-CAcreateserial", "-copy_extensions", "copy", "-out", Path(name + ".pem"),
         "-days", "2"});
  }
  static void Run(std::vector<std::string> words) {
    words.insert(words.begin(), "openssl");
    std::string output;
    EXPECT_EQ(RunProgram(words, &output), 0) << output;
  }

  const std::string folder_;
};

class TemporaryFolder {
 public:
  TemporaryFolder() { EXPECT_NE(mkdtemp(path_.data()), nullptr); }
  ~TemporaryFolder() { RunProgram({"rm", "-rf", path_}); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = testing::TempDir() + "tilekv-certificates-XXXXXX";
};

TEST(EtcdSecurity, CertificatesAreCheckedOnBothSides) {
  TemporaryFolder folder;
  Certificates certificates(folder.path());
  EtcdProcess etcd({.tls = true,
                    .flags = {"--cert-file", certificates.Path("server.pem"), "--key-file",
                              certificates.Path("server.key"), "--client-cert-auth",
                              "--trusted-ca-file", certificates.Path("ca.pem")}});
  EtcdOptions options = Patient(etcd);
  options.ca_file = certificates.Path("ca.pem");
  options.cert_file = certificates.Path("client.pem");
  options.key_file = certificates.Path("client.key");
  auto catalog = Opened(options);
  ASSERT_NE(catalog, nullptr);
  EXPECT_TRUE(Put(*catalog, "a", "1").ok());
  EXPECT_EQ(ValueOf(*catalog, "a"), "1");

  options.timeout_ms = 500;
  EtcdOptions without = options;
  without.cert_file = without.key_file = "";
  EXPECT_EQ(GetReason(EtcdCatalog::Open(without).status()), Reason::kNodeUnavailable);
  without = options;
  without.ca_file = certificates.Path("client.pem");  // signed by another
  EXPECT_EQ(GetReason(EtcdCatalog::Open(without).status()), Reason::kNodeUnavailable);
  without = options;
  without.key_file = "";
  EXPECT_EQ(GetReason(EtcdCatalog::Open(without).status()), Reason::kInvalidArgument);
  without = options;
  without.ca_file = folder.path() + "/none";
  EXPECT_EQ(GetReason(EtcdCatalog::Open(without).status()), Reason::kInvalidArgument);
}

TEST(EtcdSecurity, AUserOfTheClustersKeysIsEnoughAndItsTokenIsRenewed) {
  EtcdProcess etcd({.flags = {"--bcrypt-cost", "4"}});
  EtcdOptions options = Patient(etcd);
  options.user = "tilekv";
  options.password = "secret";
  auto early = Opened(options);  // there are no users yet
  ASSERT_NE(early, nullptr);
  std::string prefix = "/tilekv/faults/";
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"user", "add", "root:root"},
           {"user", "grant-role", "root", "root"},
           {"role", "add", "of-tilekv"},
           {"role", "grant-permission", "of-tilekv", "readwrite", "--prefix=true", prefix},
           {"user", "add", "tilekv:secret"},
           {"user", "grant-role", "tilekv", "of-tilekv"},
           {"auth", "enable"}}) {
    std::string output;
    ASSERT_EQ(etcd.Ctl(words, &output), 0) << output;
  }
  auto catalog = Opened(options);
  ASSERT_NE(catalog, nullptr);
  ASSERT_TRUE(Put(*catalog, "a", "1").ok());
  ASSERT_TRUE(Put(*early, "a", "2").ok()) << "it learns that there are users now";
  auto lease = catalog->Grant(60);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_TRUE(*catalog->KeepAlive(*lease, 60));
  EXPECT_TRUE(catalog->Revoke(*lease).ok());
  Seen seen;
  auto watch = catalog->Watch("a", "b", seen.Callback());
  EXPECT_TRUE(Eventually([&] { return seen.values() == Values{{"a", "2"}}; }));

  etcd.Restart();  // it forgets all tokens
  ASSERT_TRUE(Eventually([&] { return Put(*catalog, "a", "3").ok(); }));
  EXPECT_TRUE(Eventually([&] { return seen.values() == Values{{"a", "3"}}; }));
  watch.reset();

  EtcdOptions wrong = options;
  wrong.password = "guess";
  EXPECT_EQ(GetReason(EtcdCatalog::Open(wrong).status()), Reason::kUnauthenticated);
  wrong.user = wrong.password = "";
  EXPECT_EQ(GetReason(EtcdCatalog::Open(wrong).status()), Reason::kUnauthenticated);
  wrong = options;
  wrong.cluster = "another";
  EXPECT_EQ(GetReason(EtcdCatalog::Open(wrong).status()), Reason::kPermissionDenied);
}

}  // namespace
}  // namespace tilekv

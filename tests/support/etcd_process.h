// For tests: an etcd of one or several members on free loopback ports, its data in a temporary
// folder. All of it is gone with the object, whatever the test did; and with the test's process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tilekv {

struct EtcdProcessOptions {
  int members = 1;
  bool tls = false;                     // of clients; the certificates are among `flags`
  std::vector<std::string> flags = {};  // of each member, beside addresses and folder
  int heartbeat_ms = 100;               // an election takes ten times as long
};

class EtcdProcess {
 public:
  // Runs and listens. Aborts the test's process when etcd cannot be started.
  explicit EtcdProcess(EtcdProcessOptions options = {});
  ~EtcdProcess();
  EtcdProcess(const EtcdProcess&) = delete;
  EtcdProcess& operator=(const EtcdProcess&) = delete;

  // Of all members, as clients name them.
  std::vector<std::string> endpoints() const;
  const std::string& folder() const { return folder_; }  // for the test's own files too
  size_t size() const { return members_.size(); }

  void Kill(size_t member = 0);      // kill -9
  void Restart(size_t member = 0);   // with the same data and addresses
  void Pause(size_t member = 0);     // SIGSTOP
  void Continue(size_t member = 0);  // SIGCONT
  void Wipe(size_t member = 0);      // of one that is killed: its data

  // Runs etcdctl against it; its exit status and what it wrote.
  int Ctl(const std::vector<std::string>& words, std::string* output = nullptr);

 private:
  struct Member {
    uint16_t client_port = 0;
    uint16_t peer_port = 0;
    pid_t pid = 0;
  };
  bool StartAll();
  void Spawn(size_t member);
  bool WaitUntilItListens(Member& member);
  std::string Log(size_t member) const;

  const EtcdProcessOptions options_;
  std::string folder_;
  std::vector<Member> members_;
};

// Runs a program found on the PATH to its end; its exit status, -1 when it did not exit by itself.
int RunProgram(const std::vector<std::string>& words, std::string* output = nullptr);

}  // namespace tilekv

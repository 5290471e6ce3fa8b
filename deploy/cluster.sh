#!/usr/bin/env bash
# A cluster on this machine's loopback: etcd and N nodes, to try things out and to break them.
#
#   deploy/cluster.sh up [N [FLAG...]]
#                                  starts it, and waits until all nodes are in (default: 3); the first time with these flags of
#                                  `tilekv cluster init`
#   deploy/cluster.sh status       what runs, and what the cluster says of itself
#   deploy/cluster.sh kill N       ends node N at once, as a crash does; `kill etcd` ends etcd so
#   deploy/cluster.sh start N      starts node N again; `start etcd` too
#   deploy/cluster.sh down         stops all of it in good order; data stays, for the next `up`
#   deploy/cluster.sh wipe         the same, and removes the data
#
# Everything lives in TILEKV_CLUSTER_DIR (default: ./tilekv-cluster): data, logs, and the ids of the processes, by which they are ended.
# Node 1 listens on TILEKV_CLUSTER_PORT (default: 7070), the next ones 10 further each; etcd is between node 1 and node 2.
# The programs are those of TILEKV_BIN (default: build/release/bin), or of PATH.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dir=${TILEKV_CLUSTER_DIR:-$PWD/tilekv-cluster}
base_port=${TILEKV_CLUSTER_PORT:-7070}
bin=${TILEKV_BIN:-$root/build/release/bin}
name=local
patience_s=60
[[ ! -d $bin ]] || PATH=$bin:$PATH

die() {
  printf 'cluster: %s\n' "$*" >&2
  exit 1
}

usage() {
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
}

# --- places ---

grpc_port() { echo $((base_port + 10 * ($1 - 1))); }
http_port() { echo $((base_port + 10 * ($1 - 1) + 1)); }
etcd_url() { echo "http://127.0.0.1:$((base_port + 5))"; }
peer_url() { echo "http://127.0.0.1:$((base_port + 6))"; }
pid_file() { echo "$dir/$1.pid"; }
store_uri() { echo "tilekv://127.0.0.1:$(grpc_port "$1")"; }

# Numbers of the nodes that were ever started here.
node_numbers() {
  local folder
  for folder in "$dir"/node*/; do
    [[ -d $folder ]] || continue
    folder=${folder%/}
    echo "${folder##*/node}"
  done | sort -n
}

# --- processes ---

# pid_of WHAT: of a process that runs and is the one that was started; fails otherwise. A number that another process has by now is none.
pid_of() {
  local file pid started
  file=$(pid_file "$1")
  [[ -s $file ]] || return 1
  read -r pid started <"$file"
  [[ $(start_time "$pid") == "$started" ]] || return 1
  echo "$pid"
}

# When a process was started, in ticks since the machine was; nothing when there is none, or when it has ended and is not waited for yet.
start_time() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
  stat=${stat##*) }
  [[ $stat == Z* ]] || cut -d' ' -f20 <<<"$stat"
}

# spawn WHAT COMMAND...: in the background, for longer than this script.
spawn() {
  local what=$1 pid
  shift
  setsid "$@" </dev/null >>"$dir/$what.log" 2>&1 &
  pid=$!
  echo "$pid $(start_time "$pid")" >"$(pid_file "$what")"
}

# end SIGNAL WHAT: sends it, if the process runs.
end() {
  local pid
  ! pid=$(pid_of "$2") || kill "-$1" "$pid"
}

# gone WHAT: waits until it has ended.
gone() {
  local tries
  for ((tries = 0; tries < 10 * patience_s; tries++)); do
    pid_of "$1" >/dev/null || return 0
    sleep 0.1
  done
  return 1
}

# until_ready WHAT COMMAND...: repeats the command until it succeeds, as long as WHAT runs.
until_ready() {
  local what=$1 tries
  shift
  for ((tries = 0; tries < 10 * patience_s; tries++)); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    pid_of "$what" >/dev/null || break
    sleep 0.1
  done
  tail -n 20 "$dir/$what.log" >&2
  die "$what does not start; its log is $dir/$what.log"
}

etcd_answers() { ETCDCTL_API=3 etcdctl --endpoints "$(etcd_url)" get /; }
node_is_ready() {
  local status
  exec 3<>"/dev/tcp/127.0.0.1/$(http_port "$1")" || return 1
  printf 'GET /readyz HTTP/1.0\r\n\r\n' >&3
  read -r _ status _ <&3
  exec 3>&-
  [[ $status == 200 ]]
}

start_etcd() {
  if pid_of etcd >/dev/null; then return 0; fi
  spawn etcd etcd --name "$name" --data-dir "$dir/etcd" --logger zap --log-level warn \
    --listen-client-urls "$(etcd_url)" --advertise-client-urls "$(etcd_url)" \
    --listen-peer-urls "$(peer_url)" --initial-advertise-peer-urls "$(peer_url)" \
    --initial-cluster "$name=$(peer_url)"
  until_ready etcd etcd_answers
}

start_node() {
  if pid_of "node$1" >/dev/null; then return 0; fi
  spawn "node$1" tilekv-server --data-dir "$dir/node$1" --etcd "$(etcd_url)" --cluster "$name" --node-id "n$1" \
    --host "host$1" --listen "127.0.0.1:$(grpc_port "$1")" --http "127.0.0.1:$(http_port "$1")" --memory 256MiB
}

# --- commands ---

up() {
  local count=$1 number
  shift
  command -v etcd >/dev/null || die "there is no etcd; Debian's package is etcd-server"
  command -v tilekv-server >/dev/null || die "there is no tilekv-server in $bin or PATH: build it with deploy/build.sh"
  mkdir -p "$dir"
  start_etcd
  # A cluster has as many copies as it has nodes, up to three.
  if [[ ! -e $dir/made ]]; then
    tilekv -q cluster init --etcd "$(etcd_url)" --cluster "$name" --replication $((count < 3 ? count : 3)) \
      --min-copies $((count < 2 ? count : 2)) "$@"
    touch "$dir/made"
  fi
  for ((number = 1; number <= count; number++)); do start_node "$number"; done
  for ((number = 1; number <= count; number++)); do until_ready "node$number" node_is_ready "$number"; done
  printf 'up: %s\n' "$(store_uri 1)"
}

status() {
  local what pid number asked=
  [[ -d $dir ]] || die "there is no cluster in $dir"
  while read -r number; do
    what=node$number
    if pid=$(pid_of "$what"); then
      printf '%-8s process %s, %s, http://127.0.0.1:%s\n' "$what" "$pid" "$(store_uri "$number")" "$(http_port "$number")"
      [[ -n $asked ]] || ! node_is_ready "$number" 2>/dev/null || asked=$number
    else
      printf '%-8s does not run\n' "$what"
    fi
  done < <(node_numbers)
  if pid=$(pid_of etcd); then
    printf '%-8s process %s, %s\n' etcd "$pid" "$(etcd_url)"
  else
    printf '%-8s does not run\n' etcd
  fi
  [[ -z $asked ]] || tilekv --store "$(store_uri "$asked")" cluster status
}

# what WORD: "etcd", or "nodeN" of a node that is here.
what() {
  if [[ $1 == etcd ]]; then
    echo etcd
  elif [[ $1 =~ ^[1-9][0-9]*$ && -d $dir/node$1 ]]; then
    echo "node$1"
  else
    die "there is no node $1 in $dir"
  fi
}

crash() {
  local target
  target=$(what "$1")
  end KILL "$target"
  gone "$target" || die "$target does not end"
}

start() {
  local target
  target=$(what "$1")
  if [[ $target == etcd ]]; then
    start_etcd
  else
    start_node "$1"
    until_ready "$target" node_is_ready "$1"
  fi
}

down() {
  local number
  while read -r number; do end TERM "node$number"; done < <(node_numbers)
  while read -r number; do
    gone "node$number" || {
      end KILL "node$number"
      gone "node$number"
    }
  done < <(node_numbers)
  end TERM etcd
  gone etcd || end KILL etcd
  rm -f "$dir"/*.pid
}

case ${1:-}/$# in
  up/1) up 3 ;;
  up/*)
    [[ $2 =~ ^[1-9][0-9]*$ ]] || usage
    up "${@:2}"
    ;;
  status/1) status ;;
  kill/2) crash "$2" ;;
  start/2) start "$2" ;;
  down/1) down ;;
  wipe/1)
    down
    rm -rf "$dir"/node*/ "$dir"/etcd "$dir"/*.log "$dir"/made
    rmdir "$dir" 2>/dev/null || true
    ;;
  *) usage ;;
esac

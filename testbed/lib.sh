# Shared by kafka-up and kafka-down. Sourced, never run.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${FLINKSINK_KAFKA_HOME:-${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/flinksink/kafka}
port=${FLINKSINK_KAFKA_PORT:-19092}
controller=${FLINKSINK_KAFKA_CONTROLLER_PORT:-$((port + 1))}
mkdir -p "$home"

die() { echo "${0##*/}: $*" >&2; exit 1; }
say() { echo "${0##*/}: $*" >&2; }

port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# alive: the process of our pid file runs.
alive() { [[ -s $home/pid ]] && kill -0 "$(<"$home/pid")" 2>/dev/null; }

# quietly LOG COMMAND...: runs COMMAND with its output in LOG; shows the end of LOG when it fails.
quietly() {
  local log=$1; shift
  if ! "$@" >"$log" 2>&1 </dev/null; then
    say "failed: $*"; tail -n 25 "$log" >&2; return 1
  fi
}

# need COMMAND PACKAGE: installs Debian's PACKAGE when COMMAND is missing.
need() {
  command -v "$1" >/dev/null && return 0
  command -v apt-get >/dev/null || die "$1 is missing and there is no apt-get here; install it by hand"
  ((EUID == 0)) || die "$1 is missing and this is not root; ask for: apt-get install $2"
  say "installing $2 with apt-get"
  quietly "$home/apt.log" apt-get update || die "apt-get update failed"
  quietly "$home/apt.log" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$2" || die "apt-get install $2 failed"
}

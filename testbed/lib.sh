# Shared by the scripts beside it. Sourced, never run. The script sets home, the folder that holds a server's state, by folder().
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# folder NAME: home becomes flinksink/NAME in the user's cache folder.
folder() {
  home=${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/flinksink/$1
  mkdir -p "$home"
}

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

# down: ends the process of our pid file, gently, then not.
down() {
  local pid i
  if alive; then
    pid=$(<"$home/pid")
    kill "$pid" 2>/dev/null || true
    for ((i = 0; i < 300; i++)); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -KILL "$pid" 2>/dev/null || true
  fi
  rm -f "$home/pid"
}

#!/bin/sh
# Installs Ringfence on a fresh Debian machine from a repository that `npm run release` made.
# As root: sh install.sh agent --repository URL [--server URL --organization ID --interface NAME [--tls-ca FILE]] <KEYFILE
#          sh install.sh server --repository URL
# With --server and the rest, the agent is enrolled at once by the key on standard input.
set -eu

fail() {
    echo "install: $1" >&2
    exit "${2:-1}"
}

[ $# -ge 3 ] && [ "$2" = --repository ] || fail 'usage: install.sh agent|server --repository URL [options of ringfence-enroll]' 2
program=$1 repository=$3
shift 3
case $program in
agent | server) ;;
*) fail "there is no \`$program\` to install: agent or server" 2 ;;
esac
case $repository in
https://*[!A-Za-z0-9._~:/@%+-]* | file:*[!A-Za-z0-9._~:/@%+-]*) fail "\`$repository\` is no address of a repository" 2 ;;
https://* | file:*) ;;
*) fail 'the repository must be an https address' 2 ;;
esac
[ "$(id -u)" = 0 ] || fail 'only root can do this: use sudo'
command -v apt-get >/dev/null || fail 'this is for Debian and its kin; elsewhere take the npm package or the image'

fetch() {
    case $1 in
    file:*) cat "${1#file:}" ;;
    *) if command -v curl >/dev/null; then curl -fsSL "$1"; else wget -qO- "$1"; fi ;;
    esac
}

# The key that signed the repository: apt believes nothing else of it.
install -d -m 0755 /etc/apt/keyrings
fetch "$repository/ringfence.asc" >/etc/apt/keyrings/ringfence.asc.new
grep -q 'BEGIN PGP PUBLIC KEY BLOCK' /etc/apt/keyrings/ringfence.asc.new || fail 'the repository hands out no key'
mv /etc/apt/keyrings/ringfence.asc.new /etc/apt/keyrings/ringfence.asc
chmod 0644 /etc/apt/keyrings/ringfence.asc
cat >/etc/apt/sources.list.d/ringfence.sources <<END
Types: deb
URIs: $repository
Suites: stable
Components: main
Signed-By: /etc/apt/keyrings/ringfence.asc
END

export DEBIAN_FRONTEND=noninteractive
apt-get -q update
# Not this script's input: that is the key.
apt-get -q -y --no-install-recommends install "ringfence-$program" </dev/null
[ $# -eq 0 ] || exec ringfence-enroll "$@"

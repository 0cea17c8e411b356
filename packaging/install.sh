#!/bin/sh
# Installs Ringfence on a fresh Debian machine from a repository that `npm run release` made.
# As root: sh install.sh agent --repository URL [--key-sha256 HEX] [--interface NAME [--server URL] [--organization ID] [--tls-ca FILE]] <KEYFILE
#          sh install.sh server --repository URL [--key-sha256 HEX]
# With --interface, the agent is enrolled at once by the key on standard input, which carries server and organization.
# --key-sha256 is the SHA-256 of the repository's signing key, the file ringfence.asc, as the people who made the release tell it. Take it
# from them, not from the repository. A copy of this script that `npm run release` signed for knows it already.
set -eu

key_sha256=

fail() {
    echo "install: $1" >&2
    exit "${2:-1}"
}

[ $# -ge 3 ] && [ "$2" = --repository ] || fail 'usage: install.sh agent|server --repository URL [--key-sha256 HEX] [options of ringfence-enroll]' 2
program=$1 repository=$3
shift 3
if [ "${1-}" = --key-sha256 ]; then
    [ $# -ge 2 ] || fail '--key-sha256 needs the SHA-256 of ringfence.asc' 2
    key_sha256=$2
    shift 2
fi
case $program in
agent | server) ;;
*) fail "there is no \`$program\` to install: agent or server" 2 ;;
esac
case $repository in
https://*[!A-Za-z0-9._~:/@%+-]* | file:*[!A-Za-z0-9._~:/@%+-]*) fail "\`$repository\` is no address of a repository" 2 ;;
https://* | file:*) ;;
*) fail 'the repository must be an https address' 2 ;;
esac
case $key_sha256 in
'') fail 'give --key-sha256, the SHA-256 of the key that signs the repository: a key that nobody checked proves nothing' 2 ;;
*[!0-9a-f]*) fail '--key-sha256 takes 64 digits of 0-9 and a-f' 2 ;;
esac
[ ${#key_sha256} -eq 64 ] || fail '--key-sha256 takes 64 digits of 0-9 and a-f' 2
[ "$(id -u)" = 0 ] || fail 'only root can do this: use sudo'
command -v apt-get >/dev/null || fail 'this is for Debian and its kin; elsewhere take the npm package or the image'

fetch() {
    case $1 in
    file:*) cat "${1#file:}" ;;
    *) if command -v curl >/dev/null; then curl -fsSL "$1"; else wget -qO- "$1"; fi ;;
    esac
}

# The key that signed the repository: apt believes nothing else of it. It is checked before apt sees it.
key=$(mktemp)
trap 'rm -f "$key"' EXIT
fetch "$repository/ringfence.asc" >"$key" || fail 'the repository hands out no key'
echo "$key_sha256  $key" | sha256sum --check --status || fail 'the key of the repository is not the one that was named by --key-sha256: nothing is installed'
install -D -m 0644 "$key" /etc/apt/keyrings/ringfence.asc
rm -f "$key"
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

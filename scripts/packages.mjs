/** Owns the list of Debian packages that the commands need: add a line here when a program or test needs another one. */

/** @typedef {'start' | 'lab' | 'test' | 'faults' | 'proxies' | 'bench' | 'package' | 'packages' | 'release'} Purpose */

/**
 * @typedef {object} SystemPackage
 * @property {string} name Debian's name for it
 * @property {readonly Purpose[]} for the commands that need it
 * @property {readonly string[]} needs what must exist: a program's name (looked up in PATH and the sbin folders) or an
 *   absolute path, in which one `*` matches any one folder. Looking for the thing itself, not for the package, accepts
 *   every way in which a machine may have come by it, and costs no process.
 * @property {string} why for the person who reads the progress line
 */

/** @type {readonly Purpose[]} */
export const purposes = ['start', 'lab', 'test', 'faults', 'proxies', 'bench', 'package', 'packages', 'release'];

/** @type {readonly Purpose[]} */
const always = ['start', 'lab', 'test', 'bench'];
/** @type {readonly Purpose[]} */
const networks = ['lab', 'test', 'bench'];
/** @type {readonly Purpose[]} */
const testing = ['test', 'bench'];
/** Making packages, and testing them on real systems. @type {readonly Purpose[]} */
const packaging = ['package', 'packages', 'release'];

/** @type {readonly SystemPackage[]} */
export const systemPackages = [
  {
    name: 'postgresql',
    for: always,
    needs: ['/usr/lib/postgresql/*/bin/postgres', '/usr/lib/postgresql/*/bin/initdb'],
    why: 'the database that the server supervises',
  },
  {
    name: 'util-linux',
    for: always,
    needs: ['setpriv', 'unshare', 'nsenter', 'taskset'],
    why: 'setpriv, which ends the database with its server; namespaces in tests',
  },
  { name: 'nftables', for: networks, needs: ['nft'], why: 'the firewall that the agent drives' },
  {
    name: 'iproute2',
    for: networks,
    needs: ['ip'],
    why: 'network namespaces for the lab and for tests with real packets',
  },
  { name: 'conntrack', for: networks, needs: ['conntrack'], why: 'looking at and ending tracked connections' },
  { name: 'iputils-ping', for: ['lab', 'test'], needs: ['ping'], why: 'echo requests between devices of the lab' },
  {
    name: 'wireguard-go',
    for: ['lab', 'test'],
    needs: ['wireguard-go'],
    why: 'tunnels as driver interfaces in the lab',
  },
  { name: 'wireguard-tools', for: ['lab', 'test'], needs: ['wg'], why: 'the keys and peers of those' },
  { name: 'bsdutils', for: ['test'], needs: ['script'], why: 'a terminal for commands that tests run' },
  { name: 'gnupg', for: ['test', 'packages', 'release'], needs: ['gpg'], why: 'signing the lists of packages' },
  { name: 'pgbouncer', for: ['test'], needs: ['pgbouncer'], why: 'a connection pooler in front of the database' },
  { name: 'zsh', for: ['test'], needs: ['zsh'], why: 'its completion of our commands' },
  { name: 'fish', for: ['test'], needs: ['fish'], why: 'its completion of our commands' },
  { name: 'curl', for: ['test', 'packages'], needs: ['curl'], why: "the examples of the watch protocol's page" },
  { name: 'python3', for: ['test'], needs: ['python3'], why: 'its follower' },
  { name: 'nginx', for: testing, needs: ['nginx'], why: 'the reverse proxy that the docs set up' },
  {
    name: 'prometheus',
    for: ['test'],
    needs: ['prometheus', 'promtool'],
    why: 'checking the alert rules and the dashboard that we ship',
  },
  {
    name: 'podman',
    for: ['test', 'packages'],
    needs: ['podman', 'conmon'],
    why: 'a real container engine beside the rules, and for our images',
  },
  { name: 'crun', for: ['test', 'packages'], needs: ['crun'], why: 'its runtime' },
  {
    name: 'netavark',
    for: ['test', 'packages'],
    needs: ['/usr/lib/podman/netavark'],
    why: 'its networks and published ports',
  },
  { name: 'iptables', for: ['test'], needs: ['iptables', 'ip6tables'], why: 'what it writes its rules with' },
  { name: 'busybox-static', for: ['test'], needs: ['busybox'], why: 'all that is in its container' },
  {
    name: 'chromium-headless-shell',
    for: testing,
    needs: ['chromium-headless-shell'],
    why: 'the browser of the browser tests',
  },
  { name: 'gcc', for: ['bench'], needs: ['gcc'], why: 'load generators and floors written in C' },
  {
    name: 'etcd-server',
    for: ['bench', 'faults'],
    needs: ['etcd'],
    why: 'a peer of the change stream; the store of Patroni',
  },
  { name: 'patroni', for: ['faults'], needs: ['patroni'], why: 'failover of the database cluster' },
  {
    name: 'haproxy',
    for: ['faults', 'proxies'],
    needs: ['haproxy'],
    why: 'the way to the primary of the cluster; a reverse proxy of the docs',
  },
  { name: 'apache2-bin', for: ['proxies'], needs: ['apache2'], why: 'another' },
  { name: 'caddy', for: ['proxies'], needs: ['caddy'], why: 'another' },
  { name: 'varnish', for: ['proxies'], needs: ['varnishd'], why: 'another' },
  { name: 'nats-server', for: ['bench'], needs: ['nats-server'], why: 'another peer of the change stream' },
  { name: 'dpkg', for: packaging, needs: ['dpkg-deb'], why: 'the maker of Debian packages' },
  { name: 'xz-utils', for: packaging, needs: ['xz'], why: 'their compression' },
  {
    name: 'mmdebstrap',
    for: ['packages', 'release'],
    needs: ['mmdebstrap'],
    why: 'whole Debian systems to install packages in',
  },
  {
    name: 'systemd-container',
    for: ['packages'],
    needs: ['systemd-nspawn'],
    why: 'booting those systems',
  },
  {
    name: 'aardvark-dns',
    for: ['packages'],
    needs: ['/usr/lib/podman/aardvark-dns'],
    why: 'the names of containers in its networks',
  },
  { name: 'podman-compose', for: ['packages'], needs: ['podman-compose'], why: 'running our compose file' },
  { name: 'buildah', for: ['packages', 'release'], needs: ['buildah'], why: 'the maker of images' },
  { name: 'minisign', for: ['packages', 'release'], needs: ['minisign'], why: 'the signature of a release' },
  { name: 'libssl-dev', for: ['bench'], needs: ['/usr/include/openssl/ssl.h'], why: 'TLS in those' },
  { name: 'libc6-dev', for: ['bench'], needs: ['/usr/include/stdio.h'], why: 'headers for those' },
];

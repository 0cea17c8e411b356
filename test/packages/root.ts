/** Owns the Debian systems that packages are tested in: made once by mmdebstrap, kept in the cache, never changed. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { cacheFolder } from '../../scripts/packaging/cache.mjs';

/** Debian 12 and 13. */
export type Suite = 'bookworm' | 'trixie';

/** What our packages depend on, and a syslog daemon. Only downloaded: a test installs them from there, as a fresh machine would. */
const dependencies = [
  'postgresql',
  'libnss-systemd',
  'nftables',
  'iproute2',
  'conntrack',
  'libstdc++6',
  'libgcc-s1',
  'rsyslog',
];

/** What any small Debian machine has. */
const installed = ['systemd-sysv', 'dbus'];

/** Where the downloaded packages lie in a root. */
export const downloads = 'srv/downloads';

/** The folder of that system; made if it is not in the cache, which takes a minute and needs Debian's archive. */
export function debianRoot(suite: Suite): string {
  const options = [
    '--variant=apt',
    `--include=${installed.join(',')}`,
    `--customize-hook=chroot "$1" apt-get install -y --no-install-recommends --download-only ${dependencies.join(' ')}`,
    `--customize-hook=mkdir -p "$1/${downloads}" && mv "$1"/var/cache/apt/archives/*.deb "$1/${downloads}/"`,
    '--customize-hook=rm -rf "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/*',
    '--customize-hook=echo "deb [trusted=yes] file:/srv/repository stable main" >"$1/etc/apt/sources.list"',
    '--customize-hook=mkdir -p "$1/var/log/journal"',
    // A machine has an id; without one every boot counts as the first.
    '--customize-hook=echo 0123456789abcdef0123456789abcdef >"$1/etc/machine-id"',
    '--skip=cleanup/apt/cache',
    '--skip=cleanup/reproducible',
  ];
  const key = createHash('sha256').update(JSON.stringify(options)).digest('hex').slice(0, 12);
  const folder = join(cacheFolder('roots'), `${suite}-${key}`);
  if (existsSync(folder)) return folder;
  const draft = `${folder}.${process.pid}`;
  try {
    const sources = 'http://deb.debian.org/debian';
    execFileSync('mmdebstrap', ['--quiet', ...options, suite, draft, sources], { stdio: ['ignore', 'ignore', 'pipe'] });
    renameSync(draft, folder);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
  return folder;
}

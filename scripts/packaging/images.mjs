/** Owns the images of agent and server: small Debians with our packages, made by mmdebstrap and put into a layer by buildah. */
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';

/** The image of this machine's architecture only: the packages' scripts run while it is made. */
export const imageArchitecture = process.arch === 'arm64' ? 'arm64' : 'amd64';

const images = /** @type {const} */ ({
  agent: {
    // The oldest that we support. What nft writes beside the rules for its own listings, a newer one reads; of a newer one, that of a Debian 12 host would
    // crash on our maps.
    suite: 'bookworm',
    // Root without rights but the one that the agent is given.
    config: [
      '--env=RINGFENCE_STATE=/var/lib/ringfence-agent',
      '--env=NODE_OPTIONS=--max-semi-space-size=2',
      '--volume=/var/lib/ringfence-agent',
    ],
    hook: 'mkdir -p "$1/var/lib/ringfence-agent"',
  },
  server: {
    suite: 'trixie',
    config: [
      '--env=RINGFENCE_DATA=/var/lib/ringfence',
      '--env=RINGFENCE_LISTEN=0.0.0.0:8080',
      '--volume=/var/lib/ringfence',
      '--port=8080',
      '--user=ringfence',
    ],
    // The database is configured not to compile its queries: the compiler would be a third of the image.
    hook: 'rm -rf "$1"/usr/lib/postgresql/*/lib/bitcode "$1"/usr/lib/postgresql/*/lib/llvmjit* "$1"/usr/lib/*/libLLVM* "$1"/usr/lib/*/libz3.so* && chroot "$1" useradd --system --uid 990 --home-dir /var/lib/ringfence --create-home ringfence && chmod 0700 "$1/var/lib/ringfence"',
  },
});

/** @param {string} program @param {readonly string[]} args @param {NodeJS.ProcessEnv} [env] */
function run(program, args, env = process.env) {
  const { status, stdout, stderr, error } = spawnSync(program, args, { encoding: 'utf8', env });
  if (status !== 0) throw new Error(`${program} failed: ${error?.message ?? stderr.slice(-4000)}`);
  return stdout.trim();
}

/**
 * One image as a file that `podman load` and `docker load` take.
 * @param {keyof typeof images} name
 * @param {{ debs: readonly string[], version: string, epoch: number, outdir: string }} options
 */
export function buildImage(name, { debs, version, epoch, outdir }) {
  const work = mkdtempSync(join(tmpdir(), 'ringfence-image-'));
  // Storage of our own, of plain folders: it works wherever files do, and leaves nothing behind.
  const storage = ['--root', join(work, 'storage'), '--runroot', join(work, 'run'), '--storage-driver', 'vfs'];
  const { suite, config, hook } = images[name];
  const wanted = debs.filter((deb) =>
    new RegExp(`/(ringfence|ringfence-${name})_|/ringfence-node_[^/]*_${imageArchitecture}\\.deb$`).test(deb),
  );
  const file = join(outdir, `ringfence-${name}_${version}_${imageArchitecture}.tar`);
  try {
    for (const deb of wanted) copyFileSync(deb, join(work, basename(deb)));
    const root = join(work, 'root');
    const install = 'apt-get install -y --no-install-recommends -o Dpkg::Use-Pty=0 /tmp/debs/*.deb';
    const options = [
      '--variant=apt',
      `--customize-hook=mkdir "$1/tmp/debs" && cp ${work}/*.deb "$1/tmp/debs/"`,
      `--customize-hook=chroot "$1" sh -c '${install}'`,
      '--customize-hook=rm -rf "$1/tmp/debs" "$1"/usr/share/locale/* "$1"/usr/share/man/*',
      // PostgreSQL's packages generate a key during installation. It is unused, and would be the same in every copy of
      // the image.
      '--customize-hook=rm -f "$1"/etc/ssl/private/ssl-cert-snakeoil.key "$1"/etc/ssl/certs/ssl-cert-snakeoil.pem',
      '--customize-hook=if [ -d "$1/etc/ssl/certs" ]; then find "$1/etc/ssl/certs" -lname ssl-cert-snakeoil.pem -delete; fi',
      `--customize-hook=${hook}`,
    ];
    const env = { ...process.env, SOURCE_DATE_EPOCH: String(epoch), TMPDIR: work };
    run('mmdebstrap', ['--quiet', ...options, suite, root, 'http://deb.debian.org/debian'], env);
    const container = run('buildah', [...storage, 'from', 'scratch']);
    // buildah's own copy would give every file to root.
    run('cp', ['-a', `${root}/.`, run('buildah', [...storage, 'mount', container])]);
    const entry = JSON.stringify(['/usr/bin/ringfence', name]);
    const labels = ['--label', `org.opencontainers.image.version=${version}`];
    run('buildah', [...storage, 'config', ...config, ...labels, '--entrypoint', entry, '--cmd', '', container]);
    const commit = ['commit', '--quiet', '--timestamp', String(epoch), container];
    run('buildah', [...storage, ...commit, `docker-archive:${file}:localhost/ringfence-${name}:${version}`]);
    return file;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** @param {{ debs: readonly string[], version: string, epoch: number, outdir: string }} options */
export const buildImages = (options) => [buildImage('agent', options), buildImage('server', options)];

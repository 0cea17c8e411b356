/** Owns what the four Debian packages hold and ask for. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runtimeVersion } from './runtime.mjs';
import { Tree } from './tree.mjs';
import { debianVersion } from './version.mjs';

/** @import { Deb } from './deb.mjs' */
/** @import { Architecture } from './runtime.mjs' */

const top = fileURLToPath(new URL('../..', import.meta.url));
const packaging = join(top, 'packaging');
/** @param {string} path */
const read = (path) => readFileSync(join(top, path), 'utf8');

/** Where the private runtime lies, which the program names in its first line. */
export const runtimePath = 'usr/lib/ringfence/node';
const programFolder = 'usr/lib/ringfence/program';

/** The builder of packages is their maintainer, as with Debian's own tools. Default: an address that cannot exist. */
const { DEBFULLNAME = 'Ringfence maintainers', DEBEMAIL = 'maintainers@ringfence.invalid' } = process.env;
const common = {
  Maintainer: `${DEBFULLNAME} <${DEBEMAIL}>`,
  Section: 'net',
  Priority: 'optional',
};

/** @param {string} title @param {readonly string[]} lines */
const description = (title, ...lines) => [title, ...lines.map((line) => ` ${line}`)].join('\n');

/**
 * The runtime changes seldom: it has a version of its own, so that an upgrade of the program does not fetch it again.
 * @param {Architecture} architecture
 * @param {{ program: Buffer, licence: Buffer }} runtime
 * @returns {Deb}
 */
export function runtimePackage(architecture, { program, licence }) {
  return {
    fields: {
      Package: 'ringfence-node',
      Version: `${runtimeVersion}-1`,
      Architecture: architecture,
      ...common,
      Section: 'javascript',
      Depends: 'libc6 (>= 2.28), libgcc-s1 (>= 4.2), libstdc++6 (>= 9)',
      Description: description(
        'private Node.js runtime of Ringfence',
        'The release of Node.js that Ringfence is tested with, without its debugging',
        'symbols, under /usr/lib/ringfence. It does not touch a Node.js of the system.',
      ),
    },
    tree: new Tree().file(runtimePath, program, 0o755).file('usr/share/doc/ringfence-node/copyright', licence),
  };
}

/**
 * The program, the web UI and the documentation.
 * @param {{ program: string, version: string, notices: string }} options `program` is a built checkout
 * @returns {Deb}
 */
export function programPackage({ program, version, notices }) {
  const tree = new Tree();
  const start = readFileSync(join(program, 'bin/ringfence'), 'utf8').replace(/^#!.*\n/, `#!/${runtimePath}\n`);
  const manifest = { name: 'ringfence', version, type: 'module' };
  // Maps and types are for those who develop; the library is in the npm package, the notices in `copyright`.
  const ships = (/** @type {string} */ name) =>
    !/\.map$|^types\/|^client\.mjs|^NOTICES\.txt$|^components\.json$/.test(name);
  tree
    .copy(`${programFolder}/dist`, join(program, 'dist'), ships)
    .file(`${programFolder}/bin/ringfence`, start, 0o755)
    .file(`${programFolder}/package.json`, `${JSON.stringify(manifest, undefined, 2)}\n`)
    .link('usr/bin/ringfence', '../lib/ringfence/program/bin/ringfence')
    .copy('usr/share/doc/ringfence', join(program, 'docs'), (name) => /^[a-z-]+\.md$/.test(name))
    .file('usr/share/doc/ringfence/CHANGELOG.md', readFileSync(join(program, 'CHANGELOG.md')))
    .file('usr/share/doc/ringfence/copyright', `${read('LICENSE')}\n${notices}`);
  return {
    fields: {
      Package: 'ringfence',
      Version: debianVersion(version),
      Architecture: 'all',
      ...common,
      Depends: `ringfence-node (>= ${runtimeVersion})`,
      Suggests: 'ringfence-agent, ringfence-server',
      Description: description(
        'security groups for fleets of Linux devices',
        'The program of Ringfence: the command line, the server with its web UI, and',
        'the agent. ringfence-server and ringfence-agent run them as services.',
      ),
    },
    tree,
    scripts: { preinst: read('packaging/debian/ringfence/preinst') },
  };
}

/** Where a checkout keeps its units. */
export const unitFolder = join(packaging, 'systemd');

/**
 * A unit with its maintainer scripts.
 * @param {'agent' | 'server'} name
 * @param {{ version: string, units: string, depends: string, text: string }} options
 * @returns {Deb}
 */
function unitPackage(name, { version, units, depends, text }) {
  const full = `ringfence-${name}`;
  const scripts = ['preinst', 'postinst', 'prerm', 'postrm', 'triggers'].flatMap((script) => {
    try {
      return [[script, readFileSync(join(packaging, 'debian', full, script), 'utf8')]];
    } catch {
      return [];
    }
  });
  return {
    fields: {
      Package: full,
      Version: debianVersion(version),
      Architecture: 'all',
      ...common,
      Depends: `ringfence (= ${debianVersion(version)}), ${depends}`,
      Description: text,
    },
    tree: new Tree()
      .folder('etc/ringfence')
      .file(`usr/lib/systemd/system/${full}.service`, readFileSync(join(units, `${full}.service`)))
      .file(`usr/share/doc/${full}/examples/${name}.env`, read(`packaging/examples/${name}.env`))
      .file(`usr/share/doc/${full}/copyright`, read('LICENSE')),
    scripts: Object.fromEntries(scripts),
  };
}

/** @param {string} version @param {string} [units] @returns {Deb} */
export function agentPackage(version, units = unitFolder) {
  const deb = unitPackage('agent', {
    version,
    units,
    depends: 'init-system-helpers, nftables, iproute2, conntrack',
    text: description(
      'agent of Ringfence, as a service',
      "Keeps this device's packet filter equal to its security groups, from before the",
      'network is up. Starts once /etc/ringfence/agent.env is there. Removing the',
      'package leaves the rules in force; purging it takes them away.',
    ),
  });
  deb.tree.file('usr/sbin/ringfence-enroll', read('packaging/ringfence-enroll'), 0o755);
  // Refused together with the program, before any of it is replaced.
  return { ...deb, scripts: { ...deb.scripts, preinst: read('packaging/debian/ringfence/preinst') } };
}

/** Any of Debian's or PostgreSQL's own packages; the first is what a fresh machine gets. */
const postgres = ['postgresql', ...[18, 17, 16, 15, 14].map((major) => `postgresql-${major}`)].join(' | ');

/** @param {string} version @param {string} [units] */
export const serverPackage = (version, units = unitFolder) =>
  unitPackage('server', {
    version,
    units,
    // The database looks up the name of its user, which systemd allocates: libnss-systemd resolves it.
    depends: `init-system-helpers, ${postgres}, libnss-systemd, util-linux`,
    text: description(
      'API server of Ringfence, as a service',
      'Stores security groups and pushes every change to the agents, with a PostgreSQL',
      'of its own in /var/lib/ringfence or with yours. Starts once',
      '/etc/ringfence/server.env is there. Purging the package deletes the database.',
    ),
  });

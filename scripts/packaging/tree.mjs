/** Owns the content of a package before it is packed: paths with bytes and modes, written out with one date and no accident of the machine. */
import { chmodSync, lutimesSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** @typedef {{ kind: 'file', bytes: Buffer, mode: number } | { kind: 'link', to: string } | { kind: 'folder', mode: number }} Entry */

export class Tree {
  /** @type {Map<string, Entry>} */
  #entries = new Map();

  /**
   * @param {string} path without a leading slash
   * @param {Buffer | string} content
   * @param {number} [mode]
   */
  file(path, content, mode = 0o644) {
    this.#add(path, { kind: 'file', bytes: Buffer.from(content), mode });
    return this;
  }

  /** @param {string} path @param {string} to */
  link(path, to) {
    this.#add(path, { kind: 'link', to });
    return this;
  }

  /** @param {string} path @param {number} [mode] */
  folder(path, mode = 0o755) {
    this.#add(path, { kind: 'folder', mode });
    return this;
  }

  /**
   * Everything below a folder of the disk that the filter admits, as plain readable files.
   * @param {string} path
   * @param {string} from
   * @param {(name: string) => boolean} [filter] by the path below `from`
   */
  copy(path, from, filter = () => true) {
    for (const entry of readdirSync(from, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const source = join(entry.parentPath, entry.name);
      const name = source.slice(from.length).replace(/^\//, '');
      if (filter(name)) this.file(join(path, name), readFileSync(source));
    }
    return this;
  }

  /** Paths and entries in the order of their names. */
  get entries() {
    return [...this.#entries].toSorted(([a], [b]) => (a < b ? -1 : 1));
  }

  /**
   * @param {string} root
   * @param {number} epoch seconds since 1970 that all of it carries
   */
  write(root, epoch) {
    mkdirSync(root, { recursive: true });
    for (const [path, entry] of this.entries) {
      const at = join(root, path);
      if (entry.kind === 'folder') mkdirSync(at, { recursive: true });
      else if (entry.kind === 'link') symlinkSync(entry.to, at);
      else writeFileSync(at, entry.bytes);
      if (entry.kind !== 'link') chmodSync(at, entry.mode);
    }
    // From the inside out: writing a file changes the time of its folder.
    for (const [path] of this.entries.toReversed()) lutimesSync(join(root, path), epoch, epoch);
    chmodSync(root, 0o755);
    lutimesSync(root, epoch, epoch);
  }

  /** @param {string} path @param {Entry} entry */
  #add(path, entry) {
    if (path.startsWith('/') || path.split('/').includes('..')) throw new Error(`not a path inside a package: ${path}`);
    this.#entries.set(path, entry);
    for (let up = dirname(path); up !== '.'; up = dirname(up)) {
      if (!this.#entries.has(up)) this.#entries.set(up, { kind: 'folder', mode: 0o755 });
    }
  }
}

/**
 * Owns the texts of the large records of one model. They are in a file that has no name: the groups of a few organizations, each within its limits, would
 * otherwise fill the memory of a process that hardly ever looks at their rules.
 */
import { randomUUID } from 'node:crypto';
import { closeSync, openSync, readSync, unlinkSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { OrganizationChange } from '../../../organization/organization.ts';
import { loggedChange } from '../../../organization/read-records.ts';

/** The text of a longer group may be in the file. What stays of it in memory counts as a part of the text. */
const largeGroup = 4_096;
const partInMemory = 1 / 16;
/** Characters of large groups that a model holds in memory before it opens a file, so that few of many models have one. */
const mostHeld = 256 * 1024;

type LoggedKind = Parameters<typeof loggedChange>[0];

/** Nothing refers to a text of the file any more. */
const files = new FinalizationRegistry((file: number) => closeSync(file));

function openNameless(): number {
  const path = join(tmpdir(), `ringfence-${randomUUID()}`);
  const file = openSync(path, 'wx+', 0o600);
  unlinkSync(path);
  return file;
}

export class RecordTexts {
  #file: number | undefined;
  /** Of large groups. */
  #held = 0;
  /** Bytes that were written to the file so far. */
  size = 0;
  /** Characters of records in memory, of those too that others replaced. */
  characters = 0;

  /** The change of a model by a current record. */
  changeOf(kind: LoggedKind, id: string, json: string): OrganizationChange {
    const size = json.length;
    const isLarge = kind === 'security-groups' && size > largeGroup;
    const isHeld = !isLarge || this.#held + size <= mostHeld;
    if (isLarge && isHeld) this.#held += size;
    this.characters += isHeld ? size : size * partInMemory;
    return loggedChange(kind, id, json, isHeld ? undefined : { again: this.#keep(json), size });
  }

  /** Gives what reads the text again. Where no file can be written, the text stays in memory. */
  #keep(text: string): () => string {
    const bytes = Buffer.from(text);
    const at = this.size;
    try {
      for (let done = 0; done < bytes.length;)
        done += writeSync(this.#open(), bytes, done, bytes.length - done, at + done);
    } catch {
      return () => text;
    }
    this.size += bytes.length;
    return () => this.#read(at, bytes.length);
  }

  #open(): number {
    if (this.#file === undefined) files.register(this, (this.#file = openNameless()));
    return this.#file;
  }

  #read(at: number, length: number): string {
    const bytes = Buffer.allocUnsafe(length);
    for (let done = 0; done < length;) {
      const read = readSync(this.#open(), bytes, done, length - done, at + done);
      if (read === 0) throw new Error('the file of texts is shorter than what was written');
      done += read;
    }
    return bytes.toString();
  }
}

/** Owns the records of running labs, so that other commands find them, and the cleanup after dead ones. */
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const folder = '/run/ringfence-lab';

export interface LabRecord {
  readonly name: string;
  /** The process that runs the lab, and when it started, in the kernel's own count: a number may be given again. */
  readonly pid: number;
  readonly started: string;
  readonly folder: string;
  readonly url: string;
  readonly tunnel: string;
  /** Absent in a bare lab. */
  readonly place?: { readonly organization: string; readonly token: string };
  readonly adminToken: string;
  readonly devices: readonly LabDeviceRecord[];
}

export interface LabDeviceRecord {
  readonly name: string;
  /** The process that holds its namespace. */
  readonly holder: number;
  readonly driver4: string;
  readonly driver6: string;
  readonly state: string;
}

const fileOf = (name: string): string => join(folder, `${name}.json`);

/** When a process started; nothing when there is none. */
export function startOf(pid: number): string | undefined {
  try {
    // The name of a program may hold anything but ends with the last bracket.
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    // A zombie counts as dead.
    return fields[0] === 'Z' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

export const isAlive = ({ pid, started }: LabRecord): boolean => startOf(pid) === started;

/** Writes the record atomically: a waiting process may read it as soon as it exists. */
export function writeRecord(record: LabRecord): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const draft = `${fileOf(record.name)}.${process.pid}`;
  writeFileSync(draft, `${JSON.stringify(record, undefined, 2)}\n`, { mode: 0o600 });
  renameSync(draft, fileOf(record.name));
}

export function readRecord(name: string): LabRecord | undefined {
  try {
    return JSON.parse(readFileSync(fileOf(name), 'utf8')) as LabRecord;
  } catch {
    return undefined;
  }
}

export function listRecords(): readonly LabRecord[] {
  let names: readonly string[];
  try {
    names = readdirSync(folder);
  } catch {
    return [];
  }
  return names
    .filter((name) => name.endsWith('.json'))
    .toSorted()
    .flatMap((name) => readRecord(name.slice(0, -'.json'.length)) ?? []);
}

export const removeRecord = (name: string): void => rmSync(fileOf(name), { force: true });

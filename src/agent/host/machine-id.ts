/** Owns the id of this machine in a form that only Ringfence uses and that does not reveal the real machine id. */
import { createHmac } from 'node:crypto';
import { readFile } from 'node:fs/promises';

/** Ringfence's own 128 random bits: another application gets other ids of the same machine. */
const application = 'b3f2c8d1a4674e0f9d5c17e2608bfa43';

/**
 * As sd_id128_get_machine_app_specific(3) derives it: HMAC-SHA256 of the application's id, keyed with the machine's, cut
 * to 128 bits and marked as a random UUID.
 */
export function deriveMachineId(machine: string, of: string = application): string {
  const digest = createHmac('sha256', Buffer.from(machine, 'hex')).update(Buffer.from(of, 'hex')).digest();
  const id = digest.subarray(0, 16);
  id[6] = ((id[6] ?? 0) & 0x0f) | 0x40;
  id[8] = ((id[8] ?? 0) & 0x3f) | 0x80;
  return id.toString('hex');
}

/** Absent where the system has none, or none yet: in many containers, and in the first moments of a first boot. */
export async function readMachineId(path = '/etc/machine-id'): Promise<string | undefined> {
  const text = await readFile(path, 'utf8').catch(() => '');
  const machine = text.trim().toLowerCase();
  return /^[0-9a-f]{32}$/.test(machine) && !/^0+$/.test(machine) ? deriveMachineId(machine) : undefined;
}

/**
 * Owns the proof of isolation with packets: 22 devices with real agents and kernels. Root on the isolated one kills its agent and flushes its rules, and
 * still reaches none of 20 neighbours. What its isolation allows works, and so does its way to the server. The isolation ends on time with the server down.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { LabDevice } from '../../dev/lab/device.ts';
import { Lab } from '../../dev/lab/lab.ts';
import { relayAddress } from '../../dev/lab/topology.ts';
import type { Goal } from '../lib/goals.ts';

const neighbours = 20;
/** How long a probe waits for an answer that may not come. */
const answerMs = 2_000;
const isolationMs = Number(process.env['RINGFENCE_BENCH_ISOLATION_SECONDS'] ?? 120) * 1_000;

/** Whether a packet and its answer pass: nothing listens at the port, so a reset is an answer too. */
async function reaches(from: LabDevice, address: string, protocol: 'tcp' | 'ping'): Promise<boolean> {
  if (protocol === 'ping') return (await from.ping(address)) === 'open';
  const answer = await from.perform({ do: 'probe', protocol, address, port: 5_432, timeoutMs: answerMs });
  return answer === 'open' || answer === 'ECONNREFUSED';
}

const ways = (device: LabDevice) =>
  [device.addresses.driver4, device.addresses.driver6].flatMap((address) => [
    [address, 'tcp'] as const,
    [address, 'ping'] as const,
  ]);

/** How many of the devices answer, by either protocol and family. */
async function reached(from: LabDevice, to: readonly LabDevice[]): Promise<number> {
  const answers = await Promise.all(
    to.map(async (device) => {
      const each = await Promise.all(ways(device).map(([address, protocol]) => reaches(from, address, protocol)));
      return each.includes(true);
    }),
  );
  return answers.filter(Boolean).length;
}

/** How many of the devices get an answer from this one. */
async function reachedBy(from: readonly LabDevice[], to: LabDevice): Promise<number> {
  const { driver4, driver6 } = to.addresses;
  const answers = await Promise.all(
    from.map(async (device) => (await device.ping(driver4)) === 'open' || (await device.ping(driver6)) === 'open'),
  );
  return answers.filter(Boolean).length;
}

export async function proveCutOff(program: string): Promise<readonly Goal[]> {
  const lab = await Lab.open({
    devices: neighbours + 2,
    tunnel: 'veth',
    program: [process.execPath, program],
    serverArguments: ['--rate-limit', '0', '--log-level', 'error'],
  });
  try {
    const { organization, token } = lab.place;
    const client = lab.client(token);
    const [isolated, forensics, ...others] = lab.devices;
    if (isolated === undefined || forensics === undefined) throw new Error('the lab has too few devices');
    const records = await client.devices.list(organization);
    const idOf = ({ name }: LabDevice): string => records.find(({ hostname }) => hostname === name)?.id ?? '';
    // An enrolled device registers one address. What the others refuse is what the record names, so it names both.
    for (const device of lab.devices)
      await client.devices.update(organization, idOf(device), { addresses: [device.addresses.driver6] });
    const { revision: labelled } = await client.devices.update(organization, idOf(forensics), {
      labels: ['forensics'],
    });
    await client.statuses.convergence(organization, { revision: labelled, wait: 120 });
    const before = await reached(isolated, [...others, forensics]);

    const ends = Date.now() + isolationMs;
    const asked = performance.now();
    const { revision } = await client.devices.isolate(organization, idOf(isolated), {
      reason: 'proof',
      until: new Date(ends).toISOString(),
      allow: [{ labels: ['forensics'] }],
    });
    const converged = await client.statuses.convergence(organization, { revision, wait: 120 });
    const provenMs = performance.now() - asked;
    const ownRules = await reached(isolated, others);
    await isolated.stopAgent('SIGKILL');
    await isolated.nft('flush', 'ruleset');
    const flushed = await reached(isolated, others);
    const toIsolated = await reachedBy(others, isolated);
    const allowed = (await reached(isolated, [forensics])) + (await reachedBy([forensics], isolated));
    const { address, port } = relayAddress;
    const server = await isolated.perform({ do: 'probe', protocol: 'tcp', address, port, timeoutMs: answerMs });
    if (Date.now() > ends) throw new Error('the isolation ended before the packets were sent; give it more time');

    await lab.stopServer('SIGKILL');
    await sleep(Math.max(0, ends - Date.now()) + 10_000);
    const lifted = await reached(isolated, others);
    const goal = (what: string, wanted: number, measured: number): Goal => ({
      what,
      goal: wanted,
      measured,
      unit: '',
      ...(wanted > 0 && { atLeast: true }),
    });
    return [
      goal('neighbours that the device reaches before its isolation', neighbours + 1, before),
      goal('devices that prove the isolation', neighbours + 2, converged.in_force),
      { what: 'request to the proof of all devices', goal: 5_000, measured: provenMs, unit: 'ms' },
      goal('neighbours reached under its own rules', 0, ownRules),
      goal('neighbours reached after root flushed its rules', 0, flushed),
      goal('neighbours that reach it then', 0, toIsolated),
      goal('ways between it and what its isolation allows', 2, allowed),
      goal('its connection to the server', 1, server === 'closed' ? 0 : 1),
      goal('neighbours reached when the time is over, with the server down', neighbours, lifted),
    ];
  } finally {
    await lab.close();
  }
}

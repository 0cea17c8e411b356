/** Owns the texts of the lab: what it contains, and what to type next. */
import type { LabRecord } from './record.ts';

export const deviceLines = ({ name, devices }: LabRecord): string =>
  devices
    .map(
      ({ name: device, driver4, driver6 }) =>
        `  ${device.padEnd(11)} ${driver4.padEnd(15)} ${driver6.padEnd(10)} ip netns exec ${name}-${device} sh\n`,
    )
    .join('');

/** What a person needs for the first look around. */
export function introduction(record: LabRecord): string {
  const { name, url, place, adminToken, devices } = record;
  const [from = 'device-1', to = 'device-2'] = devices.map((each) => each.name);
  const way = name === 'lab' ? '' : ` --name ${name}`;
  const opening = `The lab is up: a server and ${devices.length} devices. The devices reach each other over their driver interface rf0.

  web UI      ${url}/ui/
${deviceLines(record)}
In another terminal, for the command line:

  export RINGFENCE_SERVER=${url}
  export RINGFENCE_TOKEN=${place?.token ?? adminToken}
`;
  if (place === undefined) {
    return `${opening}
The devices have no agents yet. \`ringfence lab run${way} ${from} -- COMMAND\` runs a command on a device.
`;
  }
  return `${opening}  export RINGFENCE_ORG=${place.organization}

Then close a device, and open one port of it again:

  ringfence lab try${way} ${from} ${to} tcp 22
  ringfence group create ssh
  ringfence group allow ssh in tcp 22
  ringfence device groups set ${to} ssh
  ringfence lab try${way} ${from} ${to} tcp 22
  ringfence lab try${way} ${from} ${to} tcp 80
`;
}

/** Owns the command that gives a device to another member. */
import { fieldLines } from '../../client/words/changes.ts';
import { printable } from '../../policy/names/printable.ts';
import { deviceName, findDevice } from '../lookup/device.ts';
import { allGroups } from '../lookup/group.ts';
import { userNames } from '../lookup/member.ts';
import { find, members } from '../lookup/resource.ts';
import { writeOrAsk } from '../lookup/opening.ts';
import type { Session } from '../session/session.ts';
import { sayEffect } from './change-each.ts';

export interface MoveOptions {
  readonly user: string;
}

export async function move(session: Session, text: string, { user }: MoveOptions): Promise<void> {
  const client = await session.client();
  const device = await findDevice(session, text);
  const { user_id, username } = await find(session, members, user);
  const { id, organization_id, security_groups = [] } = device;
  if (device.user_id === user_id)
    return session.printRecord(device, `Device ${deviceName(device)} (${id}) already belongs to ${username}.`);
  const owned = (await allGroups(session)).filter((group) => group.user_id === device.user_id);
  const leaving = owned.filter((group) => security_groups.includes(group.id));
  if (session.values.dryRun === true) {
    const nameOf = await userNames(session);
    const change = fieldLines({ user: nameOf(device.user_id) }, { user: username });
    for (const [sign, line] of change) session.say(`${sign} ${printable(line)}`);
    for (const { group_name } of leaving) session.say(`- group ${printable(group_name)}`);
    const stay = security_groups.filter((group) => !leaving.some((one) => one.id === group));
    return sayEffect(session, { devices: [{ id, security_groups: stay }] });
  }
  const moved = await writeOrAsk(session, (asked) =>
    client.devices.move(organization_id, id, { user_id }, { ...session.testQuery, ...asked }),
  );
  if (leaving.length > 0) {
    const names = leaving.map(({ group_name }) => group_name).join(', ');
    session.say(`Groups of the old user left the device: ${printable(names)}.`);
  }
  const token = `Its token stays valid, also for anyone who copied it, until ${username} rotates it.`;
  return session.printRecord(moved, `Moved device ${deviceName(moved)} (${id}) to ${username}. ${token}`);
}

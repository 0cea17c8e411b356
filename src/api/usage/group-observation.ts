/** Owns the wire form of what a watch-only group would have done with the observed traffic (reference 4.22). */
import { Type } from 'typebox';
import type { GroupId } from '../../policy/ids.ts';
import { groupModes } from '../../policy/rule.ts';
import { Flow } from '../flows/flow.ts';
import { limits } from '../limits.ts';
import { id, strict, Timestamp, type Wire } from '../scalar.ts';
import { share, UsageQuery } from './rule-usage.ts';

const packets = (description: string) => Type.Integer({ minimum: 0, description });

const difference = (description: string) =>
  Type.Object(
    {
      packets: packets('First packets of connections.'),
      sums: packets('How many different sums: device, direction, far address, protocol and port.'),
      flows: Type.Array(Flow, {
        description:
          'The sums with the most packets first, at most `limit`, each added up over the window. `verdict` is what the kernel did, `decision` what the policy with this group says.',
      }),
    },
    { ...strict, description },
  );

export const GroupObservation = Type.Object(
  {
    group_id: id<GroupId>('The group.'),
    mode: Type.Enum([...groupModes], {
      description: 'The mode of the group. Of a group that enforces, both lists are empty: it decides already.',
    }),
    since: {
      ...Timestamp,
      description: 'Start of the window; later than asked where there is too much traffic to look at.',
    },
    until: { ...Timestamp, description: 'End of the window: now.' },
    devices: packets('Devices that would have the group.'),
    device_days: Type.Number({
      minimum: 0,
      description: 'The days of the window, of all these devices together, from when each was registered.',
    }),
    observed: share(
      'The share of this time in which admitted traffic was observed (`observe` is `all`): `would_refuse` comes from this share.',
    ),
    observed_refused: share('The share in which refused traffic was observed: `would_admit` comes from this share.'),
    not_recorded: packets('Packets that agents counted and did not record, because there were too many.'),
    admitted_packets: packets('Admitted first packets that were looked at.'),
    refused_packets: packets('Refused first packets that were looked at.'),
    would_refuse: difference('Traffic that was admitted and that the present policy with this group refuses.'),
    would_admit: difference('Traffic that was refused and that the present policy with this group admits.'),
  },
  {
    ...strict,
    $id: 'GroupObservation',
    title: 'GroupObservation',
    description:
      'Each sum is judged by the present policy of its device, with the group and without it. It counts only where the policy without it agrees with what the kernel did.',
  },
);
export type GroupObservation = Wire<typeof GroupObservation>;

export const GroupObservationQuery = Type.Object(
  {
    ...UsageQuery.properties,
    limit: Type.Optional(
      Type.Integer({ minimum: 1, maximum: limits.page, description: 'Sums in each list; 100 unless given.' }),
    ),
  },
  { ...strict, $id: 'GroupObservationQuery', title: 'GroupObservationQuery' },
);

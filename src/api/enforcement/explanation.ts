/** Owns the wire form of an explanation: whether a connection is allowed, by which rule, and whether its devices enforce that (reference 4.10). */
import { Type } from 'typebox';
import type { DeviceId, GroupId } from '../../policy/ids.ts';
import { Flow } from '../flows/flow.ts';
import { NormalizedRule, Peer } from '../group.ts';
import { Revision, ShortText, strict, Timestamp, id, type Wire } from '../scalar.ts';
import { InForceWord } from './convergence.ts';
import { explanationReasons } from './explanation-reasons.ts';

/** The longest text of an address, or of an id, with room to spare. */
const longestEnd = 64;

const end = (description: string) => Type.String({ minLength: 1, maxLength: longestEnd, description });

export const ExplainQuery = Type.Object(
  {
    from: end('Where the connection comes from: the id of a device, or an address.'),
    to: end('Where it goes: the id of a device, or an address.'),
    protocol: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 4,
        description:
          '`tcp` (unless given), `udp`, `icmp` (an echo request of the family of the ends), or the number of another.',
      }),
    ),
    port: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 65_535, description: 'Destination port: with tcp and udp, and only there.' }),
    ),
  },
  strict,
);

const verdictWords = ['allowed', 'refused'] as const;
const Verdict = Type.Enum([...verdictWords], { description: 'What the policy says of a new connection.' });

const ExplainedEnd = Type.Object(
  {
    address: Type.String(),
    device_id: Type.Optional(id<DeviceId>('The device whose own address it is.')),
    hostname: Type.Optional(ShortText('Name of the machine; may be empty.')),
  },
  { ...strict, $id: 'ExplainedEnd', title: 'ExplainedEnd' },
);

/** A rule by its place in its group. */
const rulePlace = {
  group_id: id<GroupId>('The group.'),
  rule: Type.Integer({ minimum: 0, description: 'Place of the rule in the list of its direction, from 0.' }),
} as const;

export const ExplainedSide = Type.Object(
  {
    device_id: id<DeviceId>('The device whose policy is asked.'),
    direction: Type.Enum(['inbound', 'outbound']),
    verdict: Verdict,
    reason: Type.Enum([...explanationReasons], {
      description:
        '`rule`: a rule of a group admits it. `forbid`, `require`: that of a guardrail decides. `open`: there are no outbound rules. `no-rule`: nothing admits it. `isolated`, `far-end-isolated`: this device, or the other end, is isolated. `isolation-allows`: this device is isolated, and its isolation allows the other end. `server`: the way of the agent to its server.',
    }),
    groups: Type.Array(id<GroupId>('A group.'), { description: 'The groups in effect, guardrails last.' }),
    group_id: Type.Optional(id<GroupId>('The group whose rule decides.')),
    rule: Type.Optional(NormalizedRule),
    peer: Type.Optional(Peer),
    void_rules: Type.Optional(
      Type.Array(Type.Object(rulePlace, strict), {
        description:
          'Where a guardrail forbids it: the rules of groups that would admit it; omitted when there are none.',
      }),
    ),
    expired: Type.Optional(
      Type.Array(Type.Object({ ...rulePlace, expires_at: Timestamp }, strict), {
        description:
          'Where nothing admits it: rules that would admit it had they not expired; omitted when there are none.',
      }),
    ),
    peer_gone: Type.Optional(
      Type.Array(Type.Object({ ...rulePlace, peer: Peer }, strict), {
        description:
          'Where nothing admits it: rules about such packets that name a device which is gone; omitted when there are none.',
      }),
    ),
    in_force: InForceWord,
    online: Type.Boolean({
      description: 'It holds a stream, or did within the last 20 seconds, and has shown a sign of life recently.',
    }),
    last_seen_at: Type.Optional(Timestamp),
  },
  { ...strict, $id: 'ExplainedSide', title: 'ExplainedSide' },
);
export type ExplainedSide = Wire<typeof ExplainedSide>;

export const Explanation = Type.Object(
  {
    revision: Type.Integer({ ...Revision, description: 'The revision that the answer is about.' }),
    verdict: Verdict,
    in_force: Type.Boolean({ description: 'Whether every device of the answer is proven to enforce its policy.' }),
    from: ExplainedEnd,
    to: ExplainedEnd,
    sides: Type.Array(ExplainedSide, {
      description: 'Out of the one device and into the other, each where that end is a device of the organization.',
    }),
    recently_refused: Type.Optional(
      Type.Array(Flow, {
        description:
          'The newest traffic between these ends that a device refused in the last 24 hours, on any port, newest first, at most 5 of each device. Only of devices whose traffic the caller may read; omitted when there is none.',
      }),
    ),
  },
  { ...strict, $id: 'Explanation', title: 'Explanation' },
);
export type Explanation = Wire<typeof Explanation>;

/** Owns the view of rules as sentences, one list for each direction, and what happens to the rest. */
import type { ReactNode } from 'react';
import type { Direction, Peer, SecurityRule } from '../../policy/rule.ts';
import { Expiry, Tag, type Tone } from '../components/page.tsx';
import { InboundIcon, OutboundIcon } from '../components/icons.tsx';
import type { AccessRow, DeviceAccess, RuleVerdict } from '../model/device-policy.ts';
import { whatText } from '../model/rule-text.ts';
import { plural } from '../../client/words/number.ts';
import { useAddressOwners, useDeviceNames, usePeerCounts, useSnapshot } from '../state/organization.ts';
import { DeviceLink, GroupLink } from '../components/record-link.tsx';

/** What a direction without rules does (reference 1.2 (9) and (10)). */
export const meaningOfNone: { readonly [D in Direction]: string } = {
  inbound: 'No rules: no connection to the device can be opened. Answers to its own connections still come in.',
  outbound: 'No rules: the device may connect to everything. The first rule here closes everything else.',
};
export const meaningOfSome: { readonly [D in Direction]: string } = {
  inbound: 'Only what is listed may come in, and answers to connections that the device opened.',
  outbound: 'The device may open only what is listed. Answers to admitted connections always go out.',
};

export function DirectionTitle({
  direction,
  title = direction === 'inbound' ? 'Inbound' : 'Outbound',
}: {
  readonly direction: Direction;
  readonly title?: string;
}): ReactNode {
  return (
    <h2 className="row">
      {direction === 'inbound' ? <InboundIcon /> : <OutboundIcon />}
      {title}
    </h2>
  );
}

const verdicts: { readonly [V in RuleVerdict]: readonly [word: string, tone: Tone] } = {
  refuse: ['Refuse', 'bad'],
  require: ['Always allow', 'accent'],
  allow: ['Allow', 'plain'],
};

/** What a peer means now: `app · 12 devices`, or the name of a device. */
function PeerChip({ peer }: { readonly peer: Peer }): ReactNode {
  const names = useDeviceNames();
  const { deviceById } = useSnapshot();
  const countOf = usePeerCounts();
  if (!('device_id' in peer)) {
    const name = 'all_devices' in peer ? 'all devices' : peer.labels.join(' + ');
    return <Tag>{`${name} · ${plural(countOf(peer), 'device')}`}</Tag>;
  }
  if (!deviceById.has(peer.device_id)) return <Tag tone="warn">a device that is gone</Tag>;
  return (
    <DeviceLink className="tag tag-plain" id={peer.device_id}>
      {names.nameOf(peer.device_id)}
    </DeviceLink>
  );
}

const shownChips = 12;

function FarEnd({ rule }: { readonly rule: SecurityRule }): ReactNode {
  const owners = useAddressOwners();
  const { peers = [], ip_ranges = [] } = rule;
  const count = peers.length + ip_ranges.length;
  if (count === 0) return <span>any address</span>;
  const ranges = ip_ranges.slice(0, Math.max(0, shownChips - peers.length));
  return (
    <span className="tags sentence-chips">
      {peers.slice(0, shownChips).map((peer) => (
        <PeerChip key={JSON.stringify(peer)} peer={peer} />
      ))}
      {ranges.map((range) => (
        <span key={range} className="tag tag-plain mono">
          {range} {owners.has(range) ? <span className="dimmed">{owners.get(range)}</span> : null}
        </span>
      ))}
      {count > shownChips ? <Tag>and {count - shownChips} more</Tag> : null}
    </span>
  );
}

function Sentence({
  row: { verdict, rule, group, byIsolation },
  direction,
  hasVerdict,
}: {
  readonly row: AccessRow;
  readonly hasVerdict: boolean;
  readonly direction: Direction;
}): ReactNode {
  const { groupById } = useSnapshot();
  const [word, tone] = verdicts[verdict];
  return (
    <li>
      {hasVerdict ? <Tag tone={tone}>{word}</Tag> : null}
      <div>
        <div className="sentence-words">
          <span>
            <strong>{whatText(rule)}</strong> {direction === 'inbound' ? 'from' : 'to'}
          </span>
          <FarEnd rule={rule} />
          {rule.expires_at === undefined ? null : <Expiry at={rule.expires_at} />}
        </div>
        {rule.description === undefined ? null : <p className="small rule-description">{rule.description}</p>}
      </div>
      {byIsolation === true ? <span className="small dimmed sentence-group">isolation</span> : null}
      {group === undefined ? null : groupById.has(group.id) ? (
        <GroupLink className="link small clip sentence-group" id={group.id}>
          {group.name}
        </GroupLink>
      ) : (
        <span className="small dimmed clip sentence-group">{group.name}</span>
      )}
    </li>
  );
}

const restWords: { readonly [D in Direction]: Readonly<Record<DeviceAccess['rest'], string>> } = {
  inbound: {
    refuse: 'Everything else is refused. Answers to connections that the device opened come in.',
    allow: 'Everything else may come in.',
  },
  outbound: {
    refuse: 'Everything else is refused. Answers to connections that were admitted go out.',
    allow: 'Everything else may go out.',
  },
};

export function RuleSentences({
  direction,
  access: { rows, rest },
  title,
  foot,
}: {
  readonly direction: Direction;
  readonly access: Pick<DeviceAccess, 'rows'> & Partial<DeviceAccess>;
  /** Instead of the name of the direction. */
  readonly title?: ReactNode;
  /** What can be done with these rules. */
  readonly foot?: ReactNode;
}): ReactNode {
  // Where everything is allowed, the word says nothing.
  const hasVerdict = rows.some(({ verdict }) => verdict !== 'allow');
  return (
    <section className="card" aria-label={`${direction} rules`}>
      <div className="card-head">{title ?? <DirectionTitle direction={direction} />}</div>
      <ul className={hasVerdict ? 'rows sentences' : 'rows sentences sentences-plain'}>
        {rows.map((row, index) => (
          // oxlint-disable-next-line react/no-array-index-key -- the same rule may appear twice
          <Sentence key={index} row={row} direction={direction} hasVerdict={hasVerdict} />
        ))}
        {rest === undefined ? null : (
          <li className="dimmed">
            {rows.length === 0
              ? rest === 'allow'
                ? 'No rules: everything may go out.'
                : direction === 'inbound'
                  ? 'No rules: nothing may come in, except answers to connections that the device opened.'
                  : 'Nothing may go out.'
              : restWords[direction][rest]}
          </li>
        )}
        {rest === undefined && rows.length === 0 ? <li className="dimmed">No {direction} rules.</li> : null}
      </ul>
      {foot === undefined ? null : <div className="row card-body">{foot}</div>}
    </section>
  );
}

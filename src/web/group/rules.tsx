/** Owns the view of rules: a table for each direction, and what it means when there are none. */
import type { ReactNode } from 'react';
import type { Direction, StoredRule } from '../../policy/rule.ts';
import { Expiry } from '../components/expiry.tsx';
import { InboundIcon, OutboundIcon } from '../components/icons.tsx';
import { chipsOf } from '../model/far-end.ts';
import { portsText, protocolName, serviceName } from '../model/rule-text.ts';
import { useAddressOwners, useDeviceNames } from '../state/fleet.ts';
import { Tag } from '../components/tag.tsx';

export interface ShownRule {
  readonly rule: StoredRule;
  /** Where it comes from, when several groups are shown as one. */
  readonly group?: string;
}

/** What a direction without rules does (reference 1.2 (9) and (10)). */
export const meaningOfNone: { readonly [D in Direction]: string } = {
  inbound: 'No rules: no connection to the device can be opened. Answers to its own connections still come in.',
  outbound: 'No rules: the device may connect to everything. The first rule here closes everything else.',
};
export const meaningOfSome: { readonly [D in Direction]: string } = {
  inbound: 'Only what is listed may come in, and answers to connections that the device opened.',
  outbound: 'The device may open only what is listed. Answers to admitted connections always go out.',
};

export function DirectionTitle({ direction }: { readonly direction: Direction }): ReactNode {
  return (
    <h2 className="row">
      {direction === 'inbound' ? <InboundIcon /> : <OutboundIcon />}
      {direction === 'inbound' ? 'Inbound' : 'Outbound'}
    </h2>
  );
}

function FarEnd({ rule }: { readonly rule: StoredRule }): ReactNode {
  const names = useDeviceNames();
  const owners = useAddressOwners();
  const chips = chipsOf(rule, names);
  if (chips.length === 0) return <span className="dimmed">any address</span>;
  const shown = chips.slice(0, 12);
  return (
    <span className="tags">
      {shown.map((chip) => (
        <span key={chip} className="tag tag-plain mono">
          {chip} {owners.has(chip) ? <span className="dimmed">{owners.get(chip)}</span> : null}
        </span>
      ))}
      {(rule.peers ?? []).some((peer) => 'device_id' in peer && names.isGone(peer.device_id)) ? (
        <Tag tone="warn">names a device that is gone</Tag>
      ) : null}
      {chips.length > shown.length ? <Tag>and {chips.length - shown.length} more</Tag> : null}
    </span>
  );
}

export function RuleTable({
  direction,
  rules,
}: {
  readonly direction: Direction;
  readonly rules: readonly ShownRule[];
}): ReactNode {
  const withGroup = rules.some(({ group }) => group !== undefined);
  return (
    <section className="card" aria-label={`${direction} rules`}>
      <div className="card-head">
        <DirectionTitle direction={direction} />
        <span className="small dimmed">{rules.length === 0 ? meaningOfNone[direction] : meaningOfSome[direction]}</span>
      </div>
      {rules.length === 0 ? null : (
        <div className="table-scroll">
          <table className="table">
            <thead>
              <tr>
                <th scope="col">Protocol</th>
                <th scope="col">Ports</th>
                <th scope="col">{direction === 'inbound' ? 'From' : 'To'}</th>
                {withGroup ? <th scope="col">Group</th> : null}
              </tr>
            </thead>
            <tbody>
              {rules.map(({ rule, group }, index) => (
                // oxlint-disable-next-line react/no-array-index-key -- the same rule may stand there twice
                <tr key={index}>
                  <td>{protocolName(rule.ip_protocol)}</td>
                  <td>
                    <span className="mono">{portsText(rule) || 'any'}</span>{' '}
                    <span className="dimmed small">{serviceName(rule) ?? ''}</span>
                  </td>
                  <td>
                    <FarEnd rule={rule} />
                    {rule.expires_at === undefined ? null : <Expiry at={rule.expires_at} />}
                    {rule.description === undefined ? null : (
                      <p className="small rule-description">{rule.description}</p>
                    )}
                  </td>
                  {withGroup ? <td className="small dimmed">{group}</td> : null}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

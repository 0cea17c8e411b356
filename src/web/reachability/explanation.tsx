/** Owns the answer to "why": what each end says about a connection, and which rule of which group says it. */
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Decision } from '../../policy/decide.ts';
import type { Direction } from '../../policy/rule.ts';
import { CheckIcon, CrossIcon } from '../components/icons.tsx';
import type { Endpoint, Reach } from '../model/reachability.ts';
import { ruleText } from '../model/rule-text.ts';
import { useDeviceNames } from '../state/fleet.ts';
import { deviceName } from '../state/live.ts';
import { Tag } from '../components/tag.tsx';

const ruleVerbs = {
  rule: 'admitted by',
  forbid: 'forbidden, whatever any group says, by the guardrail',
  require: 'admitted, whatever any group says, by the guardrail',
} as const;

function Because({ decision, org }: { readonly decision: Decision; readonly org: string }): ReactNode {
  const { reason } = decision;
  const names = useDeviceNames();
  switch (reason.kind) {
    case 'rule':
    case 'forbid':
    case 'require':
      return (
        <>
          {ruleVerbs[reason.kind]}{' '}
          <Link className="link" to="/o/$org/groups/$group" params={{ org, group: reason.group.id }}>
            {reason.group.name}
          </Link>
          : {ruleText(reason.rule, names)}
        </>
      );
    case 'open':
      return 'open: none of its groups has an outbound rule';
    case 'no-rule':
      return 'no rule admits it';
    case 'connection':
      return 'part of an admitted connection';
    case 'discovery':
      return 'neighbour discovery, always admitted';
    case 'server':
      return "the agent's own way to its server, always admitted";
    case 'forwarded':
      return 'the device only passes it on';
    default:
      return reason satisfies never;
  }
}

function End({
  endpoint,
  direction,
  decision,
  org,
}: {
  readonly endpoint: Endpoint;
  readonly direction: Direction;
  readonly decision: Decision;
  readonly org: string;
}): ReactNode {
  const passes = decision.verdict === 'accept';
  return (
    <li className="why-end">
      <span className={passes ? 'why-yes' : 'why-no'}>
        {passes ? <CheckIcon size={16} /> : <CrossIcon size={16} />}
      </span>
      <div>
        <p>
          <Link className="plain-link" to="/o/$org/devices/$device" params={{ org, device: endpoint.device.id }}>
            <strong>{deviceName(endpoint.device)}</strong>
          </Link>
          , {direction}
        </p>
        <p className="small dimmed">
          <Because decision={decision} org={org} />
        </p>
      </div>
    </li>
  );
}

export function Explanation({
  from,
  to,
  answer,
  what,
  org,
}: {
  readonly from: Endpoint;
  readonly to: Endpoint;
  readonly answer: Reach;
  readonly what: string;
  readonly org: string;
}): ReactNode {
  const doubts = [from, to].flatMap(({ shortcoming }) => shortcoming ?? []);
  return (
    <section className="card" aria-label="Why" aria-live="polite">
      <div className="card-head">
        <h2>
          {deviceName(from.device)} → {deviceName(to.device)}
        </h2>
        {answer.kind === 'self' ? null : (
          <Tag tone={answer.kind === 'yes' ? 'good' : answer.kind === 'no' ? 'bad' : 'warn'}>
            {answer.kind === 'yes' ? 'may connect' : answer.kind === 'no' ? 'may not connect' : 'unknown'}
          </Tag>
        )}
      </div>
      <div className="card-body stack">
        <p className="dimmed small">{what}</p>
        {answer.kind === 'self' ? <p>A device reaches itself without passing the interface.</p> : null}
        {answer.kind === 'unknown' ? <p>{answer.why}</p> : null}
        {answer.kind === 'yes' || answer.kind === 'no' ? (
          <ul className="why">
            <End endpoint={from} direction="outbound" decision={answer.outbound} org={org} />
            <End endpoint={to} direction="inbound" decision={answer.inbound} org={org} />
          </ul>
        ) : null}
        {doubts.length > 0 && (answer.kind === 'yes' || answer.kind === 'no') ? (
          <p className="note note-plain">
            {answer.kind === 'yes' ? 'Allowed' : 'Refused'} by policy, but {doubts.join(', and ')}.
          </p>
        ) : null}
      </div>
    </section>
  );
}

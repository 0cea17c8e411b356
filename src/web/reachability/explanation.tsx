/** Owns the answer to "why": how each end decides about a connection, and which rule of which group decides. */
import { Button, Menu } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { mismatchWords } from '../../client/words/mismatch.ts';
import { ruleInSentence } from '../../client/words/rule.ts';
import { rulesOf, type Decision } from '../../policy/decide.ts';
import { CheckIcon, CrossIcon } from '../components/icons.tsx';
import { printDraft } from '../model/draft.ts';
import { keptTest, KeepThis } from '../policy-test/keep-this.tsx';
import type { Endpoint, Probe, Reach, Side } from '../model/reachability.ts';
import { ruleText } from '../model/rule-text.ts';
import { useDeviceNames, deviceName, usePast, useRights, useSnapshot, useLive } from '../state/organization.ts';
import { Tag } from '../components/page.tsx';
import { DeviceLink, GroupLink } from '../components/record-link.tsx';

const ruleVerbs = {
  rule: 'admitted by',
  forbid: 'forbidden, whatever any group says, by the guardrail',
  require: 'admitted, whatever any group says, by the guardrail',
} as const;

function Because({ decision }: { readonly decision: Decision }): ReactNode {
  const { reason } = decision;
  const names = useDeviceNames();
  switch (reason.kind) {
    case 'rule':
    case 'forbid':
    case 'require':
      return (
        <>
          {ruleVerbs[reason.kind]} <GroupLink id={reason.group.id}>{reason.group.name}</GroupLink>:{' '}
          {ruleText(reason.rule, names)}
        </>
      );
    case 'isolated':
      return 'this device is isolated';
    case 'far-end-isolated':
      return 'the other device is isolated';
    case 'isolation-allows':
      return 'this device is isolated, and its isolation allows the other one';
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

const shownRules = 8;

/** Every rule of the direction, and what keeps it from matching. */
function Mismatches({ side, farEnd }: { readonly side: Side; readonly farEnd: string }): ReactNode {
  const names = useDeviceNames();
  const { packet, policy } = side;
  const rules = policy.groups.flatMap((group) => rulesOf(group, packet.direction).map((rule) => ({ group, rule })));
  if (rules.length === 0)
    return (
      <p className="small dimmed">
        {policy.groups.map(({ name }) => name).join(', ')}: there is no {packet.direction} rule at all.
      </p>
    );
  return (
    <ul className="rows mismatches small">
      {rules.slice(0, shownRules).map(({ group, rule }, index) => (
        // oxlint-disable-next-line react/no-array-index-key -- the same rule may stand there twice
        <li key={index}>
          <span>
            {group.name}: {ruleInSentence(packet.direction, rule, names)}
          </span>
          <span className="dimmed">{mismatchWords(rule, packet, farEnd)}</span>
        </li>
      ))}
      {rules.length > shownRules ? <li className="dimmed">and {rules.length - shownRules} more rules</li> : null}
    </ul>
  );
}

/** Drafts the rule that is missing, in one of the groups that apply there. */
function Allow({
  side,
  farEnd,
  probe,
}: {
  readonly side: Side;
  readonly farEnd: Endpoint;
  readonly probe: Probe;
}): ReactNode {
  const { id: org } = useLive();
  const { groupById } = useSnapshot();
  const { editGroup } = useRights();
  const navigate = useNavigate();
  const editable = side.policy.groups.flatMap(({ id }) => {
    const group = groupById.get(id);
    return group !== undefined && editGroup(group) ? [group] : [];
  });
  const { direction } = side.packet;
  if (editable.length === 0) return <p className="small dimmed">Only owners of these groups can allow it.</p>;
  return (
    <Menu position="bottom-start" width={260}>
      <Menu.Target>
        <Button size="compact-sm" variant="light">
          Allow this…
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>Draft the {direction} rule in</Menu.Label>
        {editable.map((group) => (
          <Menu.Item
            key={group.id}
            onClick={() =>
              void navigate({
                to: '/o/$org/groups/$group',
                params: { org, group: group.id },
                search: { allow: printDraft({ direction, probe, farEnd: farEnd.device, family: side.packet.family }) },
              })
            }
          >
            {group.group_name}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

function EndpointExplanation({
  endpoint,
  farEnd,
  side,
  probe,
}: {
  readonly endpoint: Endpoint;
  readonly farEnd: Endpoint;
  readonly side: Side;
  readonly probe: Probe;
}): ReactNode {
  const { decision, packet } = side;
  const isPresent = usePast() === undefined;
  const passes = decision.verdict === 'accept';
  return (
    <li className="why-end">
      <span className={passes ? 'why-yes' : 'why-no'}>
        {passes ? <CheckIcon size={16} /> : <CrossIcon size={16} />}
      </span>
      <div className="stack tight grow">
        <p>
          <DeviceLink id={endpoint.device.id}>
            <strong>{deviceName(endpoint.device)}</strong>
          </DeviceLink>
          , {packet.direction}
        </p>
        <p className="small dimmed">
          <Because decision={decision} />
        </p>
        {decision.reason.kind === 'no-rule' ? (
          <>
            <Mismatches side={side} farEnd={deviceName(farEnd.device)} />
            {isPresent ? (
              <div>
                <Allow side={side} farEnd={farEnd} probe={probe} />
              </div>
            ) : null}
          </>
        ) : null}
      </div>
    </li>
  );
}

export function Explanation({
  from,
  to,
  answer,
  what,
  probe,
}: {
  readonly from: Endpoint;
  readonly to: Endpoint;
  readonly answer: Reach;
  readonly what: string;
  readonly probe: Probe;
}): ReactNode {
  const isPresent = usePast() === undefined;
  const doubts = [from, to].flatMap(({ shortcoming }) => shortcoming ?? []);
  return (
    <section className="card" aria-label="Why" aria-live="polite">
      <div className="card-head">
        <h2>
          {deviceName(from.device)} → {deviceName(to.device)}
        </h2>
        {answer.kind === 'self' ? null : (
          <Tag tone={answer.kind === 'yes' ? 'accent' : answer.kind === 'no' ? 'bad' : 'warn'}>
            {answer.kind === 'yes' ? 'may connect' : answer.kind === 'no' ? 'may not connect' : 'unknown'}
          </Tag>
        )}
      </div>
      <div className="card-body stack">
        <p className="dimmed small">{what}</p>
        {answer.kind === 'self' ? <p>A device reaches itself without passing the interface.</p> : null}
        {answer.kind === 'unknown' ? <p>{answer.why}</p> : null}
        {answer.kind === 'yes' || answer.kind === 'no' ? (
          <ul className="stack">
            <EndpointExplanation endpoint={from} farEnd={to} side={answer.outbound} probe={probe} />
            <EndpointExplanation endpoint={to} farEnd={from} side={answer.inbound} probe={probe} />
          </ul>
        ) : null}
        {isPresent && (answer.kind === 'yes' || answer.kind === 'no') ? (
          <div>
            <KeepThis
              test={keptTest(
                {
                  from: { device_id: from.device.id },
                  to: { device_id: to.device.id },
                  names: [deviceName(from.device), deviceName(to.device)],
                  isAllowed: answer.kind === 'yes',
                },
                probe,
              )}
            />
          </div>
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

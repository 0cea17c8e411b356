/** Owns the in-place editing of one direction's rules: add from a known service or blank, change, copy, remove. */
import { ActionIcon, Button, NativeSelect, Popover, TextInput } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import type { Problem } from '../../policy/problem.ts';
import type { Direction } from '../../policy/rule.ts';
import { CopyIcon, PlusIcon, TrashIcon } from '../components/icons.tsx';
import { blankRule, copyRule, problemsAt, type DraftRule, type RuleField } from '../model/draft.ts';
import { expiryWords } from '../../client/words/expiry.ts';
import { isIcmp, protocolNames } from '../model/rule-text.ts';
import { AddService } from './add-service.tsx';
import { FarEndInput } from './far-end-input.tsx';
import { DirectionTitle, meaningOfNone, meaningOfSome } from './rules.tsx';

const protocolChoices = protocolNames.map(([value, label]) => ({ value, label }));

/** How long a rule may live, as people choose it. */
const lifetimes = [
  ['1 hour', 3_600_000],
  ['8 hours', 28_800_000],
  ['1 day', 86_400_000],
  ['1 week', 604_800_000],
] as const;

/** When the rule expires: as it is, never, or some time from now. */
function Expiry({
  which,
  rule,
  change,
}: {
  readonly which: string;
  readonly rule: DraftRule;
  readonly change: (rule: DraftRule) => void;
}): ReactNode {
  const { expiresAt } = rule;
  const choices = [
    ...(expiresAt === undefined ? [] : [{ value: 'kept', label: expiryWords(expiresAt) }]),
    { value: 'never', label: 'does not expire' },
    ...lifetimes.map(([label]) => ({ value: label, label: `expires in ${label}` })),
  ];
  const choose = (value: string): void => {
    const span = lifetimes.find(([label]) => label === value)?.[1];
    if (value === 'kept') return;
    change({ ...rule, expiresAt: span === undefined ? undefined : new Date(Date.now() + span).toISOString() });
  };
  return (
    <NativeSelect
      size="xs"
      aria-label={`Expiry of ${which}`}
      data={choices}
      value={expiresAt === undefined ? 'never' : 'kept'}
      onChange={(event) => choose(event.currentTarget.value)}
    />
  );
}

function Row({
  rule,
  index,
  direction,
  problems,
  change,
  copy,
  remove,
}: {
  readonly rule: DraftRule;
  readonly index: number;
  readonly direction: Direction;
  readonly problems: readonly Problem[];
  readonly change: (rule: DraftRule) => void;
  readonly copy: () => void;
  readonly remove: () => void;
}): ReactNode {
  const which = `${direction} rule ${index + 1}`;
  const fault = (field: RuleField): string | undefined =>
    problemsAt(problems, direction, index, field).join(' ') || undefined;
  const icmp = isIcmp(rule.protocol);
  const hasMore = (rule.description ?? '') !== '' || rule.expiresAt !== undefined || fault('description') !== undefined;
  const [wantsMore, setWantsMore] = useState(false);
  const isOpen = hasMore || wantsMore;
  return (
    <li className="rule" aria-label={which}>
      <NativeSelect
        aria-label={`Protocol of ${which}`}
        data={protocolChoices}
        value={rule.protocol}
        onChange={(event) => change({ ...rule, protocol: event.currentTarget.value })}
        error={fault('protocol')}
      />
      <TextInput
        aria-label={`Ports of ${which}`}
        placeholder={icmp ? 'no ports' : 'any port'}
        value={icmp ? '' : rule.ports}
        disabled={icmp}
        onChange={(event) => change({ ...rule, ports: event.currentTarget.value })}
        error={fault('ports')}
      />
      <FarEndInput
        name={`Addresses of ${which}`}
        placeholder="any address"
        suggest="all"
        chips={rule.ranges}
        onChange={(ranges) => change({ ...rule, ranges })}
        error={fault('ranges')}
      />
      <span className="rule-actions">
        <ActionIcon
          size="lg"
          aria-label={`Describe ${which}, or let it expire`}
          title="Description and expiry"
          aria-expanded={isOpen}
          disabled={hasMore}
          onClick={() => setWantsMore(!wantsMore)}
        >
          <PlusIcon size={16} />
        </ActionIcon>
        <ActionIcon size="lg" aria-label={`Copy ${which}`} title="Copy" onClick={copy}>
          <CopyIcon size={16} />
        </ActionIcon>
        <ActionIcon size="lg" aria-label={`Remove ${which}`} title="Remove" onClick={remove}>
          <TrashIcon size={16} />
        </ActionIcon>
      </span>
      {isOpen ? (
        <div className="rule-more">
          <TextInput
            className="grow"
            size="xs"
            aria-label={`Description of ${which}`}
            placeholder="description"
            value={rule.description ?? ''}
            onChange={(event) => {
              // Emptied letter by letter, it stays there to be written again.
              setWantsMore(true);
              change({ ...rule, description: event.currentTarget.value });
            }}
            error={fault('description')}
          />
          <Expiry which={which} rule={rule} change={change} />
        </div>
      ) : null}
    </li>
  );
}

/** What the fields of a rule take, behind a question mark. */
function SyntaxHelp({ direction }: { readonly direction: Direction }): ReactNode {
  return (
    <Popover width={360} position="bottom-end" trapFocus={false}>
      <Popover.Target>
        <ActionIcon size="lg" variant="default" aria-label={`How to write ${direction} rules`}>
          ?
        </ActionIcon>
      </Popover.Target>
      <Popover.Dropdown>
        <div className="stack small">
          <p>
            <strong>Ports</strong>: <code>443</code>, <code>8000-8010</code>, or nothing for all.
          </p>
          <p>
            <strong>{direction === 'inbound' ? 'From' : 'To'}</strong>: addresses and ranges such as{' '}
            <code>10.0.0.0/8</code>, <code>label:app</code> or <code>label:app+prod</code> (devices that carry all of
            these), <code>device:web-1</code> and <code>all-devices</code>. Nothing means any address.
          </p>
          <p className="dimmed">
            All devices and single devices trust their users with their addresses; labels trust owners only.
          </p>
        </div>
      </Popover.Dropdown>
    </Popover>
  );
}

export function RuleEditor({
  direction,
  rules,
  problems,
  onChange,
}: {
  readonly direction: Direction;
  readonly rules: readonly DraftRule[];
  readonly problems: readonly Problem[];
  readonly onChange: (rules: readonly DraftRule[]) => void;
}): ReactNode {
  const whole = problems.find(({ pointer }) => pointer === `/${direction}_rules`);
  return (
    <section className="card" aria-label={`${direction} rules`}>
      <div className="card-head">
        <DirectionTitle direction={direction} />
        <span className="small dimmed grow">
          {rules.length === 0 ? meaningOfNone[direction] : meaningOfSome[direction]}
        </span>
        <SyntaxHelp direction={direction} />
      </div>
      {rules.length === 0 ? null : (
        <>
          <div className="rule-head small dimmed" aria-hidden="true">
            <span>Protocol</span>
            <span>Ports</span>
            <span>{direction === 'inbound' ? 'From' : 'To'}</span>
          </div>
          <ul className="rows">
            {rules.map((rule, index) => (
              <Row
                key={rule.key}
                rule={rule}
                index={index}
                direction={direction}
                problems={problems}
                change={(next) => onChange(rules.with(index, next))}
                copy={() => onChange(rules.toSpliced(index + 1, 0, copyRule(rule)))}
                remove={() => onChange(rules.toSpliced(index, 1))}
              />
            ))}
          </ul>
        </>
      )}
      {whole === undefined ? null : (
        <p className="fault card-body" role="alert">
          {whole.detail}
        </p>
      )}
      <div className="row card-body">
        <Button
          variant="default"
          leftSection={<PlusIcon size={16} />}
          onClick={() => onChange([...rules, blankRule()])}
          aria-label={`Add ${direction} rule`}
        >
          Add {direction} rule
        </Button>
        <AddService direction={direction} add={(rule) => onChange([...rules, rule])} />
      </div>
    </section>
  );
}

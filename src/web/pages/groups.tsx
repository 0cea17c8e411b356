/**
 * Owns the list of groups: the default group, the user's own, the organization's, and those of others that are in use.
 */
import { Button, CloseButton, TextInput } from '@mantine/core';
import { useNavigate, useParams } from '@tanstack/react-router';
import { useDeferredValue, useMemo, useState, type ReactNode } from 'react';
import type { SecurityGroup } from '../../api/group.ts';
import { isEnforced } from '../../policy/effective.ts';
import { GroupIcon, PlusIcon, SearchIcon } from '../components/icons.tsx';
import { countUses, type GroupUse } from '../model/device-policy.ts';
import { stateOf } from '../model/device-state.ts';
import { grouped, plural } from '../../client/words/number.ts';
import { meaningInShort, summarize, summaryText } from '../model/rule-text.ts';
import type { Direction, StoredRule } from '../../policy/rule.ts';
import { Expiry, Tag, Ago, Page } from '../components/page.tsx';
import { useDeviceNames, useNames, useSnapshot, useRights, useStatuses } from '../state/organization.ts';
import { Empty } from '../components/placeholders.tsx';
import { GroupLink } from '../components/record-link.tsx';

/** Rules in one line. */
/** Rules that a line shows. */
const shownRules = 3;

function RulesInShort({
  direction,
  rules,
  isGuardrail = false,
}: {
  readonly direction: Direction;
  readonly rules: readonly StoredRule[];
  /** It never opens or closes the rest of a direction: without rules it says nothing about it. */
  readonly isGuardrail?: boolean;
}): ReactNode {
  const names = useDeviceNames();
  if (rules.length === 0 && isGuardrail) return null;
  if (rules.length === 0) return <span className="dimmed">{meaningInShort[direction]}</span>;
  const all = summarize(rules, names);
  const [arrow, word] = direction === 'inbound' ? ['←', 'from'] : ['→', 'to'];
  return (
    <>
      {all.slice(0, shownRules).map(({ what, farEnd, expiresAt }) => (
        <span key={`${what} ${farEnd} ${expiresAt ?? ''}`} className="brief">
          {what} <span aria-hidden="true">{arrow}</span>
          <span className="visually-hidden">{word}</span> {farEnd}{' '}
          {expiresAt === undefined ? null : <Expiry at={expiresAt} />}
        </span>
      ))}
      {all.length > shownRules ? <span className="dimmed">+{all.length - shownRules}</span> : null}
    </>
  );
}

function Row({
  group,
  use,
  isTold,
  owner,
}: {
  readonly group: SecurityGroup;
  readonly use: GroupUse | undefined;
  /** Whether it is known yet how the devices stand. */
  readonly isTold: boolean;
  readonly owner: string | undefined;
}): ReactNode {
  return (
    <li className="list-row">
      <span className="group-name">
        <GroupLink className="plain-link clip" id={group.id}>
          <strong>{group.group_name}</strong>
        </GroupLink>
        {group.guardrail === undefined ? null : <Tag tone="warn">guardrail: {group.guardrail}</Tag>}
        {group.trial === undefined ? null : <Tag tone="accent">on trial</Tag>}
        {isEnforced(group) ? null : <Tag tone="warn">watch only</Tag>}
        <span className="small dimmed clip group-about">{group.group_description}</span>
      </span>
      {(['inbound', 'outbound'] as const).map((direction) => (
        <span key={direction} className="clip small briefs line">
          <RulesInShort
            direction={direction}
            rules={group[`${direction}_rules`] ?? []}
            isGuardrail={group.guardrail !== undefined}
          />
        </span>
      ))}
      <span className="small dimmed clip only-wide">
        {owner === undefined ? '' : `${owner} · `}
        <Ago at={group.updated_at} />
      </span>
      <span className="corner">
        <UseTag use={use} isTold={isTold && isEnforced(group)} />
      </span>
    </li>
  );
}

/** Whether what the line says is what packets meet. */
function UseTag({ use, isTold }: { readonly use: GroupUse | undefined; readonly isTold: boolean }): ReactNode {
  if (use === undefined) return <Tag>not in use</Tag>;
  const { devices, inForce } = use;
  if (!isTold) return <Tag>{plural(devices, 'device')}</Tag>;
  return (
    <Tag tone={inForce === devices ? 'good' : 'warn'}>
      {grouped(inForce)} of {grouped(devices)} in force
    </Tag>
  );
}

function Section({
  title,
  hint,
  groups,
  uses,
  isTold,
}: {
  readonly title: string;
  readonly hint: string;
  readonly groups: readonly SecurityGroup[];
  readonly uses: ReadonlyMap<string, GroupUse>;
  readonly isTold: boolean;
}): ReactNode {
  const nameOf = useNames();
  const { me } = useRights();
  if (groups.length === 0) return null;
  return (
    <section aria-label={title}>
      <div className="list-section">
        <h2>{title}</h2>
        <span className="small dimmed">{hint}</span>
      </div>
      <ul className="groups">
        {groups.map((group) => (
          <Row
            key={group.id}
            group={group}
            use={uses.get(group.id)}
            isTold={isTold}
            owner={group.user_id === undefined || group.user_id === me.id ? undefined : nameOf(group.user_id)}
          />
        ))}
      </ul>
    </section>
  );
}

/** Everything of a group that a search looks at. */
const searchText = ({
  group_name,
  group_description,
  inbound_rules = [],
  outbound_rules = [],
}: SecurityGroup): string =>
  [group_name, group_description, summaryText(inbound_rules), summaryText(outbound_rules)].join(' ').toLowerCase();

export function GroupsPage(): ReactNode {
  const { org } = useParams({ from: '/o/$org/groups' });
  const { groups: all, devices } = useSnapshot();
  const { me, mayWrite } = useRights();
  const navigate = useNavigate();
  const [text, setText] = useState('');
  const wanted = useDeferredValue(text).trim().toLowerCase();
  const statuses = useStatuses();
  const uses = useMemo(
    () => countUses({ devices, groups: all }, ({ id }) => stateOf(statuses.get(id)) === 'yes'),
    [devices, all, statuses],
  );
  const groups = useMemo(
    () => (wanted === '' ? all : all.filter((group) => searchText(group).includes(wanted))),
    [all, wanted],
  );
  const shared = { org, uses, isTold: statuses.size > 0 };
  const rest = groups.filter(({ is_default }) => is_default !== true);
  return (
    <Page
      title="Groups"
      about={`${
        groups.length === all.length
          ? plural(all.length, 'group')
          : `${grouped(groups.length)} of ${plural(all.length, 'group')}`
      }. A group says what may come in and go out.`}
      actions={
        mayWrite ? (
          <Button
            leftSection={<PlusIcon />}
            onClick={() => void navigate({ to: '/o/$org/groups/new', params: { org } })}
          >
            New group
          </Button>
        ) : undefined
      }
    >
      {all.length > 1 ? (
        <TextInput
          aria-label="Search groups"
          placeholder="Name, description, port or address"
          leftSection={<SearchIcon size={16} />}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          rightSection={
            text === '' ? null : <CloseButton size="sm" aria-label="Clear the search" onClick={() => setText('')} />
          }
        />
      ) : null}
      {groups.length === 0 ? null : (
        <div className="card list list-groups">
          <div className="list-head only-wide small dimmed" aria-hidden="true">
            {['Group', 'Inbound', 'Outbound', 'Changed', 'On devices'].map((title) => (
              <span key={title}>{title}</span>
            ))}
          </div>
          <Section
            title="Default group"
            hint="Applies to every device that carries no group."
            groups={groups.filter(({ is_default }) => is_default === true)}
            {...shared}
          />
          <Section
            title="Yours"
            hint="Only you change these."
            groups={groups.filter(({ user_id }) => user_id === me.id)}
            {...shared}
          />
          <Section
            title="The organization's"
            hint="Owners change these; every device may carry them."
            groups={rest.filter(({ user_id }) => user_id === undefined)}
            {...shared}
          />
          <Section
            title="Of other members"
            hint="Visible while a device of the organization uses them."
            groups={rest.filter(({ user_id }) => user_id !== undefined && user_id !== me.id)}
            {...shared}
          />
        </div>
      )}
      {groups.length === 0 ? (
        <div className="card">
          <Empty
            title="No group matches"
            action={
              <Button variant="default" onClick={() => setText('')}>
                Show every group
              </Button>
            }
          >
            Search looks at names, descriptions, protocols, ports and addresses.
          </Empty>
        </div>
      ) : null}
      {all.length <= 1 ? (
        <div className="card">
          <Empty icon={<GroupIcon size={40} />} title="Only the default group so far">
            Write a group for a kind of device, such as web servers, and attach it. The default group then no longer
            applies there.
          </Empty>
        </div>
      ) : null}
    </Page>
  );
}

/** Owns the list of groups: the default one, the organization's, one's own, and those of others that are in use. */
import { Button } from '@mantine/core';
import { Link, useNavigate, useParams } from '@tanstack/react-router';
import { useMemo, type ReactNode } from 'react';
import type { SecurityGroup } from '../../api/group.ts';
import { GroupIcon, PlusIcon } from '../components/icons.tsx';
import { countUses } from '../model/device-policy.ts';
import { plural } from '../model/rule-text.ts';
import { Empty } from '../components/placeholders.tsx';
import { Tag } from '../components/tag.tsx';
import { Ago } from '../components/time.tsx';
import { useNames, useSnapshot, useRights } from '../state/organization.ts';

function Section({
  title,
  hint,
  groups,
  org,
  uses,
}: {
  readonly title: string;
  readonly hint: string;
  readonly groups: readonly SecurityGroup[];
  readonly org: string;
  readonly uses: ReadonlyMap<string, number>;
}): ReactNode {
  const nameOf = useNames();
  if (groups.length === 0) return null;
  return (
    <section className="card" aria-label={title}>
      <div className="card-head">
        <h2>{title}</h2>
        <span className="small dimmed">{hint}</span>
      </div>
      <ul className="group-list">
        {groups.map((group) => {
          const used = uses.get(group.id) ?? 0;
          const inbound = group.inbound_rules?.length ?? 0;
          const outbound = group.outbound_rules?.length ?? 0;
          return (
            <li key={group.id}>
              <div className="grow stack tight">
                <Link className="plain-link" to="/o/$org/groups/$group" params={{ org, group: group.id }}>
                  <strong>{group.group_name}</strong>
                </Link>
                {group.group_description === '' ? null : <p className="small dimmed clip">{group.group_description}</p>}
                <p className="small dimmed">
                  {inbound === 0 ? 'inbound closed' : plural(inbound, 'inbound rule')},{' '}
                  {outbound === 0 ? 'outbound open' : plural(outbound, 'outbound rule')}
                  {group.user_id === undefined ? '' : ` · ${nameOf(group.user_id)}`} · changed{' '}
                  <Ago at={group.updated_at} />
                </p>
              </div>
              <Tag tone={used > 0 ? 'accent' : 'plain'}>{used === 0 ? 'not in use' : plural(used, 'device')}</Tag>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

export function GroupsPage(): ReactNode {
  const { org } = useParams({ from: '/o/$org/groups' });
  const { groups, devices, defaultGroup } = useSnapshot();
  const { me, mayWrite } = useRights();
  const navigate = useNavigate();
  const uses = useMemo(() => countUses({ devices, defaultGroup }), [devices, defaultGroup]);
  const shared = { org, uses };
  const mine = groups.filter(({ user_id }) => user_id === me.id);
  const rest = groups.filter(({ is_default }) => is_default !== true);
  return (
    <div className="page">
      <div className="page-head">
        <div>
          <h1>Groups</h1>
          <p className="dimmed">A group says what may come in and go out. Each device has a list of them.</p>
        </div>
        {mayWrite ? (
          <Button
            leftSection={<PlusIcon />}
            onClick={() => void navigate({ to: '/o/$org/groups/new', params: { org } })}
          >
            New group
          </Button>
        ) : null}
      </div>
      <Section
        title="Default group"
        hint="Applies to every device that carries no group."
        groups={groups.filter(({ is_default }) => is_default === true)}
        {...shared}
      />
      <Section title="Yours" hint="Only you change these." groups={mine} {...shared} />
      <Section
        title="The organization's"
        hint="The owner changes these; every device may carry them."
        groups={rest.filter(({ user_id }) => user_id === undefined)}
        {...shared}
      />
      <Section
        title="Of other members"
        hint="Visible while a device of the organization uses them."
        groups={rest.filter(({ user_id }) => user_id !== undefined && user_id !== me.id)}
        {...shared}
      />
      {rest.length === 0 ? (
        <div className="card">
          <Empty icon={<GroupIcon size={40} />} title="Only the default group so far">
            Write a group for a kind of device, such as web servers, and attach it. The default group then no longer
            applies there.
          </Empty>
        </div>
      ) : null}
    </div>
  );
}

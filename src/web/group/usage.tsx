/** Owns the usage of a group's rules on its page: what each of them decided of the observed traffic, and a draft without those that nothing uses. */
import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { SecurityGroup } from '../../api/group.ts';
import type { RuleUsage } from '../../api/usage/rule-usage.ts';
import { ruleInSentence } from '../../client/words/rule.ts';
import { shareNote, usageSummary, usageWords } from '../../client/words/usage.ts';
import { Tag } from '../components/tag.tsx';
import { Ago } from '../components/time.tsx';
import { Card } from '../components/page.tsx';
import { plural } from '../model/rule-text.ts';
import { useDeviceNames } from '../state/fleet.ts';
import { useRights } from '../state/organization.ts';
import { useSession } from '../state/session.ts';

const tones = { used: 'accent', unused: 'warn', unknown: 'plain' } as const;

/** For those who may read it. */
export function GroupRuleUsage({
  group,
  draftWithout,
  canDraft,
}: {
  readonly group: SecurityGroup;
  /** Begins a draft without these rules. */
  readonly draftWithout: (unused: readonly RuleUsage[]) => void;
  /** False while there is work that such a draft would wipe away. */
  readonly canDraft: boolean;
}): ReactNode {
  const { client } = useSession();
  const { editGroup } = useRights();
  const names = useDeviceNames();
  const mayRead = editGroup(group);
  const { data } = useQuery({
    queryKey: ['usage', group.org_id, group.id, group.revision],
    queryFn: ({ signal }) =>
      client.request('readSecurityGroupUsage', { params: { org_id: group.org_id, sg_id: group.id }, signal }),
    enabled: mayRead,
    retry: false,
  });
  const usage = data?.value;
  if (usage === undefined || usage.rules.length === 0) return null;
  const unused = usage.rules.filter(({ state }) => state === 'unused');
  return (
    <Card
      title="Usage"
      about={
        <span className="small dimmed">
          {usageSummary(usage)}. It counts the traffic of the last seven days. {shareNote(usage)}
        </span>
      }
    >
      <div className="table-scroll">
        <table className="table table-usage">
          <thead>
            <tr>
              <th scope="col">Rule</th>
              <th scope="col">Usage</th>
              <th scope="col">Traffic</th>
              <th scope="col">Last hit</th>
            </tr>
          </thead>
          <tbody>
            {usage.rules.map((one) => {
              const rule = group[`${one.direction}_rules`]?.[one.rule];
              return rule === undefined ? null : (
                <tr key={`${one.direction} ${one.rule}`}>
                  <td className="usage-rule">
                    {one.direction === 'inbound' ? 'in' : 'out'} {ruleInSentence(one.direction, rule, names)}
                  </td>
                  <td>
                    <Tag tone={tones[one.state]}>{one.state}</Tag>
                  </td>
                  <td className="small">{usageWords(one)}</td>
                  <td className="small">{one.last_hit === undefined ? '' : <Ago at={one.last_hit} />}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {unused.length === 0 ? null : (
        <div className="card-body">
          <Button variant="default" disabled={!canDraft} onClick={() => draftWithout(unused)}>
            Draft without the {plural(unused.length, 'unused rule')}
          </Button>
        </div>
      )}
    </Card>
  );
}

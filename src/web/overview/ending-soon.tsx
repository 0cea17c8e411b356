/** Owns what ends soon: rules that expire, enrollment keys of the organization and one's own tokens, while there is time to act. */
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { ClockIcon, KeyIcon } from '../components/icons.tsx';
import { Ago } from '../components/time.tsx';
import { Card } from '../components/page.tsx';
import { endingSoon } from '../model/expiry.ts';
import { plural } from '../model/rule-text.ts';
import { useDeviceNames } from '../state/fleet.ts';
import { useSnapshot } from '../state/organization.ts';
import { useSession } from '../state/session.ts';

const everyMs = 60_000;

export function EndingSoon({ org }: { readonly org: string }): ReactNode {
  const { client } = useSession();
  const keys = useQuery({
    queryKey: ['keys', org],
    queryFn: ({ signal }) => client.enrollmentKeys.list(org, { signal }),
    refetchInterval: everyMs,
  });
  const tokens = useQuery({
    queryKey: ['tokens', 'user'],
    // An owner of devices has a token for each: thousands, none of which expires.
    queryFn: ({ signal }) => client.tokens.list({ kind: 'user', signal }),
    refetchInterval: everyMs,
  });
  const { groups } = useSnapshot();
  const names = useDeviceNames();
  const ending = endingSoon({ keys: keys.data ?? [], tokens: tokens.data ?? [], groups, names, now: Date.now() });
  return (
    <Card title="Ends soon" dense>
      {ending.length === 0 ? (
        <p className="card-body small dimmed">
          No rule, no enrollment key and none of your tokens ends within two weeks.
        </p>
      ) : (
        <ul className="feed feed-dense">
          {ending.map(({ id, kind, name, at, usesLeft, group }) => (
            <li key={id}>
              {kind === 'rule' ? <ClockIcon size={16} /> : <KeyIcon size={16} />}
              <span className="grow">
                {group === undefined ? (
                  <Link className="plain-link" to={kind === 'key' ? '/o/$org/keys' : '/o/$org/tokens'} params={{ org }}>
                    <strong>{name}</strong>
                  </Link>
                ) : (
                  <Link className="plain-link" to="/o/$org/groups/$group" params={{ org, group: group.id }}>
                    <strong>{name}</strong>
                  </Link>
                )}{' '}
                <span className="small dimmed">
                  {kind === 'key'
                    ? `key, ${plural(usesLeft ?? 0, 'device')} left`
                    : kind === 'rule'
                      ? `rule of ${group?.group_name ?? ''}`
                      : 'your token'}
                </span>
              </span>
              <span className="small">
                <Ago at={at} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

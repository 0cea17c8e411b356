/** Owns the lists of the overview: what needs attention, the worst first and many alike as one line, what ends soon, and the last changes. */
import { Link } from '@tanstack/react-router';
import { useMemo, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import { inForceAdvice, inForceMeanings, mostUrgentFirst, type InForce } from '../../api/enforcement/in-force.ts';
import type { Overview } from '../../api/enforcement/overview.ts';
import { CheckIcon, ClockIcon, KeyIcon } from '../components/icons.tsx';
import { Empty } from '../components/placeholders.tsx';
import { Tag, Ago, Card } from '../components/page.tsx';
import { stateTitle, stateTones } from '../device/device-state.tsx';
import { plural } from '../../client/words/number.ts';
import { deviceName, useSnapshot, useDeviceNames, useRights, useLive } from '../state/organization.ts';
import { useQuery } from '@tanstack/react-query';
import { endingSoon } from '../model/expiry.ts';
import { useSession } from '../state/session.ts';
import { foldEntries } from '../../client/words/log-lines.ts';
import { DeedWords, useSentenceNames } from '../activity/entry.tsx';
import { isQuiet } from '../model/activity.ts';
import { useAskedOnChange } from '../state/overview.ts';
import { DeviceLink, GroupLink } from '../components/record-link.tsx';

/** As many have a line each; more in the same state share one. */
const mostAlone = 2;
const shownIsolated = 8;
const shownNames = 5;

type Urgent = Overview['urgent'][number];

const countOf = (overview: Overview, word: InForce): number => (word === 'yes' ? overview.in_force : overview[word]);

/** `have never reported`, of several devices. */
const pluralMeanings: { readonly [Word in InForce]: string } = {
  yes: 'enforce their policy as they should',
  behind: 'are connected and have not reported the last change yet',
  failed: 'could not put their policy in force, or enforce another one',
  reverted: 'put the policy before back in force',
  offline: 'are offline and have not confirmed the last change',
  never_seen: 'have never reported',
  not_understood: 'hold their last policy, because their agents do not understand the new one',
};

function Why({ summary, word }: { readonly summary: string; readonly word: InForce }): ReactNode {
  const advice = inForceAdvice[word];
  return (
    <details className="small dimmed urgent-why">
      <summary>{summary}</summary>
      {advice === undefined ? null : <p>What to do: {advice}.</p>}
    </details>
  );
}

function UrgentDevice({ device }: { readonly device: Urgent }): ReactNode {
  const { device_id, hostname, in_force, detail, last_seen_at } = device;
  const known = useSnapshot().deviceById.get(device_id);
  const name = known === undefined ? hostname || 'a device' : deviceName(known);
  return (
    <li className="urgent">
      <Tag tone={stateTones[in_force]}>{stateTitle(in_force)}</Tag>
      <DeviceLink className="plain-link clip" id={device_id}>
        <strong>{name}</strong>
      </DeviceLink>
      <Why summary={detail ?? inForceMeanings[in_force]} word={in_force} />
      <span className="small dimmed urgent-seen">
        {last_seen_at === undefined ? 'never seen' : <Ago at={last_seen_at} />}
      </span>
    </li>
  );
}

/** Devices in the same state: how many, what that means, the first of them, and the way to all. */
function UrgentState({ word, overview }: { readonly word: InForce; readonly overview: Overview }): ReactNode {
  const { id: org } = useLive();
  const { deviceById } = useSnapshot();
  const named = overview.urgent.filter(({ in_force }) => in_force === word);
  const count = countOf(overview, word);
  if (count <= mostAlone && named.length === count)
    return named.map((device) => <UrgentDevice key={device.device_id} device={device} />);
  const names = named.slice(0, shownNames).map(({ device_id, hostname }) => {
    const device = deviceById.get(device_id);
    return device === undefined ? hostname || 'a device' : deviceName(device);
  });
  const more = count - names.length;
  const reasons = [...new Set(named.flatMap(({ detail }) => detail ?? []))];
  return (
    <li className="urgent">
      <Tag tone={stateTones[word]}>{stateTitle(word)}</Tag>
      <Link className="plain-link" to="/o/$org/devices" params={{ org }} search={{ state: word }}>
        <strong>{plural(count, 'device')}</strong>
      </Link>
      <Why
        summary={`${reasons.length === 1 ? (reasons[0] ?? '') : pluralMeanings[word]}: ${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}`}
        word={word}
      />
      <Link className="link small urgent-seen" to="/o/$org/devices" params={{ org }} search={{ state: word }}>
        Show them
      </Link>
    </li>
  );
}

/** It stays on top until somebody releases the device. */
function IsolatedDevice({ device }: { readonly device: Device }): ReactNode {
  const { isolated } = device;
  return (
    <li className="urgent">
      <Tag tone="bad">Isolated</Tag>
      <DeviceLink className="plain-link clip" id={device.id}>
        <strong>{deviceName(device)}</strong>
      </DeviceLink>
      <span className="small dimmed urgent-why">{isolated?.reason}</span>
      <span className="small dimmed urgent-seen">
        {isolated?.until === undefined ? (
          'no end'
        ) : (
          <>
            ends <Ago at={isolated.until} />
          </>
        )}
      </span>
    </li>
  );
}

export function Attention({ overview }: { readonly overview: Overview }): ReactNode {
  const { devices } = useSnapshot();
  const isolated = useMemo(() => devices.filter((device) => device.isolated !== undefined), [devices]);
  const words = mostUrgentFirst.filter((word) => word !== 'yes' && countOf(overview, word) > 0);
  const moreIsolated = isolated.length - shownIsolated;
  return (
    <Card title="Needs attention" dense>
      {words.length + isolated.length === 0 ? (
        <Empty icon={<CheckIcon size={32} />} title="All is well">
          Every device has its policy in force. Devices that fail, go offline or fall behind appear here.
        </Empty>
      ) : (
        <ul className="rows">
          {isolated.slice(0, shownIsolated).map((device) => (
            <IsolatedDevice key={`isolated ${device.id}`} device={device} />
          ))}
          {moreIsolated > 0 ? <li className="urgent small">and {moreIsolated} more isolated</li> : null}
          {words.map((word) => (
            <UrgentState key={word} word={word} overview={overview} />
          ))}
        </ul>
      )}
    </Card>
  );
}

const everyMs = 60_000;

export function EndingSoon(): ReactNode {
  const { id: org } = useLive();
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
        <ul className="rows feed">
          {ending.map(({ id, kind, name, at, usesLeft, group }) => (
            <li key={id}>
              {kind === 'rule' ? <ClockIcon size={16} /> : <KeyIcon size={16} />}
              <span className="grow">
                {group === undefined ? (
                  <Link className="plain-link" to={kind === 'key' ? '/o/$org/keys' : '/o/$org/tokens'} params={{ org }}>
                    <strong>{name}</strong>
                  </Link>
                ) : (
                  <GroupLink className="plain-link" id={group.id}>
                    <strong>{name}</strong>
                  </GroupLink>
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

const shownChanges = 7;
/** For what makes no event: members, keys, sign-ins. */
const deedsEveryMs = 15_000;

/** What people did; what only repeats itself is left to the page of all activity. */
function Deeds(): ReactNode {
  const { id: org } = useLive();
  const { client } = useSession();
  const names = useSentenceNames();
  useAskedOnChange('last changes');
  const { data } = useQuery({
    queryKey: ['last changes', org],
    queryFn: ({ signal }) => client.audit.list(org, { limit: 40, signal }),
    refetchInterval: deedsEveryMs,
  });
  const deeds = data && foldEntries(data.filter((entry) => !isQuiet(entry))).slice(0, shownChanges);
  if (deeds?.length === 0) return <p className="card-body small dimmed">Nothing has changed yet.</p>;
  return (
    <ul className="rows feed">
      {deeds?.map((entries) => (
        <li key={entries[0].id}>
          <span className="grow breaks">
            <DeedWords entries={entries} names={names} />
          </span>
          <span className="small dimmed">
            <Ago at={entries[0].at} />
          </span>
        </li>
      ))}
    </ul>
  );
}

function Records(): ReactNode {
  const { devices, groups } = useSnapshot();
  const latest = useMemo(() => {
    const all = [
      ...devices.map((device) => ({ kind: 'device' as const, name: deviceName(device), ...device })),
      ...groups.map((group) => ({ kind: 'group' as const, name: group.group_name, ...group })),
    ];
    return all.toSorted((a, b) => b.revision - a.revision).slice(0, shownChanges);
  }, [devices, groups]);
  return (
    <ul className="rows feed">
      {latest.map(({ id, kind, name, updated_at }) => (
        <li key={id}>
          <span className="grow">
            {kind === 'device' ? 'Device ' : 'Group '}
            {kind === 'device' ? (
              <DeviceLink id={id}>
                <strong>{name}</strong>
              </DeviceLink>
            ) : (
              <GroupLink className="plain-link" id={id}>
                <strong>{name}</strong>
              </GroupLink>
            )}
          </span>
          <span className="small dimmed">
            <Ago at={updated_at} />
          </span>
        </li>
      ))}
    </ul>
  );
}

export function LastChanges(): ReactNode {
  const { id: org } = useLive();
  const { isOwner } = useRights();
  return (
    <Card
      title="Last changes"
      dense
      about={
        <Link className="link small" to="/o/$org/activity" params={{ org }}>
          All activity
        </Link>
      }
    >
      {isOwner ? <Deeds /> : <Records />}
    </Card>
  );
}
